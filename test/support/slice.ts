// `.ci/run` has three minutes for the long suite: it sets SLUICE_LONG_SLICE and gets a slice.

export const isSlice = process.env.SLUICE_LONG_SLICE === '1'

/** The full time of a long test, or its slice. */
export function spanMs(full: number, slice: number): number {
  return isSlice ? slice : full
}
