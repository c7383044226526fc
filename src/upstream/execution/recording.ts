// Loads a recorded event ring, compressed (zstd) or raw, keeping only its used bytes.
// Thread: source worker. The file is read in chunks: of a ring of 150 MB with 30 MB in use, 30 MB
// are kept. A file whose tail of zeros was cut off is complete.
import { type FileHandle, open } from 'node:fs/promises'
import { Decompress } from 'fzstd'
import { Fault, messageOf } from '../../base/errors.ts'
import type { RingGeometry } from '../../chain/evm/event-ring.ts'
import {
  descriptor,
  descriptorOffset,
  parseRingHeader,
  ringHeader,
} from '../../chain/evm/event-ring.ts'
import { readU32, readU64 } from '../../chain/evm/words.ts'

const readBytes = 64 * 1024
const zstdMagic = 0xfd2f_b528
/** A recording with more used bytes than this is rejected instead of loaded into memory. */
const usedBytesMax = 4 * 2 ** 30

export interface Recording {
  readonly count: number
  /** Sequence number of the first event. */
  readonly firstSeqno: number
  /** 64 bytes per event, in order. */
  readonly descriptors: Uint8Array
  /** The payload of the event at an index; valid as long as the recording. */
  payloadOf(index: number): Uint8Array
  /** All payloads; `startOf` is where a descriptor's virtual offset lies in them. */
  readonly payloads: Uint8Array
  startOf(offset: number): number
}

/** Reads the whole recording. Rejects with a `Fault` whose message describes the file. */
export async function loadRecording(path: string, openFile = open): Promise<Recording> {
  const file = await openFile(path, 'r').catch((error) => {
    throw new Fault('recording-unreadable', `cannot open the recording: ${messageOf(error)}`, {
      cause: error,
    })
  })
  try {
    const intake = new Intake()
    await readInto(file, intake)
    return intake.finish()
  } finally {
    await file.close()
  }
}

async function readInto(file: FileHandle, intake: Intake): Promise<void> {
  const chunk = new Uint8Array(readBytes)
  const first = await file.read(chunk, 0, readBytes, 0)
  if (first.bytesRead < 4 || readU32(chunk, 0) !== zstdMagic) {
    for (let read = first, at = 0; read.bytesRead > 0 && !intake.isFull; ) {
      intake.take(chunk.subarray(0, read.bytesRead))
      at += read.bytesRead
      read = await file.read(chunk, 0, readBytes, at)
    }
    return
  }
  const stream = new Decompress((piece) => intake.take(piece))
  let isLast = false
  for (let read = first, at = 0; !isLast && !intake.isFull; ) {
    at += read.bytesRead
    // The decoder keeps its input until a block is complete: each piece needs its own copy.
    const piece = chunk.slice(0, read.bytesRead)
    read = await file.read(chunk, 0, readBytes, at)
    isLast = read.bytesRead === 0
    push(stream, piece, isLast)
  }
}

function push(stream: Decompress, piece: Uint8Array, isLast: boolean): void {
  try {
    stream.push(piece, isLast)
  } catch (error) {
    if (error instanceof Fault) throw error
    throw new Fault('recording-damaged', `the recording does not decompress: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

/** Copies the bytes of a ring file into its sections as they arrive. */
class Intake {
  readonly #header = new Uint8Array(ringHeader.usedBytes)
  #geometry: RingGeometry | null = null
  #descriptors = new Uint8Array(0)
  #payloads = new Uint8Array(0)
  #position = 0

  /** True when all used bytes were read; the rest of the file was never written. */
  get isFull(): boolean {
    if (this.#geometry === null) return false
    return this.#position >= this.#geometry.payloadBase + this.#payloads.length
  }

  take(piece: Uint8Array): void {
    const start = this.#position
    this.#position += piece.length
    copyOverlap(piece, start, this.#header, 0)
    if (this.#geometry === null && this.#position >= ringHeader.usedBytes) this.#open()
    if (this.#geometry === null) return
    copyOverlap(piece, start, this.#descriptors, ringHeader.pageBytes)
    copyOverlap(piece, start, this.#payloads, this.#geometry.payloadBase)
  }

  finish(): Recording {
    if (this.#geometry === null) this.#open()
    const geometry = this.#geometry!
    const lastSeqno = readU64(this.#header, ringHeader.lastSeqno)
    const windowStart = readU64(this.#header, ringHeader.windowStart)
    const firstSeqno = this.#firstSeqno(geometry, { lastSeqno, windowStart })
    let count = 0
    while (count < geometry.capacity && this.#seqnoAt(geometry, firstSeqno + count)) count += 1
    const descriptors = this.#inOrder(geometry, firstSeqno, count)
    const payloads = this.#payloads
    const { payloadBytes } = geometry
    // The remainder of large numbers is slow, and only a ring that wrapped around needs it.
    const startOf = (offset: number): number =>
      offset < payloadBytes ? offset : offset % payloadBytes
    return {
      count,
      firstSeqno,
      descriptors,
      payloads,
      startOf,
      payloadOf(index) {
        const at = index * descriptor.bytes
        const size = readU32(descriptors, at + descriptor.payloadSize)
        const from = startOf(readU64(descriptors, at + descriptor.payloadOffset))
        // Only a ring whose bytes are all here wraps around; else the payload is short.
        const isWrapped = payloads.length === payloadBytes && size <= payloadBytes
        return isWrapped && from + size > payloadBytes
          ? joined(payloads, from, size)
          : payloads.subarray(from, from + size)
      },
    }
  }

  #open(): void {
    const parsed = parseRingHeader(this.#header.subarray(0, this.#position))
    if (!parsed.ok) throw new Fault('recording-refused', parsed.refusal.message)
    const geometry = parsed.value
    const nextByte = readU64(this.#header, ringHeader.nextPayloadByte)
    const payloadUsed = Math.min(geometry.payloadBytes, nextByte)
    const lastSeqno = readU64(this.#header, ringHeader.lastSeqno)
    // Above it one more is the same number: a search would not end.
    if (!Number.isSafeInteger(lastSeqno))
      throw new Fault('recording-refused', 'the recording has no valid last sequence number')
    const descriptorsUsed = Math.min(geometry.capacity, lastSeqno + 1) * descriptor.bytes
    if (payloadUsed + descriptorsUsed > usedBytesMax)
      throw new Fault('recording-refused', `the recording uses more than ${usedBytesMax} bytes`)
    this.#geometry = geometry
    this.#payloads = new Uint8Array(payloadUsed)
    this.#descriptors = new Uint8Array(descriptorsUsed)
  }

  /** 1, or in a ring that wrapped around, the oldest event whose payload still exists. */
  #firstSeqno(
    geometry: RingGeometry,
    { lastSeqno, windowStart }: { lastSeqno: number; windowStart: number },
  ): number {
    let seqno = Math.max(1, lastSeqno - geometry.capacity + 1)
    if (seqno === 1 && windowStart === 0) return 1
    while (seqno < lastSeqno) {
      const at = descriptorOffset(geometry, seqno) - ringHeader.pageBytes
      const isHere = readU64(this.#descriptors, at + descriptor.seqno) === seqno
      if (isHere && readU64(this.#descriptors, at + descriptor.payloadOffset) >= windowStart) break
      seqno += 1
    }
    return seqno
  }

  #seqnoAt(geometry: RingGeometry, seqno: number): boolean {
    const at = descriptorOffset(geometry, seqno) - ringHeader.pageBytes
    return at < this.#descriptors.length && readU64(this.#descriptors, at) === seqno
  }

  #inOrder(geometry: RingGeometry, firstSeqno: number, count: number): Uint8Array {
    const start = descriptorOffset(geometry, firstSeqno) - ringHeader.pageBytes
    const bytes = count * descriptor.bytes
    if (start + bytes <= geometry.capacity * descriptor.bytes)
      return this.#descriptors.subarray(start, start + bytes)
    return joined(this.#descriptors, start, bytes)
  }
}

/** Bytes of a circular buffer that wrap around to its beginning. */
function joined(bytes: Uint8Array, from: number, size: number): Uint8Array {
  const whole = new Uint8Array(size)
  const head = Math.min(size, bytes.length - from)
  whole.set(bytes.subarray(from, from + head))
  whole.set(bytes.subarray(0, size - head), head)
  return whole
}

/** Copies the bytes of a piece (at file offset `start`) that overlap the section. */
function copyOverlap(
  piece: Uint8Array,
  start: number,
  section: Uint8Array,
  sectionStart: number,
): void {
  const from = Math.max(start, sectionStart)
  const to = Math.min(start + piece.length, sectionStart + section.length)
  if (from < to) section.set(piece.subarray(from - start, to - start), from - sectionStart)
}
