// The contract of engines on a real ClickHouse server, and what is its alone.
import { describe, expect, test } from 'vitest'
import {
  type ClickhouseServer,
  hasClickhouseServer,
  startClickhouseServer,
} from '../../bench/lib/clickhouse-server.ts'
import { startClickhouseEngine } from '../../src/products/indexer/clickhouse/query-engine.ts'
import { openClickhouseSink } from '../../src/products/indexer/clickhouse/sink.ts'
import type { QueryEngine } from '../../src/products/indexer/engine.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import { describeQueryEngine } from '../support/query-engine-contract.ts'

describe.skipIf(!hasClickhouseServer())(
  'with clickhouse-server (skipped: no clickhouse-server)',
  () => {
    let server: ClickhouseServer | undefined
    let engine: QueryEngine | undefined

    describeQueryEngine('clickhouse', {
      async start(batches) {
        server = await startClickhouseServer()
        const sink = await openClickhouseSink(server.url, { retentionDays: 30 })
        // Twice, in parts that are not merged: no row may be seen twice.
        await sink.write(batches, {})
        await sink.write(batches, {})
        await sink.stop()
        engine = await startClickhouseEngine(server.url, { log: silentLog })
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
      lacks: ['JSONCompactEachRow', 'Parquet'],
      breakSlack: 65_536,
    })
  },
)

describe('without a server', () => {
  test('a wrong address is said without the address', async () => {
    const wrong = startClickhouseEngine('http://u:secret@127.0.0.1:1', { log: silentLog })
    const error = await wrong.catch((fault: unknown) => fault)
    expect(String(error)).toContain('cannot be reached')
    expect(String(error)).not.toMatch(/secret|127\.0\.0\.1/)
    await expect(startClickhouseEngine('nonsense', { log: silentLog })).rejects.toThrow(
      'indexer.url',
    )
  })
})
