// 500 connections with ten subscriptions each on a chain at 1,000 transactions a second: nothing is
// lost and nothing is out of order. Memory is pubsub-memory.test.ts's business: here the chain's
// own history and the collector's mood would drown it.
import { afterAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { spanMs } from '../testkit/slice.ts'
import { SolanaNode } from '../testkit/solana-node.ts'
import { hangMs, until } from '../testkit/until.ts'

const connections = 500
const accountsEach = 7
const runMs = spanMs(120_000, 8_000)
/** Slots until everything about a slot has been told, and some. */
const settledSlots = 45

interface Feed {
  /** Of the notifications about slots within the window: how many, and a hash of them in order. */
  count: number
  hash: number
  slot: number
}

/** What all connections hear alike: slots that began after all had subscribed. */
const window = { from: Number.POSITIVE_INFINITY, to: Number.POSITIVE_INFINITY }

class Crowd {
  readonly feeds = new Map<number, Feed>()
  readonly socket: WebSocket
  readonly #calls = new Map<number, () => void>()
  readonly ids: number[] = []
  slotId = -1
  closed: number | null = null
  unordered = 0

  constructor(url: string, token: string) {
    this.socket = new WebSocket(url, { headers: { 'x-token': token } })
    this.socket.on('error', () => {})
    this.socket.on('close', (code) => {
      this.closed = code
    })
    this.socket.on('message', (data: Buffer) => this.#take(data))
  }

  get isOpen(): boolean {
    return this.socket.readyState === WebSocket.OPEN
  }

  ask(id: number, method: string, params: unknown[]): void {
    const call = JSON.stringify({ jsonrpc: '2.0', id, method, params })
    this.#calls.set(id, () => this.socket.send(call))
    this.socket.send(call)
  }

  #take(data: Buffer): void {
    const text = data.toString('latin1')
    if (!text.includes('"subscription":')) {
      const { id, result, error } = JSON.parse(text)
      if (error !== undefined) {
        askAgain(this.#calls.get(id)!, error)
        return
      }
      this.ids.push(result)
      if (id === 0) this.slotId = result
      return
    }
    const subscription = Number(text.slice(text.lastIndexOf(':') + 1, -2))
    const feed = this.feeds.get(subscription) ?? { count: 0, hash: 0, slot: 0 }
    this.feeds.set(subscription, feed)
    const slot = Number(/"(?:slot|result)":(\d+)/.exec(text)?.[1])
    if (slot >= window.from && slot < window.to) {
      feed.count++
      for (let at = 0; at < text.length; at += 7)
        feed.hash = (Math.imul(feed.hash, 31) + text.charCodeAt(at)) | 0
    }
    // The stages of several slots are told between one another.
    if (text.includes('slotsUpdates')) return
    // Slots of a slotSubscribe follow one another; writes of an account never go back.
    const isNext = subscription !== this.slotId || feed.slot === 0 || slot === feed.slot + 1
    if (slot < feed.slot || !isNext) this.unordered++
    feed.slot = slot
  }
}

/** The chain refuses subscriptions while its stream is not up, as on a machine that is too busy. */
function askAgain(ask: () => void, error: { readonly code: number }): void {
  if (error.code !== -32005) throw new Error(JSON.stringify(error))
  setTimeout(ask, 100)
}

let node: SolanaNode
afterAll(() => node?.dispose())

test('500 connections with 10 subscriptions each get everything in order', async () => {
  const flags = ['--websocket.connectionsPerAddress=0', '--chain.traffic=1000']
  node = await SolanaNode.start(...flags, '--chain.slotMs=100')
  const hot = await busyAccounts()
  const crowd: Crowd[] = []
  for (let index = 0; index < connections; index++) {
    crowd.push(new Crowd(node.server.url('websocket'), node.token))
    if (index % 50 === 49)
      await until(() => crowd.every(({ isOpen }) => isOpen), 'fifty more to connect')
  }
  for (const [index, one] of crowd.entries()) subscribe(one, index, hot)
  await until(() => crowd.every(({ ids }) => ids.length === 10), 'all to be subscribed')

  window.from = newestSlot(crowd) + 5

  const endMs = performance.now() + runMs
  await until(() => performance.now() > endMs, 'the time to pass', runMs + hangMs)
  window.to = newestSlot(crowd) + 5
  // Slot by slot: how long one takes is the machine's business.
  const told = () => Math.min(...crowd.map((one) => newestSlot([one])))
  const hasLost = () => crowd.some(({ closed }) => closed !== null)
  for (let slot = told(); slot <= window.to + settledSlots && !hasLost(); slot = told())
    await until(() => told() > slot || hasLost(), `the slot after ${slot} to be told to all`)

  expect(crowd.filter(({ closed }) => closed !== null)).toEqual([])
  expect(crowd.reduce((sum, { unordered }) => sum + unordered, 0)).toBe(0)
  const [first] = crowd
  expect(first!.feeds.get(first!.slotId)!.count).toBe(window.to - window.from)
  expect(differences(crowd)).toEqual([])
  for (const { socket } of crowd) socket.terminate()
})

/** The processed slots, roots and stages; one busy account, shared by fifty; six quiet ones. */
function subscribe(one: Crowd, index: number, hot: readonly string[]): void {
  one.ask(0, 'slotSubscribe', [])
  one.ask(1, 'rootSubscribe', [])
  one.ask(2, 'slotsUpdatesSubscribe', [])
  const config = { commitment: 'processed', encoding: 'base64' }
  for (let which = 0; which < accountsEach; which++) {
    const quiet = Buffer.alloc(32, 9)
    quiet.writeUInt32BE(index * accountsEach + which)
    const key = which === 0 ? hot[index % hot.length] : encodeBase58(quiet)
    one.ask(3 + which, 'accountSubscribe', [key, config])
  }
}

/** Ten accounts that the background traffic writes. */
async function busyAccounts(): Promise<string[]> {
  const socket = new WebSocket(node.server.url('websocket'), {
    headers: { 'x-token': node.token },
  })
  const found = new Set<string>()
  const ask = () => {
    const params = [{}, { commitment: 'processed', transactionDetails: 'accounts' }]
    const call = { jsonrpc: '2.0', id: 1, method: 'transactionSubscribe', params }
    socket.send(JSON.stringify(call))
  }
  socket.on('open', ask)
  socket.on('message', (data) => {
    const { error, params } = JSON.parse(String(data))
    if (error !== undefined) askAgain(ask, error)
    const keys = params?.result.transaction.transaction.accountKeys ?? []
    for (const { pubkey, writable } of keys) if (writable) found.add(pubkey)
  })
  await until(() => found.size >= 10, 'ten busy accounts')
  socket.terminate()
  return [...found].slice(0, 10)
}

function newestSlot(crowd: readonly Crowd[]): number {
  return Math.max(...crowd.map(({ feeds, slotId }) => feeds.get(slotId)?.slot ?? 0))
}

/** Connections that heard something else than others under the same id. */
function differences(crowd: readonly Crowd[]): string[] {
  const reference = new Map<number, Feed>()
  const found: string[] = []
  for (const { feeds } of crowd)
    for (const [id, feed] of feeds) {
      const known = reference.get(id) ?? feed
      reference.set(id, known)
      if (known.count !== feed.count || known.hash !== feed.hash)
        found.push(`${id}: ${known.count} and ${feed.count}`)
    }
  return found
}
