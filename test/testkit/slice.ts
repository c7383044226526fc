// `.ci/run` sets SLUICE_LONG_SLICE: storms and soaks then take a slice of their full time.

export const isSlice = process.env.SLUICE_LONG_SLICE === '1'

/** The full time of a long test, or its slice. */
export function spanMs(full: number, slice: number): number {
  return isSlice ? slice : full
}

/** All cases of a long test, or the first of them. */
export function someOf<T>(cases: readonly T[]): readonly T[] {
  return isSlice ? cases.slice(0, 1) : cases
}
