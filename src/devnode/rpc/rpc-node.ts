// What the RPC methods of the devnode read. Thread: main of the devnode (types only).
import type { Shapes } from '../../chain/solana/version.ts'
import type { LocalChain } from '../chain.ts'
import type { Ledger } from '../ledger/ledger.ts'

/** What the methods read. */
export interface RpcNode {
  readonly chain: LocalChain
  readonly ledger: Ledger
  /** As in getVersion; included in every context. */
  readonly apiVersion: string
  readonly shapes: Shapes
  readonly cluster: RpcCluster
}

/** The nodes that share the chain; one unless it is a cluster. */
export interface RpcCluster {
  readonly nodes: readonly RpcPeer[]
  /** Index of the node that leads a slot. */
  leaderOf(slot: number): number
  isMigrated(slot: number): boolean
  /** The block that Alpenglow began after, seen from a slot; null where it does not run. */
  genesisBlock(slot: number): { readonly slot: number; readonly blockId: Uint8Array } | null
}

/** Stops and starts the endpoints of single nodes. */
export interface NodeSwitch {
  readonly count: number
  turnOn(node: number): Promise<void>
  turnOff(node: number): Promise<void>
}

export interface RpcPeer {
  /** Base58. */
  readonly identity: string
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
