// The indexer's endpoint over a scripted engine: HTTP of ClickHouse, and nothing else.
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { compressZstd, decompressZstd } from '../../src/base/zstd.ts'
import { type Asked, IndexerStage, planLimits } from '../testkit/indexer-stage.ts'
import { rawGet } from '../testkit/raw-get.ts'

const { queries: _queries, queued: _queued, queueMs: _queueMs, ...limits } = planLimits
const stage = new IndexerStage({ plain: { creditsPerSecond: 0 } })

beforeAll(() => stage.open())
afterAll(() => stage.bundle.dispose())

describe('what is open without credentials', () => {
  it('answers GET / without a query and /ping with Ok.', async () => {
    for (const path of ['/', '/ping', '/?database=x']) {
      const answer = await fetch(`${stage.url}${path}`)
      expect([answer.status, await answer.text()]).toEqual([200, 'Ok.\n'])
      expect((await fetch(`${stage.url}${path}`, { method: 'HEAD' })).status).toBe(200)
    }
  })

  it('serves a page that may run its own script and talk to this endpoint alone', async () => {
    const answer = await fetch(`${stage.url}/play`)
    const policy = answer.headers.get('content-security-policy') ?? ''
    expect(answer.headers.get('content-type')).toBe('text/html; charset=UTF-8')
    expect(policy).toMatch(/^default-src 'none'; script-src 'sha256-[\w+/=]+'; style-src 'sha256-/)
    expect(policy).toContain("connect-src 'self'")
    const page = await answer.text()
    expect(page).not.toMatch(/(src|href)="(?!data:|#)|https?:|innerHTML|@import/)
  })
})

describe('a query', () => {
  it('is in the URL, in the body, or in both', async () => {
    for (const asked of [
      { query: { query: 'SELECT rows 2' } },
      { body: 'SELECT rows 2' },
      { body: 'rows 2', query: { query: 'SELECT' } },
      { body: '', query: { query: 'SELECT rows 2' } },
      { body: gzipSync('SELECT rows 2'), headers: { 'content-encoding': 'gzip' } },
      { body: 'SELECT rows 2', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    ])
      expect((await stage.ask(asked)).text).toBe('0\trow 0\n1\trow 1\n')
    expect(stage.engine.queries.at(-3)?.statement.texts).toEqual(['SELECT rows 2'])
  })

  it('is answered in the format of FORMAT, else of the header or default_format', async () => {
    const format = async (asked: Asked) =>
      (await stage.ask(asked)).headers.get('x-clickhouse-format')
    expect(await format({ body: 'SELECT 1' })).toBe('TabSeparated')
    expect(await format({ body: 'SELECT 1', query: { default_format: 'CSV' } })).toBe('CSV')
    const headers = { 'x-clickhouse-format': 'JSON' }
    expect(await format({ body: 'SELECT 1', headers })).toBe('JSON')
    expect(await format({ body: 'SELECT 1 FORMAT JSONEachRow;', headers })).toBe('JSONEachRow')
    expect(await format({ body: 'SELECT 1 FORMAT tsvWithNames' })).toBe('TabSeparatedWithNames')
    expect(await stage.code({ body: 'SELECT 1 FORMAT Avro' })).toEqual([400, 73, 'UNKNOWN_FORMAT'])
  })

  it('is answered with the headers of ClickHouse, and how fresh the rows are', async () => {
    const query = { query_id: 'mine', default_format: 'JSON' }
    const { headers } = await stage.ask({ body: 'SELECT rows 3', query })
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-type': 'application/json; charset=UTF-8',
      'x-clickhouse-query-id': 'mine',
      'x-clickhouse-format': 'JSON',
      'x-clickhouse-timezone': 'UTC',
      'x-clickhouse-server-display-name': 'sluice',
      'x-sluice-engine': 'duckdb 0.0.1',
      'x-sluice-last-slot': '7',
      'x-sluice-last-block': '9',
      'x-sluice-last-slot-age-ms': '12',
    })
    const summary = JSON.parse(headers.get('x-clickhouse-summary') ?? '')
    expect(summary).toMatchObject({ result_rows: '3', written_rows: '0' })
    expect(Number(summary.elapsed_ns)).toBeGreaterThan(0)
  })

  it('takes typed parameters from the URL and from a form', async () => {
    const { text } = await stage.ask({
      body: 'SELECT {a:UInt8}, {b:Array(String)}',
      query: { param_a: '7', param_b: "['x']" },
    })
    expect(text).toContain('SELECT ?, ?')
    const [value] = stage.engine.queries.at(-1)?.statement.values ?? []
    expect(value).toMatchObject({ type: 'UInt8', value: '7' })
    const form = new FormData()
    form.set('query', 'SELECT {a:String}')
    form.set('param_a', 'line\r\n--x')
    const answer = await fetch(stage.url, {
      method: 'POST',
      headers: stage.credentials,
      body: form,
    })
    expect(answer.status).toBe(200)
    expect(stage.engine.queries.at(-1)?.statement.values[0]?.value).toBe('line\r\n--x')
  })

  it('gets its limits from the plan, and lower ones from its settings', async () => {
    const as = stage.issue({ plan: 'plain' })
    await stage.ask({ body: 'SELECT 1', as })
    expect(stage.engine.queries.at(-1)?.limits).toEqual({ ...limits, overflow: 'throw' })
    const query = { max_execution_time: '600', max_result_rows: '10', readonly: '2' }
    await stage.ask({
      as,
      query,
      body: "SELECT 1 SETTINGS max_execution_time = 0.5, result_overflow_mode = 'break'",
    })
    expect(stage.engine.queries.at(-1)?.limits).toEqual({
      ...limits,
      timeMs: 500,
      rows: 10,
      overflow: 'break',
    })
    const quoted = { output_format_json_quote_64bit_integers: '0' }
    await stage.ask({ body: 'SELECT 1', query: quoted })
    expect(stage.engine.queries.at(-1)?.output.quotes64).toBe(false)
  })

  it('is compressed only with enable_http_compression and a supported Accept-Encoding', async () => {
    const query = { enable_http_compression: '1' }
    const packed = await fetch(`${stage.url}/?${new URLSearchParams(query)}`, {
      method: 'POST',
      headers: { ...stage.credentials, 'accept-encoding': 'gzip' },
      body: 'SELECT rows 500000',
    })
    expect(packed.headers.get('content-encoding')).toBe('gzip')
    expect((await packed.text()).endsWith('499999\trow 499999\n')).toBe(true)
    const plain = await stage.ask({
      body: 'SELECT rows 3000',
      headers: { 'accept-encoding': 'gzip' },
    })
    expect(plain.headers.get('content-encoding')).toBeNull()
    const none = await stage.ask({
      body: 'SELECT rows 3000',
      query,
      headers: { 'accept-encoding': 'lz4' },
    })
    expect(none.headers.get('content-encoding')).toBeNull()
    for (const coding of ['gzip', 'deflate', 'br']) {
      const headers = { 'accept-encoding': coding }
      const small = await stage.ask({ body: 'SELECT rows 1', query, headers })
      expect([small.headers.get('content-encoding'), small.text]).toEqual([coding, '0\trow 0\n'])
      const wrong = await stage.ask({ body: 'foobar', query, headers })
      expect(wrong.headers.get('content-encoding')).toBe(coding)
      expect(wrong.text).toContain('Code: 62.')
    }
  })

  it('is compressed with zstd where the client accepts nothing better', async () => {
    const ask = async (body: string, accepted: string) => {
      // Not `fetch`: from Node 24 on it decodes zstd.
      const query = new URLSearchParams({ enable_http_compression: '1', query: body })
      const headers = { ...stage.credentials, 'accept-encoding': accepted }
      const answer = await rawGet(`${stage.url}/?${query}`, headers)
      return { coding: answer.headers['content-encoding'], bytes: answer.body }
    }
    const small = await ask('SELECT rows 1', 'lz4,zstd')
    expect(small.coding).toBe('zstd')
    expect(decompressZstd(small.bytes, 1_000).toString()).toBe('0\trow 0\n')
    const long = await ask('SELECT rows 100000', 'zstd')
    const text = decompressZstd(long.bytes, 4_000_000).toString()
    expect(long.bytes.length).toBeLessThan(text.length / 2)
    expect(text.split('\n').length).toBe(100_001)
    expect(text.endsWith('99999\trow 99999\n')).toBe(true)
    const both = await ask('SELECT rows 1', 'zstd, gzip')
    expect(both.coding).toBe('gzip')
  })

  it('may be compressed with zstd itself', async () => {
    const headers = { 'content-encoding': 'zstd' }
    const body = compressZstd(Buffer.from('SELECT rows 1'))
    expect((await stage.ask({ body, headers })).text).toBe('0\trow 0\n')
    const bomb = compressZstd(Buffer.alloc(4_000_000))
    for (const wrong of [bomb, 'SELECT 1', body.subarray(0, -2)])
      expect((await stage.code({ body: wrong, headers }))[0]).toBe(400)
  })

  it('has one progress header, with the figures of its first byte, when it asks for it', async () => {
    const query = { send_progress_in_http_headers: '1', http_headers_progress_interval_ms: '1' }
    const { headers } = await stage.ask({ body: 'SELECT rows 3', query })
    const progress = JSON.parse(headers.get('x-clickhouse-progress')!) as Record<string, string>
    expect(progress).toMatchObject({ result_rows: '3', written_rows: '0' })
    expect(progress).not.toHaveProperty('read_rows')
    const streamed = await stage.ask({ body: 'SELECT rows 100000', query })
    const early = JSON.parse(streamed.headers.get('x-clickhouse-progress')!) as typeof progress
    expect(Number(early.result_rows)).toBeGreaterThan(0)
    expect(Number(early.result_rows)).toBeLessThan(100_000)
    const plain = await stage.ask({ body: 'SELECT rows 3' })
    expect(plain.headers.get('x-clickhouse-progress')).toBeNull()
  })
})

describe('a page of another origin', () => {
  const origin = 'https://app.example.com'

  it('is let in where indexer.cors lists it', async () => {
    const preflight = await stage.ask({ method: 'OPTIONS', headers: { origin }, as: {} })
    expect(preflight.status).toBe(204)
    expect(preflight.headers.get('access-control-allow-origin')).toBe(origin)
    expect(preflight.headers.get('access-control-allow-headers')).toContain('x-token')
    for (const asked of [{ body: 'SELECT 1' }, { body: 'SELECT fail 62' }, { path: '/ping' }]) {
      const { headers } = await stage.ask({ ...asked, headers: { origin } })
      expect(headers.get('access-control-allow-origin')).toBe(origin)
      expect(headers.get('access-control-expose-headers')).toContain('x-clickhouse-query-id')
    }
    const unknown = await stage.ask({ body: 'SELECT 1', headers: { origin }, as: {} })
    expect([unknown.status, unknown.headers.get('access-control-allow-origin')]).toEqual([
      401,
      origin,
    ])
  })

  it('is not let in otherwise', async () => {
    const headers = { origin: 'https://other.example.com' }
    expect((await stage.ask({ method: 'OPTIONS', headers })).status).toBe(405)
    const answer = await stage.ask({ body: 'SELECT 1', headers })
    expect(answer.headers.get('access-control-allow-origin')).toBeNull()
  })
})

describe('an error', () => {
  it('has the status of its code', async () => {
    expect(await stage.code({ body: 'SELECT fail 62' })).toEqual([400, 62, 'SYNTAX_ERROR'])
    expect(await stage.code({ body: 'SELECT fail 60' })).toEqual([400, 60, 'UNKNOWN_TABLE'])
    expect(await stage.code({ body: 'SELECT fail 158' })).toEqual([400, 158, 'TOO_MANY_ROWS'])
    expect(await stage.code({ body: 'SELECT fail 241' })).toEqual([
      400,
      241,
      'MEMORY_LIMIT_EXCEEDED',
    ])
    expect(await stage.code({ body: 'SELECT fail 159' })).toEqual([408, 159, 'TIMEOUT_EXCEEDED'])
    expect(await stage.code({ body: 'INSERT INTO blocks VALUES (1)' })).toEqual([
      403,
      164,
      'READONLY',
    ])
    expect(await stage.code({ body: 'SELECT 1; SELECT 2' })).toEqual([400, 62, 'SYNTAX_ERROR'])
    expect(await stage.code({ body: '' })).toEqual([400, 62, 'SYNTAX_ERROR'])
    expect(await stage.code({ query: { query: 'DROP TABLE x' } })).toEqual([403, 164, 'READONLY'])
  })

  it('reports what is wrong with parameters and settings', async () => {
    const body = 'SELECT {a:UInt8}'
    expect(await stage.code({ body })).toEqual([400, 456, 'UNKNOWN_QUERY_PARAMETER'])
    const query = { param_a: 'x' }
    expect(await stage.code({ body, query })).toEqual([400, 457, 'BAD_QUERY_PARAMETER'])
    for (const [name, value, ...expected] of [
      ['allow_ddl', '1', 400, 115, 'UNKNOWN_SETTING'],
      ['max_execution_time', 'soon', 400, 36, 'BAD_ARGUMENTS'],
      ['result_overflow_mode', 'any', 400, 36, 'BAD_ARGUMENTS'],
      ['compress', '1', 501, 48, 'NOT_IMPLEMENTED'],
      ['session_check', '1', 400, 372, 'SESSION_NOT_FOUND'],
      ['limit', 'x', 400, 36, 'BAD_ARGUMENTS'],
      ['profile', 'web', 400, 180, 'THERE_IS_NO_PROFILE'],
      ['additional_table_filters', "{'t':'1'}", 501, 48, 'NOT_IMPLEMENTED'],
      ['group_by_use_nulls', '1', 501, 48, 'NOT_IMPLEMENTED'],
      ['output_format_schema', '/tmp/x', 400, 115, 'UNKNOWN_SETTING'],
      ['role', 'admin', 400, 511, 'UNKNOWN_ROLE'],
      ['database', 'other', 400, 81, 'UNKNOWN_DATABASE'],
      ['query_id', 'a\nb', 400, 36, 'BAD_ARGUMENTS'],
    ] as const)
      expect(await stage.code({ body: 'SELECT 1', query: { [name]: value } })).toEqual(expected)
    const twice = await fetch(`${stage.url}/?query_id=a&query_id=b`, {
      method: 'POST',
      headers: stage.credentials,
      body: 'SELECT 1',
    })
    expect(twice.status).toBe(400)
  })

  it('ignores what tools set without a reason', async () => {
    const query = {
      readonly: '1',
      session_id: 'x',
      session_timeout: '60',
      send_progress_in_http_headers: '1',
      cancel_http_readonly_queries_on_client_close: '1',
      max_rows_to_read: '1000000',
      compress: '0',
      log_comment: 'x',
      database: 'default',
    }
    expect((await stage.ask({ body: 'SELECT 1', query })).status).toBe(200)
  })

  it('refuses paths, verbs, codings and lengths that are none', async () => {
    expect(await stage.code({ path: '/other', body: 'SELECT 1' })).toEqual([
      404,
      36,
      'BAD_ARGUMENTS',
    ])
    expect(await stage.code({ method: 'PUT', body: 'SELECT 1' })).toEqual([
      405,
      36,
      'BAD_ARGUMENTS',
    ])
    const lz4 = { 'content-encoding': 'lz4' }
    expect((await stage.code({ body: 'SELECT 1', headers: lz4 }))[0]).toBe(415)
    const broken = { 'content-encoding': 'gzip' }
    expect((await stage.code({ body: 'SELECT 1', headers: broken }))[0]).toBe(400)
    const bomb = gzipSync(Buffer.alloc(4_000_000))
    expect((await stage.code({ body: bomb, headers: broken }))[0]).toBe(400)
    expect((await stage.code({ body: 'x'.repeat(1_100_000) }))[0]).toBe(413)
    const insert = { query: 'INSERT INTO blocks FORMAT CSV' }
    for (const length of [10, 1_100_000])
      expect((await stage.code({ query: insert, body: 'x'.repeat(length) }))[0]).toBe(403)
    expect((await stage.code({ body: `SELECT '${'x'.repeat(300_000)}'` })).slice(1, 2)).toEqual([
      62,
    ])
    expect((await stage.code({ body: Buffer.from("SELECT '\xff'", 'latin1') }))[0]).toBe(400)
  })

  it('follows the rows when the answer had begun', async () => {
    const { status, headers, text } = await stage.ask({
      body: 'SELECT late 100000',
      query: { default_format: 'JSONEachRow' },
    })
    const tag = headers.get('x-clickhouse-exception-tag')
    const sentence = 'Code: 159. DB::Exception: Too slow. (TIMEOUT_EXCEEDED)\n'
    expect(status).toBe(200)
    expect(text.split('\n').length).toBeGreaterThan(100_000)
    expect(
      text.endsWith(
        `\r\n__exception__\r\n${tag}\n${sentence}${sentence.length} ${tag}\r\n__exception__\r\n`,
      ),
    ).toBe(true)
  })

  it('has an error status while the answer is buffered', async () => {
    expect(await stage.code({ body: 'SELECT late 5' })).toEqual([408, 159, 'TIMEOUT_EXCEEDED'])
    const query = { wait_end_of_query: '1' }
    expect((await stage.code({ body: 'SELECT late 100000', query }))[0]).toBe(408)
    expect((await stage.code({ body: 'SELECT late 50000 FORMAT JSONCompact' }))[0]).toBe(408)
  })
})

describe('the first queries of tools', () => {
  it('lists databases, tables and columns', async () => {
    const text = async (body: string) => (await stage.ask({ body })).text
    expect(await text('SHOW DATABASES')).toBe('chain\ninformation_schema\nsystem\n')
    expect(await text("SHOW TABLES LIKE 'block%'")).toBe('block_lifecycle\nblocks\n')
    expect(await text("SHOW TABLES FROM chain NOT LIKE '%_%' LIMIT 1")).toBe('')
    const system = 'columns databases formats functions numbers one settings tables zeros'
    expect(await text('SHOW TABLES FROM system')).toBe(`${system.replaceAll(' ', '\n')}\n`)
    expect((await stage.ask({ body: 'SHOW TABLES', query: { database: 'system' } })).text).toBe(
      `${system.replaceAll(' ', '\n')}\n`,
    )
    expect(await text('EXISTS INFORMATION_SCHEMA.COLUMNS')).toBe('1\n')
    expect(await text('DESCRIBE TABLE chain.tps')).toBe(
      'seq\tUInt64\t\t\tNumber of the event in the log\n' +
        'block_number\tUInt64\t\t\tNumber of the block\n' +
        'tps\tUInt64\t\t\tTransactions of the last 2.5 blocks, about one second\n' +
        'at\tNullable(DateTime64(9))\t\t\tWhen it happened, by the source; of rows of earlier ' +
        'versions when their block began\n',
    )
    expect(await text('DESC usage')).not.toContain('subscription')
    expect(await text('EXISTS TABLE blocks')).toBe('1\n')
    expect(await text('EXISTS other')).toBe('0\n')
    expect(await text('SHOW CREATE TABLE `tps`')).toContain('CREATE TABLE chain.tps')
    expect(await text('SHOW CREATE VIEW transfers')).toContain('CREATE VIEW chain.transfers')
    expect(await text('EXISTS VIEW transfers')).toBe('1\n')
    expect(await text('EXISTS VIEW blocks')).toBe('0\n')
    expect(await text('EXISTS TABLE transfers')).toBe('1\n')
    expect(await stage.code({ body: 'DESCRIBE other' })).toEqual([400, 60, 'UNKNOWN_TABLE'])
    expect((await stage.ask({ body: 'USE chain' })).status).toBe(200)
    const json = JSON.parse(await text('SHOW DATABASES FORMAT JSON'))
    expect(json).toMatchObject({
      meta: [{ name: 'name', type: 'String' }],
      data: [{ name: 'chain' }, { name: 'information_schema' }, { name: 'system' }],
      rows: 3,
    })
  })
})
