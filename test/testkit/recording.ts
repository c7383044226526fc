// Reads a recorded execution event ring (zstd or raw) for tests and hands its events to a sink.
// The plainest possible reading: one pass in memory, no pacing, no gaps.
import { readFileSync } from 'node:fs'
import { decompressZstd } from '../../src/base/zstd.ts'
import { descriptor, parseRingHeader, ringHeader } from '../../src/chain/evm/event-ring.ts'
import { readU32, readU64 } from '../../src/chain/evm/words.ts'

export interface EventSink {
  event(descriptor: Uint8Array, payload: Uint8Array): void
}

/** Of a recording; those that tests read have 153 MB. */
const bytesMax = 256 * 1024 * 1024

export class Recording {
  readonly #bytes: Uint8Array
  readonly #capacity: number
  readonly #payloadBase: number
  readonly #payloadBytes: number

  constructor(path: string) {
    const file = readFileSync(path)
    const bytes = file.readUInt32LE(0) === 0xfd2fb528 ? decompressZstd(file, bytesMax) : file
    if (typeof bytes === 'string') throw new Error(`${path} is ${bytes}`)
    this.#bytes = bytes
    const parsed = parseRingHeader(this.#bytes.subarray(0, ringHeader.pageBytes))
    if (!parsed.ok) throw new Error(parsed.refusal.message)
    this.#capacity = parsed.value.capacity
    this.#payloadBase = parsed.value.payloadBase
    this.#payloadBytes = parsed.value.payloadBytes
  }

  /** Hands every event over; `seqnoBase` is added to sequence numbers (a copy is made then). */
  play(sink: EventSink, options: { readonly seqnoBase?: number } = {}): number {
    const base = options.seqnoBase ?? 0
    let seqno = 1
    for (; seqno <= this.#capacity; seqno++) {
      const at = ringHeader.pageBytes + (seqno - 1) * descriptor.bytes
      const head = this.#bytes.subarray(at, at + descriptor.bytes)
      if (readU64(head, descriptor.seqno) !== seqno) break
      const size = readU32(head, descriptor.payloadSize)
      const from =
        this.#payloadBase + (readU64(head, descriptor.payloadOffset) % this.#payloadBytes)
      const payload = this.#bytes.subarray(from, from + size)
      sink.event(base === 0 ? head : shifted(head, base), payload)
    }
    return seqno - 1
  }
}

function shifted(head: Uint8Array, base: number): Uint8Array {
  const copy = head.slice()
  const view = new DataView(copy.buffer)
  view.setBigUint64(descriptor.seqno, BigInt(readU64(head, descriptor.seqno) + base), true)
  const block = readU64(head, descriptor.blockSeqno)
  if (block !== 0) view.setBigUint64(descriptor.blockSeqno, BigInt(block + base), true)
  return copy
}
