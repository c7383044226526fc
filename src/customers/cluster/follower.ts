// Keeps this gateway's registry equal to the cluster's: pulls new audit entries with their
// records, verifies the hash chain and stores them in one LMDB transaction.
// A notification wakes it, and a poll every 250 ms in case one is lost. Never goes back: a database
// that lost its newest entries gets them again from here, and one with another entry at the same
// number is reported and not followed. A record that is none is left out and counted: its subject
// keeps the last one.
import type { Clock } from '../../base/clock.ts'
import { Fault, isFault, messageOf } from '../../base/errors.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'
import { type AuditHead, isAuditEntry } from '../subscriptions/audit.ts'
import type { Store } from '../subscriptions/store.ts'
import { isRegistered } from '../subscriptions/subscription.ts'
import type { RegistryEntry, RegistryNews } from './ports.ts'
import { entriesMax } from './postgres/registry-rows.ts'

export interface FollowerDeps {
  readonly news: RegistryNews & { heal(): Promise<number> }
  readonly store: Pick<Store, 'head' | 'holds' | 'follow'>
  readonly clock: Clock
  readonly log: Log
  /** Called after entries were stored. */
  onFollowed?(): void
}

export type FollowerState = 'following' | 'away' | 'forked'

const pollMs = 250

export class RegistryFollower {
  readonly #deps: FollowerDeps
  readonly #log: Log
  readonly #throttle = new LogThrottle()
  #state: FollowerState = 'away'
  #followedMs: number
  #healed = 0
  #invalidRecords = 0
  #pulling: Promise<void> | null = null
  #isDue = false
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
    this.#isDue = false
    await this.#pulling
  }

  state(): FollowerState {
    return this.#state
  }

  /** Milliseconds since this registry was last known to be the cluster's. */
  ageMs(): number {
    return this.#deps.clock.monotonicMs() - this.#followedMs
  }

  /** Entries that this gateway appended again to a database that had lost them. */
  healed(): number {
    return this.#healed
  }

  /** Records that were read and are none. */
  invalidRecords(): number {
    return this.#invalidRecords
  }

  /** Pulls what is new; one pull at a time, and another one when asked meanwhile. */
  pull(): Promise<void> {
    this.#isDue = true
    this.#pulling ??= this.#pullAll().finally(() => {
      this.#pulling = null
    })
    return this.#pulling
  }

  async #pullAll(): Promise<void> {
    while (this.#isDue) {
      this.#isDue = false
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
  }

  async #pull(): Promise<void> {
    const { news, store, onFollowed } = this.#deps
    const theirs = await news.head()
    if (theirs.seq < store.head().seq) {
      if (!store.holds(theirs)) throw forked(theirs, 'another entry')
      const count = await news.heal()
      this.#healed += count
      if (count > 0)
        this.#log.warn('the database had lost changes; they were added again', { count })
      return
    }
    if (!isSame(theirs, store.head()) && theirs.seq === store.head().seq)
      throw forked(theirs, 'another entry')
    let hasFollowed = false
    // What is changed meanwhile is pulled next: its notification follows.
    while (store.head().seq < theirs.seq) {
      const count = Math.min(theirs.seq - store.head().seq, entriesMax)
      const entries = await news.after(store.head().seq, count)
      if (entries.length === 0) break
      if (!entries.every(({ entry }) => isAuditEntry(entry)))
        throw forked(theirs, 'an entry is invalid')
      const problem = store.follow(entries.map((one) => this.#checked(one)))
      if (problem !== null) throw forked(theirs, problem)
      hasFollowed = true
    }
    if (hasFollowed) onFollowed?.()
  }

  #checked({ entry, record }: RegistryEntry): RegistryEntry {
    const isValid = isRegistered(record) && record.subscription.id === entry.subject
    if (record === null || isValid) return { entry, record }
    this.#invalidRecords++
    if (this.#throttle.allows('record', this.#deps.clock.monotonicMs())) {
      const { seq, subject } = entry
      this.#log.error('a record of the cluster is invalid and left out', { seq, subject })
    }
    return { entry, record: null }
  }

  #enter(state: FollowerState, reason: string): void {
    const before = this.#state
    this.#state = state
    if (state === 'following') {
      if (before === 'forked') this.#log.info('the registry follows its cluster again')
      return
    }
    const nowMs = this.#deps.clock.monotonicMs()
    if (state === 'forked' && (before !== 'forked' || this.#throttle.allows('forked', nowMs)))
      this.#log.error('the cluster has another registry and is not followed', { reason })
  }
}

function isSame(a: AuditHead, b: AuditHead): boolean {
  return a.seq === b.seq && a.hash === b.hash
}

function forked({ seq }: AuditHead, problem: string): Fault {
  return new Fault('cluster-fork', `change ${seq} of the database: ${problem}`)
}
