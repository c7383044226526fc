// A pool of buffers that nodes' answers are gathered in: fresh memory for each answer of 100 kB
// would cost more than passing it on. Thread: main. A slab that is never released is collected by
// the garbage collector. Each answer gets a `Slab` of its own, so a second release throws instead
// of putting one buffer into the pool twice.
import { assert } from '../../base/assert.ts'

/** The longest answer that is gathered whole. */
export const SLAB_BYTES = 262_144
/** Shorter answers get memory of their own. */
const SLAB_FROM_BYTES = 16_384
const SPARE_MAX = 32

const spare: Buffer[] = []

export class Slab {
  readonly bytes: Buffer
  #isReleased = false

  /** Room for at least `bytes`. */
  constructor(bytes: number) {
    this.bytes =
      bytes < SLAB_FROM_BYTES
        ? Buffer.allocUnsafe(bytes)
        : (spare.pop() ?? Buffer.allocUnsafeSlow(SLAB_BYTES))
  }

  /** Returns the buffer to the pool; the caller reads it no more. */
  release(): void {
    assert(!this.#isReleased, 'a slab of the proxy was released twice')
    this.#isReleased = true
    if (this.bytes.length === SLAB_BYTES && spare.length < SPARE_MAX) spare.push(this.bytes)
  }
}
