// Reads structures of account data by layouts of one line, for `jsonParsed`.
//
//   layout('epoch:u64 maximumFee:u64 transferFeeBasisPoints:u16')
//
// Fields are read in the order of the line; `_` is read and not shown. Members are in alphabetical
// order, as a validator sends them. Malformed data sets `isShort` of the cursor.
import { assert } from '../../../base/errors.ts'
import { encodeBase58, keyText } from '../base58.ts'
import type { Cursor } from '../cursor.ts'

export type Read = (cursor: Cursor) => unknown

export const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
const isZero = (bytes: Uint8Array) => bytes.every((byte) => byte === 0)

export const readers = {
  u8: (cursor: Cursor) => cursor.u8(),
  u16: (cursor: Cursor) => cursor.u16(),
  u32: (cursor: Cursor) => cursor.u32(),
  u64: (cursor: Cursor) => cursor.u64(),
  i16: (cursor: Cursor) => cursor.i16(),
  i64: (cursor: Cursor) => cursor.i64(),
  f64: (cursor: Cursor) => cursor.f64(),
  /** One of two bytes; any other is malformed. */
  bool: (cursor: Cursor) => cursor.choice(2) === 1,
  /** Any byte but 0 is true. */
  flag: (cursor: Cursor) => cursor.u8() !== 0,
  /** A u64 as text. */
  string: (cursor: Cursor) => String(cursor.u64()),
  string128(cursor: Cursor) {
    const low = cursor.u64()
    return String((cursor.u64() << 64n) | low)
  },
  floatText: (cursor: Cursor) => floatText(cursor.f64()),
  key: (cursor: Cursor) => keyText(cursor.key()),
  /** Null when all bytes are 0. */
  keyOrNull(cursor: Cursor) {
    const key = cursor.key()
    return isZero(key) ? null : keyText(key)
  },
  optionalKey: optional((cursor) => keyText(cursor.key())),
  optionalU64: optional((cursor) => cursor.u64()),
  hash: (cursor: Cursor) => encodeBase58(cursor.key()),
  elgamalKey: (cursor: Cursor) => base64(cursor.bytes(32)),
  elgamalKeyOrNull(cursor: Cursor) {
    const key = cursor.bytes(32)
    return isZero(key) ? null : base64(key)
  },
  elgamalCiphertext: (cursor: Cursor) => base64(cursor.bytes(64)),
  aeCiphertext: (cursor: Cursor) => base64(cursor.bytes(36)),
  /** Prefixed by its length as u32, as in borsh. */
  shortText,
  textPairs: (cursor: Cursor) =>
    listOf(cursor, cursor.u32(), () => [shortText(cursor), shortText(cursor)]),
}

/** `kinds` are readers besides the general ones. */
export function layout(
  fields: string,
  kinds: Readonly<Record<string, Read>> = {},
): (cursor: Cursor) => Readonly<Record<string, unknown>> {
  const known: Readonly<Record<string, Read>> = { ...readers, ...kinds }
  const parts = fields
    .trim()
    .split(/\s+/)
    .map((field) => {
      const [name, kind] = field.split(':')
      const read = known[kind!]
      assert(read !== undefined, `no reader for ${field}`)
      return { name: name!, read }
    })
  return (cursor) => {
    const members: Record<string, unknown> = {}
    for (const { name, read } of parts) members[name] = read(cursor)
    delete members._
    return inOrder(members)
  }
}

/** The members in the order in which a validator sends them. */
export function inOrder(members: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** A reader of items after their count, as in bincode. */
export function list(read: Read): Read {
  return (cursor) => listOf(cursor, cursor.u64(), () => read(cursor))
}

/** A reader of a value that may be absent; null then. */
export function optional(read: Read): Read {
  return (cursor) => (cursor.choice(2) === 1 ? read(cursor) : null)
}

/** Reads `count` items, or fewer when the data ends first. */
export function listOf<T>(cursor: Cursor, count: bigint | number, read: () => T): T[] {
  const found: T[] = []
  while (found.length < count && !cursor.isShort) found.push(read())
  return found
}

function shortText(cursor: Cursor): string {
  return cursor.text(cursor.u32())
}

/** As a validator writes it: shortest digits, never with an exponent. */
export function floatText(value: number): string {
  if (Object.is(value, -0)) return '-0'
  const text = String(value).replace('Infinity', 'inf')
  const [, sign, first, rest = '', power] = exponential.exec(text) ?? []
  if (power === undefined) return text
  const digits = `${first}${rest}`
  const shift = Number(power)
  return shift > 0
    ? `${sign}${digits.padEnd(shift + 1, '0')}`
    : `${sign}0.${'0'.repeat(-shift - 1)}${digits}`
}

const exponential = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/
