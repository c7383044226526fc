// Results in every format, byte for byte as ClickHouse writes them, from the embedded engine.
// test/golden/indexer/formats.json has ClickHouse's own bytes; readers of others read the rest.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { tableFromIPC } from 'apache-arrow'
import fc from 'fast-check'
import { parquetReadObjects } from 'hyparquet'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { standardPlan } from '../../src/customers/subscriptions/plans.ts'
import type { OutputOptions } from '../../src/indexer/clickhouse/formats/formats.ts'
import { QueryDatabase } from '../../src/indexer/duckdb/query-database.ts'
import { QueryRunner } from '../../src/indexer/duckdb/query-runner.ts'
import { readSettings } from '../../src/indexer/settings.ts'
import golden from '../golden/indexer/formats.json' with { type: 'json' }
import { queryOf } from '../testkit/query-stage.ts'

let folder: string
let database: QueryDatabase

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-formats-'))
  const options = { folder, scratch: folder, memoryBytes: 512_000_000, threads: 2 }
  database = await QueryDatabase.open(options)
})

afterAll(async () => {
  database.close()
  await rm(folder, { recursive: true, force: true })
})

async function result(sql: string, format: string, output?: OutputOptions): Promise<Buffer> {
  const chunks: Buffer[] = []
  let isFlushed = false
  const sink = {
    write: async (bytes: Uint8Array) => {
      chunks.push(Buffer.from(bytes))
    },
    flushed: async () => {
      isFlushed = true
    },
    wake: () => {},
  }
  const query = queryOf(sql, { format, ...(output !== undefined && { output }) })
  const job = { ...query, ticket: '', snapshot: { version: 0, files: [] } }
  const report = await new QueryRunner(database, () => sink).run(job)
  expect(report.error).toBe(null)
  // The process may be ended after its report.
  expect(isFlushed).toBe(true)
  return Buffer.concat(chunks)
}

function outputOf(settings: Readonly<Record<string, string>>): OutputOptions {
  const read = readSettings(Object.entries(settings), standardPlan.indexer, 'duckdb')
  if (!read.ok) throw new Error(read.error.message)
  return read.value.output
}

/** Times and counts that no two servers have in common. */
function comparable(text: string): string {
  return text
    .replace(/"elapsed": [\d.e-]+/, '"elapsed": 0')
    .replace(/"rows_read": \d+/, '"rows_read": 0')
    .replace(/"bytes_read": \d+/, '"bytes_read": 0')
    .replace(/<(elapsed|rows_read|bytes_read)>[\d.e-]+</g, '<$1>0<')
}

test('Parquet that proves too large once it is whole is refused, and nothing after it is interrupted', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const interrupt = vi.spyOn(database.connection, 'interrupt')
  const { rowsRead } = QueryDatabase.prototype
  vi.spyOn(database, 'rowsRead').mockImplementation(() => {
    const reading = rowsRead.call(database)
    vi.advanceTimersByTime(100)
    return reading
  })
  const limits = { resultBytes: 10 }
  const query = queryOf('SELECT 1 AS a', { format: 'Parquet', limits })
  const job = { ...query, ticket: '', snapshot: { version: 0, files: [] } }
  const sink = { write: async () => {}, flushed: async () => {}, wake: () => {} }
  const { error } = await new QueryRunner(database, () => sink).run(job)
  expect([error?.code, interrupt.mock.calls.length]).toEqual([396, 0])
  vi.restoreAllMocks()
  vi.useRealTimers()
})

describe.each(golden.cases)('$name', ({ clickhouse, results, ...rest }) => {
  const settings = ('settings' in rest ? rest.settings : undefined) ?? {}
  const output = outputOf(settings as Record<string, string>)
  test.each(Object.entries(results as Record<string, string>))('as %s', async (format, written) => {
    const bytes = await result(clickhouse, format, output)
    if (/^(RowBinary|Native)/.test(format)) expect(bytes.toString('hex')).toBe(written)
    else expect(comparable(bytes.toString())).toBe(comparable(written))
  })
})

const scalars = golden.cases[0]!.clickhouse
const nested = golden.cases.find(({ name }) => name === 'nested')!.clickhouse

describe('totals', () => {
  test.each([
    ['SELECT count() AS n FROM numbers(4) WITH TOTALS', '4\n\n4\n'],
    [
      'SELECT number AS k, count() FROM numbers(4) WHERE number > 9 GROUP BY k WITH TOTALS',
      '\n0\t0\n',
    ],
    [
      'SELECT number % 2 AS k, sum(k) FROM numbers(5) GROUP BY 1 WITH TOTALS ORDER BY k DESC LIMIT 1',
      '1\t2\n\n0\t2\n',
    ],
  ])('of %s', async (sql, written) => {
    expect((await result(sql, 'TSV')).toString()).toBe(written)
  })
})

describe('formats that others read', () => {
  test('Arrow, file and stream', async () => {
    for (const format of ['Arrow', 'ArrowStream']) {
      const table = tableFromIPC(await result(scalars, format))
      expect(table.numRows).toBe(2)
      expect(table.schema.fields.map(({ name }) => name)).toContain('s/t')
      const [row] = table.toArray() as [Record<string, unknown>]
      expect(row.big).toBe(18446744073709551615n)
      expect(row['s/t']).toBe('a"b\\c\n\t/<&>é\'|')
      expect(Number(row.t)).toBe(Date.UTC(2024, 0, 2, 3, 4, 5))
      expect(row.b).toBe(false)
    }
    const rows = tableFromIPC(await result(nested, 'Arrow')).toArray() as [
      Record<string, { toJSON(): unknown }>,
    ]
    const plain = JSON.parse(
      JSON.stringify(rows[0], (_, v) => (typeof v === 'bigint' ? `${v}` : v)),
    )
    expect(plain).toMatchObject({
      arr: ['x', 'y\'z"\n/'],
      lists: [[1, 2], []],
      tup: { 1: 1, 2: "a'", 3: '5' },
      named: { a: 1, b: 'x/' },
      m: { 'k/': '1' },
      none: [],
    })
  })

  test('a UUID in Arrow has its bytes in the order of its text', async () => {
    const uuid = '61f0c404-5cb3-11e7-907b-a6006ad3dba0'
    const table = tableFromIPC(await result(`SELECT toUUID('${uuid}') AS u`, 'Arrow'))
    const bytes = table.getChild('u')!.get(0) as Uint8Array
    expect(Buffer.from(bytes).toString('hex')).toBe(uuid.replaceAll('-', ''))
  })

  test('Arrow with NULLs, decimals and no rows', async () => {
    const sql =
      'SELECT CASE WHEN x = 1 THEN NULL ELSE x END AS n, CAST(x * -1.5 AS DECIMAL(9, 2)) AS d FROM range(3) AS r(x)'
    const table = tableFromIPC(await result(sql, 'ArrowStream'))
    expect([...table.getChild('n')!]).toEqual([0n, null, 2n])
    expect(
      [...table.getChild('d')!].map((d) => Buffer.from(d.buffer, d.byteOffset, 16).readInt32LE()),
    ).toEqual([0, -150, -300])
    const none = tableFromIPC(await result(`${sql} WHERE x > 9`, 'ArrowStream'))
    expect([none.numRows, none.schema.fields.length]).toEqual([0, 2])
  })

  test('Parquet', async () => {
    const bytes = await result(scalars, 'Parquet')
    const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)
    const rows = await parquetReadObjects({ file: file as ArrayBuffer })
    expect(rows).toHaveLength(2)
    expect(rows[0]).toMatchObject({ n: 1, big: 18446744073709551615n, b: false })
    const more = await result("SELECT count(), tuple(1, 'a') AS t", 'Parquet')
    const other = more.buffer.slice(more.byteOffset, more.byteOffset + more.length) as ArrayBuffer
    expect(await parquetReadObjects({ file: other })).toEqual([
      { 'count()': 1n, t: { 1: 1, 2: 'a' } },
    ])
  })
})

const quoted = (text: string) => `'${text.replaceAll("'", "''").replaceAll('\0', '')}'`

test('any text comes back from JSON, CSV and TSV as it was', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.string({ unit: 'grapheme' }), { minLength: 1 }), async (drawn) => {
      const texts = drawn.map((text) => text.replaceAll('\0', '').replaceAll('\\', '/'))
      const sql = `SELECT unnest([${texts.map(quoted).join(', ')}]) AS t`
      const json = (await result(sql, 'JSONCompactEachRow')).toString().split('\n').slice(0, -1)
      expect(json.map((line) => JSON.parse(line)[0])).toEqual(texts)
      const csv = (await result(sql, 'CSV')).toString()
      const cells = [...csv.matchAll(/"((?:[^"]|"")*)"\n/gs)].map((m) =>
        m[1]!.replaceAll('""', '"'),
      )
      expect(cells).toEqual(texts)
      const tsv = (await result(sql, 'TSV')).toString().split('\n').slice(0, -1)
      const plainOf = (text: string) =>
        text.replaceAll(
          /\\(.)/g,
          (_, c: string) => ({ n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', 0: '\0' })[c] ?? c,
        )
      expect(tsv.map(plainOf)).toEqual(texts)
    }),
    { numRuns: 30 },
  )
})

test('a comment or a semicolon at the end changes nothing', async () => {
  for (const end of [';', ' -- x', ' /* x */', ';;', ' -- x\n;'])
    expect((await result(`SELECT 1 AS x${end}`, 'JSONEachRow')).toString(), end).toBe('{"x":1}\n')
})

test('columns of one name are all written', async () => {
  expect((await result('SELECT 1 AS x, 2 AS x', 'JSONEachRow')).toString()).toBe('{"x":1,"x":2}\n')
})

test('rows of several chunks are in order and complete, long and short ones', async () => {
  const sql = `SELECT x AS n, CASE WHEN x % 3 = 0 THEN '' ELSE substr('${'y'.repeat(40)}', 1, CAST(x % 40 AS INTEGER)) END AS s FROM range(20000) AS r(x)`
  const lines = (await result(sql, 'TSV')).toString().split('\n').slice(0, -1)
  expect(lines).toHaveLength(20_000)
  expect(
    lines.findIndex((line, at) => line !== `${at}\t${at % 3 === 0 ? '' : 'y'.repeat(at % 40)}`),
  ).toBe(-1)
  const short = (await result('SELECT x AS n FROM range(9000) AS r(x)', 'CSV')).toString()
  expect(short).toBe(Array.from({ length: 9000 }, (_, at) => `${at}\n`).join(''))
})

test('line and paragraph separators are escaped in JSON, as ClickHouse does', async () => {
  const sql = "SELECT 'a\u2028/\u2029“b' AS t"
  const escaped = '"a\\u2028\\/\\u2029“b"'
  expect((await result(sql, 'JSONEachRow')).toString()).toBe(`{"t":${escaped}}\n`)
  expect((await result(sql, 'JSONColumns')).toString()).toContain(`[${escaped}]`)
  expect((await result(sql, 'TSV')).toString()).toBe('a\u2028/\u2029“b\n')
})
