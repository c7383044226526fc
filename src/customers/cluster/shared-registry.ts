// Joins this gateway's registry to its cluster's, for the server and for commands.
// A database without a registry, another cluster's data folder and a registry with changes that the
// cluster does not have are refused with one sentence.
import type { Clock } from '../../base/clock.ts'
import { Fault, isFault, messageOf } from '../../base/errors.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'
import { type AuditHead, isAuditEntry } from '../subscriptions/audit.ts'
import type { Known } from '../subscriptions/changes.ts'
import type { ConsumerTable } from '../subscriptions/consumers.ts'
import type { Store } from '../subscriptions/store.ts'
import { isRegistered } from '../subscriptions/subscription.ts'
import { isoTime, type UsageReport } from '../subscriptions/usage.ts'
import type { Cluster } from './cluster.ts'
import type { RegistryEntry, RegistryNews } from './ports.ts'
import { PostgresRegistry } from './postgres/registry.ts'
import {
  postgresConsumers,
  postgresUsage,
  type SeededConsumer,
  seedConsumers,
  seedUsage,
} from './postgres/tables.ts'
import { SharedUsage } from './usage.ts'

export interface SharedRegistryDeps {
  readonly cluster: Cluster
  readonly store: Store
  readonly known: Known
  readonly clock: Clock
  readonly log: Log
}

/** A registry that was not the cluster's for this long: new callers are refused as unavailable. */
const expiredMs = 600_000
/** How long a start waits for PostgreSQL before it goes on with its last state. */
const readyMs = 5_000

export class SharedRegistry {
  /** Changes of subscriptions. */
  readonly verbs: PostgresRegistry
  readonly follower: RegistryFollower
  readonly usage: ReturnType<typeof postgresUsage>
  readonly consumers: ConsumerTable
  readonly cluster: Cluster
  readonly #deps: SharedRegistryDeps
  /** Calls `notify` after changes were stored here. */
  onFollowed: () => void = () => {}

  constructor(deps: SharedRegistryDeps) {
    const { cluster, store, known, clock, log } = deps
    this.#deps = deps
    this.cluster = cluster
    this.verbs = new PostgresRegistry({
      reading: cluster.reading,
      writing: cluster.writing,
      replica: store,
      known,
      onChanged: () => this.follower.pull(),
    })
    this.follower = new RegistryFollower({
      news: this.verbs,
      store,
      clock,
      log,
      onFollowed: () => {
        this.onFollowed()
        void cluster.beat()
      },
    })
    this.usage = postgresUsage(cluster.writing)
    this.consumers = postgresConsumers(cluster.writing)
  }

  stop(): Promise<void> {
    return this.follower.stop()
  }

  /**
   * Follows the cluster up to its newest change. Without an answer of PostgreSQL a gateway that
   * joined before goes on with its last state. Throws a `Fault` when it must not join.
   */
  async join(): Promise<void> {
    const { cluster, store, log } = this.#deps
    try {
      if (await this.#isReady()) return await this.#join()
    } catch (error) {
      // Connections may also end between two statements.
      if (!(error instanceof Fault && error.retryable)) throw error
    }
    const reason = cluster.reading.problem
    if (store.cluster() === null)
      throw new Fault('cluster', `the PostgreSQL of cluster.url does not answer: ${reason}`)
    log.area('cluster').warn('PostgreSQL is away: the last known registry is used', { reason })
  }

  async #join(): Promise<void> {
    const { store } = this.#deps
    const identity = await this.verbs.identity()
    const joined = store.cluster()
    if (joined !== null && joined !== identity)
      throw new Fault('cluster', 'this data folder belongs to another cluster than cluster.url')
    // A registry that never followed this cluster must not add its own changes to it.
    const isAhead = joined === null && store.head().seq > (await this.verbs.head()).seq
    if (!isAhead) await this.follower.pull()
    if (!isAhead && joined === null && this.follower.state === 'away')
      throw new Fault('cluster', 'the registry could not be read', { retryable: true })
    if (isAhead || (joined === null && this.follower.state !== 'following'))
      throw new Fault(
        'cluster',
        'the registry of this data folder has changes that the cluster does not have: ' +
          'use an empty data folder',
      )
    store.joinCluster(identity)
  }

  /** Copies this data folder's registry into the database; false when that has one. */
  async seed(): Promise<boolean> {
    const { cluster, store } = this.#deps
    if (!(await this.#isReady()))
      throw new Fault('cluster', `PostgreSQL does not answer: ${cluster.reading.problem}`)
    const id = await this.verbs.identity()
    const registered = [...store.allRegistered()]
    const consumers: SeededConsumer[] = []
    for (const { subscription } of registered)
      for (const one of await store.consumers.list(subscription.id))
        consumers.push({ id: subscription.id, ...one })
    const isSeeded = await this.verbs.seed(
      [...store.audit()],
      registered,
      store.head(),
      async (queries) => {
        await seedUsage(queries, store.allWindows(), store.allDays())
        await seedConsumers(queries, consumers)
      },
    )
    if (isSeeded) store.joinCluster(id)
    return isSeeded
  }

  /** Usage over all gateways. */
  async report(ref: string): Promise<UsageReport | null> {
    const { store } = this.#deps
    const found = store.find(ref)
    if (found === null) return null
    const { window, startsAtMs, endsAtMs } = store.openWindow(found.id)
    const credits = await this.usage.credits(found.id, window)
    const days = await this.usage.days(found.id)
    return {
      id: found.id,
      window: { from: isoTime(startsAtMs), to: isoTime(endsAtMs), credits },
      days,
    }
  }

  /** True when the registry here is too old to let anybody in, on a fork too. */
  isExpired(): boolean {
    return this.follower.state !== 'following' && this.follower.ageMs() > expiredMs
  }

  /** Where a gateway's quota sends usage. */
  openUsage(): SharedUsage {
    const { cluster, store, clock, log } = this.#deps
    return new SharedUsage({ usage: this.usage, session: cluster.session, store, clock, log })
  }

  async #isReady(): Promise<boolean> {
    const { reading, writing } = this.#deps.cluster
    const both = await Promise.all([reading.ready(readyMs), writing.ready(readyMs)])
    return both.every((isReady) => isReady)
  }
}

// Keeps this gateway's registry equal to the cluster's: pulls new audit entries with their
// records, verifies the hash chain and stores them in one LMDB transaction.
// A notification wakes it, and a poll every 250 ms in case one is lost. Never goes back: a database
// that lost its newest entries gets them again from here, and one with another entry at the same
// number is reported and not followed. A record that is none is left out and counted: its subject
// keeps the last one.

export interface FollowerDeps {
  readonly news: RegistryNews & { heal(): Promise<number> }
  readonly store: Pick<Store, 'head' | 'holds' | 'follow'>
  readonly clock: Clock
  readonly log: Log
  /** Called after entries were stored, here or by a command. */
  onFollowed?(): void
}

export type FollowerState = 'following' | 'away' | 'forked'

const pollMs = 250

export class RegistryFollower {
  readonly #deps: FollowerDeps
  readonly #log: Log
  readonly #throttle = new LogThrottle()
  state: FollowerState = 'away'
  #followedMs: number
  /** Entries that this gateway appended again to a database that had lost them. */
  healed = 0
  /** Records that were read and are none. */
  invalidRecords = 0
  /** The newest change that `onFollowed` was called for. */
  #toldSeq = -1
  #pulling: Promise<void> = Promise.resolve()
  #next: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null
  #unlisten: () => void = () => {}

  constructor(deps: FollowerDeps) {
    this.#deps = deps
    this.#log = deps.log.area('cluster')
    this.#followedMs = deps.clock.monotonicMs()
  }

  start(): void {
    this.#unlisten = this.#deps.news.onNews(() => void this.pull())
    this.#timer = setInterval(() => void this.pull(), pollMs)
    void this.pull()
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#unlisten()
    await (this.#next ?? this.#pulling)
  }

  /** Milliseconds since this registry was last known to be the cluster's. */
  ageMs(): number {
    return this.#deps.clock.monotonicMs() - this.#followedMs
  }

  /** Pulls what is new, one pull at a time: resolves after one that began since. */
  pull(): Promise<void> {
    this.#next ??= this.#pulling.then(() => {
      this.#next = null
      this.#pulling = this.#follow()
      return this.#pulling
    })
    return this.#next
  }

  async #follow(): Promise<void> {
    try {
      await this.#pull()
      this.#enter('following', '')
      this.#followedMs = this.#deps.clock.monotonicMs()
    } catch (error) {
      if (!isFault(error)) throw error
      const isFork = error instanceof Fault && error.kind === 'cluster-fork'
      this.#enter(isFork ? 'forked' : 'away', messageOf(error))
    }
  }

  async #pull(): Promise<void> {
    const { news, store, onFollowed } = this.#deps
    const theirs = await news.head()
    if (theirs.seq < store.head().seq) {
      if (!store.holds(theirs)) throw forked(theirs, 'another entry')
      const count = await news.heal()
      this.healed += count
      if (count > 0)
        this.#log.warn('the database had lost changes; they were added again', { count })
      return
    }
    if (theirs.seq === store.head().seq && theirs.hash !== store.head().hash)
      throw forked(theirs, 'another entry')
    while (store.head().seq < theirs.seq) {
      const { seq } = store.head()
      const entries = await news.after(seq, theirs.seq - seq)
      if (entries.length === 0) break
      if (!entries.every(({ entry }) => isAuditEntry(entry)))
        throw forked(theirs, 'an entry is invalid')
      const problem = store.follow(entries.map((one) => this.#checked(one)))
      if (problem !== null) throw forked(theirs, problem)
    }
    // Also what a command on the same data folder has stored before.
    if (this.#toldSeq !== store.head().seq) onFollowed?.()
    this.#toldSeq = store.head().seq
  }

  #checked({ entry, record }: RegistryEntry): RegistryEntry {
    const isValid = isRegistered(record) && record.subscription.id === entry.subject
    if (record === null || isValid) return { entry, record }
    this.invalidRecords++
    if (this.#throttle.allows('record', this.#deps.clock.monotonicMs())) {
      const { seq, subject } = entry
      this.#log.error('a record of the cluster is invalid and left out', { seq, subject })
    }
    return { entry, record: null }
  }

  #enter(state: FollowerState, reason: string): void {
    const before = this.state
    this.state = state
    if (state === 'following') {
      if (before === 'forked') this.#log.info('the registry follows its cluster again')
      return
    }
    const nowMs = this.#deps.clock.monotonicMs()
    if (state === 'forked' && (before !== 'forked' || this.#throttle.allows('forked', nowMs)))
      this.#log.error('the cluster has another registry and is not followed', { reason })
  }
}

function forked({ seq }: AuditHead, problem: string): Fault {
  return new Fault('cluster-fork', `change ${seq} of the database: ${problem}`)
}
