// Walks over the fields of a protobuf message. Thread: any (pure).
// Called by geyser-decode.ts. Reads only what we or an upstream encoded; bytes that are no message
// end the walk early and never throw.
//
//   const reader = new ProtoReader(bytes)
//   while (reader.next()) if (reader.field === 1) use(reader.bytes)

const WIRE_VARINT = 0
const WIRE_64 = 1
const WIRE_BYTES = 2
const WIRE_32 = 5
const NONE: Uint8Array = new Uint8Array(0)

export class ProtoReader {
  /** The field's number; its value is in one of the members below. */
  field = 0
  bytes: Uint8Array = NONE
  readonly #message: Uint8Array
  #at = 0
  #low = 0
  #high = 0

  constructor(message: Uint8Array) {
    this.#message = message
  }

  /** Goes to the next field; false at the end. */
  next(): boolean {
    if (this.#at >= this.#message.length || !this.#varint()) return false
    this.field = this.#low >>> 3
    switch (this.#low & 7) {
      case WIRE_VARINT:
        this.bytes = NONE
        return this.#varint()
      case WIRE_BYTES:
        return this.#varint() && this.#take(this.#low)
      case WIRE_64:
        return this.#take(8)
      case WIRE_32:
        return this.#take(4)
      default:
        return false
    }
  }

  get number(): number {
    return this.#high * 2 ** 32 + this.#low
  }

  get big(): bigint {
    return (BigInt(this.#high) << 32n) | BigInt(this.#low)
  }

  get flag(): boolean {
    return this.#low !== 0
  }

  get text(): string {
    const { buffer, byteOffset, length } = this.bytes
    return Buffer.from(buffer, byteOffset, length).toString('utf8')
  }

  /** The numbers of a packed field. */
  packed(): bigint[] {
    const inner = new ProtoReader(this.bytes)
    const values: bigint[] = []
    while (inner.#at < inner.#message.length && inner.#varint()) values.push(inner.big)
    return values
  }

  #take(length: number): boolean {
    const end = this.#at + length
    if (end > this.#message.length) return false
    this.bytes = this.#message.subarray(this.#at, end)
    this.#at = end
    return true
  }

  /** Seven bits a byte into two halves of 32: values reach 2^64. */
  #varint(): boolean {
    this.#low = 0
    this.#high = 0
    for (let shift = 0; shift < 64; shift += 7) {
      const byte = this.#message[this.#at++]
      if (byte === undefined) return false
      const bits = byte & 0x7f
      if (shift < 32) this.#low = (this.#low | (bits << shift)) >>> 0
      if (shift === 28) this.#high = bits >>> 4
      else if (shift > 28) this.#high = (this.#high | (bits << (shift - 32))) >>> 0
      if (byte < 0x80) return true
    }
    return false
  }
}
