// Time as a value that is handed in, so that a test can hold it still. Thread: any.

export interface Clock {
  /** Wall time, milliseconds since 1970. Only for what people or other machines read. */
  nowMs(): number
  /** Monotonic milliseconds with a fraction. For ages, deadlines and rates. */
  monotonicMs(): number
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}
