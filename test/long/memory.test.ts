// A default start under a modest mixed load, with its processes, stays within 1.2 GB.
// Memory is the proportional set size (PSS) of /proc/<pid>/smaps_rollup: pages that processes share,
// such as Node's own code, count once in all. The table is printed.

import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { type Server, startServer } from '../testkit/server.ts'
import { spanMs } from '../testkit/slice.ts'
import { until } from '../testkit/until.ts'

/** docs/OPERATING.md: Memory. */
const megabytesMax = 1_200
const loadMs = spanMs(10 * 60_000, 30_000)
const sampleMs = 5_000
const require = createRequire(import.meta.url)

let server: Server
beforeAll(async () => {
  server = await startServer({ isWhole: true })
})
afterAll(() => server?.dispose())

test(
  'a default start under load takes at most 1.2 GB with its processes',
  async () => {
    const load = new Load()
    await until(async () => Number(await load.call('getSlot')) > 4, 'the chain')
    await load.start()
    let most = 0
    let table: readonly Row[] = []
    for (let endMs = performance.now() + loadMs; performance.now() < endMs; ) {
      await pause(sampleMs)
      const rows = processes(server.child.pid!).map(rowOf)
      const sum = rows.reduce((total, { megabytes }) => total + megabytes, 0)
      if (sum > most) [most, table] = [sum, rows]
    }
    await load.stop()
    for (const { name, megabytes } of table) process.stdout.write(`${name} ${megabytes} MB\n`)
    process.stdout.write(`all ${most} MB; ${JSON.stringify(load.counts)}\n`)
    // The load has reached everything that keeps memory.
    for (const count of Object.values(load.counts)) expect(count).toBeGreaterThan(0)
    expect(most).toBeLessThanOrEqual(megabytesMax)
  },
  loadMs + 180_000,
)

/** Calls, queries, PubSub and geyser, as a handful of customers makes them. */
class Load {
  readonly counts = { calls: 0, queries: 0, notifications: 0, updates: 0 }
  readonly #ends: (() => unknown)[] = []
  #isRunning = true

  async start(): Promise<void> {
    const loops = [this.#calls(), this.#calls(), this.#calls(), this.#queries()]
    this.#ends.push(() => Promise.all(loops))
    for (let index = 0; index < 5; index++) this.#subscribe()
    for (let index = 0; index < 2; index++) await this.#follow()
  }

  async stop(): Promise<void> {
    this.#isRunning = false
    for (const end of this.#ends.splice(0)) await end()
  }

  // biome-ignore lint/suspicious/noExplicitAny: results of many methods.
  async call(method: string, ...params: unknown[]): Promise<any> {
    const answer = await fetch(server.url('rpc'), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-token': server.token },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
    this.counts.calls++
    return ((await answer.json()) as { result?: unknown }).result
  }

  async #calls(): Promise<void> {
    const commitment = 'confirmed'
    const shown = { commitment, maxSupportedTransactionVersion: 0, rewards: false }
    while (this.#isRunning) {
      const slot = await this.call('getSlot', { commitment })
      const block = await this.call('getBlock', slot, shown)
      const transaction = block?.transactions?.[0]?.transaction
      if (transaction !== undefined) {
        const [payer, other] = transaction.message.accountKeys
        await this.call('getTransaction', transaction.signatures[0], shown)
        await this.call('getBalance', payer)
        await this.call('getAccountInfo', other, { encoding: 'base64' })
        await this.call('getSignaturesForAddress', payer, { limit: 20 })
      }
      await pause(60)
    }
  }

  async #queries(): Promise<void> {
    const { user, password } = server.indexer
    const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
    const headers = { authorization, 'x-token': server.token }
    const grouped = 'SELECT slot, count() FROM chain.transactions GROUP BY slot'
    while (this.#isRunning)
      for (const sql of [grouped, 'SELECT * FROM chain.transactions ORDER BY slot LIMIT 200']) {
        const url = `${server.url('indexer')}/?query=${encodeURIComponent(sql)}`
        const answer = await fetch(url, { headers })
        await answer.arrayBuffer()
        if (answer.ok) this.counts.queries++
        await pause(500)
      }
  }

  #subscribe(): void {
    const socket = new WebSocket(server.url('websocket'), { headers: { 'x-token': server.token } })
    const subscriptions = [['slotSubscribe'], ['logsSubscribe', 'all']]
    socket.on('error', () => {})
    socket.on('message', () => this.counts.notifications++)
    socket.on('open', () => {
      for (const [method, ...params] of subscriptions)
        socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }))
    })
    this.#ends.push(() => socket.terminate())
  }

  async #follow(): Promise<void> {
    const { default: Client } = require('@triton-one/yellowstone-grpc')
    const client = new Client(server.url('grpc'), server.token, {})
    const stream = await client.subscribe()
    stream.on('error', () => {})
    stream.on('data', () => this.counts.updates++)
    stream.write({
      accounts: { a: { account: [], owner: [], filters: [] } },
      slots: { a: {} },
      transactions: { a: { accountInclude: [], accountExclude: [], accountRequired: [] } },
      transactionsStatus: {},
      blocks: {},
      blocksMeta: { a: {} },
      entry: {},
      accountsDataSlice: [],
    })
    this.#ends.push(() => stream.cancel())
  }
}

interface Row {
  readonly name: string
  readonly megabytes: number
}

/** A process and all below it. */
function processes(pid: number): number[] {
  const tasks = readdirSync(`/proc/${pid}/task`)
  const children = tasks.map((task) => read(`/proc/${pid}/task/${task}/children`).trim())
  const below = children.flatMap((line) => line.split(' ').filter((word) => word !== ''))
  return [pid, ...below.flatMap((child) => processes(Number(child)))]
}

function rowOf(pid: number): Row {
  const words = read(`/proc/${pid}/cmdline`).split('\0')
  const entry = words
    .find((word) => word.endsWith('.js'))
    ?.split('/')
    .at(-1)
  const kilobytes = /^Pss: +(\d+)/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0
  return { name: entry ?? 'other', megabytes: Math.round(Number(kilobytes) / 1024) }
}

/** '' once the process has ended. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
