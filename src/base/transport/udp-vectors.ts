// Lists the shreds of a batch by kind, as iovecs that all senders share. Thread: shred worker.
import {
  iovecBaseAt,
  iovecBytes,
  iovecLengthAt,
  iovecWords,
  type Libc,
  pinned,
  writePointer,
} from './udp-batch.ts'
import { batchMax } from './udp-receive.ts'

export class ShredVectors {
  readonly address: number
  readonly counts = [0, 0]
  readonly bytes: readonly [number, number]
  readonly #words: Uint32Array

  constructor(libc: Libc, bytes: readonly [number, number]) {
    const memory = pinned(2 * batchMax * iovecBytes)
    this.bytes = bytes
    this.address = libc.addressOf(memory)
    this.#words = new Uint32Array(memory.buffer)
    for (let index = 0; index < 2 * batchMax; index += 1)
      this.#words[index * iovecWords + iovecLengthAt] = bytes[index < batchMax ? 0 : 1]
  }

  get total(): number {
    return this.counts[0]! + this.counts[1]!
  }

  clear(): void {
    this.counts[0] = 0
    this.counts[1] = 0
  }

  /** Adds a shred by the address of its first byte; kind 0 is data, 1 is code. */
  add(kind: 0 | 1, address: number): void {
    const index = kind * batchMax + this.counts[kind]!
    this.counts[kind]! += 1
    writePointer(this.#words, index * iovecWords + iovecBaseAt, address)
  }
}
