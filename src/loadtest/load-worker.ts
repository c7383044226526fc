// The program of a load thread: connects, generates, posts samples. Thread: load.
import type { MessagePort } from 'node:worker_threads'
import { type ArrivalPlan, Arrivals } from './arrivals.ts'
import { createDriver } from './create-driver.ts'
import type { DriverTarget } from './driver.ts'
import { LagWatch } from './lag-watch.ts'
import { LoadGenerator } from './load-generator.ts'

export interface LoadJob {
  readonly target: DriverTarget
  readonly plan: ArrivalPlan
  readonly share: { readonly thread: number; readonly of: number }
  readonly timeoutMs: number
  readonly heartbeat: MessagePort
}

/** To the load thread: begin at a time of the shared clock, or stop early. */
export type LoadCommand = { readonly startMs: number } | 'stop'

/** From the load thread. */
export type LoadReport =
  | { readonly kind: 'ready' }
  | { readonly kind: 'failed'; readonly problem: string }
  | {
      readonly kind: 'samples'
      readonly samples: Float64Array
      readonly codes: readonly string[]
    }
  | {
      readonly kind: 'ended'
      readonly problem: string | null
      readonly reconnects: number
      readonly notifications: number
      readonly policy: string | null
      /** Null where the thread polls its connections itself. */
      readonly lagP99Ms: number | null
      /** Share of its busiest second in which the thread worked. */
      readonly busyWorst: number
      readonly busyMs: number
      /** Calls that were answered, the warm-up's too. */
      readonly answered: number
    }

export async function runLoadWorker(parent: MessagePort, job: LoadJob): Promise<void> {
  const post = (report: LoadReport, transfer: ArrayBuffer[] = []) =>
    parent.postMessage(report, transfer)
  const generator = new LoadGenerator({
    arrivals: new Arrivals(job.plan, job.share),
    timeoutMs: job.timeoutMs,
    emit: (samples, codes) => {
      // Reason for the cast: the generator allocates its chunks as plain memory.
      post({ kind: 'samples', samples, codes }, [samples.buffer as ArrayBuffer])
    },
  })
  const driver = createDriver(job.target, generator.events)
  const lag = new LagWatch(job.heartbeat)
  const problem = await driver.open()
  if (problem !== null) {
    driver.close()
    post({ kind: 'failed', problem })
    parent.close()
    return
  }
  parent.on('message', async (command: LoadCommand) => {
    if (command === 'stop') return generator.stop()
    const ended = await generator.run(driver, command.startMs)
    driver.close()
    lag.stop()
    const { reconnects, notifications, policy, poll } = driver
    const lagP99Ms = poll === null ? lag.lags.percentile(99) : null
    const { worst: busyWorst, busyMs } = generator.busy
    const counts = { reconnects, notifications, policy, answered: generator.answered }
    post({ kind: 'ended', problem: ended, ...counts, lagP99Ms, busyWorst, busyMs })
    parent.close()
  })
  post({ kind: 'ready' })
}
