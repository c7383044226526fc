// Writes transaction-level events as records of the event ring. Thread: source.
// Only what the analysis reads (wasm/scan.ts) is copied: a third of a block's bytes.
//
//   record   0 transaction + 1 u32   4 0 u32   8 time u64   16 payload; of accesses up to the key

import type { RingWriter } from '../../base/rings/ring-writer.ts'
import { accountAccess, storageAccess } from '../../chain/evm/event-payload.ts'
import { descriptor } from '../../chain/evm/event-ring.ts'
import { EventType, eventTypeMax } from '../../chain/evm/event-type.ts'

const headBytes = 16
/** Of accesses only the payload up to the key is copied, in whole words; 0 means all of it. */
const copiedBytes = new Uint8Array(eventTypeMax + 1)
copiedBytes[EventType.AccountAccess] = accountAccess.address + 20
copiedBytes[EventType.StorageAccess] = storageAccess.key + 33
const accessBytes = new Uint8Array(eventTypeMax + 1)
accessBytes[EventType.AccountAccess] = accountAccess.size
accessBytes[EventType.StorageAccess] = storageAccess.size
/** Up to this length a copy word by word is faster than `set`. */
const wordCopyBytesMax = 256

/** Length of the record of an event with a payload of that size. */
export function recordBytes(type: number, payloadBytes: number): number {
  const copied = copiedBytes[type]!
  if (copied === 0) return headBytes + payloadBytes
  // Too short an access is left empty: the analysis reports it as malformed.
  return headBytes + (payloadBytes < accessBytes[type]! ? 0 : copied)
}

export class RecordWriter {
  readonly #ring: RingWriter
  /** The last payload's array, where it begins in its buffer, and that buffer's words. */
  #lastPayload: Uint8Array | null = null
  #payloadAt = 0
  #payloadWords: Uint32Array = new Uint32Array(0)
  #long = new Uint8Array(0)

  constructor(ring: RingWriter) {
    this.#ring = ring
  }

  /** `words` is the descriptor, the payload begins at `from`, `length` is of `recordBytes`. */
  write(type: number, words: Uint32Array, payload: Uint8Array, from: number, length: number): void {
    const ring = this.#ring
    const size = length - headBytes
    if (length > ring.pieceBytesMax) {
      ring.write(type, this.#joined(words, payload.subarray(from, from + size)))
      return
    }
    const offset = ring.reserve(type, length)
    const { data } = ring
    const at = offset >> 2
    data[at] = words[descriptor.txn / 4]!
    data[at + 1] = 0
    data[at + 2] = words[descriptor.timeNs / 4]!
    data[at + 3] = words[descriptor.timeNs / 4 + 1]!
    if (size > 0 && !this.#copyWords(payload, from, size, at + headBytes / 4))
      ring.bytes.set(payload.subarray(from, from + size), offset + headBytes)
    ring.commit()
  }

  /**
   * Copies a short payload word by word, because for so few bytes `set` costs more than the copy
   * itself; false when it is long or not aligned. Up to 3 bytes too much: the record has space.
   */
  #copyWords(payload: Uint8Array, from: number, size: number, to: number): boolean {
    if (size > wordCopyBytesMax) return false
    if (payload !== this.#lastPayload) this.#readPayload(payload)
    const words = this.#payloadWords
    const start = this.#payloadAt + from
    const end = (start + size + 3) >>> 2
    if (start % 4 !== 0 || end > words.length) return false
    const { data } = this.#ring
    for (let word = start >>> 2, at = to; word < end; word++, at++) data[at] = words[word]!
    return true
  }

  /** Sources pass parts of one buffer, by one array or several. */
  #readPayload(payload: Uint8Array): void {
    this.#lastPayload = payload
    this.#payloadAt = payload.byteOffset
    const { buffer } = payload
    if (buffer === this.#payloadWords.buffer) return
    this.#payloadWords = new Uint32Array(buffer, 0, buffer.byteLength >>> 2)
  }

  /** Long payloads are rare: head and payload are joined before the ring splits them. */
  #joined(words: Uint32Array, payload: Uint8Array): Uint8Array {
    const length = headBytes + payload.length
    if (this.#long.length < length) this.#long = new Uint8Array(length * 2)
    const head = new Uint32Array(this.#long.buffer, 0, headBytes / 4)
    head[0] = words[descriptor.txn / 4]!
    head.set(words.subarray(descriptor.timeNs / 4, descriptor.timeNs / 4 + 2), 2)
    this.#long.set(payload, headBytes)
    return this.#long.subarray(0, length)
  }
}
