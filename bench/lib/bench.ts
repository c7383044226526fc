// What a bench is. Each file in bench/micro and bench/load exports one as `bench`.
// Thread: main of the bench process.
import type { Latencies } from '../../src/loadtest/latencies.ts'

/** What one contender did in one round. */
export interface Measurement {
  readonly opsPerSecond: number
  /** Microseconds; left out where a contender has no latency of its own. */
  readonly latencyUs?: { readonly p50: number; readonly p99: number; readonly p999: number }
  /** Bytes on the wire for each operation, or in memory for each entry; shown where it is known. */
  readonly bytesPerOp?: number
  /** Microseconds of processor time for each operation, of all processes that serve it. */
  readonly cpuUsPerOp?: number
  /** What `verify` looks at: checksums, counts, a sample of the answers. */
  readonly evidence?: Readonly<Record<string, unknown>>
}

export interface RoundContext {
  /** How long to measure. */
  readonly seconds: number
  /** A running deployment to aim at, from `--target` and `--token`. */
  readonly target?: string
  readonly token?: string
  /** From `--full`: sizes that take long are measured too. */
  readonly full?: boolean
  /** From `--smoke`: figures do not matter, so nothing is warmed up and little is prepared. */
  readonly smoke?: boolean
}

/** Why a contender is left out that `Bench.smoke` does not name. */
export const notInSmoke = 'not in a smoke run'

/** Where a row lies in a plot: a point of the named line. */
export interface Point {
  readonly line: string
  readonly size: number
}

export interface Contender {
  readonly name: string
  readonly point?: Point
  /** Why it cannot run here (no compiler, no nginx): its row is left out and the reason printed. */
  missing?(context: RoundContext): string | undefined | Promise<string | undefined>
  /** Once before its first round: start servers, build programs, warm up. */
  prepare?(context: RoundContext): Promise<void>
  run(context: RoundContext): Promise<Measurement>
  /** Once after its last round, also when a round failed. */
  close?(): Promise<void>
}

/** A figure, ratio or difference that the design promises, printed under the table as met or not met. */
export interface Goal {
  readonly contender: string
  /** The contender that it is compared with; left out, `value` is absolute. */
  readonly to?: string
  /** The contender whose figure of the same round is taken off. */
  readonly minus?: string
  readonly figure: 'opsPerSecond' | 'p50' | 'p99' | 'cpuUsPerOp'
  readonly atLeast?: number
  readonly atMost?: number
}

export interface Bench {
  readonly name: string
  /** One line that a reader would ask. */
  readonly question: string
  /** Cores that it needs to mean anything; a smaller machine gets a warning. */
  readonly cores: number
  /** Of each contender and round, where no `--seconds` is given. */
  readonly seconds?: number
  /** What grows from point to point, where the contenders are points of a plot. */
  readonly axis?: string
  /** The plain way, measured in the same rounds. */
  readonly baseline: Contender
  readonly candidates: readonly Contender[]
  readonly goals?: readonly Goal[]
  /** Names of the contenders of a smoke run, where some say no more than others; else all. */
  readonly smoke?: readonly string[]
  /** What is wrong with the answers of a round; undefined when they are right. */
  verify(measurement: Measurement, contender: string): string | undefined
}

/** One line of the result: the median round and how far the rounds lay apart. */
export interface Row {
  readonly name: string
  readonly point?: Point
  readonly opsPerSecond: number
  /** (fastest - slowest) / median of the rounds. */
  readonly spread: number
  /** Median over the rounds of the ratio to the baseline's ops/s of the same round. */
  readonly ratio: number
  readonly bytesPerOp?: number
  readonly cpuUsPerOp?: number
  readonly latencyUs?: { readonly p50: number; readonly p99: number; readonly p999: number }
}

export interface GoalResult extends Goal {
  readonly value: number
  readonly isMet: boolean
}

export interface BenchResult {
  readonly name: string
  readonly question: string
  readonly axis?: string
  readonly rows: readonly Row[]
  readonly goals: readonly GoalResult[]
  readonly notes: readonly string[]
}

export interface StoredResult extends BenchResult {
  readonly commit: string
  readonly node: string
  readonly cores: number
  readonly processor: string
  readonly config: Readonly<Record<string, unknown>>
}

export function latencyUsOf(latencies: Latencies): { p50: number; p99: number; p999: number } {
  const us = (percent: number) => (latencies.percentile(percent) ?? 0) * 1000
  return { p50: us(50), p99: us(99), p999: us(99.9) }
}
