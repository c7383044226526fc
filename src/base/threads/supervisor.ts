// Runs supervised child processes and worker threads.
// A child process is for native code that may abort or must be killable; it is called over a pipe.
// The indexer's queries run in processes of another kind (indexer/duckdb/query-process.ts).
import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { type ResourceLimits, type TransferListItem, Worker } from 'node:worker_threads'
import { type Backoff, backoffMs, type Clock } from '../clock.ts'
import { Fault, messageOf } from '../errors.ts'
import { workerEntry } from '../package-root.ts'
import { ControlWord } from '../rings/layout.ts'
import type { Log } from '../telemetry/log.ts'
import type { CounterChild, GaugeChild } from '../telemetry/meters.ts'
import { childPipe, FrameLink } from './frames.ts'
import { registerProcess, registerThreads } from './running.ts'

export interface ChildOptions {
  /** Name of the component in logs and meters. */
  readonly name: string
  /** Name of the file in dist/workers, or its URL. It calls `serveFrames`. */
  readonly entry: string | URL
  /** Command-line arguments: plain settings, never a secret. */
  readonly words?: readonly string[]
  readonly backoff?: RestartPolicy
  readonly callsMax?: number
  readonly stopMsMax?: number
  onEvent?(event: string, data: unknown): void
  /** Called after each start, the first included: send the state that a new process lacks. */
  onStart?(): void
}

const callsMax = 1024
const unsentBytesMax = 32 * 1024 * 1024
const startMsMax = 30_000
const stopMsMax = 3000

interface PendingCall {
  resolve(value: unknown): void
  reject(fault: Fault): void
  readonly timer: NodeJS.Timeout | null
}

export class SupervisedChild {
  readonly #options: ChildOptions
  readonly #supervisor: Supervisor
  readonly #pending = new Map<number, PendingCall>()
  #link: FrameLink | null = null
  #lastCallId = 0
  #pid = 0

  private constructor(options: ChildOptions, deps: SupervisorDeps) {
    this.#options = options
    this.#supervisor = new Supervisor(
      { name: options.name, backoff: options.backoff, launch: () => this.#launch() },
      deps,
    )
  }

  /** Resolves when the child serves; rejects with a Fault when it does not start. */
  static async start(options: ChildOptions, deps: SupervisorDeps): Promise<SupervisedChild> {
    const child = new SupervisedChild(options, deps)
    await child.#supervisor.start()
    return child
  }

  get restarts(): number {
    return this.#supervisor.restarts
  }

  get isRunning(): boolean {
    return this.#link !== null
  }

  /** Process id of the current process; 0 while none runs. */
  get pid(): number {
    return this.#link === null ? 0 : this.#pid
  }

  /**
   * Calls the child. Rejects with a Fault: `child-busy` (too much in flight) or `child-down`, not
   * sent; `child-gone` (died), `child-slow` (timeout), all retryable; `call-failed`.
   */
  call<T>(call: string, input: unknown, timeoutMs?: number): Promise<T> {
    const { name } = this.#options
    const link = this.#link
    if (link === null) return Promise.reject(gone(name, 'child-down'))
    const isFull = this.#pending.size >= (this.#options.callsMax ?? callsMax)
    if (isFull || link.unsentBytes > unsentBytesMax)
      return Promise.reject(
        new Fault('child-busy', `${name} has too many calls in flight`, { retryable: true }),
      )
    return this.#send(link, call, input, timeoutMs)
  }

  /** A call of few bytes about one that is under way: it is never `child-busy`. */
  steer<T>(call: string, input: unknown): Promise<T> {
    const link = this.#link
    return link === null ? Promise.reject(gone(this.#options.name)) : this.#send(link, call, input)
  }

  #send<T>(link: FrameLink, call: string, input: unknown, timeoutMs?: number): Promise<T> {
    this.#lastCallId += 1
    const id = this.#lastCallId
    return new Promise<T>((resolve, reject) => {
      const timer = timeoutMs === undefined ? null : setTimeout(() => this.#timeOut(id), timeoutMs)
      this.#pending.set(id, { resolve: resolve as (value: unknown) => void, reject, timer })
      link.send({ id, call, input })
    })
  }

  /** Kills the current process at once; the supervisor restarts it. For runaway native code. */
  kill(): void {
    if (this.#link !== null) process.kill(this.#pid, 'SIGKILL')
  }

  /** Sends a stop frame, and SIGKILL after the timeout. */
  stop(): Promise<void> {
    return this.#supervisor.stop()
  }

  async #launch(): Promise<Incarnation> {
    const { name, entry, words = [] } = this.#options
    const file = fileURLToPath(typeof entry === 'string' ? workerEntry(entry) : entry)
    // Its stdout goes to our stderr: our stdout is reserved for what the operator reads.
    const child = started(name, [file, ...words])
    registerProcess(child)
    const ended = watch(child)
    // Out of descriptors or processes: nothing was started, and there is no pipe either.
    if (child.pid === undefined)
      throw new Fault('child-start', `child process ${name} ${await ended}`, { retryable: true })
    const pipe = child.stdio[childPipe] as Duplex
    // Broken frames or a broken pipe: no output of this process can be trusted any more.
    pipe.on('error', () => child.kill('SIGKILL'))
    let onReady: () => void = () => {}
    const ready = new Promise<null>((resolve) => {
      onReady = () => resolve(null)
    })
    const link = new FrameLink(pipe, (value) => this.#receive(value, onReady))
    const outcome = await outcomeOfStart(ready, ended, startMsMax)
    if (outcome !== null) {
      child.kill('SIGKILL')
      throw new Fault('child-start', `child process ${name} ${outcome}`)
    }
    this.#link = link
    this.#pid = child.pid
    void ended.then(() => {
      if (this.#link === link) this.#link = null
      for (const id of [...this.#pending.keys()]) this.#settle(id)?.reject(gone(name))
    })
    this.#options.onStart?.()
    return { ended, stop: () => this.#end(child, link, ended) }
  }

  #end(child: ChildProcess, link: FrameLink, ended: Promise<string>): Promise<void> {
    link.send({ stop: true })
    return endWithin(ended, this.#options.stopMsMax ?? stopMsMax, () => child.kill('SIGKILL'))
  }

  #receive(value: unknown, onReady: () => void): void {
    const frame = value as {
      id?: number
      output?: unknown
      error?: string
      event?: string
      data?: unknown
    }
    if (frame.event === 'ready') onReady()
    else if (frame.event !== undefined) this.#options.onEvent?.(frame.event, frame.data)
    else if (frame.error === undefined) this.#settle(frame.id ?? 0)?.resolve(frame.output)
    else this.#settle(frame.id ?? 0)?.reject(new Fault('call-failed', frame.error))
  }

  #timeOut(id: number): void {
    const message = `${this.#options.name} did not answer in time`
    this.#settle(id)?.reject(new Fault('child-slow', message, { retryable: true }))
  }

  #settle(id: number): PendingCall | undefined {
    const pending = this.#pending.get(id)
    this.#pending.delete(id)
    if (pending?.timer) clearTimeout(pending.timer)
    return pending
  }
}

function gone(name: string, kind = 'child-gone'): Fault {
  return new Fault(kind, `${name} is not running`, { retryable: true })
}

/** Out of memory it throws, where it has no event: the machine lacks it, the child did not die. */
function started(name: string, words: readonly string[]): ChildProcess {
  try {
    return spawn(process.execPath, words, { stdio: ['ignore', 2, 2, 'pipe'] })
  } catch (cause) {
    const why = `child process ${name} did not start: ${messageOf(cause)}`
    throw new Fault('child-start', why, { cause, retryable: true })
  }
}

function watch(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(`did not start: ${error.message}`))
    child.once('exit', (code, signal) =>
      resolve(signal === null ? `exited with code ${code}` : `was ended by ${signal}`),
    )
  })
}

// Runs one worker thread for the lifetime of the server: starts, supervises, restarts, stops it.
//
// The worker finds `{ ...data, control }` in workerData, ends its loop when the control word is
// set, and posts 'ready' once it works. A thread cannot be terminated while it runs native code,
// so such calls must return within the stop timeout.

interface DedicatedOptions {
  /** Name of the component in logs and meters. */
  readonly name: string
  /** Name of the file in dist/workers, or its URL. */
  readonly entry: string | URL
  /** Becomes workerData, with `control` added. Shared memory in it survives a restart. */
  readonly data: Readonly<Record<string, unknown>>
  readonly backoff?: RestartPolicy
  readonly stopMsMax?: number
  readonly resourceLimits?: ResourceLimits
  /** Messages that the worker posts, except its 'ready'. */
  onMessage?(message: unknown): void
  /** The thread takes messages, now and after each restart. */
  onStart?(): void
  /** It ended; it may be started again. */
  onExit?(): void
}

/** Node's error when the thread itself could not be created, mostly for lack of descriptors. */
const noThread = 'threw: Worker initialization failure'
const threadStartMsMax = 10_000
const threadStopMsMax = 2000

export class DedicatedWorker {
  readonly #options: DedicatedOptions
  readonly #supervisor: Supervisor
  readonly #unregister: () => void
  #worker: Worker | null = null

  private constructor(options: DedicatedOptions, deps: SupervisorDeps) {
    this.#options = options
    this.#supervisor = new Supervisor(
      { name: options.name, backoff: options.backoff, launch: () => this.#launch() },
      deps,
    )
    this.#unregister = registerThreads(options.name, () => (this.#worker === null ? 0 : 1))
  }

  /** Resolves when the worker has posted 'ready'; rejects with a Fault when it does not start. */
  static async start(options: DedicatedOptions, deps: SupervisorDeps): Promise<DedicatedWorker> {
    const dedicated = new DedicatedWorker(options, deps)
    await dedicated.#supervisor.start()
    return dedicated
  }

  get restarts(): number {
    return this.#supervisor.restarts
  }

  get isRunning(): boolean {
    return this.#supervisor.isRunning
  }

  /** False while the worker is down; the message is then dropped. */
  post(message: unknown, transfer: readonly TransferListItem[] = []): boolean {
    if (this.#worker === null) return false
    this.#worker.postMessage(message, transfer)
    return true
  }

  /** Sets the control word, and terminates the thread after the timeout. */
  async stop(): Promise<void> {
    await this.#supervisor.stop()
    this.#unregister()
  }

  async #launch(): Promise<Incarnation> {
    const { name, entry, data, resourceLimits = {} } = this.#options
    const control = new ControlWord()
    const url = typeof entry === 'string' ? workerEntry(entry) : entry
    const workerData = { ...data, control: control.buffer }
    const worker = new Worker(url, { name, workerData, resourceLimits })
    const ended = watchThread(worker)
    await this.#ready(worker, ended)
    this.#worker = worker
    void ended.then(() => {
      if (this.#worker === worker) this.#worker = null
      this.#options.onExit?.()
    })
    this.#options.onStart?.()
    return { ended, stop: () => this.#end(worker, control, ended) }
  }

  async #ready(worker: Worker, ended: Promise<string>): Promise<void> {
    const ready = new Promise<null>((resolve) => {
      worker.on('message', (message) =>
        message === 'ready' ? resolve(null) : this.#options.onMessage?.(message),
      )
    })
    const outcome = await outcomeOfStart(ready, ended, threadStartMsMax)
    if (outcome === null) return
    await worker.terminate()
    const retryable = outcome.startsWith(noThread)
    throw new Fault('worker-start', `worker ${this.#options.name} ${outcome}`, { retryable })
  }

  #end(worker: Worker, control: ControlWord, ended: Promise<string>): Promise<void> {
    control.stop()
    // For workers that handle messages instead of running a loop.
    worker.postMessage('stop')
    return endWithin(
      ended,
      this.#options.stopMsMax ?? threadStopMsMax,
      () => void worker.terminate(),
    )
  }
}

/** Resolves once the thread has exited, with how the worker ended. */
function watchThread(worker: Worker): Promise<string> {
  let reason = ''
  worker.on('error', (error: unknown) => {
    reason = `threw: ${messageOf(error)}`
  })
  return new Promise((resolve) => {
    worker.once('exit', (code) => resolve(reason === '' ? `exited with code ${code}` : reason))
  })
}

// Supervises one worker or child process: counts its deaths and restarts it with exponential
// back-off until it has died too often in a row. A start for which the machine lacks resources (a
// retryable fault) is retried without limit and does not count as a death.
//
//   launch -> running -> died -> (too often in a row?) -> onDown
//               ^          |
//               +-- wait --+   100 ms, doubled up to 10 s, reset after a minute of uptime

/** One run of the component, from launch to death. */
interface Incarnation {
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

interface SupervisorOptions {
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
async function outcomeOfStart(
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
async function endWithin(
  ended: Promise<string>,
  timeoutMs: number,
  kill: () => void,
): Promise<void> {
  const timer = setTimeout(kill, timeoutMs)
  await ended
  clearTimeout(timer)
}
