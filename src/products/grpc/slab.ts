// Memory that frames are written into, used again when nobody reads it any more. Thread: main.
// A busy door writes hundreds of megabytes a second; left to the garbage collector, that alone
// would keep a core busy.
//
//   slab: [ run | run | run being written | free ]     uses = 1 for the writer
//                                                      + 1 per run that is not handed out yet
//                                                      + 1 per run and stream that has it
//
// A stream that ends with runs in its queue never gives them back: the slab then goes to the
// garbage collector. So a slab comes back only when every last reader said that it is done.

/** Several runs long, so that few of them are cut in two by its end. */
export const slabBytesMax = 256 * 1024
const slabBytesMin = 4 * 1024
/** Slabs that wait for use: 16 MiB. */
const pooledMax = 64

export class SlabPool {
  readonly #free: Slab[] = []

  /** A slab of at least `bytes`, with the writer's use counted. */
  take(bytes: number, lastBytes: number): Slab {
    // Twice the last one, so that a quiet group stays small and a busy one takes large runs.
    const size = Math.max(bytes, Math.min(slabBytesMax, Math.max(slabBytesMin, lastBytes * 2)))
    const slab = size === slabBytesMax ? this.#free.pop() : undefined
    if (slab === undefined) return new Slab(size, size === slabBytesMax ? this.#free : null)
    slab.retain(1)
    return slab
  }
}

export class Slab {
  readonly bytes: Buffer
  readonly #pool: Slab[] | null
  #uses = 1

  constructor(size: number, pool: Slab[] | null) {
    this.bytes = Buffer.allocUnsafeSlow(size)
    this.#pool = pool
  }

  retain(uses: number): void {
    this.#uses += uses
  }

  /** A function of its own, so that it can be handed over as a callback without a new one. */
  readonly release = (): void => {
    if (--this.#uses > 0 || this.#pool === null) return
    if (this.#pool.length < pooledMax) this.#pool.push(this)
  }
}

/** Whole frames, one behind the other. */
export interface Run {
  readonly bytes: Buffer
  /** To be released once for each stream that has sent the run; null for memory of others. */
  readonly slab: Slab | null
}
