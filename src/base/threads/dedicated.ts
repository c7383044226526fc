// Runs one worker thread for the lifetime of the server: starts, supervises, restarts, stops it.
//
// The worker finds `{ ...data, control }` in workerData, ends its loop when the control word is
// set, and posts 'ready' once it works. A thread cannot be terminated while it runs native code,
// so such calls must return within the stop timeout.
import { type TransferListItem, Worker } from 'node:worker_threads'
import { Fault, messageOf } from '../errors.ts'
import { ControlWord } from '../rings/control.ts'
import { workerEntry } from './entry.ts'
import { registerThreads } from './running.ts'
import {
  endWithin,
  type Incarnation,
  outcomeOfStart,
  type RestartPolicy,
  Supervisor,
  type SupervisorDeps,
} from './supervisor.ts'

export interface DedicatedOptions {
  /** Name of the component in logs and meters. */
  readonly name: string
  /** Name of the file in dist/workers, or its URL. */
  readonly entry: string | URL
  /** Becomes workerData, with `control` added. Shared memory in it survives a restart. */
  readonly data: Readonly<Record<string, unknown>>
  readonly backoff?: RestartPolicy
  readonly stopMsMax?: number
  /** Messages that the worker posts, except its 'ready'. */
  onMessage?(message: unknown): void
  /** The thread ended; it may be started again. */
  onExit?(): void
}

/** Node's error when the thread itself could not be created, mostly for lack of descriptors. */
const noThread = 'threw: Worker initialization failure'
const startMsMax = 10_000
const stopMsMax = 2000

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
    const { name, entry, data } = this.#options
    const control = new ControlWord()
    const url = typeof entry === 'string' ? workerEntry(entry) : entry
    const worker = new Worker(url, { name, workerData: { ...data, control: control.buffer } })
    const ended = watch(worker)
    await this.#ready(worker, ended)
    this.#worker = worker
    worker.on('message', (message) => this.#options.onMessage?.(message))
    void ended.then(() => {
      if (this.#worker === worker) this.#worker = null
      this.#options.onExit?.()
    })
    return { ended, stop: () => this.#end(worker, control, ended) }
  }

  async #ready(worker: Worker, ended: Promise<string>): Promise<void> {
    const ready = new Promise<null>((resolve) => worker.once('message', () => resolve(null)))
    const outcome = await outcomeOfStart(ready, ended, startMsMax)
    if (outcome === null) return
    await worker.terminate()
    const retryable = outcome.startsWith(noThread)
    throw new Fault('worker-start', `worker ${this.#options.name} ${outcome}`, { retryable })
  }

  #end(worker: Worker, control: ControlWord, ended: Promise<string>): Promise<void> {
    control.stop()
    // For workers that handle messages instead of running a loop.
    worker.postMessage('stop')
    return endWithin(ended, this.#options.stopMsMax ?? stopMsMax, () => void worker.terminate())
  }
}

/** Resolves once the thread has exited, with how the worker ended. */
function watch(worker: Worker): Promise<string> {
  let reason = ''
  worker.on('error', (error: unknown) => {
    reason = `threw: ${messageOf(error)}`
  })
  return new Promise((resolve) => {
    worker.once('exit', (code) => resolve(reason === '' ? `exited with code ${code}` : reason))
  })
}
