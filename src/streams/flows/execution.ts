// Starts the execution pipeline, from a source of events to numbered frames.
//
//   source thread           event ring (shared memory)     analysis pool
//   workers/execution.ts -> |blk 7 |blk 8 |blk 9 ...   <-  workers/analysis.ts, a job per block
//        |                                                      |
//        '-> control ring -> control-reader -> block-jobs  <----'  results in block order
//                                                  |
//                                          execution-projector -> EventLog, ExecutionView
//
// The main thread sees block-level events and finished frames, never an access. Where loss is not
// allowed (a snapshot, whose source can wait), the rings apply backpressure to the source;
// otherwise an overrun becomes a Gap, never a wrong number.
import { availableParallelism } from 'node:os'
import type { Clock } from '../../base/clock.ts'
import { type Fault, messageOf } from '../../base/errors.ts'
import { openViews, type RingViews } from '../../base/rings/layout.ts'
import { moveLease, takeLease } from '../../base/rings/leases.ts'
import type { Running } from '../../base/running.ts'
import type { Log } from '../../base/telemetry/log.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import { Pool } from '../../base/threads/pool.ts'
import { blockStart } from '../../chain/evm/event-payload.ts'
import { EventType } from '../../chain/evm/event-type.ts'
import { readU64 } from '../../chain/evm/words.ts'
import type { ExecutionBlock, ExecutionView } from '../../upstream/ports.ts'
import { type Control, type ControlEvent, rangeStatus } from '../analysis/control.ts'
import type { BlockResult } from '../analysis/job.ts'
import { type AnalysisMemory, createMemory } from '../analysis/memory.ts'
import { SyncTable } from '../analysis/sync-table.ts'
import { loadAnalysisModule } from './analysis-module.ts'
import { BlockJobs, type JobOutcome, jobsMax } from './block-jobs.ts'
import { ControlReader } from './control-reader.ts'
import { type BlockRef, ExecutionProjector, type FrameLog } from './execution-projector.ts'
import { declareExecutionMeters, type ExecutionMeters, outcomeOf } from './meters.ts'
import {
  checkRecording,
  type ExecutionSection,
  type PlayProgress,
  SourceThread,
} from './source-thread.ts'

/** Fits some 200 blocks like the real recording's, and a block of 15,000 transactions. */
export const eventRingBytes = 64 * 1024 * 1024
/** One fewer than the machine has cores, at most. */
export const analysisThreadsMax = 4
/** Ring lease that keeps the source from overwriting records that are not analysed yet. */
const leaseSlot = 0

export interface ExecutionDeps {
  readonly events: FrameLog
  readonly clock: Clock
  readonly log: Log
  readonly meters: Meters
  /** The source worker died too often and is not restarted any more. */
  onDown(fault: Fault): void
  /** Set by tests and benches only. */
  readonly workers?: number
  readonly ringBytes?: number
  readonly isLossless?: boolean
  readonly sourceEntry?: string | URL
  readonly analysisEntry?: string | URL
  onEnd?(): void
  /** How far a recording has been played. */
  onProgress?(progress: PlayProgress): void
}

export interface ExecutionPipeline extends Running, ExecutionView {
  /** Restarts the source thread, for a source that was silent for too long. */
  restartSource(): void
}

export async function startExecution(
  section: ExecutionSection,
  deps: ExecutionDeps,
): Promise<ExecutionPipeline> {
  checkRecording(section)
  const workers =
    deps.workers ?? Math.max(1, Math.min(analysisThreadsMax, availableParallelism() - 1))
  const module = await loadAnalysisModule()
  const memory = createMemory(module, { eventRingBytes: deps.ringBytes ?? eventRingBytes, workers })
  const pipeline = new Pipeline(section, deps, memory)
  await pipeline.start()
  return pipeline
}

class Pipeline implements ExecutionPipeline {
  readonly address = null
  readonly #deps: ExecutionDeps
  readonly #syncTable: SyncTable
  readonly #ring: RingViews
  readonly #meters: ExecutionMeters
  readonly #pool: Pool
  readonly #jobs: BlockJobs
  readonly #reader: ControlReader
  readonly #projector: ExecutionProjector
  readonly #source: SourceThread
  readonly #isLossless: boolean
  readonly #startedMs: number
  #lastSeqno = 0
  #isAfterOverrun = false
  #timestampSecs = 0
  #number = 0
  /** Seqno of the last BlockStart read: a BlockEnd of another block is not analysed. */
  #startSeqno = 0
  #isStopped = false

  constructor(section: ExecutionSection, deps: ExecutionDeps, memory: AnalysisMemory) {
    this.#deps = deps
    this.#syncTable = new SyncTable(memory)
    this.#ring = openViews(memory.eventRing)
    this.#meters = declareExecutionMeters(deps.meters)
    this.#projector = new ExecutionProjector(deps.events)
    this.#startedMs = deps.clock.monotonicMs()
    this.#isLossless = deps.isLossless ?? section.source === 'snapshot'
    if (this.#isLossless) takeLease(this.#ring, leaseSlot, 0)
    this.#pool = new Pool(
      {
        entry: deps.analysisEntry ?? 'analysis',
        threads: memory.workers,
        queueMax: jobsMax,
        data: memory,
      },
      { log: deps.log, deaths: this.#meters.workerDeaths },
    )
    this.#jobs = new BlockJobs({
      syncTable: this.#syncTable,
      workers: memory.workers,
      run: (jobs, end) => this.#pool.run<readonly BlockResult[]>(jobs, end),
      onFailure: (error, isGivenUp) => this.#noteFailure(error, isGivenUp),
    })
    this.#reader = new ControlReader(memory.controlRing, {
      isLossless: this.#isLossless,
      onControl: (control) => this.#take(control),
      onOverrun: () => {
        this.#isAfterOverrun = true
      },
      waitForCapacity: () => this.#jobs.waitForCapacity(),
    })
    void this.#reader.run()
    this.#source = new SourceThread(
      { memory, section, isLossless: this.#isLossless },
      { ...deps, restarts: this.#meters.sourceRestarts },
    )
  }

  start(): Promise<void> {
    return this.#source.start()
  }

  restartSource(): void {
    this.#source.restart()
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return
    this.#isStopped = true
    this.#reader.stop()
    this.#jobs.close()
    await this.#source.stop()
    await this.#pool.stop()
  }

  lastEventAgeMs(): number {
    const lastMs = Math.max(this.#syncTable.lastEventMs(), this.#startedMs)
    return Math.max(0, this.#deps.clock.monotonicMs() - lastMs)
  }

  ringSeqno(): number {
    return this.#syncTable.seqno()
  }

  latestBlock(): number {
    return this.#projector.latestBlock
  }

  // Reason for the casts: the records are plain objects; the port names no wire fields.
  lifecycles(): readonly Readonly<Record<string, unknown>>[] {
    return this.#projector.lifecycles() as unknown as Record<string, unknown>[]
  }

  lifecycle(number: number): Readonly<Record<string, unknown>> | null {
    return this.#projector.lifecycle(number) as unknown as Record<string, unknown> | null
  }

  block(which: BlockRef): ExecutionBlock | null {
    return this.#projector.block(which)
  }

  chainId(): bigint {
    return this.#projector.chainId
  }

  #take(control: Control): void {
    if (control.kind === 'ended') {
      this.#jobs.after(() => this.#deps.onEnd?.())
      return
    }
    this.#closeOverrun(control)
    if (control.kind === 'gap') {
      const { from, to, readAtMs } = control
      this.#lastSeqno = to
      this.#jobs.after(() => this.#projector.gap(from, to, readAtMs))
      return
    }
    this.#lastSeqno = control.seqno
    if (control.type === EventType.BlockStart) this.#begin(control)
    else if (control.type === EventType.BlockEnd) this.#end(control)
    else this.#jobs.after(() => this.#projector.stage(control))
  }

  /** Control messages were overwritten: everything between the last and this one is lost. */
  #closeOverrun(control: Exclude<Control, { kind: 'ended' }>): void {
    if (!this.#isAfterOverrun) return
    this.#isAfterOverrun = false
    const from = this.#lastSeqno + 1
    const to = (control.kind === 'gap' ? control.from : control.seqno) - 1
    this.#jobs.after(() => {
      this.#projector.abandon()
      if (to >= from) this.#projector.gap(from, to, control.readAtMs)
    })
  }

  #begin(event: ControlEvent): void {
    this.#startSeqno = event.seqno
    this.#number = readU64(event.payload, blockStart.blockNumber)
    this.#timestampSecs = readU64(event.payload, blockStart.timestamp)
    this.#jobs.after(() => {
      this.#release(event.from)
      this.#projector.start(event)
    })
  }

  #end(event: ControlEvent): void {
    const isSeen = event.firstSeqno === this.#startSeqno
    if (!isSeen || event.status !== rangeStatus.whole) {
      const lost: JobOutcome | null =
        isSeen && event.status === rangeStatus.tooLarge
          ? { outcome: 'lost', reason: 'too-large' }
          : null
      this.#jobs.after(() => this.#finish(event, lost))
      return
    }
    const { from, to, wallNs } = event
    const spec = { from, to, wallNs, number: this.#number, timestampSecs: this.#timestampSecs }
    this.#jobs.submit(spec, (outcome) => this.#finish(event, outcome))
  }

  #finish(event: ControlEvent, outcome: JobOutcome | null): void {
    this.#release(event.to)
    this.#projector.end(event, outcome)
    this.#meters.blocks[outcomeOf(outcome)].inc()
    this.#meters.analysis.observe((this.#deps.clock.monotonicMs() - event.readAtMs) / 1000)
  }

  /** Lets the source overwrite everything below the position. */
  #release(position: number): void {
    if (this.#isLossless) moveLease(this.#ring, leaseSlot, position)
  }

  #noteFailure(error: unknown, isGivenUp: boolean): void {
    this.#meters.retries.inc()
    const fields = { reason: messageOf(error), isGivenUp }
    this.#deps.log.warn('analysis worker failed on a block', fields)
  }
}
