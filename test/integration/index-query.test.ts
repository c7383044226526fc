// Queries on the embedded index, in processes of their own: answers, limits, errors, cancel.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { EMULATED_VERSION } from '../../src/indexer/catalogue.ts'
import { ask, QueryStage, queryOf, rowsOf } from '../testkit/query-stage.ts'
import { instructionRows, transactionRows, usageRows } from '../testkit/row-samples.ts'
import { until } from '../testkit/until.ts'

let stage: QueryStage

beforeAll(async () => {
  stage = await QueryStage.open()
  await stage.sink.write(
    [
      transactionRows({ slot: 1, slots: 100, perSlot: 200 }),
      instructionRows({ slot: 1, slots: 10, perSlot: 100 }),
      usageRows('sub_a', 0, 3),
      usageRows('sub_b', 0, 5),
    ],
    { slots: 100 },
  )
})

afterAll(() => stage.close())

describe('a query on the embedded index', () => {
  test('sees rows under both names of their table', async () => {
    expect(await rowsOf(stage.engine, 'SELECT count() FROM transactions')).toEqual([['20000']])
    expect(await rowsOf(stage.engine, 'SELECT count() FROM chain.transactions')).toEqual([
      ['20000'],
    ])
    expect(await rowsOf(stage.engine, 'SELECT count() FROM default.instructions')).toEqual([
      ['1000'],
    ])
  })

  test('sees rows that were written a moment ago', async () => {
    const count = async () =>
      Number((await rowsOf(stage.engine, 'SELECT count() FROM tps'))[0]![0] as string)
    expect(await count()).toBe(0)
    for (let seq = 1; seq <= 3; seq += 1) {
      const columns = [[BigInt(seq)], [BigInt(seq)], [100], [null]]
      await stage.sink.write([{ table: 'tps', count: 1, columns }], { events: seq })
      await until(async () => (await count()) === seq, 'the new row')
    }
  })

  test.each([
    ['SELECT sum(fee) FROM transactions WHERE slot > 0', 20_000],
    ['SELECT count() FROM transactions t JOIN instructions i USING signature', 21_000],
    ['SELECT slot FROM transactions WHERE length(signature) = 3', 20_000],
    // No block has such a value.
    ['SELECT slot FROM transactions WHERE success = 3', 0],
    ['SELECT slot % 2 AS k, sum(fee) FROM transactions GROUP BY k WITH TOTALS', 20_000],
    ['SELECT sum(number) FROM numbers(500)', 500],
    // The number of rows is known without reading one.
    ['SELECT count() FROM transactions', 0],
    ['SELECT 1', 0],
  ])('%s reports %d rows read', async (sql, readRows) => {
    for (const format of ['JSON', 'PrettyCompact', 'RowBinary', 'Parquet']) {
      const { totals, text, error } = await ask(stage.engine, sql, { format })
      expect(error).toBeNull()
      expect(totals?.readRows, format).toBe(readRows)
      if (format === 'JSON') expect(JSON.parse(text).statistics.rows_read).toBe(readRows)
    }
  })

  test('reports fewer rows read when LIMIT ends the scan early', async () => {
    const { totals } = await ask(stage.engine, 'SELECT fee FROM transactions LIMIT 3')
    expect(totals?.readRows).toBeGreaterThanOrEqual(3)
    expect(totals?.readRows).toBeLessThan(20_000)
  })

  test('lists tables and columns', async () => {
    const tables = await rowsOf(
      stage.engine,
      "SELECT name FROM system.tables WHERE database = 'chain' ORDER BY name",
    )
    expect(tables.flat()).toContain('transactions')
    expect(
      await rowsOf(
        stage.engine,
        "SELECT name, type FROM system.columns WHERE table = 'usage' ORDER BY position",
      ),
    ).toEqual([
      ['at', 'DateTime64(3)'],
      ['query_id', 'String'],
      ['elapsed_ms', 'Float64'],
      ['rows', 'UInt64'],
      ['bytes', 'UInt64'],
      ['code', 'UInt16'],
    ])
    const [names] = await rowsOf(stage.engine, 'SELECT database(), currentDatabase(), version()')
    expect(names).toEqual(['chain', 'chain', EMULATED_VERSION])
  })

  test('has the tables and functions that clients of ClickHouse begin with', async () => {
    const rows = (sql: string, asking = {}) => rowsOf(stage.engine, sql, asking)
    expect(await rows('SELECT * FROM system.numbers LIMIT 5, 2')).toEqual([['5'], ['6']])
    expect(await rows('SELECT sum(number) FROM numbers(10)')).toEqual([['45']])
    expect(await rows('SELECT number FROM numbers(7, 2)')).toEqual([['7'], ['8']])
    expect(await rows('SELECT zero FROM zeros(2)')).toEqual([[0], [0]])
    expect(await rows('SELECT * FROM system.one')).toEqual([[0]])
    expect(await rows('SELECT * FROM numbers LIMIT 1', { database: 'system' })).toEqual([['0']])
    expect(await rows("SELECT is_aggregate FROM system.functions WHERE name = 'sum'")).toEqual([
      [1],
    ])
    expect(
      await rows("SELECT table_schema FROM INFORMATION_SCHEMA.TABLES WHERE table_name = 'blocks'"),
    ).toEqual([['chain']])
    expect(await rows("SELECT value FROM system.settings WHERE name = 'max_block_size'")).toEqual([
      ['65536'],
    ])
    const other = await ask(stage.engine, 'SELECT 1 FROM blocks', { database: 'system' })
    expect(other.error?.code).toBe(60)
    const endless = await ask(stage.engine, 'SELECT sum(number) FROM system.numbers', {
      limits: { timeMs: 500 },
      subscription: 'sub_endless',
    })
    expect(endless.error?.code).toBe(159)
    const slow = stage.engine.run(queryOf('SELECT sleep(3)', { subscription: 'sub_sleeper' }))
    setTimeout(() => slow.cancel(), 50)
    expect(await slow.started).toMatchObject({ ok: false, error: { code: 394 } })
    expect(await rows('SELECT sleep(0.01), 1')).toEqual([[0, 1]])
    expect((await ask(stage.engine, 'SELECT sleep(4)')).error?.code).toBe(160)
    const { error } = await ask(stage.engine, "SELECT throwIf(number = 3, 'boom') FROM numbers(9)")
    expect(error).toMatchObject({ code: 395, message: "boom: while executing 'FUNCTION throwIf'" })
  })

  test("shows a caller's own usage and no other", async () => {
    const own = (subscription: string) =>
      rowsOf(stage.engine, 'SELECT count(), min(query_id), min(at) FROM usage', { subscription })
    expect(await own('sub_a')).toEqual([['3', 'sub_a-0', '2023-11-14 22:13:20.000']])
    expect(await own('sub_b')).toEqual([['5', 'sub_b-0', '2023-11-14 22:13:20.000']])
    expect(await own('sub_c')).toEqual([['0', '', '1970-01-01 00:00:00.000']])
    const { error } = await ask(stage.engine, 'SELECT subscription FROM usage')
    expect(error).toMatchObject({ code: 47, name: 'UNKNOWN_IDENTIFIER' })
    // Not even by the error that a condition on another's row would cause.
    const probe = await ask(stage.engine, 'SELECT count() FROM usage WHERE query_id::INT > 0')
    expect(probe.error?.message).not.toContain('sub_b')
  })

  test('replaces parameters by values, whatever they contain', async () => {
    const ask = (type: string, value: string) =>
      rowsOf(stage.engine, '', {
        statement: { texts: ['SELECT ', ' AS x'], values: [{ type, value }] },
      })
    expect(await ask('String', "it's -- '; DROP TABLE transactions; \\ \0 end")).toEqual([
      ["it's -- '; DROP TABLE transactions; \\ \0 end"],
    ])
    expect(await ask('UInt64', '18446744073709551615')).toEqual([['18446744073709551615']])
    expect(await ask('DateTime64(3)', '2026-01-02 03:04:05.678')).toEqual([
      ['2026-01-02 03:04:05.678'],
    ])
    const values = [
      { type: 'Array(UInt32)', value: [{ type: 'UInt32', value: '3' }] },
      { type: 'UInt8', value: '2' },
    ]
    const texts = ['SELECT slot FROM transactions WHERE slot::UInt32 IN ', ' LIMIT ', '']
    expect(await rowsOf(stage.engine, '', { statement: { texts, values } })).toEqual([['3'], ['3']])
  })

  test('explains a plan', async () => {
    const lines = await rowsOf(stage.engine, 'EXPLAIN SELECT count() FROM transactions')
    expect(lines.length).toBeGreaterThan(3)
    expect(JSON.stringify(lines)).not.toContain(stage.folder)
  })

  test('reports errors with ClickHouse codes and names', async () => {
    const cases: readonly [string, number, string, RegExp?][] = [
      ['SELEC 1', 62, 'SYNTAX_ERROR'],
      ['SELECT FROM WHERE', 62, 'SYNTAX_ERROR'],
      ['SELECT 1; SELECT 2', 62, 'SYNTAX_ERROR'],
      ['', 62, 'SYNTAX_ERROR'],
      ['SELECT * FROM transaktions', 60, 'UNKNOWN_TABLE', /transactions/],
      ['SELECT nope FROM transactions', 47, 'UNKNOWN_IDENTIFIER', /nope/],
      ['SELECT toUInt65(1)', 46, 'UNKNOWN_FUNCTION', /touint/i],
      ['SELECT slot, count() FROM transactions', 215, 'NOT_AN_AGGREGATE'],
      ["SELECT 'x'::INT", 6, 'CANNOT_PARSE_TEXT'],
      ["SELECT '300'::UInt8", 6, 'CANNOT_PARSE_TEXT'],
      ['SELECT sum(signature) FROM transactions', 43, 'ILLEGAL_TYPE_OF_ARGUMENT'],
      ['INSERT INTO transactions VALUES (1)', 164, 'READONLY'],
      ['DROP TABLE transactions', 164, 'READONLY'],
      ['PIVOT transactions ON success USING count(*)', 62, 'SYNTAX_ERROR'],
    ]
    for (const [sql, code, name, message] of cases) {
      const { error } = await ask(stage.engine, sql)
      expect(error, sql).toMatchObject({ code, name })
      if (message !== undefined) expect(error?.message, sql).toMatch(message)
    }
  })

  test('ends at its limits: rows, bytes, time', async () => {
    const sql = 'SELECT slot, signature FROM transactions ORDER BY slot, idx'
    const rows = await ask(stage.engine, sql, { limits: { rows: 100 } })
    expect(rows.error).toMatchObject({ code: 158, name: 'TOO_MANY_ROWS' })
    const bytes = await ask(stage.engine, sql, { limits: { resultBytes: 1000 } })
    expect(bytes.error).toMatchObject({ code: 396, name: 'TOO_MANY_ROWS_OR_BYTES' })
    const cut = await ask(stage.engine, sql, { limits: { rows: 100, overflow: 'break' } })
    expect(cut.error).toBe(null)
    expect(cut.text.split('\n').length).toBe(101)
    const json = await ask(stage.engine, sql, {
      limits: { rows: 7, overflow: 'break' },
      format: 'JSON',
    })
    expect(JSON.parse(json.text)).toMatchObject({ rows: 7 })
    const slow = 'SELECT count() FROM transactions a, transactions b, transactions c'
    const asking = { subscription: 'sub_late', limits: { timeMs: 300 } }
    const late = await ask(stage.engine, slow, asking)
    expect(late.error).toMatchObject({ code: 159, name: 'TIMEOUT_EXCEEDED' })
  })

  test('never passes a broken result off as a whole one', async () => {
    // Fails long after the first rows, where the engine streams.
    const sql = "SELECT (CASE WHEN slot = 90 THEN 'x' ELSE '1' END)::INT AS n FROM transactions"
    const later =
      "SELECT (CASE WHEN number = 900000 THEN 'x' ELSE '1' END)::INT AS n FROM numbers(1000000)"
    for (const format of ['JSONEachRow', 'CSV', 'JSON'] as const)
      for (const rows of [1e5, 1e6]) {
        const { error } = await ask(stage.engine, sql, { format, limits: { rows } })
        expect(error, format).toMatchObject({ code: 6, name: 'CANNOT_PARSE_TEXT' })
      }
    const late = await ask(stage.engine, later, { format: 'CSV', limits: { rows: 1e6 } })
    expect(late.error).toMatchObject({ code: 6, name: 'CANNOT_PARSE_TEXT' })
    // Without an order the engine mixes what a UNION puts together: nothing may be lost by it.
    const mixed =
      'SELECT a.signature, b.idx FROM transactions a JOIN transactions b USING (slot) WHERE b.idx < 8'
    for (const format of ['JSONEachRow', 'CSV'] as const) {
      const { text, error } = await ask(stage.engine, mixed, { format, limits: { rows: 1e6 } })
      expect(error).toBe(null)
      expect(text.split('\n').length - 1).toBe(160_000)
    }
  })

  test('keeps the order of a large result', async () => {
    const sql = 'SELECT slot * 1000 + idx AS n FROM transactions ORDER BY fee, n DESC'
    const limits = { rows: 1e6 }
    for (const format of ['JSONEachRow', 'JSONCompactEachRow'] as const) {
      const { text, error } = await ask(stage.engine, sql, { format, limits })
      expect(error).toBe(null)
      const found = text.split('\n').slice(0, -1)
      expect(found.length).toBe(20_000)
      const again = await ask(stage.engine, `SELECT * FROM (${sql})`, { format, limits })
      expect(again.text).toBe(text)
    }
  })

  test('ends when it is cancelled, and the next one runs', async () => {
    const slow = 'SELECT count() FROM transactions a, transactions b, transactions c'
    const running = stage.engine.run(queryOf(slow))
    setTimeout(() => running.cancel(), 200)
    expect(await running.started).toMatchObject({ ok: false, error: { code: 394 } })
    expect(await rowsOf(stage.engine, 'SELECT 1')).toEqual([[1]])
  })

  test('waits for a slow reader, and serves the next query when it stops reading', async () => {
    const sql = 'SELECT a.signature, b.signature FROM transactions a, range(20) r, transactions b'
    const limits = { rows: 1e9, resultBytes: 1e9 }
    const outcome = await stage.engine.run(queryOf(`${sql} WHERE b.slot = 1`, { limits })).started
    if (!outcome.ok) throw new Error(outcome.error.message)
    let taken = 0
    for await (const chunk of outcome.result.chunks) {
      taken += chunk.length
      if (taken > 30_000_000) break
      await new Promise((resolve) => setImmediate(resolve))
    }
    // The reader stopped; the engine had not run far ahead of it.
    expect(outcome.result.totals().bytes).toBeLessThan(taken + 4_000_000)
    expect(await rowsOf(stage.engine, 'SELECT 1')).toEqual([[1]])
  })
})

describe('the formats of a result', () => {
  const sql =
    "SELECT slot, idx, success, substring(signature, 1, 4) AS s, block_time, arraySlice(accounts, 1, 1) AS a, fee / 3 AS f FROM (SELECT t.*, ['x''y', 'z'] AS accounts FROM transactions t WHERE slot = 1 AND idx < 2) ORDER BY idx"
  const format = async (name: Parameters<typeof queryOf>[1]) =>
    (await ask(stage.engine, sql, name)).text

  test('are what ClickHouse writes', async () => {
    const s = (await rowsOf(stage.engine, sql)).map((row) => row[3])
    expect(await format({ format: 'CSVWithNames' })).toBe(
      '"slot","idx","success","s","block_time","a","f"\n' +
        `1,0,1,"${s[0]}","2023-11-14 22:13:21","['x\\'y']",1666.6666666666667\n` +
        `1,1,1,"${s[1]}","2023-11-14 22:13:21","['x\\'y']",1667\n`,
    )
    expect(await format({ format: 'TabSeparatedWithNames' })).toBe(
      'slot\tidx\tsuccess\ts\tblock_time\ta\tf\n' +
        `1\t0\t1\t${s[0]}\t2023-11-14 22:13:21\t['x\\'y']\t1666.6666666666667\n` +
        `1\t1\t1\t${s[1]}\t2023-11-14 22:13:21\t['x\\'y']\t1667\n`,
    )
    expect(JSON.parse((await format({ format: 'JSONEachRow' })).split('\n')[0]!)).toEqual({
      slot: '1',
      idx: 0,
      success: 1,
      s: s[0],
      block_time: '2023-11-14 22:13:21',
      a: ["x'y"],
      f: 1666.6666666666667,
    })
    expect(
      JSON.parse(
        (await format({ format: 'JSONEachRow', output: { quotes64: false } })).split('\n')[0]!,
      ),
    ).toMatchObject({ slot: 1 })
    const json = JSON.parse(await format({ format: 'JSON' }))
    expect(json.meta.slice(0, 6)).toEqual([
      { name: 'slot', type: 'UInt64' },
      { name: 'idx', type: 'UInt32' },
      { name: 'success', type: 'UInt8' },
      { name: 's', type: 'String' },
      { name: 'block_time', type: 'DateTime' },
      { name: 'a', type: 'Array(String)' },
    ])
    expect(json.rows).toBe(2)
    expect(json.data[1].slot).toBe('1')
  })

  test('include Parquet', async () => {
    const { bytes, error, totals } = await ask(stage.engine, 'SELECT * FROM transactions', {
      format: 'Parquet',
    })
    expect(error).toBe(null)
    expect(bytes.subarray(0, 4).toString()).toBe('PAR1')
    expect(bytes.subarray(-4).toString()).toBe('PAR1')
    expect(totals?.rows).toBe(20_000)
    const tooMany = await ask(stage.engine, 'SELECT * FROM transactions', {
      format: 'Parquet',
      limits: { rows: 10 },
    })
    expect(tooMany.error).toMatchObject({ code: 158 })
  })

  test('include a Parquet file that is ended as soon as it is too large', async () => {
    // Written to its end, it would be 10 TB.
    const sql = 'SELECT hex(MD5(toString(number))) AS a FROM system.numbers'
    const limits = { rows: 1e12, resultBytes: 1_000_000, timeMs: 20_000 }
    const { bytes, error } = await ask(stage.engine, sql, { format: 'Parquet', limits })
    expect([bytes.length, error]).toEqual([0, expect.objectContaining({ code: 396 })])
    expect(await rowsOf(stage.engine, 'SELECT 1')).toEqual([[1]])
  })
})
