// The indexer as a customer meets it: the built server, its first start, an unmodified client.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ClickHouseLogLevel, createClient } from '@clickhouse/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runCommand } from '../testkit/command.ts'
import { littleTraffic, type Server, startServer } from '../testkit/server.ts'
import { hangMs, until } from '../testkit/until.ts'

let server: Server
let client: ReturnType<typeof createClient>

beforeAll(async () => {
  server = await startServer({
    isWhole: true,
    flags: ['--indexer.slowQueryMs=1', ...littleTraffic],
  })
  await until(() => server.stdout().includes('INDEXER_PASSWORD='), 'the banner')
  const printed = (name: string) => new RegExp(`^${name}=(.+)$`, 'm').exec(server.stdout())![1]!
  client = createClient({
    url: server.url('indexer'),
    username: printed('INDEXER_USER'),
    password: printed('INDEXER_PASSWORD'),
    http_headers: { 'x-token': printed('TOKEN') },
    request_timeout: hangMs,
    log: { level: ClickHouseLogLevel.OFF },
  })
})

afterAll(async () => {
  await client?.close()
  await server?.dispose()
})

async function rows<T>(query: string): Promise<T[]> {
  return (await client.query({ query, format: 'JSONEachRow' })).json<T>()
}

describe('the indexer of a default start', () => {
  it('counts transactions, and soon more of them', async () => {
    const count = async () => {
      const [row] = await rows<{ n: string }>('SELECT count() AS n FROM transactions')
      return Number(row?.n)
    }
    await until(async () => (await count()) > 0, 'the first transactions')
    const before = await count()
    await until(async () => (await count()) > before, 'more transactions')
    const hasContention = async () => {
      const [row] = await rows<{ n: string }>('SELECT count() AS n FROM contention')
      return Number(row?.n) > 0
    }
    await until(hasContention, 'contention')
  })

  it('has the blocks and transactions of the chain, each once and in order', async () => {
    const token = /^TOKEN=(.+)$/m.exec(server.stdout())![1]!
    type Indexed = { slot: string; parent_slot: string; blockhash: string; height: string }
    // From the first one: the stream begins before the node has ended its first slot.
    const first = () =>
      rows<Indexed & { tx_count: number }>(
        'SELECT slot, parent_slot, blockhash, height, tx_count FROM blocks ORDER BY slot LIMIT 5',
      )
    await until(async () => (await first()).length === 5, 'the first blocks')
    const found = await first()
    expect(found.map(({ slot }) => slot)).toEqual(['1', '2', '3', '4', '5'])
    for (const { slot, parent_slot, blockhash, height, tx_count } of found) {
      const config = { commitment: 'confirmed', maxSupportedTransactionVersion: 1 }
      const answer = await fetch(server.url('rpc'), {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-token': token },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method: 'getBlock',
          params: [Number(slot), config],
        }),
      })
      type Transaction = { transaction: { signatures: string[] }; meta: { fee: number } }
      const { result: block } = (await answer.json()) as {
        result: {
          blockhash: string
          parentSlot: number
          blockHeight: number
          transactions: Transaction[]
        }
      }
      expect([blockhash, Number(parent_slot), Number(height), tx_count]).toEqual([
        block.blockhash,
        block.parentSlot,
        block.blockHeight,
        block.transactions.length,
      ])
      const own = await rows<{ signature: string; fee: string }>(
        `SELECT signature, fee FROM transactions WHERE slot = ${slot} ORDER BY idx`,
      )
      expect(own).toEqual(
        block.transactions.map(({ transaction, meta }) => ({
          signature: transaction.signatures[0],
          fee: String(meta.fee),
        })),
      )
    }
  })

  it('reports in headers how fresh its rows are', async () => {
    const { response_headers: headers } = await client.query({ query: 'SELECT 1' })
    expect(Number(headers['x-sluice-last-slot'])).toBeGreaterThan(0)
    expect(Number(headers['x-sluice-last-block'])).toBeGreaterThan(0)
    expect(String(headers['x-sluice-engine'])).toMatch(/^duckdb \S+$/)
  })

  it('shows a caller its own queries', async () => {
    const query_id = `seen-${Date.now()}`
    await (await client.query({ query: 'SELECT 1', query_id })).text()
    const own = `SELECT rows, code FROM usage WHERE query_id = '${query_id}'`
    await until(async () => (await rows(own)).length === 1, 'its row')
    expect(await rows(own)).toEqual([{ rows: '1', code: 0 }])
  })

  it('answers the command with the credentials that the first start printed', async () => {
    const credentials = join(server.data, 'printed')
    writeFileSync(credentials, server.stdout(), { mode: 0o600 })
    const words = ['--data', server.data, '--credentials', credentials, '--output', 'csv']
    const ran = await runCommand(['query', 'SELECT 1 AS one', ...words])
    expect([ran.code, ran.stdout]).toEqual([0, '"one"\n1\n'])
  })

  it('logs slow queries without secrets, wherever those were put', async () => {
    const token = /^TOKEN=(.+)$/m.exec(server.stdout())![1]!
    const query = `SELECT '${token}' AS a -- ${token}`
    await expect(client.query({ query, query_id: token })).rejects.toMatchObject({ code: '36' })
    await (await client.query({ query })).text()
    await until(() => server.stderr().includes('slow query'), 'the line')
    expect(server.stderr()).not.toContain(token)
    expect(server.stderr()).not.toContain(/^INDEXER_PASSWORD=(.+)$/m.exec(server.stdout())![1]!)
  })

  it('refuses the password that was rotated, within a second or so', async () => {
    const words = ['indexer', 'rotate', 'demo', '--yes', '--data', server.data]
    expect((await runCommand(words)).code).toBe(0)
    const isRefused = async () =>
      rows('SELECT 1').then(
        () => false,
        (error: { code?: string }) => error.code === '516',
      )
    await until(isRefused, 'the old password to be refused')
  })
})
