// Turns a finished load into the result: figures, reasons why it is unfit, plots.
import { accept, type Outcome } from '../base/errors.ts'
import { lagMsMax } from './lag-watch.ts'
import type { Latencies } from './latencies.ts'
import { type LoadRun, type LoadSettings, type LoadWatch, runLoad } from './load.ts'
import type { LoadTally } from './load-tally.ts'
import type { Plot } from './plot.ts'
import type { ReportTable } from './report.ts'
import type { Condition, Figure, Result } from './result.ts'
import { figureIn, meets, resultOf, shortNumber, valueText } from './result.ts'
import { wilson } from './statistics.ts'

const percents = [50, 90, 99, 99.9]
/** Codes of a refusal for a limit. */
const limitCodes = ['HTTP 429', 'rpc -32429', 'grpc 8']
const plotPercents = [0, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.9, 99.95, 99.99, 99.999]
/** Names that --find and --require may use. */
export const loadFigures = [
  ...percents.map((percent) => `p${percent}`),
  'max',
  'mean',
  ...percents.map((percent) => `service-p${percent}`),
  'errors',
  'achieved',
] as const

/** A thread that works more of a second than this measures its own queue. */
const busyShareMax = 0.95
/** The part of the asked rate below which the machine did not generate it. */
const generatedShareMin = 0.9

export function loadResult(run: LoadRun): Result {
  const { settings, tally, startedAt, seconds, reconnects } = run
  const { target, plan } = settings
  return resultOf({
    verb: 'load',
    startedAt,
    seconds,
    unfit: unfitReasons(run),
    partial: run.partial,
    settings: {
      endpoint: target.label,
      arrivals: plan.kind,
      rate: plan.kind === 'recorded' ? null : plan.rate,
      speed: plan.speed ?? null,
      seed: plan.kind === 'poisson' ? plan.seed : null,
      calls: settings.calls.length,
      connections: settings.connections,
      threads: settings.threads,
      'timeout-ms': settings.timeoutMs,
      'warm-up-ms': settings.warmUpMs,
    },
    figures: figuresOf(run),
    histograms: { latency: tally.latency.encoded(), service: tally.service.encoded() },
    detail: {
      errors: Object.fromEntries(tally.errors),
      reconnects,
      notifications: run.notifications,
      windows: tally.windows(),
    },
  })
}

/** The result in a sentence, and what to do about calls that were refused for a limit. */
export function loadSentences(run: LoadRun): string[] {
  const { tally, settings } = run
  const { plan, target } = settings
  const asked = plan.kind === 'recorded' ? '' : ` of ${shortNumber(plan.rate)} asked`
  const achieved = valueText(achievedRate(run), 'per second')
  const failed = tally.calls === 0 ? null : (tally.calls - tally.succeeded) / tally.calls
  const [worst] = errorsOf(tally)
  const most = worst === undefined ? '' : `, most of them ${worst[0]}`
  const p99 = valueText(tally.latency.percentile(99), 'ms')
  const first =
    `${target.label} answered ${achieved}${asked}; ${valueText(failed, 'share')} of the calls ` +
    `failed${most}; 99 % were answered within ${p99} of their intended start.`
  const hint = limitHint(run)
  return hint === null ? [first] : [first, hint]
}

/** Errors by code, the most frequent first. */
export function errorsOf({ errors }: LoadTally): [code: string, count: number][] {
  return [...errors].sort((a, b) => b[1] - a[1])
}

export function errorsTable(tally: LoadTally): ReportTable[] {
  const rows = errorsOf(tally).map(([code, count]) => [
    code,
    shortNumber(count),
    valueText(count / tally.calls, 'share'),
  ])
  return rows.length === 0
    ? []
    : [{ title: 'Errors by code', head: ['code', 'calls', 'of all calls'], rows }]
}

function limitHint({ tally, policy }: LoadRun): string | null {
  const code = limitCodes.find((one) => tally.errors.has(one))
  if (code === undefined) return null
  const [, credits, seconds] = /;q=(\d+);w=(\d+)/.exec(policy ?? '') ?? []
  const allowed =
    credits === undefined
      ? 'a limit of the subscription or the address'
      : `the plan allows ${shortNumber(Number(credits) / Number(seconds))} credits per second`
  return (
    `${code} means: ${allowed}. For a load test of an endpoint of your own: ` +
    'sluice subscription set demo --plan unlimited'
  )
}

function achievedRate({ tally, settings, seconds, startedMs }: LoadRun): number | null {
  if (tally.calls === 0 || seconds === 0) return null
  const fromMs = startedMs + settings.warmUpMs
  return tally.succeeded / Math.max(seconds, (tally.lastDoneMs - fromMs) / 1000)
}

function figuresOf(run: LoadRun): Figure[] {
  const { tally, settings } = run
  const whole = { of: '' } as const
  const failed = tally.calls - tally.succeeded
  const errors = tally.calls === 0 ? null : failed / tally.calls
  const { rate, seed, kind } = settings.plan
  return [
    { ...whole, name: 'calls', value: tally.calls, unit: 'count' },
    ...(kind === 'recorded'
      ? []
      : [{ ...whole, name: 'asked', value: rate, unit: 'per second' } as const]),
    { ...whole, name: 'achieved', value: achievedRate(run), unit: 'per second', better: 'higher' },
    {
      ...whole,
      ...wilson(failed, tally.calls),
      name: 'errors',
      value: errors,
      unit: 'share',
      better: 'lower',
    },
    ...percents.map(
      (percent): Figure => ({
        ...whole,
        ...tally.intervalOf(percent, seed),
        name: `p${percent}`,
        value: tally.latency.percentile(percent),
        unit: 'ms',
        better: 'lower',
      }),
    ),
    { ...whole, name: 'max', value: tally.latency.maxMs(), unit: 'ms' },
    { ...whole, name: 'mean', value: tally.latency.meanMs(), unit: 'ms' },
    ...percents.map(
      (percent): Figure => ({
        ...whole,
        name: `service-p${percent}`,
        value: tally.service.percentile(percent),
        unit: 'ms',
      }),
    ),
    { ...whole, name: 'own-delay-p99', value: tally.ownDelay.percentile(99), unit: 'ms' },
    { ...whole, name: 'own-lag-p99', value: run.lagP99Ms, unit: 'ms' },
    { ...whole, name: 'own-busy', value: run.busyWorst, unit: 'share' },
  ]
}

function unfitReasons(run: LoadRun): string[] {
  const own = cannotGenerate(run) ?? lateness(run)
  const reasons = [own, run.clockStep].filter((reason) => reason !== null)
  if (run.tally.calls === 0) reasons.push('no call was measured (0 samples)')
  else if (run.tally.succeeded === 0) reasons.push('no call succeeded')
  return reasons
}

/** A sentence when calls were started late; never a silently lower rate. */
function lateness(run: LoadRun): string | null {
  const delay = run.tally.ownDelay.percentile(99)
  if (delay === null || delay <= lagMsMax) return null
  const late = `a start is ${shortNumber(delay)} ms late at p99`
  return `this machine is too busy to keep the schedule: ${late}`
}

/** A sentence when the machine cannot generate the rate that was asked for. */
function cannotGenerate(run: LoadRun): string | null {
  const { tally, settings, seconds, startedMs, busyWorst } = run
  if (tally.calls === 0) return null
  const asked = shortNumber(tally.calls / seconds)
  if (busyWorst > busyShareMax) {
    const limit = valueText(ownLimit(run), 'per second')
    const busy = valueText(busyWorst, 'share')
    return (
      `this machine cannot generate ${asked} calls per second: a generator thread worked ` +
      `${busy} of a second, its limit is about ${limit} (--threads adds threads)`
    )
  }
  const tookSeconds = (tally.lastNoticedMs - startedMs - settings.warmUpMs) / 1000
  if (tookSeconds * generatedShareMin <= seconds) return null
  const generated = shortNumber(tally.calls / tookSeconds)
  return `this machine cannot generate ${asked} calls per second, it generated ${generated}`
}

/** The rate at which all generator threads would be busy all the time. */
function ownLimit({ answered, busyMs, settings }: LoadRun): number | null {
  if (busyMs === 0 || answered === 0) return null
  return (answered / (busyMs / 1000)) * settings.threads
}

export function loadPlots(tally: LoadTally): Plot[] {
  const windows = tally.windows()
  const over = (value: (window: (typeof windows)[number]) => number | null) =>
    windows.flatMap((window) => {
      const y = value(window)
      return y === null ? [] : [[window.second, y] as const]
    })
  return [
    {
      title: 'Latency by percentile',
      x: { kind: 'percentile', title: 'percentile' },
      y: { kind: 'log', title: 'ms' },
      lines: [
        { name: 'from intended start', points: percentilePoints(tally.latency) },
        { name: 'service time', points: percentilePoints(tally.service) },
      ],
    },
    {
      title: 'Latency over time',
      x: { kind: 'linear', title: 'second of the run' },
      y: { kind: 'log', title: 'ms' },
      lines: [
        { name: 'p99', points: over(({ p99Ms }) => p99Ms) },
        { name: 'p50', points: over(({ p50Ms }) => p50Ms) },
      ],
    },
    {
      title: 'Calls and errors over time',
      x: { kind: 'linear', title: 'second of the run' },
      y: { kind: 'linear', title: 'per second' },
      lines: [
        { name: 'calls', points: over(({ calls }) => calls) },
        { name: 'errors', points: over(({ errors }) => errors) },
      ],
    },
  ]
}

function percentilePoints(latencies: Latencies): [number, number][] {
  const enough = plotPercents.filter((percent) => (1 - percent / 100) * latencies.count >= 1)
  return enough.flatMap((percent) => {
    const value = latencies.percentile(percent)
    return value === null ? [] : [[percent, value] as [number, number]]
  })
}

// Runs a load at one rate after another to find the knee, and builds its result.

interface LoadStep {
  readonly run: LoadRun
  readonly result: Result
}

interface Found {
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
