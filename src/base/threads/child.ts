// Runs a supervised child process, for native code that may abort or must be killable, and calls
// it over a pipe. The indexer's queries run in processes of another kind
// (indexer/duckdb/query-process.ts).
import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { Fault } from '../errors.ts'
import { workerEntry } from './entry.ts'
import { childPipe, FrameLink } from './frames.ts'
import { registerProcess } from './running.ts'
import {
  endWithin,
  type Incarnation,
  outcomeOfStart,
  type RestartPolicy,
  Supervisor,
  type SupervisorDeps,
} from './supervisor.ts'

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
   * Calls the child. Rejects with a Fault: `child-busy` (too much in flight), `child-gone` (down
   * or died during the call), `child-slow` (timeout), all retryable; `call-failed`.
   */
  call<T>(call: string, input: unknown, timeoutMs?: number): Promise<T> {
    const { name } = this.#options
    const link = this.#link
    if (link === null) return Promise.reject(gone(name))
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
    const child = spawn(process.execPath, [file, ...words], {
      stdio: ['ignore', 2, 2, 'pipe'],
    })
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

function gone(name: string): Fault {
  return new Fault('child-gone', `${name} is not running`, { retryable: true })
}

function watch(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(`did not start: ${error.message}`))
    child.once('exit', (code, signal) =>
      resolve(signal === null ? `exited with code ${code}` : `was ended by ${signal}`),
    )
  })
}
