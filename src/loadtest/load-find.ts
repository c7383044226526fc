// Runs a load at one rate after another to find the knee, and builds its result.
import { accept, type Outcome } from '../base/errors.ts'
import { type LoadRun, type LoadSettings, type LoadWatch, runLoad } from './load.ts'
import { cannotGenerate, loadResult } from './load-result.ts'
import type { Plot } from './plot.ts'
import { type Condition, meets } from './quantities.ts'
import type { ReportTable } from './report.ts'
import { type Figure, figureIn, type Result } from './result.ts'
import { shortNumber, valueText } from './result-text.ts'

export interface LoadStep {
  readonly run: LoadRun
  readonly result: Result
}

export interface Found {
  readonly result: Result
  /** Of the step that the result shows. */
  readonly run: LoadRun
  readonly plot: Plot
  readonly table: ReportTable
}

/** Searches the highest rate at which all conditions hold. */
export async function findLoad(
  settings: LoadSettings,
  conditions: readonly Condition[],
  watch: LoadWatch & { step?(rate: number): void },
): Promise<Outcome<Found>> {
  const knee = await findKnee<LoadStep>(settings.plan.rate, async (rate) => {
    watch.step?.(rate)
    const ran = await runLoad({ ...settings, plan: { ...settings.plan, rate } }, watch)
    return ran.ok ? accept(stepOf(ran.value, rate, conditions)) : ran
  })
  return knee.ok ? accept(found(knee.value)) : knee
}

function stepOf(run: LoadRun, rate: number, conditions: readonly Condition[]): Step<LoadStep> {
  const result = loadResult(run)
  const isMet =
    run.partial === null &&
    conditions.every((condition) =>
      meets(figureIn(result, condition.figure)?.value ?? null, condition),
    )
  const problem = run.partial ?? cannotGenerate(run)
  return { rate, isMet, problem, run: { run, result } }
}

function found({ steps, best, problem }: Knee<LoadStep>): Found {
  // Without a rate that met the conditions, the last one shows why.
  const shown = (best ?? steps.at(-1)!).run
  const knee: Figure = {
    name: 'knee',
    of: '',
    value: best?.rate ?? null,
    unit: 'per second',
    better: 'higher',
  }
  const above = best === null ? '' : `, the knee is above ${shortNumber(best.rate)}/s`
  const unfit =
    problem === null ? shown.result.unfit : [`the search ended early${above}: ${problem}`]
  const { result } = shown
  return {
    run: shown.run,
    result: {
      ...result,
      fit: unfit.length === 0,
      unfit,
      figures: [knee, ...result.figures],
      detail: { ...result.detail, steps: steps.map(stepDetail) },
    },
    plot: plotOf(steps),
    table: {
      title: 'Steps of the search',
      head: ['rate', 'conditions', 'p50', 'p99', 'errors', 'achieved'],
      rows: steps.map((step) => [
        valueText(step.rate, 'per second'),
        step.isMet ? 'met' : 'not met',
        ...['p50', 'p99', 'errors', 'achieved'].map((name) => shownFigure(step, name)),
      ]),
    },
  }
}

function shownFigure({ run }: Step<LoadStep>, name: string): string {
  const figure = figureIn(run.result, name)
  return figure === null ? '' : valueText(figure.value, figure.unit)
}

function stepDetail({ rate, isMet, problem, run }: Step<LoadStep>) {
  const value = (name: string) => figureIn(run.result, name)?.value ?? null
  return { rate, isMet, problem, p50: value('p50'), p99: value('p99'), errors: value('errors') }
}

function plotOf(steps: readonly Step<LoadStep>[]): Plot {
  const sorted = [...steps].sort((a, b) => a.rate - b.rate)
  const line = (name: string) => ({
    name,
    points: sorted.flatMap(({ rate, run }) => {
      const value = figureIn(run.result, name)?.value ?? null
      return value === null ? [] : [[rate, value] as const]
    }),
  })
  return {
    title: 'Latency by rate',
    x: { kind: 'log', title: 'calls per second' },
    y: { kind: 'log', title: 'ms' },
    lines: [line('p99'), line('p50')],
  }
}

/** What one run at a rate showed. */
export interface Step<Run> {
  readonly rate: number
  readonly isMet: boolean
  /** A sentence when the run says nothing about the endpoint: unfit, or stopped early. */
  readonly problem: string | null
  readonly run: Run
}

interface Knee<Run> {
  readonly steps: readonly Step<Run>[]
  /** The run at the highest rate that met the conditions; null when none did. */
  readonly best: Step<Run> | null
  /** A sentence when the knee was not reached; null when it was found. */
  readonly problem: string | null
}

/** The search ends when the knee is known to this part of it. */
const precision = 0.04
const rateMin = 1

export async function findKnee<Run>(
  startRate: number,
  runAt: (rate: number) => Promise<Outcome<Step<Run>>>,
): Promise<Outcome<Knee<Run>>> {
  const steps: Step<Run>[] = []
  let best: Step<Run> | null = null
  let failedRate = Number.POSITIVE_INFINITY
  let rate = startRate
  while (failedRate - (best?.rate ?? 0) > precision * failedRate || !Number.isFinite(failedRate)) {
    const step = await twice(rate, runAt, steps)
    if (!step.ok) return step
    const { isMet, problem } = step.value
    if (isMet) best = step.value
    else if (problem !== null) return accept({ steps, best, problem })
    else failedRate = rate
    if (failedRate <= rateMin)
      return accept({ steps, best, problem: `no rate down to ${rateMin}/s meets the conditions` })
    rate = nextRate(best?.rate ?? null, failedRate)
  }
  return accept({ steps, best, problem: null })
}

async function twice<Run>(
  rate: number,
  runAt: (rate: number) => Promise<Outcome<Step<Run>>>,
  steps: Step<Run>[],
): Promise<Outcome<Step<Run>>> {
  const first = await runAt(rate)
  if (!first.ok) return first
  steps.push(first.value)
  if (first.value.isMet) return first
  const second = await runAt(rate)
  if (second.ok) steps.push(second.value)
  return second
}

function nextRate(met: number | null, failed: number): number {
  if (met === null) return Math.max(rateMin, failed / 2)
  return Number.isFinite(failed) ? (met + failed) / 2 : met * 2
}
