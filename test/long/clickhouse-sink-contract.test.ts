// What every sink of rows promises, on a real ClickHouse server.
import { afterAll, describe } from 'vitest'
import { openClickhouseSink } from '../../src/indexer/clickhouse-server/sink.ts'
import { type Table, tables } from '../../src/indexer/tables.ts'
import {
  type ClickhouseServer,
  hasClickhouseServer,
  startClickhouseServer,
} from '../testkit/clickhouse-server.ts'
import { describeRowSink } from '../testkit/row-sink-contract.ts'

describe.skipIf(!hasClickhouseServer())('(skipped: no clickhouse-server)', () => {
  let server: ClickhouseServer | undefined
  afterAll(() => server?.stop())

  describeRowSink('clickhouse', {
    async place() {
      server ??= await startClickhouseServer()
      await server.ask('DROP DATABASE IF EXISTS chain')
      const { url } = server
      return {
        ...{ engine: 'clickhouse', folder: '', url, retentionDays: 30, retentionBytes: 1e9 },
        clickhouse: { insertMs: 50, insertRows: 20_000 },
        holder: 'test',
      }
    },
    open: ({ url, ...options }) => openClickhouseSink(url, options),
    // What is stored keeps times as counts on a server this old; a view would show seconds.
    read: async (_, table) => {
      const columns = Object.entries((tables[table] as Table).columns).map(([name, type]) =>
        /DateTime(?!64)/.test(type) ? `toUInt32(${name}) AS t_${name}` : name,
      )
      const text = await server!.ask(
        `SELECT ${columns.join(', ')} FROM chain._${table} FINAL FORMAT JSONCompact`,
      )
      return (JSON.parse(text) as { data: unknown[][] }).data
    },
    dispose: async () => {},
    hasProcess: true,
  })
})
