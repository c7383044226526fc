// Backpressure from readers to a ring's writer, for pipelines that must not lose a record.
// Thread: any. A hold is a cache line of the ring's header: its reader's position and whether the
// hold is taken. It outlives its reader: a restarted reader takes the same hold again and no
// record was overwritten meanwhile.
import { assert } from '../base/assert.ts'
import {
  holdAt,
  holds,
  holdTakenAt,
  loadPosition,
  openViews,
  type RingDescriptor,
  type RingViews,
  storePosition,
  writerSleepsAt,
} from './layout.ts'
import { wake } from './wake.ts'

/** Marks the hold as taken at `position`. */
export function takeHold(ring: RingViews, slot: number, position: number): void {
  assert(Number.isInteger(slot) && slot >= 0 && slot < holds, `a hold is 0 to ${holds - 1}`)
  storePosition(ring.words, holdAt(slot), position)
  // After the position: a writer that sees the hold taken must also see its position.
  Atomics.store(ring.words, holdTakenAt(slot), 1)
}

/** Advances the hold: the writer may overwrite the bytes below `position`. */
export function moveHold(ring: RingViews, slot: number, position: number): void {
  const { words, chunkBytes } = ring
  const before = loadPosition(words, holdAt(slot))
  // The store releases: all reads of those bytes are done before the writer can see it.
  storePosition(words, holdAt(slot), position)
  // The writer reuses whole chunks: until one is free there is nothing to wake it for.
  if (Math.floor(before / chunkBytes) !== Math.floor(position / chunkBytes))
    wake(words, writerSleepsAt)
}

/** Position of the hold, where a restarted reader resumes. Null when it is not taken. */
export function holdPosition(at: RingDescriptor, slot: number): number | null {
  const { words } = openViews(at)
  // Loaded before the position: pairs with the order of the stores in takeHold.
  return Atomics.load(words, holdTakenAt(slot)) === 0 ? null : loadPosition(words, holdAt(slot))
}

/** The lowest position of all taken holds; `otherwise` when none is taken. */
export function slowestHold(ring: RingViews, otherwise: number): number {
  let slowest = otherwise
  for (let slot = 0; slot < holds; slot += 1) {
    // Acquires: the reader has finished with the bytes below its position.
    if (Atomics.load(ring.words, holdTakenAt(slot)) === 0) continue
    slowest = Math.min(slowest, loadPosition(ring.words, holdAt(slot)))
  }
  return slowest
}
