// The connection to PostgreSQL: queue, transactions, notifications, reconnects; and the schema.
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { PostgresConnection } from '../../src/customers/cluster/postgres/client.ts'
import { prepareSchema } from '../../src/customers/cluster/postgres/schema.ts'
import { TcpCut } from '../testkit/tcp-cut.ts'
import { hangMs, until, untilWithin } from '../testkit/until.ts'
import { hasPostgres, type Postgres, sqlOn, startPostgres } from './postgres.ts'

const opened: { stop(): Promise<void> }[] = []

function open(
  url: string,
  more: Partial<ConstructorParameters<typeof PostgresConnection>[0]> = {},
) {
  const options = { url, name: 'test', clock: systemClock, log: silentLog, ...more }
  const connection = new PostgresConnection(options).start()
  opened.push(connection)
  return connection
}

describe.skipIf(!hasPostgres())('the connection to PostgreSQL', () => {
  let postgres: Postgres
  beforeAll(async () => {
    postgres = await startPostgres()
  })
  afterAll(async () => {
    await Promise.all(opened.map((connection) => connection.stop()))
    postgres.dispose()
  })

  /** The server behind a relay. */
  async function relay() {
    const cut = await TcpCut.open(`127.0.0.1:${postgres.port}`)
    opened.push({ stop: async () => cut.close() })
    return { cut, url: postgres.url.replace(/:\d+\//, `:${cut.target.split(':')[1]}/`) }
  }

  it('returns 64-bit integers as numbers, json parsed and bytea as bytes', async () => {
    const connection = open(postgres.url)
    expect(await connection.ready(hangMs)).toBe(true)
    const rows = await connection.query(
      `SELECT 9007199254740991::int8 AS n, '{"a":1}'::json AS j, '\\x0102'::bytea AS b`,
    )
    expect(rows).toEqual([{ n: 9007199254740991, j: { a: 1 }, b: Buffer.from([1, 2]) }])
  })

  it('runs one transaction at a time and rolls back what throws', async () => {
    const url = await postgres.database()
    const connection = open(url)
    await connection.ready(hangMs)
    await connection.query('CREATE TABLE public.steps (n integer)')
    const adding = connection.transaction(async (queries) => {
      await queries.query('INSERT INTO public.steps VALUES (1)')
      await queries.query('SELECT pg_sleep(0.05)')
    })
    const failing = connection.transaction(async (queries) => {
      await queries.query('INSERT INTO public.steps VALUES (2)')
      throw new Error('no')
    })
    const reading = connection.query<{ n: number }>('SELECT n FROM public.steps')
    await adding
    await expect(failing).rejects.toThrow('no')
    expect(await reading).toEqual([{ n: 1 }])
  })

  it('reports a mistake in a statement without losing the connection', async () => {
    const connection = open(postgres.url)
    await connection.ready(hangMs)
    await expect(connection.query('SELECT nothing')).rejects.toMatchObject({ kind: 'database' })
    expect(connection.isUp()).toBe(true)
    expect(await connection.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
  })

  it('notices within seconds that bytes vanish, and reconnects when they no longer do', async () => {
    const { cut, url } = await relay()
    const connection = open(url)
    let notified = 0
    connection.listen('news', () => notified++)
    await connection.ready(hangMs)
    await postgres.sql('NOTIFY news')
    await until(() => notified >= 2, 'the notification')
    cut.swallow(true)
    // A second of silence, half a second for an answer, three for a session beside it.
    await untilWithin(9_000, () => !connection.isUp(), 'the silence to be noticed')
    await expect(connection.query('SELECT 1')).rejects.toMatchObject({ kind: 'cluster' })
    // Nothing frees the connection that is being made meanwhile: its own bound does.
    await untilWithin(5_000, () => cut.accepted >= 3, 'a new attempt')
    cut.swallow(false)
    await untilWithin(6_000, () => connection.isUp(), 'the new connection')
    const before = notified
    await postgres.sql('NOTIFY news')
    await until(() => notified > before, 'the notification on the new connection')
  })

  it('makes another attempt beside one that nobody answers', async () => {
    const { cut, url } = await relay()
    cut.swallow(true)
    const connection = open(url)
    // An attempt has two sockets at the relay, and is over after three seconds.
    await until(() => cut.open >= 4, 'an attempt beside the first one')
    cut.swallow(false)
    expect(await connection.ready(hangMs)).toBe(true)
    await until(() => cut.open === 2, 'the others to be closed')
  })

  it('gives up a path that goes silent while a connection is set up', async () => {
    const { cut, url } = await relay()
    let setUps = 0
    const connection = open(url, {
      async onConnect(queries) {
        if (++setUps === 1) cut.blackHole()
        await queries.query('SELECT 1')
      },
    })
    // The bound of one statement; the next attempt follows at once.
    expect(await connection.ready(hangMs)).toBe(true)
    expect(setUps).toBe(2)
  })

  it('answers a poll within a second of the session becoming half-open', async () => {
    const { cut, url } = await relay()
    const connection = open(url)
    await connection.ready(hangMs)
    await connection.poll('SELECT 1')
    cut.blackHole()
    const one = () =>
      connection.poll('SELECT 1').then(
        () => true,
        () => false,
      )
    let isAnswered = false
    const answered = until(one, 'an answer').then(() => {
      isAnswered = true
    })
    await untilWithin(2_000, () => isAnswered, 'an answer')
    await answered
  })

  it('keeps its session where every answer takes 600 ms', async () => {
    const { cut, url } = await relay()
    const connection = open(url)
    await connection.ready(hangMs)
    const backend = 'SELECT pg_backend_pid() AS pid'
    const [before] = await connection.poll<{ pid: number }>(backend)
    cut.delay(600)
    for (let count = 0; count < 6; count++) expect(await connection.poll(backend)).toEqual([before])
    // The first late answer opened a session beside this one, which was not needed; where the
    // machine stalled it may have been another one, or none. Not one for each.
    expect(cut.accepted).toBeLessThan(5)
  })

  it('keeps its session while PostgreSQL stalls for a second', async () => {
    const connection = open(postgres.url)
    await connection.ready(hangMs)
    const backend = 'SELECT pg_backend_pid() AS pid'
    const [before] = await connection.poll<{ pid: number }>(backend)
    postgres.pause()
    const answer = connection.poll(backend)
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    postgres.resume()
    expect(await answer).toEqual([before])
    expect(await connection.poll(backend)).toEqual([before])
  })

  it('takes an error of the system for one that a retry helps against', async () => {
    const connection = open(postgres.url)
    await connection.ready(hangMs)
    const broken = Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })
    const query = vi.spyOn(Client.prototype, 'query').mockImplementationOnce(() => {
      throw broken
    })
    await expect(connection.query('SELECT 1')).rejects.toMatchObject({ retryable: true })
    query.mockRestore()
  })

  it('ends a statement at its bound and serves the next', async () => {
    const connection = open(postgres.url, { statementMs: 300 })
    await connection.ready(hangMs)
    await expect(connection.query('SELECT pg_sleep(20)')).rejects.toMatchObject({ kind: 'cluster' })
    await connection.ready(hangMs)
    expect(await connection.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
  })

  it('refuses more than a thousand waiting statements', async () => {
    const connection = open(postgres.url)
    await connection.ready(hangMs)
    const all = Array.from({ length: 1_001 }, () => connection.query('SELECT 1'))
    const outcomes = await Promise.allSettled(all)
    expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(1)
  })

  it('creates the schema once when gateways start at the same time', async () => {
    const url = await postgres.database()
    const all = Array.from({ length: 4 }, () => open(url, { onConnect: prepareSchema }))
    for (const connection of all) expect(await connection.ready(hangMs)).toBe(true)
    const rows = await sqlOn<{ count: string }>(url, 'SELECT count(*) FROM meta')
    expect(rows).toEqual([{ count: '1' }])
  })

  it('upgrades a database of the version before, and takes nothing of a later one back', async () => {
    const url = await postgres.database()
    const hold = `hold_leases(text[], text, text, integer, integer)`
    const connect = async () => {
      const connection = open(url, { onConnect: prepareSchema })
      expect(await connection.ready(hangMs)).toBe(true)
    }
    await connect()
    const [created] = await sqlOn<{ hashes: string[] }>(url, 'SELECT hashes FROM meta')
    // The tables of a version with a number, with another function.
    await sqlOn(url, `ALTER TABLE meta DROP COLUMN hashes; DROP FUNCTION ${hold}`)
    await connect()
    expect(await sqlOn(url, 'SELECT version, hashes FROM meta')).toEqual([
      { version: 7, hashes: created!.hashes },
    ])
    expect(await sqlOn(url, `SELECT to_regprocedure('${hold}') IS NULL AS lacks`)).toEqual([
      { lacks: false },
    ])
    // What a later version changes stays when this one reconnects.
    await sqlOn(url, `UPDATE meta SET hashes = hashes || 'later'::text; DROP FUNCTION ${hold}`)
    await connect()
    expect(await sqlOn(url, `SELECT to_regprocedure('${hold}') IS NULL AS lacks`)).toEqual([
      { lacks: true },
    ])
  })

  it('refuses a database of a later format with one sentence', async () => {
    const url = await postgres.database()
    const first = open(url, { onConnect: prepareSchema })
    await first.ready(hangMs)
    await sqlOn(url, 'UPDATE meta SET format = 99')
    const later = open(url, { onConnect: prepareSchema })
    await until(() => later.problem.includes('has format 99'), 'the refusal')
    expect(later.isUp()).toBe(false)
  })

  it('is back after all of PostgreSQL was killed', async () => {
    const connection = open(postgres.url)
    await connection.ready(hangMs)
    await postgres.kill()
    await until(() => !connection.isUp(), 'the end of the connection')
    postgres.start()
    await until(() => connection.isUp(), 'the new connection')
  })
})
