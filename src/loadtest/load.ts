// Runs one load: starts the generator threads, begins them together, counts their samples.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { workerEntry } from '../base/package-root.ts'
import type { ArrivalPlan } from './arrivals.ts'
import { Heartbeat } from './lag-watch.ts'
import { LoadTally } from './load-tally.ts'
import type { LoadCommand, LoadCounts, LoadJob, LoadReport } from './load-worker.ts'
import type { Target } from './target.ts'
import { ClockWatch, sharedNowMs } from './thread-clock.ts'

export const loadKinds = ['rpc', 'websocket', 'grpc', 'tpu', 'indexer', 'metrics'] as const
export type LoadKind = (typeof loadKinds)[number]

export interface LoadSettings {
  readonly target: Target<LoadKind>
  readonly calls: readonly string[]
  /** Includes the warm-up. */
  readonly plan: ArrivalPlan
  readonly warmUpMs: number
  readonly connections: number
  readonly threads: number
  readonly timeoutMs: number
}

export interface LoadRun extends LoadCounts {
  readonly settings: LoadSettings
  readonly tally: LoadTally
  readonly startedAt: string
  /** The start of the warm-up on the shared clock. */
  readonly startedMs: number
  /** From the end of the warm-up to the last intended start, or to where it was stopped. */
  readonly seconds: number
  readonly partial: string | null
  /** What the wall clock did, where it matters. */
  readonly clockStep: string | null
}

export interface LoadWatch {
  readonly signal: AbortSignal
  /** Called a few times a second. */
  progress?(tally: LoadTally, elapsedMs: number): void
}

const connectMsMax = 5_000
/** All threads begin together this long after the last of them is ready. */
const leadMs = 50
const progressEveryMs = 200

export async function runLoad(settings: LoadSettings, watch: LoadWatch): Promise<Outcome<LoadRun>> {
  const heartbeat = new Heartbeat()
  const threads = Array.from({ length: settings.threads }, (_, thread) =>
    startThread(settings, thread, heartbeat),
  )
  try {
    const problems = await Promise.all(threads.map(({ ready }) => ready))
    const problem = problems.find((one) => one !== null)
    if (problem !== undefined && problem !== null)
      return refuse('unavailable', 'no-endpoint', `${settings.target.label}: ${problem}`)
    return accept(await generate(settings, threads, watch))
  } finally {
    await Promise.all(threads.map(({ worker }) => worker.terminate()))
    await heartbeat.stop()
  }
}

interface LoadThread {
  readonly worker: Worker
  /** The sentence of a thread that cannot start, else null. */
  readonly ready: Promise<string | null>
}

function startThread(settings: LoadSettings, thread: number, heartbeat: Heartbeat): LoadThread {
  const { target, calls, plan, connections, threads, timeoutMs } = settings
  const port = heartbeat.port()
  const job: LoadJob = {
    target: {
      kind: target.kind,
      url: target.url.href,
      token: target.token,
      connections: Math.max(1, Math.ceil(connections / threads)),
      calls,
      connectMsMax,
    },
    plan,
    share: { thread, of: threads },
    timeoutMs,
    heartbeat: port,
  }
  const worker = new Worker(workerEntry('load'), { workerData: job, transferList: [port] })
  const ready = once(worker, 'message').then(([report]: LoadReport[]) =>
    report?.kind === 'failed' ? report.problem : null,
  )
  return { worker, ready }
}

async function generate(
  settings: LoadSettings,
  threads: readonly LoadThread[],
  { signal, progress }: LoadWatch,
): Promise<LoadRun> {
  const clock = new ClockWatch()
  const startedAt = new Date().toISOString()
  const startMs = sharedNowMs() + leadMs
  const fromMs = startMs + settings.warmUpMs
  const tally = new LoadTally(fromMs)
  const command = (what: LoadCommand) => {
    for (const { worker } of threads) worker.postMessage(what)
  }
  const ends = threads.map(({ worker }) => endOf(worker, tally))
  const stop = () => command('stop')
  signal.addEventListener('abort', stop)
  const timer = setInterval(() => progress?.(tally, sharedNowMs() - startMs), progressEveryMs)
  command({ startMs })
  if (signal.aborted) stop()
  const ended = await Promise.all(ends)
  clearInterval(timer)
  signal.removeEventListener('abort', stop)
  const problem = ended.find((one) => one.problem !== null)?.problem ?? null
  const partial = signal.aborted ? String(signal.reason) : problem
  const wholeSeconds = (settings.plan.durationMs - settings.warmUpMs) / 1000
  const elapsedSeconds = Math.max(0, (sharedNowMs() - fromMs) / 1000)
  return {
    settings,
    tally,
    startedAt,
    startedMs: startMs,
    seconds: partial === null ? wholeSeconds : Math.min(wholeSeconds, elapsedSeconds),
    reconnects: ended.reduce((sum, one) => sum + one.reconnects, 0),
    notifications: ended.reduce((sum, one) => sum + one.notifications, 0),
    policy: ended.find(({ policy }) => policy !== null)?.policy ?? null,
    busyWorst: Math.max(...ended.map((one) => one.busyWorst)),
    busyMs: ended.reduce((sum, one) => sum + one.busyMs, 0),
    answered: ended.reduce((sum, one) => sum + one.answered, 0),
    lagP99Ms: ended.reduce<number | null>((most, one) => larger(most, one.lagP99Ms), null),
    partial,
    clockStep: clock.end(),
  }
}

type Ended = Extract<LoadReport, { kind: 'ended' }>

function endOf(worker: Worker, tally: LoadTally): Promise<Ended> {
  return new Promise((resolve) => {
    const failed = (problem: string) => {
      const none = { reconnects: 0, notifications: 0, answered: 0, busyWorst: 0, busyMs: 0 }
      resolve({ kind: 'ended', problem, ...none, policy: null, lagP99Ms: null })
    }
    worker.on('message', (report: LoadReport) => {
      if (report.kind === 'samples') tally.add(report.samples, report.codes)
      if (report.kind === 'ended') resolve(report)
    })
    worker.once('error', (error) => failed(`a load thread failed: ${error.message}`))
    worker.once('exit', () => failed('a load thread ended'))
  })
}

function larger(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b
  return Math.max(a, b)
}
