// States an invariant. Thread: any. A broken one is our bug: the process must stop, loudly.

export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`invariant broken: ${message}`)
}

/** Marks a branch that the type system has proven unreachable. */
export function unreachable(value: never): never {
  throw new Error(`invariant broken: unreachable value ${String(value)}`)
}
