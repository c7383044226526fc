// Streams that asked for the same: each update is matched and framed once for all of them.
// Thread: main. Made by fan-out.ts; matcher.ts appends, and a flush hands the runs to the streams.
import type { FilterSet, NamedFilter } from './filter-set.ts'
import { FrameBatch } from './frame.ts'
import type { Run, SlabPool } from './slab.ts'

/** Frames are handed to the streams at the end of the turn, or when this much of them waits. */
const flushBytes = 64 * 1024

/** Takes runs of whole frames; subscriber.ts is one. */
export interface RunSink {
  /** Releases the slab of each run when it is sent. */
  take(runs: readonly Run[], bytes: number, frames: number): void
}

/** A filter in its group. `stamp` keeps one that is reached by two ways from counting twice. */
export interface Entry<F> {
  readonly filter: F
  readonly group: Group
  stamp: number
}

export class Group {
  readonly filters: FilterSet
  readonly sinks = new Set<RunSink>()
  readonly #batch: FrameBatch
  readonly #wantsFlush: (group: Group) => void
  /** Scratch of matcher.ts: which update was last matched, and by which filters. */
  stamp = 0
  hit: NamedFilter | null = null
  moreHits: NamedFilter[] | null = null

  /** `wantsFlush` is told once, when the first frame after a flush was appended. */
  constructor(filters: FilterSet, pool: SlabPool, wantsFlush: (group: Group) => void) {
    this.filters = filters
    this.#batch = new FrameBatch(pool)
    this.#wantsFlush = wantsFlush
  }

  append(tag: number, prefix: Buffer, body: Uint8Array, suffix: Buffer): void {
    const batch = this.#batch
    if (batch.frames === 0) this.#wantsFlush(this)
    batch.append(tag, prefix, body, suffix)
    if (batch.bytes >= flushBytes) this.flush()
  }

  /** Hands everything appended so far to the streams that are in the group now. */
  flush(): void {
    const { bytes, frames } = this.#batch
    if (frames === 0) return
    const runs = this.#batch.take()
    for (const run of runs) run.slab?.retain(this.sinks.size)
    for (const sink of this.sinks) sink.take(runs, bytes, frames)
    for (const run of runs) run.slab?.release()
  }
}
