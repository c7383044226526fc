// Does the operations of a growth bench at one size. Thread: main of a process of its own.

import { Latencies } from '../../../src/loadtest/latencies.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { latencyUsOf, type Measurement } from '../../lib/bench.ts'
import type { OpenWorks, Work } from '../../lib/growth.ts'
import { usedSeconds } from '../../lib/processor-time.ts'

const warmUpSeconds = 0.1

let works: Readonly<Record<string, Work>> = {}

serveBench({
  async open({ file, size, isWarm }: { file: string; size: number; isWarm: boolean }) {
    const { open } = (await import(file)) as { open: OpenWorks }
    works = await open(size)
    if (!isWarm) return
    for (const work of Object.values(works)) {
      work.problem?.(await repeat(work, warmUpSeconds))
    }
  },
  run: ({ line, seconds }: { line: string; seconds: number }) => run(works[line]!, seconds),
})

/** Costs first, over most of the time; then single steps by the clock, for the percentiles. */
async function run(work: Work, seconds: number): Promise<Measurement> {
  const before = usedSeconds()
  const operations = await repeat(work, seconds * 0.7)
  const used = usedSeconds() - before
  const histogram = new Latencies()
  const timed = await repeat({ ...work, step: timedStep(work, histogram) }, seconds * 0.3)
  const problem = work.problem?.(operations + timed)
  return {
    opsPerSecond: operations / used,
    latencyUs: latencyUsOf(histogram),
    ...(work.bytesPerEntry !== undefined && { bytesPerOp: work.bytesPerEntry }),
    ...(problem !== undefined && { evidence: { problem } }),
  }
}

async function repeat({ step, stepsPerTurn = 1 }: Work, seconds: number): Promise<number> {
  const endMs = performance.now() + seconds * 1000
  let operations = 0
  do {
    for (let count = 0; count < stepsPerTurn; count++) {
      const done = step()
      operations += typeof done === 'number' ? done : await done
    }
    await new Promise((resolve) => setImmediate(resolve))
  } while (performance.now() < endMs)
  return operations
}

/** Records the time of each operation; of a step with several, their mean. */
function timedStep(work: Work, histogram: Latencies): () => number | Promise<number> {
  return () => {
    const start = process.hrtime.bigint()
    const done = work.step()
    const record = (operations: number) => {
      histogram.record(Number(process.hrtime.bigint() - start) / operations / 1e6)
      return operations
    }
    return typeof done === 'number' ? record(done) : done.then(record)
  }
}
