// Clients that read a chain from several gateways, are cut at random and come back at any of them,
// as the documentation says: with a consumer, with from_slot, with the cursors of PubSub.
import { type Client, Client as GrpcClient } from '@grpc/grpc-js'
import { WebSocket } from 'ws'
import { PubsubClient, type PubsubError, type PubsubTopic } from '../../src/client/node.ts'
import { ConsumerClient, lineOf } from './consumer-client.ts'
import { everything } from './geyser-everything.ts'
import { Subscription, withToken } from './grpc-stage.ts'
import { type AuditedReader, noteOf, type SlotContent, SlotLines } from './slot-audit.ts'
import { credentialsOf } from './try-endpoint.ts'

export interface Place {
  /** Addresses of the gateways now, of an endpoint. */
  urls(endpoint: string): readonly string[]
  readonly token: string
  random(): number
  /** Mean time at one gateway. */
  readonly stayMs: number
}

export const commitments = ['processed', 'confirmed', 'finalized'] as const
export const systemProgram = '1'.repeat(32)
const tokenProgram = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
/** What a gateway passes on byte for byte, live and from what is kept; no large sysvars. */
export const comparedKinds = {
  ...everything,
  accounts: { a: { account: [], owner: [systemProgram, tokenProgram], filters: [] } },
  ...{ blocks: {}, entry: {}, slots: { s: {} } },
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

function anyUrl({ urls, random }: Place, endpoint: string): string {
  const all = urls(endpoint)
  return all[Math.floor(random() * all.length)]!
}

function connect(place: Place): Client {
  const { host, protocol } = new URL(anyUrl(place, 'grpc'))
  return new GrpcClient(host, credentialsOf(protocol === 'https:'), {
    'grpc.use_local_subchannel_pool': 1,
  })
}

abstract class RoamingReader implements AuditedReader {
  readonly lines = new SlotLines()
  abstract readonly name: string
  first: number | null
  settled = 0
  cuts = 0
  isOver = false
  /** How its last stream ended, where it did so by itself. */
  lastEnd = ''
  protected readonly place: Place

  constructor(place: Place, first: number | null) {
    this.place = place
    this.first = first
  }

  abstract due(content: SlotContent): readonly string[]

  protected stayMs(): number {
    return this.place.random() * 2 * this.place.stayMs
  }
}

/** A stream with a consumer. */
export class ConsumerReader extends RoamingReader {
  readonly name: string
  readonly #commitment: number
  readonly #reader: ConsumerClient

  constructor(place: Place, name: string, request: { commitment: number; fromSlot: number }) {
    super(place, request.fromSlot)
    this.name = name
    this.#commitment = request.commitment
    this.#reader = new ConsumerClient(name, request)
  }

  due({ geyser }: SlotContent): readonly string[] {
    return geyser[this.#commitment]!
  }

  /** Until `isOver`, and then until all of the slot is committed. */
  async roam(last: () => number): Promise<void> {
    while (!this.isOver || this.settled < last()) {
      const client = connect(this.place)
      this.#reader.open(client, this.place.token)
      const { stream } = this.#reader
      const endMs = performance.now() + this.stayMs()
      while (stream.status === null && (performance.now() < endMs || this.isOver)) {
        await pause(this.place.random() * 1_000)
        await this.#reader.commit()
        this.#note()
        if (this.isOver && this.settled >= last()) break
      }
      this.lastEnd = stream.status?.details ?? ''
      if (stream.status === null) await this.#reader.cut()
      else this.#reader.ended()
      client.close()
      this.cuts++
    }
  }

  #note(): void {
    for (const line of this.#reader.committed.splice(0)) {
      const { slot, name, isFinal } = noteOf(line)
      this.lines.add(slot, name)
      if (isFinal) this.settled = Math.max(this.settled, slot)
    }
  }
}

/** A stream with `from_slot`: it drops what it has of slots that are not final, and asks for them. */
export class FromSlotReader extends RoamingReader {
  readonly name: string
  readonly #request: { readonly commitment: number; readonly fromSlot: number }
  #stream: Subscription | null = null
  #taken = 0
  #from = 0
  /** Of slots that are not final. */
  #open: { slot: number; name: string }[] = []

  constructor(place: Place, name: string, request: { commitment: number; fromSlot: number }) {
    super(place, request.fromSlot)
    this.name = name
    this.#request = request
    this.settled = request.fromSlot - 1
  }

  due({ geyser }: SlotContent): readonly string[] {
    return geyser[this.#request.commitment]!
  }

  async roam(last: () => number): Promise<void> {
    while (!this.isOver || this.settled < last()) {
      const client = connect(this.place)
      const stream = new Subscription(client, withToken(this.place.token))
      this.#from = this.settled + 1
      stream.ask({ ...this.#request, fromSlot: this.#from })
      this.#stream = stream
      this.#taken = 0
      this.#open = []
      const endMs = performance.now() + this.stayMs()
      while (stream.status === null && (performance.now() < endMs || this.isOver)) {
        await pause(this.place.random() * 1_000)
        this.#take()
        if (this.isOver && this.settled >= last()) break
      }
      this.lastEnd = stream.status?.details ?? ''
      if (stream.status === null) stream.stream.cancel()
      else if (this.isOver) await pause(200)
      client.close()
      this.cuts++
    }
  }

  #take(): void {
    const stream = this.#stream!
    for (; this.#taken < stream.updates.length; this.#taken++)
      for (const line of lineOf(stream, this.#taken)) {
        const { slot, name, isFinal } = noteOf(line)
        // A gateway that is behind has earlier slots still to finalize, and sends their statuses.
        if (slot < this.#from) continue
        this.#open.push({ slot, name })
        if (isFinal && slot > this.settled) this.#settle(slot)
      }
  }

  #settle(slot: number): void {
    this.settled = slot
    for (const one of this.#open) if (one.slot <= slot) this.lines.add(one.slot, one.name)
    this.#open = this.#open.filter((one) => one.slot > slot)
  }
}

/** One subscription of a PubSub client over all its connections. */
export class PubsubFeed implements AuditedReader {
  readonly lines = new SlotLines()
  first: number | null = null
  settled = 0
  cursor: string | null = null
  readonly topic: PubsubTopic
  readonly params: readonly unknown[]
  readonly #due: (content: SlotContent) => readonly string[]

  constructor(
    topic: PubsubTopic,
    params: readonly unknown[],
    due: (content: SlotContent) => readonly string[],
  ) {
    this.topic = topic
    this.params = params
    this.#due = due
  }

  get name(): string {
    return `${this.topic} ${JSON.stringify(this.params)}`
  }

  due(content: SlotContent): readonly string[] {
    return this.#due(content)
  }

  // biome-ignore lint/suspicious/noExplicitAny: results of every kind.
  take(result: any, cursor: string | null): void {
    const { context, value, slot: own } = Object(result)
    const slot: number = typeof result === 'number' ? result : (context?.slot ?? own)
    const account = value?.account ?? value
    const name = {
      account: () => `${account.lamports}`,
      program: () => `${value.pubkey} ${account.lamports}`,
      logs: () => value.signature,
      transaction: () => result.signature,
      slot: () => `${result.parent}`,
    }[this.topic as string]
    // Of the slot in which it begins it has the rest.
    this.first ??= slot + 1
    this.settled = Math.max(this.settled, slot - 1)
    this.cursor = cursor
    this.lines.add(slot, name?.() ?? '')
  }
}

/** A PubsubClient whose connections are cut, and which is now and then begun anew at its cursors. */
export class PubsubReader {
  readonly feeds: readonly PubsubFeed[]
  /** Gaps and refusals that end a subscription. */
  readonly problems: PubsubError[] = []
  /** Signatures that it waits for, with how often it was told. */
  readonly signatures = new Map<string, { commitment: string; told: number }>()
  cuts = 0
  isOver = false
  readonly #place: Place
  #client: PubsubClient
  #socket: WebSocket | null = null

  constructor(place: Place, feeds: readonly PubsubFeed[]) {
    this.#place = place
    this.feeds = feeds
    this.#client = this.#begin()
  }

  async roam(): Promise<void> {
    while (!this.isOver) {
      await pause(this.#place.random() * 2 * this.#place.stayMs)
      if (this.isOver) return
      this.cuts++
      const hasCursors = this.feeds.every(({ cursor }) => cursor !== null)
      if (!hasCursors || this.#place.random() < 0.7) this.#socket?.terminate()
      else {
        this.#client.close()
        this.#client = this.#begin()
      }
    }
  }

  /** Waits for a signature as web3.js does. */
  confirm(signature: string, commitment: string): void {
    this.signatures.set(signature, { commitment, told: 0 })
    this.#wait(this.#client, signature)
  }

  close(): void {
    this.isOver = true
    this.#client.close()
  }

  #begin(): PubsubClient {
    const { token } = this.#place
    const client = new PubsubClient({
      url: 'any',
      backoffMs: { first: 20, most: 500 },
      open: () => {
        const url = anyUrl(this.#place, 'websocket')
        this.#socket = new WebSocket(url, { headers: { 'x-token': token } })
        return this.#socket
      },
    })
    for (const feed of this.feeds) {
      const onGap = (error: PubsubError) => void this.problems.push(error)
      const onError = (error: PubsubError) => {
        if (error.code === -32602) this.problems.push(error)
      }
      const resume = feed.cursor === null ? {} : { resume: feed.cursor }
      const take = (result: unknown, cursor: string | null) => feed.take(result, cursor)
      client.subscribe(feed.topic, feed.params, take, { onGap, onError, ...resume })
    }
    for (const [signature, { told }] of this.signatures)
      if (told === 0) this.#wait(client, signature)
    return client
  }

  #wait(client: PubsubClient, signature: string): void {
    const waited = this.signatures.get(signature)!
    const params = [signature, { commitment: waited.commitment }]
    client.subscribe('signature', params, () => void waited.told++)
  }
}

/** Two subscriptions for each client, so that all clients together have each kind. */
export function feedsOf(index: number, accounts: readonly string[]): PubsubFeed[] {
  const account = accounts[index % accounts.length]!
  const program = [systemProgram, tokenProgram][index % 2]!
  const all = commitments.flatMap((commitment) => {
    const config = { commitment, encoding: 'base64' }
    const details = { transactionDetails: 'signatures', maxSupportedTransactionVersion: 0 }
    return [
      () => new PubsubFeed('logs', ['all', { commitment }], ({ signatures }) => signatures),
      () =>
        new PubsubFeed(
          'transaction',
          [{}, { commitment, ...details }],
          ({ signatures }) => signatures,
        ),
      () =>
        new PubsubFeed('account', [account, config], (content) => {
          const state = content.accounts.get(account)
          return state === undefined ? [] : [`${state.lamports}`]
        }),
      () =>
        new PubsubFeed('program', [program, config], (content) =>
          [...content.accounts]
            .filter(([, { owner }]) => owner === program)
            .map(([key, { lamports }]) => `${key} ${lamports}`),
        ),
    ]
  })
  const whole = ['all', { commitment: 'confirmed', transactionDetails: 'none' }]
  const others = [
    () => new PubsubFeed('slot', [], ({ parent }) => [`${parent}`]),
    () => new PubsubFeed('root', [], () => ['']),
    () => new PubsubFeed('block', whole, () => ['']),
  ]
  // Those of every slot first: a run with few clients has them all.
  const ordered = [...others, ...all]
  return [index * 2, index * 2 + 1].map((at) => ordered[at % ordered.length]!())
}
