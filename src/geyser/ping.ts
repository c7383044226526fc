// Finds the ping in a SubscribeRequest without decoding the rest of it. Thread: any. Pure.
// Decoding 4 MB of filters that a ping carries, and that are ignored, would hold the main thread.

const pingField = 9
const lengthDelimited = 2

/** The bytes of the last `ping` field; null when there is none or the fields cannot be read. */
export function pingIn(request: Uint8Array): Uint8Array | null {
  const reader = new FieldReader(request)
  let ping: Uint8Array | null = null
  while (reader.at < request.length) {
    const tag = reader.varint()
    const start = reader.skip(tag & 7)
    if (start === null) return null
    if (tag >>> 3 === pingField && (tag & 7) === lengthDelimited)
      ping = request.subarray(start, reader.at)
  }
  return ping
}

class FieldReader {
  readonly #bytes: Uint8Array
  at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  /** The low 32 bits of a varint; what is beyond the end reads as 0. */
  varint(): number {
    let value = 0
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.#bytes[this.at++] ?? 0
      if (shift < 32) value |= (byte & 0x7f) << shift
      if (byte < 0x80) break
    }
    return value >>> 0
  }

  /** Moves past a field's value. Its start, or null for groups, unknown types and a cut value. */
  skip(wireType: number): number | null {
    let bytes = 0
    if (wireType === 0) this.varint()
    else if (wireType === 1) bytes = 8
    else if (wireType === lengthDelimited) bytes = this.varint()
    else if (wireType === 5) bytes = 4
    else return null
    const start = this.at
    this.at += bytes
    return this.at <= this.#bytes.length ? start : null
  }
}
