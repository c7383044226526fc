// The obvious way to take a protobuf message apart, and changes that leave it one.
import type { Chance } from './target.ts'

const wireVarint = 0
const wire64 = 1
const wireBytes = 2
const wire32 = 5
const depthMax = 6
/** Of keys, signatures and hashes, and those that a tag would have as a byte. */
const lengths = [0, 1, 24, 31, 32, 33, 40, 56, 64, 80]
const manyFields = 8_000
const numbers = [0n, 1n, 2n, 127n, 128n, 300n, 2n ** 31n, 2n ** 32n, 2n ** 53n, 2n ** 63n]

export interface ProtoField {
  readonly number: number
  readonly wire: number
  /** A number, or bytes. */
  readonly value: bigint | Buffer
  /** The field as it was written. */
  readonly written: Buffer
}

/** Null for bytes that are no message. */
export function fieldsOf(bytes: Buffer): ProtoField[] | null {
  const fields: ProtoField[] = []
  for (let at = 0; at < bytes.length; ) {
    const tag = varintAt(bytes, at)
    if (tag === null || tag.value > 0xffff_ffffn) return null
    const wire = Number(tag.value & 7n)
    const found = valueAt(bytes, tag.end, wire)
    if (found === null) return null
    const number = Number(tag.value >> 3n)
    fields.push({ number, wire, value: found.value, written: bytes.subarray(at, found.end) })
    at = found.end
  }
  return fields
}

function valueAt(bytes: Buffer, at: number, wire: number) {
  if (wire === wireVarint) return varintAt(bytes, at)
  const length = wire === wireBytes ? varintAt(bytes, at) : null
  if (wire === wireBytes && length === null) return null
  const fixed = wire === wire64 ? 8 : 4
  if (wire !== wireBytes && wire !== wire64 && wire !== wire32) return null
  const start = length?.end ?? at
  const end = start + (length === null ? fixed : Number(length.value))
  return end > bytes.length ? null : { value: bytes.subarray(start, end), end }
}

function varintAt(bytes: Buffer, at: number): { value: bigint; end: number } | null {
  let value = 0n
  for (let count = 0; count < 10; count++) {
    const byte = bytes[at + count]
    if (byte === undefined) return null
    value |= BigInt(byte & 0x7f) << BigInt(7 * count)
    if (byte < 0x80) return { value: BigInt.asUintN(64, value), end: at + count + 1 }
  }
  return null
}

export function fieldBytes(number: number, value: bigint | Uint8Array): Buffer {
  const isNumber = typeof value === 'bigint'
  const tag = varint((BigInt(number) << 3n) | BigInt(isNumber ? wireVarint : wireBytes))
  if (isNumber) return Buffer.concat([tag, varint(value)])
  return Buffer.concat([tag, varint(BigInt(value.length)), value])
}

function varint(given: bigint): Buffer {
  const bytes: number[] = []
  let value = BigInt.asUintN(64, given)
  for (; value >= 128n; value >>= 7n) bytes.push(Number(value & 127n) | 128)
  bytes.push(Number(value))
  return Buffer.from(bytes)
}

/** Another message: a field goes, comes twice, moves, or has another value, at any depth. */
export function changeMessage(bytes: Buffer, chance: Chance, depth = 0): Buffer {
  const fields = fieldsOf(bytes)
  if (fields === null || fields.length === 0)
    return Buffer.concat([bytes, fieldBytes(1 + chance.below(16), chance.one(numbers))])
  const parts = fields.map(({ written }) => written)
  const at = chance.below(parts.length)
  const other = chance.below(parts.length)
  switch (chance.below(7)) {
    case 0:
      parts.splice(at, 1)
      break
    case 1:
      parts.splice(other, 0, ...Array.from({ length: timesOf(chance) }, () => parts[at]!))
      break
    case 2:
      ;[parts[at], parts[other]] = [parts[other]!, parts[at]!]
      break
    case 3:
      parts.splice(other, 0, newField(chance))
      break
    default:
      parts[at] = changeField(fields[at]!, chance, depth)
  }
  return Buffer.concat(parts)
}

/** Few, or so many that whatever nests or is quadratic shows it. */
function timesOf(chance: Chance): number {
  return chance.below(50) === 0 ? manyFields : 1 + chance.below(3)
}

function newField(chance: Chance): Buffer {
  const number = 1 + chance.below(20)
  if (chance.below(2) === 0) return fieldBytes(number, chance.one(numbers))
  return fieldBytes(number, Buffer.alloc(chance.one(lengths), chance.below(256)))
}

function changeField(field: ProtoField, chance: Chance, depth: number): Buffer {
  const { number, value } = field
  if (typeof value === 'bigint') return fieldBytes(number, chance.one(numbers) + (value & 1n))
  const isMessage = depth < depthMax && fieldsOf(value) !== null && value.length > 0
  if (isMessage && chance.below(4) > 0)
    return fieldBytes(number, changeMessage(value, chance, depth + 1))
  const length = chance.below(2) === 0 ? chance.one(lengths) : value.length
  return fieldBytes(number, Buffer.alloc(length, value.length === 0 ? 0 : value))
}
