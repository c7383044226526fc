// What every engine of the index promises its endpoint, as a suite that runs on any of them: formats,
// parameters, limits, errors by their codes, cancelling, whose rows of `usage` one sees, and a long
// result in little memory.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { views } from '../../src/indexer/catalogue.ts'
import type { RowBatch } from '../../src/indexer/engine.ts'
import { firstSlot, makeRows, subscriptions } from './generated-rows.ts'
import { type Asked, type AskOptions, ask, queryOf, tryAsk } from './index-asking.ts'
import type { ReadEngine } from './send-results.ts'
import { hangMs, until } from './until.ts'

export interface EngineStage {
  /** An engine over these rows. */
  start(batches: readonly RowBatch[]): Promise<ReadEngine>
  stop(): Promise<void>
  /** How many queries it works on at this moment. */
  busy(): Promise<number>
  /** What this one lacks; the endpoint says so to whoever asks. */
  readonly lacks: readonly string[]
  /** A query without an end that stays far below the memory limit, where joins do not. */
  readonly endless?: string
  /** How many rows a result may have beyond the limit when it is told to break off. */
  readonly breakSlack: number
}

const plan = { seed: 11, slots: 60, transactionsPerSlot: 100, blocks: 40, tips: 60, usage: 40 }
/** Rows enough to be a million when each meets a hundred and seventy others. */
const long =
  'SELECT a.signature, a.fee, b.slot AS other FROM transactions AS a ' +
  'CROSS JOIN (SELECT slot, idx FROM transactions WHERE idx < 3) AS b'
const endlessJoin =
  'SELECT count() FROM (SELECT a.fee + b.fee AS f FROM transactions AS a ' +
  'CROSS JOIN transactions AS b) AS ab CROSS JOIN transactions AS c WHERE (ab.f + c.fee) % 1000003 = 7'

/** A question for each view; its rows in one order. */
const viewQuestions: Readonly<Record<string, string>> = {
  transfers: 'SELECT * FROM VIEW AS v ORDER BY slot, idx, ui_amount LIMIT 50',
  balance_changes: 'SELECT * FROM VIEW AS v ORDER BY pubkey, slot, idx, lamports LIMIT 200',
  fees_by_payer: 'SELECT * FROM VIEW AS v ORDER BY fees DESC, fee_payer LIMIT 20',
  tps_by_minute: 'SELECT * FROM VIEW AS v ORDER BY minute',
  contention_by_hour: 'SELECT * FROM VIEW AS v ORDER BY hour',
}

/** A deadline that ends no query before a wait for its end has failed. */
const limitless = { timeMs: 10 * hangMs }

export function describeQueryEngine(name: string, stage: EngineStage): void {
  describe(`${name} as an engine of queries`, () => {
    let engine: ReadEngine
    const endless = stage.endless ?? endlessJoin
    const run = (sql: string, options: AskOptions = {}): Promise<Asked> => ask(engine, sql, options)
    const fails = async (sql: string, options: AskOptions = {}) => {
      const { error } = await tryAsk(engine, sql, options)
      return error
    }

    beforeAll(async () => {
      engine = await stage.start([...makeRows(plan)])
      const isThere = async () => (await run('SELECT count() AS n FROM usage')).text.includes('20')
      await until(isThere, 'what was written is seen')
    })
    afterAll(() => stage.stop())

    test('names itself and its version', () => {
      expect(engine.name).toBe(name)
      expect(engine.version).toMatch(/\d+\.\d+/)
    })

    const few =
      "SELECT slot, idx, if(err = '', 1, 0) AS ok, fee, 'a\"b,\\tc' AS s, block_time FROM transactions " +
      `WHERE slot = ${firstSlot} AND idx IN (0, 1) ORDER BY idx`

    test('writes JSON with names, types and the number of rows', async () => {
      const { text, totals } = await run(few, { format: 'JSON' })
      const result = JSON.parse(text)
      const names = ['slot', 'idx', 'ok', 'fee', 's', 'block_time']
      expect(result.meta.map((column: { name: string }) => column.name)).toEqual(names)
      expect(result.meta[0].type).toBe('UInt64')
      expect(result.meta[1].type).toBe('UInt32')
      expect(result.meta[5].type).toMatch(/^DateTime/)
      expect(result.data[1]).toMatchObject({ slot: `${firstSlot}`, idx: 1, s: 'a"b,\tc' })
      expect(result.data[1].block_time).toBe('2026-01-05 00:00:00')
      expect(result.rows).toBe(2)
      expect(totals.rows).toBe(2)
      expect(totals.bytes).toBe(Buffer.byteLength(text))
    })

    test('writes every other format, the same rows in each', async () => {
      const rows = JSON.parse((await run(few, { format: 'JSONCompact' })).text).data
      const json = await run(few, { format: 'JSONEachRow' })
      const lines = json.text.trimEnd().split('\n')
      expect(lines.map((line) => Object.values(JSON.parse(line)))).toEqual(rows)
      expect(json.totals.rows).toBe(2)
      const tsv = rows.map((row: unknown[]) => row.map(escaped).join('\t')).join('\n')
      const head = 'slot\tidx\tok\tfee\ts\tblock_time'
      expect((await run(few, { format: 'TabSeparated' })).text).toBe(`${tsv}\n`)
      const named = await run(few, { format: 'TabSeparatedWithNames' })
      expect(named.text).toBe(`${head}\n${tsv}\n`)
      expect(named.totals.rows).toBe(2)
      const csv = await run(few, { format: 'CSV' })
      expect(csv.text.split('\n')[0]).toMatch(
        new RegExp(`^${firstSlot},0,[01],\\d+,"a""b,\\tc","2026-01-05 00:00:00"$`),
      )
      const headed = await run(few, { format: 'CSVWithNames' })
      expect(headed.text).toBe(`"${head.replaceAll('\t', '","')}"\n${csv.text}`)
      expect(headed.totals.rows).toBe(2)
    })

    test('writes JSONCompactEachRow and Parquet, or refuses them with UNKNOWN_FORMAT', async () => {
      for (const format of ['JSONCompactEachRow', 'Parquet'] as const) {
        if (stage.lacks.includes(format)) {
          expect(await fails(few, { format }), format).toMatchObject({ code: 73 })
          continue
        }
        const { bytes } = await run(few, { format })
        if (format === 'Parquet') expect(bytes.subarray(0, 4).toString()).toBe('PAR1')
        else expect(JSON.parse(bytes.toString().split('\n')[1]!)[1]).toBe(1)
      }
    })

    test('writes an empty result in every format', async () => {
      const none = 'SELECT slot FROM blocks WHERE slot = 0'
      expect((await run(none, { format: 'JSONEachRow' })).text).toBe('')
      expect((await run(none, { format: 'CSVWithNames' })).text).toBe('"slot"\n')
      const whole = JSON.parse((await run(none, { format: 'JSON' })).text)
      expect(whole).toMatchObject({ data: [], rows: 0 })
    })

    test('quotes 64-bit integers in JSON unless disabled, and keeps them exact', async () => {
      const big = 'SELECT max(lamports) AS top, count() AS n FROM account_updates'
      const quoted = await run(big, { format: 'JSONEachRow' })
      const plain = await run(big, { format: 'JSONEachRow', quotes64: false })
      expect(quoted.text).toMatch(/"top":"18446744073709551\d{3}","n":"12000"/)
      expect(plain.text).toMatch(/"top":18446744073709551\d{3},"n":12000/)
    })

    test('takes typed parameters as values and never as SQL', async () => {
      const hostile = 'it\'s \\ a "test"\n\'; DROP TABLE blocks; -- {x:String} é😀'
      const { text } = await run(
        `SELECT {u:UInt64} AS u, {i:Int32} AS i, {f:Float64} AS f, {s:String} AS s, {d:Date} AS d,
          {t:DateTime} AS t, {a:Array(String)} AS a, {n:Array(UInt32)} AS n`,
        {
          params: {
            u: '18446744073709551615',
            i: '-5',
            f: '0.25',
            s: hostile.replaceAll('\\', '\\\\'),
            d: '2026-02-03',
            t: '2026-02-03 04:05:06',
            a: "['x', 'it\\'s']",
            n: '[1, 2]',
          },
        },
      )
      expect(JSON.parse(text)).toEqual({
        u: '18446744073709551615',
        i: -5,
        f: 0.25,
        s: hostile,
        d: '2026-02-03',
        t: '2026-02-03 04:05:06',
        a: ['x', "it's"],
        n: [1, 2],
      })
      const counted = await run('SELECT slot FROM blocks ORDER BY slot LIMIT {n:UInt32}', {
        params: { n: '3' },
      })
      expect(counted.totals.rows).toBe(3)
      const none = await run('SELECT {x:Nullable(String)} AS x', { params: { x: '\\N' } })
      expect(JSON.parse(none.text)).toEqual({ x: null })
    })

    test('reads literals as clients of ClickHouse write them', async () => {
      const bound = (value: string) => `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
      const hostile = bound("x' OR 1=1 --")
      expect(hostile).toBe("'x\\' OR 1=1 --'")
      const all = 'SELECT slot FROM transactions WHERE fee_payer = '
      expect((await run(`${all}${hostile}`)).totals.rows).toBe(0)
      expect((await run(`${all}'' OR fee_payer <> ${hostile}`)).totals.rows).toBe(6_000)
      const { text } = await run(
        String.raw`SELECT 'a\tb' AS a, '\\d+' AS b, '\'' AS c, 'it''s' AS d, '\n\r\b\f\0' AS e,
          '\x41\xe2\x82\xac' AS f, ${bound("\\' -- /* // $$")} AS g, '//' AS h, "slot" AS i,
          ${'`slot`'} AS ${'`j k`'} FROM blocks ORDER BY slot LIMIT 1`,
      )
      expect(JSON.parse(text)).toEqual({
        ...{ a: 'a\tb', b: '\\d+', c: "'", d: "it's", e: '\n\r\b\f\0', f: 'A€' },
        ...{ g: "\\' -- /* // $$", h: '//', i: `${firstSlot}`, 'j k': `${firstSlot}` },
      })
    })

    test.each([
      ['SELEC 1 FROM', 62],
      ['SELECT slot FROM blocks WHERE', 62],
      ['SELECT 1 FROM nothing_of_that_name', 60],
      ['SELECT no_such_function(1)', 46],
      ['SELECT no_such_column FROM blocks', 47],
    ])('answers %s with code %i', async (text, code) => {
      const error = await fails(text)
      expect(error).toMatchObject({ code })
      expect(error?.message).not.toMatch(/_blocks|127\.0\.0\.1|\/tmp/)
    })

    test('refuses more rows than the limit, and cuts the result in overflow mode break', async () => {
      const all = 'SELECT slot, idx FROM transactions'
      expect(await fails(all, { limits: { rows: 100 } })).toMatchObject({ code: 158 })
      const limits = { rows: 100, overflow: 'break' } as const
      const { totals } = await run(all, { limits })
      expect(totals.rows).toBeGreaterThanOrEqual(100)
      expect(totals.rows).toBeLessThanOrEqual(100 + stage.breakSlack)
      const exact = await run(`${all} LIMIT 100`, { limits: { rows: 100 } })
      expect(exact.totals.rows).toBe(100)
    })

    test('ends a long result at the limit with whole rows followed by an error', async () => {
      const { text, error, totals } = await tryAsk(engine, long, { limits: { rows: 300_000 } })
      expect(error).toMatchObject({ code: 158 })
      expect(totals.rows).toBeLessThanOrEqual(300_000)
      // What came before the error are rows and nothing else.
      const lines = text.split('\n').slice(0, -1)
      expect(lines.every((line) => line.startsWith('{') && line.endsWith('}'))).toBe(true)
      expect(text.slice(-200)).not.toContain('Exception')
    })

    test('refuses more bytes than the limit', async () => {
      const error = await fails('SELECT * FROM transactions', { limits: { resultBytes: 50_000 } })
      expect([158, 396, 307]).toContain(error?.code)
    })

    test('ends a query at its deadline', async () => {
      const beganMs = performance.now()
      const limits = { timeMs: 700 }
      expect(await fails(endless, { limits, subscription: 'slow' })).toMatchObject({ code: 159 })
      expect(performance.now() - beganMs).toBeGreaterThanOrEqual(600)
      await until(async () => (await stage.busy()) === 0, 'it is no longer worked on')
    })

    test('ends a query that is cancelled, before and after it has begun to answer', async () => {
      const early = engine.run(querySource(endless, { subscription: 'early', limits: limitless }))
      await until(async () => (await stage.busy()) > 0, 'it is worked on')
      early.cancel()
      expect(await early.started).toMatchObject({ ok: false, error: { code: 394 } })
      const late = engine.run(querySource(long, { subscription: 'late', limits: limitless }))
      const outcome = await late.started
      if (!outcome.ok) throw new Error(outcome.error.message)
      for await (const _ of outcome.result.chunks) late.cancel()
      expect(outcome.result.failed()).toMatchObject({ code: 394 })
      await until(async () => (await stage.busy()) === 0, 'neither is worked on')
    })

    test('stops working when its reader turns away', async () => {
      const running = engine.run(querySource(long, { limits: limitless }))
      const outcome = await running.started
      if (!outcome.ok) throw new Error(outcome.error.message)
      for await (const _ of outcome.result.chunks) break
      await until(async () => (await stage.busy()) === 0, 'it is no longer worked on')
    })

    test('shows of usage the rows of the caller and no others', async () => {
      const seen = async (subscription: string) =>
        (await run('SELECT query_id FROM usage ORDER BY query_id', { subscription })).text
      const [alice, bob] = await Promise.all(subscriptions.map(seen))
      expect(alice!.trimEnd().split('\n')).toHaveLength(20)
      expect(bob!.trimEnd().split('\n')).toHaveLength(20)
      expect(new Set([...alice!.split('\n'), ...bob!.split('\n')].filter(Boolean)).size).toBe(40)
      expect(await seen('nobody')).toBe('')
      expect(await seen("' OR 1=1 --")).toBe('')
      expect(await fails('SELECT subscription FROM usage')).toMatchObject({ code: 47 })
    })

    test('lists only our tables in system.tables and system.columns', async () => {
      const { text } = await run(
        "SELECT DISTINCT table FROM system.columns WHERE database = 'chain' ORDER BY table",
      )
      const names = text.trimEnd().split('\n')
      expect(names).toHaveLength(20)
      expect(text).toContain('transactions')
      const all = (await run("SELECT name FROM system.tables WHERE database = 'chain'")).text
      expect(all).not.toMatch(/"_|settings|users/)
      const systems = (await run("SELECT name FROM system.tables WHERE database = 'system'")).text
      expect(systems).not.toMatch(/users|processes|query_log|duckdb/)
    })

    test('has comments and sizes of tables, and of usage no size', async () => {
      const one = async (sql: string) => JSON.parse((await run(sql)).text)
      const table = (name: string) =>
        one(
          `SELECT total_rows, comment FROM system.tables WHERE database = 'chain' AND name = '${name}'`,
        )
      const { total_rows, comment } = await table('transactions')
      // Rows that a server has not merged yet count twice.
      expect([6_000, 12_000]).toContain(Number(total_rows))
      expect(comment).toMatch(/^Transactions of confirmed blocks/)
      expect((await table('usage')).total_rows).toBeNull()
      expect((await table('transfers')).total_rows).toBeNull()
      const column = `SELECT comment FROM system.columns WHERE table = 'transactions' AND name = 'idx'`
      expect((await one(column)).comment).toBe(
        'Position of the transaction in its block, from 0 on',
      )
    })

    test('answers views as the queries that they stand for', async () => {
      const text = async (sql: string) => (await run(sql)).text
      for (const [view, sql] of Object.entries(viewQuestions)) {
        if (stage.lacks.includes(view)) continue
        const [seen, known] = [
          await text(sql.replace('VIEW', view)),
          await text(sql.replace(/VIEW/, `(${views[view]!.sql})`)),
        ]
        expect(seen.length, view).toBeGreaterThan(0)
        expect(seen, view).toBe(known)
      }
    })

    test('reads a view anywhere a table may be, whatever names the query defines', async () => {
      const count = async (sql: string) => Number(JSON.parse((await run(sql)).text).n)
      const payers = await count('SELECT uniqExact(fee_payer) AS n FROM transactions')
      const day = "SELECT count() AS n FROM fees_by_payer AS f WHERE f.day = '2026-01-05'"
      expect(await count(day)).toBe(payers)
      expect(await count(`SELECT count() AS n FROM chain.fees_by_payer`)).toBe(payers)
      expect(
        await count(
          'SELECT count() AS n FROM (SELECT DISTINCT fee_payer FROM transactions) AS t ' +
            'ALL INNER JOIN fees_by_payer USING fee_payer',
        ),
      ).toBe(payers)
      const hidden =
        'WITH transactions AS (SELECT 1 AS fee_payer) SELECT count() AS n FROM fees_by_payer'
      if (!stage.lacks.includes('WITH')) expect(await count(hidden)).toBe(payers)
      const failed = await count('SELECT sum(failed) AS n FROM fees_by_payer')
      expect(failed).toBe(await count('SELECT countIf(success = 0) AS n FROM transactions'))
      expect(failed).toBeGreaterThan(0)
    })

    test('gives a million rows in little memory to a reader that takes its time', async () => {
      const limits = { rows: 2_000_000, resultBytes: 2_000_000_000, timeMs: 120_000 }
      const running = engine.run(querySource(long, { limits }))
      const outcome = await running.started
      if (!outcome.ok) throw new Error(outcome.error.message)
      const before = process.memoryUsage().rss
      let peak = before
      let pauses = 0
      for await (const _ of outcome.result.chunks) {
        peak = Math.max(peak, process.memoryUsage().rss)
        if (pauses++ < 100) await sleep(5)
      }
      expect(outcome.result.failed()).toBeNull()
      expect(outcome.result.totals().rows).toBe(6_000 * 180)
      expect(outcome.result.totals().bytes).toBeGreaterThan(100_000_000)
      expect(peak - before).toBeLessThan(150 * 1024 * 1024)
    })

    function querySource(text: string, options: AskOptions = {}) {
      return queryOf(engine, text, options)
    }
  })
}

function escaped(value: unknown): string {
  return String(value).replaceAll('\t', '\\t')
}
