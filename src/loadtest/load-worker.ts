// The program of a load thread: connects, generates, posts samples. Thread: load.
import type { MessagePort } from 'node:worker_threads'
import { type ArrivalPlan, Arrivals } from './arrivals.ts'
import { ConnectionDriver } from './connection-driver.ts'
import type { Driver, DriverEvents, DriverTarget } from './driver.ts'
import { GrpcDriver } from './grpc-driver.ts'
import { LagWatch } from './lag-watch.ts'
import { LoadGenerator } from './load-generator.ts'
import { httpProtocol, socketProtocol } from './socket-session.ts'

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
  | ({
      readonly kind: 'ended'
      readonly problem: string | null
    } & LoadCounts)

/** Of a load thread, or of all of them together. */
export interface LoadCounts {
  readonly reconnects: number
  readonly notifications: number
  /** The `ratelimit-policy` of a call that was refused for it. */
  readonly policy: string | null
  /** Null where the threads poll their connections themselves. */
  readonly lagP99Ms: number | null
  /** Share of its busiest second in which a thread worked. */
  readonly busyWorst: number
  readonly busyMs: number
  /** Calls that were answered in that time, the warm-up's too. */
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

export function createDriver(target: DriverTarget, events: DriverEvents): Driver {
  if (target.kind === 'grpc') return new GrpcDriver(target, events)
  const protocol = target.kind === 'websocket' ? socketProtocol : httpProtocol
  return new ConnectionDriver(target, events, protocol)
}
