// Counts the samples of a load: latencies, service times, own lag, errors, one window per second.
// Thread: main, so that the generator's thread does not pay for it.

import { Latencies } from './latencies.ts'
import { sampleFields } from './load-generator.ts'
import {
  bootstrapQuantile,
  type Grouped,
  type Interval,
  quantileOf,
  SeededRandom,
} from './statistics.ts'

const windowMs = 1_000

/** One second of intended starts. */
interface Window {
  /** Latencies by bucket of the histogram. */
  readonly buckets: Map<number, number>
  calls: number
  errors: number
}

export interface WindowSummary {
  readonly second: number
  readonly calls: number
  readonly errors: number
  readonly p50Ms: number | null
  readonly p99Ms: number | null
}

export class LoadTally {
  /** From the intended start to the answer; a timeout counts with the time that it waited. */
  readonly latency = new Latencies()
  /** From the write to the answer. */
  readonly service = new Latencies()
  /** From the intended start to the write: a connection was not free, or the generator was late. */
  readonly wait = new Latencies()
  /** From the intended start to when the generator noticed it: its own delay. */
  readonly ownDelay = new Latencies()
  readonly errors = new Map<string, number>()
  calls = 0
  succeeded = 0
  /** Shared clock; of the last answer and of the last noticed start. */
  lastDoneMs = 0
  lastNoticedMs = 0
  readonly #fromMs: number
  readonly #windows: Window[] = []

  /** Samples with an intended start before `fromMs` are the warm-up and do not count. */
  constructor(fromMs: number) {
    this.#fromMs = fromMs
  }

  add(samples: Float64Array, codes: readonly string[]): void {
    for (let at = 0; at < samples.length; at += sampleFields) {
      const intendedMs = samples[at]!
      if (intendedMs < this.#fromMs) continue
      const code = codes[samples[at + 4]!] ?? ''
      const doneMs = samples[at + 3]!
      this.calls += 1
      this.ownDelay.record(samples[at + 1]! - intendedMs)
      this.lastDoneMs = Math.max(this.lastDoneMs, doneMs)
      this.lastNoticedMs = Math.max(this.lastNoticedMs, samples[at + 1]!)
      const window = this.#windowAt(intendedMs)
      window.calls += 1
      if (code === '') {
        this.succeeded += 1
        this.service.record(doneMs - samples[at + 2]!)
        this.wait.record(samples[at + 2]! - intendedMs)
      } else {
        window.errors += 1
        this.errors.set(code, (this.errors.get(code) ?? 0) + 1)
      }
      if (code === '' || code === 'timeout' || code === 'not sent')
        this.#latency(doneMs - intendedMs, window)
    }
  }

  /** 95 % interval of a percentile of the latency, by bootstrap over seconds. */
  intervalOf(percent: number, seed: number): Interval | null {
    return bootstrapQuantile(
      this.#grouped(this.#windows),
      percent / 100,
      new SeededRandom(seed),
      300,
    )
  }

  windows(): WindowSummary[] {
    return this.#windows.map((window, second) => {
      const grouped = this.#grouped([window])
      const p50Ms = quantileOf(grouped, 0.5)
      const p99Ms = quantileOf(grouped, 0.99)
      return { second, calls: window.calls, errors: window.errors, p50Ms, p99Ms }
    })
  }

  #latency(ms: number, { buckets }: Window): void {
    this.latency.record(ms)
    const bucket = this.latency.bucketOf(ms)
    buckets.set(bucket, (buckets.get(bucket) ?? 0) + 1)
  }

  #windowAt(intendedMs: number): Window {
    const index = Math.floor((intendedMs - this.#fromMs) / windowMs)
    while (this.#windows.length <= index)
      this.#windows.push({ buckets: new Map(), calls: 0, errors: 0 })
    return this.#windows[index]!
  }

  #grouped(windows: readonly Window[]): Grouped {
    const values: number[] = []
    const groups: number[] = []
    const weights: number[] = []
    windows.forEach(({ buckets }, group) => {
      for (const [bucket, count] of buckets) {
        values.push(this.latency.bucketMs(bucket))
        groups.push(group)
        weights.push(count)
      }
    })
    return { values, groups, weights, groupCount: windows.length }
  }
}
