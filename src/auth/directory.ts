// The active subscriptions in memory, by the digest of their token. Thread: main.
// Follows the registry by comparing its version every 250 ms, so that a change made by the
// operator's command, in another process, is in force here well within a second.
import { timingSafeEqual } from 'node:crypto'
import { type Cidr, containsAny, parseAddress, parseCidr } from '../base/cidr.ts'
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import { lookupKeyOfDigest } from '../subscriptions/issue.ts'
import type { Product, Registered, Subscription } from '../subscriptions/subscription.ts'
import type { Log } from '../telemetry/log.ts'
import type { Door, Origin, Principal } from './token.ts'

/** What the directory asks of the registry; subscriptions/store.ts fits. */
export interface Registry {
  version(): number
  changedSince(version: number, max: number): ReadonlySet<string> | null
  registered(id: string): Registered | null
  allRegistered(): Iterable<Registered>
}

export const pollMs = 250
/** Past this many changes at once, reading all is cheaper than following each. */
const changesMax = 1000

/** Which products open which door. A dedicated node is called through the bundle's doors. */
const opening: Readonly<Record<Door, readonly Product[] | 'any'>> = {
  rpc: ['bundle', 'dedicated-node'],
  websocket: ['bundle', 'dedicated-node'],
  grpc: ['bundle', 'dedicated-node'],
  indexer: ['indexer'],
  metrics: 'any',
}

/** One living token. */
export class Entry {
  readonly principal: Principal
  readonly #cidrs: readonly Cidr[]
  readonly #untilMs: number
  readonly #opens: Readonly<Record<Door, boolean>>
  readonly #passwordDigest: Buffer | null

  constructor(record: Registered, digest: string, untilMs: number) {
    const { subscription, passwordDigest } = record
    this.principal = { subscription, digest }
    this.#cidrs = subscription.cidrs.map((text) => parseCidr(text)).filter((cidr) => cidr !== null)
    this.#untilMs = untilMs
    this.#opens = opensOf(subscription)
    this.#passwordDigest = passwordDigest === null ? null : Buffer.from(passwordDigest, 'hex')
  }

  permits(door: Door, origin: Origin, clock: Clock): boolean {
    return this.#opens[door] && !this.isOver(clock) && this.#isWithin(origin)
  }

  isPassword(digest: string): boolean {
    return (
      this.#passwordDigest !== null &&
      timingSafeEqual(this.#passwordDigest, Buffer.from(digest, 'hex'))
    )
  }

  /** A grace has an end; the clock is read only where there is one. */
  isOver(clock: Clock): boolean {
    return this.#untilMs !== Number.POSITIVE_INFINITY && clock.nowMs() >= this.#untilMs
  }

  #isWithin(origin: Origin): boolean {
    if (this.principal.subscription.cidrs.length === 0) return true
    const parsed = parseAddress(typeof origin === 'string' ? origin : origin.address)
    return parsed !== null && containsAny(this.#cidrs, parsed)
  }
}

export class Directory {
  readonly #registry: Registry
  readonly #clock: Clock
  readonly #log: Log
  readonly #entries = new Map<string, Entry>()
  readonly #records = new Map<string, Registered>()
  readonly #inGrace = new Set<Entry>()
  readonly #watchers = new Set<(subscription: Subscription) => void>()
  #version = 0
  #timer: NodeJS.Timeout | null = null

  /** Reads everything once; `start` follows the changes from there. */
  constructor(registry: Registry, { clock, log }: { clock: Clock; log: Log }) {
    this.#registry = registry
    this.#clock = clock
    this.#log = log.area('auth')
    this.refresh()
  }

  /** The living token of that look-up key (subscriptions/issue.ts). */
  entry(key: string): Entry | undefined {
    return this.#entries.get(key)
  }

  /** Every subscription, ended ones too, as last read. */
  *subscriptions(): Iterable<Subscription> {
    for (const { subscription } of this.#records.values()) yield subscription
  }

  version(): number {
    return this.#version
  }

  /** Told of each subscription that changed, and of one whose retiring token died. */
  watch(watcher: (subscription: Subscription) => void): () => void {
    this.#watchers.add(watcher)
    return () => this.#watchers.delete(watcher)
  }

  start(): void {
    this.#timer ??= setInterval(() => this.#poll(), pollMs)
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }

  /** Takes over what changed since the last call. */
  refresh(): void {
    const changed = new Set<string>()
    const version = this.#registry.version()
    if (version !== this.#version) {
      for (const record of this.#changedRecords(version)) {
        this.#replace(record)
        changed.add(record.subscription.id)
      }
      this.#version = version
    }
    for (const entry of this.#inGrace) {
      if (!entry.isOver(this.#clock)) continue
      this.#inGrace.delete(entry)
      this.#entries.delete(lookupKeyOfDigest(entry.principal.digest))
      changed.add(entry.principal.subscription.id)
    }
    for (const id of changed) {
      const record = this.#records.get(id)
      if (record !== undefined) this.#tell(record.subscription)
    }
  }

  /** One watcher's failure must not keep the others from closing what they hold. */
  #tell(subscription: Subscription): void {
    for (const watcher of this.#watchers)
      try {
        watcher(subscription)
      } catch (error) {
        this.#log.error('a change could not be passed on', { reason: messageOf(error) })
      }
  }

  #poll(): void {
    try {
      this.refresh()
    } catch (error) {
      // The next poll tries again; until then the last state holds.
      this.#log.error('the registry could not be read', { reason: messageOf(error) })
    }
  }

  *#changedRecords(version: number): Iterable<Registered> {
    // A lower version is another registry put in this one's place: read it whole.
    const ids =
      version < this.#version || this.#version === 0
        ? null
        : this.#registry.changedSince(this.#version, changesMax)
    if (ids === null) {
      for (const record of this.#records.values()) this.#remove(record)
      yield* this.#registry.allRegistered()
      return
    }
    for (const id of ids) {
      const record = this.#registry.registered(id)
      if (record !== null) yield record
    }
  }

  #replace(record: Registered): void {
    const { subscription, tokenDigest, retiring } = record
    const before = this.#records.get(subscription.id)
    if (before !== undefined) this.#remove(before)
    this.#records.set(subscription.id, record)
    if (subscription.state !== 'active') return
    const current = new Entry(record, tokenDigest, Number.POSITIVE_INFINITY)
    this.#entries.set(lookupKeyOfDigest(tokenDigest), current)
    if (retiring === null || retiring.untilMs <= this.#clock.nowMs()) return
    const entry = new Entry(record, retiring.digest, retiring.untilMs)
    this.#entries.set(lookupKeyOfDigest(retiring.digest), entry)
    this.#inGrace.add(entry)
  }

  #remove({ tokenDigest, retiring }: Registered): void {
    this.#entries.delete(lookupKeyOfDigest(tokenDigest))
    if (retiring === null) return
    const key = lookupKeyOfDigest(retiring.digest)
    const entry = this.#entries.get(key)
    if (entry !== undefined) this.#inGrace.delete(entry)
    this.#entries.delete(key)
  }
}

function opensOf(subscription: Subscription): Readonly<Record<Door, boolean>> {
  const opens = (door: Door) => {
    const by = opening[door]
    return by === 'any' || by.some((product) => subscription.products.includes(product))
  }
  return {
    rpc: opens('rpc'),
    websocket: opens('websocket'),
    grpc: opens('grpc'),
    indexer: opens('indexer'),
    metrics: opens('metrics'),
  }
}
