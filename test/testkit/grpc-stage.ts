// The gRPC product on a free port, with a real registry, gate and quota, and plain clients for it.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  Client,
  type ClientDuplexStream,
  credentials,
  Metadata,
  type ServiceError,
  type StatusObject,
} from '@grpc/grpc-js'
import { systemClock } from '../../src/base/clock.ts'
import type { Fields, Values } from '../../src/base/fields.ts'
import type { Running } from '../../src/base/running.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import type { GrpcCertificates } from '../../src/base/transport/grpc-bind.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { Directory } from '../../src/customers/auth/directory.ts'
import { Gate } from '../../src/customers/auth/gate.ts'
import { type AddressLimits, addressBudgetSection } from '../../src/customers/quota/config.ts'
import { declareQuotaMeters } from '../../src/customers/quota/meters.ts'
import { Quota } from '../../src/customers/quota/quota.ts'
import { AddressBudget } from '../../src/customers/quota/rates.ts'
import { Consumers, type ConsumerTable } from '../../src/customers/subscriptions/consumers.ts'
import { builtInPlans, type PlanValues } from '../../src/customers/subscriptions/plans.ts'
import { openStore, type Store } from '../../src/customers/subscriptions/store.ts'
import type {
  AddRequest,
  Issued,
  Subscription as SubscriptionRecord,
} from '../../src/customers/subscriptions/subscription.ts'
import { type GrpcSection, grpcSection } from '../../src/products/grpc/config.ts'
import { startGrpc } from '../../src/products/grpc/server.ts'
import { type Codec, loadCodec } from '../../src/streams/geyser/codec.ts'
import type { GrpcChain } from '../../src/streams/geyser/fan-out.ts'
import {
  Heads,
  openSolanaHub,
  publishUpdate,
  type SolanaHub,
} from '../../src/streams/geyser/hub.ts'
import { declareGrpcMeters } from '../../src/streams/geyser/meters.ts'
import { until } from './until.ts'

export const codec: Codec = loadCodec()

export interface StageOptions {
  readonly section?: Partial<GrpcSection>
  readonly plans?: Readonly<Record<string, PlanValues>>
  readonly hub?: SolanaHub | null
  /** The chain of all callers, instead of the stage's own. */
  readonly chain?: GrpcChain
  /** Whose chain is whose; that of everybody unless given. */
  readonly chainOf?: (subscription: SubscriptionRecord) => GrpcChain | null
  readonly certificates?: GrpcCertificates
  /** What one address may cost; the default of the configuration unless given. */
  readonly addressLimits?: Partial<AddressLimits>
  readonly trustedProxies?: readonly string[]
  /** Where consumers are stored; in the stage's own registry unless given. */
  readonly consumerTable?: ConsumerTable
}

/** A chain that a test takes down and brings back up. */
export class TestChain implements GrpcChain {
  readonly hub: SolanaHub
  readonly heads: Heads
  readonly #listeners = new Set<() => void>()
  #isUp = true

  constructor(hub: SolanaHub = openSolanaHub({ replaySlots: 150, replayBytesMax: 2 ** 28 })) {
    this.hub = hub
    this.heads = new Heads(hub)
  }

  isUp(): boolean {
    return this.#isUp
  }

  turn(isUp: boolean): void {
    this.#isUp = isUp
    for (const listener of this.#listeners) listener()
  }

  watch(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  solanaVersion(): string {
    return '4.0.0'
  }
}

export class GrpcStage {
  readonly store: Store
  readonly directory: Directory
  readonly quota: Quota
  readonly meters = new Meters()
  readonly hub: SolanaHub | null
  readonly chain: TestChain | null
  running!: Running
  readonly #folder = mkdtempSync(join(tmpdir(), 'sluice-grpc-'))
  readonly #clients: Client[] = []

  private constructor(options: StageOptions) {
    const clock = systemClock
    this.store = openStore(this.#folder, { clock })
    this.directory = new Directory(this.store, { clock, log: silentLog })
    this.quota = new Quota({
      plans: options.plans ?? builtInPlans,
      ledger: this.store,
      clock,
      log: silentLog,
    })
    this.hub =
      options.hub === undefined
        ? openSolanaHub({ replaySlots: 150, replayBytesMax: 2 ** 28 })
        : options.hub
    this.chain = this.hub && new TestChain(this.hub)
  }

  static async open(options: StageOptions = {}): Promise<GrpcStage> {
    const stage = new GrpcStage(options)
    const chain = options.chain ?? stage.chain
    stage.directory.start()
    stage.running = await startGrpc(sectionOf(options.section), {
      gate: new Gate(stage.directory, { clock: systemClock }),
      quota: stage.quota,
      quotaMeters: declareQuotaMeters(stage.meters, stage.quota),
      addressBudget: new AddressBudget(
        { ...initialOf(addressBudgetSection.fields), ...options.addressLimits },
        systemClock,
      ),
      consumers: new Consumers({
        table: options.consumerTable ?? stage.store.consumers,
        clock: systemClock,
        log: silentLog,
      }),
      meters: declareGrpcMeters(stage.meters),
      chainOf: options.chainOf ?? (() => chain),
      mainChain: chain,
      certificates: options.certificates ?? null,
      trustedProxies: options.trustedProxies ?? [],
      clock: systemClock,
      log: silentLog,
      version: '0.0.0',
      onDown: () => {},
    })
    return stage
  }

  get target(): string {
    return `127.0.0.1:${this.running.address!.port}`
  }

  provision(request: Partial<AddRequest> = {}): Issued {
    const added = this.store.add(
      { label: `s${this.store.list().length}`, products: ['bundle'], ...request },
      { who: 'test' },
    )
    if (!added.ok) throw new Error(added.refusal.message)
    this.directory.refresh()
    return added.value
  }

  publish(updates: readonly SolanaUpdate[]): void {
    for (const update of updates) publishUpdate(this.hub!, update)
  }

  client(target = this.target, channel = credentials.createInsecure()): Client {
    // One connection per client, as separate customers would have.
    const client = new Client(target, channel, { 'grpc.use_local_subchannel_pool': 1 })
    this.#clients.push(client)
    return client
  }

  /** A value of a meter, by name and labels as in the exposition. */
  async meter(line: string): Promise<number> {
    const { body } = await this.meters.render('text')
    const found = body.split('\n').find((one) => one.startsWith(`${line} `))
    return found === undefined ? Number.NaN : Number(found.split(' ').at(-1))
  }

  async close(): Promise<void> {
    for (const client of this.#clients) client.close()
    await this.running.stop()
    this.directory.stop()
    await this.quota.stop()
    await this.store.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

export function sectionOf(section: Partial<GrpcSection> = {}): GrpcSection {
  return { ...initialOf(grpcSection.fields), port: 0, ...section }
}

/** The initial values of a group's fields. */
function initialOf<F extends Fields>(fields: F): Values<F> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, node]) => {
      const { initial, fields: inner } = node as { initial?: unknown; fields?: Fields }
      return [name, inner === undefined ? initial : initialOf(inner)]
    }),
    // Reason for the cast: every field of the group gives its own initial value.
  ) as Values<F>
}

export function withToken(token: string): Metadata {
  const metadata = new Metadata()
  metadata.set('x-token', token)
  return metadata
}

export interface Called {
  readonly code: number
  readonly details: string
  readonly metadata: Metadata
  // Reason for `any`: answers are read field by field in tests, as any client would.
  // biome-ignore lint/suspicious/noExplicitAny: see the line above.
  readonly value: any
}

/** Calls a unary method of geyser.Geyser. */
export function call(
  client: Client,
  method: string,
  request: object = {},
  metadata = new Metadata(),
): Promise<Called> {
  const bytes = Buffer.from(codec.encode(`geyser.${method}Request`, request))
  const response = method === 'Ping' ? 'geyser.PongResponse' : `geyser.${method}Response`
  return callBytes(client, `/geyser.Geyser/${method}`, bytes, metadata, (answer) =>
    codec.decode(response, answer),
  )
}

export function callBytes(
  client: Client,
  path: string,
  bytes: Buffer,
  metadata: Metadata,
  decode: (answer: Buffer) => unknown,
): Promise<Called> {
  return new Promise((resolve) => {
    const done = (error: ServiceError | null, value?: unknown) =>
      resolve(
        error === null
          ? { code: 0, details: '', metadata: new Metadata(), value }
          : { code: error.code, details: error.details, metadata: error.metadata, value: null },
      )
    client.makeUnaryRequest(path, (b: Buffer) => b, decode, bytes, metadata, done)
  })
}

/** A Subscribe stream that remembers what it got. */
export class Subscription {
  // biome-ignore lint/suspicious/noExplicitAny: updates are read field by field, as in a client.
  readonly updates: any[] = []
  readonly raw: Buffer[] = []
  status: StatusObject | null = null
  readonly stream: ClientDuplexStream<Buffer, Buffer>

  constructor(client: Client, metadata: Metadata, path = '/geyser.Geyser/Subscribe') {
    const identity = (bytes: Buffer) => bytes
    this.stream = client.makeBidiStreamRequest(path, identity, identity, metadata)
    this.stream.on('data', (bytes: Buffer) => {
      this.raw.push(bytes)
      this.updates.push(codec.decode('geyser.SubscribeUpdate', bytes))
    })
    this.stream.on('status', (status: StatusObject) => {
      this.status = status
    })
    this.stream.on('error', () => {})
  }

  ask(request: object): void {
    this.askBytes(Buffer.from(codec.encode('geyser.SubscribeRequest', request)))
  }

  askBytes(bytes: Buffer): void {
    this.stream.write(bytes)
  }

  /** Until every request so far was taken: the pong follows them. */
  async settled(): Promise<void> {
    const before = this.of('pong').length
    this.ask({ ping: { id: before + 1 } })
    await until(() => this.of('pong').length > before, 'a pong')
  }

  /** Updates of one kind, by the name of its field. */
  // biome-ignore lint/suspicious/noExplicitAny: see above.
  of(kind: string): any[] {
    return this.updates.filter((update) => update[kind]).map((update) => update[kind])
  }
}
