// Backpressure from readers to a ring's writer, for pipelines that must not lose a record.
// A lease is a cache line of the ring's header: its reader's position and whether the
// lease is taken. It outlives its reader: a restarted reader takes the same lease, and no
// record was overwritten meanwhile.
import { assert } from '../assert.ts'
import {
  leaseAt,
  leases,
  leaseTakenAt,
  loadPosition,
  lowOf,
  openViews,
  type RingDescriptor,
  type RingViews,
  storePosition,
  unitBytes,
  writerSleepsAt,
} from './layout.ts'
import { wake } from './wake.ts'

/** Takes the lease at `position`. */
export function takeLease(ring: RingViews, slot: number, position: number): void {
  assert(Number.isInteger(slot) && slot >= 0 && slot < leases, `a lease is 0 to ${leases - 1}`)
  storePosition(ring.words, leaseAt(slot), position)
  // After the position: a writer that sees the lease taken must also see its position.
  Atomics.store(ring.words, leaseTakenAt(slot), 1)
}

/** Advances the lease: the writer may overwrite the bytes below `position`. */
export function moveLease(ring: RingViews, slot: number, position: number): void {
  const { words, chunkBytes } = ring
  // A plain load: the caller's own store was the last one.
  const before = words[leaseAt(slot)]!
  // The store releases: all reads of those bytes are done before the writer can see it.
  storePosition(words, leaseAt(slot), position)
  // The writer reuses whole chunks: until one is free there is nothing to wake it for.
  const chunkMask = -(chunkBytes / unitBytes)
  if (((before ^ lowOf(position)) & chunkMask) !== 0) wake(words, writerSleepsAt)
}

/** Position of the lease, where a restarted reader resumes. Null when it is not taken. */
export function leasePosition(at: RingDescriptor, slot: number): number | null {
  const { words } = openViews(at)
  // Loaded before the position: pairs with the order of the stores in takeLease.
  return Atomics.load(words, leaseTakenAt(slot)) === 0 ? null : loadPosition(words, leaseAt(slot))
}

/** The lowest position of all taken leases; `otherwise` when none is taken. */
export function slowestLease(ring: RingViews, otherwise: number): number {
  let slowest = otherwise
  for (let slot = 0; slot < leases; slot += 1) {
    // Acquires: the reader has finished with the bytes below its position.
    if (Atomics.load(ring.words, leaseTakenAt(slot)) === 0) continue
    slowest = Math.min(slowest, loadPosition(ring.words, leaseAt(slot)))
  }
  return slowest
}
