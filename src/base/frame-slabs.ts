// Memory of stored frames: back to back in 1 MiB slabs, each freed with its last frame.
import { assert } from './errors.ts'

const slabBytes = 1024 * 1024
/** A frame longer than this gets memory of its own, so that a slab wastes at most a sixteenth. */
const slabFrameBytesMax = slabBytes / 16

export class FrameSlabs {
  #slab = Buffer.alloc(0)
  #used = 0

  allocate(length: number): Buffer {
    if (length > slabFrameBytesMax) return Buffer.allocUnsafeSlow(length)
    if (this.#used + length > this.#slab.length) {
      this.#slab = Buffer.allocUnsafeSlow(slabBytes)
      this.#used = 0
    }
    this.#used += length
    assert(length > 0 && this.#used <= this.#slab.length, 'a frame lies in its slab')
    return this.#slab.subarray(this.#used - length, this.#used)
  }
}
