// Verifies transaction signatures in a worker pool.
// Requests of one event-loop turn go to the workers in batches: a job costs about 60 us by itself.
import { availableParallelism } from 'node:os'
import { accept, type Outcome, refuse } from '../errors.ts'
import type { Log } from '../telemetry/log.ts'
import type { CounterChild } from '../telemetry/meters.ts'
import { Pool } from './pool.ts'

/** One fewer than the machine has cores, at most. */
export const verifyThreadsMax = 4
export const pendingMax = 20_000
const jobsQueuedMax = 1_024
const perJobMax = 64

interface PendingCheck {
  readonly bytes: Uint8Array
  resolve(outcome: Outcome<boolean>): void
}

export class VerifyPool {
  readonly #pool: Pool
  readonly #threads: number
  #queued: PendingCheck[] = []
  #running = 0

  constructor(deps: {
    readonly log: Log
    readonly deaths?: CounterChild
    readonly threads?: number
  }) {
    this.#threads =
      deps.threads ?? Math.max(1, Math.min(verifyThreadsMax, availableParallelism() - 1))
    this.#pool = new Pool(
      { entry: 'verify', threads: this.#threads, queueMax: jobsQueuedMax },
      deps,
    )
  }

  /** True when every signature is valid. Refused as `unavailable` when the queue is full. */
  verify(bytes: Uint8Array): Promise<Outcome<boolean>> {
    if (this.#queued.length + this.#running >= pendingMax) return Promise.resolve(busy)
    return new Promise((resolve) => {
      this.#queued.push({ bytes, resolve })
      if (this.#queued.length === 1) setImmediate(() => this.#flush())
    })
  }

  stop(): Promise<void> {
    return this.#pool.stop()
  }

  #flush(): void {
    const queued = this.#queued
    this.#queued = []
    const size = Math.min(perJobMax, Math.ceil(queued.length / this.#threads))
    for (let at = 0; at < queued.length; at += size) void this.#run(queued.slice(at, at + size))
  }

  async #run(batch: readonly PendingCheck[]): Promise<void> {
    this.#running += batch.length
    try {
      // Copied: a view would send its whole underlying buffer to the worker.
      const verdicts = await this.#pool.run<Uint8Array>(
        batch.map(({ bytes }) => new Uint8Array(bytes)),
      )
      batch.forEach(({ resolve }, index) => {
        resolve(accept(verdicts[index] === 1))
      })
    } catch {
      for (const { resolve } of batch) resolve(busy)
    } finally {
      this.#running -= batch.length
    }
  }
}

const busy = refuse('unavailable', 'verify-busy', 'signatures cannot be verified right now')
