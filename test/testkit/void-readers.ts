// Readers of a hub for tests of void banks: Subscribe streams and subscriptions, without sockets.
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { Subscriptions } from '../../src/products/websocket/handle.ts'
import { SolanaUpstream, type SolanaUpstreamDeps } from '../../src/streams/flows/solana-upstream.ts'
import { loadCodec, type SubscribeRequest } from '../../src/streams/geyser/codec.ts'
import { FanOut } from '../../src/streams/geyser/fan-out.ts'
import { compileFilters } from '../../src/streams/geyser/filter-compile.ts'
import type { FilterSet } from '../../src/streams/geyser/filter-set.ts'
import { type Run, SlabPool } from '../../src/streams/geyser/frame.ts'
import { openSolanaHub, type SolanaHub } from '../../src/streams/geyser/hub.ts'
import { declareGrpcMeters } from '../../src/streams/geyser/meters.ts'
import { Replayer } from '../../src/streams/geyser/replayer.ts'
import { declareSubscriptionMeters } from '../../src/streams/pubsub/notifier.ts'
import { limits } from './filter-limits.ts'
import { batchFrom, messageOf } from './geyser-messages.ts'
import { budgetOn, type LooseSession, looseSession } from './loose-session.ts'
import { idleChain } from './pubsub-chain.ts'

export const codec = loadCodec()

/** Filters of every kind that take everything. */
export function filtersOfAll(
  commitment: 0 | 1 | 2,
  ofTransactions: object = {},
  ofAccounts: object = {},
): FilterSet {
  const type = codec.root.lookupType('geyser.SubscribeRequest')
  const blocks = { b: { includeTransactions: true, includeAccounts: true, includeEntries: true } }
  const slots = { s: { interslotUpdates: true } }
  const transactions = { t: ofTransactions }
  const kinds = { transactions, transactionsStatus: { u: {} }, blocksMeta: { m: {} } }
  const asked = {
    ...kinds,
    commitment,
    blocks,
    slots,
    accounts: { a: ofAccounts },
    entry: { e: {} },
  }
  const bytes = type.encode(type.fromObject(asked)).finish()
  const request = codec.decode<SubscribeRequest>('geyser.SubscribeRequest', bytes)!
  const compiled = compileFilters(request, limits)
  if (!compiled.ok) throw new Error(compiled.refusal.message)
  return compiled.value
}

/** Keeps all frames that a stream gets. */
export class FrameReader {
  readonly encoding = null
  readonly backlogBytes = 0
  readonly aheadMax = 1
  readonly isAhead = false
  readonly #frames: Buffer[] = []

  take(runs: readonly Run[]): void {
    for (const { bytes } of runs) this.#frames.push(Buffer.from(bytes))
  }

  caughtUp(): void {}
  lostReplay(): void {
    throw new Error('the replay is lost')
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#frames)
  }

  /** The messages, without their gRPC prefix. */
  messages(): Buffer[] {
    const { bytes } = this
    const messages: Buffer[] = []
    for (let at = 0; at < bytes.length; ) {
      const end = at + 5 + bytes.readUInt32BE(at + 1)
      messages.push(bytes.subarray(at + 5, end))
      at = end
    }
    return messages
  }
}

/** Reads what the hub has kept from that slot on. */
export async function replayOf(
  hub: SolanaHub,
  filters: FilterSet,
  fromSlot: number,
): Promise<FrameReader> {
  const reader = new FrameReader()
  await new Promise<void>((resolve) => {
    reader.caughtUp = resolve
    const means = { pool: new SlabPool(), hub }
    new Replayer(hub.replay(filters.commitment, fromSlot)!, filters, means, reader)
  })
  return reader
}

/** A hub behind a slot tracker, with streams and subscriptions that take everything. */
export class VoidStage {
  readonly hub: SolanaHub
  readonly sink: SolanaUpstream
  readonly fanOut: FanOut
  /** Notifications by subscription, in order. */
  readonly notified = new Map<number, string[]>()
  readonly #subscriptions = new Subscriptions({
    meters: declareSubscriptionMeters(new Meters()),
    clock: systemClock,
    log: silentLog,
  })
  readonly session: LooseSession

  constructor(deps: Partial<SolanaUpstreamDeps> = {}, replaySlots = 1_000) {
    this.hub = openSolanaHub({ replaySlots, replayBytesMax: 1e9 })
    this.fanOut = new FanOut(this.hub, declareGrpcMeters(new Meters()))
    this.sink = new SolanaUpstream(this.hub, { log: silentLog, bankSalt: 'salt', ...deps })
    this.#subscriptions.usePublisher((topic, message) => {
      const id = Number(topic)
      const texts = this.notified.get(id) ?? []
      texts.push(Buffer.from(message).toString())
      this.notified.set(id, texts)
    })
    const chain = idleChain({ hub: this.hub })
    this.session = looseSession(budgetOn({}), this.#subscriptions.engineOf(chain))
  }

  stream(filters: FilterSet): FrameReader {
    const reader = new FrameReader()
    this.fanOut.join(reader, filters)
    return reader
  }

  subscribe(topic: string, ...params: unknown[]): number {
    const call = { method: '', params, paramsText: '', id: '1' }
    const answer = this.#subscriptions.methods[`${topic}Subscribe`]!(call, this.session)
    if (!('kind' in answer) || answer.kind !== 'text') throw new Error(JSON.stringify(answer))
    return Number(answer.text)
  }

  send(updates: readonly SolanaUpdate[]): void {
    const messages = updates.filter(({ kind }) => kind !== 'block').map((one) => messageOf(one))
    for (let at = 0; at < messages.length; at += 7)
      this.sink.batch(batchFrom(messages.slice(at, at + 7)))
  }

  /** Frames are flushed at the end of the turn. */
  flush(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve))
  }

  stop(): void {
    this.fanOut.stop()
    this.#subscriptions.stop()
  }
}

/** Owners of the accounts of these updates, each once. */
export function ownersOf(updates: readonly SolanaUpdate[]): string[] {
  const accounts = updates.filter((one) => one.kind === 'account')
  return [...new Set(accounts.map(({ owner }) => encodeBase58(owner)))]
}
