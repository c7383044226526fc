// Turns the outcome of a race into a result: figures, sentences, plot.
import { lagMsMax } from '../lag-watch.ts'
import type { Plot } from '../plot.ts'
import { type Figure, type ResultInput, shortNumber } from '../result.ts'
import type { ConnectionState, PairVerdict, RaceOutcome } from './connections.ts'
import type { EndpointScore } from './score.ts'
import type { Unit } from './units.ts'

export interface RaceSettings extends Readonly<Record<string, string | number | boolean | null>> {
  readonly unit: Unit
}

export function raceResult(
  outcome: RaceOutcome,
  settings: RaceSettings,
  startedAt: string,
): ResultInput {
  const { score, observed, nullRun, verdicts, floorMs } = outcome
  const { window, table, connections } = observed
  return {
    verb: 'race',
    startedAt,
    seconds: (window.endMs - window.startMs) / 1000,
    unfit: unfitOf(outcome),
    partial: outcome.partial ?? emptyOf(outcome, settings.unit),
    settings,
    figures: [
      ...connections.flatMap((connection, index) =>
        endpointFigures(connection, score.endpoints[index]!),
      ),
      ...verdicts.map((pair) => difference('difference', pairName(pair, connections), pair)),
      ...(nullRun === null ? [] : [difference('null-difference', nullRun.label, nullRun.pair)]),
    ],
    histograms: {},
    detail: {
      score,
      nullRun,
      floorMs,
      pairs: verdicts.map((pair) => ({ ...pair, sentence: pairText(pair, connections) })),
      repeats: connections.map(({ label }, index) => [label, table.repeats[index]!]),
    },
  }
}

/** One sentence for each pair, and what the null run said. */
export function raceSentences({ nullRun, floorMs, verdicts, observed }: RaceOutcome): string[] {
  const floor = `${shortNumber(floorMs)} ms`
  const first =
    nullRun === null
      ? `no null run: a difference must exceed ${floor}`
      : `null run, ${nullRun.label} against itself: ${differenceText(nullRun.pair)}; ` +
        `a difference must exceed ${floor}`
  return [first, ...verdicts.map((pair) => pairText(pair, observed.connections))]
}

/** How late each endpoint shows what another one showed first. */
export function racePlot({ score, observed }: RaceOutcome): Plot {
  return {
    title: 'Delay after the first endpoint, where it was not first',
    x: { kind: 'percentile', title: 'percentile' },
    y: { kind: 'log', title: 'ms' },
    lines: observed.connections.map(({ label }, index) => {
      const behind = score.endpoints[index]!.behindMs
      if (behind === null) return { name: label, points: [] }
      const { p50, p90, p99 } = behind
      return { name: label, points: [[50, p50] as const, [90, p90] as const, [99, p99] as const] }
    }),
  }
}

function endpointFigures(connection: ConnectionState, score: EndpointScore): Figure[] {
  const { label: of, roundTrips } = connection
  const ms = (name: string, value: number | null): Figure => {
    return { name, of, value, unit: 'ms', better: 'lower' }
  }
  const { low, high } = score.missingInterval
  return [
    { name: 'first-share', of, value: score.firstShare, unit: 'share', better: 'higher' },
    { name: 'missing', of, value: score.missingShare, unit: 'share', low, high, better: 'lower' },
    ms('behind-p50', score.behindMs?.p50 ?? null),
    ms('behind-p90', score.behindMs?.p90 ?? null),
    ms('behind-p99', score.behindMs?.p99 ?? null),
    ms('round-trip-p50', roundTrips.percentile(50)),
    { name: 'reconnects', of, value: connection.reconnects, unit: 'count', better: 'lower' },
    { name: 'own-lag-p99', of, value: connection.lagP99Ms, unit: 'ms' },
  ]
}

function difference(
  name: string,
  of: string,
  { medianMs, interval }: Pick<PairVerdict, 'medianMs' | 'interval'>,
): Figure {
  const figure: Figure = { name, of, value: medianMs, unit: 'ms' }
  return interval === null ? figure : { ...figure, low: interval.low, high: interval.high }
}

function unfitOf({ observed, nullRun }: RaceOutcome): string[] {
  const late = observed.connections.flatMap(({ label, lagP99Ms }) => {
    if (lagP99Ms === null || lagP99Ms <= lagMsMax) return []
    const lag = `${lagP99Ms.toFixed(1)} ms at p99 (over ${lagMsMax} ms)`
    return [`this machine is too busy to measure: the thread of ${label} lagged by ${lag}`]
  })
  const { overflow } = observed.table
  const isBlind = nullRun !== null && nullRun.pair.interval === null
  return [
    ...late,
    ...(isBlind ? ['the null run showed too little to know the noise: make --null longer'] : []),
    ...(overflow > 0 ? [`the table of seen items is full: ${overflow} sights do not count`] : []),
  ]
}

/** Why there is nothing to compare; null when there is. */
function emptyOf({ score, observed }: RaceOutcome, unit: Unit): string | null {
  if (score.items === 0) return `no endpoint showed a ${unit} in the counted time`
  const blind = score.endpoints.findIndex(({ seen }) => seen === 0)
  if (blind < 0) return null
  const { label } = observed.connections[blind]!
  return `${label} showed none of the ${score.items} ${unit}s that others showed`
}

function pairName({ of }: PairVerdict, connections: readonly ConnectionState[]): string {
  return `${connections[of[0]]!.label} / ${connections[of[1]]!.label}`
}

function pairText(pair: PairVerdict, connections: readonly ConnectionState[]): string {
  const [a, b] = pair.of.map((index) => connections[index]!.label)
  if (pair.medianMs === null) return `${a} and ${b} showed nothing in common`
  const counted = `${pair.samples} common, in ${pair.slots} slots`
  if (!pair.isReal) {
    const why = pair.interval === null ? 'too few slots' : 'does not clear the noise'
    return `${a} and ${b}, no clear difference: ${differenceText(pair)} (${why}; ${counted})`
  }
  const isFirst = pair.medianMs > 0
  const earlier = isFirst ? pair : turned(pair)
  const who = isFirst ? `${a} is earlier than ${b}` : `${b} is earlier than ${a}`
  return `${who}: ${differenceText(earlier)} (${counted})`
}

/** The same difference seen from the other endpoint. */
function turned({ medianMs, interval }: PairVerdict): Pick<PairVerdict, 'medianMs' | 'interval'> {
  const turnedInterval = interval && { low: -interval.high, high: -interval.low }
  return { medianMs: -medianMs!, interval: turnedInterval }
}

function differenceText({ medianMs, interval }: Pick<PairVerdict, 'medianMs' | 'interval'>) {
  if (medianMs === null) return 'no sample'
  const text = `median ${shortNumber(medianMs)} ms`
  if (interval === null) return text
  return `${text}, 95 % ${shortNumber(interval.low)} to ${shortNumber(interval.high)} ms`
}
