// What the feeds give the writer: encoded bytes as the gateway sends them, plus a few facts.
//
//   feed/: slots, events, tips, usage -> Delivery -> rows/ -> RowSink
import type { Marks } from './engine.ts'
import type { EventFact, FactMark, TipFact, UsageFact } from './feed-items.ts'

/** Parcels that are written together. */
export interface Delivery {
  readonly parcels: readonly Parcel[]
  /** Position of each feed once this delivery is durable. */
  readonly marks: Marks
}

/** One update for the index, with what the intake must know about it. */
export type Parcel = {
  readonly bytes: number
  /** Monotonic milliseconds at which the update happened. */
  readonly sinceMs: number
  /** Position of its feed once this parcel is durable; null when it does not advance. */
  readonly mark: number | null
  /** Where the gateway's feed continues after it; of an item. */
  readonly cursor?: FeedCursor
} & (
  | { readonly feed: 'slots'; readonly content: SlotParcel; readonly cut: Cut | null }
  | { readonly feed: 'events'; readonly content: EventFact }
  | { readonly feed: 'tips'; readonly content: TipFact }
  | { readonly feed: 'usage'; readonly content: UsageFact }
)

/** Where a reader is in a feed of the gateway; in whatever run for ''. */
export interface FeedCursor {
  readonly run: string
  readonly seq: number
}

/** Of the events, and the last fact of each run of a gateway. */
export type FeedCursors = Readonly<{ events?: FeedCursor; [run: FactMark]: number }>

/**
 * A slot that the index may have. When its block at `from` has another hash, the chain restarted
 * there: the rows from there on are deleted before the rest is written.
 */
export interface Cut {
  readonly from: number
  readonly blockhash: string
  readonly indexed: Indexed
}

/** The index may have slots up to `to`. One object for all slots of a stream. */
export interface Indexed {
  readonly to: number
}

/** A confirmed slot, or one piece of a large one. */
export interface SlotParcel {
  readonly slot: number
  /** Seconds since 1970; 0 when it is not known. */
  readonly blockTime: number
  /** Set in the last piece. */
  readonly block: BlockFacts | null
  /** One encoded SubscribeUpdateTransactionInfo each. */
  readonly transactions: readonly Uint8Array[]
  /** Records of `packAccounts`. */
  readonly accounts: Uint8Array
}

export interface BlockFacts {
  readonly parentSlot: number
  readonly blockhash: string
  readonly height: number
  readonly txCount: number
}

/** A write of an account, without its data: only the length is kept. */
export interface AccountFact {
  readonly pubkey: Uint8Array
  readonly owner: Uint8Array
  readonly lamports: bigint
  readonly writeVersion: bigint
  readonly dataBytes: number
  /** Index in the block of the transaction that wrote it; `noTransaction` when none did. */
  readonly index: number
}

export const noTransaction = 0xffffffff

// pubkey[32] owner[32] lamports u64 write version u64 data length u32 index u32, little-endian
export const accountRecordBytes = 88

export function packAccounts(accounts: readonly AccountFact[]): Buffer {
  const bytes = Buffer.allocUnsafe(accounts.length * accountRecordBytes)
  accounts.forEach((account, number) => {
    const at = number * accountRecordBytes
    bytes.set(account.pubkey, at)
    bytes.set(account.owner, at + 32)
    bytes.writeBigUInt64LE(account.lamports, at + 64)
    bytes.writeBigUInt64LE(account.writeVersion, at + 72)
    bytes.writeUInt32LE(account.dataBytes, at + 80)
    bytes.writeUInt32LE(account.index, at + 84)
  })
  return bytes
}

export function* unpackAccounts(packed: Uint8Array): Generator<AccountFact> {
  const bytes = Buffer.from(packed.buffer, packed.byteOffset, packed.length)
  for (let at = 0; at + accountRecordBytes <= bytes.length; at += accountRecordBytes)
    yield {
      pubkey: bytes.subarray(at, at + 32),
      owner: bytes.subarray(at + 32, at + 64),
      lamports: bytes.readBigUInt64LE(at + 64),
      writeVersion: bytes.readBigUInt64LE(at + 72),
      dataBytes: bytes.readUInt32LE(at + 80),
      index: bytes.readUInt32LE(at + 84),
    }
}
