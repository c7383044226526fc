// The streams that the index is built from: geyser.Geyser as customers read it, the event log with
// the facts that its frames do not contain, and the facts that only this gateway has. On a Unix
// socket in the data folder, for whoever sends the secret of this start; and on a port, where one
// is configured, for enrolled indexers, until their credential is revoked. Neither is a customer:
// it counts in no meter, quota or budget of them, whatever products are enabled.
//
//   hub, stream log ── GeyserService ──┐   ┌─► <data>/index.sock ──► the index's writer process
//   event log ── Follower ─────────────┼───┤
//   tips, queries ─► FactLogs ─ Followers ┘ └─► indexer.feeds.port ─► `sluice indexer serve`
//
// A Follower is a cursor at its reader's pace: what the reader has not taken waits in the log, and
// is never replaced by what is newer. What the log evicts before that is lost, and counted.
import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../../base/clock.ts'
import { refuse } from '../../base/errors.ts'
import type { EndpointAddress } from '../../base/running.ts'
import { isCount, isText, nullOr, objectOf } from '../../base/shape.ts'
import type { Log } from '../../base/telemetry/log.ts'
import { Meters } from '../../base/telemetry/meters.ts'
import { pack, unpack } from '../../base/threads/frames.ts'
import type { Addresses } from '../../base/transport/address.ts'
import {
  type Admission,
  type GrpcMethod,
  type GrpcPeer,
  openGrpcEndpoint,
} from '../../base/transport/grpc.ts'
import type { GrpcCertificates } from '../../base/transport/grpc-bind.ts'
import type { GrpcStatus, GrpcStream, StreamEvents } from '../../base/transport/grpc-stream.ts'
import { framed, grpcCode } from '../../base/transport/grpc-stream.ts'
import { type Gate, registryExpired } from '../../customers/auth/gate.ts'
import type { Principal } from '../../customers/auth/token.ts'
import type { AddressBudget } from '../../customers/quota/rates.ts'
import { factsMax, feedCallsMax } from '../../indexer/config.ts'
import {
  type EventFact,
  type FeedItem,
  type FeedRequest,
  type FeedStart,
  feedMethods,
  type ItemFeed,
  type TipFact,
  type UsageFact,
} from '../../indexer/feed-items.ts'
import { loadCodec } from '../../streams/geyser/codec.ts'
import { type GrpcChain, statusOf } from '../../streams/geyser/fan-out.ts'
import { declareGrpcMeters } from '../../streams/geyser/meters.ts'
import { GeyserService } from '../../streams/geyser/service.ts'
import type { EventLog } from '../../streams/log/log.ts'

export interface IndexFeedsDeps {
  readonly events: FollowedLog
  /** For indexers elsewhere; null or absent without the port. */
  readonly remote?: RemoteFeeds | null
  /** The version of the package. */
  readonly version: string
  readonly clock: Clock
  readonly log: Log
}

export interface RemoteFeeds {
  readonly host: string
  readonly port: number
  readonly certificates: GrpcCertificates | null
  readonly gate: Gate
  /** Charged for calls without a valid credential. */
  readonly addressBudget: AddressBudget
  readonly addresses: Pick<Addresses, 'clientOfText' | 'isProxy'>
  readonly connectionsPerAddressMax: number
}

/** An enrolled indexer; null is the writer process of this gateway. */
type Reader = { readonly principal: Principal; readonly address: string } | null

/** As a client of the feeds takes it. */
interface OwnGateway {
  readonly address: string
  readonly xToken: string
  readonly path: string
}

export interface IndexFeeds {
  /** Where indexers elsewhere connect; null without the port. */
  readonly address: EndpointAddress | null
  /** Where this gateway's own writer process reads. */
  readonly gateways: readonly [OwnGateway]
  /** Serves the slots of this chain from now on. Called once, where a node has geyser. */
  serve(chain: GrpcChain): void
  tip(fact: TipFact): void
  usage(fact: UsageFact): void
  /** The numbers of the newest items. */
  positions(): Readonly<Record<ItemFeed, number>>
  stop(): Promise<void>
}

/** What a Follower reads: numbered items, of which the oldest are evicted. */
export type FollowedLog = Pick<
  EventLog,
  'run' | 'oldestSeq' | 'position' | 'onRestart' | 'mayReach' | 'pull'
> & {
  readonly filling: Promise<void> | null
  at(seq: number): LoggedItem | null
  listen(listener: () => void): () => void
}

/** A frame of the event log, or a fact. */
type LoggedItem = { readonly seq: number; readonly sinceMs: number } & (
  | EventFact
  | { readonly fact: TipFact | UsageFact }
)

const mebibyte = 1024 * 1024
/** The reader subscribes to everything; these bounds only protect from mistakes. */
const filterLimits = {
  ...{ filtersMax: 10, accountsMax: 10, ownersMax: 10, dataSlicesMax: 10 },
  ...{ cuckooBytesMax: mebibyte, any: true },
  accountReject: new Set<string>(),
  ownerReject: new Set<string>(),
}
/** A stream that waits for its reader with more ends, and continues with from_slot. */
const backlogBytesMax = 16 * mebibyte
const connectionsMax = 16

export async function openIndexFeeds(path: string, deps: IndexFeedsDeps): Promise<IndexFeeds> {
  const { events, clock, version } = deps
  const log = deps.log.area('indexer')
  const secret = randomBytes(32).toString('hex')
  const run = randomBytes(8).toString('hex')
  const tips = new FactLog(clock)
  const usage = new FactLog(clock)
  let chain: GrpcChain | null = null
  const lease = (reader: Reader, end: (status: GrpcStatus) => void): (() => void) => {
    if (reader === null) return () => {}
    const { principal, address } = reader
    return deps.remote!.gate.lease(principal, 'feeds', address, () => end(unauthenticated))
  }
  const geyser = new GeyserService<Reader>({
    codec: loadCodec(),
    limits: filterLimits,
    keysMax: () => filterLimits.accountsMax,
    backlogBytesMax,
    pingMs: 10_000,
    version,
    // A registry of its own: its streams are none of customers.
    meters: declareGrpcMeters(new Meters()),
    clock,
    chainOf: () => chain,
    meter() {},
    charge: () => null,
    lease,
  })
  const followers = new Set<GrpcStream>()
  const follow = (feed: ItemFeed, followed: FollowedLog): GrpcMethod<Reader> => ({
    kind: 'stream',
    path: feedMethods[feed],
    open: (stream, reader) => {
      const release = lease(reader, (status) => stream.end(status))
      followers.add(stream)
      const left = () => {
        followers.delete(stream)
        release()
      }
      return new Follower(stream, followed, { run, clock, release: left })
    },
  })
  const shared = {
    ...{ compression: [], messageBytesMax: mebibyte, log },
    ...{ keepaliveMs: 30_000, keepaliveTimeoutMs: 10_000, connectionIdleMs: 300_000 },
    methods: [
      ...geyser.methods,
      ...[follow('events', events), follow('tips', tips), follow('usage', usage)],
    ],
  }
  const local = await openGrpcEndpoint<Reader>({ ...shared, ...localOptions(path, secret) })
  const stop = async (endpoint: { stop(): Promise<void> } | null) => {
    geyser.stop(stopping)
    for (const follower of followers) follower.end(stopping)
    await Promise.all([local.stop(), endpoint?.stop()])
  }
  const remote =
    deps.remote == null
      ? null
      : await openGrpcEndpoint<Reader>({ ...shared, ...remoteOptions(deps.remote) }).catch(
          async (error: unknown) => {
            await stop(null)
            throw error
          },
        )
  return {
    address: remote?.address ?? null,
    gateways: [{ address: 'http://gateway', xToken: secret, path }],
    serve(served) {
      chain = served
      // The reader looks where the new one begins.
      served.hub.onRestart(() => geyser.endStreams(anew))
    },
    tip: (fact) => tips.push(fact),
    usage: (fact) => usage.push(fact),
    positions: () => ({ events: events.position, tips: tips.position, usage: usage.position }),
    stop: () => stop(remote),
  }
}

/** What the socket has other than the port. */
function localOptions(path: string, secret: string) {
  return {
    ...{ host: '', port: 0, path, certificates: null },
    connectionsPerAddressMax: connectionsMax,
    clientAddress: (peer: string) => peer,
    isProxy: () => false,
    admit: ({ xToken }: GrpcPeer): Admission<Reader> =>
      isSecret(xToken, secret)
        ? { ok: true, caller: null, leave() {} }
        : { ok: false, status: unauthenticated },
  }
}

/** What the port has other than the socket. */
function remoteOptions({ gate, addresses, addressBudget, ...listen }: RemoteFeeds) {
  /** Calls of each credential that are open. */
  const open = new Map<string, number>()
  const enter = (id: string, change: 1 | -1) => {
    const count = (open.get(id) ?? 0) + change
    if (count === 0) open.delete(id)
    else open.set(id, count)
  }
  return {
    ...listen,
    clientAddress: (peer: string, forwarded: string) => addresses.clientOfText(peer, forwarded),
    isProxy: (peer: string) => addresses.isProxy(peer),
    admit({ xToken = '', isRepeated: repeated, address }: GrpcPeer): Admission<Reader> {
      const principal = gate.admit('feeds', { xToken, repeated }, address)
      if (principal !== null) {
        const { id } = principal.subscription
        if ((open.get(id) ?? 0) >= feedCallsMax) return { ok: false, status: tooManyCalls }
        enter(id, 1)
        return { ok: true, caller: { principal, address }, leave: () => enter(id, -1) }
      }
      const isOver = addressBudget.admit(address, callCost) > 0
      const status = gate.isExpired() ? statusOf(registryExpired) : unauthenticated
      return { ok: false, status: isOver ? exhausted : status }
    },
  }
}

function isSecret(sent = '', secret: string): boolean {
  const bytes = Buffer.from(sent)
  return bytes.length === secret.length && timingSafeEqual(bytes, Buffer.from(secret))
}

const unauthenticated = statusOf(
  refuse('unauthenticated', 'x-token', 'x-token is missing or wrong').refusal,
)
const exhausted = statusOf(
  refuse('exhausted', 'address-budget', 'this address has used up its budget').refusal,
)
const tooManyCalls = statusOf(
  refuse('exhausted', 'calls', 'this credential has too many streams open').refusal,
)
const malformed: GrpcStatus = {
  code: grpcCode.invalidArgument,
  details: 'the request is malformed',
}
/** What a call without a valid credential costs its address. */
const callCost = { workMs: 0.5, bytes: 256 }
const isRequest = objectOf({ after: nullOr(isCount), run: isText })
const anew: GrpcStatus = { code: grpcCode.unavailable, details: 'the chain begins anew' }
const unreadable: GrpcStatus = {
  code: grpcCode.unavailable,
  details: 'this gateway cannot read the shared log',
}
const stopping: GrpcStatus = { code: grpcCode.unavailable, details: 'the server is stopping' }

/** Unsent bytes at which a Follower waits, and bytes of one write. */
const unsentBytesMax = 256 * 1024
const writeBytesMax = 64 * 1024

export interface FollowerDeps {
  readonly run: string
  readonly clock: Clock
  /** Called when the stream is closed. */
  readonly release?: () => void
}

export class Follower implements StreamEvents {
  readonly #stream: GrpcStream
  readonly #log: FollowedLog
  readonly #deps: FollowerDeps
  /** Null before the request. */
  #cursor: number | null = null
  #isScheduled = false
  #ends: (() => void)[] = []
  #frames: Buffer[] = []
  #bytes = 0

  constructor(stream: GrpcStream, log: FollowedLog, deps: FollowerDeps) {
    this.#stream = stream
    this.#log = log
    this.#deps = deps
  }

  message(bytes: Buffer): void {
    if (this.#cursor !== null) return
    // Its place may be among the older frames.
    if (this.#log.filling !== null)
      return void this.#log.filling.then(() => {
        if (this.#log.filling === null) this.message(bytes)
        else this.#stream.end(unreadable)
      })
    const request = requestIn(bytes)
    if (request === null) return void this.#stream.end(malformed)
    if (!this.#mayReach(request)) return void this.#follow(request)
    // While the shared log cannot be read, the reader goes to another gateway.
    this.#log.pull().then(
      () => this.#follow(request),
      () => this.#stream.end(unreadable),
    )
  }

  #follow(request: FeedRequest): void {
    if (this.#cursor !== null) return
    this.#begin(request)
    this.#ends = [
      this.#log.listen(() => this.#schedule()),
      this.#log.onRestart((last) => {
        this.#startAt(this.#log.position, Math.max(0, last - this.#cursor!))
        this.#schedule()
      }),
    ]
    this.#pump()
  }

  halfClosed(): void {}

  drained(): void {
    if (this.#cursor !== null) this.#pump()
  }

  closed(): void {
    for (const end of this.#ends) end()
    this.#ends = []
    this.#cursor ??= 0
    this.#isScheduled = true
    this.#deps.release?.()
  }

  get #run(): string {
    return this.#log.run ?? this.#deps.run
  }

  /** Whether it is of a gateway that is further in the shared log: what follows it will come. */
  #mayReach({ after, run }: FeedRequest): boolean {
    return after !== null && this.#log.mayReach(after, run || null)
  }

  #begin(request: FeedRequest): void {
    const { after, run } = request
    const isOfRun = (run === '' || run === this.#run) && (after ?? 0) <= this.#log.position
    if (after === null || !(isOfRun || this.#mayReach(request))) this.#startAt(this.#oldest, 0)
    else this.#startAt(Math.max(after, this.#oldest), run === '' ? 0 : this.#oldest - after)
  }

  /** One less than the oldest number. */
  get #oldest(): number {
    const { oldestSeq, position } = this.#log
    return oldestSeq === 0 ? position : oldestSeq - 1
  }

  #startAt(after: number, lost: number): void {
    this.#cursor = after
    this.#add({ run: this.#run, after, lost: Math.max(0, lost) })
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      if (this.#ends.length === 0) return
      this.#isScheduled = false
      this.#pump()
    })
  }

  /** Writes a turn's share; the rest follows in the next turn, or when the stream drained. */
  #pump(): void {
    const { clock } = this.#deps
    while (this.#bytes < writeBytesMax && this.#stream.unsentBytes < unsentBytesMax) {
      if (this.#oldest > this.#cursor!) this.#startAt(this.#oldest, this.#oldest - this.#cursor!)
      const item = this.#log.at(this.#cursor! + 1)
      if (item === null) break
      this.#cursor = item.seq
      const agoMs = Math.max(0, clock.monotonicMs() - item.sinceMs)
      this.#add({ seq: item.seq, atMs: clock.nowMs() - agoMs, content: contentOf(item) })
    }
    const isMore = this.#bytes >= writeBytesMax
    if (this.#bytes > 0) this.#stream.write(Buffer.concat(this.#frames))
    this.#frames = []
    this.#bytes = 0
    if (isMore) this.#schedule()
  }

  #add(message: FeedStart | FeedItem): void {
    const frame = framed(pack(message))
    this.#frames.push(frame)
    this.#bytes += frame.length
  }
}

function requestIn(bytes: Buffer): FeedRequest | null {
  try {
    const request = unpack(bytes)
    // Reason for the cast: its shape was checked.
    return isRequest(request) ? (request as FeedRequest) : null
  } catch {
    return null
  }
}

function contentOf(item: LoggedItem): FeedItem['content'] {
  if ('fact' in item) return item.fact
  const { seq, kind, payload, facts } = item
  return { seq, kind, payload, facts }
}

/** Facts of this gateway in memory, numbered from 1; the oldest go first. */
export class FactLog implements FollowedLog {
  readonly run = null
  readonly filling = null
  position = 0
  readonly #clock: Clock
  readonly #items: LoggedItem[] = []
  readonly #listeners = new Set<() => void>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get oldestSeq(): number {
    return this.#items[0]?.seq ?? 0
  }

  push(fact: TipFact | UsageFact): void {
    this.#items.push({ seq: ++this.position, sinceMs: this.#clock.monotonicMs(), fact })
    if (this.#items.length > factsMax) this.#items.shift()
    for (const listener of this.#listeners) listener()
  }

  at(seq: number): LoggedItem | null {
    return this.#items[seq - this.oldestSeq] ?? null
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  onRestart(): () => void {
    return () => {}
  }

  mayReach(): boolean {
    return false
  }

  async pull(): Promise<void> {}
}
