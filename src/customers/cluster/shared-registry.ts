// Joins this gateway's registry to its cluster's, for the server and for commands.
// A database without a registry, another cluster's data folder and a registry with changes that the
// cluster does not have are refused with one sentence.
import type { Clock } from '../../base/clock.ts'
import { Fault } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
import type { Known } from '../subscriptions/changes.ts'
import type { Store } from '../subscriptions/store.ts'
import type { UsageReport } from '../subscriptions/usage.ts'
import { isoTime } from '../subscriptions/usage.ts'
import type { Cluster } from './cluster.ts'
import { RegistryFollower } from './follower.ts'
import { PostgresConsumers, type SeededConsumer, seedConsumers } from './postgres/consumers.ts'
import { PostgresRegistry } from './postgres/registry.ts'
import { PostgresUsage, seedUsage } from './postgres/usage.ts'
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
  readonly usage: PostgresUsage
  readonly consumers: PostgresConsumers
  readonly cluster: Cluster
  readonly #deps: SharedRegistryDeps
  #onFollowed: () => void = () => {}

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
        this.#onFollowed()
        void cluster.beat()
      },
    })
    this.usage = new PostgresUsage(cluster.writing)
    this.consumers = new PostgresConsumers(cluster.writing)
  }

  stop(): Promise<void> {
    return this.follower.stop()
  }

  /** Calls `notify` after changes were stored here. */
  onFollowed(notify: () => void): void {
    this.#onFollowed = notify
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
    const reason = cluster.reading.problem()
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
    const head = await this.verbs.head()
    // A registry that never followed this cluster must not add its own changes to it.
    const isAhead = joined === null && store.head().seq > head.seq
    if (!isAhead) await this.follower.pull()
    if (isAhead || (joined === null && this.follower.state() !== 'following'))
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
      throw new Fault('cluster', `PostgreSQL does not answer: ${cluster.reading.problem()}`)
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
    return this.follower.state() !== 'following' && this.follower.ageMs() > expiredMs
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
