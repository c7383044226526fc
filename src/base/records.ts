// Frames of records in files that are appended to.
//
//   record   | length u32 | crc u32 | kind u8 | flags u8 | 0 u16 | payload, length bytes |
//
// All numbers are little-endian. The checksum covers kind, flags and payload: zlib's crc32, or, in
// records that hold most of the bytes, a faster one (flag). A file may end in the middle of a
// record: a process was killed. What precedes it is whole.
import { writeSync, writevSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { checksum } from './checksum.ts'
import { assert } from './errors.ts'
import { compressZstd, decompressZstd } from './zstd.ts'

export const headBytes = 12
/** A batch of updates is one message of at most 64 MiB, or many in slabs of up to 1 MiB. */
const payloadBytesMax = 256 * 1024 * 1024
const kindMax = 15
const flagZstd = 1
/** The checksum is that of checksum.ts. */
const flagSums = 2
const fastest = 1

export interface RecordHead {
  readonly kind: number
  readonly flags: number
  readonly crc: number
  readonly payloadBytes: number
}

/** The parts of a record, in order: what is long is written from where it lies. */
export type RecordParts = readonly Uint8Array[]

export function encodeRecord(kind: number, parts: RecordParts, zstd = false): RecordParts {
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

/** Writes the head of a record whose payload lies behind the room for it. */
export function sealRecord(kind: number, record: Buffer): Buffer {
  record.writeUInt32LE(record.length - headBytes, 0)
  record.writeUInt32LE(kind | (flagSums << 8), 8)
  record.writeUInt32LE(checksum(record.subarray(8)), 4)
  return record
}

export function bytesIn(parts: RecordParts): number {
  const bytes = parts.reduce((sum, { length }) => sum + length, 0)
  assert(bytes <= headBytes + payloadBytesMax, 'a record is bounded')
  return bytes
}

/** Appends the whole record. Throws what the file system throws. */
export function writeRecord(file: number, record: RecordParts): void {
  const bytes = bytesIn(record)
  const written = writevSync(file, record)
  if (written === bytes) return
  // A full disk takes a part of it; the rest then says why.
  const joined = Buffer.concat(record)
  for (let at = written; at < bytes; ) at += writeSync(file, joined, at)
}

/** Null where no head of a record can be. */
export function readHead(bytes: Buffer, at = 0): RecordHead | null {
  if (bytes.length - at < headBytes) return null
  const payloadBytes = bytes.readUInt32LE(at)
  const kind = bytes[at + 8]!
  const isKnown = kind > 0 && kind <= kindMax
  if (!isKnown || payloadBytes > payloadBytesMax || bytes.readUInt16LE(at + 10) !== 0) return null
  return { kind, flags: bytes[at + 9]!, crc: bytes.readUInt32LE(at + 4), payloadBytes }
}

/** The payload of a whole record of that kind; null for another one or a damaged one. */
export function payloadOf(record: Buffer, kind: number): Buffer | null {
  const head = readHead(record)
  if (head === null || head.kind !== kind) return null
  if (record.length !== headBytes + head.payloadBytes) return null
  const checks = (head.flags & flagSums) === 0 ? crc32 : checksum
  if (checks(record.subarray(8)) !== head.crc) return null
  const payload = record.subarray(headBytes)
  if ((head.flags & flagZstd) === 0) return payload
  const plain = decompressZstd(payload, payloadBytesMax)
  return typeof plain === 'string' ? null : plain
}
