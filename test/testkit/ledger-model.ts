// The ledger of budgets in memory, as its contract says: what the SQL must compute.
import type { SettledRow, SpentRow } from '../../src/customers/cluster/ports.ts'

interface Row {
  debt: number
  rate: number
  at: number
  hotSince: number
  announced: number
  shares: { session: string; granted: number; seen: number }[]
}

interface Settler {
  number: number
  called: number
  before: number
}

export class LedgerModel {
  readonly #rows = new Map<string, Row>()
  readonly #settlers = new Map<string, Settler>()

  settle(session: string, number: number, asked: readonly SpentRow[], now: number): SettledRow[] {
    const never = Number.NEGATIVE_INFINITY
    const known = this.#settlers.get(session) ?? { number: 0, called: never, before: never }
    const last = Math.max(never, ...[...this.#settlers.values()].map(({ called }) => called))
    if (last < now - 2000)
      for (const [name, other] of this.#settlers)
        if (name !== session && other.called > last - 2000) other.called = now
    const me = { number: Math.max(known.number, number), called: now, before: known.called }
    this.#settlers.set(session, me)
    const live = [...this.#settlers.values()].filter(({ called }) => called > now - 2000).length
    const settled: SettledRow[] = [{ id: '', kind: 'live', granted: 0, sharers: live, debt: 0 }]
    for (const row of [...asked].sort((a, b) => (a.id < b.id ? -1 : 1)))
      settled.push(this.#one(session, row, { now, live, counts: number > known.number }))
    const mine = new Set(asked.map(({ id }) => id))
    for (const [id, row] of this.#rows)
      if (row.announced > known.called - 1000 && !mine.has(id))
        settled.push({
          id,
          kind: 'other',
          granted: 0,
          sharers: row.shares.filter(({ seen }) => seen > now - 2000).length,
          debt: Math.max(0, row.debt - (row.rate * (now - row.at)) / 1000),
        })
    return settled
  }

  #one(
    session: string,
    { id, perSecond, burst, spent, left: kept, wanted }: SpentRow,
    { now, live, counts }: { now: number; live: number; counts: boolean },
  ): SettledRow {
    const blank = { debt: 0, rate: perSecond, at: now, hotSince: now, announced: now, shares: [] }
    const row: Row = this.#rows.get(id) ?? blank
    this.#rows.set(id, row)
    let debt = Math.max(0, row.debt - (row.rate * Math.max(0, now - row.at)) / 1000)
    if (counts) debt = Math.min(debt + spent, 2 * burst)
    const valid = row.shares.filter(({ seen }) => seen > now - 2000)
    const others = valid.filter((share) => share.session !== session)
    const isNew = others.length === valid.length
    if (valid.length === 0) {
      row.hotSince = now
      row.announced = now
    } else if (row.announced < now - 1000) row.announced = now
    const sharers = 1 + others.filter(({ seen }) => seen > now - 1000).length
    const unaware = [...this.#settlers].filter(
      ([name, { called, before }]) =>
        called > now - 2000 &&
        name !== session &&
        others.every((share) => share.session !== name) &&
        before <= row.hotSince + 20,
    )
    const granted = others.reduce((sum, share) => sum + share.granted, 0)
    const left = burst - debt - granted - (unaware.length * burst) / live
    const grant = Math.max(0, Math.min(Math.max((burst - debt) / sharers, wanted), left))
    Object.assign(row, { debt, rate: perSecond, at: Math.max(row.at, now) })
    row.shares = [...others, { session, granted: Math.max(grant, kept), seen: now }]
    return { id, kind: 'mine', granted: grant, sharers: isNew && sharers > 1 ? 0 : sharers, debt }
  }
}
