// Readers that may hold a ring's writer back, for the roads where nothing may be lost.
// Thread: any. A hold is a line of the ring's header: where its reader stands, and whether it is
// taken. It survives its reader: a restarted one takes the same hold and nothing was overwritten.
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
  // After the position: a writer that sees the hold taken must see where it stands.
  Atomics.store(ring.words, holdTakenAt(slot), 1)
}

/** Tells the writer that the bytes below `position` are no longer needed. */
export function moveHold(ring: RingViews, slot: number, position: number): void {
  const { words, chunkBytes } = ring
  const before = loadPosition(words, holdAt(slot))
  // The store releases: all reads of those bytes are done before the writer can see it.
  storePosition(words, holdAt(slot), position)
  // The writer reuses whole chunks: until one is free there is nothing to wake it for.
  if (Math.floor(before / chunkBytes) !== Math.floor(position / chunkBytes))
    wake(words, writerSleepsAt)
}

/** Frees a hold for good, also one whose reader died: the writer goes on without it. */
export function releaseHold(at: RingDescriptor, slot: number): void {
  const { words } = openViews(at)
  Atomics.store(words, holdTakenAt(slot), 0)
  wake(words, writerSleepsAt)
}

/** Where the hold stands: a restarted reader goes on from here. Null when it is not taken. */
export function holdPosition(at: RingDescriptor, slot: number): number | null {
  const { words } = openViews(at)
  // Before the position: pairs with the order in takeHold.
  return Atomics.load(words, holdTakenAt(slot)) === 0 ? null : loadPosition(words, holdAt(slot))
}

/** The least position of all holds; `otherwise` when there is none. */
export function slowestHold(ring: RingViews, otherwise: number): number {
  let slowest = otherwise
  for (let slot = 0; slot < holds; slot += 1) {
    // Acquires: what the reader did with the bytes below its position is done.
    if (Atomics.load(ring.words, holdTakenAt(slot)) === 0) continue
    slowest = Math.min(slowest, loadPosition(ring.words, holdAt(slot)))
  }
  return slowest
}
