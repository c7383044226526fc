// Writes the stream log's files, in a thread of its own: a slow disk holds up nothing else.
// Thread: stream-log.
//
// A file begins with an era's first batch and ends with an era. Files are removed whole, from the
// oldest: when all together have too many bytes, or when the last era of one is too old. Opening
// walks from head to head, cuts what no era follows, and checks the checksums of the newest file.
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
  writeSync,
  writevSync,
} from 'node:fs'
import { join } from 'node:path'
import { assert } from '../../base/assert.ts'
import {
  bytesIn,
  decodeBatch,
  decodeEra,
  type EraContent,
  type EraRecord,
  encodeBatch,
  encodeEra,
  type Finalized,
  headBytes,
  type RecordParts,
  readHead,
  recordKind,
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

interface Segment {
  readonly number: number
  bytes: number
  firstMs: number
  lastMs: number
}

export interface Written {
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
  #run = 1
  /** Batches of the era that is not complete. */
  #batches: [at: number, bytes: number][] = []

  constructor(folder: string, bounds: LogBounds) {
    this.#folder = folder
    this.#bounds = bounds
    const part = bounds.bytesMax / segmentsWanted
    this.#segmentBytes = Math.min(segmentBytesMax, Math.max(segmentBytesMin, part))
  }

  /** The number of this start. */
  get run(): number {
    return this.#run
  }

  get bytes(): number {
    return this.#segments.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** Finds what earlier runs wrote. Throws what the file system throws. */
  open(nowMs: number): EraPlace[] {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    const numbers = readdirSync(this.#folder)
      .map((name) => /^(\d{8})\.log$/.exec(name)?.[1])
      .flatMap((found) => (found === undefined ? [] : [Number(found)]))
      .sort((a, b) => a - b)
    const places: EraPlace[] = []
    for (const number of numbers) places.push(...this.#scan(number, number === numbers.at(-1)))
    this.#run = 1 + (places.at(-1)?.run ?? 0)
    const removed = this.#trim(nowMs)
    return removed === null ? places : places.filter(({ segment }) => segment > removed)
  }

  batch(table: Uint8Array, bytes: Uint8Array): void {
    const record = encodeBatch(table, bytes, this.#bounds.compress === 'zstd')
    this.#batches.push([this.#append(record), bytesIn(record)])
  }

  /** The era of all batches since the last one. */
  era(content: EraContent, atMs: number): Written {
    const record: EraRecord = { ...content, run: this.#run, atMs, batches: this.#batches }
    this.#batches = []
    const encoded = encodeEra(record)
    const at = this.#append(encoded)
    const segment = this.#segments.at(-1)!
    const path = segmentFile(this.#folder, segment.number)
    // Writing to a file that was removed or moved away succeeds.
    if (!existsSync(path)) throw new Error(`${path} is gone`)
    segment.firstMs ||= atMs
    segment.lastMs = atMs
    const place = placeOf(record, segment.number, at, bytesIn(encoded))
    const isOld = atMs - segment.firstMs > this.#bounds.keepMs / segmentsWanted
    if (segment.bytes >= this.#segmentBytes || isOld) this.#close()
    return { place, removed: this.#trim(atMs), bytes: this.bytes }
  }

  /** Removes everything: nothing kept says anything about what follows. */
  reset(): void {
    this.#close()
    this.#batches = []
    this.#segments = []
    rmSync(this.#folder, { recursive: true, force: true })
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
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
    const written = writevSync(this.#file, record)
    // A full disk takes a part of it; the rest then says why.
    if (written < bytesIn(record)) writeRest(this.#file, Buffer.concat(record), written)
    segment.bytes += bytesIn(record)
    return at
  }

  #close(): void {
    if (this.#file !== null) closeSync(this.#file)
    this.#file = null
  }

  #scan(number: number, isNewest: boolean): EraPlace[] {
    const file = openSync(segmentFile(this.#folder, number), 'r+')
    try {
      const size = fstatSync(file).size
      const places: EraPlace[] = []
      let [end, at, firstMs, lastMs] = [0, 0, 0, 0]
      for (;;) {
        const record = readRecord(file, { at, size, checksBatches: isNewest })
        if (record === null) break
        at += record.bytes
        if (record.era === null) continue
        places.push(placeOf(record.era, number, at - record.bytes, record.bytes))
        firstMs ||= record.era.atMs
        lastMs = record.era.atMs
        end = at
      }
      if (end < size) ftruncateSync(file, end)
      if (end === 0) rmSync(segmentFile(this.#folder, number))
      else this.#segments.push({ number, bytes: end, firstMs, lastMs })
      return places
    } finally {
      closeSync(file)
    }
  }

  /** The newest segment that was removed; the one that is written to stays. */
  #trim(nowMs: number): number | null {
    let removed: number | null = null
    let bytes = this.bytes
    while (this.#segments.length > 1) {
      const oldest = this.#segments[0]!
      const isOld = nowMs - oldest.lastMs > this.#bounds.keepMs
      if (bytes <= this.#bounds.bytesMax && !isOld) break
      rmSync(segmentFile(this.#folder, oldest.number), { force: true })
      bytes -= oldest.bytes
      removed = oldest.number
      this.#segments.shift()
    }
    assert(removed === null || this.#segments.length > 0, 'the newest segment stays')
    return removed
  }
}

function writeRest(file: number, bytes: Buffer, from: number): void {
  for (let at = from; at < bytes.length; ) at += writeSync(file, bytes, at)
}

function placeOf(era: EraRecord, segment: number, at: number, bytes: number): EraPlace {
  const { run, slot, finalized } = era
  return { run, slot, segment, at, bytes, finalized }
}

interface ScannedRecord {
  readonly bytes: number
  readonly era: EraRecord | null
}

interface RecordSearch {
  readonly at: number
  readonly size: number
  readonly checksBatches: boolean
}

/** Null at the end, and at what is no record: nothing after it can be found. */
function readRecord(file: number, { at, size, checksBatches }: RecordSearch): ScannedRecord | null {
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
