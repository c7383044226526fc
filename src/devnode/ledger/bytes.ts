// Writes and reads the compact records of history and journal.
// Little-endian, length-prefixed. A reader trusts its bytes: the journal verified the checksum.

const firstBytes = 4096

export class ByteWriter {
  #buffer = Buffer.allocUnsafe(firstBytes)
  #at = 0

  u8(value: number): this {
    this.#reserve(1)
    this.#buffer[this.#at++] = value
    return this
  }

  u32(value: number): this {
    this.#reserve(4)
    this.#at = this.#buffer.writeUInt32LE(value, this.#at)
    return this
  }

  u64(value: bigint): this {
    this.#reserve(8)
    this.#at = this.#buffer.writeBigUInt64LE(value, this.#at)
    return this
  }

  /** A whole number below 2^53. */
  number(value: number): this {
    this.#reserve(8)
    this.#at = this.#buffer.writeDoubleLE(value, this.#at)
    return this
  }

  /** Bytes whose length the reader knows. */
  raw(value: Uint8Array): this {
    this.#reserve(value.length)
    this.#buffer.set(value, this.#at)
    this.#at += value.length
    return this
  }

  bytes(value: Uint8Array): this {
    return this.u32(value.length).raw(value)
  }

  text(value: string): this {
    const length = Buffer.byteLength(value)
    this.u32(length)
    this.#reserve(length)
    this.#at += this.#buffer.write(value, this.#at)
    return this
  }

  /** A count, then each. */
  each<T>(values: readonly T[], write: (value: T) => void): this {
    this.u32(values.length)
    for (const value of values) write(value)
    return this
  }

  /** Returns a copy of what was written, and empties the writer. */
  take(): Buffer {
    const taken = Buffer.allocUnsafeSlow(this.#at)
    this.#buffer.copy(taken, 0, 0, this.#at)
    this.#at = 0
    return taken
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#buffer.length) return
    let size = this.#buffer.length * 2
    while (size < this.#at + bytes) size *= 2
    const larger = Buffer.allocUnsafe(size)
    this.#buffer.copy(larger, 0, 0, this.#at)
    this.#buffer = larger
  }
}

export class ByteReader {
  readonly #buffer: Buffer
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#buffer.length
  }

  u8(): number {
    return this.#buffer.readUInt8(this.#at++)
  }

  u32(): number {
    this.#at += 4
    return this.#buffer.readUInt32LE(this.#at - 4)
  }

  u64(): bigint {
    this.#at += 8
    return this.#buffer.readBigUInt64LE(this.#at - 8)
  }

  number(): number {
    this.#at += 8
    return this.#buffer.readDoubleLE(this.#at - 8)
  }

  /** A view into the record, which stays in memory as long as the view does. */
  raw(length: number): Buffer {
    this.#at += length
    return this.#buffer.subarray(this.#at - length, this.#at)
  }

  bytes(): Buffer {
    return this.raw(this.u32())
  }

  /** Everything that was not read yet; a view as well. */
  rest(): Buffer {
    return this.raw(this.#buffer.length - this.#at)
  }

  text(): string {
    const length = this.u32()
    this.#at += length
    return this.#buffer.toString('utf8', this.#at - length, this.#at)
  }

  each<T>(read: () => T): T[] {
    return Array.from({ length: this.u32() }, read)
  }
}
