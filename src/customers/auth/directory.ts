// Keeps an in-memory index of the active subscriptions, by the digest of their token.
// Polls the registry's newest change every 250 ms, so that a change made by the operator's
// command, in another process, takes effect here well within a second.
// Never goes back: a registry that lacks a change seen before is an older copy, in which revoked
// tokens would work again. It is not read; row "a registry restored from an older copy" in
// DESIGN.md.
import { timingSafeEqual } from 'node:crypto'
import { type Cidr, containsAny, parseAddress, parseCidr } from '../../base/cidr.ts'
import type { Clock } from '../../base/clock.ts'
import { guarded, messageOf } from '../../base/errors.ts'
import { faultReport, type Log } from '../../base/telemetry/log.ts'
import { type AuditHead, emptyHead } from '../subscriptions/audit.ts'
import { lookupKeyOf, lookupKeyOfDigest } from '../subscriptions/issue.ts'
import type { Store } from '../subscriptions/store.ts'
import {
  asOf,
  endMsOf,
  feedsProduct,
  isEnrolled,
  isOperator,
  type Product,
  type Registered,
  type Subscription,
} from '../subscriptions/subscription.ts'
import type { Endpoint, Origin, Principal } from './token.ts'

/** What the directory needs of the registry. */
export type Registry = Pick<
  Store,
  'head' | 'holds' | 'changedSince' | 'registered' | 'allRegistered'
>

export const registryPollMs = 250
/** With more changes than this at once, reading all records is cheaper. */
const changesMax = 1000
/** Token texts that are remembered, about 100 bytes each; all are forgotten when it is full. */
const rememberedMax = 16_384

/** The products that give access to each endpoint. A dedicated node uses the bundle's endpoints. */
const grantedBy: Readonly<Record<Endpoint, readonly Product[] | 'any'>> = {
  rpc: ['bundle', 'dedicated-node'],
  websocket: ['bundle', 'dedicated-node'],
  grpc: ['bundle', 'dedicated-node'],
  indexer: ['indexer'],
  tpu: 'any',
  metrics: 'any',
  feeds: [feedsProduct],
}

/** The end of a grace period, by whichever clock reaches it first: setting one back is no use. */
interface GraceEnd {
  readonly digest: string
  readonly untilMs: number
  readonly monotonicMs: number
}

/** One valid token. */
class Entry {
  readonly principal: Principal
  readonly #cidrs: readonly Cidr[]
  readonly #graceEnd: GraceEnd | null
  /** When the subscription expires, by the wall clock. */
  readonly #endMs: number
  readonly #opens: Readonly<Record<Endpoint, boolean>>
  readonly #passwordDigest: Buffer | null

  constructor(record: Registered, digest: string, graceEnd: GraceEnd | null) {
    const { subscription, passwordDigest } = record
    this.principal = { subscription, digest }
    this.#cidrs = subscription.cidrs.map((text) => parseCidr(text)).filter((cidr) => cidr !== null)
    this.#graceEnd = graceEnd
    this.#endMs = endMsOf(subscription)
    this.#opens = opensOf(subscription)
    this.#passwordDigest = passwordDigest === null ? null : Buffer.from(passwordDigest, 'hex')
  }

  permits(endpoint: Endpoint, origin: Origin, clock: Clock): boolean {
    return this.#opens[endpoint] && !this.isOver(clock) && this.#isWithin(origin)
  }

  isPassword(digest: string): boolean {
    return (
      this.#passwordDigest !== null &&
      timingSafeEqual(this.#passwordDigest, Buffer.from(digest, 'hex'))
    )
  }

  /** Whether the token stops working by itself at some time. */
  get isTimed(): boolean {
    return this.#graceEnd !== null || this.#endMs !== Number.POSITIVE_INFINITY
  }

  /** True after the grace period or the last day; the clock is read only for a timed token. */
  isOver(clock: Clock): boolean {
    if (!this.isTimed) return false
    if (clock.nowMs() >= this.#endMs) return true
    const end = this.#graceEnd
    if (end === null) return false
    return clock.monotonicMs() >= end.monotonicMs || clock.nowMs() >= end.untilMs
  }

  #isWithin(origin: Origin): boolean {
    if (this.principal.subscription.cidrs.length === 0) return true
    const parsed = parseAddress(typeof origin === 'string' ? origin : origin.address)
    return parsed !== null && containsAny(this.#cidrs, parsed)
  }
}

export interface DirectoryDeps {
  readonly clock: Clock
  readonly log: Log
  /** Called with the newest change once it is in effect here. */
  onHead?(head: AuditHead): void
}

export class Directory {
  readonly #registry: Registry
  readonly #clock: Clock
  readonly #log: Log
  readonly #entries = new Map<string, Entry>()
  /** By token text, valid and invalid alike: what the digest of that text led to. */
  readonly #remembered = new Map<string, Entry | null>()
  readonly #records = new Map<string, Registered>()
  /** Valid tokens that stop working by themselves. */
  readonly #timed = new Set<Entry>()
  /** Subscriptions whose last day is over, as stored: a clock that is ahead may be set back. */
  readonly #expired = new Map<string, Registered>()
  #seenMs = 0
  /** By subscription, as first computed: a later change must not restart the grace period. */
  readonly #graceEnds = new Map<string, GraceEnd>()
  readonly #watchers = new Set<(subscription: Subscription) => void>()
  readonly #onHead: (head: AuditHead) => void
  #head = emptyHead
  /** True while the registry on disk is older than the state in effect here. */
  isRolledBack = false
  #timer: NodeJS.Timeout | null = null

  /** Reads everything once; `start` follows the changes from there. */
  constructor(registry: Registry, deps: DirectoryDeps) {
    this.#registry = registry
    this.#clock = deps.clock
    this.#log = deps.log.area('auth')
    this.#onHead = deps.onHead ?? (() => {})
    this.refresh()
  }

  /** The valid token with that digest. */
  entry(digest: string): Entry | undefined {
    return this.#entries.get(lookupKeyOfDigest(digest))
  }

  /**
   * The valid token with that text, or null. Only a digest says which: the first time by SHA-256,
   * from then on by the text, which is kept in memory only. Why that leaks nothing: DESIGN.md.
   */
  entryOf(token: string): Entry | null {
    const remembered = this.#remembered.get(token)
    if (remembered !== undefined) return remembered
    const entry = this.#entries.get(lookupKeyOf(token)) ?? null
    if (this.#remembered.size >= rememberedMax) this.#remembered.clear()
    // A copy: a slice would keep the whole query string alive that the token was part of.
    this.#remembered.set(Buffer.from(token).toString(), entry)
    return entry
  }

  /** Every subscription, ended ones too, as last read. */
  *subscriptions(): Iterable<Subscription> {
    for (const { subscription } of this.#records.values()) yield subscription
  }

  version(): number {
    return this.#head.seq
  }

  /** Calls the watcher for each subscription that changed, expired, or whose grace is over. */
  watch(watcher: (subscription: Subscription) => void): () => void {
    this.#watchers.add(watcher)
    return () => this.#watchers.delete(watcher)
  }

  start(): void {
    // The next poll retries; until then the last state stays in effect.
    const report = faultReport(this.#log, 'registry read failed')
    this.#timer ??= setInterval(
      guarded(() => this.refresh(), report),
      registryPollMs,
    )
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }

  /** Applies what changed since the last call. */
  refresh(): void {
    const changed = new Set<string>()
    const head = this.#registry.head()
    if ((head.hash !== this.#head.hash || this.isRolledBack) && this.#follows()) {
      for (const record of this.#changedRecords()) {
        // A credential of the operator API opens no endpoint of customers, nor an open one.
        if (isOperator(record.subscription)) continue
        this.#replace(record)
        changed.add(record.subscription.id)
      }
      this.#head = head
      this.#onHead(head)
    }
    const isSetBack = this.#clock.nowMs() < this.#seenMs
    this.#seenMs = this.#clock.nowMs()
    for (const [id, record] of isSetBack ? [...this.#expired] : []) {
      this.#replace(record)
      changed.add(id)
    }
    for (const entry of this.#timed) {
      if (!entry.isOver(this.#clock)) continue
      const { id } = entry.principal.subscription
      this.#remembered.clear()
      this.#timed.delete(entry)
      this.#entries.delete(lookupKeyOfDigest(entry.principal.digest))
      this.#records.set(id, this.#asOfNow(this.#records.get(id)!))
      changed.add(id)
    }
    for (const id of changed) {
      const record = this.#records.get(id)
      if (record !== undefined) this.#notify(record.subscription)
    }
  }

  /** One watcher's failure must not keep the others from ending their leases. */
  #notify(subscription: Subscription): void {
    for (const watcher of this.#watchers)
      try {
        watcher(subscription)
      } catch (error) {
        this.#log.error('subscription watcher failed', { reason: messageOf(error) })
      }
  }

  /** Whether the registry continues from the state in effect here. Logs when that changes. */
  #follows(): boolean {
    const isRolledBack = !this.#registry.holds(this.#head)
    if (isRolledBack === this.isRolledBack) return !isRolledBack
    this.isRolledBack = isRolledBack
    if (isRolledBack)
      this.#log.error('registry was replaced by an older copy and is not read', {
        inForce: this.#head.seq,
        found: this.#registry.head().seq,
        toDo: 'restore the newer copy, or stop the server and see Backup in docs/OPERATING.md',
      })
    else this.#log.info('registry is current again and is read')
    return !isRolledBack
  }

  *#changedRecords(): Iterable<Registered> {
    const { seq } = this.#head
    const ids = seq === 0 ? null : this.#registry.changedSince(seq, changesMax)
    if (ids === null) return yield* this.#registry.allRegistered()
    for (const id of ids) {
      const record = this.#registry.registered(id)
      if (record !== null) yield record
    }
  }

  #asOfNow(record: Registered): Registered {
    const subscription = asOf(record.subscription, this.#clock.nowMs())
    if (subscription !== record.subscription) this.#expired.set(subscription.id, record)
    return { ...record, subscription }
  }

  #replace(stored: Registered): void {
    this.#expired.delete(stored.subscription.id)
    const record = this.#asOfNow(stored)
    const { subscription, tokenDigest } = record
    this.#remembered.clear()
    const before = this.#records.get(subscription.id)
    if (before !== undefined) this.#remove(before)
    const graceEnd = this.#graceEnd(record)
    this.#records.set(subscription.id, record)
    if (subscription.state !== 'active') return
    this.#keep(new Entry(record, tokenDigest, null))
    if (graceEnd !== null) this.#keep(new Entry(record, graceEnd.digest, graceEnd))
  }

  #keep(entry: Entry): void {
    if (entry.isOver(this.#clock)) return
    this.#entries.set(lookupKeyOfDigest(entry.principal.digest), entry)
    if (entry.isTimed) this.#timed.add(entry)
  }

  /**
   * The remaining grace was fixed when the subscription last changed: a clock before that time was
   * set back, and setting it back later, while we know the grace period, does not extend it.
   */
  #graceEnd({ retiring, subscription }: Registered): GraceEnd | null {
    const { id, changedAt } = subscription
    const known = this.#graceEnds.get(id)
    if (known?.digest === retiring?.digest) return known ?? null
    this.#graceEnds.delete(id)
    if (retiring === null) return null
    const leftMs = retiring.untilMs - Math.max(this.#clock.nowMs(), Date.parse(changedAt))
    const end = { ...retiring, monotonicMs: this.#clock.monotonicMs() + leftMs }
    this.#graceEnds.set(id, end)
    return end
  }

  #remove({ tokenDigest, retiring }: Registered): void {
    for (const digest of [tokenDigest, retiring?.digest]) {
      if (digest === undefined) continue
      const key = lookupKeyOfDigest(digest)
      const entry = this.#entries.get(key)
      if (entry !== undefined) this.#timed.delete(entry)
      this.#entries.delete(key)
    }
  }
}

function opensOf(subscription: Subscription): Readonly<Record<Endpoint, boolean>> {
  const opens = (endpoint: Endpoint) => {
    const by = grantedBy[endpoint]
    if (by === 'any') return !isEnrolled(subscription)
    return by.some((product) => subscription.products.includes(product))
  }
  return {
    rpc: opens('rpc'),
    websocket: opens('websocket'),
    grpc: opens('grpc'),
    indexer: opens('indexer'),
    tpu: opens('tpu'),
    metrics: opens('metrics'),
    feeds: opens('feeds'),
  }
}
