// Reads and writes protobuf. A reader iterates over the fields of a message.
// Bytes that are not a message end the iteration early and never throw; `isBroken` is then true.
//
//   const reader = new ProtoReader(bytes)
//   while (reader.next()) if (reader.field === 1) use(reader.bytes)
//
// A field that is not read costs little: `bytes` is created and a number decoded on access.

export const WIRE_VARINT = 0
const WIRE_64 = 1
export const WIRE_BYTES = 2
const WIRE_32 = 5
const varintBytesMax = 10
/** Tags have 32 bits; the greatest is that of no wire type, as every longer one is. */
const tagMax = 2 ** 32 - 1

export class ProtoReader {
  /** The field's number; its value is in one of the members below. */
  field = 0
  /** Its wire type. */
  wire = WIRE_VARINT
  /** Position of the value's bytes in the message: from `start` up to `end`. */
  start = 0
  end = 0
  readonly #message: Uint8Array
  #at: number
  readonly #limit: number
  #isBroken = false

  /** The whole message, or the range from `start` up to `end`. */
  constructor(message: Uint8Array, start = 0, end = message.length) {
    this.#message = message
    this.#at = start
    this.#limit = end
  }

  /** Advances to the next field; false at the end. */
  next(): boolean {
    if (this.#at >= this.#limit) return false
    // Most are one byte: tags, short lengths, flags.
    const first = this.#message[this.#at]!
    const tag = first < 0x80 ? first : Math.min(this.#long(), tagMax)
    if (first < 0x80) this.#at++
    if (this.#step(tag)) return true
    this.#isBroken = true
    return false
  }

  /** True when the iteration ended before the message did. */
  get isBroken(): boolean {
    return this.#isBroken
  }

  /** A view of the value. */
  get bytes(): Uint8Array {
    return this.#message.subarray(this.start, this.end)
  }

  /** The message inside the value, without a view of it. */
  inside(): ProtoReader {
    return new ProtoReader(this.#message, this.start, this.end)
  }

  /** 0 where the field is no number. */
  get number(): number {
    if (this.wire !== WIRE_VARINT) return 0
    const first = this.#message[this.start]!
    return first < 0x80 ? first : decode(this.#message, this.start)
  }

  get big(): bigint {
    const value = this.number
    if (value <= Number.MAX_SAFE_INTEGER) return BigInt(value)
    return (BigInt(decodedHigh) << 32n) | BigInt(decodedLow)
  }

  get flag(): boolean {
    return this.number !== 0
  }

  get text(): string {
    const { buffer, byteOffset } = this.#message
    return Buffer.from(buffer, byteOffset + this.start, this.end - this.start).toString('utf8')
  }

  /** The numbers of a packed field. */
  packed(): bigint[] {
    const inner = this.inside()
    const values: bigint[] = []
    inner.start = inner.#at
    for (; inner.#at < inner.#limit && inner.#skip(); inner.start = inner.#at)
      values.push(inner.big)
    return values
  }

  /** A tag that is none is broken. */
  #step(tag: number): boolean {
    this.field = tag >>> 3
    this.wire = tag & 7
    switch (this.wire) {
      case WIRE_VARINT:
        this.start = this.#at
        this.end = this.#at
        return tag >= 0 && this.#skip()
      case WIRE_BYTES: {
        const first = this.#at < this.#limit ? this.#message[this.#at]! : -1
        const length = first < 0x80 ? first : this.#long()
        if (first < 0x80) this.#at++
        return length >= 0 && this.#take(length)
      }
      case WIRE_64:
        return this.#take(8)
      case WIRE_32:
        return this.#take(4)
      default:
        return false
    }
  }

  #take(length: number): boolean {
    const end = this.#at + length
    if (end > this.#limit) return false
    this.start = this.#at
    this.end = end
    this.#at = end
    return true
  }

  /** Passes a number, and returns it; -1 where none is. */
  #long(): number {
    const start = this.#at
    return this.#skip() ? decode(this.#message, start) : -1
  }

  /** Passes a number; false where none is. */
  #skip(): boolean {
    const message = this.#message
    const limit = Math.min(this.#limit, this.#at + varintBytesMax)
    let at = this.#at
    while (at < limit && message[at]! >= 0x80) at++
    if (at >= limit) return false
    this.#at = at + 1
    return true
  }
}

let decodedLow = 0
let decodedHigh = 0

/** Seven bits a byte into two halves of 32: values reach 2^64. */
function decode(message: Uint8Array, start: number): number {
  let at = start
  let byte = message[at++]!
  let low = byte & 0x7f
  let high = 0
  for (let shift = 7; byte >= 0x80; shift += 7) {
    byte = message[at++]!
    const bits = byte & 0x7f
    if (shift < 32) low = (low | (bits << shift)) >>> 0
    if (shift === 28) high = bits >>> 4
    else if (shift > 28) high = (high | (bits << (shift - 32))) >>> 0
  }
  decodedLow = low
  decodedHigh = high
  return high * 2 ** 32 + low
}

// Encodes protobuf from its end to its beginning.
// A nested message is prefixed by its length; written backwards, that length is known when it is
// written, so nothing is measured twice and nothing is moved.
//
//   scratch: [ ........free........ | tag len | nested fields | later fields ]
//                                   ^ at                                     ^ end
//
// Fields are therefore written last first. Zero and empty values are left out, as proto3 does.

const scratchBytesFirst = 64 * 1024

export class BackWriter {
  #scratch = Buffer.allocUnsafeSlow(scratchBytesFirst)
  #end = scratchBytesFirst
  #at = scratchBytesFirst

  /** Bytes written so far; pass it to `wrap` to close a nested message over what follows. */
  get mark(): number {
    return this.#end - this.#at
  }

  /** Puts tag and length before everything written since `mark`. */
  wrap(field: number, mark: number): void {
    this.#reserve(11)
    this.#varint(this.mark - mark)
    this.#tag(field, 2)
  }

  bytes(field: number, value: Uint8Array): void {
    if (value.length > 0) this.bytesAlways(field, value)
  }

  bytesAlways(field: number, value: Uint8Array): void {
    this.#reserve(value.length + 11)
    this.#at -= value.length
    this.#scratch.set(value, this.#at)
    this.#varint(value.length)
    this.#tag(field, 2)
  }

  string(field: number, value: string): void {
    if (value !== '') this.stringAlways(field, value)
  }

  stringAlways(field: number, value: string): void {
    const length = Buffer.byteLength(value)
    this.#reserve(length + 11)
    this.#at -= length
    this.#scratch.write(value, this.#at)
    this.#varint(length)
    this.#tag(field, 2)
  }

  /** A whole number from 0 to 2^53. */
  number(field: number, value: number): void {
    if (value !== 0) this.numberAlways(field, value)
  }

  numberAlways(field: number, value: number): void {
    this.#reserve(15)
    this.#varint(value)
    this.#tag(field, 0)
  }

  /** A 64-bit number; negative ones in two's complement, as int64 requires. */
  big(field: number, value: bigint): void {
    if (value !== 0n) this.bigAlways(field, value)
  }

  bigAlways(field: number, value: bigint): void {
    this.#reserve(15)
    this.#big(value)
    this.#tag(field, 0)
  }

  flag(field: number, value: boolean): void {
    if (value) this.numberAlways(field, 1)
  }

  double(field: number, value: number): void {
    if (value === 0) return
    this.#reserve(13)
    this.#at -= 8
    this.#scratch.writeDoubleLE(value, this.#at)
    this.#tag(field, 1)
  }

  /** A packed list of 64-bit numbers. */
  packed(field: number, values: readonly bigint[]): void {
    if (values.length === 0) return
    const mark = this.mark
    for (let index = values.length - 1; index >= 0; index--) {
      this.#reserve(10)
      this.#big(values[index]!)
    }
    this.wrap(field, mark)
  }

  /** A repeated message: `write` writes the fields of each item. */
  messages<T>(field: number, items: readonly T[], write: (item: T) => void): void {
    for (let index = items.length - 1; index >= 0; index--) {
      const mark = this.mark
      write(items[index]!)
      this.wrap(field, mark)
    }
  }

  /** A repeated field of ready-made bytes. */
  list(field: number, items: readonly Uint8Array[]): void {
    for (let index = items.length - 1; index >= 0; index--) this.bytesAlways(field, items[index]!)
  }

  /** Returns a copy of everything written and empties the writer. */
  take(): Buffer {
    const taken = Buffer.allocUnsafeSlow(this.mark)
    this.#scratch.copy(taken, 0, this.#at, this.#end)
    this.#at = this.#end
    return taken
  }

  #tag(field: number, wire: number): void {
    this.#varint(field * 8 + wire)
  }

  #varint(value: number): void {
    // The length decides where the first byte goes; the varint itself is written forwards.
    this.#at -= varintBytes(value)
    writeVarint(this.#scratch, this.#at, value)
  }

  #big(value: bigint): void {
    if (value >= 0n && value <= 0x1fffffffffffffn) {
      this.#varint(Number(value))
      return
    }
    let rest = BigInt.asUintN(64, value)
    const bytes: number[] = []
    while (rest >= 0x80n) {
      bytes.push(Number(rest & 0x7fn) | 0x80)
      rest >>= 7n
    }
    bytes.push(Number(rest))
    this.#at -= bytes.length
    this.#scratch.set(bytes, this.#at)
  }

  #reserve(bytes: number): void {
    if (this.#at >= bytes) return
    const written = this.mark
    let size = this.#end * 2
    while (size - written < bytes) size *= 2
    const larger = Buffer.allocUnsafeSlow(size)
    this.#scratch.copy(larger, size - written, this.#at, this.#end)
    this.#scratch = larger
    this.#end = size
    this.#at = size - written
  }
}

/** Bytes of a whole number from 0 to 2^53 as a varint. */
export function varintBytes(value: number): number {
  let bytes = 1
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes++
  return bytes
}

/** Writes it at `start`; returns the offset after it. */
export function writeVarint(target: Uint8Array, start: number, value: number): number {
  let at = start
  let rest = value
  while (rest >= 0x80) {
    target[at++] = (rest % 0x80) | 0x80
    rest = Math.floor(rest / 0x80)
  }
  target[at++] = rest
  return at
}
