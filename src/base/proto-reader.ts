// Iterates over the fields of a protobuf message.
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
