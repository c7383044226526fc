// States an invariant. Thread: any. A broken one is our bug: the process must stop, loudly.

const BROKEN = 'invariant broken: '

export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`${BROKEN}${message}`)
}

/** Marks a branch that the type system has proven unreachable. */
export function unreachable(value: never): never {
  throw new Error(`${BROKEN}unreachable value ${String(value)}`)
}

/** True for what `assert` threw; whoever catches a request's errors lets it end the process. */
export function isBrokenInvariant(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith(BROKEN)
}

/** True for what was thrown by our own mistake; whoever catches everything lets it through. */
export function isBug(error: unknown): boolean {
  if (!(error instanceof Error)) return true
  if (isBrokenInvariant(error)) return true
  return (error instanceof TypeError || error instanceof ReferenceError) && !('code' in error)
}
