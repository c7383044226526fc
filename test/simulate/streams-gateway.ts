// A gateway of the streams world: everything between the messages of a node and those to clients.
// Real: tracker, hub, log and its thread's code, replays, PubSub with its connections, gRPC with
// its streams and consumers. Models: the disk, the sockets, the table of consumers.
import { isCommitment } from '../../src/base/commitment.ts'
import type { Answer } from '../../src/base/jsonrpc/build.ts'
import { type Log, silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import {
  framePrefixBytes,
  type GrpcStatus,
  type GrpcStream,
  grpcCode,
  type StreamEvents,
} from '../../src/base/transport/grpc-stream.ts'
import type { Socket } from '../../src/base/transport/websocket.ts'
import { type SolanaUpdate, slotStatus } from '../../src/chain/solana/updates.ts'
import type { Gate } from '../../src/customers/auth/gate.ts'
import type { Principal } from '../../src/customers/auth/token.ts'
import {
  Consumers,
  type ConsumerTable,
  type HeldName,
} from '../../src/customers/subscriptions/consumers.ts'
import { Subscriptions } from '../../src/products/websocket/handle.ts'
import { PubsubConnection } from '../../src/products/websocket/server.ts'
import type { GrpcChain } from '../../src/streams/geyser/fan-out.ts'
import { declareGrpcMeters } from '../../src/streams/geyser/meters.ts'
import { PublishedSlots } from '../../src/streams/geyser/position.ts'
import { GeyserService } from '../../src/streams/geyser/service.ts'
import type { PubsubChain } from '../../src/streams/pubsub/chain.ts'
import { declareSubscriptionMeters } from '../../src/streams/pubsub/notifier.ts'
import type { LogBounds } from '../../src/streams/segments/segment-writer.ts'
import { limits } from '../testkit/filter-limits.ts'
import { batchFrom, messageOf } from '../testkit/geyser-messages.ts'
import { budgetOn } from '../testkit/loose-session.ts'
import { idleChain } from '../testkit/pubsub-chain.ts'
import { codec } from '../testkit/void-readers.ts'
import { SimulatedDisk } from './disk.ts'
import { Server } from './segments.ts'
import { inOrderOf, type ModelChain, type Sent } from './streams-chain.ts'
import type { VirtualTime } from './virtual-time.ts'

/** Sockets take little here, so that a reader of few updates is slow. */
const scale = 8
const unsentBytesMax = 60_000
/** Updates of about two slots. */
const brokenBehindMax = 60
/** Of about one slot. */
const skippedMax = 20
const backlogBytesMax = 120_000
const caller = 'sub'
const roomy = { subscriptionsPerConnection: 100, distinctSubscriptions: 0 }
const restarting: GrpcStatus = { code: grpcCode.unavailable, details: 'stopped' }

/** A Subscribe call whose reader is as slow as it likes. */
export class GrpcLink implements GrpcStream {
  readonly encoding = null
  readonly #headers: Readonly<Record<string, string>>
  #unread: { readonly frames: Buffer; readonly sent: (() => void) | undefined }[] = []
  #bytes = 0
  #carry = Buffer.alloc(0)
  status: GrpcStatus | null = null

  constructor(headers: Readonly<Record<string, string>>) {
    this.#headers = headers
  }

  header(name: string): string | undefined {
    return this.#headers[name]
  }

  get unsentBytes(): number {
    return this.#bytes * scale
  }

  write(frames: Buffer, sent?: () => void): boolean {
    this.#unread.push({ frames, sent })
    this.#bytes += frames.length
    return false
  }

  end(status: GrpcStatus): void {
    this.status ??= status
  }

  /** Whole messages; what they were read from is used again. */
  read(writes: number): Buffer[] {
    const taken = this.#unread.splice(0, Math.ceil(writes))
    const parts = taken.map(({ frames }) => Buffer.from(frames))
    for (const { frames, sent } of taken) {
      this.#bytes -= frames.length
      sent?.()
    }
    const bytes = Buffer.concat([this.#carry, ...parts])
    const messages: Buffer[] = []
    let at = 0
    while (bytes.length >= at + framePrefixBytes) {
      const end = at + framePrefixBytes + bytes.readUInt32BE(at + 1)
      if (end > bytes.length) break
      messages.push(bytes.subarray(at + framePrefixBytes, end))
      at = end
    }
    this.#carry = bytes.subarray(at)
    return messages
  }

  get isRead(): boolean {
    return this.#unread.length === 0
  }
}

/** A WebSocket connection whose reader is as slow as it likes. */
export class PubsubLink {
  readonly address = '127.0.0.1'
  readonly topics = new Set<string>()
  readonly connection: PubsubConnection
  #unread: string[] = []
  #bytes = 0
  isEnded = false

  constructor(connection: PubsubConnection) {
    this.connection = connection
  }

  get unsentBytes(): number {
    return this.#bytes
  }

  send(message: string | Uint8Array): 'sent' {
    if (this.isEnded) return 'sent'
    const text = typeof message === 'string' ? message : Buffer.from(message).toString()
    this.#unread.push(text)
    this.#bytes += text.length
    return 'sent'
  }

  subscribe(topic: string): void {
    this.topics.add(topic)
  }

  unsubscribe(topic: string): void {
    this.topics.delete(topic)
  }

  end(): void {
    this.isEnded = true
  }

  read(messages: number): string[] {
    const taken = this.#unread.splice(0, Math.ceil(messages))
    for (const { length } of taken) this.#bytes -= length
    return taken
  }
}

interface ModelRow {
  readonly term: number
  readonly position: string | null
  readonly batch: number
}

/** The consumers of the cluster, in a database that may be away. */
export class ModelTable implements ConsumerTable {
  readonly #time: VirtualTime
  readonly #rows = new Map<string, ModelRow>()
  /** Positions where the last streams began. */
  readonly #opened = new Map<string, string | null>()
  awayUntilMs = 0

  constructor(time: VirtualTime) {
    this.#time = time
  }

  async open(id: string, name: string) {
    await this.#answer()
    const known = this.#rows.get(`${id} ${name}`)
    const row = { term: (known?.term ?? 0) + 1, position: known?.position ?? null, batch: 0 }
    this.#rows.set(`${id} ${name}`, row)
    this.#opened.set(`${id} ${name}`, row.position)
    return row
  }

  async commit(held: readonly HeldName[], batch = 0): Promise<readonly HeldName[]> {
    // Now and then a statement waits in its session, and takes effect after it was given up.
    if (this.#time.random() < 0.05) {
      setTimeout(() => this.#store(held, batch), 3_000 * this.#time.random())
      throw new Error('no answer in time')
    }
    await this.#answer()
    const lost = this.#store(held, batch)
    await this.#answer()
    return lost
  }

  #store(held: readonly HeldName[], batch: number): HeldName[] {
    const lost: HeldName[] = []
    for (const one of held) {
      const key = `${one.id} ${one.name}`
      const { term, position } = one
      const known = this.#rows.get(key)
      if (known?.term !== term) lost.push(one)
      else if (position !== null && known.batch <= batch)
        this.#rows.set(key, { term, position, batch })
    }
    return lost
  }

  positionOf(id: string, name: string): string | null {
    return this.#rows.get(`${id} ${name}`)?.position ?? null
  }

  openedAt(id: string, name: string): string | null {
    return this.#opened.get(`${id} ${name}`) ?? null
  }

  async list(): Promise<never[]> {
    return []
  }

  async remove(): Promise<number> {
    return 0
  }

  /** The one before has its effect, the one after may be lost with the answer. */
  async #answer(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 1 + 20 * this.#time.random()))
    if (this.#time.ms < this.awayUntilMs) throw new Error('away')
  }
}

export interface GatewayDeps {
  readonly time: VirtualTime
  readonly chain: ModelChain
  readonly table: ModelTable
  readonly bounds: LogBounds
  /** No replay has forks, nor a bank that another one of its slot replaced. */
  readonly lacksVoidBanks: boolean
  /** Whether a node that comes back skips something, and how much. */
  skips(): number
  /** Of an error that is ours. */
  problem(what: string): void
  count(what: string): void
  trace(line: string): void
}

/** Of a gateway: everything in its own order, and what of it is still to be read. */
interface Node {
  readonly sent: readonly Sent[]
  queue: Sent[]
  lag: number
}

/** What a node sends only while it happens. */
function isLifeCycle(update: SolanaUpdate): boolean {
  return update.kind === 'slot' && !isCommitment(update.status)
}

export class StreamsGateway {
  readonly name: string
  readonly disk: SimulatedDisk
  readonly #deps: GatewayDeps
  /** One, or two whose streams are merged. */
  readonly #nodes: readonly Node[]
  isUp = false
  server!: Server
  #fed = -1
  /** What its nodes had sent when it started. */
  #startedAt = -1
  /** The node that is to be cut, and what it had sent then. */
  #breaking: number | null = null
  #brokenAt = -1
  #connectedMs = 0
  #subscriptions!: Subscriptions
  #pubsub!: PubsubChain
  #geyser!: GeyserService<string>
  #consumers!: Consumers
  readonly #links = new Set<PubsubLink>()
  readonly #streams = new Map<GrpcStream, StreamEvents>()

  constructor(deps: GatewayDeps, number: number) {
    this.#deps = deps
    this.name = `g${number}`
    this.disk = new SimulatedDisk(`/simulated/g${number}`, deps.time.random, number + 1)
    const orders = deps.time.random() < 0.3 ? [number + 1] : [number + 1, number + 3]
    this.#nodes = orders.map((order, index) => {
      return { sent: inOrderOf(deps.chain, order, index > 0), queue: [], lag: 0 }
    })
  }

  /** Its nodes are behind the chain, in updates; or one of them. */
  fallBehind(updates: number, isOne = false): void {
    // What a node left out is waited for a few slots.
    if (this.#isBroken && updates > brokenBehindMax) return
    const one = Math.floor(this.#deps.time.random() * this.#nodes.length)
    for (const [number, node] of this.#nodes.entries())
      if (!isOne || number === one) node.lag = updates
  }

  /** One of them is, and its connection ends: the next one replays what is open. */
  cutNode(head: number, lag: number): void {
    if (!this.isUp) return
    // Until all nodes are where it began, it has slots that only the last one of them sends.
    if (this.#nodes.some(({ queue }) => (queue[0]?.at ?? Infinity) <= this.#startedAt)) return
    const { sink } = this.server
    const from = sink.resumeFrom()
    if (from === null) return
    this.#deps.count('nodeCuts')
    const number = Math.floor(this.#deps.time.random() * this.#nodes.length)
    const node = this.#nodes[number]!
    const has = head - node.lag
    node.lag = lag
    this.#deps.trace(`${this.name} has node ${number} again, from ${from}`)
    sink.closed(number)
    sink.opened(from, number)
    const { line } = this.#deps.chain
    const clean = new Set(line.filter(({ isClean }) => isClean).map(({ slot }) => slot))
    node.queue = node.sent.filter(({ at, update }) => {
      const isLeftOut = clean.has(update.slot) && isLifeCycle(update)
      return at > has || (update.slot >= from && !isLeftOut)
    })
  }

  /** One of two nodes is behind the other, which is cut after a slot and comes back at once. */
  breakNode(): void {
    if (this.#nodes.length === 1 || this.#isBroken) return
    this.#breaking = Math.floor(this.#deps.time.random() * 2)
    for (const [number, node] of this.#nodes.entries())
      node.lag = number === this.#breaking ? 0 : brokenBehindMax * this.#deps.time.random()
  }

  /** A node has still to send what the other one has left out. */
  get #isBroken(): boolean {
    return this.#nodes.some(({ queue }) => (queue[0]?.at ?? Infinity) <= this.#brokenAt)
  }

  /** It has no replay: its next connection begins behind what it sent last, or some updates later. */
  #breakAfter(number: number, updates: Sent[]): boolean {
    const last = updates.findIndex(
      ({ update }) => update.kind === 'slot' && update.status === slotStatus.processed,
    )
    const behind = this.#nodes[1 - number]?.queue[0]?.at ?? Infinity
    if (this.#breaking !== number || last < 0 || behind <= this.#startedAt) return false
    const { at } = updates[last]!
    if (behind > at || at - behind > 2 * brokenBehindMax) return false
    const { queue } = this.#nodes[number]!
    queue.unshift(...updates.splice(last + 1))
    this.#breaking = null
    this.#brokenAt = at
    const skipped = Math.floor(this.#deps.skips() * skippedMax)
    const { slot } = queue.splice(0, skipped).at(-1)?.update ?? { slot: null }
    if (slot === null) return true
    // The slot that it begins inside of, only the other one sends.
    const isNext = ({ update }: Sent) =>
      update.slot > slot && update.kind === 'slot' && update.status === slotStatus.createdBank
    this.#deps.count('skips')
    this.#brokenAt = queue.find(isNext)?.at ?? Infinity
    this.#startedAt = Math.max(this.#startedAt, this.#brokenAt)
    return true
  }

  /** A process starts; `head`: the last update that its node has. */
  async start(head: number): Promise<void> {
    const { time, bounds } = this.#deps
    this.disk.revive()
    const memorySlots = time.random() < 0.5 ? 4 : 16
    const folder = `${this.disk.root}/streams`
    this.server = new Server(time, { folder, bounds, memorySlots })
    const { log, sink } = this.server
    let isReady = false
    void log.ready.then(() => {
      isReady = true
    })
    while (!isReady) await time.advance(10)
    this.#openEndpoints()
    const low = log.resumeSlot
    // Now and then no node goes back as far.
    const isContinued = low !== null && time.random() < 0.9
    if (low !== null) this.#deps.count(isContinued ? 'continued' : 'discontinued')
    this.#deps.trace(`${this.name} starts at ${isContinued ? low : 'the head'}, fed ${this.#fed}`)
    this.#startedAt = head
    this.#breaking = null
    this.#brokenAt = -1
    this.#connectedMs = time.ms + (time.random() < 0.5 ? 0 : 1_000 * time.random())
    // Nodes replay forks, or do not have them any more.
    const line = new Set(this.#deps.chain.line.map(({ slot }) => slot))
    const { chain, lacksVoidBanks } = this.#deps
    const hasForks = time.random() < 0.5 && !lacksVoidBanks
    const isVoid = (at: number) => lacksVoidBanks && (chain.voidUntil.get(at) ?? head + 1) <= head
    const isReplayed = ({ at, update }: Sent) =>
      hasForks || at > head || (line.has(update.slot) && !isVoid(at))
    for (const [number, node] of this.#nodes.entries()) {
      sink.opened(isContinued ? low : null, number)
      node.queue = isContinued
        ? node.sent.filter((one) => one.update.slot >= low && isReplayed(one))
        : node.sent.filter(({ at }) => at > Math.max(head, this.#fed))
    }
    this.isUp = true
  }

  #openEndpoints(): void {
    const { time, table } = this.#deps
    const { clock } = time
    const { hub, log: streamLog } = this.server
    const error = (what: string, fields: object = {}) =>
      this.#deps.problem(`${what} ${JSON.stringify(fields)}`)
    const log: Log = { ...silentLog, error }
    const meters = declareSubscriptionMeters(new Meters())
    this.#subscriptions = new Subscriptions({ meters, clock, log })
    this.#subscriptions.usePublisher((topic, message, atOnce) => {
      if (atOnce !== undefined) for (const session of atOnce) session.sendNow(message)
      else for (const link of this.#links) if (link.topics.has(topic)) link.send(message)
    })
    this.#pubsub = idleChain({ hub, streamLog })
    this.#consumers = new Consumers({ table, clock, log: silentLog })
    const chain: GrpcChain = {
      ...{ hub, streamLog, published: new PublishedSlots(hub) },
      // Reason for the cast: no unary method is called.
      heads: {} as GrpcChain['heads'],
      isUp: () => true,
      watch: () => () => {},
      solanaVersion: () => '',
    }
    this.#geyser = new GeyserService<string>({
      ...{ codec, limits, backlogBytesMax, clock, pingMs: 15_000, version: '' },
      meters: declareGrpcMeters(new Meters()),
      keysMax: () => 100,
      chainOf: () => chain,
      consumersOf: (id) => this.#consumers.of(id),
      meter() {},
      charge: () => null,
      lease: () => () => {},
    })
  }

  /** Takes a batch of what each node has. */
  feed(head: number): void {
    if (!this.isUp || this.#deps.time.ms < this.#connectedMs) return
    for (const [number, node] of this.#nodes.entries()) {
      const updates: Sent[] = []
      const most = 1 + Math.floor(this.#deps.time.random() * 60)
      while (updates.length < most && (node.queue[0]?.at ?? Infinity) <= head - node.lag)
        updates.push(node.queue.shift()!)
      if (updates.length === 0) continue
      const isBroken = this.#breakAfter(number, updates)
      this.#fed = Math.max(this.#fed, updates.at(-1)!.at)
      this.server.sink.batch(batchFrom(updates.map(({ update }) => messageOf(update))), number)
      if (!isBroken) continue
      this.#deps.count('breaks')
      this.#deps.trace(`${this.name} has node ${number} again, without a replay`)
      this.server.sink.closed(number)
      this.server.sink.opened(null, number)
    }
  }

  /** It is told to end: its streams do, and for a moment calls still arrive. */
  drain(): void {
    this.#geyser.stop(restarting)
  }

  /** The process is gone, with all connections. */
  kill(): void {
    this.isUp = false
    this.server.isDead = true
    this.#links.clear()
    this.#streams.clear()
    this.#subscriptions.stop()
    this.#geyser.stop(restarting)
    void this.#consumers.stop()
    void this.server.log.stop()
  }

  async stop(): Promise<void> {
    if (!this.isUp) return
    this.#subscriptions.stop()
    this.#geyser.stop(restarting)
    await Promise.all([this.#consumers.stop(), this.server.log.stop()])
  }

  // Clients.

  /** Begins with the oldest slot that is whole here; null while there is none. */
  begin<T>(make: (firstSlot: number) => T): T | null {
    const { newestSlot } = this.server.hub
    return newestSlot === null ? null : make(newestSlot + 1)
  }

  /** What is committed of a consumer. */
  storedOf(name: string): string | null {
    return this.#deps.table.positionOf(caller, name)
  }

  /** What was committed when its last stream began. */
  openedAt(name: string): string | null {
    return this.#deps.table.openedAt(caller, name)
  }

  connectPubsub(): PubsubLink {
    const { clock } = this.#deps.time
    const budget = budgetOn(roomy, clock)
    budget.enter('connections')
    const connection = new PubsubConnection({
      ...{ budget, unsentBytesMax, engine: this.#subscriptions.engineOf(this.#pubsub) },
      principal: {} as Principal,
    })
    const link = new PubsubLink(connection)
    // Reason for the casts: tokens live as long as they are asked for here.
    const gate = { lease: () => () => {} } as unknown as Gate
    connection.open(link as unknown as Socket<PubsubConnection>, gate)
    this.#links.add(link)
    return link
  }

  callPubsub({ connection }: PubsubLink, method: string, params: readonly unknown[]): Answer {
    const call = { method, params, paramsText: '', id: '1' }
    // Reason for the cast: subscribes are answered at once.
    return this.#subscriptions.methods[method]!(call, connection) as Answer
  }

  disconnect(link: PubsubLink): void {
    link.isEnded = true
    if (this.#links.delete(link)) link.connection.close()
  }

  openStream(stream: GrpcStream): void {
    const method = this.#geyser.methods.find(({ path }) => path.endsWith('/Subscribe'))
    if (method?.kind !== 'stream') throw new Error('Subscribe is a stream')
    this.#streams.set(stream, method.open(stream, caller))
  }

  sendTo(stream: GrpcStream, message: Buffer): void {
    this.#streams.get(stream)?.message(message)
  }

  drained(stream: GrpcStream): void {
    this.#streams.get(stream)?.drained()
  }

  closeStream(stream: GrpcStream): void {
    this.#streams.get(stream)?.closed()
    this.#streams.delete(stream)
  }
}
