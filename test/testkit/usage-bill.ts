// A billing system: sums pushed records of usage, each id once.
import type { UsageDay } from '../../src/customers/subscriptions/usage.ts'

interface UsageRecord extends UsageDay {
  readonly id: string
  readonly at: string
  readonly subscription: string
  readonly windowFrom?: string
}

export class UsageBill {
  readonly #records = new Map<string, UsageRecord>()
  readonly #lines = new Map<string, string>()
  /** Records that came with an id that was known. */
  duplicates = 0
  /** Those of them that were not byte for byte what came first. */
  changed = 0

  get records(): number {
    return this.#records.size
  }

  take(body: string): void {
    for (const line of body.split('\n')) {
      if (line === '') continue
      const record = JSON.parse(line) as UsageRecord
      const known = this.#lines.get(record.id)
      if (known !== undefined) {
        this.duplicates++
        if (known !== line) this.changed++
        continue
      }
      this.#lines.set(record.id, line)
      this.#records.set(record.id, record)
    }
  }

  /** Credits of a subscription, in the window that began then or in all. */
  credits(id: string, windowFrom?: string): number {
    return this.#of(id)
      .filter((record) => windowFrom === undefined || record.windowFrom === windowFrom)
      .reduce((sum, { credits }) => sum + credits, 0)
  }

  /** As `sluice usage` lists them. */
  days(id: string): UsageDay[] {
    const days = new Map<string, Record<keyof UsageDay, number | string>>()
    for (const { day, credits, calls, refused, notifications, bytes } of this.#of(id)) {
      const counts = { credits, calls, refused, notifications, bytes }
      const sum = days.get(day)
      if (sum === undefined) days.set(day, { day, ...counts })
      else for (const name of countNames) sum[name] = Number(sum[name]) + counts[name]
    }
    return [...days.values()] as unknown as UsageDay[]
  }

  #of(id: string): UsageRecord[] {
    return [...this.#records.values()].filter(({ subscription }) => subscription === id)
  }
}

const countNames = ['credits', 'calls', 'refused', 'notifications', 'bytes'] as const
