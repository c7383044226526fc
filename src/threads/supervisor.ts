// Keeps one worker or child process alive: sees its death, counts it, starts it again with
// back-off, and gives up loudly. Thread: main. Called by dedicated.ts and child.ts.
//
//   launch -> running -> died -> (vital? or too often?) -> onDown
//               ^          |
//               +-- wait --+   100 ms, doubled up to 10 s, forgotten after a minute of health
import type { Clock } from '../base/clock.ts'
import { Fault, messageOf } from '../base/errors.ts'
import type { Log } from '../telemetry/log.ts'
import type { CounterChild, GaugeChild } from '../telemetry/meters.ts'

/** One life of the part. */
export interface Incarnation {
  /** Resolves when it is gone, with a sentence on how it ended. */
  readonly ended: Promise<string>
  /** Asks it to end and ends it by force after a bound. */
  stop(): Promise<void>
}

export interface SupervisorDeps {
  readonly clock: Clock
  readonly log: Log
  readonly restarts?: CounterChild
  /** 1 while the part runs. */
  readonly up?: GaugeChild
  /** A vital part died, or another one died too often. The server must not pretend to be well. */
  onDown(fault: Fault): void
}

export interface SupervisorOptions {
  readonly name: string
  /** A vital part is not started again: its state is gone with it. */
  readonly isVital: boolean
  readonly backoff?: Backoff
  launch(): Promise<Incarnation>
}

export interface Backoff {
  readonly firstMs: number
  readonly lastMs: number
  /** Deaths in a row, each before `healthyMs`, after which it is given up. */
  readonly deathsMax: number
  readonly healthyMs: number
}

export const usualBackoff: Backoff = {
  firstMs: 100,
  lastMs: 10_000,
  deathsMax: 10,
  healthyMs: 60_000,
}

export class Supervisor {
  readonly #options: SupervisorOptions
  readonly #deps: SupervisorDeps
  readonly #backoff: Backoff
  #current: Incarnation | null = null
  /** A launch under way; `stop` waits for it, or the part would outlive the server. */
  #launching: Promise<void> = Promise.resolve()
  #isStopping = false
  #deathsInRow = 0
  #timer: NodeJS.Timeout | null = null
  restarts = 0

  constructor(options: SupervisorOptions, deps: SupervisorDeps) {
    this.#options = options
    this.#deps = deps
    this.#backoff = options.backoff ?? usualBackoff
  }

  get isRunning(): boolean {
    return this.#current !== null
  }

  /** The first launch; its failure is the caller's. Later ones are this file's business. */
  start(): Promise<void> {
    this.#launching = this.#launch()
    return this.#launching
  }

  /** Ends the part for good. Idempotent, never throws. */
  async stop(): Promise<void> {
    this.#isStopping = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    await this.#launching.catch(() => {})
    await this.#current?.stop()
  }

  async #launch(): Promise<void> {
    const incarnation = await this.#options.launch()
    if (this.#isStopping) return incarnation.stop()
    this.#current = incarnation
    this.#deps.up?.set(1)
    const bornMs = this.#deps.clock.monotonicMs()
    void incarnation.ended.then((how) => {
      this.#current = null
      this.#deps.up?.set(0)
      if (this.#isStopping) return
      const livedMs = this.#deps.clock.monotonicMs() - bornMs
      if (livedMs >= this.#backoff.healthyMs) this.#deathsInRow = 0
      this.#died(how)
    })
  }

  #died(how: string): void {
    const { name, isVital } = this.#options
    const { log, onDown } = this.#deps
    this.#deathsInRow += 1
    const { deathsMax, firstMs, lastMs } = this.#backoff
    if (isVital || this.#deathsInRow >= deathsMax) {
      const message = `${name} ${how}${isVital ? '' : `, ${this.#deathsInRow} times in a row`}`
      log.error('a part of the server is down', { part: name, how })
      onDown(new Fault('part-down', message))
      return
    }
    const delayMs = Math.min(lastMs, firstMs * 2 ** (this.#deathsInRow - 1))
    log.warn('a part of the server died and is started again', { part: name, how, delayMs })
    this.restarts += 1
    this.#deps.restarts?.inc()
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#launching = this.#launch().catch((error: unknown) => {
        if (!this.#isStopping) this.#died(`did not start: ${messageOf(error)}`)
      })
    }, delayMs)
  }
}
