// Records of the stream log's files.
//
//   segment 00000017.log:  record record record …      (framed by base/records.ts; little-endian)
//   batch    | table bytes u32 | table | bytes |            messages of a node, as GeyserBatch
//   era      an EraRecord: what was published while a slot was the newest, by reference to the
//            batches that lie before it; each commitment's list on its own, as a reader needs one
import { deserialize, serialize } from 'node:v8'
import type { Commitment } from '../../base/commitment.ts'
import {
  encodeRecord,
  headBytes,
  payloadOf,
  type RecordParts,
  sealRecord,
} from '../../base/records.ts'
import type { GeyserBatch } from '../../chain/solana/geyser-batch.ts'

export const recordKind = { batch: 1, era: 3 } as const
const tableLengthBytes = 4

/** Positions of a batch that were published in a row. */
export interface KeptRun {
  readonly kind: 'run'
  /** The era whose batches contain it, and which of them it is. */
  readonly era: number
  readonly batch: number
  readonly start: number
  readonly end: number
  /** All slots in it; absent in files of early releases, of which each run is read. */
  readonly slots?: readonly number[]
}

export interface KeptUpdate {
  readonly kind: 'update'
  /** A slot or a block meta: a plain object. */
  readonly update: unknown
}

export interface KeptRetraction {
  readonly kind: 'retraction'
  readonly update: unknown
  /** What is valid of it nevertheless. */
  readonly restated: readonly KeptElement[]
}

export interface KeptBlock {
  readonly kind: 'block'
  readonly slot: number
  readonly meta: unknown
  readonly isMixed: boolean
  readonly hasVoid?: boolean
  readonly items: readonly KeptRun[]
}

export type KeptElement = KeptRun | KeptUpdate | KeptBlock | KeptRetraction

export interface Finalized {
  readonly slot: number
  readonly blockhash: string
}

export interface EraContent {
  readonly slot: number
  /** The newest slot that was finalized before the era ended. */
  readonly finalized: Finalized | null
  readonly lists: readonly (readonly KeptElement[])[]
}

export interface EraRecord extends EraContent {
  /** Start of the server that wrote it; eras of a run have ascending slots. */
  readonly run: number
  readonly atMs: number
  /** Position and length of each of its batches' records in the same file; eras may share one. */
  readonly batches: readonly (readonly [at: number, bytes: number])[]
}

/** What is read of it. */
export interface ReadEra extends Omit<EraRecord, 'lists'> {
  list(commitment: Commitment): readonly KeptElement[]
}

interface EncodedEra extends Omit<EraRecord, 'lists'> {
  readonly lists: readonly Buffer[]
}

/** Writes a batch as a record that lacks its head. */
function layOutBatch(record: Buffer, table: Uint8Array, bytes: Uint8Array): void {
  const tableAt = headBytes + tableLengthBytes
  record.writeUInt32LE(table.length, headBytes)
  record.set(table, tableAt)
  record.set(bytes, tableAt + table.length)
}

/** Completes a batch that was laid out: in its place, or compressed in another one. */
export function sealBatch(record: Buffer, zstd: boolean): Buffer {
  if (zstd) return Buffer.concat(encodeRecord(recordKind.batch, [record.subarray(headBytes)], true))
  return sealRecord(recordKind.batch, record)
}

/** Null when it is damaged. Takes the record: a table is moved to where its numbers may lie. */
export function decodeBatch(record: Buffer): GeyserBatch | null {
  const payload = payloadOf(record, recordKind.batch)
  if (payload === null || payload.length < tableLengthBytes) return null
  const tableBytes = payload.readUInt32LE(0)
  const end = tableLengthBytes + tableBytes
  if (tableBytes % Float64Array.BYTES_PER_ELEMENT !== 0 || end > payload.length) return null
  const bytes = payload.subarray(end)
  const table = aligned(payload.subarray(tableLengthBytes, end), payload.buffer === record.buffer)
  return { bytes, table, messageBytes: bytes.length }
}

/** `isBehindHead`: what lies before it is the head of its record, which was read. */
function aligned(table: Buffer, isBehindHead: boolean): GeyserBatch['table'] {
  const { BYTES_PER_ELEMENT: wide } = Float64Array
  // Reason for the cast: what is read from a file is not in shared memory.
  const memory = isBehindHead ? (table.buffer as ArrayBuffer) : new ArrayBuffer(table.length)
  const at = isBehindHead ? table.byteOffset - (table.byteOffset % wide) : 0
  new Uint8Array(memory, at, table.length).set(table)
  return new Float64Array(memory, at, table.length / wide)
}

export function encodeEra({ lists, ...era }: EraRecord): RecordParts {
  const encoded: EncodedEra = { ...era, lists: lists.map((list) => serialize(list)) }
  return encodeRecord(recordKind.era, [serialize(encoded)])
}

/** Null when it is damaged. */
export function decodeEra(record: Buffer): ReadEra | null {
  const payload = payloadOf(record, recordKind.era)
  if (payload === null) return null
  // Reason for the casts: the checksum holds, and only `encodeEra` writes such a record.
  const { lists, ...era } = deserialize(payload) as EncodedEra
  return { ...era, list: (commitment) => deserialize(lists[commitment]!) as KeptElement[] }
}

// Memory in which batches reach the thread that writes them: bounded, and passed to and fro. Not
// shared, as a copy to shared memory takes 1.6 times as long.
//
//   chunk   | room for a head | batch | room for a head | batch | …   records, see the format

/** A turn's worth, see `turnBytes`; a longer batch is sent in memory of its own. */
const chunkBytes = 1024 * 1024
/** While as much is with the thread, batches wait where they are. */
export const lentBytesMax = 8 * chunkBytes

/** Records without heads, one behind the other, by their ends. */
export interface LaidOut {
  readonly chunk: ArrayBuffer
  readonly ends: readonly number[]
}

export class BatchChunks {
  readonly #post: (laidOut: LaidOut) => void
  readonly #free: ArrayBuffer[] = []
  #lentBytes = 0
  #current: Buffer<ArrayBuffer> | null = null
  #ends: number[] = []

  constructor(post: (laidOut: LaidOut) => void) {
    this.#post = post
  }

  /** False while too much is lent: the batch is to be added again after some is given back. */
  add(table: Uint8Array, bytes: Uint8Array): boolean {
    const needed = headBytes + tableLengthBytes + table.length + bytes.length
    if (this.#current !== null && this.#at + needed > this.#current.length) this.flush()
    this.#current ??= this.#take(needed)
    if (this.#current === null) return false
    layOutBatch(this.#current.subarray(this.#at, this.#at + needed), table, bytes)
    this.#ends.push(this.#at + needed)
    return true
  }

  /** Posts what was added since the last one. */
  flush(): void {
    if (this.#current === null || this.#ends.length === 0) return
    const chunk = this.#current.buffer
    this.#lentBytes += chunk.byteLength
    this.#post({ chunk, ends: this.#ends })
    this.#current = null
    this.#ends = []
  }

  /** The thread has written, or passed over, what is in one. */
  giveBack(chunk: ArrayBuffer): void {
    this.#lentBytes = Math.max(0, this.#lentBytes - chunk.byteLength)
    if (chunk.byteLength === chunkBytes) this.#free.push(chunk)
  }

  /** What the thread has not given back by now does not come: it ended meanwhile. */
  forgetLent(): void {
    this.#lentBytes = 0
  }

  get #at(): number {
    return this.#ends.at(-1) ?? 0
  }

  #take(needed: number): Buffer<ArrayBuffer> | null {
    if (this.#lentBytes >= lentBytesMax) return null
    if (needed > chunkBytes) return Buffer.from(new ArrayBuffer(needed))
    return Buffer.from(this.#free.pop() ?? new ArrayBuffer(chunkBytes))
  }
}
