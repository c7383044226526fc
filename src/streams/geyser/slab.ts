// A pool of reference-counted buffers for frames.
// A busy endpoint writes hundreds of megabytes a second; garbage collecting them would take a core.
//
//   slab: [ run | run | run being written | free ]     uses = 1 for the writer
//                                                      + 1 per unpublished run
//                                                      + 1 per run and stream
//
// A stream that ends with runs in its queue never releases them: the buffer then goes to the
// garbage collector. Each time a buffer leaves the pool it gets a `Slab` of its own, so a late or
// second release cannot touch the count of the next writer: it throws, and the process stops.
import { assert } from '../../base/assert.ts'

/** Several runs long, so that few runs are split at its end. */
export const slabBytesMax = 256 * 1024
const slabBytesMin = 4 * 1024
/** Buffers in the pool: 16 MiB. */
const pooledMax = 64

export class SlabPool {
  readonly #free: Buffer[] = []

  /** A slab of at least `bytes`, retained once for the writer. */
  take(bytes: number, lastBytes: number): Slab {
    // Twice the last one, so that a quiet group stays small and a busy one takes large runs.
    const size = Math.max(bytes, Math.min(slabBytesMax, Math.max(slabBytesMin, lastBytes * 2)))
    if (size !== slabBytesMax) return new Slab(Buffer.allocUnsafeSlow(size), null)
    return new Slab(this.#free.pop() ?? Buffer.allocUnsafeSlow(size), this.#free)
  }
}

export class Slab {
  readonly bytes: Buffer
  readonly #pool: Buffer[] | null
  #uses = 1

  constructor(bytes: Buffer, pool: Buffer[] | null) {
    this.bytes = bytes
    this.#pool = pool
  }

  retain(uses: number): void {
    assert(this.#uses > 0, 'a slab was retained after its last release')
    this.#uses += uses
  }

  /** A bound function, so that no closure is allocated per callback. */
  readonly release = (): void => {
    assert(this.#uses > 0, 'a slab was released more often than retained')
    if (--this.#uses > 0 || this.#pool === null) return
    if (this.#pool.length < pooledMax) this.#pool.push(this.bytes)
  }
}

/** Whole frames, one after the other. */
export interface Run {
  readonly bytes: Buffer
  /** Released once per stream that has sent the run; null for memory outside the pool. */
  readonly slab: Slab | null
}
