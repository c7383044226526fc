// Supervises one worker or child process: counts its deaths and restarts it with exponential
// back-off until it has died too often in a row. A start for which the machine lacks resources (a
// retryable fault) is retried without limit and does not count as a death.
//
//   launch -> running -> died -> (too often in a row?) -> onDown
//               ^          |
//               +-- wait --+   100 ms, doubled up to 10 s, reset after a minute of uptime
import { type Backoff, backoffMs } from '../backoff.ts'
import type { Clock } from '../clock.ts'
import { Fault, messageOf } from '../errors.ts'
import type { Log } from '../telemetry/log.ts'
import type { CounterChild, GaugeChild } from '../telemetry/meters.ts'

/** One run of the component, from launch to death. */
export interface Incarnation {
  /** Resolves when it has ended, with a phrase on how it ended. */
  readonly ended: Promise<string>
  /** Requests a stop, and kills it after a timeout. */
  stop(): Promise<void>
}

export interface SupervisorDeps {
  readonly clock: Clock
  readonly log: Log
  readonly restarts?: CounterChild
  /** 1 while the component runs. */
  readonly up?: GaugeChild
  /** The component died too often. The server must not report itself healthy. */
  onDown(fault: Fault): void
}

export interface SupervisorOptions {
  readonly name: string
  readonly backoff?: RestartPolicy | undefined
  launch(): Promise<Incarnation>
}

export interface RestartPolicy extends Backoff {
  /** Deaths in a row, each before `healthyMs`, after which it is not restarted any more. */
  readonly deathsMax: number
  readonly healthyMs: number
}

const defaultPolicy: RestartPolicy = {
  firstMs: 100,
  lastMs: 10_000,
  deathsMax: 10,
  healthyMs: 60_000,
}

/** For what the rest of the service works without. */
export const restartForever: RestartPolicy = {
  firstMs: 100,
  lastMs: 5_000,
  deathsMax: Number.POSITIVE_INFINITY,
  healthyMs: 10_000,
}

export class Supervisor {
  readonly #options: SupervisorOptions
  readonly #deps: SupervisorDeps
  readonly #backoff: RestartPolicy
  #current: Incarnation | null = null
  /** A launch in progress; `stop` waits for it, or the component would outlive the server. */
  #launching: Promise<void> = Promise.resolve()
  #isStopping = false
  #deathsInRow = 0
  #timer: NodeJS.Timeout | null = null
  restarts = 0

  constructor(options: SupervisorOptions, deps: SupervisorDeps) {
    this.#options = options
    this.#deps = deps
    this.#backoff = options.backoff ?? defaultPolicy
  }

  get isRunning(): boolean {
    return this.#current !== null
  }

  /** The first launch. Rejects when it fails; failures of later launches are handled here. */
  start(): Promise<void> {
    this.#launching = this.#launch()
    return this.#launching
  }

  /** Stops the component without restarting it. Idempotent, never throws. */
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
    const startedMs = this.#deps.clock.monotonicMs()
    void incarnation.ended.then((how) => {
      this.#current = null
      this.#deps.up?.set(0)
      if (this.#isStopping) return
      const uptimeMs = this.#deps.clock.monotonicMs() - startedMs
      if (uptimeMs >= this.#backoff.healthyMs) this.#deathsInRow = 0
      this.#died(how)
    })
  }

  #died(how: string): void {
    const { name } = this.#options
    const { log, onDown } = this.#deps
    this.#deathsInRow += 1
    if (this.#deathsInRow >= this.#backoff.deathsMax) {
      const message = `${name} ${how}, ${this.#deathsInRow} times in a row`
      log.error('component failed permanently', { component: name, how })
      onDown(new Fault('component-down', message))
      return
    }
    const delayMs = Math.round(backoffMs(this.#deathsInRow, this.#backoff))
    log.warn('component died, restarting', { component: name, how, delayMs })
    this.restarts += 1
    this.#deps.restarts?.inc()
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#launching = this.#launch().catch((error: unknown) => {
        if (this.#isStopping) return
        const { deathsMax } = this.#backoff
        if (error instanceof Fault && error.retryable)
          this.#deathsInRow = Math.min(this.#deathsInRow, deathsMax - 2)
        this.#died(`did not start: ${messageOf(error)}`)
      })
    }, delayMs)
  }
}

/** Null once it is ready, or a phrase on why it is not. */
export async function outcomeOfStart(
  ready: Promise<null>,
  ended: Promise<string>,
  timeoutMs: number,
): Promise<string | null> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve('did not become ready in time'), timeoutMs)
  })
  const outcome = await Promise.race([ready, ended, late])
  clearTimeout(timer)
  return outcome
}

/** Resolves when it has ended; kills it after the timeout. */
export async function endWithin(
  ended: Promise<string>,
  timeoutMs: number,
  kill: () => void,
): Promise<void> {
  const timer = setTimeout(kill, timeoutMs)
  await ended
  clearTimeout(timer)
}
