// Computes the figures of a race from the table of sights.
//
//   item counts when its first sight is in the window ─► first share (ties split), missing
//   items that two endpoints showed ─► difference of their stamps ─► median, interval over slots
import {
  bootstrapQuantile,
  type Interval,
  quantileOf,
  SeededRandom,
  wilson,
} from '../statistics.ts'
import type { SightTable } from './sight-table.ts'

/** Stamps closer than this are a tie: threads are not comparable to less. */
export const tieMs = 0.05

export interface Window {
  readonly startMs: number
  readonly endMs: number
}

export interface EndpointScore {
  readonly seen: number
  /** Items that it showed first; a tie counts in equal parts. */
  readonly first: number
  readonly firstShare: number
  readonly missing: number
  readonly missingShare: number
  readonly missingInterval: Interval
  /** Milliseconds after the first endpoint, over items where it was not first; null without. */
  readonly behindMs: Percentiles | null
}

export interface Percentiles {
  readonly count: number
  readonly p50: number
  readonly p90: number
  readonly p99: number
}

export interface PairScore {
  /** Numbers of the two endpoints. */
  readonly of: readonly [number, number]
  /** Items that both showed. */
  readonly samples: number
  readonly slots: number
  /** Stamp of the second minus stamp of the first: positive when the first is earlier. */
  readonly medianMs: number | null
  /** 95 %, by bootstrap over slots; null with too few slots. */
  readonly interval: Interval | null
}

export interface RaceScore {
  /** Items that at least one endpoint showed, first in the window. */
  readonly items: number
  readonly slots: number
  readonly endpoints: readonly EndpointScore[]
  readonly pairs: readonly PairScore[]
}

export function scoreOf(table: SightTable, window: Window, seed: number): RaceScore {
  const rows = rowsIn(table, window)
  const each = Array.from({ length: table.endpoints }, (_, index) => index)
  const pairs = each.flatMap((a) => each.slice(a + 1).map((b) => [a, b] as const))
  return {
    items: rows.length,
    slots: new Set(rows.map((row) => table.slotOf(row))).size,
    endpoints: scoreEndpoints(table, rows),
    pairs: pairs.map((of) => scorePair(table, rows, of, seed)),
  }
}

function rowsIn(table: SightTable, { startMs, endMs }: Window): number[] {
  const rows: number[] = []
  for (let row = 0; row < table.rows; row++) {
    const firstMs = firstOf(table, row)
    if (firstMs >= startMs && firstMs < endMs) rows.push(row)
  }
  return rows
}

function firstOf(table: SightTable, row: number): number {
  let firstMs = Number.POSITIVE_INFINITY
  for (let endpoint = 0; endpoint < table.endpoints; endpoint++) {
    const atMs = table.stampOf(row, endpoint)
    if (atMs < firstMs) firstMs = atMs
  }
  return firstMs
}

function scoreEndpoints(table: SightTable, rows: readonly number[]): EndpointScore[] {
  const tallies = Array.from({ length: table.endpoints }, () => ({
    seen: 0,
    first: 0,
    behind: [] as number[],
  }))
  for (const row of rows) {
    const firstMs = firstOf(table, row)
    const isTied = (endpoint: number) => table.stampOf(row, endpoint) - firstMs < tieMs
    const tied = tallies.filter((_, endpoint) => isTied(endpoint)).length
    for (const [endpoint, tally] of tallies.entries()) {
      const atMs = table.stampOf(row, endpoint)
      if (Number.isNaN(atMs)) continue
      tally.seen += 1
      if (isTied(endpoint)) tally.first += 1 / tied
      else tally.behind.push(atMs - firstMs)
    }
  }
  return tallies.map(({ seen, first, behind }) => {
    const missing = rows.length - seen
    return {
      seen,
      first,
      firstShare: first / Math.max(1, rows.length),
      missing,
      missingShare: missing / Math.max(1, rows.length),
      missingInterval: wilson(missing, rows.length),
      behindMs: percentilesOf(behind),
    }
  })
}

export function percentilesOf(values: readonly number[]): Percentiles | null {
  if (values.length === 0) return null
  const all = { values, groups: new Uint8Array(values.length), groupCount: 1 }
  const at = (share: number) => quantileOf(all, share)!
  return { count: values.length, p50: at(0.5), p90: at(0.9), p99: at(0.99) }
}

function scorePair(
  table: SightTable,
  rows: readonly number[],
  of: readonly [number, number],
  seed: number,
): PairScore {
  const values: number[] = []
  const groups: number[] = []
  const groupOf = new Map<number, number>()
  for (const row of rows) {
    const differenceMs = table.stampOf(row, of[1]) - table.stampOf(row, of[0])
    if (Number.isNaN(differenceMs)) continue
    const slot = table.slotOf(row)
    const group = groupOf.get(slot) ?? groupOf.size
    groupOf.set(slot, group)
    values.push(differenceMs)
    groups.push(group)
  }
  const grouped = { values, groups, groupCount: groupOf.size }
  return {
    of,
    samples: values.length,
    slots: groupOf.size,
    medianMs: quantileOf(grouped, 0.5),
    interval: bootstrapQuantile(grouped, 0.5, new SeededRandom(seed)),
  }
}
