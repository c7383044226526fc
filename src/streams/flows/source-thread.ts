// Starts, restarts and stops the thread that reads execution events.
import { accessSync, constants } from 'node:fs'
import type { Clock } from '../../base/clock.ts'
import { Fault, messageOf } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
import type { CounterChild } from '../../base/telemetry/meters.ts'
import { DedicatedWorker } from '../../base/threads/dedicated.ts'
import type { AnalysisMemory } from '../analysis/memory.ts'

/** Selects the source; plain values that the source thread opens (upstream/execution/open.ts). */
export interface ExecutionSection {
  readonly source: 'embedded' | 'snapshot' | 'ring'
  /** File of a snapshot or ring. */
  readonly path?: string
}

/** Events of this pass (passes count from 0) that were delivered. */
export interface PlayProgress {
  readonly pass: number
  readonly events: number
  readonly eventsTotal: number
}

export interface SourceData {
  readonly memory: AnalysisMemory
  readonly section: ExecutionSection
  readonly isLossless: boolean
}

export interface SourceDeps {
  readonly clock: Clock
  readonly log: Log
  readonly restarts: CounterChild
  readonly sourceEntry?: string | URL
  /** The source worker died too often and is not restarted any more. */
  onDown(fault: Fault): void
  onProgress?(progress: PlayProgress): void
}

export class SourceThread {
  readonly #data: SourceData
  readonly #deps: SourceDeps
  #worker: DedicatedWorker | null = null
  #restarting: Promise<void> = Promise.resolve()
  #isStopped = false

  constructor(data: SourceData, deps: SourceDeps) {
    this.#data = data
    this.#deps = deps
  }

  async start(): Promise<void> {
    const { clock, log, restarts, sourceEntry = 'execution', onDown } = this.#deps
    // The thread stamps events in our monotonic time: both threads share the process clock.
    const originMs = Number(process.hrtime.bigint()) / 1e6 - clock.monotonicMs()
    this.#worker = await DedicatedWorker.start(
      {
        name: 'execution source',
        entry: sourceEntry,
        data: { ...this.#data, originMs },
        onMessage: (message) => this.#onMessage(message),
      },
      { clock, log, restarts, onDown },
    )
  }

  restart(): void {
    this.#restarting = this.#restarting.then(async () => {
      await this.#worker?.stop()
      if (this.#isStopped) return
      this.#deps.restarts.inc()
      await this.start().catch((error: unknown) => {
        this.#deps.log.error('execution source restart failed', { reason: messageOf(error) })
      })
    })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#restarting
    await this.#worker?.stop()
  }

  /** Messages of the source thread other than its readiness. */
  #onMessage(message: unknown): void {
    // Reason for the cast: workers/execution.ts posts nothing else.
    const { progress } = message as { progress?: PlayProgress }
    if (progress !== undefined) this.#deps.onProgress?.(progress)
  }
}

/** A ring file may appear later; a missing recording at startup is a configuration mistake. */
export function checkRecording({ source, path }: ExecutionSection): void {
  if (source !== 'snapshot' || path === undefined) return
  try {
    accessSync(path, constants.R_OK)
  } catch (error) {
    const message = `metrics.path: the recording cannot be read: ${messageOf(error)}`
    throw new Fault('recording-unreadable', message, { cause: error })
  }
}
