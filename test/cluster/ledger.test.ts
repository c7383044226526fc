// The ledger of budgets in PostgreSQL: the same arithmetic as its model, and one budget for all
// gateways with a real clock.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import type { SettledRow } from '../../src/customers/cluster/ports.ts'
import { PostgresConnection } from '../../src/customers/cluster/postgres/client.ts'
import { prepareSchema } from '../../src/customers/cluster/postgres/schema.ts'
import { PostgresLedger } from '../../src/customers/cluster/postgres/tables.ts'
import { Shares } from '../../src/customers/cluster/shares.ts'
import { LedgerModel } from '../testkit/ledger-model.ts'
import { hangMs, until } from '../testkit/until.ts'
import { isFull } from './full.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'

describe.skipIf(!hasPostgres())('the ledger of budgets', () => {
  let postgres: Postgres
  const connections: PostgresConnection[] = []
  const open = async () => {
    const options = { url: postgres.url, name: 'test', clock: systemClock, log: silentLog }
    const connection = new PostgresConnection({ ...options, onConnect: prepareSchema }).start()
    connections.push(connection)
    expect(await connection.ready(hangMs)).toBe(true)
    return connection
  }
  beforeAll(async () => {
    postgres = await startPostgres()
  })
  afterAll(async () => {
    await Promise.all(connections.map((connection) => connection.stop()))
    postgres.dispose()
  })

  it('computes what its model computes, on any schedule', async () => {
    const connection = await open()
    for (let seed = 1; seed <= (isFull ? 1_000 : 30); seed++) {
      await connection.query('TRUNCATE settlers, budgets')
      const model = new LedgerModel()
      const random = randomOf(seed)
      let nowMs = 1_000_000
      const numbers = [0, 0, 0]
      for (let step = 0; step < 25; step++) {
        nowMs += Math.floor(random() * (random() < 0.1 ? 3_000 : 120))
        const gateway = Math.floor(random() * 3)
        // Now and then an exchange is repeated under its number.
        if (random() < 0.9) numbers[gateway]!++
        const rows = ['a', 'b']
          .filter(() => random() < 0.7)
          .map((id) => ({
            id,
            perSecond: 100,
            burst: 200,
            spent: Math.floor(random() * 60),
            left: Math.floor(random() * 20),
            wanted: random() < 0.3 ? Math.floor(random() * 300) : 0,
          }))
        const session = `g${gateway}`
        const number = numbers[gateway]!
        const ledger = new PostgresLedger(connection, session)
        const found = await ledger.settle(number, rows, nowMs)
        const wanted = model.settle(session, number, rows, nowMs)
        expect(rounded(found), `seed ${seed} step ${step}`).toEqual(rounded(wanted))
      }
    }
  })

  it.each([
    ['debt', "debt = 'NaN'"],
    ['debt without end', "debt = 'Infinity'"],
    ['rate', "rate = 'NaN'"],
    ['time', "at = 'NaN'"],
    ['time without end', "at = 'Infinity'"],
    ['time of a clock that was set back', 'at = at + 3600000'],
    ['grant', "sessions = '{x}', granted = '{Infinity}', seen = ARRAY[at]"],
    ['grant for ever', "sessions = '{x}', granted = '{200}', seen = '{NaN}'"],
    ['grants of nobody', "sessions = '{x}', granted = '{}', seen = '{}'"],
    ['announcement', "hot_since = 'NaN', announced = 'NaN'"],
  ])('refuses nobody for ever by a row that no exchange left: %s', async (_, spoilt) => {
    const connection = connections[0] ?? (await open())
    await connection.query('TRUNCATE settlers, budgets')
    const ledger = new PostgresLedger(connection, 'g0')
    const row = { id: 'a', perSecond: 100, burst: 200, spent: 10, left: 0, wanted: 0 }
    await ledger.settle(1, [row], 1_000_000)
    await connection.query(`UPDATE budgets SET ${spoilt}`)
    // At once, or after what a full debt takes to be refilled.
    const settled = [1_000_100, 1_004_000, 1_008_000].map((nowMs, index) =>
      ledger.settle(index + 2, [{ ...row, spent: 1 }], nowMs),
    )
    const [mine] = (await Promise.all(settled)).at(-1)!.filter(({ kind }) => kind === 'mine')
    expect(mine).toMatchObject({ granted: 199, sharers: 1, debt: 1 })
  })

  it('keeps three gateways within one plan, and lets one of them use it', async () => {
    await connections[0]!.query('TRUNCATE settlers, budgets')
    const gateways = await Promise.all(
      ['g0', 'g1', 'g2'].map(async (session) => {
        const ledger = new PostgresLedger(await open(), session)
        const shares = new Shares({ ledger, clock: systemClock })
        await shares.start()
        return shares
      }),
    )
    await until(() => gateways.every(({ live }) => live === 3), 'all gateways')
    await new Promise((resolve) => setTimeout(resolve, 300))
    const plan = { perSecond: 100, burst: 200 }
    for (const [id, users] of [
      ['one', gateways.slice(0, 1)],
      ['all', gateways],
    ] as const) {
      const buckets = users.map((shares) => shares.bucketOf(id, plan))
      // The ledger has the database's clock, which the host of a virtual machine may step.
      const starts = { steady: performance.now(), wall: Date.now() }
      let admitted = 0
      let elapsedMs = 0
      // 97 % in the simulation; a busy machine exchanges less often, for a while.
      const isUsed = () => admitted >= (200 + elapsedMs / 10) * 0.7
      while (elapsedMs < 2_500 || (elapsedMs < 20_000 && !isUsed())) {
        for (const bucket of buckets)
          while (bucket.waitMs(1, performance.now()) === 0) {
            bucket.take(1, performance.now())
            admitted++
          }
        elapsedMs = Math.max(performance.now() - starts.steady, Date.now() - starts.wall)
        expect(admitted).toBeLessThanOrEqual(210 + elapsedMs / 10 + 1)
        await new Promise((resolve) => setTimeout(resolve, 2))
      }
      expect(isUsed(), `${admitted} in ${elapsedMs} ms`).toBe(true)
    }
    for (const shares of gateways) await shares.stop()
  })
})

function rounded(rows: readonly SettledRow[]) {
  return rows
    .map(({ granted, debt, ...row }) => ({ ...row, granted: to6(granted), debt: to6(debt) }))
    .sort((a, b) => (a.kind + a.id < b.kind + b.id ? -1 : 1))
}

function to6(value: number): number {
  return Math.round(value * 1e6) / 1e6 + 0
}

function randomOf(seed: number): () => number {
  let state = seed * 2_654_435_761
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0
    return state / 2 ** 32
  }
}
