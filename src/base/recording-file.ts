// The file of a flight recording: what came in to a server for some minutes, one file per incident.
//
//   "sluice-record\0" | format u16 | record record record …              (framed by records.ts)
//   record payload   | header bytes u32 | header, JSON | body |
//
//   meta     first: release, start, what of calls is kept
//   geyser   a set's streams in order of arrival: opened, closed, anew, or a batch (table, bytes)
//   call     a customer's call: request and answer in the body, or only digests in the header
//   shreds   packets as the shred worker got them;  entries | tag i32 | length u32 | payload |
//   events   execution events as the source delivered them; entries of the same form
//   end      why it ended, and what could not be kept
//   results  digests of the frames that the recording build makes of all this
//
// Never in it: headers, tokens, query strings, addresses.
import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs'
import { Fault, messageOf } from './errors.ts'
import { encodeRecord, headBytes, payloadOf, type RecordParts, readHead } from './records.ts'

/** Rises with every change that an earlier release cannot read. */
export const recordingFormat = 1
const magic = Buffer.from('sluice-record\0')
export const openingBytes = magic.length + 2

export const recordingKind = {
  meta: 1,
  geyser: 2,
  call: 3,
  shreds: 4,
  events: 5,
  end: 6,
  results: 7,
} as const
export type RecordingKind = (typeof recordingKind)[keyof typeof recordingKind]

export type RecordHeader = Readonly<Record<string, unknown>>

export interface RecordingRecord {
  readonly kind: number
  readonly header: RecordHeader
  readonly body: Buffer
}

export function openingOf(format = recordingFormat): Buffer {
  const opening = Buffer.alloc(openingBytes)
  magic.copy(opening)
  opening.writeUInt16LE(format, magic.length)
  return opening
}

export function encodeRecording(
  kind: RecordingKind,
  header: RecordHeader,
  body: readonly Uint8Array[] = [],
): RecordParts {
  const text = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(4)
  length.writeUInt32LE(text.length)
  return encodeRecord(kind, [length, text, ...body])
}

/** Whether a file begins as a recording does, of any format. False where it cannot be read. */
export function isRecording(path: string): boolean {
  try {
    const file = openSync(path, 'r')
    try {
      return readAt(file, 0, magic.length).equals(magic)
    } finally {
      closeSync(file)
    }
  } catch {
    return false
  }
}

/** Reads the records of a recording in order. A damaged one ends it: `torn` has what is left. */
export class RecordingReader {
  readonly #file: number
  readonly #size: number
  #at = openingBytes
  #torn = 0

  /** Throws a `Fault` whose message has the path for a file that is no recording of this format. */
  constructor(path: string) {
    try {
      // Before it is opened: a pipe would be waited for.
      if (!statSync(path).isFile()) throw new Error('it is not a file')
      this.#file = openSync(path, 'r')
    } catch (cause) {
      throw new Fault('recording-unreadable', `cannot open ${path}: ${messageOf(cause)}`, { cause })
    }
    this.#size = fstatSync(this.#file).size
    const problem = this.#problem(path)
    if (problem === null) return
    this.close()
    throw new Fault('recording-refused', problem)
  }

  /** Bytes after the last whole record; known once all were read. */
  get torn(): number {
    return this.#torn
  }

  /** Where the next record begins. */
  get at(): number {
    return this.#at
  }

  *records(): Generator<RecordingRecord> {
    for (;;) {
      const record = this.#next()
      if (record === null) break
      yield record
    }
    this.#torn = this.#size - this.#at
  }

  close(): void {
    closeSync(this.#file)
  }

  #problem(path: string): string | null {
    const opening = readAt(this.#file, 0, openingBytes)
    const isWhole = opening.length === openingBytes
    if (!isWhole || !opening.subarray(0, magic.length).equals(magic))
      return `${path} is not a recording of sluice record`
    const format = opening.readUInt16LE(magic.length)
    if (format <= recordingFormat) return null
    return (
      `${path} has format ${format}, and this release reads up to format ${recordingFormat}: ` +
      'use a release that is at least as new as the one that recorded it'
    )
  }

  #next(): RecordingRecord | null {
    const head = readHead(readAt(this.#file, this.#at, headBytes))
    if (head === null) return null
    const bytes = headBytes + head.payloadBytes
    if (this.#at + bytes > this.#size) return null
    const payload = payloadOf(readAt(this.#file, this.#at, bytes), head.kind)
    if (payload === null || payload.length < 4) return null
    const end = 4 + payload.readUInt32LE(0)
    if (end > payload.length) return null
    this.#at += bytes
    // Reason for the cast: the checksum holds, and only `encodeRecording` writes such a record.
    const header = JSON.parse(payload.toString('utf8', 4, end)) as RecordHeader
    return { kind: head.kind, header, body: payload.subarray(end) }
  }
}

/** One entry of `shreds` or `events`. */
export interface TappedEntry {
  readonly tag: number
  readonly payload: Uint8Array
}

export const entryHeadBytes = 8

/** Puts an entry into memory that has room for it; returns its end. */
export function putEntry(chunk: Buffer, at: number, { tag, payload }: TappedEntry): number {
  chunk.writeInt32LE(tag, at)
  chunk.writeUInt32LE(payload.length, at + 4)
  chunk.set(payload, at + entryHeadBytes)
  return at + entryHeadBytes + payload.length
}

/** The checksum of their record holds: entries are whole. */
export function* entriesIn(body: Buffer): Generator<TappedEntry> {
  for (let at = 0; at < body.length; ) {
    const end = at + entryHeadBytes + body.readUInt32LE(at + 4)
    yield { tag: body.readInt32LE(at), payload: body.subarray(at + entryHeadBytes, end) }
    at = end
  }
}

function readAt(file: number, at: number, bytes: number): Buffer {
  const buffer = Buffer.allocUnsafeSlow(bytes)
  return buffer.subarray(0, readSync(file, buffer, 0, bytes, at))
}
