// Long computations in small steps: a generator that yields between units of work.
// An event loop that must not be blocked runs one step per turn; other callers run all at once.

export type Steps<T> = Generator<undefined, T>

/** Runs all steps of a computation and returns its result. */
export function finish<T>(steps: Steps<T>): T {
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  return step.value
}
