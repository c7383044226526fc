// Tracks every destination: follows the registry, challenges new addresses, pauses closed ports.
// Writes the target table that the shred worker reads; handles the worker's events.
//
//   registry change ─► follow ─► target table ─► worker
//   worker: echo ─► confirm in the registry
//           refused ─► pause, exponential back-off to 60 s
//           alive ─► resume
import { containsAny, parseCidr } from '../../base/cidr.ts'
import { backoffMs, type Clock } from '../../base/clock.ts'
import { Fault, isBug, messageOf, type Outcome } from '../../base/errors.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'
import {
  type By,
  parseEndpoint,
  type Subscription,
  servedAddress,
} from '../../customers/subscriptions/subscription.ts'
import type { SharedStats } from './shared-stats.ts'
import type { WorkerEvent } from './target-tracker.ts'
import {
  newNonce,
  rowsMax,
  type Target,
  type TargetAddress,
  type TargetTable,
  targetOf,
} from './targets.ts'

// ShredStream Raw in docs/api/shredstream.md: once a second, ten times.
const challengesMax = 10
const challengeMs = 1000
const tickMs = 50

export interface DestinationsDeps {
  readonly directory: {
    subscriptions(): Iterable<Subscription>
    watch(watcher: (subscription: Subscription) => void): () => void
    refresh(): void
  }
  readonly store: {
    confirmDestination(ref: string, by: By, address: string): MaybeLater<Outcome<Subscription>>
    failDestination(ref: string, by: By, address: string): MaybeLater<Outcome<Subscription>>
  }
  readonly table: TargetTable
  readonly stats: SharedStats
  readonly clock: Clock
  readonly log: Log
  /** The server's own ports: they are refused as destinations on this machine. */
  readonly ownPorts: () => readonly number[]
  /** Among several gateways each destination is served by the one that holds it. */
  readonly leases?: DestinationLeases | null
}

interface Challenge extends TargetAddress {
  readonly nonce: Target['nonce']
  tries: number
  nextMs: number
}

interface Entry {
  subscription: Subscription
  serve: TargetAddress | null
  challenge: Challenge | null
  pause: Pause | null
}

const loopback = ['127.0.0.0/8', '::1'].map((text) => parseCidr(text)!)

export class Destinations {
  readonly #deps: DestinationsDeps
  readonly #entries = new Map<string, Entry>()
  readonly #rowsTaken = new Set<number>()
  readonly #changes: RegistryChanges
  #generation = 0
  #unwatch: (() => void) | null = null
  #timer: NodeJS.Timeout | null = null

  constructor(deps: DestinationsDeps) {
    this.#deps = deps
    this.#changes = new RegistryChanges(deps)
  }

  start(): void {
    const { directory, leases, table } = this.#deps
    leases?.start({
      wanted: () => [...directory.subscriptions()].filter(hasDestination).map(({ id }) => id),
      onChanged: (id) => this.#onLease(id),
      onDeadline: (leftMs) => table.setDeadline(leftMs),
    })
    for (const subscription of directory.subscriptions()) this.#follow(subscription)
    this.#write()
    this.#unwatch = directory.watch((subscription) => {
      this.#follow(subscription)
      this.#write()
    })
    this.#timer = setInterval(() => this.tick(), tickMs)
  }

  stop(): void {
    this.#unwatch?.()
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }

  /** Sends due challenges, fails unanswered ones, resumes destinations whose pause is over. */
  tick(): void {
    const nowMs = this.#deps.clock.monotonicMs()
    this.#changes.tick()
    let hasChanged = false
    for (const entry of this.#entries.values()) {
      hasChanged = this.#tickChallenge(entry, nowMs) || hasChanged
      hasChanged = tickPause(entry, nowMs) || hasChanged
    }
    if (hasChanged) this.#write()
  }

  /** Handles an event of the worker; events of an older use of the row are ignored. */
  onWorkerEvent(event: WorkerEvent): void {
    for (const entry of this.#entries.values()) {
      const target = event.kind === 'echo' ? entry.challenge : entry.serve
      if (target?.row !== event.row || target.generation !== event.generation) continue
      if (event.kind === 'echo') this.#proven(entry, target)
      else if (event.kind === 'refused') this.#refused(entry)
      else this.#alive(entry)
      return
    }
  }

  /** Live state of each destination, for the operator. */
  *report(): Iterable<Readonly<Record<string, unknown>>> {
    for (const { subscription, serve, challenge, pause } of this.#entries.values()) {
      const { id, label } = subscription
      if (challenge !== null)
        yield { id, label, address: challenge.text, state: 'pending', challenges: challenge.tries }
      if (serve === null) continue
      const isPaused = pause?.isOn === true
      const numbers = this.#deps.stats.targets.row(serve.row)
      yield {
        id,
        label,
        address: serve.text,
        state: isPaused ? 'unreachable' : 'active',
        ...numbers,
      }
    }
  }

  counts(): { active: number; pending: number; unreachable: number } {
    const all = { active: 0, pending: 0, unreachable: 0 }
    for (const { serve, challenge, pause } of this.#entries.values()) {
      if (challenge !== null) all.pending += 1
      if (serve === null) continue
      if (pause?.isOn === true) all.unreachable += 1
      else all.active += 1
    }
    return all
  }

  #follow(subscription: Subscription): void {
    const { id, destination } = subscription
    const { leases } = this.#deps
    const isEntitled = hasDestination(subscription) && (leases?.isHeld(id) ?? true)
    const servedText = isEntitled ? servedAddress(destination) : null
    const challengedText =
      isEntitled && destination?.state === 'pending' ? destination.address : null
    const entry = this.#entries.get(id) ?? {
      subscription,
      serve: null,
      challenge: null,
      pause: null,
    }
    entry.subscription = subscription
    if (entry.serve?.text !== servedText) {
      const proven = entry.challenge
      this.#releaseRow(entry.serve)
      entry.pause = null
      // The served address keeps the row of its challenge.
      if (proven !== null && proven.text === servedText) {
        entry.serve = proven
        entry.challenge = null
        this.#changes.cancel(id)
      } else entry.serve = servedText === null ? null : this.#allocateRow(servedText)
    }
    if ((entry.challenge?.text ?? null) !== challengedText) {
      this.#releaseRow(entry.challenge)
      this.#changes.cancel(id)
      const target = challengedText === null ? null : this.#allocateRow(challengedText)
      const nextMs = this.#deps.clock.monotonicMs()
      entry.challenge = target === null ? null : { ...target, nonce: newNonce(), tries: 0, nextMs }
    }
    if (entry.serve === null && entry.challenge === null) this.#entries.delete(id)
    else this.#entries.set(id, entry)
  }

  #onLease(id: string): void {
    for (const subscription of this.#deps.directory.subscriptions())
      if (subscription.id === id) this.#follow(subscription)
    this.#write()
  }

  #tickChallenge(entry: Entry, nowMs: number): boolean {
    const { challenge, subscription } = entry
    if (challenge === null || nowMs < challenge.nextMs) return false
    // Proven, but the registry write is still pending.
    if (this.#changes.isPending(subscription.id)) return false
    if (challenge.tries < challengesMax) {
      challenge.tries += 1
      challenge.nextMs = nowMs + challengeMs
      return true
    }
    // Reported once: the challenge is over whatever the registry returns.
    challenge.nextMs = Number.POSITIVE_INFINITY
    const { store, log, directory } = this.#deps
    const { id } = subscription
    this.#changes.make(id, () => {
      const by = { who: 'server', reason: `${challengesMax} challenges unanswered` }
      return whenMade(store.failDestination(id, by, challenge.text), (failed) => {
        if (failed.ok) log.info('destination failed: challenges unanswered', { subscription: id })
        directory.refresh()
      })
    })
    return false
  }

  #proven(entry: Entry, target: TargetAddress): void {
    const { store, log, directory } = this.#deps
    const { id, destination } = entry.subscription
    if (destination?.state !== 'pending' || destination.address !== target.text) return
    this.#changes.make(id, () => {
      const by = { who: 'server', reason: 'challenge echoed' }
      return whenMade(store.confirmDestination(id, by, target.text), (confirmed) => {
        if (confirmed.ok) log.info('destination proven', { subscription: id })
        directory.refresh()
      })
    })
  }

  #refused(entry: Entry): void {
    const { pause, subscription } = entry
    if (pause?.isOn === true) return
    entry.pause = new Pause(pause, this.#deps.clock.monotonicMs())
    const { delayMs } = entry.pause
    this.#deps.log.info('destination paused: port closed', {
      subscription: subscription.id,
      delayMs,
    })
    this.#write()
  }

  /** Resumes a paused destination: a probe met no error. */
  #alive({ pause, subscription }: Entry): void {
    if (pause?.isOn !== true) return
    pause.end(this.#deps.clock.monotonicMs())
    this.#deps.log.info('destination resumed', { subscription: subscription.id })
    this.#write()
  }

  #allocateRow(text: string): TargetAddress | null {
    const endpoint = parseEndpoint(text)
    if (endpoint === null) return null
    const isOwn = this.#deps.ownPorts().includes(endpoint.port)
    if (isOwn && containsAny(loopback, endpoint.address)) return null
    for (let row = 0; row < rowsMax; row += 1) {
      if (this.#rowsTaken.has(row)) continue
      this.#rowsTaken.add(row)
      this.#generation += 1
      this.#deps.stats.targets.clear(row)
      this.#deps.stats.targets.set(row, 'generation', this.#generation)
      return { ...endpoint, text, row, generation: this.#generation }
    }
    this.#deps.log.error('destination table is full', { max: rowsMax })
    return null
  }

  #releaseRow(target: TargetAddress | null): void {
    if (target !== null) this.#rowsTaken.delete(target.row)
  }

  #write(): void {
    const targets: Target[] = []
    for (const { serve, challenge, pause } of this.#entries.values()) {
      const kind = pause?.isOn === true ? 'probe' : 'serve'
      if (serve !== null) targets.push(targetOf(kind, serve))
      if (challenge !== null)
        targets.push({
          ...targetOf('challenge', challenge),
          ...challenge,
          challenges: challenge.tries,
        })
    }
    this.#deps.table.write(targets)
  }
}

function tickPause(entry: Entry, nowMs: number): boolean {
  const { pause } = entry
  if (pause?.hasRecovered(nowMs) === true) entry.pause = null
  if (pause?.isOver(nowMs) !== true) return false
  pause.end(nowMs)
  return true
}

// Pauses a destination whose port is closed (a circuit breaker).
// Exponential back-off from 250 ms to 60 s. While the destination is paused the worker sends one
// shred a second as a probe; a probe without an error ends the pause at once.

const backoff = { firstMs: 250, lastMs: 60_000 }
/** After this long without errors the back-off starts over. */
const healthyMs = 10_000

export class Pause {
  readonly delayMs: number
  readonly #failures: number
  /** When the destination is served again; null while it is half-open. */
  #untilMs: number | null
  #sinceMs: number

  /** Starts a pause; `previous` is the last one, unless the destination has recovered since. */
  constructor(previous: Pause | null, nowMs: number) {
    this.#failures = previous === null ? 1 : previous.#failures + 1
    this.delayMs = Math.round(backoffMs(this.#failures, backoff))
    this.#untilMs = nowMs + this.delayMs
    this.#sinceMs = nowMs
  }

  /** False while the destination is served again (half-open). */
  get isOn(): boolean {
    return this.#untilMs !== null
  }

  isOver(nowMs: number): boolean {
    return this.#untilMs !== null && nowMs >= this.#untilMs
  }

  /** True when the half-open destination had no errors long enough: the back-off is reset. */
  hasRecovered(nowMs: number): boolean {
    return this.#untilMs === null && nowMs - this.#sinceMs >= healthyMs
  }

  /** Ends the pause: the destination is served again, half-open. */
  end(nowMs: number): void {
    this.#untilMs = null
    this.#sinceMs = nowMs
  }
}

// What shredstream needs of the leases of destinations among several gateways.

export interface DestinationLeases {
  /** Whether this gateway serves the destination of that subscription. */
  isHeld(subscription: string): boolean
  start(user: {
    wanted(): readonly string[]
    onChanged(subscription: string): void
    onDeadline(leftMs: number): void
  }): void
  /** Gives all leases back, after nothing is sent any more. */
  stop(): Promise<void>
}

/** True when shreds, or challenges, are to be sent to an address of that subscription. */
export function hasDestination({ state, products, destination }: Subscription): boolean {
  return state === 'active' && products.includes('shredstream') && destination !== null
}

const changeBackoff = { firstMs: 250, lastMs: 10_000 }

/** The registry answers at once, a cluster's later. */
type MaybeLater<T> = T | Promise<T>

interface Change {
  readonly apply: () => void | Promise<void>
  failures: number
  nextMs: number
}

/**
 * Writes the server's own changes to the registry. A full disk or a broken registry must not stop
 * the server: the change stays pending, one per subscription, until it can be written.
 */
export class RegistryChanges {
  readonly #clock: Clock
  readonly #log: Log
  readonly #throttle = new LogThrottle()
  readonly #pending = new Map<string, Change>()

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Log }) {
    this.#clock = clock
    this.#log = log
  }

  isPending(id: string): boolean {
    return this.#pending.has(id)
  }

  /** Applies a change, now or with retries; an older pending change of that id is dropped. */
  make(id: string, apply: () => void | Promise<void>): void {
    this.#attempt(id, { apply, failures: 0, nextMs: 0 })
  }

  /** Drops the pending change of that subscription. */
  cancel(id: string): void {
    this.#pending.delete(id)
  }

  /** Retries the changes that are due. */
  tick(): void {
    const nowMs = this.#clock.monotonicMs()
    for (const [id, change] of this.#pending) if (nowMs >= change.nextMs) this.#attempt(id, change)
  }

  #attempt(id: string, change: Change): void {
    this.#pending.delete(id)
    try {
      const made = change.apply()
      if (made instanceof Promise) this.#follow(id, change, made)
    } catch (error) {
      this.#retry(id, change, error)
    }
  }

  /** Pending, without a retry, until the cluster has answered. */
  #follow(id: string, change: Change, made: Promise<void>): void {
    change.nextMs = Number.POSITIVE_INFINITY
    this.#pending.set(id, change)
    const isCurrent = () => this.#pending.get(id) === change
    made.then(
      () => {
        if (isCurrent()) this.#pending.delete(id)
      },
      (error: unknown) => {
        if (isCurrent()) this.#retry(id, change, error)
      },
    )
  }

  #retry(id: string, change: Change, error: unknown): void {
    if (isBug(error)) throw error
    const nowMs = this.#clock.monotonicMs()
    change.failures++
    change.nextMs = nowMs + backoffMs(change.failures, changeBackoff)
    this.#pending.set(id, change)
    if (this.#throttle.allows('write', nowMs))
      this.#log.error('registry write failed: retrying', {
        subscription: id,
        reason: messageOf(error),
      })
  }
}

/** A cluster that is unavailable is retried; any other refusal is final. */
function whenMade(
  made: MaybeLater<Outcome<Subscription>>,
  then: (outcome: Outcome<Subscription>) => void,
): void | Promise<void> {
  const finish = (outcome: Outcome<Subscription>) => {
    if (!outcome.ok && outcome.refusal.kind === 'unavailable')
      throw new Fault('cluster', outcome.refusal.message, { retryable: true })
    then(outcome)
  }
  return made instanceof Promise ? made.then(finish) : finish(made)
}
