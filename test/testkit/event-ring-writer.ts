// Writes a Monad-format event ring file as the engine would: payloads, descriptors, numbers last.
// Thread: any process that is not the reader. Used by benches and by tests of the live source.
import { closeSync, ftruncateSync, openSync, renameSync, writeSync } from 'node:fs'
import type { RingGeometry } from '../../src/chain/evm/event-ring.ts'
import {
  contentTypeExecution,
  descriptor,
  descriptorOffset,
  parseRingHeader,
  payloadAlignBytes,
  payloadOffset,
  ringHeader,
  ringMagic,
  schemaHash,
  windowStepBytes,
} from '../../src/chain/evm/event-ring.ts'
import { bytesOfHex } from '../../src/chain/evm/hex.ts'
import { writeU16, writeU64 } from '../../src/chain/evm/words.ts'
import type { ExecutionSink } from '../../src/upstream/ports.ts'

export interface EventRingOptions {
  /** Descriptors. */
  readonly capacity?: number
  readonly payloadBytes?: number
  /** Where the first payload lies (virtual), to try the buffer's physical end. */
  readonly firstPayloadByte?: number
  /** The schema that the header names. */
  readonly schema?: string
}

/** Events and payload bytes that are written by the same few system calls. */
const groupEvents = 256
const groupBytes = 1024 * 1024

/** The fields of a ring file's header page. */
export function eventRingHeader(options: EventRingOptions = {}): Uint8Array {
  const header = new Uint8Array(ringHeader.usedBytes)
  header.set(Buffer.from(ringMagic, 'latin1'), ringHeader.magic)
  writeU16(header, ringHeader.contentType, contentTypeExecution)
  header.set(bytesOfHex(options.schema ?? schemaHash)!, ringHeader.schemaHash)
  writeU64(header, ringHeader.capacity, options.capacity ?? 2 ** 16)
  writeU64(header, ringHeader.payloadBytes, options.payloadBytes ?? 2 ** 27)
  writeU64(header, ringHeader.nextPayloadByte, options.firstPayloadByte ?? 0)
  return header
}

export class EventRingWriter implements ExecutionSink {
  readonly #fd: number
  readonly #header: Uint8Array
  readonly #geometry: RingGeometry
  /** The group that is not yet in the file: descriptors, and payloads as they will lie there. */
  readonly #descriptors = new Uint8Array(groupEvents * descriptor.bytes)
  #payloads = new Uint8Array(groupBytes)
  #grouped = 0
  #groupByte: number
  #seqno = 0
  #nextByte: number
  #windowStart = 0

  /** Creates a temporary file and renames it, as the engine does. */
  constructor(path: string, options: EventRingOptions = {}) {
    this.#header = eventRingHeader(options)
    const parsed = parseRingHeader(this.#header)
    if (!parsed.ok) throw new Error(parsed.refusal.message)
    this.#geometry = parsed.value
    this.#nextByte = options.firstPayloadByte ?? 0
    this.#groupByte = this.#nextByte
    this.#fd = openSync(`${path}.new`, 'w+')
    ftruncateSync(this.#fd, this.#geometry.fileBytes)
    writeSync(this.#fd, this.#header, 0, this.#header.length, 0)
    renameSync(`${path}.new`, path)
  }

  get seqno(): number {
    return this.#seqno
  }

  /** Takes type, size, time and flow tags from `bytes`; number and offset are the ring's own. */
  event(bytes: Uint8Array, payload: Uint8Array): void {
    const size = Math.ceil(payload.length / payloadAlignBytes) * payloadAlignBytes
    if (this.#nextByte - this.#groupByte + size > groupBytes) this.flush()
    if (size > this.#payloads.length) this.#payloads = new Uint8Array(size)
    const at = this.#grouped * descriptor.bytes
    this.#seqno += 1
    this.#descriptors.set(bytes, at)
    writeU64(this.#descriptors, at + descriptor.seqno, this.#seqno)
    writeU64(this.#descriptors, at + descriptor.payloadOffset, this.#nextByte)
    this.#payloads.set(payload, this.#nextByte - this.#groupByte)
    this.#nextByte += size
    this.#grouped += 1
    if (this.#grouped === groupEvents || this.#seqno % this.#geometry.capacity === 0) this.flush()
  }

  gap(): void {
    throw new Error('a writer loses nothing')
  }

  /** Writes the group: window, slots without numbers, payloads, then the numbers. */
  flush(): void {
    if (this.#grouped === 0) return
    const { payloadBytes, payloadBase } = this.#geometry
    const window = payloadBytes - windowStepBytes
    while (this.#nextByte - this.#windowStart > window) this.#windowStart += windowStepBytes
    writeU64(this.#header, ringHeader.lastSeqno, this.#seqno)
    writeU64(this.#header, ringHeader.nextPayloadByte, this.#nextByte)
    writeU64(this.#header, ringHeader.windowStart, this.#windowStart)
    this.#write(this.#header, 0)
    const slots = this.#descriptors.subarray(0, this.#grouped * descriptor.bytes)
    const place = descriptorOffset(this.#geometry, this.#seqno - this.#grouped + 1)
    const unnumbered = slots.slice()
    for (let at = 0; at < slots.length; at += descriptor.bytes) unnumbered.fill(0, at, at + 8)
    this.#write(unnumbered, place)
    const payloads = this.#payloads.subarray(0, this.#nextByte - this.#groupByte)
    const head = Math.min(payloads.length, payloadBytes - (this.#groupByte % payloadBytes))
    this.#write(payloads.subarray(0, head), payloadOffset(this.#geometry, this.#groupByte))
    this.#write(payloads.subarray(head), payloadBase)
    this.#write(slots, place)
    this.#grouped = 0
    this.#groupByte = this.#nextByte
  }

  truncate(bytes: number): void {
    ftruncateSync(this.#fd, bytes)
  }

  close(): void {
    this.flush()
    closeSync(this.#fd)
  }

  #write(bytes: Uint8Array, at: number): void {
    if (bytes.length > 0) writeSync(this.#fd, bytes, 0, bytes.length, at)
  }
}
