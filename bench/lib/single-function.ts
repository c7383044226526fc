// A contender that is one synchronous function, measured by the `benchmark` package.
// Thread: main of the bench process.
import Benchmark from 'benchmark'
import type { Contender } from './bench.ts'
import { repeat } from './repeat.ts'

export interface SingleFunction {
  readonly name: string
  /** What is measured. */
  call(): unknown
  /** Calls of the inner function per `call`, where one alone is too short to time. */
  readonly callsEach?: number
  /** Computed once after each round, outside the measurement; `verify` looks at it. */
  evidence?(): Readonly<Record<string, unknown>>
}

export function singleFunction(about: SingleFunction): Contender {
  return {
    name: about.name,
    async run({ seconds, smoke }) {
      const callsEach = about.callsEach ?? 1
      if (smoke === true) {
        const measured = repeat(seconds, callsEach, () => about.call())
        return { ...measured, ...(about.evidence && { evidence: about.evidence() }) }
      }
      const result = new Benchmark({
        fn: () => about.call(),
        maxTime: seconds,
        minSamples: 5,
      }).run()
      // Reason for the cast: its types leave out that an aborted run carries its error.
      const { error } = result as unknown as { error?: Error }
      if (error !== undefined) throw error
      const opsPerSecond = result.hz * callsEach
      const evidence = about.evidence?.()
      return evidence === undefined ? { opsPerSecond } : { opsPerSecond, evidence }
    },
  }
}
