// Keeps what a hub published in files, beyond what it keeps in memory, and replays it.
//
//   hub ─ era closed ─► queue (256 MiB) ─ 1 MiB a turn ─► thread stream-log ─► <data>/streams/<set>
//                          │                  └ copied, 8 MiB at once: the rest waits
//                          └ also read from here until it is written
//
// Never holds up the hub. After a fault of the disk what waits is sent again, behind the last era
// that is on it: what is readable stays. Where the disk does not keep up or return within the
// queue's bound, everything kept is removed and the log begins anew: a replay reaches back less,
// live streams notice nothing.
//
// Runs: each start of the server appends to the files of the one before. The node then replays
// from the newest finalized slot on, so of earlier runs the slots below it are read, of this run
// those above. Where it cannot, or shows another block there, the earlier runs are removed. One
// that was killed before it finalized a slot is passed over.
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import { assert, messageOf } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
import { DedicatedWorker, restartForever } from '../../base/threads/supervisor.ts'
import type { ReceivedBatch } from '../../chain/solana/received-batch.ts'
import { type SolanaUpdate, slotStatus } from '../../chain/solana/updates.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import type { ClosedEra, KeptStream, ReplayOptions } from '../hub/hub.ts'
import type { UpdateSource } from '../hub/update-list.ts'
import {
  type BatchUse,
  elementOf,
  type KeptEras,
  KeptReplay,
  type Lists,
  type LogPosition,
  type ReadableElement,
  type ReadableEra,
  type ReadableRun,
  runsOf,
} from './kept-replay.ts'
import { BatchChunks, type Finalized, type KeptElement, type KeptRun } from './segment-format.ts'
import { type ReadMemory, SegmentReader } from './segment-reader.ts'
import type { EraPlace, LogBounds, LogReport, LogRequest } from './segment-writer.ts'

/** Eras that wait to be written; with more the log begins anew. */
export const waitingBytesMax = 256 * 1024 * 1024
/** Copied to the thread per turn of the event loop. */
const turnBytes = 1024 * 1024
/** The first retry after a fault; each further one waits twice as long, up to the last. */
const retryMs = { first: 1_000, most: 10_000 }
const notContinued = 'no node continues the streams of earlier runs'
/** A disk that is full is asked so often before it gets the older half. */
const fullRetries = 4

export interface StreamLogDeps {
  readonly folder: string
  readonly bounds: LogBounds
  readonly log: Log
  /** Starts the thread that writes; rejects when it does not start. */
  startThread(events: ThreadEvents): Promise<WriterThread>
}

export interface ThreadEvents {
  report(report: LogReport): void
  /** It ended, and may be started again. */
  ended(): void
}

export interface WriterThread {
  post(request: LogRequest, transfer: readonly ArrayBuffer[]): boolean
  stop(): Promise<void>
}

export function startWriterThread(
  { folder, bounds, clock, log }: { folder: string; bounds: LogBounds; clock: Clock; log: Log },
  { report, ended }: ThreadEvents,
): Promise<WriterThread> {
  return DedicatedWorker.start(
    {
      name: 'stream-log',
      entry: 'stream-log',
      data: { folder, bounds },
      backoff: restartForever,
      // Reason for the cast: the thread posts nothing else.
      onMessage: (message) => report(message as LogReport),
      onExit: ended,
    },
    { clock, log, onDown: () => {} },
  )
}

export interface StreamLogCounts {
  readonly isUp: boolean
  readonly bytes: number
  readonly oldestSlot: number | null
  readonly writtenEras: number
  readonly resets: number
}

/**
 * Of what this start of the server published, for readers: above those of earlier starts. Its
 * files have another one, which changes where a new thread begins them anew.
 */
const ownRun = Number.POSITIVE_INFINITY

interface Run {
  readonly number: number
  /** Slots from here on are in the next run. */
  below: number
  readonly eras: EraPlace[]
}

interface WaitingEra {
  readonly slot: number
  readonly bytes: number
  readonly lists: Lists
  readonly finalized: Finalized | null
}

/**
 * How far the waiting eras were sent: so many whole ones, the last of which is `eraBefore` (a batch
 * that lies in it is not sent again), and of the next one so many batches, of so many runs.
 */
const queueStart = () => ({ eras: 0, eraBefore: null as number | null, runs: 0, batches: 0 })

/** Where a batch lies: in which era of this log. */
interface BatchPlace {
  readonly generation: number
  readonly attempt: number
  readonly era: number
  readonly batch: number
}

export class StreamLog implements KeptEras, KeptStream<SolanaUpdate> {
  readonly hub: SolanaHub
  readonly #deps: StreamLogDeps
  readonly #reader: SegmentReader
  /** Increases when everything kept is removed. */
  #generation = 0
  /** Increases when the chain begins anew. */
  #chain = 0
  #thread: WriterThread | null = null
  #state: 'opening' | 'up' | 'down' | 'stopped' = 'opening'
  #earlier: Run[] = []
  #runs: Run[] = []
  readonly #run: Run = { number: ownRun, below: Number.POSITIVE_INFINITY, eras: [] }
  /** Its number in the files; 0 until they are opened. */
  #fileRun = 0
  /** The first era that was taken since the log last began anew. */
  #firstEra: number | null = null
  /** The newest era that was removed. */
  #removed: { readonly run: number; readonly slot: number } | null = null
  #waiting: WaitingEra[] = []
  #waitingBytes = 0
  #cursor = queueStart()
  /** Increases when they are sent again: what was sent before, from that era on, is lost. */
  #attempt = 0
  #sentAgainFrom = Number.POSITIVE_INFINITY
  /** What is on disk cannot be continued: it has a hole to what follows. */
  #mustReset = false
  #places = new WeakMap<UpdateSource, BatchPlace>()
  #finalized: Finalized | null = null
  /** Expected block of the slot where this run continues the one before. */
  #joint: Finalized | null = null
  #isPumping = false
  readonly #chunks = new BatchChunks((laidOut) =>
    this.#post({ kind: 'batches', ...laidOut }, [laidOut.chunk]),
  )
  #bytes = 0
  #resets = 0
  #writtenEras = 0
  #retry: NodeJS.Timeout | null = null
  /** Since nothing waited. */
  #retries = 0

  /** Resolves once it is known what earlier runs wrote, or that the log is down. */
  readonly ready: Promise<void>

  constructor(hub: SolanaHub, deps: StreamLogDeps) {
    this.hub = hub
    this.#deps = deps
    this.#reader = new SegmentReader(deps.folder)
    hub.onClosed = (era) => this.#take(era)
    hub.onRestart(() => {
      this.#chain++
      this.#beginAnew('the chain begins anew')
    })
    this.ready = this.#start()
  }

  counts(): StreamLogCounts {
    const [bytes, writtenEras, resets] = [this.#bytes, this.#writtenEras, this.#resets]
    return { isUp: this.#state === 'up', oldestSlot: this.oldestSlot, bytes, writtenEras, resets }
  }

  /** The slot from which a node must replay so that earlier runs can be continued. */
  get resumeSlot(): number | null {
    return (this.#finalizedEarlier() ?? this.#joint)?.slot ?? null
  }

  /**
   * A connection starts at that slot, and none before has brought anything of the chain; null when
   * the node replays nothing.
   */
  started(fromSlot: number | null): void {
    const joint = this.#finalizedEarlier() ?? this.#joint
    if (joint === null) return
    if (fromSlot !== joint.slot) {
      this.#beginAnew(notContinued)
      return
    }
    if (this.#joint !== null) return
    for (const run of this.#earlier) run.below = Math.min(run.below, joint.slot)
    this.#runs = this.#earlier
    this.#earlier = []
    this.#joint = joint
  }

  get oldestSlot(): number | null {
    // What an earlier run has from its end on is read from the next one.
    const earlier = this.#runs.find(({ eras, below }) => eras.length > 0 && eras[0]!.slot < below)
    if (earlier !== undefined) return earlier.eras[0]!.slot
    const first = this.hub.oldestSlot
    const kept = this.#run.eras[0]?.slot ?? this.#waiting[0]?.slot ?? first
    return first === null || kept === null ? kept : Math.min(first, kept)
  }

  replay(options: ReplayOptions): KeptReplay | null {
    const { fromSlot, at } = options
    if (at !== undefined) return new KeptReplay(this.#guarded(), { run: ownRun, ...at }, options)
    const oldest = this.oldestSlot
    if (oldest === null || fromSlot < oldest) return null
    const run = this.#runs.find(({ below }) => below > fromSlot) ?? this.#run
    const start = { run: run.number, era: fromSlot, count: 0 }
    return new KeptReplay(this.#guarded(), start, options)
  }

  find(at: LogPosition): LogPosition | Promise<ReadableEra | 'lost'> | 'lost' {
    if (this.#isInMemory(at)) return at
    const { run: removed, slot } = this.#removed ?? { run: -1, slot: -1 }
    if (at.run < removed || (at.run === removed && at.era <= slot)) return 'lost'
    for (const run of this.#runs) {
      if (run.number < at.run) continue
      const found = this.#readFirst(run, run.number === at.run ? at.era : 0)
      if (found !== null) return found
    }
    return this.#findInRun(at)
  }

  #findInRun(at: LogPosition): LogPosition | Promise<ReadableEra | 'lost'> | 'lost' {
    const isHere = at.run === ownRun
    const slot = isHere ? at.era : (this.#firstEra ?? this.hub.oldestEra ?? 0)
    const here = isHere ? at : { run: ownRun, era: slot, count: 0 }
    if (this.#isInMemory(here)) return here
    if (this.#firstEra === null || slot < this.#firstEra) return 'lost'
    const found = this.#readFirst(this.#run, slot)
    if (found !== null) return found
    const waiting = this.#waiting.find((era) => era.slot >= slot)
    return waiting === undefined ? 'lost' : Promise.resolve(readable(waiting))
  }

  async batches(
    run: number,
    era: number,
    batch: number,
    memory: ReadMemory,
  ): Promise<readonly ReceivedBatch[] | null> {
    const kept = [...this.#runs, this.#run].find(({ number }) => number === run)
    const place = kept?.eras[indexFrom(kept.eras, era)]
    return place?.slot === era ? this.#reader.batches(place, batch, memory) : null
  }

  async stop(): Promise<void> {
    this.#state = 'stopped'
    if (this.#retry !== null) clearTimeout(this.#retry)
    this.hub.onClosed = () => {}
    this.#reader.forget()
    await this.#thread?.stop()
  }

  /** What a replay sees: once the log has begun anew, what the hub has of the same chain. */
  #guarded(): KeptEras {
    const [chain, generation] = [this.#chain, this.#generation]
    const isKept = () => generation === this.#generation
    const isInMemory = (at: LogPosition) => chain === this.#chain && this.#isInMemory(at)
    return {
      hub: this.hub,
      find: (at) => (isKept() || isInMemory(at) ? this.find(at) : 'lost'),
      batches: async (...at) => (isKept() ? this.batches(...at) : null),
    }
  }

  #isInMemory({ run, era }: LogPosition): boolean {
    return run === ownRun && era >= (this.hub.oldestEra ?? Number.POSITIVE_INFINITY)
  }

  async #start(): Promise<void> {
    try {
      this.#thread = await this.#deps.startThread({
        report: (report) => this.#report(report),
        ended: () => this.#fail('its thread ended'),
      })
    } catch (error) {
      this.#fail(messageOf(error))
      return
    }
    await new Promise<void>((resolve) => {
      this.#onOpened = resolve
      this.#post({ kind: 'open' })
    })
  }

  #onOpened: () => void = () => {}

  /** False where no thread runs to take it. */
  #post(request: LogRequest, transfer: ArrayBuffer[] = []): boolean {
    return this.#thread?.post(request, transfer) ?? false
  }

  #report(report: LogReport): void {
    if (report.kind === 'took') {
      this.#chunks.giveBack(report.chunk)
      this.#pump()
      return
    }
    if (report.kind !== 'failed' && report.generation !== this.#generation) {
      // The log began anew while it was opened: the thread does not know it yet.
      const isLate = this.#state === 'opening' || this.#state === 'down'
      if (report.kind !== 'wrote' && isLate)
        this.#post({ kind: 'reset', generation: this.#generation })
      return
    }
    switch (report.kind) {
      case 'opened':
        this.#opened(report.run, report.eras, report.bytes)
        break
      case 'resumed':
        this.#resumed(report.eras, report.bytes)
        break
      case 'wrote':
        this.#wrote(report.place, report.removed, report.bytes)
        break
      case 'failed':
        this.#fail(report.reason)
    }
    if (report.kind !== 'wrote') this.#onOpened()
  }

  #opened(run: number, eras: readonly EraPlace[], bytes: number): void {
    this.#state = 'up'
    this.#chunks.forgetLent()
    this.#mustReset = false
    this.#bytes = bytes
    this.#fileRun = run
    this.#earlier = runsIn(eras)
    if (this.#earlier.length === 0 && eras.length > 0)
      this.#beginAnew('the earlier runs finalized nothing')
    this.#pump()
  }

  /** After a fault: `eras` is what is left of those that were written. */
  #resumed([first]: readonly EraPlace[], bytes: number): void {
    this.#state = 'up'
    this.#chunks.forgetLent()
    this.#bytes = bytes
    const before = this.oldestSlot
    this.#removeUpTo(first === undefined ? Number.POSITIVE_INFINITY : first.segment - 1)
    if (this.oldestSlot !== before) this.#resets++
    this.#deps.log.warn('stream log is up again', { oldestSlot: this.oldestSlot })
    this.#cursor = queueStart()
    this.#attempt++
    this.#sentAgainFrom = this.#waiting[0]?.slot ?? Number.POSITIVE_INFINITY
    this.#pump()
  }

  #finalizedEarlier(): Finalized | null {
    return this.#earlier.at(-1)?.eras.at(-1)?.finalized ?? null
  }

  #take({ slot, bytes, updates }: ClosedEra<SolanaUpdate>): void {
    const lists = updates.map((list) => list.runs())
    this.#note(lists)
    if (this.#state === 'stopped' || (this.#state === 'down' && this.#mustReset)) return
    this.#firstEra ??= slot
    this.#waiting.push({ slot, bytes, lists, finalized: this.#finalized })
    this.#waitingBytes += bytes
    if (this.#waitingBytes > waitingBytesMax && this.#waiting.length > 1)
      this.#beginAnew('the disk does not keep up')
    else this.#pump()
  }

  /** Tracks what is finalized, and checks that this run continues the one before. */
  #note(lists: Lists): void {
    let blockhash = this.#finalized?.blockhash ?? ''
    for (const { update } of lists[Commitment.finalized]!)
      if (update?.kind === 'blockMeta') blockhash = update.blockhash
      else if (update?.kind === 'slot' && update.status === slotStatus.finalized)
        this.#finalized = { slot: update.slot, blockhash }
    const joint = this.#joint
    if (joint === null) return
    // Another stream was the first with content, of a later slot: those before it are left out.
    if ((this.hub.firstContent ?? 0) > joint.slot) this.#beginAnew(notContinued)
    for (const { update } of lists[Commitment.processed]!)
      if (update?.kind === 'blockMeta' && update.slot === joint.slot) {
        this.#joint = null
        if (update.blockhash !== joint.blockhash) this.#beginAnew('the nodes show another chain')
      }
  }

  #pump(): void {
    if (this.#isPumping || this.#state !== 'up') return
    this.#isPumping = true
    setImmediate(() => {
      this.#isPumping = false
      if (this.#state === 'up') this.#send()
    })
  }

  /** Sends batches, about `turnBytes` of them, and the eras that they complete. */
  #send(): void {
    let left = turnBytes
    for (;;) {
      const era = this.#waiting[this.#cursor.eras]
      if (era === undefined) return
      const runs = runsOf(era.lists)
      while (this.#cursor.runs < runs.length) {
        const sent = left > 0 ? this.#sendBatch(era.slot, runs[this.#cursor.runs]!) : null
        if (sent === null) {
          this.#chunks.flush()
          if (left <= 0) this.#pump()
          return
        }
        this.#cursor.runs++
        left -= sent
      }
      this.#chunks.flush()
      const { slot, finalized } = era
      const lists = era.lists.map((list) => list.map((run) => this.#withPlaces(elementOf(run))))
      this.#post({ kind: 'era', content: { slot, finalized, lists } })
      this.#cursor = { eras: this.#cursor.eras + 1, eraBefore: slot, runs: 0, batches: 0 }
    }
  }

  /** Bytes that were copied: 0 for a batch that is there, null while it has to wait. */
  #sendBatch(era: number, { source, isOwn }: BatchUse): number | null {
    const place = this.#placeOf(source)
    if (place !== null && (!isOwn || place.era === era)) return 0
    const isAgain = place !== null && place.era === this.#cursor.eraBefore
    const { table, bytes } = source
    const numbers = new Uint8Array(table.buffer, table.byteOffset, table.byteLength)
    if (!isAgain && !this.#chunks.add(numbers, bytes)) return null
    const [generation, attempt] = [this.#generation, this.#attempt]
    this.#places.set(source, { generation, attempt, era, batch: this.#cursor.batches++ })
    if (!isAgain) return bytes.length + numbers.length
    this.#chunks.flush()
    this.#post({ kind: 'again', batch: place.batch })
    return 0
  }

  #placeOf(source: UpdateSource): BatchPlace | null {
    const place = this.#places.get(source)
    if (place?.generation !== this.#generation) return null
    return place.attempt === this.#attempt || place.era < this.#sentAgainFrom ? place : null
  }

  #withPlaces(element: ReadableElement): KeptElement {
    if (element.kind === 'run') return this.#referred(element)
    if (element.kind === 'block')
      return { ...element, items: element.items.map((item) => this.#referred(item)) }
    if (element.kind === 'retraction')
      return { ...element, restated: element.restated.map((one) => this.#withPlaces(one)) }
    return element
  }

  /** By reference to the batch's place instead of the batch itself. */
  #referred({ source, ...run }: ReadableRun): KeptRun {
    const place = this.#placeOf(source!)
    assert(place !== null, 'a batch is sent before its era')
    return { ...run, era: place.era, batch: place.batch }
  }

  #wrote(place: EraPlace, removed: number | null, bytes: number): void {
    const era = this.#waiting.shift()
    assert(era?.slot === place.slot, 'eras are written in order')
    this.#cursor.eras--
    this.#waitingBytes -= era.bytes
    this.#bytes = bytes
    this.#writtenEras++
    this.#run.eras.push(place)
    if (this.#waiting.length === 0) this.#retries = 0
    if (removed !== null) this.#removeUpTo(removed)
  }

  #removeUpTo(segment: number): void {
    this.#reader.forget(segment)
    for (const run of [...this.#earlier, ...this.#runs, this.#run]) {
      let count = 0
      while (count < run.eras.length && run.eras[count]!.segment <= segment) count++
      const last = run.eras.splice(0, count).at(-1)
      if (last !== undefined) this.#removed = { run: run.number, slot: last.slot }
    }
    this.#earlier = this.#earlier.filter(({ eras }) => eras.length > 0)
    this.#runs = this.#runs.filter(({ eras }) => eras.length > 0)
  }

  #beginAnew(reason: string): void {
    this.#forget()
    if (this.#state !== 'up') return
    this.#deps.log.warn('stream log begins anew', { reason })
    this.#post({ kind: 'reset', generation: this.#generation })
  }

  #forget(): void {
    if (!this.#mustReset) this.#resets++
    this.#mustReset = true
    this.#generation++
    this.#reader.forget()
    this.#earlier = []
    this.#runs = []
    this.#run.eras.length = 0
    this.#removed = null
    this.#firstEra = null
    this.#waiting = []
    this.#waitingBytes = 0
    this.#cursor = queueStart()
    this.#joint = null
    this.#bytes = 0
  }

  #fail(reason: string): void {
    if (this.#state === 'stopped') return
    const wasDown = this.#state === 'down'
    // Earlier runs are continued at the start or never; nor is what was taken since the log began
    // anew, as nothing is taken from now on until it has.
    if (this.#fileRun === 0 || this.#mustReset) this.#forget()
    this.#state = 'down'
    const fields = { folder: this.#deps.folder, reason }
    if (!wasDown) this.#deps.log.error('stream log is down: what is published waits', fields)
    this.#onOpened()
    this.#retryLater()
  }

  #retryLater(): void {
    const waitMs = Math.min(retryMs.most, retryMs.first * 2 ** this.#retries)
    this.#retry ??= setTimeout(() => {
      this.#retry = null
      this.#retries++
      // Up again meanwhile: the fault was that of a request before one that began anew.
      if (this.#state !== 'down') return
      if (this.#thread === null) void this.#start()
      else if (!this.#continue()) this.#retryLater()
    }, waitMs).unref()
  }

  #continue(): boolean {
    const generation = this.#generation
    if (this.#mustReset) return this.#post({ kind: 'reset', generation })
    const run = this.#fileRun
    const last = this.#run.eras.at(-1) ?? (this.#runs.at(-1) ?? this.#earlier.at(-1))?.eras.at(-1)
    const mayDrop = this.#retries > fullRetries
    return this.#post({ kind: 'resume', generation, run, last: last ?? null, mayDrop })
  }

  /** The first era from that slot on; null when there is none. The one behind it is read ahead. */
  #readFirst({ number, eras, below }: Run, slot: number): Promise<ReadableEra | 'lost'> | null {
    const index = indexFrom(eras, slot)
    const [place, next] = [eras[index], eras[index + 1]]
    if (place === undefined) return null
    const reading = this.#reader.era(place)
    if (next !== undefined) this.#reader.readAhead(next).catch(() => {})
    return reading.then((record) => (record === null ? 'lost' : { ...record, run: number, below }))
  }
}

function readable({ slot, lists }: WaitingEra): ReadableEra {
  const [run, below] = [ownRun, Number.POSITIVE_INFINITY]
  return { run, slot, below, list: (commitment) => lists[commitment]!.map(elementOf) }
}

/** One that finalized nothing is left out: each start continues the newest finalized slot. */
function runsIn(eras: readonly EraPlace[]): Run[] {
  const runs = new Map<number, EraPlace[]>()
  for (const place of eras) {
    const known = runs.get(place.run)
    if (known === undefined) runs.set(place.run, [place])
    else known.push(place)
  }
  return [...runs].flatMap(([number, own]) => {
    const below = own.at(-1)!.finalized?.slot
    return below === undefined ? [] : [{ number, below, eras: own }]
  })
}

/** Of eras with ascending slots. */
function indexFrom(eras: readonly EraPlace[], slot: number): number {
  let [low, high] = [0, eras.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (eras[middle]!.slot < slot) low = middle + 1
    else high = middle
  }
  return low
}
