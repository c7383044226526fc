// Keeps what a hub published in files, beyond what it keeps in memory, and replays it.
//
//   hub ─ era closed ─► queue (256 MiB) ─ 1 MiB a turn ─► thread stream-log ─► <data>/streams/<set>
//                          └ also read from here until it is written
//
// Never holds up the hub. Where the disk cannot keep up, fails or is full, everything kept is
// removed and the log begins anew: a replay reaches back less, live streams notice nothing.
//
// Runs: each start of the server appends to the files of the one before. The node then replays
// from the newest finalized slot on, so of earlier runs the slots below it are read, of this run
// those above. Where it cannot, or shows another block there, the earlier runs are removed.
import { open as openFile } from 'node:fs/promises'
import { assert } from '../../base/assert.ts'
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import { messageOf } from '../../base/errors.ts'
import { LruMap } from '../../base/lru-map.ts'
import type { Log } from '../../base/telemetry/log.ts'
import { DedicatedWorker } from '../../base/threads/dedicated.ts'
import { batchColumn, batchColumns } from '../../chain/solana/geyser-batch.ts'
import { type SolanaUpdate, slotStatus } from '../../chain/solana/updates.ts'
import { ReceivedBatch } from '../flows/received-batch.ts'
import { AssembledBlock } from '../flows/tracked-slot.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import type { ClosedEra, KeptStream, ReplayOptions } from '../hub/hub.ts'
import { UpdateList, type UpdateRun, type UpdateSource } from '../hub/update-list.ts'
import {
  type KeptEras,
  KeptReplay,
  type LogPosition,
  type ReadableElement,
  type ReadableEra,
  type ReadableRun,
} from './kept-replay.ts'
import {
  decodeBatch,
  decodeEra,
  type EraRecord,
  type Finalized,
  type KeptElement,
  type KeptRun,
} from './segment-format.ts'
import { type EraPlace, type LogBounds, segmentFile } from './segment-writer.ts'
import type { LogReport, LogRequest } from './writer-thread.ts'

/** Eras that wait to be written; with more the log begins anew. */
export const waitingBytesMax = 256 * 1024 * 1024
/** Copied to the thread per turn of the event loop. */
const turnBytes = 1024 * 1024
/** Records of eras held for readers: a finalized slot refers back by about 32 eras. */
const erasHeld = 64
const retryMs = 10_000

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
  post(request: LogRequest, transfer: readonly ArrayBuffer[]): void
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

interface Run {
  readonly number: number
  /** Slots from here on are in the next run. */
  below: number
  readonly eras: EraPlace[]
}

type Lists = readonly (readonly UpdateRun<SolanaUpdate>[])[]

interface WaitingEra {
  readonly slot: number
  readonly bytes: number
  readonly lists: Lists
  readonly finalized: Finalized | null
}

/** Where a batch lies: in which era of this log. */
interface BatchPlace {
  readonly generation: number
  readonly era: number
  readonly batch: number
}

export class StreamLog implements KeptEras, KeptStream<SolanaUpdate> {
  readonly hub: SolanaHub
  readonly #deps: StreamLogDeps
  readonly #records = new LruMap<string, EraRecord>()
  /** Increases when everything kept is removed. */
  #generation = 0
  #thread: WriterThread | null = null
  #state: 'opening' | 'up' | 'down' | 'stopped' = 'opening'
  #earlier: Run[] = []
  #runs: Run[] = []
  #run: Run = { number: 0, below: Number.POSITIVE_INFINITY, eras: [] }
  /** The first era that was taken since the log last began anew. */
  #firstEra: number | null = null
  /** The newest era that was removed. */
  #removed: { readonly run: number; readonly slot: number } | null = null
  #waiting: WaitingEra[] = []
  #waitingBytes = 0
  /** Of the first waiting era: runs that were looked at, and batches that were sent. */
  #cursor = { run: 0, batches: 0 }
  /** How many of the waiting eras were sent. */
  #sent = 0
  #places = new WeakMap<UpdateSource, BatchPlace>()
  #finalized: Finalized | null = null
  /** Expected block of the slot where this run continues the one before. */
  #joint: Finalized | null = null
  #isPumping = false
  #bytes = 0
  #resets = 0
  #writtenEras = 0
  #retry: NodeJS.Timeout | null = null

  /** Resolves once it is known what earlier runs wrote, or that the log is down. */
  readonly ready: Promise<void>

  constructor(hub: SolanaHub, deps: StreamLogDeps) {
    this.hub = hub
    this.#deps = deps
    hub.onClosed = (era) => this.#take(era)
    hub.onRestart(() => this.#beginAnew('the chain begins anew'))
    this.ready = this.#start()
  }

  counts(): StreamLogCounts {
    const { oldestSlot } = this
    const isUp = this.#state === 'up'
    const [bytes, writtenEras, resets] = [this.#bytes, this.#writtenEras, this.#resets]
    return { isUp, bytes, oldestSlot, writtenEras, resets }
  }

  /** The slot from which a node must replay so that earlier runs can be continued. */
  get resumeSlot(): number | null {
    return this.#earlier.length === 0 ? null : this.#finalizedEarlier()!.slot
  }

  /** The first connection of this run starts at that slot; null when the node replays nothing. */
  started(fromSlot: number | null): void {
    if (this.#earlier.length === 0) return
    const joint = this.#finalizedEarlier()!
    if (fromSlot !== joint.slot) {
      this.#beginAnew('no node continues the streams of earlier runs')
      return
    }
    for (const run of this.#earlier) run.below = Math.min(run.below, joint.slot)
    this.#runs = this.#earlier
    this.#earlier = []
    this.#joint = joint
  }

  get oldestSlot(): number | null {
    const earlier = this.#runs[0]?.eras[0]?.slot
    if (earlier !== undefined) return earlier
    const first = this.hub.oldestSlot
    const kept = this.#run.eras[0]?.slot ?? this.#waiting[0]?.slot ?? first
    return first === null || kept === null ? kept : Math.min(first, kept)
  }

  replay(options: ReplayOptions): KeptReplay | null {
    const { fromSlot, at } = options
    if (at !== undefined)
      return new KeptReplay(this.#guarded(), { run: this.#run.number, ...at }, options)
    const oldest = this.oldestSlot
    if (oldest === null || fromSlot < oldest) return null
    const run = this.#runs.find(({ below }) => below > fromSlot) ?? this.#run
    const start = { run: run.number, era: fromSlot, count: 0 }
    return new KeptReplay(this.#guarded(), start, options)
  }

  find(at: LogPosition): LogPosition | Promise<ReadableEra | 'lost'> | 'lost' {
    if (this.#isInMemory(at)) return at
    if (this.#removed !== null && isUpTo(at, this.#removed)) return 'lost'
    for (const run of this.#runs) {
      if (run.number < at.run) continue
      const place = firstFrom(run.eras, run.number === at.run ? at.era : 0)
      if (place !== null) return this.#readEra(place, run.below)
    }
    return this.#findInRun(at)
  }

  #findInRun(at: LogPosition): LogPosition | Promise<ReadableEra | 'lost'> | 'lost' {
    const { number, eras, below } = this.#run
    const isHere = at.run === number
    const slot = isHere ? at.era : (this.#firstEra ?? this.hub.oldestSlot ?? 0)
    const here = isHere ? at : { run: number, era: slot, count: 0 }
    if (this.#isInMemory(here)) return here
    if (this.#firstEra === null || slot < this.#firstEra) return 'lost'
    const place = firstFrom(eras, slot)
    if (place !== null) return this.#readEra(place, below)
    const waiting = this.#waiting.find((era) => era.slot >= slot)
    return waiting === undefined ? 'lost' : Promise.resolve(readable(waiting, number))
  }

  async batch(run: number, era: number, batch: number): Promise<UpdateSource | null> {
    const kept = run === this.#run.number ? this.#run : this.#runs.find((one) => one.number === run)
    const place = kept === undefined ? null : firstFrom(kept.eras, era)
    if (place === null || place.slot !== era) return null
    const record = await this.#record(place)
    const at = record?.batches[batch]
    if (at === undefined) return null
    const found = decodeBatch(await this.#readFile(place.segment, at[0], at[1]))
    return found === null ? null : new ReceivedBatch(found)
  }

  async stop(): Promise<void> {
    this.#state = 'stopped'
    if (this.#retry !== null) clearTimeout(this.#retry)
    this.hub.onClosed = () => {}
    await this.#thread?.stop()
  }

  /** What a replay sees: lost once the log has begun anew. */
  #guarded(): KeptEras {
    const generation = this.#generation
    const isLost = () => generation !== this.#generation
    return {
      hub: this.hub,
      find: (at) => (isLost() && !this.#isInMemory(at) ? 'lost' : this.find(at)),
      batch: (run, era, batch) => (isLost() ? Promise.resolve(null) : this.batch(run, era, batch)),
    }
  }

  #isInMemory({ run, era }: LogPosition): boolean {
    return run === this.#run.number && era >= (this.hub.oldestSlot ?? Number.POSITIVE_INFINITY)
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

  #post(request: LogRequest, transfer: ArrayBuffer[] = []): void {
    this.#thread?.post(request, transfer)
  }

  #report(report: LogReport): void {
    if (report.kind !== 'failed' && report.generation !== this.#generation) return
    switch (report.kind) {
      case 'opened':
        this.#opened(report.run, report.eras, report.bytes)
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
    this.#bytes = bytes
    this.#run = { number: run, below: Number.POSITIVE_INFINITY, eras: [] }
    this.#earlier = []
    for (const place of eras) {
      const last = this.#earlier.at(-1)
      if (last?.number === place.run) last.eras.push(place)
      else this.#earlier.push({ number: place.run, below: Number.POSITIVE_INFINITY, eras: [place] })
    }
    for (const [index, one] of this.#earlier.entries()) {
      const finalized = one.eras.at(-1)!.finalized
      const isLast = index === this.#earlier.length - 1
      // A run that the next one did not continue was removed by it.
      one.below = finalized?.slot ?? 0
      if (isLast && finalized === null) this.#beginAnew('the earlier runs finalized nothing')
    }
    this.#pump()
  }

  #finalizedEarlier(): Finalized | null {
    return this.#earlier.at(-1)?.eras.at(-1)?.finalized ?? null
  }

  #take({ slot, bytes, updates }: ClosedEra<SolanaUpdate>): void {
    if (this.#state === 'down' || this.#state === 'stopped') return
    const lists = updates.map((list) => list.runs())
    this.#note(lists)
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
      const era = this.#waiting[this.#sent]
      if (era === undefined) return
      const runs = runsOf(era.lists)
      while (this.#cursor.run < runs.length) {
        if (left <= 0) {
          this.#pump()
          return
        }
        left -= this.#sendBatch(era.slot, runs[this.#cursor.run++]!)
      }
      const { slot, finalized } = era
      const lists = era.lists.map((list) => list.map((run) => this.#elementOf(run)))
      this.#post({ kind: 'era', content: { slot, finalized, lists } })
      this.#cursor = { run: 0, batches: 0 }
      this.#sent++
    }
  }

  /** Bytes that were copied; 0 for a batch that the era need not contain. */
  #sendBatch(era: number, { source, isOwn }: BatchUse): number {
    const place = this.#placeOf(source)
    if (place !== null && (!isOwn || place.era === era)) return 0
    const table = new Float64Array(source.table)
    const bytes = new Uint8Array(source.bytes)
    this.#post({ kind: 'batch', table, bytes }, [table.buffer, bytes.buffer])
    const { batches } = this.#cursor
    this.#places.set(source, { generation: this.#generation, era, batch: batches })
    this.#cursor.batches++
    return bytes.length + table.byteLength
  }

  #placeOf(source: UpdateSource): BatchPlace | null {
    const place = this.#places.get(source)
    return place?.generation === this.#generation ? place : null
  }

  #elementOf(run: UpdateRun<SolanaUpdate>): KeptElement {
    return this.#withPlaces(elementOf(run))
  }

  #withPlaces(element: ReadableElement): KeptElement {
    switch (element.kind) {
      case 'run':
        return this.#referred(element)
      case 'block':
        return { ...element, items: element.items.map((item) => this.#referred(item)) }
      case 'retraction':
        return { ...element, restated: element.restated.map((one) => this.#withPlaces(one)) }
      case 'update':
        return element
    }
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
    this.#sent--
    this.#waitingBytes -= era.bytes
    this.#bytes = bytes
    this.#writtenEras++
    this.#run.eras.push(place)
    if (removed !== null) this.#removeUpTo(removed)
  }

  #removeUpTo(segment: number): void {
    for (const run of [...this.#runs, this.#run]) {
      let count = 0
      while (count < run.eras.length && run.eras[count]!.segment <= segment) count++
      const last = run.eras.splice(0, count).at(-1)
      if (last !== undefined) this.#removed = { run: run.number, slot: last.slot }
    }
    this.#runs = this.#runs.filter(({ eras }) => eras.length > 0)
  }

  #beginAnew(reason: string): void {
    this.#forget()
    if (this.#state !== 'up') return
    this.#deps.log.warn('stream log begins anew', { reason })
    this.#post({ kind: 'reset', generation: this.#generation })
  }

  #forget(): void {
    if (this.#state !== 'down') this.#resets++
    this.#generation++
    this.#earlier = []
    this.#runs = []
    this.#run = { ...this.#run, eras: [] }
    this.#removed = null
    this.#firstEra = null
    this.#waiting = []
    this.#waitingBytes = 0
    this.#cursor = { run: 0, batches: 0 }
    this.#sent = 0
    this.#joint = null
    this.#bytes = 0
  }

  #fail(reason: string): void {
    if (this.#state === 'stopped') return
    const wasDown = this.#state === 'down'
    this.#forget()
    this.#state = 'down'
    const fields = { folder: this.#deps.folder, reason }
    if (!wasDown) this.#deps.log.error('stream log is down: replay is from memory only', fields)
    this.#onOpened()
    this.#retry ??= setTimeout(() => {
      this.#retry = null
      if (this.#thread === null) void this.#start()
      else this.#post({ kind: 'reset', generation: this.#generation })
    }, retryMs).unref()
  }

  async #readEra(place: EraPlace, below: number): Promise<ReadableEra | 'lost'> {
    const record = await this.#record(place)
    return record === null ? 'lost' : { ...record, below }
  }

  async #record(place: EraPlace): Promise<EraRecord | null> {
    const key = `${this.#generation} ${place.run} ${place.slot}`
    const known = this.#records.get(key)
    if (known !== undefined) return known
    const record = decodeEra(await this.#readFile(place.segment, place.at, place.bytes))
    if (record === null) return null
    this.#records.set(key, record)
    if (this.#records.size > erasHeld) this.#records.evict()
    return record
  }

  async #readFile(segment: number, at: number, bytes: number): Promise<Buffer> {
    const file = await openFile(segmentFile(this.#deps.folder, segment), 'r')
    try {
      const buffer = Buffer.allocUnsafeSlow(bytes)
      const { bytesRead } = await file.read(buffer, 0, bytes, at)
      return buffer.subarray(0, bytesRead)
    } finally {
      await file.close()
    }
  }
}

interface BatchUse {
  readonly source: ReceivedBatch
  /** Published as processed in this era: it must contain the batch. */
  readonly isOwn: boolean
}

function runsOf(lists: Lists): BatchUse[] {
  const uses: BatchUse[] = []
  const add = ({ source, update }: UpdateRun<SolanaUpdate>, isOwn: boolean) => {
    if (source !== null) uses.push(useOf(source, isOwn))
    else if (update instanceof AssembledBlock)
      for (const item of update.items.runs()) add(item, false)
    else if (update?.kind === 'retraction')
      for (const restated of runsIn(update.restated)) add(restated, false)
  }
  for (const [commitment, list] of lists.entries())
    for (const run of list) add(run, commitment === Commitment.processed)
  return uses
}

function runsIn(updates: Iterable<SolanaUpdate>): readonly UpdateRun<SolanaUpdate>[] {
  const list = new UpdateList<SolanaUpdate>()
  for (const update of updates) list.push(update)
  return list.runs()
}

function useOf(source: UpdateSource, isOwn: boolean): BatchUse {
  assert(source instanceof ReceivedBatch, 'a node sent it')
  return { source, isOwn }
}

/** With its source; the place of a batch is not known yet. */
function elementOf({ source, update, start, end }: UpdateRun<SolanaUpdate>): ReadableElement {
  if (source !== null) return runOf(source, start, end)
  if (update instanceof AssembledBlock) {
    const { slot, isMixed } = update
    const items = update.items.runs().map((item) => runOf(item.source!, item.start, item.end))
    return { kind: 'block', slot, isMixed, meta: plain(update.meta), items }
  }
  if (update?.kind !== 'retraction') return { kind: 'update', update: plain(update!) }
  const { restated, ...own } = update
  return { kind: 'retraction', update: plain(own), restated: runsIn(restated).map(elementOf) }
}

function runOf(source: UpdateSource, start: number, end: number): ReadableRun {
  assert(source instanceof ReceivedBatch, 'a node sent it')
  const slot = source.table[(end - 1) * batchColumns + batchColumn.slot]!
  return { kind: 'run', era: 0, batch: 0, start, end, slot, source }
}

/** Its bytes are views of a batch: a copy is passed on alone. */
function plain<T extends object>(update: T): T {
  const entries = Object.entries(update).map(([name, value]) => [
    name,
    value instanceof Uint8Array ? new Uint8Array(value) : value,
  ])
  // Reason for the cast: the same members.
  return Object.fromEntries(entries) as T
}

function readable({ slot, lists }: WaitingEra, run: number): ReadableEra {
  const below = Number.POSITIVE_INFINITY
  return { run, slot, below, lists: lists.map((list) => list.map(elementOf)) }
}

/** Whether the position is at or before the era. */
function isUpTo(at: LogPosition, { run, slot }: { readonly run: number; readonly slot: number }) {
  return at.run < run || (at.run === run && at.era <= slot)
}

/** Of eras with ascending slots. */
function firstFrom(eras: readonly EraPlace[], slot: number): EraPlace | null {
  let [low, high] = [0, eras.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (eras[middle]!.slot < slot) low = middle + 1
    else high = middle
  }
  return eras[low] ?? null
}
