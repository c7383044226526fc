// The JSON-RPC methods of the devnode as one table. Thread: main of the devnode.
import { value } from '../../base/jsonrpc/build.ts'
import type { MethodTable } from '../../base/jsonrpc/serve.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import type { CheatCodes, LocalChain } from '../chain.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { accountMethods, tokenMethods } from './accounts.ts'
import { blockMethods, transactionMethods } from './blocks.ts'
import { clusterMethods } from './cluster.ts'
import type { NodeSwitch, RpcCluster, RpcNode } from './rpc-node.ts'
import { submitMethods, surfnetMethods, switchMethods } from './submit.ts'

/** `ledger`: as this node sees the chain. Without `cheating` there are no cheat codes. */
export function embeddedRpcMethods(
  of: {
    readonly chain: LocalChain
    readonly ledger: Ledger
    readonly cluster: RpcCluster
    readonly shapes: Shapes
  },
  cheating: {
    readonly cheats: CheatCodes
    /** Of a cluster; `index` is this node's own. */
    readonly switches: { readonly switches: NodeSwitch; readonly index: number } | null
  } | null = null,
): MethodTable<unknown> {
  const { release } = of.shapes
  const node: RpcNode = { ...of, apiVersion: release['solana-core'] }
  return {
    ...accountMethods(node),
    ...tokenMethods(node),
    ...blockMethods(node),
    ...transactionMethods(node),
    ...clusterMethods(node),
    ...submitMethods(node),
    getVersion: () => value(release),
    getHealth: () => value('ok'),
    ...(cheating === null ? {} : surfnetMethods(node, cheating.cheats)),
    ...(cheating === null || cheating.switches === null ? {} : switchMethods(cheating.switches)),
  }
}
