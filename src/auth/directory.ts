// The active subscriptions in memory, by the digest of their token. Thread: main.
// Follows the registry by comparing its newest change every 250 ms, so that a change made by the
// operator's command, in another process, is in force here well within a second.
// Only forward: a registry that lacks a change seen before is an older copy, in which revoked
// tokens live again. It is not read; row "a registry restored from an older copy" in DESIGN.md.
import { timingSafeEqual } from 'node:crypto'
import { type Cidr, containsAny, parseAddress, parseCidr } from '../base/cidr.ts'
import type { Clock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import { guarded } from '../base/guard.ts'
import { type AuditHead, emptyHead } from '../subscriptions/audit.ts'
import { lookupKeyOfDigest } from '../subscriptions/issue.ts'
import type { Product, Registered, Subscription } from '../subscriptions/subscription.ts'
import { faultReport, type Log } from '../telemetry/log.ts'
import type { Door, Origin, Principal } from './token.ts'

/** What the directory asks of the registry; subscriptions/store.ts fits. */
export interface Registry {
  head(): AuditHead
  /** False when it lacks that change, or has another one in its place. */
  holds(head: AuditHead): boolean
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

/** When a grace ends: by whichever clock says so first, so that none can be set back to undo it. */
interface GraceEnd {
  readonly digest: string
  readonly untilMs: number
  readonly monotonicMs: number
}

/** One living token. */
export class Entry {
  readonly principal: Principal
  readonly #cidrs: readonly Cidr[]
  readonly #graceEnd: GraceEnd | null
  readonly #opens: Readonly<Record<Door, boolean>>
  readonly #passwordDigest: Buffer | null

  constructor(record: Registered, digest: string, graceEnd: GraceEnd | null) {
    const { subscription, passwordDigest } = record
    this.principal = { subscription, digest }
    this.#cidrs = subscription.cidrs.map((text) => parseCidr(text)).filter((cidr) => cidr !== null)
    this.#graceEnd = graceEnd
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
  /** Called with the newest change once it is in force here. */
  onHead?(head: AuditHead): void
}

export class Directory {
  readonly #registry: Registry
  readonly #clock: Clock
  readonly #log: Log
  readonly #entries = new Map<string, Entry>()
  readonly #records = new Map<string, Registered>()
  readonly #inGrace = new Set<Entry>()
  /** By subscription, as first computed: a later change of it must not begin anew. */
  readonly #graceEnds = new Map<string, GraceEnd>()
  readonly #watchers = new Set<(subscription: Subscription) => void>()
  readonly #onHead: (head: AuditHead) => void
  #head = emptyHead
  #isRolledBack = false
  #timer: NodeJS.Timeout | null = null

  /** Reads everything once; `start` follows the changes from there. */
  constructor(registry: Registry, deps: DirectoryDeps) {
    this.#registry = registry
    this.#clock = deps.clock
    this.#log = deps.log.area('auth')
    this.#onHead = deps.onHead ?? (() => {})
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
    return this.#head.seq
  }

  /** True while the registry is an older copy than the one in force here. */
  isRolledBack(): boolean {
    return this.#isRolledBack
  }

  /** Told of each subscription that changed, and of one whose retiring token died. */
  watch(watcher: (subscription: Subscription) => void): () => void {
    this.#watchers.add(watcher)
    return () => this.#watchers.delete(watcher)
  }

  start(): void {
    // The next poll tries again; until then the last state holds.
    const report = faultReport(this.#log, 'the registry could not be read')
    this.#timer ??= setInterval(
      guarded(() => this.refresh(), report),
      pollMs,
    )
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }

  /** Takes over what changed since the last call. */
  refresh(): void {
    const changed = new Set<string>()
    const head = this.#registry.head()
    if ((head.hash !== this.#head.hash || this.#isRolledBack) && this.#follows()) {
      for (const record of this.#changedRecords()) {
        this.#replace(record)
        changed.add(record.subscription.id)
      }
      this.#head = head
      this.#onHead(head)
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

  /** Whether the registry goes on from what is in force here. Logs when that changes. */
  #follows(): boolean {
    const isRolledBack = !this.#registry.holds(this.#head)
    if (isRolledBack === this.#isRolledBack) return !isRolledBack
    this.#isRolledBack = isRolledBack
    if (isRolledBack)
      this.#log.error('the registry was replaced by an older copy and is not read', {
        inForce: this.#head.seq,
        found: this.#registry.head().seq,
        toDo: 'put the newer copy back, or stop the server and see Backup in docs/OPERATING.md',
      })
    else this.#log.info('the registry is the newer copy again')
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

  #replace(record: Registered): void {
    const { subscription, tokenDigest } = record
    const before = this.#records.get(subscription.id)
    if (before !== undefined) this.#remove(before)
    const graceEnd = this.#graceEnd(record)
    this.#records.set(subscription.id, record)
    if (subscription.state !== 'active') return
    const current = new Entry(record, tokenDigest, null)
    this.#entries.set(lookupKeyOfDigest(tokenDigest), current)
    if (graceEnd === null) return
    const entry = new Entry(record, graceEnd.digest, graceEnd)
    if (entry.isOver(this.#clock)) return
    this.#entries.set(lookupKeyOfDigest(graceEnd.digest), entry)
    this.#inGrace.add(entry)
  }

  /**
   * What is left of a grace was known when the subscription last changed; a clock that is behind
   * that moment was set back, and one that was set back since we know the grace adds nothing.
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
