// The unmodified client of ClickHouse at the indexer's endpoint.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  ClickHouseError,
  ClickHouseLogLevel,
  createClient,
  type DataFormat,
} from '@clickhouse/client'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { CertificatePair } from '../../src/base/transport/tls.ts'
import { declareIndexerMeters } from '../../src/indexer/meters.ts'
import { hasOpenssl, makePair } from '../testkit/certificates.ts'
import { IndexerStage, planLimits } from '../testkit/indexer-stage.ts'
import { until } from '../testkit/until.ts'

type Client = ReturnType<typeof createClient>

const stage = new IndexerStage({
  poor: { creditsPerSecond: 1, burst: 1 },
  wide: { creditsPerSecond: 0, indexer: { ...planLimits, rows: 10_000_000 } },
})
const clients: Client[] = []
let client: Client

beforeAll(() => stage.open())
afterAll(() => stage.bundle.dispose())
afterEach(async () => {
  for (const open of clients.splice(0)) await open.close()
})

function connect(options: object = {}, plan = 'unlimited'): Client {
  const { token, indexer } = stage.bundle.issue({ products: ['indexer'], plan })
  const made = createClient({
    url: stage.url,
    username: indexer!.user,
    password: indexer!.password,
    http_headers: { 'x-token': token },
    log: { level: ClickHouseLogLevel.OFF },
    ...options,
  })
  clients.push(made)
  return made
}

async function failure(work: Promise<unknown>): Promise<[code: string, type: string | undefined]> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(ClickHouseError)
  return [(error as ClickHouseError).code, (error as ClickHouseError).type]
}

describe('@clickhouse/client', () => {
  it('pings, with and without a query', async () => {
    client = connect()
    expect(await client.ping()).toEqual({ success: true })
    expect(await client.ping({ select: true })).toEqual({ success: true })
  })

  it('reads every JSON format that it knows', async () => {
    client = connect()
    const query = 'SELECT rows 2'
    const read = async (format: DataFormat) =>
      (await client.query({ query, format })).json() as Promise<unknown>
    const objects = [0, 1].map((n) => ({ n, text: `row ${n}` }))
    const strings = objects.map(({ n, text }) => ({ n: `${n}`, text }))
    const lists = objects.map(({ n, text }) => [n, text])
    const texts = strings.map(({ n, text }) => [n, text])
    const names = ['n', 'text']
    const types = ['UInt32', 'String']
    expect(await read('JSONStrings')).toMatchObject({ data: strings, rows: 2 })
    expect(await read('JSONCompactStrings')).toMatchObject({ data: texts })
    expect(await read('JSONColumnsWithMetadata')).toMatchObject({
      data: { n: [0, 1], text: ['row 0', 'row 1'] },
    })
    expect(await read('JSONObjectEachRow')).toEqual({ row_1: objects[0], row_2: objects[1] })
    expect(await read('JSONStringsEachRow')).toEqual(strings)
    expect(await read('JSONCompactEachRowWithNames')).toEqual([names, ...lists])
    expect(await read('JSONCompactEachRowWithNamesAndTypes')).toEqual([names, types, ...lists])
    expect(await read('JSONCompactStringsEachRow')).toEqual(texts)
    expect(await read('JSONCompactStringsEachRowWithNames')).toEqual([names, ...texts])
    expect(await read('JSONCompactStringsEachRowWithNamesAndTypes')).toEqual([
      names,
      types,
      ...texts,
    ])
    const progress = (await read('JSONEachRowWithProgress')) as { row?: unknown }[]
    expect(progress.filter(({ row }) => row !== undefined)).toEqual(objects.map((row) => ({ row })))
  })

  it('queries in every format', async () => {
    client = connect()
    const rows = [
      { n: 0, text: 'row 0' },
      { n: 1, text: 'row 1' },
    ]
    const query = 'SELECT rows 2'
    const json = await (await client.query({ query, format: 'JSON' })).json()
    expect(json).toMatchObject({ data: rows, rows: 2, meta: [{ name: 'n' }, { name: 'text' }] })
    expect(await (await client.query({ query, format: 'JSONEachRow' })).json()).toEqual(rows)
    const compact = await (await client.query({ query, format: 'JSONCompact' })).json()
    expect(compact).toMatchObject({ data: rows.map(Object.values) })
    const lines = await client.query({ query, format: 'JSONCompactEachRow' })
    expect(await lines.json()).toEqual(rows.map(Object.values))
    const texts: Partial<Record<DataFormat, string>> = {
      CSV: '0,"row 0"\n1,"row 1"\n',
      CSVWithNames: '"n","text"\n0,"row 0"\n1,"row 1"\n',
      TabSeparated: '0\trow 0\n1\trow 1\n',
      TabSeparatedWithNames: 'n\ttext\n0\trow 0\n1\trow 1\n',
      Parquet: 'PAR1',
    }
    for (const [format, text] of Object.entries(texts))
      expect(await (await client.query({ query, format: format as DataFormat })).text()).toBe(text)
  })

  it('sends typed parameters, short ones in the URL and long ones in a form', async () => {
    const query_params = {
      small: 255,
      big: 18446744073709551615n,
      text: "it's\na \\ tab\t'",
      flag: true,
      none: null,
      list: ['a', "b'c", ''],
      nested: [[1], []],
      time: new Date('2026-01-02T03:04:05.678Z'),
      table: 'blocks',
    }
    const query =
      'SELECT {small:UInt8}, {big:UInt64}, {text:String}, {flag:Bool}, {none:Nullable(Int8)}, ' +
      '{list:Array(String)}, {nested:Array(Array(UInt8))}, {time:DateTime64(3)} ' +
      'FROM {table:Identifier}'
    for (const use_multipart_params of [false, true]) {
      client = connect({ use_multipart_params })
      await (await client.query({ query, query_params })).text()
      const { texts, values } = stage.engine.queries.at(-1)!.statement
      expect(texts.at(-2)).toBe(' FROM ')
      expect(values.at(-1)).toMatchObject({ type: 'Identifier', value: 'blocks' })
      expect(values.slice(0, 5).map(({ value }) => value)).toEqual([
        '255',
        '18446744073709551615',
        query_params.text,
        'true',
        null,
      ])
      const list = values[5]!.value as readonly { value: string }[]
      expect(list.map(({ value }) => value)).toEqual(query_params.list)
      expect(values[7]).toMatchObject({ type: 'DateTime64(3)', value: '2026-01-02 03:04:05.678' })
    }
  })

  it('streams a long result, plain and compressed', async () => {
    for (const compression of [{}, { compression: { response: true } }]) {
      client = connect(compression, 'wide')
      const query = 'SELECT rows 200000'
      const stream = (await client.query({ query, format: 'JSONEachRow' })).stream()
      let rows = 0
      let sum = 0
      for await (const part of stream)
        for (const row of part) {
          rows++
          sum += (row.json() as { n: number }).n
        }
      expect([rows, sum]).toEqual([200_000, 19_999_900_000])
    }
  })

  it('returns class and code of every error', async () => {
    client = connect()
    const fails = (query: string) => failure(client.query({ query, format: 'JSONEachRow' }))
    expect(await fails('SELEC 1')).toEqual(['62', 'SYNTAX_ERROR'])
    expect(await fails('SELECT fail 60')).toEqual(['60', 'UNKNOWN_TABLE'])
    expect(await fails('SELECT fail 158')).toEqual(['158', 'TOO_MANY_ROWS'])
    expect(await fails('SELECT fail 159')).toEqual(['159', 'TIMEOUT_EXCEEDED'])
    expect(await fails('SELECT fail 241')).toEqual(['241', 'MEMORY_LIMIT_EXCEEDED'])
    expect(await fails('DROP TABLE blocks')).toEqual(['164', 'READONLY'])
    const command = client.command({ query: 'CREATE TABLE t (a UInt8) ENGINE = Memory' })
    expect(await failure(command)).toEqual(['164', 'READONLY'])
    const values = [{ slot: 1 }]
    const insert = client.insert({ table: 'blocks', values, format: 'JSONEachRow' })
    expect(await failure(insert)).toEqual(['164', 'READONLY'])
    client = connect({}, 'poor')
    await (await client.query({ query: 'SELECT 1' })).text()
    expect(await fails('SELECT 1')).toEqual(['201', 'QUOTA_EXCEEDED'])
    client = connect({ password: 'other' })
    expect(await fails('SELECT 1')).toEqual(['516', 'AUTHENTICATION_FAILED'])
  })

  it('returns an error that occurred while it streamed, plain and compressed', async () => {
    for (const compression of [{}, { compression: { response: true } }]) {
      client = connect(compression)
      const result = await client.query({ query: 'SELECT late 50000', format: 'JSONEachRow' })
      expect(await failure(result.json())).toEqual(['159', 'TIMEOUT_EXCEEDED'])
    }
  })

  it('cancels by abort, before and while the answer comes', async () => {
    client = connect()
    const leave = new AbortController()
    const before = stage.engine.cancelled
    const asked = stage.engine.queries.length
    const waiting = client.query({ query: 'SELECT wait', abort_signal: leave.signal })
    waiting.catch(() => {})
    await until(() => stage.engine.queries.length > asked, 'the query to run')
    leave.abort()
    await expect(waiting).rejects.toThrow()
    await until(() => stage.engine.cancelled === before + 1, 'the query to be cancelled')
    const stream = await client.query({ query: 'SELECT rows 99999999', format: 'JSONEachRow' })
    stream.close()
    await until(() => stage.engine.cancelled === before + 2, 'the stream to be cancelled')
  })

  it.skipIf(!hasOpenssl)('works over TLS with a CA of its own, without Basic', async () => {
    const pair = makePair(join(stage.bundle.folder, 'tls'), 'indexer')
    const tls = new CertificatePair(pair, silentLog)
    const meters = declareIndexerMeters(new Meters())
    const endpoint = await stage.bundle.openIndexer({ engine: stage.engine, tls, meters })
    client = connect({
      url: `https://127.0.0.1:${endpoint.port}`,
      tls: { ca_cert: readFileSync(pair.certPath) },
    })
    const rows = await client.query({ query: 'SELECT rows 1', format: 'JSONEachRow' })
    expect(await rows.json()).toEqual([{ n: 0, text: 'row 0' }])
    await client.close()
    await endpoint.stop()
    tls.stop()
  })
})
