// The checksum is the sums that wasm/checksum.ts describes, and finds what damages a record.
import { expect, test } from 'vitest'
import { checksum } from '../../../src/base/checksum.ts'
import { encodeRecord, headBytes, payloadOf, sealRecord } from '../../../src/base/records.ts'

const mask = (1n << 64n) - 1n
const bytesOf = (length: number) =>
  Buffer.from(Uint8Array.from({ length }, (_, at) => (at * 2654435761) >>> 24))

/** The same, word by word. */
function expected(bytes: Buffer): number {
  const padded = Buffer.concat([bytes, Buffer.alloc((32 - (bytes.length % 32)) % 32)])
  const [a, b] = [Array<bigint>(8).fill(0n), Array<bigint>(8).fill(0n)]
  for (let at = 0; at < padded.length; at += 4) {
    const lane = (at / 4) % 8
    a[lane]! += BigInt(padded.readUInt32LE(at))
    b[lane]! += a[lane]!
  }
  let hash = BigInt(bytes.length)
  for (const sum of [...a, ...b]) {
    hash = ((hash ^ sum) * 0x9e3779b97f4a7c15n) & mask
    hash ^= hash >> 32n
  }
  return Number(hash & 0xffff_ffffn)
}

test('is the fold of all sums, for any length and any place in memory', () => {
  const pieces = [32 * 1024, 64 * 1024]
  const lengths = [0, 1, 3, 4, 31, 32, 33, 1_000, ...pieces.flatMap((at) => [at - 1, at, at + 1])]
  for (const length of lengths) {
    const moved = bytesOf(length + 3).subarray(3)
    expect(checksum(moved), `${length} bytes`).toBe(expected(moved))
  }
})

test('zeros at the end count', () => {
  const sums = [0, 1, 2, 31, 32, 64].map((length) => checksum(Buffer.alloc(length)))
  expect(new Set(sums).size).toBe(sums.length)
})

test('a record with any bit changed, or two words exchanged, is damaged', () => {
  const record = sealRecord(1, Buffer.concat([Buffer.alloc(headBytes), bytesOf(300)]))
  expect(payloadOf(record, 1)).toEqual(bytesOf(300))
  for (let bit = 0; bit < record.length * 8; bit++) {
    const damaged = Buffer.from(record)
    damaged[bit >> 3]! ^= 1 << (bit & 7)
    expect(payloadOf(damaged, 1), `bit ${bit}`).toBeNull()
  }
  const exchanged = Buffer.from(record)
  record.copy(exchanged, 16, 48, 52)
  record.copy(exchanged, 48, 16, 20)
  expect(payloadOf(exchanged, 1)).toBeNull()
})

test('a record with a crc32 is read, too', () => {
  const record = Buffer.concat(encodeRecord(1, [bytesOf(300)]))
  expect(record[9]).toBe(0)
  expect(payloadOf(record, 1)).toEqual(bytesOf(300))
  record[40]! ^= 1
  expect(payloadOf(record, 1)).toBeNull()
})
