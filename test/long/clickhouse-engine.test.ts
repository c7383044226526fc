// The engine contract on a real ClickHouse server, and behaviour specific to ClickHouse.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { openClickhouseSink } from '../../src/indexer/clickhouse-server/sink.ts'
import {
  type ClickhouseServer,
  hasClickhouseServer,
  startClickhouseServer,
} from '../testkit/clickhouse-server.ts'
import { queryOf, tryAsk } from '../testkit/index-asking.ts'
import { describeQueryEngine } from '../testkit/query-engine-contract.ts'
import { openClickhouse } from '../testkit/read-back.ts'
import type { ReadEngine } from '../testkit/send-results.ts'
import { hangMs, until } from '../testkit/until.ts'

/** Only being killed ends it; it takes no memory. */
const endless = 'SELECT count() AS n FROM system.numbers WHERE number % 1000003 = 1000004'

describe.skipIf(!hasClickhouseServer())(
  'with clickhouse-server (skipped: no clickhouse-server)',
  () => {
    let server: ClickhouseServer | undefined
    let engine: ReadEngine | undefined

    describeQueryEngine('clickhouse', {
      async start(batches) {
        server = await startClickhouseServer()
        const sink = await openClickhouseSink(server.url, { retentionDays: 30, holder: 'test' })
        // Twice, in parts that are not merged: no row may be seen twice.
        await sink.write(batches, {})
        await sink.write(batches, {})
        await sink.stop()
        engine = await openClickhouse(server.url, { log: silentLog })
        return engine
      },
      async stop() {
        await engine?.stop()
        await server?.stop()
      },
      busy: async () =>
        Number(
          await server!.ask("SELECT count() FROM system.processes WHERE query_id LIKE 'sluice-%'"),
        ),
      // This one is of 2018: without window functions, and WITH defines no tables.
      lacks: ['JSONCompactEachRow', 'Parquet', 'balance_changes', 'WITH'],
      breakSlack: 65_536,
      // ClickHouse ends a query between two blocks: these are short, however slow the machine is.
      endless,
    })

    describe('ClickHouse as it is', () => {
      beforeAll(async () => {
        server = await startClickhouseServer()
        await (await openClickhouseSink(server.url, { retentionDays: 30, holder: 'test' })).stop()
        engine = await openClickhouse(server.url, { log: silentLog })
      })
      afterAll(async () => {
        await engine?.stop()
        await server?.stop()
      })

      test("enforces a query's memory limit", async () => {
        const sql = 'SELECT groupArray(number) FROM (SELECT arrayJoin(range(1000000)) AS number)'
        const { error } = await tryAsk(engine!, sql, { limits: { memoryBytes: 3_000_000 } })
        expect(error).toMatchObject({ code: 241, name: 'MEMORY_LIMIT_EXCEEDED' })
      })

      test('refuses by itself what a gap in the gate would let through', async () => {
        // Sent as the engine sends queries, without the gate.
        const { host, username, password } = new URL(server!.url)
        for (const sql of [
          "SELECT * FROM remote('127.0.0.1', system.one)",
          'DROP TABLE chain.blocks',
          'SET max_execution_time = 0',
        ]) {
          const answer = await fetch(`http://${host}/?max_execution_time=5&readonly=1`, {
            method: 'POST',
            body: sql,
            headers: { authorization: `Basic ${btoa(`${username}:${password}`)}` },
          })
          expect(await answer.text(), sql).toMatch(/Code: (164|113)/)
        }
      })

      test('ends running queries when they are cancelled or the engine stops', async () => {
        const own = await openClickhouse(server!.url, { log: silentLog })
        const busy = () =>
          server!.ask("SELECT count() FROM system.processes WHERE query_id LIKE 'sluice-%'")
        for (const end of ['cancel', 'stop']) {
          const running = own.run(queryOf(own, endless, { limits: { timeMs: 10 * hangMs } }))
          await until(async () => Number(await busy()) === 1, 'it runs')
          if (end === 'cancel') running.cancel()
          else await own.stop()
          expect(await running.started).toMatchObject({ ok: false, error: { code: 394 } })
          await until(async () => Number(await busy()) === 0, `${end} ends it`)
        }
      })

      test('returns 210 when the server goes away, and works again when it is back', async () => {
        const one = 'SELECT 1 AS one'
        expect((await tryAsk(engine!, one)).text).toBe('{"one":1}\n')
        await server!.kill()
        const { error } = await tryAsk(engine!, one)
        expect(error).toMatchObject({ code: 210, name: 'NETWORK_ERROR' })
        expect(error?.message).not.toMatch(/127\.0\.0\.1|writer/)
        await server!.restart()
        expect((await tryAsk(engine!, one)).error).toBeNull()
      })
    })
  },
)

describe('without a server', () => {
  test('an invalid URL is reported without the URL', async () => {
    const wrong = openClickhouse('http://u:secret@127.0.0.1:1', { log: silentLog })
    const error = await wrong.catch((fault: unknown) => fault)
    expect(String(error)).toContain('cannot be reached')
    expect(String(error)).not.toMatch(/secret|127\.0\.0\.1/)
    await expect(openClickhouse('nonsense', { log: silentLog })).rejects.toThrow('indexer.url')
  })
})
