// The same rows in DuckDB and in ClickHouse, the same questions, the same answers: by the port of
// the engines, and by the endpoint with an unmodified client.
import { createClient } from '@clickhouse/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { openClickhouseSink } from '../../src/indexer/clickhouse-server/sink.ts'
import { type Question, questions } from '../testkit/analyst-questions.ts'
import { Bundle } from '../testkit/bundle.ts'
import {
  askServer,
  compared,
  lists,
  prepareServer,
  readAnswers,
  statementOf,
} from '../testkit/clickhouse-answers.ts'
import {
  type ClickhouseServer,
  hasClickhouseServer,
  startClickhouseServer,
} from '../testkit/clickhouse-server.ts'
import { makeRows } from '../testkit/generated-rows.ts'
import { ask } from '../testkit/index-asking.ts'
import { QueryStage } from '../testkit/query-stage.ts'
import { openClickhouse } from '../testkit/read-back.ts'
import type { ReadEngine } from '../testkit/send-results.ts'
import { until } from '../testkit/until.ts'

const plan = { seed: 3, slots: 200, transactionsPerSlot: 40, blocks: 300, tips: 400, usage: 60 }
const isThere = hasClickhouseServer()

describe.skipIf(!isThere)('DuckDB against ClickHouse (skipped: no clickhouse-server)', () => {
  let server: ClickhouseServer
  let clickhouse: ReadEngine
  let stage: QueryStage
  const bundles = [new Bundle(), new Bundle()]

  beforeAll(async () => {
    const batches = [...makeRows(plan)]
    server = await startClickhouseServer()
    const sink = await openClickhouseSink(server.url, { retentionDays: 30, holder: 'test' })
    await sink.write(batches, {})
    await sink.stop()
    clickhouse = await openClickhouse(server.url, { log: silentLog })
    stage = await QueryStage.open({ warm: 1 })
    await stage.sink.write(batches, {})
    const isThere = async () => (await ask(stage.engine, 'SELECT 1 FROM usage')).totals.rows > 0
    await until(isThere, 'what was written is seen')
  })
  afterAll(async () => {
    for (const bundle of bundles) await bundle.dispose()
    await stage?.close()
    await clickhouse?.stop()
    await server?.stop()
  })

  test('has thirty questions and more', () => {
    expect(questions.length).toBeGreaterThanOrEqual(30)
    expect(new Set(questions.map(({ name }) => name)).size).toBe(questions.length)
  })

  test.each(questions)('$name', async (question) => {
    const [theirs, ours] = await Promise.all([
      rowsOf(clickhouse, question),
      rowsOf(stage.engine, question),
    ])
    expect(theirs.length).toBeGreaterThan(0)
    expect(ours).toEqual(theirs)
  })

  test.each(lists)('answers the recorded %s as newer servers do', async (list) => {
    // Beside the database that the adapter fills.
    const url = `${server.url}/answers`
    await prepareServer(url)
    const wrong: string[] = []
    const rows = readAnswers(list).filter(({ old, error }) => old === undefined && !error)
    for (const recorded of rows) {
      const { text, error } = await askServer(url, statementOf(list, recorded))
      const { verdict, note } = compared(recorded, text, error)
      if (verdict === 'refused' || verdict === 'other') wrong.push(note)
    }
    expect(wrong).toEqual([])
    expect(rows.length).toBeGreaterThan(list === 'expressions' ? 500 : 100)
  })

  test('gives the same through the endpoint to an unmodified client', async () => {
    const clients = await Promise.all(
      [clickhouse, stage.engine].map(async (engine, at) => {
        const bundle = bundles[at]!
        const { port } = await bundle.openIndexer({ engine })
        const { token, indexer } = bundle.issue({ products: ['indexer'], label: engine.name })
        return createClient({
          url: `http://127.0.0.1:${port}`,
          username: indexer!.user,
          password: indexer!.password,
          http_headers: { 'x-token': token },
        })
      }),
    )
    for (const { name, sql, params } of questions.filter((one) => !sqlOfUsage.test(one.sql))) {
      const answers = clients.map(async (client) => {
        const result = await client.query({
          query: sql,
          format: 'JSONEachRow',
          ...(params !== undefined && { query_params: params }),
        })
        return result.json()
      })
      const [theirs, ours] = await Promise.all(answers)
      expect(ours, name).toEqual(theirs)
    }
    await Promise.all(clients.map((client) => client.close()))
  })
})

/** Customers of the endpoint have names of their own, and no queries yet. */
const sqlOfUsage = /\busage\b/

async function rowsOf(engine: ReadEngine, { sql, params }: Question): Promise<unknown[][]> {
  const { text } = await ask(engine, sql, {
    format: 'JSONCompact',
    ...(params !== undefined && { params }),
  })
  return (JSON.parse(text) as { data: unknown[][] }).data
}
