// The modest load of a soak: customers on every endpoint, whose streams are cut and resume, and
// callers without a valid token. Each loop counts what came back, so that a soak can tell a load
// that has stopped from memory that has not grown.
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { Client, credentials, Metadata } from '@grpc/grpc-js'
import { messageOf } from '../../src/base/errors.ts'
import { askOperator } from '../../src/base/transport/unix-socket.ts'
import { MetricsClient, PubsubClient } from '../../src/client/node.ts'
import { loadCodec, numberOf } from '../../src/streams/geyser/codec.ts'
import { type Server, sluice } from '../testkit/server.ts'
import { newPayer, sign, transfer } from '../testkit/tipped.ts'

export interface LoadCounts {
  /** Answers, notifications, updates, frames or packets, by endpoint. */
  readonly got: Record<string, number>
  readonly failed: Record<string, number>
  /** Streams that were cut and continued at their cursor. */
  readonly resumed: Record<string, number>
  /** The last failure of an endpoint. */
  readonly lastFailure: Record<string, string>
}

/** How long a stream lives before it is cut. */
const streamMs = 20_000
/** Blocks older than what the server answers from its stream: they come from the node's history
 *  and fill the cache of immutable answers. */
const olderSlots = 320
const removedSlots = 50
const confirmed = { commitment: 'confirmed', maxSupportedTransactionVersion: 0, rewards: false }
/** Only what is finalized is cached. */
const finalized = { ...confirmed, commitment: 'finalized' }
/** Long ones are not cached: which are depends on the traffic. */
const blockDetails = [
  { transactionDetails: 'signatures' },
  { transactionDetails: 'signatures', rewards: true },
  { transactionDetails: 'accounts' },
  { transactionDetails: 'full', encoding: 'base64' },
]
const codec = loadCodec()

export class SoakLoad {
  readonly counts: LoadCounts = { got: {}, failed: {}, resumed: {}, lastFailure: {} }
  readonly #server: Server
  readonly #loops: Promise<void>[] = []
  readonly #ends: (() => unknown)[] = []
  #isRunning = true

  constructor(server: Server) {
    this.#server = server
  }

  async start(): Promise<void> {
    await this.#receiveShreds()
    const loops: Record<string, [everyMs: number, step: () => Promise<void>]> = {
      rpc: [200, () => this.#calls()],
      history: [400, () => this.#olderBlock()],
      indexer: [1_000, () => this.#query()],
      tpu: [1_000, () => this.#submit()],
      rest: [500, () => this.#rest()],
      websocket: [1_000, () => this.#pubsub()],
      grpc: [1_000, () => this.#updates()],
      metrics: [1_000, () => this.#frames()],
      refused: [500, () => this.#refused()],
      operator: [10_000, () => this.#operator()],
    }
    for (const [name, [everyMs, step]] of Object.entries(loops)) {
      this.counts.failed[name] = 0
      this.counts.got[name] ??= 0
      this.#loops.push(this.#repeat(name, everyMs, step))
    }
  }

  /** Every endpoint has; older blocks exist only after a while. */
  get isAnswered(): boolean {
    return Object.entries(this.counts.got).every(([name, got]) => got > 0 || name === 'history')
  }

  async stop(): Promise<void> {
    this.#isRunning = false
    for (const end of this.#ends.splice(0)) end()
    await Promise.all(this.#loops)
  }

  async #repeat(name: string, everyMs: number, step: () => Promise<void>): Promise<void> {
    while (this.#isRunning) {
      const nextMs = performance.now() + everyMs
      try {
        await step()
      } catch (error) {
        if (!this.#isRunning) return
        this.counts.failed[name] = (this.counts.failed[name] ?? 0) + 1
        this.counts.lastFailure[name] = messageOf(error)
      }
      await pause(Math.max(1, nextMs - performance.now()))
    }
  }

  #got(name: string, count = 1): void {
    this.counts.got[name] = (this.counts.got[name] ?? 0) + count
  }

  #resumed(name: string): void {
    this.counts.resumed[name] = (this.counts.resumed[name] ?? 0) + 1
  }

  /** Streams live for `streamMs`, or to the end of the soak. */
  async #streamed(): Promise<void> {
    const endMs = performance.now() + streamMs
    while (this.#isRunning && performance.now() < endMs) await pause(200)
  }

  // biome-ignore lint/suspicious/noExplicitAny: results of many methods.
  async #call(endpoint: 'rpc' | 'tpu', method: string, ...params: unknown[]): Promise<any> {
    const response = await fetch(this.#server.url(endpoint), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-token': this.#server.token },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
    const answer = (await response.json()) as { result?: unknown; error?: { message: string } }
    if (answer.result === undefined) throw new Error(`${method}: ${answer.error?.message}`)
    return answer.result
  }

  async #calls(): Promise<void> {
    const slot = await this.#call('rpc', 'getSlot', { commitment: 'confirmed' })
    const block = await this.#call('rpc', 'getBlock', slot, confirmed)
    const transaction = block?.transactions?.[0]?.transaction
    this.#got('rpc', 2)
    if (transaction === undefined) return
    const [payer, other] = transaction.message.accountKeys
    await this.#call('rpc', 'getTransaction', transaction.signatures[0], confirmed)
    await this.#call('rpc', 'getBalance', payer)
    await this.#call('rpc', 'getAccountInfo', other, { encoding: 'base64' })
    await this.#call('rpc', 'getSignaturesForAddress', payer, { limit: 20 })
    this.#got('rpc', 4)
  }

  #older = 0

  async #olderBlock(): Promise<void> {
    const slot: number = await this.#call('rpc', 'getSlot', { commitment: 'finalized' })
    const oldest: number = await this.#call('rpc', 'getFirstAvailableBlock')
    // The oldest are removed while they are asked for.
    const first = oldest + removedSlots
    const last = slot - olderSlots
    if (last < first) return
    this.#older = Math.max(first, this.#older + 1)
    if (this.#older > last) this.#older = first
    for (const details of blockDetails)
      await this.#call('rpc', 'getBlock', this.#older, { ...finalized, ...details })
    this.#got('history', blockDetails.length)
  }

  #queries = 0

  async #query(): Promise<void> {
    const { user, password } = this.#server.indexer
    const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
    const headers = { authorization, 'x-token': this.#server.token }
    const texts = [
      'SELECT slot, count() FROM chain.transactions GROUP BY slot ORDER BY slot DESC LIMIT 1000',
      'SELECT * FROM chain.transactions ORDER BY slot DESC LIMIT 200',
      'SELECT count() FROM chain.transactions',
    ]
    const sql = texts[this.#queries++ % texts.length]!
    const url = `${this.#server.url('indexer')}/?query=${encodeURIComponent(sql)}`
    const answer = await fetch(url, { headers })
    const text = await answer.text()
    if (!answer.ok) throw new Error(text.slice(0, 200))
    this.#got('indexer')
  }

  #payer: ReturnType<typeof newPayer> | null = null
  #tip = 1_000_000n

  async #submit(): Promise<void> {
    const isNew = this.#payer === null
    this.#payer ??= newPayer()
    const payer = await this.#payer
    if (isNew) await this.#call('rpc', 'requestAirdrop', payer.address, 1_000_000_000_000)
    const accounts: string[] = await this.#call('tpu', 'getTipAccounts')
    const latest = await this.#call('rpc', 'getLatestBlockhash', { commitment: 'confirmed' })
    // Each has a signature of its own.
    this.#tip++
    const moved = transfer({ from: payer, to: accounts[0]!, lamports: this.#tip })
    const bytes = await sign(payer, [moved], { blockhash: latest.value.blockhash })
    const sent = [Buffer.from(bytes).toString('base64'), { encoding: 'base64' }]
    await this.#call('tpu', 'sendTransaction', ...sent)
    this.#got('tpu')
  }

  async #rest(): Promise<void> {
    const paths = ['/v1/status', '/v1/tps', '/v1/contention', '/v1/blocks/lifecycle', '/health']
    for (const path of paths) {
      const answer = await fetch(`${this.#server.url('metrics')}${path}`)
      await answer.arrayBuffer()
      if (!answer.ok) throw new Error(`${path} ${answer.status}`)
    }
    const body = { jsonrpc: '2.0', id: 1, method: 'eth_getBlockByNumber', params: ['latest', true] }
    const init = { method: 'POST', body: JSON.stringify(body) }
    await (await fetch(this.#server.url('metrics'), init)).arrayBuffer()
    this.#got('rest', paths.length + 1)
  }

  #cursor: string | null = null

  async #pubsub(): Promise<void> {
    const { token } = this.#server
    const client = new PubsubClient({ url: this.#server.url('websocket'), token })
    const resume = this.#cursor === null ? {} : { resume: this.#cursor }
    if (this.#cursor !== null) this.#resumed('websocket')
    let problem: string | null = null
    const onError = ({ message }: { message: string }) => {
      problem = message
    }
    const options = { ...resume, onError, onGap: onError }
    const logs = client.subscribe('logs', ['all', { commitment: 'confirmed' }], () => {}, options)
    client.subscribe('slot', [], () => this.#got('websocket'))
    client.subscribe('block', ['all', { ...confirmed, encoding: 'base64' }], () =>
      this.#got('websocket'),
    )
    await this.#streamed()
    this.#cursor = logs.cursor
    client.close()
    if (problem !== null) throw new Error(problem)
  }

  #slot = 0

  async #updates(): Promise<void> {
    const target = new URL(this.#server.url('grpc')).host
    const client = new Client(target, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.max_receive_message_length': -1,
    })
    const metadata = new Metadata()
    metadata.set('x-token', this.#server.token)
    const plain = (bytes: Buffer) => bytes
    const path = '/geyser.Geyser/Subscribe'
    const stream = client.makeBidiStreamRequest(path, plain, plain, metadata)
    let problem: string | null = null
    stream.on('error', (error) => {
      problem = error.message
    })
    stream.on('data', (bytes: Buffer) => {
      this.#got('grpc')
      if (bytes.length > 200) return
      const update = codec.decode<{ slot?: { slot: never } | null }>(
        'geyser.SubscribeUpdate',
        bytes,
      )
      if (update?.slot != null) this.#slot = numberOf(update.slot.slot) ?? this.#slot
    })
    if (this.#slot > 0) this.#resumed('grpc')
    const request = {
      accounts: { a: {} },
      slots: { a: {} },
      transactions: { a: {} },
      blocksMeta: { a: {} },
      ...(this.#slot > 0 && { fromSlot: this.#slot }),
    }
    stream.write(Buffer.from(codec.encode('geyser.SubscribeRequest', request)))
    await this.#streamed()
    const early: string | null = problem
    stream.cancel()
    client.close()
    if (early === null) return
    // What is not kept any more cannot be asked for again.
    this.#slot = 0
    throw new Error(early)
  }

  #seq = 0
  #run: string | null = null

  async #frames(): Promise<void> {
    const client = new MetricsClient({
      url: this.#server.url('metrics'),
      ...(this.#seq > 0 && this.#run !== null && { resumeFrom: this.#seq, run: this.#run }),
    })
    if (this.#seq > 0) this.#resumed('metrics')
    for (const kind of ['TPS', 'ContentionData', 'TopAccesses', 'Lifecycle'] as const)
      client.on(kind, () => this.#got('metrics'))
    client.connect()
    await this.#streamed()
    this.#seq = client.cursor
    this.#run = client.run
    client.close()
  }

  /** What a server keeps of strangers is bounded as well. */
  async #refused(): Promise<void> {
    const token = `slu_${Math.random().toString(36).slice(2)}`
    const headers = { 'content-type': 'application/json', 'x-token': token }
    const body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
    for (const endpoint of ['rpc', 'indexer']) {
      const answer = await fetch(this.#server.url(endpoint), { method: 'POST', headers, body })
      await answer.arrayBuffer()
      if (answer.status !== 401 && answer.status !== 516)
        throw new Error(`${endpoint} answered ${answer.status} to a wrong token`)
    }
    this.#got('refused', 2)
  }

  async #operator(): Promise<void> {
    const answer = await askOperator(this.#server.data, 'status')
    if (!answer.ok) throw new Error(answer.message)
    this.#got('operator')
  }

  async #receiveShreds(): Promise<void> {
    const socket: Socket = createSocket('udp4')
    socket.on('message', (message, { address, port }) => {
      // A challenge is sent back, which proves the address.
      if (message.length === 40) socket.send(message, port, address)
      else this.#got('shredstream')
    })
    socket.bind(0, '127.0.0.1')
    await once(socket, 'listening')
    this.#ends.push(() => socket.close())
    const address = `127.0.0.1:${socket.address().port}`
    const set = await sluice(this.#server.data, 'destination', 'set', 'demo', address)
    if (set.code !== 0) throw new Error(set.stderr)
    this.counts.got.shredstream = 0
  }
}
