// Finds record boundaries, with the count of whole messages before them, in a ring under writing.
// Needed when a reader starts or was overrun and when a writer takes over from one
// that died; never per record.
import {
  chunks,
  continuationFlag,
  lengthMask,
  loadPosition,
  moreFlag,
  paddingFlag,
  publishedAt,
  type RingViews,
  reclaimedAt,
  recordHeaderBytes,
} from './layout.ts'

/** A position between two records: `count` whole messages were written before it. */
export interface RingCheckpoint {
  readonly position: number
  readonly count: number
}

/** The position after everything that is published. */
export function newest(ring: RingViews, fence: Int32Array): RingCheckpoint {
  for (;;) {
    const published = loadPosition(ring.words, publishedAt)
    const found = countUpTo(ring, published, fence)
    // Null only when the writer lapped the ring during the walk; the next walk starts later.
    if (found !== null) return found
  }
}

/** The first whole message that is not reclaimed. */
export function oldest(ring: RingViews, fence: Int32Array): RingCheckpoint {
  for (;;) {
    const start = loadPosition(ring.words, reclaimedAt)
    const published = loadPosition(ring.words, publishedAt)
    const first =
      start === 0 ? { position: 0, count: 0 } : chunkStart(ring, start / ring.chunkBytes)
    const found = skipContinuations(ring, first, published)
    if (found !== null && isIntact(ring, start, fence)) return found
  }
}

/** Counts the whole messages before `position`; null once those bytes may be overwritten. */
export function countUpTo(
  ring: RingViews,
  position: number,
  fence: Int32Array,
): RingCheckpoint | null {
  // The previous chunk: some record began in it, so its start was written and published.
  const chunk = Math.floor(position / ring.chunkBytes) - 1
  const from = chunk < 1 ? { position: 0, count: 0 } : chunkStart(ring, chunk)
  const start = chunk < 1 ? 0 : chunk * ring.chunkBytes
  let { position: at, count } = from
  while (at < position) {
    const word = wordAt(ring, at)
    if ((word & (moreFlag | paddingFlag)) === 0) count += 1
    at += recordBytes(word)
  }
  if (!isIntact(ring, start, fence) || at !== position) return null
  return { position, count }
}

/** True when a published record begins between the start of `position`'s chunk and `position`. */
export function isChunkStarted(ring: RingViews, position: number): boolean {
  const chunk = Math.floor(position / ring.chunkBytes)
  const before = chunk < 2 ? 0 : chunkStart(ring, chunk - 1).position
  let at = before
  while (at < position && at < chunk * ring.chunkBytes) at += recordBytes(wordAt(ring, at))
  return at < position
}

/**
 * True while the writer has not begun to overwrite the bytes from `position` on. Call it after
 * reading: the result then covers what was read. `fence` is a word private to the caller.
 */
export function isIntact(ring: RingViews, position: number, fence: Int32Array): boolean {
  // A read-modify-write is a barrier: on arm64 the plain reads before it could otherwise move
  // after the load below and miss that the writer had begun.
  Atomics.exchange(fence, 0, 0)
  return position >= loadPosition(ring.words, reclaimedAt)
}

/** Size of a record in bytes, header and alignment included. */
export function recordBytes(lengthWord: number): number {
  return ((lengthWord & lengthMask) + recordHeaderBytes + 7) & ~7
}

function chunkStart(ring: RingViews, chunk: number): RingCheckpoint {
  const at = (chunk % chunks) * 2
  return { position: ring.chunkStarts[at]!, count: ring.chunkStarts[at + 1]! }
}

function skipContinuations(
  ring: RingViews,
  from: RingCheckpoint,
  end: number,
): RingCheckpoint | null {
  let { position, count } = from
  while (position < end) {
    const word = wordAt(ring, position)
    if (word >= 0 && (word & continuationFlag) === 0) break
    if (word >= 0 && (word & moreFlag) === 0) count += 1
    position += recordBytes(word)
  }
  return position <= end ? { position, count } : null
}

function wordAt(ring: RingViews, position: number): number {
  return ring.data[(position & (ring.capacity - 1)) >> 2]!
}
