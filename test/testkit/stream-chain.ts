// A chain that a test publishes to a hub slot by slot, as the slot tracker does.
import { Commitment } from '../../src/base/commitment.ts'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import {
  accountUpdate,
  blockMetaUpdate,
  slotUpdate,
} from '../../src/chain/solana/received-batch.ts'
import type { SlotStatus } from '../../src/chain/solana/updates.ts'
import { openSolanaHub, publishUpdate } from '../../src/streams/geyser/hub.ts'

export interface Written {
  readonly pubkey: Uint8Array
  readonly lamports: number
  readonly owner?: Uint8Array
  readonly data?: Uint8Array
}

/** An account that benches read. */
export const hotAccount = new Uint8Array(32).fill(5)

/** For answers that keep no accounts. */
export const noAccounts = { bytesMax: 0, read: async () => null }

/** For answers from a stream that is live, of a node of our version. */
export const streamDeps = {
  isLive: () => true,
  apiVersion: () => '4.0.0',
  nodeVersion: () => '4.0.0',
  accounts: noAccounts,
  blocks: { bytesMax: 1_000_000 },
}

export const hashOf = (slot: number, fork = 0): string =>
  encodeBase58(
    new Uint8Array(32)
      .fill(fork, 16)
      .fill(slot % 251, 0, 8)
      .fill(7, 8, 16),
  )

export class StreamChain {
  readonly hub = openSolanaHub()
  #writes = 0n

  /** Everything of a slot up to its meta; `isWhole` false leaves the block itself out. */
  block(
    slot: number,
    options: {
      readonly parent?: number
      readonly writes?: readonly Written[]
      readonly fork?: number
      readonly parentFork?: number
      readonly isWhole?: boolean
      readonly isMixed?: boolean
      readonly height?: number | null
    } = {},
  ): void {
    const { parent = slot - 1, fork = 0, parentFork = 0, height = slot } = options
    const moment = { slot, createdAtMs: 0 }
    for (const written of options.writes ?? []) this.write(slot, written)
    const meta = blockMetaUpdate(moment, {
      blockhash: hashOf(slot, fork),
      parentSlot: parent,
      parentBlockhash: hashOf(parent, parentFork),
      blockHeight: height,
      blockTime: 1,
      executedTransactionCount: 0,
      entriesCount: 0,
      rewards: [],
    })
    const { isMixed = false } = options
    const content = { meta, isMixed, transactions: [], accounts: [], entries: [] }
    if (options.isWhole !== false) publishUpdate(this.hub, { kind: 'block', ...moment, ...content })
    publishUpdate(this.hub, meta)
  }

  write(slot: number, written: Written): void {
    const moment = { slot, createdAtMs: 0 }
    const content = {
      owner: new Uint8Array(32),
      data: new Uint8Array(0),
      ...written,
      lamports: BigInt(written.lamports),
      executable: false,
      rentEpoch: 18446744073709551615n,
      writeVersion: ++this.#writes,
      txnSignature: null,
    }
    publishUpdate(this.hub, accountUpdate(moment, content))
  }

  reach(slot: number, ...statuses: SlotStatus[]): void {
    for (const status of statuses)
      publishUpdate(this.hub, slotUpdate({ slot, createdAtMs: 0 }, { parent: null, status }))
  }

  /** Whole confirmed blocks; those `depth` slots back are finalized. */
  grow(
    from: number,
    to: number,
    options: Parameters<StreamChain['block']>[1] = {},
    depth = 3,
  ): void {
    for (let slot = from; slot <= to; slot++) {
      this.block(slot, options)
      this.reach(slot, Commitment.processed, Commitment.confirmed)
      if (slot - depth >= from) this.reach(slot - depth, Commitment.finalized)
    }
  }
}
