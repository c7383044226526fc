// Calls a synchronous function until the time of a round is over. Thread: main of the bench process.
import type { Measurement } from './bench.ts'

/** `opsEach` is how many operations one call makes. At least one call. */
export function repeat(
  seconds: number,
  opsEach: number,
  call: () => unknown,
): Pick<Measurement, 'opsPerSecond'> {
  const start = performance.now()
  const end = start + seconds * 1000
  let calls = 0
  do {
    call()
    calls += 1
  } while (performance.now() < end)
  return { opsPerSecond: (calls * opsEach * 1000) / (performance.now() - start) }
}
