// Messages from the feeds to the writer process: encoded bytes as the logs store them, plus a few
// facts. The writer process turns them into rows.
//
//   main thread                                         writer process
//   feed/: log, hub, tips, usage -> Delivery -> pipe -> rows/ -> RowSink
import type { FrameFacts, LogKind } from '../streams/log/encoded.ts'
import type { Marks } from './engine.ts'

/** One message to the writer, acknowledged as a whole. */
export interface Delivery {
  readonly parcels: readonly Parcel[]
  /** Position of each feed once this delivery is durable. */
  readonly marks: Marks
}

/** One update for the index, with what the outbox must know about it. */
export type Parcel = {
  readonly bytes: number
  /** Monotonic milliseconds at which the update happened. */
  readonly sinceMs: number
  /** Position of its feed once this parcel is durable; null when it does not advance. */
  readonly mark: number | null
} & (
  | { readonly feed: 'slots'; readonly content: SlotParcel; readonly cut: Cut | null }
  | { readonly feed: 'events'; readonly content: EventParcel }
  | { readonly feed: 'tips'; readonly content: TipFact }
  | { readonly feed: 'usage'; readonly content: UsageFact }
)

/**
 * The index has slots up to `to`. When its block at `from` has another hash, the chain restarted
 * there: the rows of `from` to `to` are deleted before the rest is written.
 */
export interface Cut {
  readonly from: number
  readonly to: number
  readonly blockhash: string
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

/** A frame of the event log: its JSON payload, and facts that are not in the payload. */
export interface EventParcel {
  readonly seq: number
  readonly kind: LogKind
  readonly payload: Uint8Array
  readonly facts: FrameFacts | null
}

/** How a submission to the TPU Sender ended. */
export interface TipFact {
  readonly receivedAtMs: number
  readonly signature: string
  readonly feePayer: string
  readonly tipAccount: string
  readonly lamports: bigint
  readonly outcome: string
  readonly reason: string
  readonly landedSlot: number
}

/** A query that ended. */
export interface UsageFact {
  readonly subscription: string
  readonly atMs: number
  readonly queryId: string
  readonly elapsedMs: number
  readonly rows: number
  readonly bytes: number
  /** 0 when it succeeded, else ClickHouse's error code. */
  readonly code: number
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
