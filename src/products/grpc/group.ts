// Streams that asked for the same: each update is matched and framed once for all of them.
// Thread: main. Made by fan-out.ts; matcher.ts appends, and a flush hands the runs to the streams.
import type { FilterSet, NamedFilter } from './filter-set.ts'
import { FrameBatch, slabBytesMax } from './frame.ts'

/** Takes runs of whole frames; subscriber.ts is one. */
export interface RunSink {
  take(runs: readonly Buffer[], bytes: number, frames: number): void
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
  readonly #batch = new FrameBatch()
  readonly #wantsFlush: (group: Group) => void
  /** Scratch of matcher.ts: which update was last matched, and by which filters. */
  stamp = 0
  readonly hits: NamedFilter[] = []

  /** `wantsFlush` is told once, when the first frame after a flush was appended. */
  constructor(filters: FilterSet, wantsFlush: (group: Group) => void) {
    this.filters = filters
    this.#wantsFlush = wantsFlush
  }

  append(tag: number, prefix: Buffer, body: Uint8Array, suffix: Buffer): void {
    const batch = this.#batch
    if (batch.frames === 0) this.#wantsFlush(this)
    batch.append(tag, prefix, body, suffix)
    if (batch.bytes >= slabBytesMax) this.flush()
  }

  /** Hands everything appended so far to the streams that are in the group now. */
  flush(): void {
    const { bytes, frames } = this.#batch
    if (frames === 0) return
    const runs = this.#batch.take()
    for (const sink of this.sinks) sink.take(runs, bytes, frames)
  }
}
