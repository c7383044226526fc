// Rows on a real ClickHouse server: exact, once per key, durable, dropped by age.
import { once } from 'node:events'
import * as http from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Fault } from '../../src/base/errors.ts'
import { openClickhouseSink } from '../../src/indexer/clickhouse-server/sink.ts'
import type { Cell, Delivery, RowBatch, RowSink } from '../../src/indexer/engine.ts'
import { type Table, type TableName, tableNames, tables } from '../../src/indexer/tables.ts'
import { IndexWriter, type SinkConfig } from '../../src/indexer/writer.ts'
import {
  type ClickhouseServer,
  hasClickhouseServer,
  startClickhouseServer,
} from '../testkit/clickhouse-server.ts'
import { makeRows } from '../testkit/generated-rows.ts'
import { until } from '../testkit/until.ts'

const config: SinkConfig = {
  ...{ engine: 'clickhouse', folder: '', url: '', retentionDays: 30, retentionBytes: 1e9 },
  clickhouse: { insertMs: 50, insertRows: 20_000 },
  holder: 'test',
}

function tpsDelivery(seq: number): Delivery {
  const content = { seq, kind: 'TPS' as const, payload: Buffer.from('1'), facts: null }
  const parcel = { feed: 'events' as const, content, bytes: 1, sinceMs: 0, mark: seq }
  return { parcels: [parcel], marks: { events: seq } }
}

const plan = { seed: 7, slots: 20, transactionsPerSlot: 30, blocks: 20, tips: 50, usage: 20 }

describe.skipIf(!hasClickhouseServer())('ClickHouse sink (skipped: no clickhouse-server)', () => {
  let server: ClickhouseServer
  let sink: RowSink
  let parts: Readonly<Record<string, number>> = {}
  const events = {
    failed() {},
    parts(counts: typeof parts) {
      parts = counts
    },
  }
  const open = () => openClickhouseSink(server.url, { retentionDays: 30, holder: 'test', events })
  const count = async (table: string) => Number(await server.ask(`SELECT count() FROM ${table}`))

  beforeAll(async () => {
    server = await startClickhouseServer()
    sink = await open()
  })
  afterAll(async () => {
    await sink?.stop()
    await server?.stop()
  })

  test('opens where the bytes of its first connection vanish', async () => {
    let count = 0
    const relay = createServer((near) => {
      near.on('error', () => {})
      if (count++ === 0) return near.resume()
      const far = connect(Number(new URL(server.url).port), '127.0.0.1')
      far.on('error', () => near.destroy())
      return near.pipe(far).pipe(near)
    })
    relay.listen(0, '127.0.0.1')
    await once(relay, 'listening')
    // Reason for the cast: it listens on a port.
    const { port } = relay.address() as AddressInfo
    const url = new URL(server.url)
    url.port = String(port)
    const beyond = { retentionDays: 30, holder: 'test', events }
    const other = await openClickhouseSink(url.href, beyond)
    await other.stop()
    relay.close()
    expect(count).toBeGreaterThan(1)
  })

  test('stores every table as it was written, each key once', async () => {
    const batches = [...makeRows(plan)]
    await sink.write(batches, { slots: 100, events: 2_000 })
    await sink.write(batches, { slots: 101 })
    for (const table of tableNames) {
      const rows = batches.filter((batch) => batch.table === table)
      expect(rows.length, table).toBeGreaterThan(0)
      const source = table === 'usage' ? 'chain._usage FINAL' : `chain.${table}`
      expect(await count(source), table).toBe(rows.reduce((sum, batch) => sum + batch.count, 0))
    }
    expect(await sink.marks()).toEqual({ slots: 101, events: 2_000 })
  })

  test('stores 64-bit integers, times and strings exactly', async () => {
    const row: Record<string, Cell> = {
      slot: 18_446_744_073_709_551_615n,
      idx: 4_294_967_295,
      signature: 'q"uo\\te\n\t\u0000é😀',
      fee_payer: '\ud800 half a pair \udc00\udc01, \\ud800 written out',
      success: 1,
      err: "it's",
      fee: 9_007_199_254_740_993n,
      compute_units: 0,
      version: -1,
      block_time: 1_700_000_001,
    }
    await sink.write([batchOf('transactions', row)], {})
    const found = JSON.parse(
      await server.ask(
        `SELECT * FROM chain.transactions WHERE slot = ${row.slot} FORMAT JSONEachRow`,
      ),
    )
    expect(found).toEqual({
      ...row,
      slot: '18446744073709551615',
      fee_payer: '\ufffd half a pair \ufffd\ufffd, \\ud800 written out',
      fee: '9007199254740993',
      compute_units: '0',
      block_time: '2023-11-14 22:13:21',
    })
  })

  test('shows every outcome of a tip, in its last version', async () => {
    const row: Record<string, Cell> = {
      received_at: 1_700_000_000_123,
      signature: 's',
      fee_payer: 'p',
      tip_account: 't',
      lamports: 1n,
      outcome: 'forwarded',
      reason: '',
      landed_slot: 0,
    }
    await sink.write([batchOf('tips', row)], {})
    await sink.write([batchOf('tips', { ...row, outcome: 'landed', landed_slot: 9 })], {})
    await sink.write([batchOf('tips', { ...row, outcome: 'landed', landed_slot: 10 })], {})
    const seen = await server.ask(
      "SELECT outcome, landed_slot FROM chain.tips WHERE signature = 's' ORDER BY landed_slot",
    )
    expect(seen).toBe('forwarded\t0\nlanded\t10\n')
  })

  test('accepts more rows than one insert takes', async () => {
    const slots = Array.from({ length: 230_000 }, (_, n) => 1_000_000 + n)
    const columns = [slots, slots, slots, slots]
    await sink.write([{ table: 'tps', count: slots.length, columns }], {})
    expect(await count('chain.tps WHERE seq >= 1000000')).toBe(230_000)
  })

  test('has an acknowledged write after the server was killed, and retries while it is down', async () => {
    await sink.write([batchOf('tps', { seq: 9_000_001, block_number: 1, tps: 1 })], { events: 5 })
    await server.kill()
    const writer = new IndexWriter(async () => sink, { ...events, wrote() {} })
    await server.restart()
    await writer.open(config)
    await server.kill()
    const late = writer.take(tpsDelivery(9_000_002))
    await server.restart()
    expect(await late).toEqual({ isWritten: true })
    expect(await count('chain.tps WHERE seq > 9000000')).toBe(2)
    expect((await sink.marks()).events).toBe(9_000_002)
  })

  test('rejects a write that cannot be done with a Fault', async () => {
    const own = await open()
    await server.ask('RENAME TABLE chain._tps TO chain._away')
    const wrong = own.write([batchOf('tps', { seq: 1, block_number: 1, tps: 1 })], {})
    await expect(wrong).rejects.toMatchObject({ name: 'Fault', retryable: false })
    await server.ask('RENAME TABLE chain._away TO chain._tps')
    await server.kill()
    const away = own.write([batchOf('tps', { seq: 1, block_number: 1, tps: 1 })], {})
    const fault = await away.catch((error: unknown) => error)
    expect(fault).toBeInstanceOf(Fault)
    expect(fault).toMatchObject({ retryable: true })
    expect(String(fault)).not.toContain('127.0.0.1')
    expect(String(fault)).not.toContain(server.password)
    await own.stop()
    await server.restart()
  })

  test('repeats a write while a proxy answers for the server, and while its disk is full', async () => {
    const full = 'Cannot write to file /data/x.bin, errno: 28, strerror: No space left on device'
    const answers: [status: number, text: string][] = [
      [502, '<html>Bad Gateway</html>'],
      [
        500,
        `Code: 75, e.displayText() = DB::ErrnoException: ${full}, e.what() = DB::ErrnoException`,
      ],
      [500, 'Code: 999. Coordination::Exception: Connection loss. (KEEPER_EXCEPTION)'],
    ]
    const inserts: URLSearchParams[] = []
    const relay = http.createServer((asked, answer) => {
      const { searchParams } = new URL(asked.url!, server.url)
      if (searchParams.get('query')?.startsWith('INSERT') === true) inserts.push(searchParams)
      const isRow = asked.url?.includes('INSERT+INTO+chain._tps') === true
      const [status, text] = (isRow && answers.shift()) || []
      if (status !== undefined)
        return asked.resume().on('end', () => answer.writeHead(status).end(text))
      const { method, url: path, headers } = asked
      const port = new URL(server.url).port
      const far = http.request({ host: '127.0.0.1', port, method, path, headers }, (given) => {
        answer.writeHead(given.statusCode!, given.headers)
        given.pipe(answer)
      })
      far.on('error', () => answer.destroy())
      return asked.pipe(far)
    })
    relay.listen(0, '127.0.0.1')
    await once(relay, 'listening')
    const url = new URL(server.url)
    // Reason for the cast: it listens on a port.
    url.port = String((relay.address() as AddressInfo).port)
    const own = await openClickhouseSink(url.href, { retentionDays: 30, holder: 'test', events })
    const failures: string[] = []
    const failed = (message: string) => void failures.push(message)
    const writer = new IndexWriter(async () => own, { ...events, failed, wrote() {} })
    await writer.open(config)
    expect(await writer.take(tpsDelivery(9_000_010))).toEqual({ isWritten: true })
    expect(failures.join()).toMatch(/^ClickHouse cannot be reached.* 502.* 75 .* 999 /)
    expect(await count('chain.tps WHERE seq = 9000010')).toBe(1)
    // A table that drops blocks that it had would drop rows that were deleted and come again.
    expect(inserts.length).toBeGreaterThan(answers.length)
    for (const params of inserts) expect(params.get('insert_deduplicate')).toBe('0')
    await writer.stop()
    relay.close()
  })

  test('cuts the slots of a chain that restarted, and no others', async () => {
    const row = { parent_slot: 1, blockhash: 'h', height: 1, block_time: 1, tx_count: 0 }
    for (const slot of [500, 501, 502])
      await sink.write([batchOf('blocks', { ...row, slot })], { slots: 502 })
    await sink.cut(501, 600)
    expect(await count('chain.blocks WHERE slot >= 500 AND slot <= 600')).toBe(1)
    expect((await sink.marks()).slots).toBe(500)
    await sink.write([batchOf('blocks', { ...row, slot: 501 })], { slots: 501 })
    expect(await count('chain.blocks WHERE slot >= 500 AND slot <= 600')).toBe(2)
  })

  test('deletes what a writer before it wrote beyond its mark, and reports parts', async () => {
    const row = { parent_slot: 1, blockhash: 'h', height: 1, block_time: 1, tx_count: 0 }
    await sink.write([batchOf('blocks', { ...row, slot: 700 })], { slots: 700 })
    await sink.stop()
    // Another one was killed between the rows of slot 701 and their mark.
    await server.ask("INSERT INTO chain._lease SELECT 'dead', 'other', now() - 3600, 0")
    await server.ask("INSERT INTO chain._blocks VALUES (701, 1, 'h', 1, 1, 0)")
    await server.ask(
      "INSERT INTO chain._account_updates VALUES (701, 0, 'key', 'owner', 1, 0, 4242, NULL)",
    )
    parts = {}
    sink = await open()
    expect(await count('chain.blocks WHERE slot >= 700 AND slot <= 701')).toBe(1)
    expect(await count('chain.account_updates WHERE slot = 701')).toBe(0)
    expect((await sink.marks()).slots).toBe(700)
    await until(() => (parts.blocks ?? 0) > 0, 'the count of parts')
    // What a writer that stopped in order left stays.
    await sink.stop()
    await server.ask("INSERT INTO chain._blocks VALUES (701, 1, 'h', 1, 1, 0)")
    sink = await open()
    expect(await count('chain.blocks WHERE slot = 701')).toBe(1)
    await sink.cut(701, 701)
    expect(Object.keys(parts).every((name) => tableNames.includes(name as TableName))).toBe(true)
  })

  test('adds a column that an older table lacks', async () => {
    await sink.stop()
    await server.ask('ALTER TABLE chain._blocks DROP COLUMN tx_count')
    await server.ask('DROP TABLE chain.blocks')
    sink = await open()
    expect(await server.ask('SELECT tx_count FROM chain.blocks WHERE slot = 500')).toBe('0\n')
  })

  test('gives rows of an older table the time of their block, once, and resumes', async () => {
    await sink.stop()
    for (const slot of [80_001, 80_002, 80_400, 81_000]) {
      const time = 1_700_000_000 + slot
      await server.ask(
        `INSERT INTO chain._instructions VALUES (${slot}, 0, 0, -1, 's', 'p', [], '', NULL)`,
      )
      // The block of the second one is missing.
      if (slot !== 80_002)
        await server.ask(`INSERT INTO chain._blocks VALUES (${slot}, 1, 'h', 1, ${time}, 0)`)
    }
    const started = '1700000000123456789'
    await server.ask(
      `INSERT INTO chain._execution_blocks VALUES (95000001, '0x1', '', 1, 1, ${started})`,
    )
    await server.ask('INSERT INTO chain._tps VALUES (95000001, 95000001, 7, NULL)')
    // As a start before this one left it: the first range is done.
    await server.ask("INSERT INTO chain._marks VALUES ('time of instructions', 80001, 1)")
    sink = await open()
    const times = () =>
      server.ask(
        'SELECT toUInt32(block_time) FROM chain.instructions WHERE slot > 80000 ORDER BY slot',
      )
    const isFilled = async () => (await times()).includes(String(1_700_000_000 + 81_000))
    await until(isFilled, 'times of the old rows')
    expect((await times()).trimEnd().split('\n')).toEqual([
      ...['\\N', '\\N'],
      ...[80_400, 81_000].map((slot) => String(1_700_000_000 + slot)),
    ])
    const tps = 'SELECT toUInt32(at) FROM chain.tps WHERE seq = 95000001'
    await until(async () => (await server.ask(tps)) === '1700000000\n', 'the time of an event')
    const mark = "SELECT max(mark) FROM chain._marks WHERE feed = 'time of instructions'"
    expect(Number(await server.ask(mark))).toBeGreaterThanOrEqual(81_000)
    expect(await count('chain.instructions WHERE slot > 80000')).toBe(4)
    // Marks of times are no marks of feeds.
    expect(Object.keys(await sink.marks()).every((feed) => !feed.startsWith('time'))).toBe(true)
  })

  test('keeps the rows of a table with the key of an earlier version', async () => {
    const tip = { received_at: 1_000, signature: 'old', fee_payer: 'p', tip_account: 'a' }
    const before = await count('chain.tips')
    const rest = { lamports: 1, reason: '', landed_slot: 0 }
    const landed = batchOf('tips', { ...tip, ...rest, outcome: 'landed' })
    const key = "SELECT sorting_key FROM system.tables WHERE database = 'chain' AND name = '_tips'"
    await sink.stop()
    for (const state of ['of an earlier version', 'after a crash in the copy']) {
      // The table as version 0.2.0 created it.
      await server.ask(
        `CREATE TABLE chain._tips_old AS chain._tips ENGINE = ReplacingMergeTree()
          PARTITION BY toYYYYMMDD(toDateTime(intDiv(received_at, 1000), 'UTC'))
          ORDER BY (received_at, signature)`,
      )
      await server.ask('INSERT INTO chain._tips_old SELECT * FROM chain._tips')
      await server.ask(
        "INSERT INTO chain._tips_old VALUES (1000, 'old', 'p', 'a', 1, 'expired', '', 0)",
      )
      if (state === 'of an earlier version') {
        await server.ask('DROP TABLE chain._tips')
        await server.ask('RENAME TABLE chain._tips_old TO chain._tips')
      }
      sink = await open()
      expect(await server.ask(key), state).toBe('received_at, signature, outcome\n')
      await sink.write([landed], {})
      const outcomes = "SELECT outcome FROM chain.tips WHERE signature = 'old' ORDER BY outcome"
      expect(await server.ask(outcomes), state).toBe('expired\nlanded\n')
      expect(await count('chain.tips'), state).toBe(before + 2)
      expect(await server.ask('EXISTS TABLE chain._tips_old'), state).toBe('0\n')
      await sink.stop()
    }
    sink = await open()
  })

  test('drops rows beyond the retention time', async () => {
    const before = await count('chain.blocks')
    expect(before).toBeGreaterThan(0)
    // A negative retention: every part is older than it.
    const own = await openClickhouseSink(server.url, { retentionDays: -1, holder: 'test' })
    await until(async () => (await count('chain.blocks')) === 0, 'old partitions are dropped')
    expect(await count('chain._marks')).toBeGreaterThan(0)
    await own.stop()
  })
})

function batchOf(table: TableName, row: Readonly<Record<string, Cell>>): RowBatch {
  const names = Object.keys((tables[table] as Table).columns)
  return { table, count: 1, columns: names.map((name) => [row[name] ?? null]) }
}
