// Keeps this gateway's fair share of the leases of one kind, each by exactly one gateway.
// Renews all in one statement twice a second. A lease that is not renewed ends here at its
// deadline, before the server gives it to another gateway, also when nothing ticks in between.
//
//   members ─► live gateways, own rank ─► fair share ─► hold ─► held, deadline
//   over the fair share: stop using a fifth of the excess, then give it back, once a second

import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../base/clock.ts'
import { isFault } from '../../base/errors.ts'
import type { Leases } from '../../base/shared-log.ts'

export interface LeaseKeeperDeps {
  readonly leases: Leases & {
    rankOf(prefix: string, name: string): Promise<{ live: number; before: number }>
  }
  readonly clock: Clock
  /** First part of the leases' names. */
  readonly kind: string
  /** Unique to this process. */
  readonly session: string
  /** After a holder's last renewal. */
  readonly ttlMs?: number
}

export interface LeaseUser {
  /** What this gateway could serve now. */
  wanted(): readonly string[]
  /** Called for each name that is held from now on, no longer, or with another term. */
  onChanged(name: string): void
  /** Held leases must not be used later than in this many milliseconds. */
  onDeadline(leftMs: number): void
}

const tickMs = 500
const ttlMsUsual = 2_000
/** Between the end of using a lease and giving it back. */
const settleMs = 200
const giveBackMs = 1_000
/** Of the excess, at a time: many destinations are even within half a minute. */
const giveBackPart = 5

export class LeaseKeeper {
  readonly #deps: LeaseKeeperDeps
  /** Term of each held lease. */
  #held: ReadonlyMap<string, number> = new Map()
  #leaving: ReadonlySet<string> = new Set()
  #user: LeaseUser | null = null
  #untilMs = Number.NEGATIVE_INFINITY
  #gaveBackMs = Number.NEGATIVE_INFINITY
  /** Leases taken since the start. */
  taken = 0
  #ticking: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null

  constructor(deps: LeaseKeeperDeps) {
    this.#deps = deps
  }

  isHeld(name: string): boolean {
    return this.termOf(name) !== null
  }

  /** Term of a held lease; null while it is not held. */
  termOf(name: string): number | null {
    return this.#isOver() ? null : (this.#held.get(`${this.#deps.kind}/${name}`) ?? null)
  }

  get size(): number {
    return this.#isOver() ? 0 : this.#held.size
  }

  start(user: LeaseUser): void {
    this.#user = user
    this.#timer = setInterval(() => void this.tick(), tickMs)
    void this.tick()
  }

  /** Stops using all leases and gives them back. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
    await this.#ticking
    const held = this.#held
    this.#use(new Map())
    if (held.size > 0) await sleep(settleMs)
    await this.#giveBack([...held.keys(), this.#member])
  }

  tick(): Promise<void> {
    if (this.#isOver()) this.#use(new Map())
    this.#ticking ??= this.#renew().finally(() => {
      this.#ticking = null
    })
    return this.#ticking
  }

  async #renew(): Promise<void> {
    const { leases, clock, kind, ttlMs = ttlMsUsual } = this.#deps
    const wanted = this.#user!.wanted().map((name) => `${kind}/${name}`)
    // A lease that is being given back is not renewed.
    const names = wanted.filter((name) => !this.#leaving.has(name))
    try {
      await leases.hold([this.#member], ttlMs, 1)
      const fair = fairShare(wanted.length, await leases.rankOf(`${kind}-member/`, this.#member))
      const held = await leases.hold(names, ttlMs, fair)
      // Between its deadline and this renewal nothing was held, even where the term is the same.
      if (this.#isOver()) this.#use(new Map())
      // The first deadline counts: one statement renewed all.
      const untilMs = Math.min(Number.POSITIVE_INFINITY, ...held.map((lease) => lease.untilMs))
      this.#untilMs = untilMs
      this.#use(new Map(held.map(({ name, term }) => [name, term])))
      // After what is no longer held was reported: the deadline is of the current terms.
      this.#user!.onDeadline(untilMs - clock.monotonicMs())
      const excess = Math.max(0, held.length - fair)
      const some = held.slice(held.length - Math.ceil(excess / giveBackPart))
      this.#leave(some.map(({ name }) => name))
    } catch (error) {
      // The connection itself reports that it is down; the deadline ends what is held.
      if (!isFault(error)) throw error
    }
  }

  #leave(names: readonly string[]): void {
    const { clock, ttlMs = ttlMsUsual } = this.#deps
    const nowMs = clock.monotonicMs()
    const isLeaving = this.#leaving.size > 0
    if (names.length === 0 || isLeaving || nowMs - this.#gaveBackMs < giveBackMs) return
    const leaving = new Set(names)
    this.#leaving = leaving
    this.#gaveBackMs = nowMs
    this.#use(new Map([...this.#held].filter(([held]) => !leaving.has(held))))
    setTimeout(async () => {
      // Without an answer it may be carried out late: the lease is not used again in this term.
      if (!(await this.#giveBack(names))) await sleep(ttlMs, undefined, { ref: false })
      this.#leaving = new Set()
    }, settleMs)
  }

  /** False without an answer: the leases end by themselves. */
  async #giveBack(names: readonly string[]): Promise<boolean> {
    const { leases } = this.#deps
    const done = await Promise.allSettled(names.map((name) => leases.giveBack(name)))
    return done.every(({ status }) => status === 'fulfilled')
  }

  #use(held: ReadonlyMap<string, number>): void {
    const before = this.#held
    this.#held = held
    const { length } = `${this.#deps.kind}/`
    for (const name of before.keys()) if (!held.has(name)) this.#user?.onChanged(name.slice(length))
    for (const [name, term] of held)
      if (before.get(name) !== term) {
        this.taken++
        this.#user?.onChanged(name.slice(length))
      }
  }

  #isOver(): boolean {
    return this.#deps.clock.monotonicMs() >= this.#untilMs
  }

  get #member(): string {
    return `${this.#deps.kind}-member/${this.#deps.session}`
  }
}

/** Shares differ by one; the first ones have it. With fewer names any gateway may have one. */
function fairShare(names: number, { live, before }: { live: number; before: number }): number {
  if (names < live) return 1
  const gateways = Math.max(1, live)
  return Math.floor(names / gateways) + (before < names % gateways ? 1 : 0)
}
