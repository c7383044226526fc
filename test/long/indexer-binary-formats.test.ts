// A real ClickHouse server reads the binary formats of the embedded engine back.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { QueryDatabase } from '../../src/indexer/duckdb/query-database.ts'
import { QueryRunner } from '../../src/indexer/duckdb/query-runner.ts'
import {
  type ClickhouseServer,
  hasClickhouseServer,
  startClickhouseServer,
} from '../testkit/clickhouse-server.ts'
import { queryOf } from '../testkit/query-stage.ts'

const sql = `SELECT toUInt32(number) AS n, toUInt64(number * 1000000007) AS big,
  concat('text ', toString(number)) AS s, if(number % 3 = 0, NULL, toUInt64(number)) AS nul,
  toDateTime(1700000000 + number) AS t, [toString(number), ''] AS arr, toFloat64(number) / 4 AS f,
  toDate('2024-01-02') AS d FROM numbers(5000)`
const table = `n UInt32, big UInt64, s String, nul Nullable(UInt64), t DateTime, arr Array(String),
  f Float64, d Date`
const digest = `SELECT count(), sum(n), sum(big), max(s), sum(nul), countIf(isNull(nul)),
  max(toUInt32(t)), sum(length(arr)), any(arr[2]), sum(f), any(d) FROM back FORMAT TSV`

describe.skipIf(!hasClickhouseServer())('a ClickHouse server', () => {
  let folder: string
  let database: QueryDatabase
  let server: ClickhouseServer

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-binary-'))
    const options = { folder, scratch: folder, memoryBytes: 512_000_000, threads: 2 }
    database = await QueryDatabase.open(options)
    server = await startClickhouseServer()
  })

  afterAll(async () => {
    database.close()
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  })

  test.each(['Native', 'RowBinary'])('reads %s', async (format) => {
    const chunks: Buffer[] = []
    const write = async (bytes: Uint8Array) => {
      chunks.push(Buffer.from(bytes))
    }
    const snapshot = { version: 0, files: [] }
    const job = { ...queryOf(sql, { format }), ticket: '', snapshot }
    const report = await new QueryRunner(database, () => ({
      write,
      flushed: async () => {},
      wake() {},
    })).run(job)
    expect(report.error).toBe(null)
    await server.ask('CREATE DATABASE IF NOT EXISTS chain')
    await server.ask('DROP TABLE IF EXISTS back')
    await server.ask(`CREATE TABLE back (${table}) ENGINE = Memory`)
    const { username, password, origin } = new URL(server.url)
    const inserted = await fetch(`${origin}/?query=INSERT+INTO+back+FORMAT+${format}`, {
      method: 'POST',
      headers: { 'x-clickhouse-user': username, 'x-clickhouse-key': password },
      body: Buffer.concat(chunks),
    })
    expect(await inserted.text()).toBe('')
    expect((await server.ask(digest)).trim()).toBe(
      [
        5000,
        12497500,
        12497500087482500,
        'text 999',
        8331667,
        1667,
        1700004999,
        10000,
        '',
        3124375,
        '2024-01-02',
      ].join('\t'),
    )
  })
})
