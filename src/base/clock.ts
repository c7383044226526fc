// Clock interface that is passed in as a dependency, so that a test can stop time.

export interface Clock {
  /** Wall-clock time, milliseconds since 1970. Only for what people or other machines read. */
  nowMs(): number
  /** Monotonic milliseconds with a fraction. For ages, deadlines and rates. */
  monotonicMs(): number
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}
