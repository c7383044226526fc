// Iterates over the fields of a protobuf message.
// Bytes that are not a message end the iteration early and never throw; `isBroken` is then true.
//
//   const reader = new ProtoReader(bytes)
//   while (reader.next()) if (reader.field === 1) use(reader.bytes)
//
// A field that is not read costs no view: `bytes` is created on access.

const WIRE_VARINT = 0
const WIRE_64 = 1
export const WIRE_BYTES = 2
const WIRE_32 = 5

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
  #low = 0
  #high = 0
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
    if (this.#step()) return true
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

  get number(): number {
    return this.#high * 2 ** 32 + this.#low
  }

  get big(): bigint {
    return (BigInt(this.#high) << 32n) | BigInt(this.#low)
  }

  get flag(): boolean {
    return this.#low !== 0 || this.#high !== 0
  }

  get text(): string {
    const { buffer, byteOffset } = this.#message
    return Buffer.from(buffer, byteOffset + this.start, this.end - this.start).toString('utf8')
  }

  /** The numbers of a packed field. */
  packed(): bigint[] {
    const inner = this.inside()
    const values: bigint[] = []
    while (inner.#at < inner.#limit && inner.#varint()) values.push(inner.big)
    return values
  }

  #step(): boolean {
    if (!this.#varint()) return false
    this.field = this.#low >>> 3
    this.wire = this.#low & 7
    switch (this.wire) {
      case WIRE_VARINT:
        this.start = this.#at
        this.end = this.#at
        return this.#varint()
      case WIRE_BYTES:
        return this.#varint() && this.#high === 0 && this.#take(this.#low)
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

  /** Seven bits a byte into two halves of 32: values reach 2^64. */
  #varint(): boolean {
    const message = this.#message
    const limit = this.#limit
    let at = this.#at
    if (at >= limit) return false
    let byte = message[at++]!
    let low = byte & 0x7f
    let high = 0
    // Most are one byte: tags, short lengths, flags.
    for (let shift = 7; byte >= 0x80; shift += 7) {
      if (shift > 63 || at >= limit) return false
      byte = message[at++]!
      const bits = byte & 0x7f
      if (shift < 32) low = (low | (bits << shift)) >>> 0
      if (shift === 28) high = bits >>> 4
      else if (shift > 28) high = (high | (bits << (shift - 32))) >>> 0
    }
    this.#at = at
    this.#low = low
    this.#high = high
    return true
  }
}
