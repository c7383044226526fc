// Reads and writes the usage tables of the registry.
import { randomUUID } from 'node:crypto'
import type { Tables } from './tables.ts'
import {
  addToDay,
  addToWindow,
  creditsIn,
  type DayUse,
  dayOf,
  isoTime,
  type LostUse,
  type OpenWindow,
  oldestDayKept,
  type PushBatch,
  type PushRow,
  type UsageBatch,
  type UsageCounts,
  type UsageDay,
  type UsageDelta,
  type UsageReport,
  type WindowUse,
  windowBounds,
  windowOf,
} from './usage.ts'

/** The current 30-day window of a subscription and the credits used in it so far. */
export function openWindow({ records, usage }: Tables, id: string, nowMs: number): OpenWindow {
  const createdAt = records.get(id)?.subscription.createdAt
  const createdAtMs = createdAt === undefined ? nowMs : Date.parse(createdAt)
  const window = windowOf(createdAtMs, nowMs)
  const stored = usage.get([id, 'window']) as WindowUse | undefined
  return { window, credits: creditsIn(stored, window), ...windowBounds(createdAtMs, window) }
}

export function usageReport(tables: Tables, id: string, nowMs: number): UsageReport {
  const { startsAtMs, endsAtMs, credits } = openWindow(tables, id, nowMs)
  const days = [...tables.usage.getRange({ start: [id, '0'], end: [id, 'a'] })].map(
    ({ key, value }): UsageDay => ({ day: key[1], ...(value as UsageCounts) }),
  )
  return { id, window: { from: isoTime(startsAtMs), to: isoTime(endsAtMs), credits }, days }
}

/** When deltas were counted, and how many rows are kept for a billing system; 0 without one. */
interface Counting {
  readonly nowMs: number
  readonly pushRowsMax: number
}

/** Resolves when it is on disk. */
export async function addUsage(
  tables: Tables,
  deltas: readonly UsageDelta[],
  { nowMs, pushRowsMax }: Counting,
): Promise<void> {
  const { usage } = tables
  const day = dayOf(nowMs)
  await tables.transaction(() => {
    if (pushRowsMax > 0) addUnpushed(tables, deltas, day, pushRowsMax)
    for (const delta of deltas) {
      const { id, window, ...counts } = delta
      const stored = usage.get([id, 'window']) as WindowUse | undefined
      const running = openWindow(tables, id, nowMs).window
      usage.put([id, 'window'], addToWindow(stored, delta, running))
      const today = usage.get([id, day]) as UsageCounts | undefined
      usage.put([id, day], addToDay(today, counts))
      if (today === undefined) dropOldDays(tables, id, nowMs)
    }
  })
}

function dropOldDays({ usage }: Tables, id: string, nowMs: number): void {
  const old = usage.getKeys({ start: [id, '0'], end: [id, oldestDayKept(nowMs)] })
  for (const key of [...old]) usage.remove(key)
}

// Keeps the usage on disk that PostgreSQL has not confirmed, so that a crash or a restart while it
// is away loses none of it. One row per subscription, window and day; what is being sent is a batch
// that keeps its number until it is confirmed, by a later process if need be, and so counts once.
//
//   deltas ─► rows ─► batch (session, number) ─► confirmed: removed, with the new totals

const batchMark = 'usage batch'

interface WindowTotal {
  readonly id: string
  readonly window: number
  readonly credits: number
}

/** Resolves when it is on disk. */
export function addUnsent(
  tables: Tables,
  deltas: readonly UsageDelta[],
  { nowMs, pushRowsMax }: Counting,
): Promise<unknown> {
  const { unsent } = tables
  const day = dayOf(nowMs)
  return tables.transaction(() => {
    if (pushRowsMax > 0) addUnpushed(tables, deltas, day, pushRowsMax)
    for (const { id, window, ...counts } of deltas) {
      const key: [string, number, string] = [id, window, day]
      unsent.put(key, addToDay(unsent.get(key), counts))
    }
  })
}

/**
 * The batch to send: the one that is not confirmed, else one of at most `max` rows under `fresh`.
 * Null when there is nothing to send.
 */
export function takeBatch(
  tables: Tables,
  max: number,
  fresh: Omit<UsageBatch, 'rows'>,
): Promise<UsageBatch | null> {
  const { unsent, marks } = tables
  return tables.transaction(() => {
    const open = marks.get(batchMark) as UsageBatch | undefined
    if (open !== undefined) return open
    const stored = [...unsent.getRange({ limit: max })]
    if (stored.length === 0) return null
    const rows = stored.map(
      ({ key: [id, window, day], value }): DayUse => ({ ...value, id, window, day }),
    )
    const batch: UsageBatch = { ...fresh, rows }
    marks.put(batchMark, batch)
    for (const { key } of stored) unsent.remove(key)
    return batch
  })
}

/** The batch is confirmed: stores the credits that all gateways used, for a start without them. */
export function endBatch(tables: Tables, totals: readonly WindowTotal[]): Promise<unknown> {
  const { usage, marks } = tables
  return tables.transaction(() => {
    marks.remove(batchMark)
    for (const { id, window, credits } of totals) usage.put([id, 'window'], { window, credits })
  })
}

/** Credits of a window that are not confirmed. */
export function unsentCredits({ unsent, marks }: Tables, id: string, window: number): number {
  const batch = marks.get(batchMark) as UsageBatch | undefined
  const sent = (batch?.rows ?? []).filter((row) => row.id === id && row.window === window)
  const rows = unsent.getRange({ start: [id, window, ''], end: [id, window, 'a'] })
  return [...sent, ...rows.map(({ value }) => value)].reduce((sum, row) => sum + row.credits, 0)
}

/** Rows that are not confirmed. */
export function unsentCount({ unsent, marks }: Tables): number {
  const batch = marks.get(batchMark) as UsageBatch | undefined
  return unsent.getCount() + (batch?.rows.length ?? 0)
}

// Keeps the usage on disk that the billing system has not confirmed, as above: rows, and one batch
// that keeps its ids. A row that waits grows instead of adding others, so that an outage of the
// receiver costs one row per subscription, window and day; what exceeds the bound is counted.

const pushMark = 'push batch'
const lostMark = 'push lost'

/** Runs inside the transaction that counts the deltas, so that both or neither are on disk. */
function addUnpushed(
  { unpushed, marks }: Tables,
  deltas: readonly UsageDelta[],
  day: string,
  rowsMax: number,
): void {
  let count = rowCount(unpushed)
  for (const { id, window, ...counts } of deltas) {
    const key: [string, number, string] = [id, window, day]
    const stored = unpushed.get(key)
    if (stored !== undefined || count < rowsMax) {
      if (stored === undefined) count++
      unpushed.put(key, addToDay(stored, counts))
      continue
    }
    const { rows, credits } = lostUse(marks)
    marks.put(lostMark, { rows: rows + 1, credits: credits + counts.credits } satisfies LostUse)
  }
}

/** The batch that is not confirmed, else a new one of at most `max` rows; null without any. */
export function takePush(tables: Tables, max: number, nowMs: number): Promise<PushBatch | null> {
  const { records, unpushed, marks } = tables
  return tables.transaction(() => {
    const open = marks.get(pushMark) as PushBatch | undefined
    if (open !== undefined) return open
    const stored = [...unpushed.getRange({ limit: max })]
    if (stored.length === 0) return null
    const rows = stored.map(({ key: [id, window, day], value }): PushRow => {
      const createdAt = records.get(id)?.subscription.createdAt
      if (createdAt === undefined) return { id, day, ...value }
      const { startsAtMs } = windowBounds(Date.parse(createdAt), window)
      return { id, windowFrom: isoTime(startsAtMs), day, ...value }
    })
    const batch: PushBatch = { id: randomUUID(), at: isoTime(nowMs), rows }
    marks.put(pushMark, batch)
    for (const { key } of stored) unpushed.remove(key)
    return batch
  })
}

export function endPush(tables: Tables): Promise<unknown> {
  return tables.transaction(() => tables.marks.remove(pushMark))
}

/** Rows that the billing system has not confirmed. */
export function unpushedCount({ unpushed, marks }: Tables): number {
  const batch = marks.get(pushMark) as PushBatch | undefined
  return rowCount(unpushed) + (batch?.rows.length ?? 0)
}

export function lostUse(marks: Tables['marks']): LostUse {
  return (marks.get(lostMark) as LostUse | undefined) ?? { rows: 0, credits: 0 }
}

/** Without reading the rows. */
export function rowCount(table: { getStats(): object }): number {
  // Reason for the cast: the package types its statistics as an object.
  return (table.getStats() as { readonly entryCount: number }).entryCount
}
