// Waits for the first good result among several.

/** Resolves to the first value that `isGood` accepts; to null when all came and none was good. */
export function firstGood<T>(
  all: readonly Promise<T>[],
  isGood: (value: T) => boolean,
): Promise<T | null> {
  return new Promise((resolve) => {
    let left = all.length
    for (const one of all)
      void one.then((value) => {
        if (isGood(value)) resolve(value)
        left--
        if (left === 0) resolve(null)
      })
  })
}
