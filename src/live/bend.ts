// The bent axis of efficiency: equal steps for equal factors of what is lost, so that 99.9, 99 and
// 90 are as far apart as they matter.

/** More than this cannot be told apart. */
const percentMost = 99.99

/** -log10(100 - percent): 0 % is -2, 90 % is -1, 99 % is 0, 99.9 % is 1. */
export function bend(percent: number): number {
  return -Math.log10(100 - Math.min(percent, percentMost))
}

export const bendTicks = [0, 70, 90, 97, 99, 99.9]
export const bendLow = bend(0)
export const bendHigh = bend(99.95)
