// Leases in PostgreSQL: one holder at a time, terms that grow, a deadline before the server's.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { Fault } from '../../src/base/errors.ts'
import { initialOf } from '../../src/base/fields.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Cluster } from '../../src/customers/cluster/cluster.ts'
import { clusterSection } from '../../src/customers/cluster/config.ts'
import { PostgresConnection } from '../../src/customers/cluster/postgres/client.ts'
import { prepareSchema } from '../../src/customers/cluster/postgres/schema.ts'
import { PostgresLeases, PostgresLedger } from '../../src/customers/cluster/postgres/tables.ts'
import type { Context } from '../../src/operator/topology/context.ts'
import { leaseDestinations } from '../../src/operator/topology/state.ts'
import { hangMs, until } from '../testkit/until.ts'
import { hasPostgres, type Postgres, sqlOn, startPostgres } from './postgres.ts'

describe.skipIf(!hasPostgres())('leases', () => {
  let postgres: Postgres
  const connections: PostgresConnection[] = []
  const holders: PostgresLeases[] = []
  beforeAll(async () => {
    postgres = await startPostgres()
    for (const holder of ['a', 'b', 'c']) {
      const connection = new PostgresConnection({
        url: postgres.url,
        name: holder,
        clock: systemClock,
        log: silentLog,
        onConnect: prepareSchema,
      }).start()
      await connection.ready(hangMs)
      connections.push(connection)
      holders.push(new PostgresLeases(connection, { holder, info: holder, clock: systemClock }))
    }
  })
  afterAll(async () => {
    await Promise.all(connections.map((connection) => connection.stop()))
    postgres.dispose()
  })
  const namesOf = (count: number, prefix: string) =>
    Array.from({ length: count }, (_, index) => `${prefix}/${index}`)

  it('gives each name to one of several that ask at once, none more than its maximum', async () => {
    const names = namesOf(12, 'once')
    const held = await Promise.all(holders.map((leases) => leases.hold(names, 60_000, 4)))
    const all = held.flat().map(({ name }) => name)
    expect(new Set(all).size).toBe(all.length)
    for (const mine of held) expect(mine.length).toBeLessThanOrEqual(4)
    // Rows locked by another at that moment are taken at one of the next times.
    await until(async () => {
      const again = await Promise.all(holders.map((leases) => leases.hold(names, 60_000, 4)))
      const found = again.flat().map(({ name }) => name)
      expect(new Set(found).size).toBe(found.length)
      for (const mine of again) expect(mine.length).toBeLessThanOrEqual(4)
      return found.length === 12
    }, 'all names to be held')
  })

  it('keeps the term while it is renewed and raises it for the next holder', async () => {
    const [a, b] = holders as [PostgresLeases, PostgresLeases]
    const [first] = await a.hold(['term'], 60_000, 1)
    const [second] = await a.hold(['term'], 60_000, 1)
    expect(second?.term).toBe(first?.term)
    expect(second!.untilMs).toBeGreaterThan(first!.untilMs)
    expect(await b.hold(['term'], 60_000, 1)).toEqual([])
    // Shorter from now on.
    const [renewed] = await a.hold(['term'], 400, 1)
    expect(renewed?.term).toBe(first?.term)
    let taken = await b.hold(['term'], 60_000, 1)
    const deadlineMs = renewed!.untilMs
    await until(async () => {
      if (taken.length === 0) taken = await b.hold(['term'], 60_000, 1)
      return taken.length > 0
    }, 'the take-over')
    expect(systemClock.monotonicMs()).toBeGreaterThan(deadlineMs)
    expect(taken[0]!.term).toBeGreaterThan(renewed!.term)
    const sql = "SELECT info FROM leases WHERE name = 'term' AND until > clock_timestamp()"
    expect(await connections[1]!.query(sql)).toEqual([{ info: 'b' }])
    // The old holder comes back and does not get it.
    expect(await a.hold(['term'], 400, 1)).toEqual([])
  })

  it('gives a lease back at once, and only its own', async () => {
    const [a, b] = holders as [PostgresLeases, PostgresLeases]
    await a.hold(['back'], 60_000, 1)
    await b.giveBack('back')
    expect(await b.hold(['back'], 60_000, 1)).toEqual([])
    await a.giveBack('back')
    expect(await b.hold(['back'], 60_000, 1)).toHaveLength(1)
  })

  it('does not end a lease that was taken again before it was given back', async () => {
    const [, b] = holders as [PostgresLeases, PostgresLeases]
    const connection = connections[0]!
    let arrive = async () => {}
    const late = {
      query(text: string, values: readonly unknown[]) {
        if (!text.startsWith('UPDATE leases')) return connection.query(text, values)
        arrive = async () => void (await connection.query(text, values))
        return Promise.reject(new Fault('cluster', 'no answer', { retryable: true }))
      },
    }
    // Reason for the cast: of the connection it uses `query` only.
    const a = new PostgresLeases(late as unknown as PostgresConnection, {
      ...{ holder: 'a', info: 'a', clock: systemClock },
    })
    const [first] = await a.hold(['late'], 1, 1)
    await expect(a.giveBack('late')).rejects.toThrow('no answer')
    const termNow = async () => (await a.hold(['late'], 1, 1))[0]!.term
    await until(async () => (await termNow()) > first!.term, 'the next term')
    const [again] = await a.hold(['late'], 60_000, 1)
    await arrive()
    expect(await b.hold(['late'], 60_000, 1)).toEqual([])
    expect(await a.hold(['late'], 60_000, 1)).toMatchObject([{ term: again!.term }])
  })

  it('are renewed while an exchange of budgets waits for a lock of another gateway', async () => {
    const url = await postgres.database()
    const section = { ...initialOf(clusterSection.fields), url, gateway: 'busy' }
    const cluster = new Cluster(section, { clock: systemClock, log: silentLog })
    // Reason for the cast: of the context it reads the clock only.
    const keeper = leaseDestinations({ clock: systemClock } as Context, { cluster })
    const ledger = new PostgresLedger(cluster.exchanging, cluster.session)
    for (const connection of cluster.connections.values()) await connection.ready(hangMs)
    let deadlineMs = 0
    const user = {
      wanted: () => ['sub'],
      onChanged: () => {},
      onDeadline(leftMs: number) {
        deadlineMs = performance.now() + leftMs
      },
    }
    keeper.start(user)
    await until(() => keeper.isHeld('sub'), 'the lease')
    const spent = { id: 'sub', perSecond: 1, burst: 1, spent: 0, left: 0, wanted: 0 }
    await ledger.settle(1, [spent])
    const locking = sqlOn(
      url,
      `WITH locked AS (SELECT 1 FROM budgets WHERE id = 'sub' FOR UPDATE)
       SELECT pg_sleep(3) FROM locked`,
    )
    const sleeps = `SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'`
    await until(async () => (await sqlOn(url, sleeps)).length > 0, 'the lock')
    const settling = ledger.settle(2, [spent])
    const isLost: boolean[] = []
    const watching = setInterval(() => isLost.push(performance.now() > deadlineMs), 5)
    await locking
    clearInterval(watching)
    await settling
    expect(isLost).not.toContain(true)
    expect(keeper.taken).toBe(1)
    await keeper.stop()
    await cluster.stop()
  })

  it('leave no rows of gateways and subscriptions that are gone', async () => {
    const url = await postgres.database()
    const connection = new PostgresConnection({
      url,
      name: 'clean',
      clock: systemClock,
      log: silentLog,
      onConnect: prepareSchema,
    }).start()
    connections.push(connection)
    await connection.ready(hangMs)
    const open = () =>
      new PostgresLeases(connection, { holder: 'here', info: '', clock: systemClock })
    const before = open()
    const terms = await before.hold(['shred/live', ...namesOf(100, 'shred-member')], 60_000, 200)
    for (const name of namesOf(50, 'shred-member')) await before.giveBack(name)
    await sqlOn(
      url,
      `UPDATE leases SET term = term - 7200000, until = until - interval '2 hours'
       WHERE name <> 'shred/live'`,
    )
    const next = open()
    await next.hold(['shred/live'], 60_000, 1)
    const names = 'SELECT name FROM leases'
    await until(async () => (await sqlOn(url, names)).length === 1, 'the old rows to go')
    expect(await sqlOn(url, names)).toEqual([{ name: 'shred/live' }])
    // A name that comes back has a higher term than it ever had.
    const [again] = await next.hold(['shred-member/1'], 60_000, 1)
    expect(again!.term).toBeGreaterThan(Math.max(...terms.map(({ term }) => term)) - 7_200_000)
  })

  it('are not shared by two gateways with the same name', async () => {
    const section = { ...initialOf(clusterSection.fields), url: postgres.url, gateway: 'same' }
    const deps = { clock: systemClock, log: silentLog }
    const twins = [new Cluster(section, deps), new Cluster(section, deps)]
    for (const { writing, reading } of twins)
      for (const connection of [writing, reading]) await connection.ready(hangMs)
    const leases = twins.map((twin) => twin.leasesOn(twin.writing))
    const [one, other] = leases as [PostgresLeases, PostgresLeases]
    expect(await one.hold(['twins'], 60_000, 1)).toHaveLength(1)
    expect(await other.hold(['twins'], 60_000, 1)).toEqual([])
    await other.giveBack('twins')
    const sql = "SELECT info FROM leases WHERE name = 'twins' AND until > clock_timestamp()"
    expect(await connections[0]!.query(sql)).toEqual([{ info: 'same' }])
    for (const twin of twins) twin.announce()
    // Each has a row of its own, and so counts for fair shares.
    await until(async () => (await twins[0]!.gateways()).length === 2, 'a row for each of the two')
    for (const twin of twins) await twin.stop()
  })
})
