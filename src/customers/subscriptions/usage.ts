// Accumulates usage: credits of the current 30-day window, and one row per day.
// Pure. The server adds deltas every half second in one transaction, so a crash loses
// less than one second of usage, and a restart continues from the stored counts.

const windowDays = 30
const dayMs = 86_400_000
const windowMs = windowDays * dayMs
/** Day rows older than this are removed. */
export const usageDaysKept = 90

export interface UsageCounts {
  readonly credits: number
  /** Calls admitted; each item of a batch is one. */
  readonly calls: number
  /** Calls and batches refused because the budget is spent. */
  readonly refused: number
  readonly notifications: number
  readonly bytes: number
}

/** Usage of one subscription since the last flush. */
export interface UsageDelta extends UsageCounts {
  readonly id: string
  /** Number of the 30-day window since creation, from 0. */
  readonly window: number
}

/** What was used on one day, in one window. */
export interface DayUse extends UsageDelta {
  readonly day: string
}

/** Usage on its way to a cluster: one that is sent again under its number counts once. */
export interface UsageBatch {
  readonly session: string
  readonly number: number
  readonly rows: readonly DayUse[]
}

/** Usage on its way to a billing system: the same bytes, and ids made of its own, each time. */
export interface PushBatch {
  readonly id: string
  /** When it was cut. */
  readonly at: string
  readonly rows: readonly PushRow[]
}

export interface PushRow extends UsageCounts {
  readonly id: string
  readonly day: string
  /** Start of the 30-day window; absent of a subscription that the registry does not know. */
  readonly windowFrom?: string
}

/** Usage that was not kept for the receiver: the rows that wait for it are bounded. */
export interface LostUse {
  readonly rows: number
  readonly credits: number
}

/** Credits used in one 30-day window. */
export interface WindowUse {
  readonly window: number
  readonly credits: number
  /** The previous window, needed when the clock is set back to it. */
  readonly before?: { readonly window: number; readonly credits: number }
}

/** Credits that all gateways together used in one 30-day window. */
export interface WindowTotal {
  readonly id: string
  readonly window: number
  readonly credits: number
}

/** The current window with its bounds. */
export interface OpenWindow {
  readonly window: number
  readonly credits: number
  readonly startsAtMs: number
  readonly endsAtMs: number
}

export interface UsageDay extends UsageCounts {
  /** `2026-01-31`, UTC. */
  readonly day: string
}

export interface UsageReport {
  readonly id: string
  readonly window: { readonly from: string; readonly to: string; readonly credits: number }
  /** Oldest first. */
  readonly days: readonly UsageDay[]
}

/** Number of the 30-day window that contains a time, counted from creation. */
export function windowOf(createdAtMs: number, nowMs: number): number {
  return Math.max(0, Math.floor((nowMs - createdAtMs) / windowMs))
}

export function windowBounds(createdAtMs: number, window: number) {
  const startsAtMs = createdAtMs + window * windowMs
  return { startsAtMs, endsAtMs: startsAtMs + windowMs }
}

export function isoTime(timeMs: number): string {
  return new Date(timeMs).toISOString()
}

export function dayOf(nowMs: number): string {
  return isoTime(nowMs).slice(0, 10)
}

/** Rows of today and the 29 days before. */
export function newestDays(days: readonly UsageDay[], nowMs: number): UsageDay[] {
  const oldest = dayOf(nowMs - windowMs + dayMs)
  return days.filter(({ day }) => day >= oldest)
}

/** The oldest day whose row is kept. */
export function oldestDayKept(nowMs: number): string {
  return dayOf(nowMs - usageDaysKept * dayMs)
}

/**
 * Credits used in a window. Usage in a later window, which a wrong clock entered too early, counts
 * in the window that the clock was set back to.
 */
export function creditsIn(stored: WindowUse | undefined, window: number): number {
  if (stored === undefined || stored.window < window) return 0
  if (stored.window === window) return stored.credits
  return stored.credits + (stored.before?.window === window ? stored.before.credits : 0)
}

/** Adds a delta; `running` is the current window by the clock. */
export function addToWindow(
  stored: WindowUse | undefined,
  delta: Pick<UsageDelta, 'window' | 'credits'>,
  running: number,
): WindowUse {
  const { window } = delta
  if (stored !== undefined && window < stored.window) {
    // A late delta of an earlier window does not change the current one.
    if (running >= stored.window) return stored
    return { window, credits: creditsIn(stored, window) + delta.credits }
  }
  if (stored?.window === window) return { ...stored, credits: stored.credits + delta.credits }
  const before = stored && { window: stored.window, credits: stored.credits }
  return { window, credits: delta.credits, ...(before && { before }) }
}

export function addToDay(stored: UsageCounts | undefined, delta: UsageCounts): UsageCounts {
  return {
    // Counts that only a later version knows.
    ...stored,
    credits: (stored?.credits ?? 0) + delta.credits,
    calls: (stored?.calls ?? 0) + delta.calls,
    refused: (stored?.refused ?? 0) + delta.refused,
    notifications: (stored?.notifications ?? 0) + delta.notifications,
    bytes: (stored?.bytes ?? 0) + delta.bytes,
  }
}
