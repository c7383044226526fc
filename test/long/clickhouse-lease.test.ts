// One Sluice server writes on a ClickHouse server: a second one is refused, with the first one's
// name; a dead one is succeeded.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { refuseSecondWriter, supersededKind } from '../../src/indexer/clickhouse-server/lease.ts'
import { openClickhouseSink } from '../../src/indexer/clickhouse-server/sink.ts'
import type { RowBatch, RowSink, SinkEvents } from '../../src/indexer/engine.ts'
import { startEngine } from '../../src/indexer/engines.ts'
import {
  type ClickhouseServer,
  hasClickhouseServer,
  startClickhouseServer,
} from '../testkit/clickhouse-server.ts'
import { until } from '../testkit/until.ts'

const first = 'host-a pid 11 run aaaa'
const second = 'host-b pid 22 run bbbb'
/** ClickHouse counts whole seconds: a heartbeat each second. */
const leaseMs = 5_000

describe.skipIf(!hasClickhouseServer())('the lease (skipped: no clickhouse-server)', () => {
  let server: ClickhouseServer
  const noEvents: SinkEvents = { failed() {}, parts() {} }
  const open = (holder: string, lifetimeMs = leaseMs, events = noEvents) =>
    openClickhouseSink(server.url, { retentionDays: 30, holder, leaseMs: lifetimeMs, events })
  const count = async () => Number(await server.ask('SELECT count() FROM chain.tps'))

  beforeAll(async () => {
    server = await startClickhouseServer()
  })
  beforeEach(() => server.ask('DROP DATABASE IF EXISTS chain'))
  afterAll(() => server?.stop())

  test('a second writer is refused with the name of the first, which keeps writing', async () => {
    const sink = await open(first)
    const refused = await open(second).catch((error: unknown) => error)
    expect(refused).toMatchObject({ name: 'Fault', kind: 'clickhouse-lease' })
    expect(String(refused)).toContain(
      `another Sluice program writes to this ClickHouse server: ${first}`,
    )
    await sink.write([tpsRow(1)], {})
    expect(await count()).toBe(1)
    await sink.stop()
  })

  test('the start of a second server is refused, and that of the same server is not', async () => {
    const sink = await open(first)
    const results = { path: '', secret: '' }
    const meters = { sizes() {}, killed() {} }
    const start = (holder: string | null) =>
      startEngine(
        { engine: 'clickhouse', url: server.url, queryUrl: '' },
        { folder: '', holder, results, meters, log: silentLog },
      )
    await expect(start(second)).rejects.toThrow(first)
    await (await start(first)).stop()
    // It writes nothing: an indexer does.
    await (await start(null)).stop()
    await sink.stop()
    await (await start(second)).stop()
  })

  test('a stopped writer, and one of the same server, release the lease at once', async () => {
    // Longer than the test may take: waiting for it to expire would fail the test.
    const long = 600_000
    const sink = await open(first, long)
    await (await open(first, long)).stop()
    await sink.stop()
    await (await open(second, long)).stop()
  })

  test('another writer takes over once the lease of a dead one expired', async () => {
    await (await open(first)).stop()
    await server.ask(`INSERT INTO chain._lease SELECT 'dead', '${first}', now(), 0`)
    await refuseSecondWriter(server.url, second, leaseMs)
    const sink = await open(second)
    await sink.write([tpsRow(1)], {})
    expect(await count()).toBe(1)
    await sink.stop()
  })

  test('of many servers that start at the same moment at most one writes', async () => {
    await (await open(first)).stop()
    const names = Array.from({ length: 6 }, (_, n) => `host-${n} pid ${n} run ${n}`)
    const opened = await Promise.allSettled(names.map((name) => open(name)))
    const sinks = opened.filter((one) => one.status === 'fulfilled').map((one) => one.value)
    expect(sinks.length).toBeLessThanOrEqual(1)
    for (const sink of sinks) await sink.stop()
  })

  test('a writer that lost its lease writes nothing more, and names the holder', async () => {
    const superseded: string[] = []
    const events = {
      failed() {},
      parts() {},
      superseded: (text: string) => void superseded.push(text),
    }
    const old = await open(first, leaseMs, events)
    // As after a long pause of the process: its claim has expired, and another server took over.
    await server.ask(
      `INSERT INTO chain._lease SELECT claim, any(holder), now(), 1 FROM chain._lease GROUP BY claim`,
    )
    const heir = await open(second)
    let rows = 0
    await until(async () => !(await isWritten(old, ++rows)), 'the old one is refused')
    await expect(old.write([tpsRow(900)], {})).rejects.toThrow(second)
    await heir.write([tpsRow(1_000)], {})
    expect(await server.ask('SELECT max(seq) FROM chain.tps')).toBe('1000\n')
    await heir.stop()
    // What it has may be there by now, and its marks would go back: its next process begins there.
    await expect(old.write([tpsRow(901)], {})).rejects.toMatchObject({ kind: supersededKind })
    expect(superseded.at(-1)).toContain(second)
    await old.stop()
  })

  test('survives a restart of the ClickHouse server', async () => {
    const sink = await open(first)
    await server.restart()
    await until(async () => isWritten(sink, 1), 'it writes again')
    await expect(open(second)).rejects.toThrow(first)
    await sink.stop()
  })
})

function isWritten(sink: RowSink, seq: number): Promise<boolean> {
  return sink.write([tpsRow(seq)], {}).then(
    () => true,
    () => false,
  )
}

function tpsRow(seq: number): RowBatch {
  return { table: 'tps', count: 1, columns: [[seq], [1], [1], [null]] }
}
