// Observes several endpoints at once, each in a thread of its own, and pairs what they showed.
//
//   all live ─► warm-up ─► count: [start, end) ─► cool-down ─► stop
//
// An item counts when its first sight is in the window; the cool-down gives slower endpoints time
// to show the last ones. A run that ends early gives up the last part of its window for that.
import { setTimeout as timeout } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { accept, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import { workerEntry } from '../../base/package-root.ts'
import { Heartbeat } from '../lag-watch.ts'
import { Latencies } from '../latencies.ts'
import type { Interval } from '../statistics.ts'
import { sharedNowMs } from '../thread-clock.ts'
import type { ObserverReport } from './observe.ts'
import type { Subject } from './observer.ts'
import { type PairScore, type RaceScore, scoreOf, tieMs, type Window } from './score.ts'
import { SightTable } from './sight-table.ts'
import { canRaceItself, type RaceTarget } from './units.ts'

// Runs a race: first the null run, one endpoint against itself, then all endpoints.

interface RaceOptions extends Omit<ObserveOptions, 'timing'> {
  readonly timing: Timing
  /** Counted time of the null run; 0 for none. */
  readonly nullMs: number
  readonly seed: number
}

interface NullRun {
  readonly label: string
  readonly pair: PairScore
}

export interface PairVerdict extends PairScore {
  /** True when the interval clears what the null run shows of the same endpoint twice. */
  readonly isReal: boolean
}

export interface RaceOutcome {
  readonly score: RaceScore
  readonly observed: Observed
  /** Null when no endpoint can be read twice, or none was asked for. */
  readonly nullRun: NullRun | null
  /** Milliseconds that a difference must exceed. */
  readonly floorMs: number
  readonly verdicts: readonly PairVerdict[]
  readonly partial: string | null
}

export async function runRace(options: RaceOptions): Promise<Outcome<RaceOutcome>> {
  const twice = options.targets.find(canRaceItself)
  let nullRun: NullRun | null = null
  if (twice !== undefined && options.nullMs > 0) {
    const run = await runNull(twice, options)
    if (!run.ok) return run
    nullRun = run.value
  }
  const observed = await observeEndpoints(options)
  if (!observed.ok) return observed
  const { table, window, partial } = observed.value
  const score = scoreOf(table, window, options.seed)
  const floorMs = floorOf(nullRun?.pair.interval ?? null)
  const verdicts = score.pairs.map((pair) => ({ ...pair, isReal: clears(pair.interval, floorMs) }))
  return accept({ score, observed: observed.value, nullRun, floorMs, verdicts, partial })
}

async function runNull(target: RaceTarget, options: RaceOptions): Promise<Outcome<NullRun>> {
  const observed = await observeEndpoints({
    ...options,
    targets: [target, target],
    timing: { ...options.timing, countMs: options.nullMs },
    progress: (phase, seen) => options.progress(`null run, ${phase}`, seen),
  })
  if (!observed.ok) return observed
  const { table, window } = observed.value
  const [pair] = scoreOf(table, window, options.seed).pairs
  return accept({ label: target.label, pair: pair! })
}

/** The larger end of the null run's interval: differences within it are noise of the method. */
export function floorOf(interval: Interval | null): number {
  if (interval === null) return tieMs
  return Math.max(tieMs, Math.abs(interval.low), Math.abs(interval.high))
}

export function clears(interval: Interval | null, floorMs: number): boolean {
  return interval !== null && (interval.low > floorMs || interval.high < -floorMs)
}

interface Timing {
  readonly warmUpMs: number
  readonly countMs: number
  readonly coolDownMs: number
}

interface ObserveOptions {
  readonly targets: readonly RaceTarget[]
  readonly subject: Subject
  readonly timing: Timing
  /** Ends the run early. */
  readonly signal: AbortSignal
  /** Called a few times a second with what each endpoint has shown so far. */
  progress(phase: string, seen: readonly number[]): void
}

export interface ConnectionState {
  readonly label: string
  /** Sights, repeated ones included. */
  sights: number
  reconnects: number
  readonly roundTrips: Latencies
  lagP99Ms: number | null
}

interface Observed {
  readonly table: SightTable
  readonly window: Window
  readonly connections: readonly ConnectionState[]
  /** Why it ended early; null for a complete run. */
  readonly partial: string | null
}

const stopMsMax = 5_000
const progressEveryMs = 200

/** Refuses when an endpoint cannot be observed at all. */
async function observeEndpoints(options: ObserveOptions): Promise<Outcome<Observed>> {
  const { targets, timing, signal } = options
  const table = new SightTable(targets.length)
  const heartbeat = new Heartbeat()
  const ended = new AbortController()
  const onAbort = () => ended.abort(String(signal.reason))
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort)
  const connections = targets.map(
    (target, index) =>
      new Connection(target, {
        subject: options.subject,
        heartbeat,
        saw: (key, slot, atMs) => table.add(index, key, slot, atMs),
        failed: (problem) => ended.abort(problem),
      }),
  )
  let phase = 'connecting'
  const showing = setInterval(() => {
    options.progress(
      phase,
      connections.map(({ state }) => state.sights),
    )
  }, progressEveryMs)
  try {
    const stopped = new Promise<void>((resolve) => {
      if (ended.signal.aborted) resolve()
      ended.signal.addEventListener('abort', () => resolve())
    })
    await Promise.race([Promise.all(connections.map(({ live }) => live)), stopped])
    if (ended.signal.aborted)
      return refuse('unavailable', 'no-endpoint', String(ended.signal.reason))
    phase = 'warm-up'
    await sleep(timing.warmUpMs, ended.signal)
    const startMs = sharedNowMs()
    phase = 'counting'
    await sleep(timing.countMs, ended.signal)
    const isEarly = ended.signal.aborted
    const nowMs = sharedNowMs()
    const endMs = isEarly ? Math.max(startMs, nowMs - timing.coolDownMs) : nowMs
    phase = 'cool-down'
    await sleep(timing.coolDownMs, ended.signal)
    await Promise.all(connections.map((connection) => connection.stop()))
    const partial = isEarly ? String(ended.signal.reason) : null
    return accept({
      table,
      window: { startMs, endMs },
      connections: connections.map(({ state }) => state),
      partial,
    })
  } finally {
    clearInterval(showing)
    signal.removeEventListener('abort', onAbort)
    await Promise.all(connections.map((connection) => connection.stop()))
    await heartbeat.stop()
  }
}

/** Resolves after the time, or at once when the signal aborts. */
async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await timeout(ms, undefined, { signal }).catch(() => {})
}

interface ConnectionDeps {
  readonly subject: Subject
  readonly heartbeat: Heartbeat
  saw(key: string, slot: number, atMs: number): void
  failed(problem: string): void
}

/** One observer thread. */
class Connection {
  readonly state: ConnectionState
  readonly live: Promise<void>
  readonly #worker: Worker
  readonly #deps: ConnectionDeps
  readonly #ended: Promise<void>
  #isLive = () => {}

  constructor({ kind, url, token, label }: RaceTarget, deps: ConnectionDeps) {
    const roundTrips = new Latencies()
    this.state = { label, sights: 0, reconnects: 0, roundTrips, lagP99Ms: null }
    this.#deps = deps
    const heartbeat = deps.heartbeat.port()
    const endpoint = { kind, url: url.href, token }
    this.#worker = new Worker(workerEntry('race-observer'), {
      name: `race ${label}`,
      workerData: { endpoint, subject: deps.subject, heartbeat },
      transferList: [heartbeat],
    })
    this.live = new Promise((resolve) => {
      this.#isLive = resolve
    })
    this.#ended = new Promise((resolve) => this.#worker.once('exit', () => resolve()))
    this.#worker.on('message', (report: ObserverReport) => this.#take(report))
    this.#worker.on('error', (error) => deps.failed(`${label} failed: ${messageOf(error)}`))
  }

  /** Resolves when the thread has posted everything and ended. */
  async stop(): Promise<void> {
    this.#worker.postMessage('stop')
    const timer = setTimeout(() => void this.#worker.terminate(), stopMsMax)
    await this.#ended
    clearTimeout(timer)
  }

  #take(report: ObserverReport): void {
    const { state } = this
    switch (report.kind) {
      case 'live':
        this.#isLive()
        return
      case 'sights':
        for (const [index, key] of report.keys.entries())
          this.#deps.saw(key, report.numbers[index * 2]!, report.numbers[index * 2 + 1]!)
        state.sights += report.keys.length
        return
      case 'roundTrip':
        state.roundTrips.record(report.ms)
        return
      case 'lost':
        state.reconnects += 1
        return
      case 'failed':
        this.#deps.failed(
          report.wasLive
            ? `${state.label} ended half-way and did not come back: it ${report.problem}`
            : `${state.label} ${report.problem}`,
        )
        return
      case 'done':
        state.lagP99Ms = report.lagP99Ms
    }
  }
}
