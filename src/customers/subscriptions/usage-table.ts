// Reads and writes the usage table of the registry.
import type { Tables } from './tables.ts'
import {
  addToDay,
  addToWindow,
  creditsIn,
  dayOf,
  isoTime,
  type OpenWindow,
  oldestDayKept,
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

/** Resolves when it is on disk. */
export async function addUsage(
  tables: Tables,
  deltas: readonly UsageDelta[],
  nowMs: number,
): Promise<void> {
  const { root, usage } = tables
  const day = dayOf(nowMs)
  await root.transaction(() => {
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
