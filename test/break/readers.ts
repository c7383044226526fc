// Clients that read everything with cursors, consumers and from_slot while the service is broken, and
// the audit that compares what they have with what the node itself has, slot by slot.
import { Client, credentials } from '@grpc/grpc-js'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { decodeFrame } from '../../src/streams/log/shared-events.ts'
import { Rover } from '../cluster/rover.ts'
import { Subscription, withToken } from '../testkit/grpc-stage.ts'
import {
  ConsumerReader,
  commitments,
  comparedKinds,
  FromSlotReader,
  feedsOf,
  type Place,
  PubsubReader,
  systemProgram,
} from '../testkit/roaming-readers.ts'
import { NodeContent, SlotAudit } from '../testkit/slot-audit.ts'
import { until } from '../testkit/until.ts'
import type { Stage } from './stage.ts'

const stayMs = 8_000

export class Readers {
  readonly audit: SlotAudit
  readonly pubsub: PubsubReader[] = []
  readonly geyser: (ConsumerReader | FromSlotReader)[] = []
  readonly events: Rover[] = []
  /** The first slot that is compared. */
  readonly from: number
  readonly #stage: Stage
  readonly #random: () => number
  readonly #node: readonly Client[]
  readonly #contents = new Map<number, string>()
  #last = Number.MAX_SAFE_INTEGER
  #roaming: Promise<unknown> = Promise.resolve()
  /** Why a reader gave up. */
  readonly problems: string[] = []

  private constructor(stage: Stage, random: () => number, oracle: Oracle) {
    this.#stage = stage
    this.#random = random
    this.from = oracle.from
    this.#node = oracle.clients
    this.audit = new SlotAudit(stage.node, new NodeContent(oracle.streams), oracle.from)
  }

  static async open(stage: Stage, random: () => number, clients: number): Promise<Readers> {
    const oracle = await openOracle(stage)
    const readers = new Readers(stage, random, oracle)
    const place = await readers.#place('readers')
    for (let index = 0; index < clients; index++) {
      readers.pubsub.push(new PubsubReader(place, feedsOf(index, oracle.accounts)))
      const request = { ...comparedKinds, commitment: index % 3, fromSlot: oracle.from }
      readers.geyser.push(new ConsumerReader(place, `consumer-${index}`, request))
      readers.geyser.push(new FromSlotReader(place, `from-slot-${index}`, request))
      // Without a cluster the numbers of events begin anew with each process.
      if (stage.postgres !== null) readers.events.push(readers.#rover())
    }
    readers.#roam()
    return readers
  }

  get audited() {
    return [...this.pubsub.flatMap(({ feeds }) => feeds), ...this.geyser]
  }

  get cuts(): number {
    const moved = this.events.reduce((sum, one) => sum + one.connections, 0)
    return [...this.pubsub, ...this.geyser].reduce((sum, { cuts }) => sum + cuts, moved)
  }

  /** Reads on to a slot that begins now, at every reader, and compares all of it. */
  async finish(hangMs: number): Promise<void> {
    this.#last = await this.#stage.slotNow()
    for (const reader of [...this.geyser, ...this.pubsub]) reader.isOver = true
    for (const rover of this.events) rover.settle()
    const last = this.#last
    const isDone = async () => {
      await this.audit.compare(this.audited, last)
      return this.audit.next > last || this.problems.length > 0
    }
    await until(isDone, 'all slots', hangMs).catch(() => {
      const late = this.audited.filter(({ first, settled }) => first === null || settled < last)
      const names = [...new Set(late.map(({ name, settled }) => `${name} at ${settled}`))]
      this.problems.push(`not at slot ${last}: ${names.slice(0, 5).join('; ')}`)
    })
    if (this.problems.length === 0) await this.#roaming
    const waited = this.pubsub.flatMap(({ signatures }) => [...signatures.values()])
    const isTold = () => waited.every(({ told }) => told > 0)
    await until(isTold, 'every signature', hangMs).catch(() => {})
    const newest = Math.max(0, ...this.#contents.keys())
    const isRead = () => this.events.every(({ cursor }) => cursor >= newest)
    await until(isRead, 'all events', hangMs).catch(() => {
      const late = this.events.filter(({ cursor }) => cursor < newest)
      this.problems.push(`${late.length} event clients are not at ${newest}`)
    })
  }

  get last(): number {
    return this.#last
  }

  /** Frames of the database that no client has, or has otherwise. */
  async checkFrames(): Promise<string[]> {
    const first = Math.min(...this.events.map((rover) => rover.first))
    const numbers = [...this.#contents.keys()].filter((seq) => seq >= first)
    const rows = await this.#stage.postgres!.sql<{ seq: string; frame: Buffer }>(
      'SELECT seq, frame FROM sluice.event_frames WHERE seq BETWEEN $1 AND $2 ORDER BY seq',
      [first, Math.max(...numbers)],
    )
    const wrong = rows.filter(({ seq, frame }) => {
      const { kind, payload } = decodeFrame(frame, 0)!
      return this.#contents.get(Number(seq)) !== `{"seq":${seq},"${kind}":${payload}}`
    })
    return wrong.map(({ seq }) => `event ${seq} is not what the database has`)
  }

  close(): void {
    for (const reader of this.pubsub) reader.close()
    for (const rover of this.events) rover.end()
    for (const client of this.#node) client.close()
  }

  #roam(): void {
    const all = [
      ...this.geyser.map((reader) => reader.roam(() => this.#last)),
      ...this.pubsub.map((reader) => reader.roam()),
    ]
    this.#roaming = Promise.all(all).catch((error) => void this.problems.push(String(error)))
  }

  #rover(): Rover {
    const urls = () => this.#stage.urls('metrics').map((url) => url.replace('http', 'ws'))
    return new Rover({ urls, contents: this.#contents, random: this.#random, stayMs })
  }

  async #place(label: string): Promise<Place> {
    const { token } = await this.#stage.provision(label)
    const urls = (endpoint: string) => this.#stage.urls(endpoint)
    return { urls, token, random: this.#random, stayMs }
  }
}

interface Oracle {
  readonly clients: readonly Client[]
  /** Of the node itself, one per commitment. */
  readonly streams: readonly Subscription[]
  /** Some that are written. */
  readonly accounts: readonly string[]
  /** The first slot of which the streams have everything. */
  readonly from: number
}

async function openOracle(stage: Stage): Promise<Oracle> {
  const clients = commitments.map(
    () => new Client(new URL(stage.devnode.url('grpc')).host, credentials.createInsecure()),
  )
  const streams = clients.map((client, commitment) => {
    const stream = new Subscription(client, withToken('none'))
    stream.ask({ ...comparedKinds, commitment })
    return stream
  })
  const seen = () => streams[0]!.of('account').map(({ account }) => account)
  await until(() => seen().length > 20, 'accounts')
  const isPaid = (owner: Uint8Array) => encodeBase58(owner) === systemProgram
  const accounts = new Set(
    seen().flatMap(({ pubkey, owner }) => (isPaid(owner) ? [encodeBase58(pubkey)] : [])),
  )
  const from = (await stage.slotNow()) + 2
  await until(async () => (await stage.slotNow()) > from, 'a later slot')
  return { clients, streams, accounts: [...accounts], from }
}
