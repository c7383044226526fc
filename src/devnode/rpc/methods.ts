// The JSON-RPC methods of the devnode as one table. Thread: main of the devnode.
import { value } from '../../base/jsonrpc/build.ts'
import type { MethodTable } from '../../base/jsonrpc/serve.ts'
import { solanaVersion } from '../../chain/solana/version.ts'
import type { LocalChain } from '../chain.ts'
import type { CheatCodes } from '../cheat-codes.ts'
import { accountMethods } from './accounts.ts'
import { blockMethods } from './blocks.ts'
import { clusterMethods } from './cluster.ts'
import type { NodeContact, RpcNode } from './rpc-node.ts'
import { submitMethods } from './submit.ts'
import { surfnetMethods } from './surfnet.ts'
import { tokenMethods } from './tokens.ts'
import { transactionMethods } from './transactions.ts'

/** Without `cheats` there are no cheat codes. */
export function embeddedRpcMethods(
  chain: LocalChain,
  contact: () => NodeContact,
  cheats: CheatCodes | null = null,
): MethodTable<unknown> {
  const apiVersion = solanaVersion['solana-core']
  const node: RpcNode = { chain, ledger: chain.ledger, apiVersion, contact }
  return {
    ...accountMethods(node),
    ...tokenMethods(node),
    ...blockMethods(node),
    ...transactionMethods(node),
    ...clusterMethods(node),
    ...submitMethods(node),
    getVersion: () => value(solanaVersion),
    getHealth: () => value('ok'),
    ...(cheats === null ? {} : surfnetMethods(node, cheats)),
  }
}
