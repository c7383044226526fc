// The unmodified client of ClickHouse over the endpoint of the embedded engine: real rows, real SQL.
import { ClickHouseError, ClickHouseLogLevel, createClient, TupleParam } from '@clickhouse/client'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Bundle } from '../testkit/bundle.ts'
import { planLimits } from '../testkit/indexer-stage.ts'
import { QueryStage } from '../testkit/query-stage.ts'
import { transactionRows } from '../testkit/row-samples.ts'
import { hangMs, until } from '../testkit/until.ts'

type Client = ReturnType<typeof createClient>

const patientLimits = { ...planLimits, timeMs: hangMs }
const wideLimits = { ...patientLimits, rows: 2_000_000, resultBytes: 1e9 }
const bundle = new Bundle({
  wide: { creditsPerSecond: 0, indexer: wideLimits },
  hasty: { creditsPerSecond: 0, indexer: { ...planLimits, timeMs: 300 } },
  small: { creditsPerSecond: 0, indexer: { ...patientLimits, rows: 1_000 } },
  plain: { creditsPerSecond: 0, indexer: patientLimits },
})
const clients: Client[] = []
let stage: QueryStage
let url = ''

beforeAll(async () => {
  stage = await QueryStage.open()
  await stage.sink.write([transactionRows({ slot: 1, slots: 100, perSlot: 200 })], { slots: 100 })
  const endpoint = await bundle.openIndexer({ engine: stage.engine })
  url = `http://127.0.0.1:${endpoint.port}`
})
afterAll(async () => {
  await bundle.dispose()
  await stage.close()
})
afterEach(async () => {
  for (const open of clients.splice(0)) await open.close()
})

function connect(plan = 'plain', options: object = {}): Client {
  const { token, indexer } = bundle.issue({ products: ['indexer'], plan })
  const made = createClient({
    url,
    username: indexer!.user,
    password: indexer!.password,
    http_headers: { 'x-token': token },
    request_timeout: hangMs,
    log: { level: ClickHouseLogLevel.OFF },
    ...options,
  })
  clients.push(made)
  return made
}

/** Code and name, whether it came instead of the answer or in it. */
async function failure(client: Client, query: string): Promise<[string, string | undefined]> {
  const error = await client
    .query({ query, format: 'JSONEachRow' })
    .then((result) => result.json())
    .then(
      () => null,
      (thrown: unknown) => thrown,
    )
  expect(error).toBeInstanceOf(ClickHouseError)
  return [(error as ClickHouseError).code, (error as ClickHouseError).type]
}

describe('@clickhouse/client on the embedded engine', () => {
  it('sends what its features need', async () => {
    const client = connect('plain', { compression: { response: true } })
    const rows = async (query: string, options: object = {}) =>
      (await client.query({ query, format: 'JSONEachRow', ...options })).json()
    expect(await rows('SELECT number FROM system.numbers LIMIT 2')).toEqual([
      { number: '0' },
      { number: '1' },
    ])
    expect(
      await rows('SELECT {t:Tuple(Int32, String)} AS t, {m:Map(String, Array(UInt8))} AS m', {
        query_params: { t: new TupleParam([1, "it's"]), m: { a: [1, 2] } },
      }),
    ).toEqual([{ t: [1, "it's"], m: { a: [1, 2] } }])
    const part = { clickhouse_settings: { limit: '2', offset: '3', max_block_size: '1' } }
    expect(await rows('SELECT number AS n FROM numbers(9)', part)).toEqual([{ n: '3' }, { n: '4' }])
    const [{ version } = { version: '' }] = (await rows('SELECT version() AS version')) as {
      version: string
    }[]
    expect(version).toMatch(/^\d+\.\d+\.\d+\.\d+$/)
    expect(await failure(client, "SELECT throwIf(1, 'boom')")).toEqual([
      '395',
      'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO',
    ])
    const settings = (await rows('SELECT name, value FROM system.settings')) as {
      name: string
      value: string
    }[]
    const clickhouse_settings = Object.fromEntries(settings.map(({ name, value }) => [name, value]))
    const { session_id: _, ...all } = clickhouse_settings
    expect(await rows('SELECT 1 AS one', { clickhouse_settings: all })).toEqual([{ one: 1 }])
    const system = connect('plain', { database: 'system' })
    const one = await system.query({ query: 'SELECT * FROM one', format: 'TabSeparated' })
    expect(await one.text()).toBe('0\n')
  })

  it('pings with a query, and reads version, tables and columns', async () => {
    const client = connect()
    expect(await client.ping({ select: true })).toEqual({ success: true })
    const ask = async (query: string) =>
      (await client.query({ query, format: 'JSONCompactEachRow' })).json()
    expect(await ask('SELECT 1')).toEqual([[1]])
    const listed = await ask("SELECT name FROM system.tables WHERE database = 'chain' ORDER BY 1")
    expect(listed).toEqual(await ask('SHOW TABLES'))
    const columns = await ask(
      "SELECT name, type FROM system.columns WHERE table = 'blocks' ORDER BY position",
    )
    const described = (await ask('DESCRIBE TABLE blocks')) as unknown[][]
    expect(columns).toEqual(described.map((row) => row.slice(0, 2)))
  })

  it('reads the same rows in every format', async () => {
    const client = connect()
    const query = 'SELECT slot, idx, success FROM transactions ORDER BY slot, idx LIMIT 2 -- all'
    const first = { slot: '1', idx: 0 }
    const each = await (await client.query({ query, format: 'JSONEachRow' })).json()
    expect(each).toMatchObject([first, { slot: '1', idx: 1 }])
    const whole = await (await client.query({ query, format: 'JSON' })).json()
    expect(whole).toMatchObject({ data: each, rows: 2, meta: [{ type: 'UInt64' }, {}, {}] })
    const compact = await (await client.query({ query, format: 'JSONCompact' })).json()
    expect(compact).toMatchObject({ data: (each as object[]).map(Object.values) })
    const text = async (format: 'CSV' | 'CSVWithNames' | 'TabSeparatedWithNames') =>
      (await (await client.query({ query, format })).text()).split('\n')
    expect((await text('CSV'))[0]).toMatch(/^1,0,[01]$/)
    expect((await text('CSVWithNames'))[0]).toBe('"slot","idx","success"')
    expect((await text('TabSeparatedWithNames'))[0]).toBe('slot\tidx\tsuccess')
    const parquet = await client.exec({ query: `${query}\nFORMAT Parquet` })
    const bytes = Buffer.concat(await parquet.stream.toArray())
    expect([bytes.subarray(0, 4).toString(), bytes.subarray(-4).toString()]).toEqual([
      'PAR1',
      'PAR1',
    ])
    const numbers = await client.query({
      query,
      format: 'JSONEachRow',
      clickhouse_settings: { output_format_json_quote_64bit_integers: 0 },
    })
    expect(await numbers.json()).toMatchObject([{ slot: 1 }, { slot: 1 }])
  })

  it('binds parameters of every type', async () => {
    const client = connect()
    const query_params = {
      a: 18446744073709551615n,
      b: "it's; \\ DROP",
      c: ['x', "y'z", ''],
      d: new Date('2026-01-02T03:04:05Z'),
      e: null,
      f: true,
      g: -1.5,
      h: 'transactions',
      i: [1, 2],
    }
    const query = `SELECT {a:UInt64} AS a, {b:String} AS b, {c:Array(String)} AS c,
      {d:DateTime} AS d, {e:Nullable(UInt8)} AS e, {f:Bool} AS f, {g:Float64} AS g,
      {i:Array(UInt8)} AS i, count() AS n FROM {h:Identifier} WHERE slot IN (1, 2)`
    const rows = await (await client.query({ query, query_params, format: 'JSONEachRow' })).json()
    expect(rows).toEqual([
      {
        a: '18446744073709551615',
        b: "it's; \\ DROP",
        c: ['x', "y'z", ''],
        d: '2026-01-02 03:04:05',
        e: null,
        f: true,
        g: -1.5,
        i: [1, 2],
        n: '400',
      },
    ])
  })

  it('streams a million rows in bounded memory, and every one once', async () => {
    const client = connect('wide')
    const query = `SELECT t.slot, t.idx, f.idx AS n FROM transactions AS t,
      (SELECT idx FROM transactions WHERE slot = 1 AND idx < 50) AS f`
    const result = await client.query({ query, format: 'JSONCompactEachRow' })
    const before = process.memoryUsage.rss()
    let rows = 0
    let highest = 0
    const sums = [0, 0, 0]
    for await (const part of result.stream()) {
      for (const row of part)
        for (const [at, cell] of (row.json() as unknown[]).entries()) sums[at]! += Number(cell)
      rows += part.length
      highest = Math.max(highest, process.memoryUsage.rss() - before)
    }
    expect([rows, ...sums]).toEqual([1_000_000, 50_500_000, 99_500_000, 24_500_000])
    // Endpoint and client together, in this process; the text alone is 15 MB.
    expect(highest).toBeLessThan(300_000_000)
  })

  it('returns class and code: syntax, names, readonly, rows, time', async () => {
    const client = connect()
    expect(await failure(client, 'SELECT FROM WHERE')).toEqual(['62', 'SYNTAX_ERROR'])
    expect(await failure(client, 'SELECT * FROM nothing')).toEqual(['60', 'UNKNOWN_TABLE'])
    expect(await failure(client, 'SELECT nothing FROM blocks')).toEqual([
      '47',
      'UNKNOWN_IDENTIFIER',
    ])
    expect(await failure(client, 'INSERT INTO blocks SELECT 1')).toEqual(['164', 'READONLY'])
    const many = await failure(connect('small'), 'SELECT slot FROM transactions')
    expect(['158', '396']).toContain(many[0])
    const slow = 'SELECT count() FROM transactions a, transactions b, transactions c'
    expect(await failure(connect('hasty'), slow)).toEqual(['159', 'TIMEOUT_EXCEEDED'])
  })

  it('truncates at the row limit on request', async () => {
    const result = await connect('small').query({
      query: 'SELECT slot FROM transactions',
      format: 'JSONEachRow',
      clickhouse_settings: { result_overflow_mode: 'break', max_result_rows: '10' },
    })
    expect((await result.json()).length).toBeLessThanOrEqual(1_000)
  })

  it('cancels by abort, and by KILL QUERY of its own', async () => {
    const client = connect('wide')
    const slow = 'SELECT count() FROM transactions a, transactions b, transactions c'
    const leave = new AbortController()
    const gone = client.query({ query: slow, query_id: 'gone', abort_signal: leave.signal })
    gone.catch(() => {})
    const killed = client.query({ query: slow, query_id: 'killed' })
    killed.catch(() => {})
    const kill = async (id: string, mode: string) => {
      const query = `KILL QUERY WHERE query_id = '${id}' ${mode}`
      return (await client.query({ query, format: 'JSONEachRow' })).json()
    }
    await until(async () => (await kill('gone', 'TEST')).length === 1, 'the first to run')
    leave.abort()
    await expect(gone).rejects.toThrow()
    await until(async () => (await kill('gone', 'TEST')).length === 0, 'the first to be gone')
    await until(async () => (await kill('killed', 'SYNC')).length === 1, 'the second to run')
    await expect(killed).rejects.toMatchObject({ code: '394' })
  })
})
