// Writes the stream log's files, in a thread of its own: a slow disk holds up nothing else.
// Thread: stream-log.
//
// A file begins with an era's first batch and ends with an era. Files are removed whole, from the
// oldest: when all together have too many bytes, or when the last era of one is too old. Opening
// walks from head to head, cuts what no era follows, and checks the checksums of the newest file.
// Where one is damaged or missing, it goes with all before it: a replay would step over the hole.
import {
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { assert, messageOf } from '../../base/errors.ts'
import {
  bytesIn,
  headBytes,
  payloadOf,
  type RecordParts,
  readHead,
  writeRecord,
} from '../../base/records.ts'
import {
  decodeBatch,
  decodeEra,
  type EraContent,
  type EraRecord,
  encodeEra,
  type Finalized,
  type LaidOut,
  type ReadEra,
  recordKind,
  sealBatch,
} from './segment-format.ts'

/** Files per log, about: what one removal frees. */
const segmentsWanted = 32
const segmentBytesMin = 1024 * 1024
const segmentBytesMax = 256 * 1024 * 1024

export interface LogBounds {
  readonly keepMs: number
  readonly bytesMax: number
  readonly compress: 'none' | 'zstd'
}

/** Where an era lies. */
export interface EraPlace {
  readonly run: number
  readonly slot: number
  readonly segment: number
  readonly at: number
  readonly bytes: number
  readonly finalized: Finalized | null
}

/** Where a log is to be continued after a fault. */
interface LogEnd {
  readonly run: number
  /** The last era that was reported as written; null when none is kept. */
  readonly last: EraPlace | null
  readonly isFull: boolean
  /** Faults have lasted: rather less is kept than nothing written. */
  readonly mayDrop: boolean
}

interface Segment {
  readonly number: number
  bytes: number
  firstMs: number
  lastMs: number
}

interface Written {
  readonly place: EraPlace
  /** The newest file that was removed with it; null when none was. */
  readonly removed: number | null
  readonly bytes: number
}

export function segmentFile(folder: string, number: number): string {
  return join(folder, `${String(number).padStart(8, '0')}.log`)
}

export class SegmentWriter {
  readonly #folder: string
  readonly #bounds: LogBounds
  readonly #segmentBytes: number
  #segments: Segment[] = []
  /** Of the newest segment; null before the first record of one. */
  #file: number | null = null
  /** The number of this start. */
  run = 1
  /** Batches of the era that is not complete. */
  #batches: [at: number, bytes: number][] = []
  /** Those of the era before, and the file that they lie in. */
  #before: { readonly segment: number; readonly batches: EraRecord['batches'] } | null = null

  constructor(folder: string, bounds: LogBounds) {
    this.#folder = folder
    this.#bounds = bounds
    const part = bounds.bytesMax / segmentsWanted
    this.#segmentBytes = Math.min(segmentBytesMax, Math.max(segmentBytesMin, part))
  }

  get bytes(): number {
    return this.#segments.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** Finds what earlier runs wrote. Throws what the file system throws. */
  open(nowMs: number): EraPlace[] {
    const places = this.#scanAll(true)
    this.run = 1 + (places.at(-1)?.run ?? 0)
    const removed = this.#trim(nowMs)
    return removed === null ? places : places.filter(({ segment }) => segment > removed)
  }

  /**
   * Finds what is left after a fault, up to the last era that was reported: what follows it comes
   * again. Where that one is gone nothing is left. A full disk gets the older half. What cannot be
   * read now may be readable later: it throws, unless it may be dropped.
   */
  resume({ run, last, isFull, mayDrop }: LogEnd): EraPlace[] {
    this.run = run
    this.#batches = []
    this.#before = null
    this.#segments = []
    try {
      this.#close()
    } catch {
      // The fault itself.
    }
    for (const number of this.#numbers()) if (number > (last?.segment ?? 0)) this.#remove(number)
    const places = this.#scanAll(mayDrop, last)
    const end = places.at(-1)
    if (end === undefined || end.segment !== last?.segment || end.at !== last.at) {
      this.reset()
      return []
    }
    if (!isFull || !mayDrop) return places
    const [oldest] = this.#segments.splice(0, Math.ceil(this.#segments.length / 2)).slice(-1)
    for (const number of this.#numbers()) if (number <= oldest!.number) this.#remove(number)
    return places.filter(({ segment }) => segment > oldest!.number)
  }

  /** Takes the memory: the heads are written to it. */
  batches({ chunk, ends }: LaidOut): void {
    const zstd = this.#bounds.compress === 'zstd'
    const laidOut = Buffer.from(chunk)
    for (const [index, end] of ends.entries()) {
      const record = sealBatch(laidOut.subarray(ends[index - 1] ?? 0, end), zstd)
      this.#batches.push([this.#append([record]), record.length])
    }
  }

  /** A batch of the era before that has updates of this one, too: only a new file repeats it. */
  again(batch: number): void {
    assert(this.#before !== null, 'an era was written')
    const { segment, batches } = this.#before
    const [at, bytes] = batches[batch]!
    const isSame = this.#file !== null && this.#segments.at(-1)!.number === segment
    this.#batches.push([isSame ? at : this.#append([this.#readBatch(segment, at, bytes)]), bytes])
  }

  /** The era of all batches since the last one. */
  era(content: EraContent, atMs: number): Written {
    const record: EraRecord = { ...content, run: this.run, atMs, batches: this.#batches }
    this.#batches = []
    const encoded = encodeEra(record)
    const at = this.#append(encoded)
    const segment = this.#segments.at(-1)!
    this.#before = { segment: segment.number, batches: record.batches }
    const path = segmentFile(this.#folder, segment.number)
    // Writing to a file that was removed or moved away succeeds.
    if (!existsSync(path)) throw new Error(`${path} is gone`)
    segment.firstMs ||= atMs
    segment.lastMs = atMs
    const place = placeOf(record, { segment: segment.number, at, bytes: bytesIn(encoded) })
    const isOld = atMs - segment.firstMs > this.#bounds.keepMs / segmentsWanted
    if (segment.bytes >= this.#segmentBytes || isOld) this.#close()
    return { place, removed: this.#trim(atMs), bytes: this.bytes }
  }

  /**
   * Removes everything: nothing kept says anything about what follows. The folder stays: it may be
   * a mount point, or a link.
   */
  reset(): void {
    this.#close()
    this.#batches = []
    this.#before = null
    this.#segments = []
    for (const number of this.#numbers()) this.#remove(number)
  }

  stop(): void {
    this.#close()
  }

  /** Where the record begins. */
  #append(record: RecordParts): number {
    if (this.#file === null) {
      const number = 1 + (this.#segments.at(-1)?.number ?? 0)
      this.#file = openSync(segmentFile(this.#folder, number), 'wx', 0o600)
      this.#segments.push({ number, bytes: 0, firstMs: 0, lastMs: 0 })
    }
    const segment = this.#segments.at(-1)!
    const at = segment.bytes
    writeRecord(this.#file, record)
    segment.bytes += bytesIn(record)
    return at
  }

  #readBatch(segment: number, at: number, bytes: number): Buffer {
    const path = segmentFile(this.#folder, segment)
    const file = openSync(path, 'r')
    try {
      const record = readAt(file, at, bytes)
      if (payloadOf(record, recordKind.batch) === null) throw new Error(`${path} is damaged`)
      return record
    } finally {
      closeSync(file)
    }
  }

  #close(): void {
    const file = this.#file
    this.#file = null
    if (file !== null) closeSync(file)
  }

  #numbers(): number[] {
    const found = statSync(this.#folder, { throwIfNoEntry: false })
    if (found?.isDirectory() === false) rmSync(this.#folder)
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    return readdirSync(this.#folder)
      .map((name) => /^(\d{8})\.log$/.exec(name)?.[1])
      .flatMap((number) => (number === undefined ? [] : [Number(number)]))
      .sort((a, b) => a - b)
  }

  /** Whatever it is: a path that is no file goes, too. */
  #remove(number: number): void {
    rmSync(segmentFile(this.#folder, number), { recursive: true, force: true })
  }

  /** Up to an era, or all. */
  #scanAll(mayDrop: boolean, last: EraPlace | null = null): EraPlace[] {
    const numbers = this.#numbers()
    let places: EraPlace[] = []
    let isWhole = true
    for (const [index, number] of numbers.entries()) {
      const before = numbers[index - 1] ?? number - 1
      if (!isWhole || before !== number - 1) {
        places = []
        for (const old of this.#segments.splice(0)) this.#remove(old.number)
      }
      const isNewest = number === numbers.at(-1)
      const found = this.#scan(number, { isNewest, last }, mayDrop)
      places.push(...found.places)
      isWhole = found.isWhole
    }
    return places
  }

  #scan(number: number, extent: ScanExtent, mayDrop: boolean) {
    let found: ScannedSegment | null = null
    try {
      found = scanFile(segmentFile(this.#folder, number), number, extent)
    } catch (error) {
      // Not readable: as one that is damaged.
      if (!mayDrop) throw error
    }
    if (found === null || found.bytes === 0) {
      this.#remove(number)
      return { places: [], isWhole: false }
    }
    const { bytes, firstMs, lastMs } = found
    this.#segments.push({ number, bytes, firstMs, lastMs })
    return found
  }

  /** The newest segment that was removed; the one that is written to stays. */
  #trim(nowMs: number): number | null {
    let removed: number | null = null
    while (this.#segments.length > 1) {
      const oldest = this.#segments[0]!
      const isOld = nowMs - oldest.lastMs > this.#bounds.keepMs
      if (this.bytes <= this.#bounds.bytesMax && !isOld) break
      this.#remove(oldest.number)
      removed = oldest.number
      this.#segments.shift()
    }
    assert(removed === null || this.#segments.length > 0, 'the newest segment stays')
    return removed
  }
}

type Extent = Pick<EraPlace, 'segment' | 'at' | 'bytes'>

function placeOf({ run, slot, finalized }: Omit<EraRecord, 'lists'>, extent: Extent): EraPlace {
  return { run, slot, finalized, ...extent }
}

interface ScannedSegment extends Segment {
  readonly places: readonly EraPlace[]
  /** Nothing of it was cut off. */
  readonly isWhole: boolean
}

type ScanExtent = { readonly isNewest: boolean; readonly last: EraPlace | null }

/** Cuts off what no era follows. Nothing after `last` is looked at. */
function scanFile(path: string, number: number, { isNewest, last }: ScanExtent): ScannedSegment {
  const file = openSync(path, 'r+')
  try {
    const size = fstatSync(file).size
    const until = last?.segment === number ? Math.min(size, last.at + last.bytes) : size
    const places: EraPlace[] = []
    let [end, at, firstMs, lastMs] = [0, 0, 0, 0]
    for (;;) {
      const record = readRecord(file, { at, size: until, checksBatches: isNewest })
      if (record === null) break
      const { era, bytes } = record
      const extent = { segment: number, at, bytes }
      at += bytes
      if (era === null) continue
      places.push(placeOf(era, extent))
      firstMs ||= era.atMs
      lastMs = era.atMs
      end = at
    }
    if (end < size) ftruncateSync(file, end)
    return { number, bytes: end, firstMs, lastMs, places, isWhole: end === until }
  } finally {
    closeSync(file)
  }
}

/** Null at the end, and at what is no record: nothing after it can be found. */
function readRecord(
  file: number,
  { at, size, checksBatches }: { at: number; size: number; checksBatches: boolean },
): { readonly bytes: number; readonly era: ReadEra | null } | null {
  const head = readHead(readAt(file, at, headBytes))
  if (head === null) return null
  const bytes = headBytes + head.payloadBytes
  if (at + bytes > size) return null
  const isBatch = head.kind === recordKind.batch
  if (isBatch && !checksBatches) return { bytes, era: null }
  const record = readAt(file, at, bytes)
  if (isBatch) return decodeBatch(record) === null ? null : { bytes, era: null }
  const era = decodeEra(record)
  return era === null ? null : { bytes, era }
}

function readAt(file: number, at: number, bytes: number): Buffer {
  const buffer = Buffer.allocUnsafe(bytes)
  return buffer.subarray(0, readSync(file, buffer, 0, bytes, at))
}

// The stream log's thread: writes what it is sent, and reports each era that is on disk.
// Thread: stream-log. After any failure of the disk what follows is ignored until the log is told
// where to continue, or to begin anew.

export type LogRequest =
  | { readonly kind: 'open' }
  | ({ readonly kind: 'batches' } & LaidOut)
  /** One of the era before, once more. */
  | { readonly kind: 'again'; readonly batch: number }
  | { readonly kind: 'era'; readonly content: EraContent }
  | { readonly kind: 'reset'; readonly generation: number }
  | {
      readonly kind: 'resume'
      readonly generation: number
      readonly run: number
      readonly last: EraPlace | null
      /** A disk that is still full gets the older half, files that are not readable go. */
      readonly mayDrop: boolean
    }

export type LogReport =
  | {
      /** `resumed`: `eras` is what is left after a fault. */
      readonly kind: 'opened' | 'resumed'
      readonly generation: number
      readonly run: number
      readonly eras: readonly EraPlace[]
      readonly bytes: number
    }
  | {
      readonly kind: 'wrote'
      readonly generation: number
      readonly place: EraPlace
      readonly removed: number | null
      readonly bytes: number
    }
  /** Batches were written, or passed over: their memory may be used again. */
  | { readonly kind: 'took'; readonly chunk: ArrayBuffer }
  | { readonly kind: 'failed'; readonly reason: string }

export class LogThread {
  readonly #writer: SegmentWriter
  readonly #report: (report: LogReport) => void
  #generation = 0
  #isBroken = false
  /** The last failure was that of a full disk. */
  #isFull = false

  constructor(folder: string, bounds: LogBounds, report: (report: LogReport) => void) {
    this.#writer = new SegmentWriter(folder, bounds)
    this.#report = report
  }

  take(request: LogRequest): void {
    this.#try(request)
    if (request.kind === 'batches') this.#report({ kind: 'took', chunk: request.chunk })
  }

  stop(): void {
    this.#writer.stop()
  }

  #try(request: LogRequest): void {
    if (this.#isBroken && request.kind !== 'reset' && request.kind !== 'resume') return
    try {
      this.#do(request)
    } catch (error) {
      this.#isBroken = true
      this.#isFull = ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '')
      this.#report({ kind: 'failed', reason: messageOf(error) })
    }
  }

  #do(request: LogRequest): void {
    const writer = this.#writer
    const generation = this.#generation
    switch (request.kind) {
      case 'open':
        this.#opened('opened', writer.open(Date.now()))
        break
      case 'batches':
        writer.batches(request)
        break
      case 'again':
        writer.again(request.batch)
        break
      case 'era':
        this.#report({ kind: 'wrote', generation, ...writer.era(request.content, Date.now()) })
        break
      case 'reset':
        this.#generation = request.generation
        writer.reset()
        this.#opened('opened', [])
        break
      case 'resume':
        this.#generation = request.generation
        this.#opened('resumed', writer.resume({ ...request, isFull: this.#isFull }))
    }
  }

  #opened(kind: 'opened' | 'resumed', eras: readonly EraPlace[]): void {
    this.#isBroken = false
    const { run, bytes } = this.#writer
    this.#report({ kind, generation: this.#generation, run, eras, bytes })
  }
}
