// Hostile SQL through the endpoint on a real ClickHouse server: no row of another customer and no
// table of the server comes out. Plain SQL gives what the server gives to its owner.
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type LogFields, silentLog } from '../../src/base/telemetry/log.ts'
import { openClickhouseSink } from '../../src/indexer/clickhouse-server/sink.ts'
import { Bundle } from '../testkit/bundle.ts'
import {
  hidingSigns,
  hostileFragments,
  hostileStatements,
  plainStatements,
} from '../testkit/clickhouse-corpus.ts'
import {
  type ClickhouseServer,
  hasClickhouseServer,
  startClickhouseServer,
} from '../testkit/clickhouse-server.ts'
import { makeRows } from '../testkit/generated-rows.ts'
import { tryAsk } from '../testkit/index-asking.ts'
import { openClickhouse } from '../testkit/read-back.ts'
import type { ReadEngine } from '../testkit/send-results.ts'

const plan = { seed: 5, slots: 40, transactionsPerSlot: 20, blocks: 10, tips: 10, usage: 0 }
const marker = `secret${randomBytes(6).toString('hex')}`

describe.skipIf(!hasClickhouseServer())('isolation (skipped: no clickhouse-server)', () => {
  let server: ClickhouseServer
  let engine: ReadEngine
  let bundle: Bundle
  let url = ''
  let headers: Record<string, string> = {}
  const logged: [string, LogFields | undefined][] = []
  const log = {
    ...silentLog,
    warn: (msg: string, fields?: LogFields) => void logged.push([msg, fields]),
  }

  beforeAll(async () => {
    server = await startClickhouseServer()
    const sink = await openClickhouseSink(server.url, { retentionDays: 30, holder: 'test' })
    const usage = [['sub-alice'], [1_700_000_000_000], [marker], [1], [1], [1], [0]]
    await sink.write([...makeRows(plan), { table: 'usage', count: 1, columns: usage }], {})
    await sink.stop()
    // Its name is in every table of `system` that lists tables, its row is visible to us only.
    await server.ask(`CREATE TABLE default.${marker} (x String) ENGINE = Memory`)
    await server.ask('CREATE TABLE chain.secrets (x String) ENGINE = Memory')
    await server.ask(`INSERT INTO chain.secrets VALUES ('${marker}')`)
    engine = await openClickhouse(server.url, { log, queryUrl: server.queryUrl })
    bundle = new Bundle()
    const { port } = await bundle.openIndexer({ engine })
    const { token, indexer } = bundle.issue({ products: ['indexer'], plan: 'unlimited' })
    const pair = Buffer.from(`${indexer!.user}:${indexer!.password}`).toString('base64')
    url = `http://127.0.0.1:${port}/`
    headers = { authorization: `Basic ${pair}`, 'x-token': token }
  })
  afterAll(async () => {
    await bundle?.dispose()
    await engine?.stop()
    await server?.stop()
  })

  const post = async (sql: string) => {
    const answer = await fetch(url, { method: 'POST', body: sql, headers })
    return { status: answer.status, text: await answer.text() }
  }
  /** By the endpoint, and by the engine alone, as if the endpoint had let it through. */
  const answersTo = async (sql: string) => {
    const { text } = await post(sql)
    const direct = await tryAsk(engine, sql, { subscription: 'sub-mallory', format: 'CSV' })
    return `${text}${direct.text}${direct.error?.message ?? ''}`
  }
  // The server's users, which system.processes and others show.
  const leaked = (answer: string) => answer.includes(marker) || /\b(writer|reader)\b/.test(answer)

  test('the secrets are there for the owner of the server', async () => {
    for (const sql of [
      'SELECT * FROM chain._usage',
      'SELECT * FROM chain.secrets',
      'SELECT name FROM system.tables',
      'SELECT user FROM system.processes',
    ])
      expect(leaked(await server.ask(sql)), sql).toBe(true)
  })

  test.each([
    'chain._usage',
    'chain.secrets',
    'system.tables',
    'system.processes',
    'system.columns',
  ])('no query returns anything of %s', async (target) => {
    for (const sql of hostileStatements(target)) {
      const answer = await answersTo(sql)
      // system.tables and system.columns of our own are the catalogue's, and contain no secret.
      expect(leaked(answer), sql).toBe(false)
    }
  })

  test('the start logs which server-side restrictions exist', () => {
    // A server this old lets every user read `system`, and has no row policy by query id.
    expect(logged).toEqual([
      [
        'only the query gate guards customers from each other, see OPERATING.md',
        { queryUser: 'its own', systemTables: 'readable', usageRows: 'all' },
      ],
    ])
  })

  test('the user of queries reads no other database, whatever the gate lets through', async () => {
    const { host, username, password } = new URL(server.queryUrl)
    const answer = await fetch(`http://${host}/`, {
      method: 'POST',
      body: `SELECT * FROM default.${marker}`,
      headers: { authorization: `Basic ${btoa(`${username}:${password}`)}` },
    })
    expect(await answer.text()).toMatch(/^Code: 291/)
  })

  test('the statements of a known attack are refused with a reason', async () => {
    for (const [sql, reason] of [
      ["SELECT subscription, query_id, code //'\nFROM chain._usage //'", 'the sign //'],
      ["SELECT user, query //'\nFROM system.processes //'", 'the sign //'],
      ["SELECT $ x$'$ x$, query_id FROM chain._usage WHERE 1 OR $ x$'$ x$ = ''", 'the sign $'],
      ['SELECT 1 AS secrets, x FROM secrets', "Unknown table expression identifier 'secrets'"],
    ] as const) {
      const { status, text } = await post(sql)
      expect(status, sql).toBe(400)
      expect(text, sql).toContain(reason)
    }
  })

  test('IN reveals of no table whether it contains a string', async () => {
    const forms = ['T', '(T)', '((T))', '(T AS t)', '((T) AS t)', '((T AS t))', '(T) AS t']
    for (const table of ['secrets', 'chain.secrets', `default.${marker}`])
      for (const form of forms)
        for (const sql of [
          `SELECT '${marker}' IN ${form}`,
          `SELECT '${marker}' NOT IN ${form}`,
          `SELECT '${marker}' GLOBAL IN ${form}`,
          `SELECT '${marker}' AS ${table.replace(/.*\./, '')}, 'x' IN ${form}`,
        ]) {
          const { status } = await post(sql.replace(/\bT\b/, table))
          expect(status, sql.replace(/\bT\b/, table)).toBe(400)
        }
  })

  test('random bytes around quotes, comments and heredocs bring nothing out', async () => {
    const any = fc.array(fc.constantFrom(...hostileFragments), { maxLength: 4 })
    const sign = fc.constantFrom(...hidingSigns)
    const quote = fc.constantFrom("'", '"', '`')
    const hide = fc.oneof(
      any.map((parts) => parts.join('')),
      fc
        .tuple(
          sign,
          quote,
          any.map((parts) => parts.slice(0, 1).join('')),
        )
        .map((all) => all.join('')),
    )
    // Mostly the same before and after: what opens a string for us must be closed for us again.
    const around = fc.oneof(
      hide.map((sign) => [sign, sign] as const),
      fc.tuple(hide, hide),
    )
    const target = fc.constantFrom('chain._usage', 'chain.secrets', 'system.tables')
    await fc.assert(
      fc.asyncProperty(around, target, async ([before, behind], table) => {
        const answer = await answersTo(`SELECT * ${before}\nFROM ${table} ${behind}`)
        expect(leaked(answer)).toBe(false)
      }),
      { numRuns: 800 },
    )
  })

  test.each(plainStatements)('gives the same as the server: %s', async (sql) => {
    const direct = await ownerAnswer(server, sql)
    const { status, text } = await post(`${sql}\nFORMAT TabSeparatedWithNames`)
    expect(text).toBe(direct)
    expect(status).toBe(200)
    expect(text).not.toBe('')
  })
})

/** Straight from the server, as its owner, in the database of the index. */
async function ownerAnswer({ url }: ClickhouseServer, sql: string): Promise<string> {
  const { host, username, password } = new URL(url)
  const search = new URLSearchParams({ database: 'chain', join_default_strictness: 'ALL' })
  const answer = await fetch(`http://${host}/?${search}`, {
    method: 'POST',
    body: `${sql}\nFORMAT TabSeparatedWithNames`,
    headers: { authorization: `Basic ${btoa(`${username}:${password}`)}` },
  })
  return answer.text()
}
