// Builds long answers a part at a time, so that other calls get their turn in between.
// Thread: main. Used for blocks and for lists of accounts, whose parts never change.

/** A few items are done at once; of many, `perTurn` in each turn of the event loop. */
export function inTurns<T, R>(
  items: readonly T[],
  perTurn: number,
  make: (item: T) => R,
): R[] | Promise<R[]> {
  return items.length <= perTurn ? items.map(make) : inManyTurns(items, perTurn, make)
}

/** Goes on with a value that is there or will be. */
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
