// Execution source that follows a live Monad event ring and reopens the file when it is replaced.
// Thread: source worker. A ring that existed at startup is joined at its newest event; a ring that
// replaces it, or restarts, is read from its first. Sequence numbers are the ring's own.
import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs'
import { Fault, messageOf } from '../../base/errors.ts'
import { parseRingHeader, type RingGeometry, ringHeader } from '../../chain/evm/event-ring.ts'
import { readU64 } from '../../chain/evm/words.ts'
import type { ExecutionSink, ExecutionSource } from '../ports.ts'
import type { Pacer } from './pacer.ts'
import { RingFileReader } from './ring-file-reader.ts'

/** Idle time without events after which the file itself is checked. */
const checkIdleMs = 100
/** Retry interval for a file that is missing or incomplete. */
const appearMs = 100
/** Polling slows down while idle: a new event is seen after 1 ms, later after 10 ms. */
const pollMsMin = 1
const pollMsMax = 10
const slowAfterMs = 2000
/** Batches delivered before yielding to other work of the thread. */
const turnBatches = 16

interface OpenRing {
  readonly fd: number
  readonly device: number
  readonly inode: number
  readonly geometry: RingGeometry
  readonly newest: number
}

export class RingFile implements ExecutionSource {
  readonly #path: string
  readonly #pacer: Pacer

  constructor(options: { readonly path: string }, pacer: Pacer) {
    this.#path = options.path
    this.#pacer = pacer
  }

  async run(sink: ExecutionSink): Promise<void> {
    let before: { device: number; inode: number; last: number } | null = null
    while (!this.#pacer.isStopped) {
      const ring = this.#open()
      if (ring === null) {
        await this.#pacer.until(this.#pacer.clock.monotonicMs() + appearMs)
        continue
      }
      const isSame: boolean =
        before !== null &&
        before.device === ring.device &&
        before.inode === ring.inode &&
        before.last <= ring.newest
      const last: number = before === null ? ring.newest : isSame ? before.last : 0
      const reader = new RingFileReader(ring.fd, ring.geometry, last)
      try {
        await this.#follow(ring, reader, sink)
      } finally {
        closeSync(ring.fd)
      }
      before = { device: ring.device, inode: ring.inode, last: reader.last }
    }
  }

  stop(): void {
    this.#pacer.stop()
  }

  /** Reads until the ring is truncated, replaced or restarted, or the source is stopped. */
  async #follow(ring: OpenRing, reader: RingFileReader, sink: ExecutionSink): Promise<void> {
    const { clock } = this.#pacer
    let activeMs = clock.monotonicMs()
    let checkedMs = activeMs
    let batches = 0
    while (!this.#pacer.isStopped) {
      const outcome = reader.readBatch(sink)
      const nowMs = clock.monotonicMs()
      if (outcome === 'broken') return
      if (outcome === 'read') {
        activeMs = nowMs
        batches += 1
        if (batches % turnBatches === 0) await this.#pacer.until(nowMs)
        continue
      }
      if (nowMs - activeMs >= checkIdleMs && nowMs - checkedMs >= checkIdleMs) {
        checkedMs = nowMs
        if (!this.#isStill(ring, reader)) return
      }
      await this.#pacer.until(nowMs + (nowMs - activeMs < slowAfterMs ? pollMsMin : pollMsMax))
    }
  }

  /** True while the path refers to this same file and its writer has not restarted. */
  #isStill(ring: OpenRing, reader: RingFileReader): boolean {
    const newest = reader.newest()
    if (newest === null || newest < reader.last) return false
    const found = statSync(this.#path, { throwIfNoEntry: false })
    // A missing path may reappear; until then the open file is read.
    return found === undefined || (found.ino === ring.inode && found.dev === ring.device)
  }

  /** The ring, or null while the file is absent or incomplete. Throws a Fault for a wrong file. */
  #open(): OpenRing | null {
    let fd: number
    try {
      fd = openSync(this.#path, 'r')
    } catch (error) {
      if (isAbsent(error)) return null
      throw new Fault('ring-unreadable', `cannot open the event ring: ${messageOf(error)}`, {
        cause: error,
        retryable: true,
      })
    }
    try {
      const ring = readRing(fd)
      if (ring === null) closeSync(fd)
      return ring
    } catch (error) {
      closeSync(fd)
      throw error
    }
  }
}

function readRing(fd: number): OpenRing | null {
  const header = new Uint8Array(ringHeader.usedBytes)
  const got = readSync(fd, header, 0, header.length, 0)
  // A writer that does not create the file by rename has a short or blank header for a moment.
  if (got < header.length || header.every((byte) => byte === 0)) return null
  const parsed = parseRingHeader(header)
  if (!parsed.ok) throw new Fault('ring-refused', parsed.refusal.message, { retryable: true })
  const { size, dev, ino } = fstatSync(fd)
  if (size < parsed.value.fileBytes) return null
  const newest = readU64(header, ringHeader.lastSeqno)
  return { fd, device: dev, inode: ino, geometry: parsed.value, newest }
}

function isAbsent(error: unknown): boolean {
  // Reason for the cast: Node puts the system's code on its errors without a type for it.
  return (error as { code?: string }).code === 'ENOENT'
}
