// Copies what a thread gets into a ring while someone records it: the thread is never held up.
// Thread: the tapped one writes, the recorder reads, main switches it on and off. Memory that is
// never recorded is never touched.
//
//   words: 0 on i32        ring: records of the tapped thread, see layout.ts
import { allocateRing, type RingDescriptor } from './layout.ts'
import { RingWriter } from './ring.ts'

/** More than a thread gets while the recorder is busy with a slow disk for a moment. */
export const tapRingBytes = 16 * 1024 * 1024

const none = new Uint8Array(0)

/** Can be posted to a worker. */
export interface TapMemory {
  readonly words: Int32Array<SharedArrayBuffer>
  readonly ring: RingDescriptor
}

export function createTap(bytes = tapRingBytes): TapMemory {
  const ring = allocateRing(bytes)
  RingWriter.create(ring)
  return { words: new Int32Array(new SharedArrayBuffer(4)), ring }
}

export function switchTap({ words }: TapMemory, isOn: boolean): void {
  // The tapped thread may see it a moment later: what it misses lies before the recording.
  Atomics.store(words, 0, isOn ? 1 : 0)
}

export class TapWriter {
  readonly #words: Int32Array
  readonly #ring: RingWriter
  #isPublished = true

  constructor({ words, ring }: TapMemory) {
    this.#words = words
    this.#ring = RingWriter.resume(ring)
  }

  /** A plain read: it costs nothing per packet, and the switch is seen soon enough. */
  get isOn(): boolean {
    return this.#words[0] !== 0
  }

  /** A message in two parts; one that is too long for the ring is left out. */
  write(tag: number, head: Uint8Array, body: Uint8Array = none): void {
    const ring = this.#ring
    this.#isPublished = false
    const length = head.length + body.length
    if (length > ring.pieceBytesMax) {
      if (length <= ring.messageBytesMax) ring.write(tag, Buffer.concat([head, body]))
      return
    }
    const offset = ring.reserve(tag, length)
    ring.bytes.set(head, offset)
    ring.bytes.set(body, offset + head.length)
    ring.commit()
  }

  /** Also after it was switched off: the next recording begins without what is left of this one. */
  publish(): void {
    if (this.#isPublished) return
    this.#isPublished = true
    this.#ring.publish()
  }
}
