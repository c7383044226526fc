// Asserts invariants. A broken invariant is our bug: the process must stop, loudly.

const BROKEN = 'invariant broken: '

export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`${BROKEN}${message}`)
}

/** True for an error of `assert`; code that catches a request's errors must rethrow it. */
export function isBrokenInvariant(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith(BROKEN)
}

/** True for an error caused by a bug of ours; code that catches everything must rethrow it. */
export function isBug(error: unknown): boolean {
  if (!(error instanceof Error)) return true
  if (isBrokenInvariant(error)) return true
  return (error instanceof TypeError || error instanceof ReferenceError) && !('code' in error)
}
