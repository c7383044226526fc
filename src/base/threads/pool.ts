// Worker thread pool for self-contained jobs, such as the analysis of a block.
// The only importer of piscina. Never one job per event: a job costs about 60 us.
import { once } from 'node:events'
import { Piscina } from 'piscina'
import { Fault, messageOf } from '../errors.ts'
import { workerEntry } from '../package-root.ts'
import type { Log } from '../telemetry/log.ts'
import type { CounterChild } from '../telemetry/meters.ts'
import { registerThreads } from './running.ts'

export interface PoolOptions {
  /** Name of the file in dist/workers, or its URL; its default export runs the job. */
  readonly entry: string | URL
  readonly threads: number
  /** Jobs that may wait in the queue; one more is refused. */
  readonly queueMax: number
  /** Becomes workerData of every worker. */
  readonly data?: unknown
}

export interface PoolDeps {
  readonly log: Log
  /** Workers that died, busy or idle. */
  readonly deaths?: CounterChild
}

const stopMsMax = 5000
/** Piscina's messages for a worker that died during its job; any other error the job threw. */
const deathMessages = ['worker exited', 'Terminating worker thread']
const fullMessages = ['Task queue is at limit', 'No task queue available']

export class Pool {
  readonly #piscina: Piscina
  readonly #deps: PoolDeps
  readonly #unregister: () => void
  #isStopping = false
  deaths = 0

  constructor(options: PoolOptions, deps: PoolDeps) {
    this.#deps = deps
    const { entry } = options
    this.#piscina = new Piscina({
      filename: (typeof entry === 'string' ? workerEntry(entry) : entry).href,
      minThreads: options.threads,
      maxThreads: options.threads,
      maxQueue: options.queueMax,
      workerData: options.data,
      closeTimeout: stopMsMax,
    })
    const name = typeof entry === 'string' ? entry : (entry.pathname.split('/').pop() ?? '')
    this.#unregister = registerThreads(name, () => this.#piscina.threads.length)
    // Piscina reports a worker that died idle here; without a listener it would end the process.
    this.#piscina.on('error', (error: unknown) => this.#countDeath(messageOf(error)))
  }

  /**
   * Runs one job. Rejects with a Fault: `pool-full` (retryable), `worker-died` (retryable; the
   * pool has started another one), `job-failed` (the job threw), `pool-stopped`. `signal` ends a
   * job that hangs together with its worker: `worker-hung` (retryable), once the thread has exited.
   */
  async run<T>(job: unknown, signal?: AbortSignal): Promise<T> {
    const ending = signal && this.#endOf(signal)
    try {
      return (await this.#piscina.run(job, signal && { signal })) as T
    } catch (error) {
      if (!signal?.aborted || this.#isStopping) throw this.#faultOf(error)
      // Until the thread has exited it may still write to memory that it shares with others.
      await ending?.()
      this.#countDeath('its job hung')
      throw new Fault('worker-hung', 'the job hung', { cause: error, retryable: true })
    }
  }

  /** Lets running jobs finish within 5 s, then stops the workers. Queued jobs are rejected. */
  async stop(): Promise<void> {
    this.#isStopping = true
    await this.#piscina.close({ force: true })
    this.#unregister()
  }

  /** Returns a wait for the thread that piscina drops on abort; call it before `run`. */
  #endOf(signal: AbortSignal): () => Promise<unknown> {
    let threads: Piscina['threads'] = []
    signal.addEventListener('abort', () => {
      threads = this.#piscina.threads
    })
    return () => {
      const left = this.#piscina.threads
      const dropped = threads.filter((thread) => !left.includes(thread))
      return Promise.all(dropped.map((thread) => once(thread, 'exit')))
    }
  }

  #faultOf(error: unknown): Fault {
    const message = messageOf(error)
    const isOneOf = (texts: readonly string[]) => texts.some((text) => message.startsWith(text))
    if (isOneOf(fullMessages))
      return new Fault('pool-full', 'the pool has too many jobs waiting', { retryable: true })
    if (this.#isStopping || (error instanceof Error && error.name === 'AbortError'))
      return new Fault('pool-stopped', 'the pool is stopping', { cause: error })
    if (!isOneOf(deathMessages)) return new Fault('job-failed', message, { cause: error })
    this.#countDeath(message)
    return new Fault('worker-died', message, { cause: error, retryable: true })
  }

  #countDeath(how: string): void {
    if (this.#isStopping) return
    this.deaths += 1
    this.#deps.deaths?.inc()
    this.#deps.log.warn('pool worker died', { how })
  }
}
