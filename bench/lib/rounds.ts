// Runs one bench: rounds that alternate between baseline and candidates, so that a change of the
// machine's mood hits all of them alike; medians, spread and ratios from those rounds alone.
// Thread: main of the bench process.
import { availableParallelism } from 'node:os'
import {
  type Bench,
  type BenchResult,
  type Contender,
  type Goal,
  type GoalResult,
  type Measurement,
  notInSmoke,
  type RoundContext,
  type Row,
} from './bench.ts'

export const rounds = 3
/** All rounds of a bench together stay within this, whatever the number of contenders. */
const benchSecondsMax = 45
const roundSeconds = 2

export interface RunOptions extends Omit<RoundContext, 'seconds'> {
  /** Per contender and round; left out, what fits into a minute. */
  readonly seconds?: number
  /** 3 unless set. */
  readonly rounds?: number
  progress(text: string): void
}

/** Measures the bench. A wrong or lost answer rejects: no number is better than a false one. */
export async function runBench(bench: Bench, options: RunOptions): Promise<BenchResult> {
  const notes: string[] = []
  const cores = availableParallelism()
  if (bench.cores > cores) notes.push(`needs ${bench.cores} cores to mean much, here are ${cores}`)
  const all = [bench.baseline, ...bench.candidates]
  const seconds =
    options.seconds ??
    bench.seconds ??
    Math.min(roundSeconds, benchSecondsMax / (rounds * Math.max(1, all.length)))
  const { rounds: _, progress: __, ...asked } = options
  const context: RoundContext = { ...asked, seconds }
  const unknown = bench.smoke?.find((name) => !all.some((contender) => contender.name === name))
  if (unknown !== undefined) throw new Error(`${bench.name} has no contender ${unknown}`)
  const present: Contender[] = []
  for (const contender of all) {
    const isLeftOut = context.smoke === true && bench.smoke?.includes(contender.name) === false
    const reason = isLeftOut ? notInSmoke : await contender.missing?.(context)
    if (reason === undefined) present.push(contender)
    else notes.push(`${contender.name} left out: ${reason}`)
  }
  const measured = await measureAll(bench, present, context, options)
  const rows = present.map((contender) =>
    summarise(contender, measured.get(contender.name)!, measured.get(bench.baseline.name)),
  )
  const goals = (bench.goals ?? []).flatMap((goal) => judge(goal, measured) ?? [])
  const { name, question, axis } = bench
  return { name, question, ...(axis !== undefined && { axis }), rows, goals, notes }
}

async function measureAll(
  bench: Bench,
  contenders: readonly Contender[],
  context: RoundContext,
  options: RunOptions,
): Promise<Map<string, Measurement[]>> {
  const measured = new Map(contenders.map(({ name }) => [name, [] as Measurement[]]))
  try {
    for (const contender of contenders) {
      options.progress(`${bench.name}: prepares ${contender.name}`)
      await contender.prepare?.(context)
    }
    const last = options.rounds ?? rounds
    for (let round = 1; round <= last; round += 1)
      for (const contender of contenders) {
        options.progress(`${bench.name}: round ${round} of ${last}, ${contender.name}`)
        const measurement = await contender.run(context)
        const problem = bench.verify(measurement, contender.name)
        if (problem !== undefined) throw new Error(`${bench.name}, ${contender.name}: ${problem}`)
        measured.get(contender.name)!.push(measurement)
      }
  } finally {
    for (const contender of contenders) await contender.close?.()
  }
  return measured
}

function summarise(
  { name, point }: Contender,
  measurements: readonly Measurement[],
  baseline: readonly Measurement[] | undefined,
): Row {
  const ops = measurements.map((one) => one.opsPerSecond)
  const middle = median(ops)
  const ratios = (baseline ?? []).map((one, round) => ops[round]! / one.opsPerSecond)
  const latencies = measurements.flatMap((one) => one.latencyUs ?? [])
  const bytes = measurements.flatMap((one) => one.bytesPerOp ?? [])
  const cpu = measurements.flatMap((one) => one.cpuUsPerOp ?? [])
  const row = {
    name,
    ...(point !== undefined && { point }),
    opsPerSecond: middle,
    spread: (Math.max(...ops) - Math.min(...ops)) / middle,
    ratio: ratios.length === 0 ? Number.NaN : median(ratios),
    ...(bytes.length > 0 && { bytesPerOp: median(bytes) }),
    ...(cpu.length > 0 && { cpuUsPerOp: median(cpu) }),
  }
  if (latencies.length === 0) return row
  return {
    ...row,
    latencyUs: {
      p50: median(latencies.map(({ p50 }) => p50)),
      p99: median(latencies.map(({ p99 }) => p99)),
      p999: median(latencies.map(({ p999 }) => p999)),
    },
  }
}

/** Null when one of the two contenders was left out. */
function judge(goal: Goal, measured: Map<string, Measurement[]>): GoalResult | null {
  const figures = (name: string) => measured.get(name)?.map((one) => figureOf(one, goal.figure))
  const own = figures(goal.contender)
  const other = goal.to === undefined ? own?.map(() => 1) : figures(goal.to)
  const less = goal.minus === undefined ? own?.map(() => 0) : figures(goal.minus)
  if (own === undefined || other === undefined || less === undefined) return null
  const value = median(own.map((figure, round) => (figure - less[round]!) / other[round]!))
  const isMet =
    (goal.atLeast === undefined || value >= goal.atLeast) &&
    (goal.atMost === undefined || value <= goal.atMost)
  return { ...goal, value, isMet }
}

function figureOf(measurement: Measurement, figure: Goal['figure']): number {
  if (figure === 'opsPerSecond') return measurement.opsPerSecond
  if (figure === 'cpuUsPerOp') return measurement.cpuUsPerOp ?? Number.NaN
  return measurement.latencyUs?.[figure] ?? Number.NaN
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  if (sorted.length % 2 === 1) return sorted[middle]!
  return (sorted[middle - 1]! + sorted[middle]!) / 2
}
