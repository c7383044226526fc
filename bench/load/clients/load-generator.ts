// The generator of `sluice bench load` in a process of its own, as its load thread runs it.
// Thread: main of that process.
import { Arrivals } from '../../../src/loadtest/arrivals.ts'
import { LoadGenerator, sampleFields } from '../../../src/loadtest/load-generator.ts'
import { createDriver } from '../../../src/loadtest/load-worker.ts'
import { sharedNowMs } from '../../../src/loadtest/thread-clock.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { usedSeconds } from '../../lib/processor-time.ts'

export interface GeneratorInput {
  readonly kind: string
  readonly url: string
  readonly call: string
  readonly connections: number
  readonly rate: number
  readonly seconds: number
}

export interface GeneratorOutput {
  /** Answers without an error, and with one. */
  readonly answers: number
  readonly wrong: number
  readonly cpuSeconds: number
  readonly seconds: number
  readonly busyShare: number
  /** Microseconds from the intended start. */
  readonly p50: number
  readonly p99: number
  readonly p999: number
}

serveBench({ generate })

async function generate(input: GeneratorInput): Promise<GeneratorOutput> {
  const { rate, seconds, kind, url, connections, call } = input
  const latencies: number[] = []
  let wrong = 0
  const plan = {
    kind: 'constant',
    rate,
    seed: 1,
    durationMs: seconds * 1000,
    callCount: 1,
  } as const
  const generator = new LoadGenerator({
    arrivals: new Arrivals(plan),
    timeoutMs: 1_000,
    emit: (samples, codes) => {
      for (let at = 0; at < samples.length; at += sampleFields) {
        const code = codes[samples[at + 4]!]
        if (code === '') latencies.push(samples[at + 3]! - samples[at]!)
        else if (code !== 'not sent' && code !== 'timeout') wrong += 1
      }
    },
  })
  const target = { kind, url, token: null, connections, calls: [call], connectMsMax: 5_000 }
  const driver = createDriver(target, generator.events)
  const problem = await driver.open()
  if (problem !== null) throw new Error(problem)
  const before = usedSeconds()
  const startMs = sharedNowMs()
  // What waits at the end is not sent any more.
  const timer = setTimeout(() => generator.stop(), seconds * 1000)
  await generator.run(driver, startMs)
  clearTimeout(timer)
  const cpuSeconds = usedSeconds() - before
  const tookSeconds = (sharedNowMs() - startMs) / 1000
  driver.close()
  const sorted = Float64Array.from(latencies).sort()
  const us = (share: number) => (sorted[Math.floor(share * (sorted.length - 1))] ?? 0) * 1000
  return {
    answers: latencies.length,
    wrong,
    cpuSeconds,
    seconds: tookSeconds,
    busyShare: generator.busy.share,
    p50: us(0.5),
    p99: us(0.99),
    p999: us(0.999),
  }
}
