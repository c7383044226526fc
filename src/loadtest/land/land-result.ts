// Turns the sent transactions of a landing test into figures, sentences and a plot.
// Pure.
import type { Plot } from '../plot.ts'
import { type Percentiles, percentilesOf } from '../race/score.ts'
import { type Figure, type ResultInput, valueText } from '../result.ts'
import { type Interval, wilson } from '../statistics.ts'
import type { LandOutcome, Sent } from './land.ts'

export interface RouteScore {
  readonly label: string
  readonly sent: number
  readonly landed: number
  readonly share: number
  readonly interval: Interval
  readonly slots: Percentiles | null
  readonly landedMs: Percentiles | null
  readonly answerMs: Percentiles | null
  /** Refusals of the route by code. */
  readonly refusals: Readonly<Record<string, number>>
  readonly spentLamports: bigint
}

export function scoreRoutes(
  { sent, cost }: Pick<LandOutcome, 'sent' | 'cost'>,
  labels: readonly string[],
): RouteScore[] {
  return labels.map((label, route) => {
    const own = sent.filter((one) => one.route === route)
    const landed = own.filter(({ landedSlot }) => landedSlot !== null)
    const refusals: Record<string, number> = {}
    for (const { refusal } of own)
      if (refusal !== null) refusals[refusal] = (refusals[refusal] ?? 0) + 1
    return {
      label,
      sent: own.length,
      landed: landed.length,
      share: landed.length / Math.max(1, own.length),
      interval: wilson(landed.length, own.length),
      slots: percentilesOf(landed.map(slotsToLand)),
      landedMs: percentilesOf(landed.map(({ landedMs }) => landedMs!)),
      answerMs: percentilesOf(own.flatMap(({ answerMs }) => (answerMs === null ? [] : [answerMs]))),
      refusals,
      spentLamports: BigInt(landed.length) * cost,
    }
  })
}

export function landResult(
  outcome: LandOutcome,
  routes: readonly RouteScore[],
  about: Pick<ResultInput, 'settings' | 'startedAt'>,
): ResultInput {
  const sent = outcome.sent.length
  const spent = routes.reduce((sum, { spentLamports }) => sum + Number(spentLamports), 0)
  return {
    ...about,
    verb: 'land',
    seconds: outcome.seconds,
    unfit: [],
    partial: outcome.partial ?? (sent === 0 ? 'no transaction was sent' : emptyOf(routes)),
    figures: [
      ...routes.flatMap(routeFigures),
      { name: 'spent', of: '', value: spent, unit: 'lamports' },
    ],
    histograms: {},
    detail: {
      routes: routes.map((route) => ({ ...route, spentLamports: String(route.spentLamports) })),
      sent: outcome.sent,
    },
  }
}

/** The routes by landing share, whether each is clearly better than the next, and the cost. */
export function landSentences(routes: readonly RouteScore[]): string[] {
  const ranked = [...routes].sort((a, b) => b.share - a.share)
  const ranking = ranked.map((route, index) => {
    const { label, share, interval, sent, landed } = route
    const codes = Object.entries(route.refusals).map(([code, count]) => `${code}: ${count}`)
    const parts = [`${label} landed ${landed} of ${sent}: ${shareText(share, interval)}`]
    if (codes.length > 0) parts.push(`refused ${codes.join(', ')}`)
    const next = ranked[index + 1]
    if (next !== undefined) {
      const isClear = interval.low > next.interval.high
      parts.push(`${isClear ? 'clearly' : 'not clearly'} better than ${next.label}`)
    }
    return parts.join('; ')
  })
  const spent = routes.reduce((sum, { spentLamports }) => sum + spentLamports, 0n)
  return [...ranking, `spent ${spent.toLocaleString('en-US')} lamports`]
}

/** How many slots the landed transactions took. */
export function landPlot({ sent }: LandOutcome, routes: readonly RouteScore[]): Plot {
  return {
    title: 'Landed within so many slots',
    x: { kind: 'integer', title: 'slots after sending' },
    y: { kind: 'linear', title: '% of all sent' },
    lines: routes.map(({ label, sent: total }, route) => {
      const slots = sent.filter((one) => one.route === route && one.landedSlot !== null)
      const sorted = slots.map(slotsToLand).sort((a, b) => a - b)
      const points = sorted.map((slot, index) => [slot, ((index + 1) / total) * 100] as const)
      return { name: label, points: [[0, 0] as const, ...points], isStep: true }
    }),
  }
}

function routeFigures(route: RouteScore): Figure[] {
  const { label: of, interval, landed, spentLamports } = route
  const slots = (name: string, value: number | undefined): Figure => {
    return { name, of, value: value ?? null, unit: 'slots', better: 'lower' }
  }
  const ms = (name: string, value: number | undefined): Figure => {
    return { name, of, value: value ?? null, unit: 'ms', better: 'lower' }
  }
  const perLanded = landed === 0 ? null : Number(spentLamports) / landed
  return [
    { name: 'landed', of, value: route.share, unit: 'share', ...interval, better: 'higher' },
    { name: 'sent', of, value: route.sent, unit: 'count' },
    slots('slots-p50', route.slots?.p50),
    slots('slots-p90', route.slots?.p90),
    ms('landed-p50', route.landedMs?.p50),
    ms('answer-p50', route.answerMs?.p50),
    { name: 'cost-per-landed', of, value: perLanded, unit: 'lamports', better: 'lower' },
  ]
}

function slotsToLand({ landedSlot, slot }: Sent): number {
  return Math.max(0, landedSlot! - slot)
}

function emptyOf(routes: readonly RouteScore[]): string | null {
  return routes.some(({ landed }) => landed > 0) ? null : 'no transaction landed on any route'
}

function shareText(share: number, { low, high }: Interval): string {
  const text = (value: number) => valueText(value, 'share')
  return `${text(share)}, 95 % ${text(low)} to ${text(high)}`
}
