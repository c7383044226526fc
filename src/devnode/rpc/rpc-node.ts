// What the RPC methods of the devnode read. Thread: main of the devnode (types only).
import type { LocalChain } from '../chain.ts'
import type { Ledger } from '../ledger/ledger.ts'

/** What the methods read. */
export interface RpcNode {
  readonly chain: LocalChain
  readonly ledger: Ledger
  /** As in getVersion; included in every context. */
  readonly apiVersion: string
  contact(): NodeContact
}

/** Where the node is reached; a port is 0 until it listens. */
export interface NodeContact {
  readonly host: string
  readonly rpc: number
  readonly ws: number
  readonly udp: number
  readonly shredVersion: number
}
