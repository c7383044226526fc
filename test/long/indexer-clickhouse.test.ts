// The indexer over a ClickHouse server, as an operator sets it up: `indexer.engine: clickhouse`
// and its address. What a customer sees is the same; no credential of the server appears anywhere.
import { type ClickHouseClient, ClickHouseLogLevel, createClient } from '@clickhouse/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  type ClickhouseServer,
  hasClickhouseServer,
  startClickhouseServer,
} from '../testkit/clickhouse-server.ts'
import { type Server, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

describe.skipIf(!hasClickhouseServer())('over ClickHouse (skipped: no clickhouse-server)', () => {
  let clickhouse: ClickhouseServer
  let server: Server
  let client: ClickHouseClient
  const count = async (table: string) => {
    const result = await client.query({ query: `SELECT count() AS n FROM ${table}` })
    return Number(((await result.json()) as { data: { n: string }[] }).data[0]?.n)
  }

  beforeAll(async () => {
    clickhouse = await startClickhouseServer()
    server = await startServer({
      flags: ['--indexer.engine=clickhouse'],
      env: { SLUICE_INDEXER__URL: clickhouse.url },
    })
    client = clientOf(server)
  })
  afterAll(async () => {
    await client?.close()
    await server?.dispose()
    await clickhouse?.stop()
  })

  test('takes in what passes and answers with it', async () => {
    for (const table of ['transactions', 'instructions', 'blocks', 'contention', 'tps'])
      await until(async () => (await count(table)) > 0, `rows in ${table}`)
    const first = await count('transactions')
    await until(async () => (await count('transactions')) > first, 'it grows')
  })

  test('writes each query of a customer into his usage', async () => {
    await until(async () => (await count('usage')) > 0, 'rows of usage')
  })

  test('ends queries at the limits of the plan, by the codes of the endpoint', async () => {
    const wrong = client.query({ query: 'SELECT * FROM nothing_here' })
    await expect(wrong).rejects.toMatchObject({ code: '60' })
    const outside = client.query({
      query: "SELECT * FROM url('http://127.0.0.1:1/', CSV, 'a String')",
    })
    await expect(outside).rejects.toMatchObject({ code: '164' })
  })

  test('resumes after the server was unreachable', async () => {
    const before = await count('transactions')
    await clickhouse.kill()
    await expect(client.query({ query: 'SELECT 1' })).rejects.toMatchObject({ code: '210' })
    await clickhouse.restart()
    await until(async () => (await count('transactions')) > before, 'new rows')
  })

  test('starts while the server is away, and answers queries once it is back', async () => {
    await clickhouse.kill()
    await server.stop()
    const { token, indexer } = server
    const again = await startServer({
      flags: ['--indexer.engine=clickhouse'],
      env: { SLUICE_INDEXER__URL: clickhouse.url },
      data: server.data,
    })
    server = { ...again, token, indexer }
    await client.close()
    client = clientOf(server)
    expect((await fetch(`${server.url('metrics')}/health`)).status).toBe(200)
    const page = async () => (await fetch(`${server.url('indexer')}/play`)).text()
    expect(await page()).not.toContain('account_updates')
    const asked = await client.exec({ query: 'SELECT 1' }).catch((error: unknown) => error)
    expect(asked).toMatchObject({
      message: expect.stringContaining('the query program is starting'),
    })
    await clickhouse.restart()
    await until(async () => (await count('transactions').catch(() => 0)) > 0, 'an answer')
    expect(await page()).toContain('account_updates')
  })

  test('refuses the start of a second server that would write there', async () => {
    const others = ['rpc', 'websocket', 'grpc', 'metrics', 'tpu', 'shredstream']
    const start = (...flags: string[]) =>
      startServer({
        flags: [
          ...['--indexer.engine=clickhouse', ...others.map((name) => `--${name}.enabled=false`)],
          ...flags,
        ],
        env: { SLUICE_INDEXER__URL: clickhouse.url },
      })
    const error = await start().then(
      (started) => started.dispose(),
      (refused: unknown) => String(refused),
    )
    expect(error).toMatch(
      /another Sluice program writes to this ClickHouse server: \S+ pid \d+ run/,
    )
    expect(error).not.toContain(clickhouse.password)
    // One that leaves it to the other answers queries beside it.
    await (await start('--indexer.write=false')).dispose()
  })

  test('is written by another server once the first was killed, without a row twice', async () => {
    const before = Number(await clickhouse.ask('SELECT max(seq) FROM chain._tps'))
    await server.stop('SIGKILL')
    // Waits until the lease of the first has expired.
    const heir = await startServer({
      flags: ['--indexer.engine=clickhouse'],
      env: { SLUICE_INDEXER__URL: clickhouse.url },
      data: server.data,
    })
    try {
      const newest = async () => Number(await clickhouse.ask('SELECT max(seq) FROM chain._tps'))
      await until(async () => (await newest()) > before + 3, 'rows of the second')
      for (const [table, key] of [
        ['blocks', 'slot'],
        ['transactions', 'slot, idx'],
        ['account_updates', 'slot, pubkey, write_version'],
      ] as const) {
        const answer = await clickhouse.ask(`SELECT count(), uniqExact(${key}) FROM chain.${table}`)
        const [rows, distinct] = answer.trim().split('\t')
        expect(rows, table).toBe(distinct)
      }
      // Every slot between the first and the last, also across the kill.
      const slots = await clickhouse.ask(
        'SELECT count(), max(slot) - min(slot) + 1 FROM chain.blocks',
      )
      const [count, span] = slots.trim().split('\t')
      expect(count).toBe(span)
      expect(await clickhouse.ask('SELECT uniqExact(claim) FROM chain._lease')).not.toBe('1\n')
    } finally {
      await heir.stop()
    }
  })

  test('reveals no credential of the server', () => {
    for (const text of [server.stdout(), server.stderr()])
      expect(text).not.toContain(clickhouse.password)
  })
})

function clientOf(server: Server): ClickHouseClient {
  return createClient({
    url: server.url('indexer'),
    username: server.indexer.user,
    password: server.indexer.password,
    http_headers: { 'x-token': server.token },
    log: { level: ClickHouseLogLevel.OFF },
  })
}
