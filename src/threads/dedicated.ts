// One worker thread that runs for as long as the server: started, watched, restarted, stopped.
// Thread: main. Topology starts one for each long loop (analysis, shreds, verify).
//
// The worker finds `{ ...data, control }` in workerData, ends its loop when the control word says
// so, and posts 'ready' once it works. A thread cannot be killed while it sits in native code, so
// such calls must come back within the stop bound.
import { type TransferListItem, Worker } from 'node:worker_threads'
import { Fault, messageOf } from '../base/errors.ts'
import { ControlWord } from '../rings/control.ts'
import { workerEntry } from './entry.ts'
import { type Backoff, type Incarnation, Supervisor, type SupervisorDeps } from './supervisor.ts'

export interface DedicatedOptions {
  /** Name of the part in logs and meters. */
  readonly name: string
  /** Name of the file in dist/workers, or its URL. */
  readonly entry: string | URL
  /** Becomes workerData, with `control` added. Shared memory in it survives a restart. */
  readonly data: Readonly<Record<string, unknown>>
  readonly isVital?: boolean
  readonly backoff?: Backoff
  readonly startMsMax?: number
  readonly stopMsMax?: number
  /** What the worker posts, besides its 'ready'. */
  onMessage?(message: unknown): void
}

const startMsMax = 10_000
const stopMsMax = 2000

export class DedicatedWorker {
  readonly #options: DedicatedOptions
  readonly #supervisor: Supervisor
  #worker: Worker | null = null

  private constructor(options: DedicatedOptions, deps: SupervisorDeps) {
    this.#options = options
    this.#supervisor = new Supervisor(
      {
        name: options.name,
        isVital: options.isVital ?? false,
        launch: () => this.#launch(),
        ...(options.backoff === undefined ? {} : { backoff: options.backoff }),
      },
      deps,
    )
  }

  /** Resolves when the worker said 'ready'; rejects with a Fault when it does not start. */
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

  /** False when the worker is down at the moment; the message is then dropped. */
  post(message: unknown, transfer: readonly TransferListItem[] = []): boolean {
    if (this.#worker === null) return false
    this.#worker.postMessage(message, transfer)
    return true
  }

  /** By the control word first, by terminate after the bound. */
  stop(): Promise<void> {
    return this.#supervisor.stop()
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
    })
    const bound = this.#options.stopMsMax ?? stopMsMax
    return { ended, stop: () => endWithin(worker, control, ended, bound) }
  }

  async #ready(worker: Worker, ended: Promise<string>): Promise<void> {
    const { name } = this.#options
    let timer: NodeJS.Timeout | undefined
    const ready = new Promise<null>((resolve) => worker.once('message', () => resolve(null)))
    const late = new Promise<string>((resolve) => {
      const boundMs = this.#options.startMsMax ?? startMsMax
      timer = setTimeout(() => resolve('did not say that it is ready'), boundMs)
    })
    const outcome = await Promise.race([ready, ended, late])
    clearTimeout(timer)
    if (outcome === null) return
    await worker.terminate()
    throw new Fault('worker-start', `worker ${name} ${outcome}`)
  }
}

/** How the worker ended, told once its thread is gone. */
function watch(worker: Worker): Promise<string> {
  let reason = ''
  worker.on('error', (error: unknown) => {
    reason = `threw: ${messageOf(error)}`
  })
  return new Promise((resolve) => {
    worker.once('exit', (code) => resolve(reason === '' ? `exited with code ${code}` : reason))
  })
}

async function endWithin(
  worker: Worker,
  control: ControlWord,
  ended: Promise<string>,
  boundMs: number,
): Promise<void> {
  control.stop()
  // For workers that live by messages and not by a loop.
  worker.postMessage('stop')
  const timer = setTimeout(() => void worker.terminate(), boundMs)
  await ended
  clearTimeout(timer)
}
