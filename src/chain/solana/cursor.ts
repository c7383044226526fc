// Reads little-endian values one after the other.
// A read past the end sets `isShort` and yields zeros, so that a parser checks once, at the end.
// A value that its type does not have counts as missing too.
import { isUtf8 } from 'node:buffer'

export class Cursor {
  readonly #view: Buffer
  #at: number
  isShort = false

  constructor(bytes: Uint8Array, at = 0) {
    this.#view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    this.#at = at
  }

  get left(): number {
    return this.#view.length - this.#at
  }

  u8(): number {
    return this.#has(1) ? this.#view[this.#at++]! : 0
  }

  /** A byte below `count`. */
  choice(count: number): number {
    const value = this.u8()
    if (value >= count) this.isShort = true
    return value
  }

  u16(): number {
    return this.#has(2) ? this.#view.readUInt16LE(this.#move(2)) : 0
  }

  i16(): number {
    return this.#has(2) ? this.#view.readInt16LE(this.#move(2)) : 0
  }

  u32(): number {
    return this.#has(4) ? this.#view.readUInt32LE(this.#move(4)) : 0
  }

  u64(): bigint {
    return this.#has(8) ? this.#view.readBigUInt64LE(this.#move(8)) : 0n
  }

  i64(): bigint {
    return this.#has(8) ? this.#view.readBigInt64LE(this.#move(8)) : 0n
  }

  f64(): number {
    return this.#has(8) ? this.#view.readDoubleLE(this.#move(8)) : 0
  }

  bytes(length: number): Uint8Array {
    if (!this.#has(length)) return new Uint8Array(length > 64 ? 0 : length)
    const at = this.#move(length)
    return this.#view.subarray(at, at + length)
  }

  key(): Uint8Array {
    return this.bytes(32)
  }

  /** UTF-8 of so many bytes. */
  text(length: bigint | number): string {
    if (length > this.left) this.isShort = true
    const bytes = this.isShort ? new Uint8Array(0) : this.bytes(Number(length))
    if (!isUtf8(bytes)) this.isShort = true
    return Buffer.from(bytes).toString('utf8')
  }

  #has(count: number): boolean {
    if (this.#at + count <= this.#view.length) return true
    this.isShort = true
    return false
  }

  #move(count: number): number {
    const at = this.#at
    this.#at += count
    return at
  }
}
