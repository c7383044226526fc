// Records of the stream log's files.
//
//   segment 00000017.log:  record record record …                      (all numbers little-endian)
//   record   | length u32 | crc u32 | kind u8 | flags u8 | 0 u16 | payload, length bytes |
//   batch    | table bytes u32 | table | bytes |            messages of a node, as GeyserBatch
//   era      an EraRecord: what was published while a slot was the newest, at each commitment,
//            by reference to the batches that lie before it
//
// The checksum covers kind, flags and payload. A file may end in the middle of a record: a process
// was killed. What precedes it is whole.
import { deserialize, serialize } from 'node:v8'
import { crc32 } from 'node:zlib'
import { assert } from '../../base/assert.ts'
import { compressZstd, decompressZstd } from '../../base/zstd.ts'
import type { GeyserBatch } from '../../chain/solana/geyser-batch.ts'

export const headBytes = 12
/** A batch is one message of at most 64 MiB, or many of 256 KiB. */
const payloadBytesMax = 256 * 1024 * 1024
const flagZstd = 1
const fastest = 1

export const recordKind = { batch: 1, era: 2 } as const
export type RecordKind = (typeof recordKind)[keyof typeof recordKind]

/** Positions of a batch that were published in a row. */
export interface KeptRun {
  readonly kind: 'run'
  /** The era whose batches contain it, and which of them it is. */
  readonly era: number
  readonly batch: number
  readonly start: number
  readonly end: number
  /** Of the last one: a reader that begins above it needs none of them. */
  readonly slot: number
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
  /** Position and length of each of its batches' records in the same file. */
  readonly batches: readonly (readonly [at: number, bytes: number])[]
}

export interface RecordHead {
  readonly kind: number
  readonly flags: number
  readonly crc: number
  readonly payloadBytes: number
}

/** The parts of a record, in order: what is long is written from where it lies. */
export type RecordParts = readonly Uint8Array[]

function encodeRecord(kind: RecordKind, parts: RecordParts, zstd = false): RecordParts {
  const payload = zstd ? [compressZstd(Buffer.concat(parts), fastest)] : parts
  const head = Buffer.alloc(headBytes)
  head.writeUInt32LE(bytesIn(payload), 0)
  head[8] = kind
  head[9] = zstd ? flagZstd : 0
  let crc = crc32(head.subarray(8))
  for (const part of payload) crc = crc32(part, crc)
  head.writeUInt32LE(crc, 4)
  return [head, ...payload]
}

export function bytesIn(parts: RecordParts): number {
  const bytes = parts.reduce((sum, { length }) => sum + length, 0)
  assert(bytes <= headBytes + payloadBytesMax, 'a record is bounded')
  return bytes
}

/** Null where no head of a record can be. */
export function readHead(bytes: Buffer, at = 0): RecordHead | null {
  if (bytes.length - at < headBytes) return null
  const payloadBytes = bytes.readUInt32LE(at)
  const kind = bytes[at + 8]!
  const isKnown = kind === recordKind.batch || kind === recordKind.era
  if (!isKnown || payloadBytes > payloadBytesMax || bytes.readUInt16LE(at + 10) !== 0) return null
  return { kind, flags: bytes[at + 9]!, crc: bytes.readUInt32LE(at + 4), payloadBytes }
}

/** The payload of a whole record of that kind; null for another one or a damaged one. */
export function payloadOf(record: Buffer, kind: RecordKind): Buffer | null {
  const head = readHead(record)
  if (head === null || head.kind !== kind) return null
  if (record.length !== headBytes + head.payloadBytes) return null
  if (crc32(record.subarray(8)) !== head.crc) return null
  const payload = record.subarray(headBytes)
  if ((head.flags & flagZstd) === 0) return payload
  const plain = decompressZstd(payload, payloadBytesMax)
  return typeof plain === 'string' ? null : plain
}

export function encodeBatch(table: Uint8Array, bytes: Uint8Array, zstd: boolean): RecordParts {
  const tableBytes = Buffer.allocUnsafe(4)
  tableBytes.writeUInt32LE(table.length)
  return encodeRecord(recordKind.batch, [tableBytes, table, bytes], zstd)
}

/** Null when it is damaged. */
export function decodeBatch(record: Buffer): GeyserBatch | null {
  const payload = payloadOf(record, recordKind.batch)
  if (payload === null || payload.length < 4) return null
  const tableBytes = payload.readUInt32LE(0)
  const end = 4 + tableBytes
  if (tableBytes % Float64Array.BYTES_PER_ELEMENT !== 0 || end > payload.length) return null
  // Copied: numbers of eight bytes must be aligned.
  const table = new Float64Array(tableBytes / Float64Array.BYTES_PER_ELEMENT)
  new Uint8Array(table.buffer).set(payload.subarray(4, end))
  const bytes = payload.subarray(end)
  return { bytes, table, messageBytes: bytes.length }
}

export function encodeEra(era: EraRecord): RecordParts {
  return encodeRecord(recordKind.era, [serialize(era)])
}

/** Null when it is damaged. */
export function decodeEra(record: Buffer): EraRecord | null {
  const payload = payloadOf(record, recordKind.era)
  // Reason for the cast: the checksum holds, and only `encodeEra` writes such a record.
  return payload === null ? null : (deserialize(payload) as EraRecord)
}
