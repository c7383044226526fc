// Consumers in PostgreSQL: at most sixteen, a term for each stream, commits of the newest one alone.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { PostgresConnection } from '../../src/customers/cluster/postgres/client.ts'
import { prepareSchema } from '../../src/customers/cluster/postgres/schema.ts'
import { postgresConsumers } from '../../src/customers/cluster/postgres/tables.ts'
import type { ConsumerTable } from '../../src/customers/subscriptions/consumers.ts'
import { Repeats } from '../../src/operator/api/access.ts'
import { argumentsOf, loadRoutes, runRoute } from '../../src/operator/api/routes.ts'
import { loadConfig } from '../../src/operator/config/load.ts'
import { TcpCut } from '../testkit/tcp-cut.ts'
import { hangMs, until } from '../testkit/until.ts'
import { by, newFolder, openGateway, removeFolders } from './gateway-stage.ts'
import { hasPostgres, type Postgres, sqlOn, startPostgres } from './postgres.ts'

describe.skipIf(!hasPostgres())('consumers', () => {
  let postgres: Postgres
  const connections: PostgresConnection[] = []
  let gateways: ConsumerTable[]

  beforeAll(async () => {
    postgres = await startPostgres()
    for (const name of ['a', 'b']) {
      const connection = new PostgresConnection({
        ...{ url: postgres.url, name, clock: systemClock, log: silentLog },
        onConnect: prepareSchema,
      }).start()
      await connection.ready(hangMs)
      connections.push(connection)
    }
    gateways = connections.map((connection) => postgresConsumers(connection))
  })

  afterAll(async () => {
    await Promise.all(connections.map((connection) => connection.stop()))
    postgres.dispose()
  })

  async function open(gateway: number, name: string, id = 's1') {
    const row = await gateways[gateway]!.open(id, name)
    if (row === 'too-many') throw new Error(row)
    return row
  }

  it('continue at another gateway, and the gateway before commits nothing more', async () => {
    const here = await open(0, 'a')
    expect(here.position).toBeNull()
    const held = { id: 's1', name: 'a', term: here.term }
    expect(await gateways[0]!.commit([{ ...held, position: 'one' }])).toEqual([])
    const there = await open(1, 'a')
    expect(there.position).toBe('one')
    expect(there.term).toBeGreaterThan(here.term)
    expect(await gateways[0]!.commit([{ ...held, position: 'late' }])).toEqual([
      { id: 's1', name: 'a' },
    ])
    const mine = { ...held, term: there.term }
    expect(await gateways[1]!.commit([{ ...mine, position: 'two' }])).toEqual([])
    // One without a position only asks.
    expect(await gateways[1]!.commit([{ ...mine, position: null }])).toEqual([])
    expect(await gateways[0]!.list('s1')).toMatchObject([{ name: 'a', position: 'two' }])
    expect(await gateways[0]!.remove('s1')).toBe(1)
    expect(await gateways[1]!.commit([{ ...mine, position: 'void' }])).toHaveLength(1)
    expect((await open(0, 'a')).position).toBeNull()
  })

  it('keep the later position when a commit that was given up comes after the next one', async () => {
    const { term } = await open(0, 'late')
    const held = { id: 's1', name: 'late', term }
    await gateways[0]!.commit([{ ...held, position: 'two' }], 2)
    expect(await gateways[0]!.commit([{ ...held, position: 'one' }], 1)).toEqual([])
    expect((await open(1, 'late')).position).toBe('two')
  })

  it('of a gateway that was alone are in the cluster that is seeded from it', async () => {
    const gateway = openGateway(await postgres.database(), 'alone')
    const { store, shared } = gateway
    const added = store.add({ label: 'a', products: ['bundle'] }, by)
    if (!added.ok) throw new Error(added.refusal.message)
    const { id } = added.value.subscription
    for (const name of ['orders', 'new']) await store.consumers.open(id, name)
    const { term } = (await store.consumers.open(id, 'orders')) as { term: number }
    await store.consumers.commit([{ id, name: 'orders', term, position: 'there' }])
    const before = await store.consumers.list(id)
    expect(await shared.seed()).toBe(true)
    expect(await shared.consumers.list(id)).toEqual(before)
    const opened = await shared.consumers.open(id, 'orders')
    expect(opened).toMatchObject({ position: 'there' })
    expect((opened as { term: number }).term).toBeGreaterThanOrEqual(term)
    await gateway.stop()
    removeFolders()
  })

  it('may be reset when PostgreSQL does not answer: a repeat under the key does nothing', async () => {
    const url = await postgres.database()
    const gateway = openGateway(url, 'here')
    await gateway.shared.seed()
    const added = await gateway.shared.verbs.add({ label: 'acme', products: ['bundle'] }, by)
    if (!added.ok) throw new Error(added.refusal.message)
    const { id } = added.value.subscription
    const { consumers } = gateway.shared
    await consumers.open(id, 'orders')
    const cut = await TcpCut.open(`127.0.0.1:${postgres.port}`)
    const through = url.replace(/:\d+\//, `:${cut.target.split(':')[1]}/`)
    const flags = [
      { key: 'data', value: newFolder() },
      { key: 'cluster.url', value: through },
    ]
    const loaded = await loadConfig({ env: {}, flags })
    if (!loaded.ok) throw new Error(loaded.problems.join())
    const route = (await loadRoutes()).get('/v1/consumer/reset')!
    const args = argumentsOf(route, { subscription: 'acme', consumer: 'orders' })
    if (!args.ok) throw new Error(args.refusal.message)
    const repeats = new Repeats(gateway.store.answers)
    const keyed = { caller: 'c', key: 'k', request: 'r' }
    const reset = () =>
      repeats.once(keyed, () => runRoute(route, args.value, { config: loaded.config, who: 'olga' }))
    const locking = sqlOn(
      url,
      `WITH locked AS (SELECT 1 FROM consumers FOR UPDATE) SELECT pg_sleep(3) FROM locked`,
    )
    const waits = (what: string) => async () =>
      (await sqlOn(url, `SELECT 1 FROM pg_stat_activity WHERE ${what}`)).length > 0
    await until(waits(`wait_event = 'PgSleep'`), 'the lock')
    const first = reset()
    await until(waits(`wait_event_type = 'Lock' AND query LIKE 'DELETE FROM cons%'`), 'the reset')
    cut.cut()
    expect(await first).toMatchObject({ status: 503, isInDoubt: true })
    expect((await first).body).toContain('outcome-unknown')
    await locking
    await until(async () => (await consumers.list(id)).length === 0, 'the late reset')
    const opened = (await consumers.open(id, 'orders')) as { term: number }
    await consumers.commit([{ id, name: 'orders', term: opened.term, position: '{}' }])
    expect(await reset()).toMatchObject({ status: 409 })
    expect(await consumers.list(id)).toMatchObject([{ name: 'orders', position: '{}' }])
    cut.close()
    await gateway.stop()
    removeFolders()
  })

  it('are sixteen of a subscription, however many ask at once', async () => {
    const asked = Array.from({ length: 40 }, (_, at) => gateways[at % 2]!.open('s2', `c${at}`))
    const rows = await Promise.all(asked)
    expect(rows.filter((row) => row !== 'too-many').length).toBe(16)
    expect(await gateways[0]!.list('s2')).toHaveLength(16)
    expect(await gateways[0]!.remove('s2', 'none')).toBe(0)
    const [first] = await gateways[0]!.list('s2')
    await connections[0]!.query(
      `UPDATE consumers SET at = at - interval '31 days' WHERE name = $1`,
      [first!.name],
    )
    // The one that nobody used for a month makes room.
    expect(await gateways[1]!.open('s2', 'fresh')).not.toBe('too-many')
    expect((await gateways[1]!.list('s2')).map(({ name }) => name)).not.toContain(first!.name)
  })
})
