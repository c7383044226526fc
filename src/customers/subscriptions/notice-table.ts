// Reads and writes the notices of the registry: those that wait for their receiver, and those that
// it has, so that none is sent again for the same reason.
import type { Clock } from '../../base/clock.ts'
import { type Notice, type StoredNotice, waitingMax } from './notice.ts'
import type { Tables } from './tables.ts'
import type { LostUse } from './usage.ts'

/** Longer than what a notice says is true. */
const keptMs = 120 * 86_400_000
const cleanMs = 86_400_000

export class NoticeTable {
  readonly #tables: Tables
  readonly #clock: Clock
  /** Those that were not sent, oldest first: read once, as only this process writes them. */
  readonly #waiting: Map<string, StoredNotice>
  #cleanedMs = Number.NEGATIVE_INFINITY

  constructor(tables: Tables, clock: Clock) {
    this.#tables = tables
    this.#clock = clock
    const stored = [...tables.notices.getRange()].filter(({ value }) => value.sentMs === null)
    stored.sort((a, b) => a.value.atMs - b.value.atMs)
    this.#waiting = new Map(stored.map(({ key, value }) => [key, value]))
  }

  /** Stores those that were not noticed before, and once a day removes what is long past. */
  async add(due: readonly Notice[]): Promise<void> {
    const { notices } = this.#tables
    const atMs = this.#clock.nowMs()
    const space = Math.max(0, waitingMax - this.count())
    const fresh = due.filter(({ id }) => notices.get(id) === undefined).slice(0, space)
    const isDue = atMs - this.#cleanedMs > cleanMs
    const old = isDue
      ? [...notices.getRange()].filter(({ value }) => value.atMs < atMs - keptMs)
      : []
    this.#cleanedMs = isDue ? atMs : this.#cleanedMs
    if (fresh.length + old.length === 0) return
    await this.#tables.transaction(() => {
      for (const { key } of old) notices.remove(key)
      for (const notice of fresh) notices.put(notice.id, { notice, atMs, sentMs: null })
    })
    for (const { key } of old) this.#waiting.delete(key)
    for (const notice of fresh) this.#waiting.set(notice.id, { notice, atMs, sentMs: null })
  }

  /** The oldest that waits; null without one. */
  next(): StoredNotice | null {
    const [oldest = null] = this.#waiting.values()
    return oldest
  }

  async sent(id: string): Promise<void> {
    const { notices } = this.#tables
    await this.#tables.transaction(() => {
      const stored = notices.get(id)
      if (stored !== undefined) notices.put(id, { ...stored, sentMs: this.#clock.nowMs() })
    })
    this.#waiting.delete(id)
  }

  count(): number {
    return this.#waiting.size
  }

  /** None: what is not stored is due again. */
  lost(): LostUse {
    return { rows: 0, credits: 0 }
  }
}
