// A growing buffer with the integers and strings of ClickHouse's binary formats.

const bytewiseMax = 128

export class BinaryFormatWriter {
  #buffer = Buffer.allocUnsafe(16_384)
  #length = 0

  byte(value: number): void {
    this.#room(1)
    this.#buffer[this.#length] = value
    this.#length += 1
  }

  bytes(bytes: Uint8Array): void {
    this.#room(bytes.length)
    this.#buffer.set(bytes, this.#length)
    this.#length += bytes.length
  }

  /** Part of an array; short parts are cheaper byte by byte. */
  copy(source: Uint8Array, begin: number, end: number): void {
    if (end - begin > bytewiseMax) {
      this.bytes(source.subarray(begin, end))
      return
    }
    this.#room(end - begin)
    const buffer = this.#buffer
    let to = this.#length
    for (let at = begin; at < end; at += 1) {
      buffer[to] = source[at]!
      to += 1
    }
    this.#length = to
  }

  int32(value: number): void {
    this.#room(4)
    this.#length = this.#buffer.writeInt32LE(value, this.#length)
  }

  uint64(value: number): void {
    this.#room(8)
    this.#length = this.#buffer.writeBigUInt64LE(BigInt(value), this.#length)
  }

  /** Seven bits a byte, the lowest first. */
  varint(value: number): void {
    let rest = value
    for (; rest >= 0x80; rest = Math.floor(rest / 128)) this.byte((rest & 0x7f) | 0x80)
    this.byte(rest)
  }

  text(text: string): void {
    const bytes = Buffer.from(text)
    this.varint(bytes.length)
    this.bytes(bytes)
  }

  /** The written bytes; the writer is not used after it. */
  take(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  #room(count: number): void {
    if (this.#length + count <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#length + count))
    larger.set(this.#buffer.subarray(0, this.#length))
    this.#buffer = larger
  }
}
