// The websocket endpoint over a synthetic chain: a client that keeps what it receives, and a
// hub that the test advances.
import { once } from 'node:events'
import { WebSocket } from 'ws'
import type { Running } from '../../src/base/running.ts'
import { keyOf } from '../../src/chain/solana/base58.ts'
import type { AccountData } from '../../src/chain/solana/json-parsed/parsed.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { declareWebsocketMeters } from '../../src/products/websocket/meters.ts'
import { openSolanaHub, publishUpdate } from '../../src/streams/geyser/hub.ts'
import type { LandedSignature, PubsubChain } from '../../src/streams/pubsub/chain.ts'
import type { SubscriptionMeters } from '../../src/streams/pubsub/notifier.ts'
import { Bundle } from './bundle.ts'
import { idleChain } from './pubsub-chain.ts'
import { type SyntheticOptions, SyntheticSolana } from './synthetic-solana.ts'
import { until } from './until.ts'

export interface Notification {
  readonly method: string
  // Reason for `any`: tests look at shapes of every kind.
  // biome-ignore lint/suspicious/noExplicitAny: see the line above.
  readonly result: any
  readonly subscription: number
}

export class SubscriptionStage {
  readonly bundle: Bundle
  readonly synthetic: SyntheticSolana
  readonly statuses = new Map<string, LandedSignature>()
  readonly accounts = new Map<string, AccountData>()
  isUp = true
  readonly chain: PubsubChain
  readonly hub: PubsubChain['hub']
  readonly #reads: Partial<PubsubChain> = {
    isUp: () => this.isUp,
    slot: () => 77,
    signatureStatus: async (signature) => this.statuses.get(keyOf(signature)) ?? null,
    readAccounts: async (keys) => keys.map((key) => this.accounts.get(keyOf(key)) ?? null),
  }
  readonly meters: SubscriptionMeters
  readonly #websocketMeters
  readonly #clients: Client[] = []
  port = 0

  /** The hub keeps as many slots for replays. */
  constructor(
    options: SyntheticOptions = {},
    plans: ConstructorParameters<typeof Bundle>[0] = {},
    replaySlots = 0,
  ) {
    this.hub = openSolanaHub({ replaySlots, replayBytesMax: replaySlots * 2 ** 20 })
    this.chain = idleChain({ ...this.#reads, hub: this.hub })
    this.bundle = new Bundle(plans)
    this.synthetic = new SyntheticSolana(options)
    this.#websocketMeters = declareWebsocketMeters(this.bundle.meters)
    this.meters = this.#websocketMeters.subscriptions
  }

  async open(section: object = {}): Promise<Running> {
    const endpoint = await this.bundle.openWebsocket({
      section: { connectionsPerAddress: 0, ...section },
      meters: this.#websocketMeters,
      chainOf: () => this.chain,
    })
    this.port = endpoint.port
    return endpoint
  }

  async connect(token = this.bundle.issue().token): Promise<Client> {
    const socket = new WebSocket(`ws://127.0.0.1:${this.port}`, { headers: { 'x-token': token } })
    socket.on('error', () => {})
    await once(socket, 'open')
    const client = new Client(socket)
    this.#clients.push(client)
    return client
  }

  /** Publishes the next slot and returns its updates. */
  step(): SolanaUpdate[] {
    const updates = this.synthetic.next()
    for (const update of updates) publishUpdate(this.hub, update)
    return updates
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.socket.terminate()
    await this.bundle.dispose()
  }
}

export class Client {
  readonly socket: WebSocket
  readonly notifications: Notification[] = []
  readonly #answers = new Map<number, (answer: never) => void>()
  #nextId = 1

  constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('message', (data) => {
      const { id, method, params, ...rest } = JSON.parse(String(data))
      if (method !== undefined) {
        this.notifications.push({ method, ...params })
        return
      }
      this.#answers.get(id)?.(rest as never)
      this.#answers.delete(id)
    })
  }

  ask(method: string, params?: unknown): Promise<{ result?: number; error?: { code: number } }> {
    const id = this.#nextId++
    const answer = new Promise<never>((resolve) => this.#answers.set(id, resolve))
    this.socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
    return answer
  }

  async subscribe(topic: string, ...params: unknown[]): Promise<number> {
    const answer = await this.ask(`${topic}Subscribe`, params)
    if (answer.result === undefined) throw new Error(JSON.stringify(answer))
    return answer.result
  }

  /** The results of one subscription so far. */
  of(subscription: number): Notification['result'][] {
    return this.notifications
      .filter((notice) => notice.subscription === subscription)
      .map(({ result }) => result)
  }

  /** Waits for as many results of a subscription. */
  async upTo(subscription: number, count: number): Promise<Notification['result'][]> {
    await until(() => this.of(subscription).length >= count, `${count} of ${subscription}`)
    return this.of(subscription)
  }
}
