// Latencies of the last minute in fixed memory, for percentiles. Clock passed in.
// Three buckets per doubling from 50 us to 105 s: a percentile is at most 26 percent too high.
//
//   ring of six slices, ten seconds each:  [buckets | count] [buckets | count] ...
//                                           ^ the current one; the oldest is wiped for the next

const firstMs = 0.05
const perDoubling = 3
const bucketCount = 64
const sliceCount = 6
const sliceMs = 10_000

export class LatencyWindow {
  readonly #counts = new Uint32Array(sliceCount * bucketCount)
  readonly #totals = new Uint32Array(sliceCount)
  /** Number of the current slice since the clock's start. */
  #slice = -1

  observe(ms: number, nowMs: number): void {
    const slot = this.#advance(nowMs)
    this.#counts[slot * bucketCount + bucketOf(ms)]!++
    this.#totals[slot]!++
  }

  /** How many were observed within the window. */
  count(nowMs: number): number {
    this.#advance(nowMs)
    return this.#totals.reduce((sum, total) => sum + total, 0)
  }

  /** The upper edge of the bucket at the percentile `share` (0 to 1); null when empty. */
  percentile(share: number, nowMs: number): number | null {
    const total = this.count(nowMs)
    if (total === 0) return null
    const wanted = Math.max(1, Math.ceil(total * share))
    let seen = 0
    for (let bucket = 0; bucket < bucketCount; bucket++) {
      for (let slice = 0; slice < sliceCount; slice++)
        seen += this.#counts[slice * bucketCount + bucket]!
      if (seen >= wanted) return upperEdgeMs(bucket)
    }
    return upperEdgeMs(bucketCount - 1)
  }

  /** Moves to the current slice, wiping those that were skipped; returns its index. */
  #advance(nowMs: number): number {
    const slice = Math.floor(nowMs / sliceMs)
    if (slice > this.#slice) {
      const from = Math.max(this.#slice + 1, slice - sliceCount + 1)
      for (let each = from; each <= slice; each++) this.#wipe(each % sliceCount)
      this.#slice = slice
    }
    return this.#slice % sliceCount
  }

  #wipe(index: number): void {
    this.#counts.fill(0, index * bucketCount, (index + 1) * bucketCount)
    this.#totals[index] = 0
  }
}

function bucketOf(ms: number): number {
  if (ms <= firstMs) return 0
  const bucket = Math.ceil(Math.log2(ms / firstMs) * perDoubling)
  return Math.min(bucket, bucketCount - 1)
}

function upperEdgeMs(bucket: number): number {
  return firstMs * 2 ** (bucket / perDoubling)
}
