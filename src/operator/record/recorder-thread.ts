// Writes a flight recording. Thread: recorder, only while something is recorded.
//
//   main ─ records ─► take ┐
//   shred worker, source ─ rings ─► poll ┴─► file (0600), up to `bytesMax`
//
// What a thread wrote faster than this one reads is lost, and counted. A failure of the disk ends
// the recording after its last whole record.
import { hash } from 'node:crypto'
import { closeSync, fsyncSync, ftruncateSync, openSync, rmSync, writeSync } from 'node:fs'
import { messageOf } from '../../base/errors.ts'
import {
  encodeRecording,
  entryHeadBytes,
  openingBytes,
  openingOf,
  putEntry,
  type RecordHeader,
  type RecordingKind,
  recordingKind,
} from '../../base/recording-file.ts'
import { bytesIn, writeRecord } from '../../base/records.ts'
import { RingReader } from '../../base/rings/ring.ts'
import type { TapMemory } from '../../base/rings/tap.ts'

export type CallsKept = 'digest' | 'whole' | 'none'

export interface RecorderData {
  readonly path: string
  readonly bytesMax: number
  readonly calls: CallsKept
  readonly meta: RecordHeader
  readonly taps: Readonly<Record<'shreds' | 'events', TapMemory>>
}

export interface OutRecord {
  readonly kind: RecordingKind
  readonly header: RecordHeader
  readonly body: readonly Uint8Array[]
}

export type RecorderRequest =
  | { readonly kind: 'records'; readonly records: readonly OutRecord[]; readonly bytes: number }
  | { readonly kind: 'finish'; readonly reason: string; readonly isFailure: boolean }

export interface RecordedCounts {
  readonly batches: number
  readonly calls: number
  readonly shreds: number
  readonly events: number
  /** Lost because this thread could not keep up. */
  readonly lostShreds: number
  readonly lostEvents: number
}

export type RecorderReport =
  | { readonly kind: 'opened' }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }
  | { readonly kind: 'wrote'; readonly bytes: number; readonly fileBytes: number }
  | {
      readonly kind: 'ended'
      readonly reason: string
      readonly isFailure: boolean
      readonly fileBytes: number
      readonly counts: RecordedCounts
    }

/** Kept free for the last record. */
const endBytes = 4 * 1024
const pollBytes = 1024 * 1024
const digestBytes = 16

export class RecorderThread {
  readonly #data: RecorderData
  readonly #report: (report: RecorderReport) => void
  readonly #taps: readonly Tap[]
  readonly #counts = { batches: 0, calls: 0 }
  #file: number | null = null
  #bytes = 0

  constructor(data: RecorderData, report: (report: RecorderReport) => void) {
    this.#data = data
    this.#report = report
    const { shreds, events } = data.taps
    this.#taps = [new Tap(recordingKind.shreds, shreds), new Tap(recordingKind.events, events)]
  }

  open(): void {
    const { path, meta } = this.#data
    try {
      // Appends: after a failure the end moves back.
      this.#file = openSync(path, 'ax', 0o600)
      writeSync(this.#file, openingOf())
      this.#bytes = openingBytes
      this.#append(recordingKind.meta, meta)
      this.#report({ kind: 'opened' })
    } catch (error) {
      this.#discard()
      const { code = '' } = error as NodeJS.ErrnoException
      this.#report({ kind: 'refused', code, message: messageOf(error) })
    }
  }

  /** Whether it goes on. */
  get isOpen(): boolean {
    return this.#file !== null
  }

  take(request: RecorderRequest): void {
    if (this.#file === null) return
    if (request.kind === 'finish') {
      this.#try(() => this.#poll())
      return void this.#end(request.reason, request.isFailure)
    }
    this.#try(() => {
      for (const { kind, header, body } of request.records)
        if (kind === recordingKind.call) this.#call(header, body)
        else {
          this.#append(kind, header, body)
          if (kind === recordingKind.geyser) this.#counts.batches++
        }
    })
    this.#report({ kind: 'wrote', bytes: request.bytes, fileBytes: this.#bytes })
  }

  /** Reads what the tapped threads got since the last time. */
  poll(): void {
    if (this.#file !== null) this.#try(() => this.#poll())
  }

  #poll(): void {
    for (const tap of this.#taps)
      for (;;) {
        const body = tap.read()
        if (body === null || this.#file === null) break
        if (body.length > 0) this.#append(tap.kind, {}, [body])
      }
  }

  #call(header: RecordHeader, [request, answer]: readonly Uint8Array[]): void {
    this.#counts.calls++
    const lengths = { requestBytes: request!.length, answerBytes: answer?.length ?? null }
    if (this.#data.calls === 'whole') {
      const body = answer === undefined ? [request!] : [request!, answer]
      return void this.#append(recordingKind.call, { ...header, ...lengths }, body)
    }
    const digests = {
      requestDigest: digestOf(request!),
      answerDigest: answer === undefined ? null : digestOf(answer),
    }
    this.#append(recordingKind.call, { ...header, ...lengths, ...digests })
  }

  #append(kind: RecordingKind, header: RecordHeader, body: readonly Uint8Array[] = []): void {
    if (this.#file === null) return
    const record = encodeRecording(kind, header, body)
    const bytes = bytesIn(record)
    if (kind !== recordingKind.end && this.#bytes + bytes + endBytes > this.#data.bytesMax)
      return void this.#end('its bytes are used up')
    writeRecord(this.#file, record)
    this.#bytes += bytes
  }

  /** Leaves nothing of a file that could not be begun. */
  #discard(): void {
    if (this.#file === null) return
    closeSync(this.#file)
    this.#file = null
    rmSync(this.#data.path, { force: true })
  }

  #try(write: () => void): void {
    try {
      write()
    } catch (error) {
      this.#end(messageOf(error), true)
    }
  }

  #end(reason: string, isFailure = false): void {
    const file = this.#file
    if (file === null) return
    const [shreds, events] = this.#taps
    const counts = {
      ...this.#counts,
      ...{ shreds: shreds!.taken, events: events!.taken },
      ...{ lostShreds: shreds!.lost, lostEvents: events!.lost },
    }
    try {
      // After a failure half a record may be at the end; a full disk has room without it.
      if (isFailure) ftruncateSync(file, this.#bytes)
      this.#append(recordingKind.end, { reason, endedMs: Date.now(), ...counts })
      fsyncSync(file)
    } catch {
      // Without it a replay says that the recording was cut.
    }
    this.#file = null
    closeSync(file)
    this.#report({ kind: 'ended', reason, isFailure, fileBytes: this.#bytes, counts })
  }
}

/** One thread's ring. */
class Tap {
  readonly kind: RecordingKind
  readonly #reader: RingReader
  #chunk = Buffer.allocUnsafeSlow(2 * pollBytes)
  /** Messages read. */
  taken = 0

  constructor(kind: RecordingKind, { ring }: TapMemory) {
    this.kind = kind
    this.#reader = new RingReader(ring, { from: 'newest' })
  }

  get lost(): number {
    return this.#reader.lost
  }

  /** The entries of about a megabyte, none of those that were overwritten meanwhile; null when
   *  there are no more. The bytes are valid until the next call. */
  read(): Buffer | null {
    const reader = this.#reader
    // Null after an overrun as well: the next call finds what follows it.
    if (reader.poll(pollBytes) === 0) return null
    let [at, count] = [0, 0]
    // Of a message in several records, which are published together.
    let pieces: Uint8Array[] = []
    while (reader.next()) {
      const { bytes, offset, length, tag } = reader
      const part = bytes.subarray(offset, offset + length)
      if (reader.hasMore) {
        pieces.push(Uint8Array.from(part))
        continue
      }
      at = this.#put(at, tag, pieces.length === 0 ? part : Buffer.concat([...pieces, part]))
      pieces = []
      count++
    }
    if (!reader.commit()) return none
    this.taken += count
    return this.#chunk.subarray(0, at)
  }

  #put(at: number, tag: number, payload: Uint8Array): number {
    const end = at + entryHeadBytes + payload.length
    if (end > this.#chunk.length) {
      const larger = Buffer.allocUnsafeSlow(2 * end)
      this.#chunk.copy(larger, 0, 0, at)
      this.#chunk = larger
    }
    return putEntry(this.#chunk, at, { tag, payload })
  }
}

const none = Buffer.alloc(0)

function digestOf(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'buffer').toString('hex', 0, digestBytes)
}
