// Starts the execution pipeline, from a source of events to numbered frames.
//
//   source thread           event ring (shared memory)     analysis pool
//   workers/execution.ts -> |blk 7 |blk 8 |blk 9 ...   <-  workers/analysis.ts, a job per block
//        |                                                      |
//        '-> control ring -> ControlReader -> block-jobs   <----'  results in block order
//                                                  |
//                                          execution-projector -> EventLog, ExecutionView
//
// The main thread sees block-level events and finished frames, never an access. Where loss is not
// allowed (a snapshot, whose source can wait), the rings apply backpressure to the source;
// otherwise an overrun becomes a Gap, never a wrong number.
import { accessSync, constants } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import { Fault, messageOf } from '../../base/errors.ts'
import { packageRoot } from '../../base/package-root.ts'
import type { RingDescriptor, RingViews } from '../../base/rings/layout.ts'
import { moveLease, openViews, takeLease } from '../../base/rings/layout.ts'
import { RingReader } from '../../base/rings/ring.ts'
import type { TapMemory } from '../../base/rings/tap.ts'
import type { Running } from '../../base/running.ts'
import type { Log } from '../../base/telemetry/log.ts'
import type { CounterChild, Meters } from '../../base/telemetry/meters.ts'
import { Pool } from '../../base/threads/pool.ts'
import { DedicatedWorker } from '../../base/threads/supervisor.ts'
import { blockStart, EventType } from '../../chain/evm/event-payload.ts'
import { readU64 } from '../../chain/evm/words.ts'
import type { ExecutionBlock, ExecutionView } from '../../upstream/ports.ts'
import type { BlockResult, JobOutcome } from '../analysis/block-jobs.ts'
import { BlockJobs, jobsMax, SyncTable } from '../analysis/block-jobs.ts'
import { type Control, type ControlEvent, parseControl, rangeStatus } from '../analysis/feed.ts'
import { type AnalysisMemory, createMemory } from '../analysis/memory.ts'
import { type BlockRef, ExecutionProjector, type FrameLog } from './execution-projector.ts'

/** Fits some 200 blocks like the real recording's, and a block of 15,000 transactions. */
export const eventRingBytes = 64 * 1024 * 1024
/** One fewer than the machine has cores, at most. */
export const analysisThreadsMax = 4
/** Ring lease that keeps the source from overwriting records that are not analysed yet. */
const leaseSlot = 0

/** Selects the source; plain values that the source thread opens (upstream/execution/open.ts). */
export interface ExecutionSection {
  readonly source: 'embedded' | 'snapshot' | 'ring'
  /** File of a snapshot or ring. */
  readonly path?: string
  /** Whether a snapshot begins anew at its end. */
  readonly loop?: boolean
}

/** Events of this pass (passes count from 0) that were delivered. */
export interface PlayProgress {
  readonly pass: number
  readonly events: number
  readonly eventsTotal: number
}

export interface ExecutionDeps {
  readonly events: FrameLog
  readonly clock: Clock
  readonly log: Log
  readonly meters: Meters
  /** The source worker died too often and is not restarted any more. */
  onDown(fault: Fault): void
  /** Gets the events of a recording. */
  readonly tap?: TapMemory
  /** Set by tests, benches and the replay of a recording only. */
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
  readonly #playsOnce: boolean
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
  #isAfterLoss = false
  #timestampSecs = 0
  #number = 0
  /** Seqno of the last BlockStart read: a BlockEnd of another block is not analysed. */
  #startSeqno = 0
  #isStopped = false

  constructor(section: ExecutionSection, deps: ExecutionDeps, memory: AnalysisMemory) {
    this.#deps = deps
    this.#playsOnce = section.source === 'snapshot' && section.loop !== true
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
      onFailure: (error, isGivenUp) => {
        this.#meters.retries.inc()
        const fields = { reason: messageOf(error), isGivenUp }
        deps.log.warn('analysis worker failed on a block', fields)
      },
    })
    this.#reader = new ControlReader(memory.controlRing, {
      isLossless: this.#isLossless,
      onControl: (control) => this.#take(control),
      onOverrun: () => {
        this.#isAfterLoss = true
      },
      waitForCapacity: () => this.#jobs.waitForCapacity(),
    })
    void this.#reader.run()
    this.#source = new SourceThread(
      { memory, section, isLossless: this.#isLossless, tap: deps.tap ?? null },
      { ...deps, restarts: this.#meters.sourceRestarts },
    )
  }

  start(): Promise<void> {
    return this.#source.start()
  }

  restartSource(): void {
    // Silence after a snapshot that is played once is its end.
    if (!this.#playsOnce) this.#source.restart()
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
    if (control.kind === 'ended') return void this.#jobs.after(() => this.#deps.onEnd?.())
    this.#isAfterLoss ||= control.kind === 'resumed'
    if (control.kind === 'resumed') return
    this.#reportLoss(control)
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

  /** Control messages were overwritten, or not sent by a thread that died: what lies between. */
  #reportLoss(control: Extract<Control, { readAtMs: number }>): void {
    if (!this.#isAfterLoss) return
    this.#isAfterLoss = false
    const last = this.#lastSeqno
    const to = (control.kind === 'gap' ? control.from : control.seqno) - 1
    this.#jobs.after(() => {
      const wasOpen = this.#projector.abandon()
      if (wasOpen || to > last) this.#projector.gap(Math.min(last + 1, to), to, control.readAtMs)
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
    const lost = outcome?.outcome === 'lost' ? outcome.reason : 'analysed'
    this.#meters.blocks[outcome === null ? 'half-seen' : lost].inc()
    this.#meters.analysis.observe((this.#deps.clock.monotonicMs() - event.readAtMs) / 1000)
  }

  /** Lets the source overwrite everything below the position. */
  #release(position: number): void {
    if (this.#isLossless) moveLease(this.#ring, leaseSlot, position)
  }
}

/** Bytes read before yielding to the event loop; about 40 blocks. */
const batchBytes = 64 * 1024
/** Timeout of one wait; a wake-up ends it at once. */
const sleepMs = 1000

interface ControlReaderOptions {
  /** Backpressure: makes the writer wait for this reader, where loss is not allowed. */
  readonly isLossless: boolean
  readonly onControl: (control: Control) => void
  /** Messages were lost to an overrun; the next message comes after the loss. */
  readonly onOverrun: () => void
  /** Resolves when another message may be delivered. */
  readonly waitForCapacity: () => Promise<void>
}

/**
 * Reads the control ring and delivers its messages one by one, in order. They are copied, and the
 * copy is validated before use: a message overwritten in the meantime is never delivered.
 */
class ControlReader {
  readonly #reader: RingReader
  readonly #options: ControlReaderOptions
  #overruns = 0
  #isStopped = false

  constructor(ring: RingDescriptor, options: ControlReaderOptions) {
    const lease = options.isLossless ? { lease: 0 } : {}
    this.#reader = new RingReader(ring, { from: 'oldest', ...lease })
    this.#options = options
  }

  /** Reads until `stop`. Never rejects. */
  async run(): Promise<void> {
    const reader = this.#reader
    while (!this.#isStopped) {
      if (reader.poll(batchBytes) === 0) {
        this.#noteOverrun()
        await reader.waitAsync(sleepMs)
        continue
      }
      const batch = this.#copyBatch()
      const isIntact = reader.commit()
      this.#noteOverrun()
      if (isIntact) await this.#deliver(batch)
    }
  }

  stop(): void {
    this.#isStopped = true
  }

  #copyBatch(): Control[] {
    const batch: Control[] = []
    const reader = this.#reader
    while (reader.next()) {
      const { bytes, offset, length, tag } = reader
      // A private copy: the writer may overwrite the ring's bytes at any time.
      const copy = new Uint8Array(length)
      copy.set(bytes.subarray(offset, offset + length))
      const control = parseControl(tag, copy)
      if (control !== null) batch.push(control)
    }
    return batch
  }

  async #deliver(batch: readonly Control[]): Promise<void> {
    const { onControl, waitForCapacity } = this.#options
    for (const control of batch) {
      await waitForCapacity()
      if (this.#isStopped) return
      onControl(control)
    }
  }

  #noteOverrun(): void {
    if (this.#reader.overruns === this.#overruns) return
    this.#overruns = this.#reader.overruns
    this.#options.onOverrun()
  }
}

interface SourceData {
  readonly memory: AnalysisMemory
  readonly section: ExecutionSection
  readonly isLossless: boolean
  readonly tap: TapMemory | null
}

type SourceDeps = Pick<ExecutionDeps, 'clock' | 'log' | 'sourceEntry' | 'onDown' | 'onProgress'> & {
  readonly restarts: CounterChild
}

/** Starts, restarts and stops the thread that reads execution events. */
class SourceThread {
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
function checkRecording({ source, path }: ExecutionSection): void {
  if (source !== 'snapshot' || path === undefined) return
  try {
    accessSync(path, constants.R_OK)
  } catch (error) {
    const message = `metrics.path: the recording cannot be read: ${messageOf(error)}`
    throw new Fault('recording-unreadable', message, { cause: error })
  }
}

/** Always the compiled file in dist/, also when the caller runs uncompiled; workers get it. */
export async function loadAnalysisModule(): Promise<WebAssembly.Module> {
  const path = join(packageRoot(), 'dist', 'src', 'streams', 'analysis', 'analysis.wasm')
  return new WebAssembly.Module(await readFile(path))
}

// Meters of the execution pipeline between source and event log.

const blockOutcomes = [
  'analysed',
  'overrun',
  'malformed',
  'too-large',
  'failed',
  'half-seen',
] as const

type ExecutionMeters = ReturnType<typeof declareExecutionMeters>

function declareExecutionMeters(meters: Meters) {
  return {
    blocks: meters.counters(
      'sluice_analysis_blocks_total',
      'Executed blocks by the outcome of their analysis.',
      'outcome',
      blockOutcomes,
    ),
    analysis: meters.histogram(
      'sluice_analysis_seconds',
      'Time from reading a BlockEnd to appending its frames to the log.',
    ),
    retries: meters.counter(
      'sluice_analysis_retries_total',
      'Block analyses whose worker failed; they were retried or given up.',
    ),
    workerDeaths: meters.counter(
      'sluice_analysis_worker_deaths_total',
      'Analysis workers that died.',
    ),
    sourceRestarts: meters.counter(
      'sluice_source_restarts_total',
      'Restarts of the execution source thread.',
    ),
  }
}
