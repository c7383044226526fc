// A group of streams with equal filters: each update is matched and framed once for all of them.
import { compressFrames } from '../../base/transport/grpc-compression.ts'
import type { GrpcEncoding } from '../../base/transport/grpc-encoding.ts'
import type { FilterSet, NamedFilter } from './filter-set.ts'
import { FrameBatch, type Run, type SlabPool } from './frame.ts'

/** Batched bytes that are flushed before the end of the turn. */
const flushBytes = 64 * 1024

/** Receives runs of whole frames. */
export interface RunSink {
  /** The compression of the runs it takes; null for none. */
  readonly encoding: GrpcEncoding | null
  /** Must release the slab of each run once it is sent. */
  take(runs: readonly Run[], bytes: number, frames: number): void
}

/** A filter in its group. `stamp` deduplicates one that the index names twice. */
export interface Entry<F> {
  readonly filter: F
  readonly group: SubscriberGroup
  stamp: number
}

export class SubscriberGroup {
  /** Replaced by an equal set when the group becomes that of one stream. */
  filters: FilterSet
  readonly sinks = new Set<RunSink>()
  readonly #batch: FrameBatch
  readonly #wantsFlush: (group: SubscriberGroup) => void
  /** Scratch of the matcher: which update matched last, and by which filters. */
  stamp = 0
  hit: NamedFilter | null = null
  moreHits: NamedFilter[] | null = null

  /**
   * `wantsFlush` is called with the first frame after a flush; a body of more than `copyBytesMax`
   * is sent as it is, and must not change.
   */
  constructor(
    filters: FilterSet,
    pool: SlabPool,
    wantsFlush: (group: SubscriberGroup) => void,
    copyBytesMax?: number,
  ) {
    this.filters = filters
    this.#batch = new FrameBatch(pool, copyBytesMax)
    this.#wantsFlush = wantsFlush
  }

  append(tag: number, prefix: Buffer, body: Uint8Array, suffix: Buffer): void {
    const batch = this.#batch
    if (batch.frames === 0) this.#wantsFlush(this)
    batch.append(tag, prefix, body, suffix)
    if (batch.bytes >= flushBytes) this.flush()
  }

  /** Sends all batched frames to the current streams of the group, compressed to those that ask. */
  flush(): void {
    const { bytes, frames } = this.#batch
    if (frames === 0) return
    const runs = this.#batch.take()
    const compressed = new Map<GrpcEncoding, Run>()
    for (const sink of this.sinks) {
      const { encoding } = sink
      if (encoding === null) {
        for (const run of runs) run.slab?.retain(1)
        sink.take(runs, bytes, frames)
        continue
      }
      // Once for all streams that ask for it.
      const run = compressed.get(encoding) ?? { bytes: compressFrames(runs, encoding), slab: null }
      compressed.set(encoding, run)
      sink.take([run], run.bytes.length, frames)
    }
    for (const run of runs) run.slab?.release()
  }
}
