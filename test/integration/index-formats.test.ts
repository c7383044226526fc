// JSONEachRow by the engine's own to_json against the slow way, row by row, on random values.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { QueryDatabase } from '../../src/products/indexer/duckdb/query-database.ts'
import { QueryRunner } from '../../src/products/indexer/duckdb/query-runner.ts'
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

async function rows(sql: string, isFast: boolean, quotes64: boolean): Promise<unknown[]> {
  let text = ''
  const sink = {
    write: async (bytes: Uint8Array) => {
      text += Buffer.from(bytes).toString()
    },
    wake: () => {},
  }
  const query = queryOf(sql, { format: 'JSONEachRow', quotes64 })
  const job = { ...query, snapshot: { version: 0, files: [] } }
  const report = await new QueryRunner(database, sink, isFast).run(job)
  expect(report.error).toBe(null)
  const lines = text.split('\n').slice(0, -1)
  expect(lines.length).toBe(report.rows)
  return lines.map((line) => JSON.parse(line))
}

const quoted = (text: string) => `'${text.replaceAll("'", "''").replaceAll('\0', '')}'`
const value = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map((n) => `${n}::UBIGINT`),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((n) => `(${n})::BIGINT`),
  fc.integer().map((n) => `(${n})::INTEGER`),
  fc.integer({ min: 0, max: 255 }).map((n) => `${n}::UTINYINT`),
  fc.double().map((n) => `'${n}'::DOUBLE`),
  fc.float().map((n) => `'${n}'::FLOAT`),
  fc.string().map((text) => `${quoted(text)}::VARCHAR`),
  fc.boolean().map(String),
  fc.constantFrom('NULL::VARCHAR', 'NULL::UBIGINT', 'NULL::DOUBLE', 'NULL::VARCHAR[]'),
  fc
    .array(fc.string(), { maxLength: 4 })
    .map((texts) => `[${texts.map(quoted).join(', ')}]::VARCHAR[]`),
  fc.array(fc.nat(), { maxLength: 4 }).map((items) => `[${items.join(', ')}]::UBIGINT[]`),
  fc.nat({ max: 4_000_000_000 }).map((n) => `make_timestamp(${n}000000)::TIMESTAMP_S`),
  fc.nat({ max: 2_000_000_000 }).map((n) => `make_timestamp(${n}123456)`),
  fc.nat({ max: 2_000_000_000 }).map((n) => `make_timestamp(${n}123000)::TIMESTAMP_MS`),
  fc.nat({ max: 2_000_000_000 }).map((n) => `make_timestamp_ns(${n}123456789)`),
  fc.nat({ max: 30_000 }).map((n) => `DATE '1970-01-01' + ${n}`),
)

test('the fast and the slow writer return the same bytes', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(value, { minLength: 1, maxLength: 8 }),
      fc.boolean(),
      async (cells, quotes64) => {
        const sql = `SELECT ${cells.map((cell, at) => `${cell} AS "na ""me${at}"`).join(', ')} FROM range(3)`
        expect(await rows(sql, true, quotes64)).toEqual(await rows(sql, false, quotes64))
      },
    ),
    { numRuns: 60 },
  )
})

test('types without a fast way, and columns of one name, take the slow one', async () => {
  const sql =
    "SELECT 1.50::DECIMAL(5, 2) AS d, {'a': 5::UBIGINT, 'b': [1.5, 'nan'::DOUBLE]} AS s, MAP {'k': 1} AS m, sum(x::UBIGINT) AS h, INTERVAL 1 DAY AS i FROM range(4) t(x)"
  expect(await rows(sql, true, true)).toEqual([
    { d: 1.5, s: { a: '5', b: [1.5, null] }, m: { k: 1 }, h: '6', i: '1 day' },
  ])
  expect(await rows('SELECT 1 AS x, 2 AS x', true, true)).toEqual([{ x: 2 }])
})

test('a comment or a semicolon at the end changes nothing', async () => {
  for (const end of [';', ' -- x', ' /* x */', ';;', ' -- x\n;'])
    expect(await rows(`SELECT 1 AS x${end}`, true, true), end).toEqual([{ x: 1 }])
})
