// Replays what the geyser streams of a set brought, through this build's own pipeline.
//
//   batches ─► SolanaUpstream ─► hub ─► GeyserService ─► frames of every commitment
//                                    ─► PubsubEngine  ─► notifications of every topic
//                                    ─► StreamAnswers ─► answers to recorded calls
//
// Each commitment and topic has a subscription to everything; those of recorded customers are made
// where they made them. The clock is the recording's.
import type { Clock } from '../../base/clock.ts'
import { Commitment, commitmentNames } from '../../base/commitment.ts'
import { whole } from '../../base/jsonrpc/build.ts'
import { type Call, parseRequest } from '../../base/jsonrpc/parse.ts'
import { Methods, responseMessage } from '../../base/jsonrpc/serve.ts'
import type { RecordHeader } from '../../base/recording-file.ts'
import { silentLog } from '../../base/telemetry/log.ts'
import { Meters } from '../../base/telemetry/meters.ts'
import { framePrefixBytes, type StreamEvents } from '../../base/transport/grpc-stream.ts'
import { oldestShapes, shapesOf } from '../../chain/solana/version.ts'
import { StreamAnswers } from '../../streams/answers/stream-answers.ts'
import { SolanaUpstream } from '../../streams/flows/solana-upstream.ts'
import { type Codec, loadCodec } from '../../streams/geyser/codec.ts'
import { gatewayBounds, openSolanaHub } from '../../streams/geyser/hub.ts'
import { declareGrpcMeters } from '../../streams/geyser/meters.ts'
import { GeyserService } from '../../streams/geyser/service.ts'
import type { Customer, PubsubChain, Session } from '../../streams/pubsub/chain.ts'
import { PubsubEngine, subscriptionMethods } from '../../streams/pubsub/engine.ts'
import { Ids } from '../../streams/pubsub/feed.ts'
import { declareSubscriptionMeters, Notifier } from '../../streams/pubsub/notifier.ts'
import type { SetVersions } from './recorder.ts'
import type { FrameResults } from './results.ts'

/** Accounts and blocks that answers are made from. */
const answerBytes = 256 * 1024 * 1024
const batchItemsMax = 1_000_000
const never = 2 ** 31 - 1
const programs = {
  system: '11111111111111111111111111111111',
  token: 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
}
const { confirmed, finalized } = Commitment

export class SetReplay {
  readonly #set: string
  readonly #clock: Clock
  readonly #results: FrameResults
  readonly #hub = openSolanaHub(gatewayBounds)
  readonly #upstream: SolanaUpstream
  readonly #answers: StreamAnswers
  readonly #codec: Codec = loadCodec()
  readonly #geyser: GeyserService<null>
  readonly #engine: PubsubEngine
  readonly #notifier: Notifier
  readonly #methods = new Methods<Session>(subscriptionMethods(() => this.#engine))
  readonly #topics = new Map<string, Set<Session>>()
  readonly #streams = new Map<number, StreamEvents>()
  readonly #sessions = new Map<number, Session>()
  /** Of the call that is answered, and of the nodes when the recording began. */
  #versions: SetVersions = { api: '', node: '' }
  #nodeVersion = ''
  #isOver = false

  constructor(set: string, clock: Clock, results: FrameResults) {
    this.#set = set
    this.#clock = clock
    this.#results = results
    // The salt of a live hub may be a secret; any other gives other ids to the same banks.
    this.#upstream = new SolanaUpstream(this.#hub, { log: silentLog, bankSalt: 'recording' })
    this.#answers = new StreamAnswers(this.#hub, {
      isLive: () => true,
      apiVersion: () => this.#versions.api,
      nodeVersion: () => this.#versions.node,
      accounts: { bytesMax: answerBytes, read: async () => null },
      blocks: { bytesMax: answerBytes },
    })
    this.#geyser = this.#openGeyser()
    this.#notifier = new Notifier(declareSubscriptionMeters(new Meters()), clock)
    this.#notifier.publish = (topic, message, atOnce) => {
      for (const session of atOnce ?? this.#topics.get(topic) ?? []) session.sendNow(message)
    }
    this.#engine = new PubsubEngine({
      chain: this.#pubsubChain(),
      ids: new Ids(),
      notifier: this.#notifier,
      meters: declareSubscriptionMeters(new Meters()),
      clock,
      log: silentLog,
    })
    this.#subscribeToAll()
  }

  get slot(): number | null {
    return this.#hub.newestSlot
  }

  /** A record of kind `geyser`. */
  take(header: RecordHeader, body: Buffer): void {
    const stream = Number(header.stream ?? 0)
    switch (header.op) {
      case 'opened':
        this.#nodeVersion = String(header.nodeVersion ?? this.#nodeVersion)
        this.#upstream.opened(header.fromSlot as number | null, stream)
        break
      case 'closed':
        this.#upstream.closed(stream)
        break
      case 'anew':
        this.#upstream.beginAnew()
        break
      case 'batch': {
        const tableBytes = Number(header.tableBytes)
        // Copied: numbers of eight bytes must be aligned.
        const table = new Float64Array(tableBytes / Float64Array.BYTES_PER_ELEMENT)
        new Uint8Array(table.buffer).set(body.subarray(0, tableBytes))
        const [bytes, messageBytes] = [body.subarray(tableBytes), Number(header.messageBytes)]
        this.#upstream.batch({ bytes, messageBytes, table }, stream)
        // Which slice a subscription comes before depends on time.
        this.#engine.catchUp()
      }
    }
  }

  /** The whole answer, or null where something of it is not known from the recording. */
  answer(request: Buffer, versions: SetVersions): Buffer | null {
    this.#versions = versions
    const parsed = parseRequest(request, batchItemsMax)
    const answers = parsed.items.map((item) =>
      item.method === null ? null : (this.#answers.answer(item)?.answer ?? null),
    )
    if (answers.some((answer) => answer === null)) return null
    const known = answers.filter((answer) => answer !== null)
    return Buffer.from(whole(responseMessage(parsed, known, '\n')))
  }

  /** A message of a recorded gRPC stream: from here on its frames are compared, too. */
  streamMessage(connection: number, message: Buffer): void {
    const open = this.#streams.get(connection) ?? this.#openStream(`grpc customer ${connection}`)
    this.#streams.set(connection, open)
    open.message(message)
  }

  /** False for a message of a WebSocket that is not replayed. */
  socketMessage(connection: number, message: Buffer): boolean {
    const { items } = parseRequest(message, batchItemsMax)
    const isReplayed = items.every((item) => item.method !== null && isSteady(item))
    if (!isReplayed) return false
    const known = this.#sessions.get(connection)
    const session = known ?? this.#openSession(`pubsub customer ${connection}`)
    this.#sessions.set(connection, session)
    for (const item of items) void this.#methods.call(item as Call, session)
    return true
  }

  stop(): void {
    this.#isOver = true
    this.#engine.stop()
    this.#notifier.stop()
    this.#geyser.stop({ code: 0, details: '' })
  }

  #subscribeToAll(): void {
    const all = { account: [], owner: [], filters: [] }
    for (const [commitment, name] of commitmentNames.entries()) {
      const filters = { all: {} }
      const request = this.#codec.encode('geyser.SubscribeRequest', {
        ...{ accounts: { all }, slots: filters, transactions: filters, entry: filters },
        ...{ transactionsStatus: filters, blocks: filters, blocksMeta: filters, commitment },
      })
      this.#openStream(`grpc ${name}`).message(Buffer.from(request))
      if (commitment === Commitment.processed)
        this.#openStream('grpc retractions', true).message(Buffer.from(request))
    }
    for (const topic of ['slot', 'root', 'slotsUpdates']) this.#subscribe(topic, topic, [])
    for (const commitment of commitmentNames) {
      const config = { commitment, encoding: 'base64' }
      this.#subscribe('logs', `logs ${commitment}`, ['all', { commitment }])
      this.#subscribe('transaction', `transaction ${commitment}`, [{}, { ...config, cursor: true }])
      for (const [name, program] of Object.entries(programs))
        this.#subscribe('program', `program ${name} ${commitment}`, [program, config])
    }
    const view = { encoding: 'base64', showRewards: true, maxSupportedTransactionVersion: 1 }
    for (const commitment of [confirmed, finalized].map((one) => commitmentNames[one]))
      this.#subscribe('block', `block ${commitment}`, ['all', { commitment, ...view }])
  }

  #subscribe(topic: string, name: string, params: readonly unknown[]): void {
    const session = this.#openSession(`pubsub ${name}`)
    const method = `${topic}Subscribe`
    const request = { jsonrpc: '2.0', id: 1, method, params }
    const { items } = parseRequest(Buffer.from(JSON.stringify(request)), 1)
    void this.#methods.call(items[0] as Call, session)
  }

  #openGeyser(): GeyserService<null> {
    const heads = this.#answers.heads
    const chain = {
      ...{ hub: this.#hub, heads, isUp: () => true, watch: () => () => {} },
      solanaVersion: () => '',
    }
    const limits = { filtersMax: 1_000, accountsMax: 10_000_000, ownersMax: 1_000_000 }
    const others = { dataSlicesMax: 1_000, cuckooBytesMax: answerBytes, any: true }
    const rejects = { accountReject: new Set<string>(), ownerReject: new Set<string>() }
    return new GeyserService<null>({
      codec: this.#codec,
      limits: { ...limits, ...others, ...rejects },
      keysMax: () => limits.accountsMax,
      backlogBytesMax: Number.POSITIVE_INFINITY,
      pingMs: never,
      version: '',
      meters: declareGrpcMeters(new Meters()),
      clock: this.#clock,
      chainOf: () => chain,
      meter() {},
      charge: () => null,
      lease: () => () => {},
    })
  }

  #openStream(name: string, isRetracting = false): StreamEvents {
    this.#results.open(`${this.#set}: ${name}`)
    const cut = frameCutter((frame) => this.#emit(name, frame))
    const subscribe = this.#geyser.methods.find(({ path }) => path.endsWith('/Subscribe'))!
    if (subscribe.kind !== 'stream') throw new Error('Subscribe is a stream')
    return subscribe.open(
      {
        encoding: null,
        unsentBytes: 0,
        header: (header) => (isRetracting && header === 'x-retractions' ? 'true' : undefined),
        write(bytes, sent) {
          cut(bytes)
          sent?.()
          return true
        },
        end: ({ code, details }) => this.#emit(name, Buffer.from(`end ${code} ${details}`)),
      },
      null,
    )
  }

  #openSession(name: string): Session {
    this.#results.open(`${this.#set}: ${name}`)
    const send = (message: string | Uint8Array) => this.#emit(name, Buffer.from(message))
    const session: Session = {
      budget: unlimited,
      notify: send,
      sendNow: send,
      join: (topic) => {
        const joined = this.#topics.get(topic) ?? new Set()
        this.#topics.set(topic, joined.add(session))
      },
      leave: (topic) => void this.#topics.get(topic)?.delete(session),
      hasRoom: () => true,
      checkUnsent() {},
      onEnd() {},
    }
    return session
  }

  #pubsubChain(): PubsubChain {
    const { heads } = this.#answers
    return {
      hub: this.#hub,
      isUp: () => true,
      shapes: () => shapesOf(this.#nodeVersion) ?? oldestShapes,
      slot: (commitment) => heads.at(commitment)?.slot ?? 0,
      signatureStatus: async () => null,
      readAccounts: async (keys) => keys.map(() => null),
    }
  }

  #emit(name: string, frame: Uint8Array): void {
    if (!this.#isOver) this.#results.add(`${this.#set}: ${name}`, frame, this.slot)
  }
}

const unlimited: Customer = {
  plan: { subscriptionsPerConnection: never, distinctSubscriptions: never, filterKeys: never },
  enter: () => true,
  leave() {},
  meter() {},
  chargeNotification: () => true,
  notificationWaitMs: () => 0,
}

/** What a notification of it contains depends on the stream alone, not on reads of nodes. */
function isSteady({ method, paramsText }: Call): boolean {
  const isRead = method === 'signatureSubscribe' || paramsText.includes('jsonParsed')
  return method.endsWith('Subscribe') && !isRead
}

/** Cuts a gRPC stream into its frames. */
function frameCutter(take: (frame: Buffer) => void): (bytes: Buffer) => void {
  let kept: Buffer = Buffer.alloc(0)
  return (bytes) => {
    let rest = kept.length === 0 ? bytes : Buffer.concat([kept, bytes])
    while (rest.length >= framePrefixBytes) {
      const end = framePrefixBytes + rest.readUInt32BE(1)
      if (rest.length < end) break
      take(rest.subarray(0, end))
      rest = rest.subarray(end)
    }
    // Copied: the memory of what was written is used again.
    kept = Buffer.from(rest)
  }
}
