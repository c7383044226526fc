// Verifies transactions off the main thread. Thread: main. Used by the embedded chain and the tpu.
// What is asked in one turn goes to the workers as few jobs: a job costs about 60 us by itself.
import { availableParallelism } from 'node:os'
import { accept, type Outcome, refuse } from '../base/errors.ts'
import type { Log } from '../telemetry/log.ts'
import type { CounterChild } from '../telemetry/meters.ts'
import { Pool } from './pool.ts'

const threadsMax = 4
const waitingMax = 20_000
const jobsWaitingMax = 1_024
const perJobMax = 64

interface Waiting {
  readonly bytes: Uint8Array
  resolve(outcome: Outcome<boolean>): void
}

export class VerifyPool {
  readonly #pool: Pool
  readonly #threads: number
  #waiting: Waiting[] = []
  #inWork = 0

  constructor(deps: {
    readonly log: Log
    readonly deaths?: CounterChild
    /** One fewer than the machine has cores, unless told. */
    readonly threads?: number
  }) {
    const spare = Math.max(1, Math.min(threadsMax, availableParallelism() - 1))
    this.#threads = deps.threads ?? spare
    this.#pool = new Pool(
      { entry: 'verify', threads: this.#threads, queueMax: jobsWaitingMax },
      deps,
    )
  }

  /** True: every signature is good. Refused `unavailable` when there is too much to do. */
  verify(bytes: Uint8Array): Promise<Outcome<boolean>> {
    if (this.#waiting.length + this.#inWork >= waitingMax) return Promise.resolve(busy)
    return new Promise((resolve) => {
      this.#waiting.push({ bytes, resolve })
      if (this.#waiting.length === 1) setImmediate(() => this.#flush())
    })
  }

  stop(): Promise<void> {
    return this.#pool.stop()
  }

  #flush(): void {
    const waiting = this.#waiting
    this.#waiting = []
    const size = Math.min(perJobMax, Math.ceil(waiting.length / this.#threads))
    for (let at = 0; at < waiting.length; at += size) void this.#run(waiting.slice(at, at + size))
  }

  async #run(batch: readonly Waiting[]): Promise<void> {
    this.#inWork += batch.length
    try {
      // Copied: a view would take the whole buffer behind it along to the worker.
      const verdicts = await this.#pool.run<Uint8Array>(
        batch.map(({ bytes }) => new Uint8Array(bytes)),
      )
      batch.forEach(({ resolve }, index) => {
        resolve(accept(verdicts[index] === 1))
      })
    } catch {
      for (const { resolve } of batch) resolve(busy)
    } finally {
      this.#inWork -= batch.length
    }
  }
}

const busy = refuse('unavailable', 'verify-busy', 'signatures cannot be verified right now')
