// Places to gather answers in, used again and again: fresh memory for each answer of 100 kB would
// cost more than passing it on. Thread: main. Used by attempt.ts; what is never given back is
// collected like everything else.

/** The longest answer that is gathered whole. */
export const SLAB_BYTES = 262_144
/** Shorter answers get memory of their own. */
const SLAB_FROM_BYTES = 16_384
const SPARE_MAX = 32

const spare: Buffer[] = []

/** Room for at least `bytes`. */
export function takeSlab(bytes: number): Buffer {
  if (bytes < SLAB_FROM_BYTES) return Buffer.allocUnsafe(bytes)
  return spare.pop() ?? Buffer.allocUnsafeSlow(SLAB_BYTES)
}

/** Nobody looks at it any more. Once per slab. */
export function giveSlab(slab: Buffer): void {
  if (slab.length === SLAB_BYTES && spare.length < SPARE_MAX) spare.push(slab)
}
