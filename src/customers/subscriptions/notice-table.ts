// Reads and writes the notices of the registry: those that wait for their receiver, and those that
// it has, so that none is sent again for the same reason.
import type { Clock } from '../../base/clock.ts'
import { type Notice, type StoredNotice, waitingMax } from './notice.ts'
import type { Tables } from './tables.ts'
import type { LostUse } from './usage.ts'

/** Longer than what a notice says is true. */
const keptMs = 120 * 86_400_000

export class NoticeTable {
  readonly #tables: Tables
  readonly #clock: Clock

  constructor(tables: Tables, clock: Clock) {
    this.#tables = tables
    this.#clock = clock
  }

  /** Stores those that were not noticed before, and removes what is long past. */
  async add(due: readonly Notice[]): Promise<void> {
    const { notices } = this.#tables
    const atMs = this.#clock.nowMs()
    const fresh = due.filter(({ id }) => notices.get(id) === undefined)
    const stored = [...notices.getRange()]
    const old = stored.filter(({ value }) => value.atMs < atMs - keptMs)
    if (fresh.length + old.length === 0) return
    const space = Math.max(0, waitingMax - this.count())
    await this.#tables.transaction(() => {
      for (const { key } of old) notices.remove(key)
      for (const notice of fresh.slice(0, space))
        notices.put(notice.id, { notice, atMs, sentMs: null })
    })
  }

  /** The oldest that waits; null without one. */
  next(): StoredNotice | null {
    const [oldest = null] = this.#waiting().sort((a, b) => a.atMs - b.atMs)
    return oldest
  }

  async sent(id: string): Promise<void> {
    const { notices } = this.#tables
    await this.#tables.transaction(() => {
      const stored = notices.get(id)
      if (stored !== undefined) notices.put(id, { ...stored, sentMs: this.#clock.nowMs() })
    })
  }

  count(): number {
    return this.#waiting().length
  }

  /** None: what is not stored is due again. */
  lost(): LostUse {
    return { rows: 0, credits: 0 }
  }

  #waiting(): StoredNotice[] {
    return [...this.#tables.notices.getRange()]
      .map(({ value }) => value)
      .filter(({ sentMs }) => sentMs === null)
  }
}
