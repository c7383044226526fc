// Exponential back-off with jitter: the delay before every retry, reconnect and restart.
// Thread: any; pure but for the random number.

export interface Backoff {
  readonly firstMs: number
  readonly lastMs: number
}

/**
 * Delay after that many failures in a row (1 or more): doubles from `firstMs` up to `lastMs`. Half
 * of it is random, so that many clients do not return at once; it never exceeds the doubled value.
 */
export function backoffMs(failures: number, { firstMs, lastMs }: Backoff): number {
  const delayMs = Math.min(lastMs, firstMs * 2 ** (failures - 1))
  return delayMs * (0.5 + Math.random() / 2)
}
