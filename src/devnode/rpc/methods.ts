// The JSON-RPC methods of the devnode as one table. Thread: main of the devnode.
// getHealth and getVersion are in node.ts.
import type { MethodTable } from '../../jsonrpc/methods.ts'
import type { LocalChain } from '../chain.ts'
import type { CheatCodes } from '../cheat-codes.ts'
import { accountMethods } from './accounts.ts'
import { blockMethods } from './blocks.ts'
import { clusterMethods } from './cluster.ts'
import { submitMethods } from './submit.ts'
import { surfnetMethods } from './surfnet.ts'
import { tokenMethods } from './tokens.ts'
import { transactionMethods } from './transactions.ts'
import type { RpcNode } from './view.ts'

/** `version`: the result of getVersion. Without `cheats` there are no cheat codes. */
export function embeddedRpcMethods(
  chain: LocalChain,
  version: { readonly 'solana-core': string; readonly 'feature-set': number },
  cheats: CheatCodes | null = null,
): MethodTable<unknown> {
  const node: RpcNode = {
    chain,
    ledger: chain.ledger,
    apiVersion: version['solana-core'],
    featureSet: version['feature-set'],
  }
  return {
    ...accountMethods(node),
    ...tokenMethods(node),
    ...blockMethods(node),
    ...transactionMethods(node),
    ...clusterMethods(node),
    ...submitMethods(node),
    ...(cheats === null ? {} : surfnetMethods(node, cheats)),
  }
}
