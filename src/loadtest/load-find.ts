// Runs a load at one rate after another to find the knee, and builds its result.
import { accept, type Outcome } from '../base/errors.ts'
import { findKnee, type Knee, type Step } from './find-knee.ts'
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
