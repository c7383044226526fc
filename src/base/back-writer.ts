// Encodes protobuf from its end to its beginning.
// A nested message is prefixed by its length; written backwards, that length is known when it is
// written, so nothing is measured twice and nothing is moved.
//
//   scratch: [ ........free........ | tag len | nested fields | later fields ]
//                                   ^ at                                     ^ end
//
// Fields are therefore written last first. Zero and empty values are left out, as proto3 does.
import { varintBytes, writeVarint } from './varint.ts'

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
