// How long the shred worker is away from its socket, by cause, while 10,000 shreds a second pass
// to one destination, blocking and polling. Thread: main of the bench process.
// One run measures all causes: the first row of a way runs it, the others report from it.

import { pauseBoundsMs, pauseCauses } from '../../src/products/shredstream/shared-stats.ts'
import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender, Measurement, RoundContext } from '../lib/bench.ts'
import { compilerMissing } from '../lib/native.ts'
import { freePort, runNet } from '../lib/shred-net.ts'
import type { PauseOutput, ServerInput } from './clients/shred-server.ts'

type Way = 'blocking' | 'polling'
const rate = 10_000
const forwardRow = pauseCauses.indexOf('forward')

async function measure(way: Way, { seconds, smoke }: RoundContext): Promise<PauseOutput> {
  const outPort = await freePort()
  const server: BenchProcess = startProcess(new URL('./clients/shred-server.js', import.meta.url))
  try {
    const io = way === 'polling' ? 'poll' : 'batch'
    const input: ServerInput = { io, targets: 1, outPort }
    const inPort = await server.call<number>('start', input)
    let pauses: PauseOutput
    do {
      await runNet('probe', rate, 1, seconds, inPort, outPort)
      pauses = await server.call<PauseOutput>('pauses')
      // So short a time may have no pause that is long enough to be counted.
    } while (smoke === true && !pauses[forwardRow]!.some((count) => count > 0))
    await server.call('stop')
    return pauses
  } finally {
    await server.stop()
  }
}

function contenders(way: Way): Contender[] {
  let pauses: PauseOutput = []
  return pauseCauses.map((cause, row) => ({
    name: `${way}, ${cause}`,
    missing: compilerMissing,
    async run(context) {
      if (row === 0) pauses = await measure(way, context)
      return summaryOf(pauses[row]!, context.seconds)
    },
  }))
}

function summaryOf(counts: readonly number[], seconds: number): Measurement {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return { opsPerSecond: 0, evidence: { counts } }
  const [p50, p99, p999] = [0.5, 0.99, 0.999].map((share) => boundUsOf(counts, total * share))
  return {
    opsPerSecond: total / seconds,
    latencyUs: { p50: p50!, p99: p99!, p999: p999! },
    evidence: { counts },
  }
}

/** Upper bound of the bucket that contains that many of the shortest pauses. */
function boundUsOf(counts: readonly number[], wanted: number): number {
  let left = wanted
  const index = counts.findIndex((count) => {
    left -= count
    return left <= 0
  })
  return 1000 * (pauseBoundsMs[index] ?? Number.POSITIVE_INFINITY)
}

const [baseline, ...candidates] = [...contenders('blocking'), ...contenders('polling')]

export const bench: Bench = {
  name: 'shred-pauses',
  question: 'How long is the shred worker away from its socket, and why?',
  cores: 3,
  baseline: baseline!,
  candidates,
  verify: ({ evidence }, name) =>
    name.endsWith('forward') && !(evidence!.counts as number[]).some((count) => count > 0)
      ? 'no pause was counted'
      : undefined,
}
