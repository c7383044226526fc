// Long computations in small steps: a generator that yields between units of work. Thread: any.
// A loop that must not be held up runs one step a turn; everybody else runs all of them at once.

export type Steps<T> = Generator<undefined, T>

/** Runs a computation to its end. */
export function finish<T>(steps: Steps<T>): T {
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  return step.value
}
