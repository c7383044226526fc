// Long computations in small steps, so that other calls run in between: a generator that yields
// between units of work, or the items of a list over several turns of the event loop.
// An event loop that must not be blocked runs one step per turn; other callers run all at once.

export type Steps<T> = Generator<undefined, T>

/** Runs all steps of a computation and returns its result. */
export function finish<T>(steps: Steps<T>): T {
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  return step.value
}

/** At most `perTurn` items are made at once; of more, `perTurn` in each turn. */
export function inTurns<T, R>(
  items: readonly T[],
  perTurn: number,
  make: (item: T) => R,
): R[] | Promise<R[]> {
  return items.length <= perTurn ? items.map(make) : inManyTurns(items, perTurn, make)
}

/** Continues with a value, now or when its promise resolves. */
export function whenDone<T, R>(value: T | Promise<T>, next: (value: T) => R): R | Promise<R> {
  return value instanceof Promise ? value.then(next) : next(value)
}

async function inManyTurns<T, R>(
  items: readonly T[],
  perTurn: number,
  make: (item: T) => R,
): Promise<R[]> {
  const made: R[] = []
  for (let at = 0; at < items.length; at += perTurn) {
    if (at > 0) await new Promise((resolve) => setImmediate(resolve))
    for (const item of items.slice(at, at + perTurn)) made.push(make(item))
  }
  return made
}
