// A Monad-format event ring file written by another process, and a check of what was read of it.
import { mkdtempSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { packageRoot } from '../../src/base/package-root.ts'
import { blockVerified, EventType, txnCallFrame } from '../../src/chain/evm/event-payload.ts'
import { ringHeader } from '../../src/chain/evm/event-ring.ts'
import { readU64 } from '../../src/chain/evm/words.ts'
import type { CreateRing, WriteEvents } from './event-ring-end.ts'
import type { SeenEvent } from './execution-sink.ts'
import { type BenchProcess, startProcess } from './process.ts'
import { hangMs } from './until.ts'

export class RingWriterProcess {
  readonly path: string
  readonly #folder = mkdtempSync(join(tmpdir(), 'sluice-ring-'))
  readonly #process: BenchProcess

  constructor() {
    this.path = join(this.#folder, 'monad-exec-events')
    const entry = join(packageRoot(), 'dist', 'test', 'testkit', 'event-ring-end.js')
    this.#process = startProcess(pathToFileURL(entry))
  }

  /** Puts a fresh ring at `path`; one that is there is replaced. */
  create(options: Omit<CreateRing, 'path'> = {}): Promise<void> {
    return this.#process.call('create', { ...options, path: this.path })
  }

  /** Returns the last sequence number. */
  write(events: WriteEvents): Promise<number> {
    return this.#process.call('write', events)
  }

  truncate(bytes: number): Promise<void> {
    return this.#process.call('truncate', bytes)
  }

  async stop(): Promise<void> {
    await this.#process.stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** True when the payload is the one that the writer made for this number. */
export function isAsWritten({ seqno, type, payload }: SeenEvent): boolean {
  if (type === EventType.BlockVerified) return readU64(payload, blockVerified.blockNumber) === seqno
  const input = payload.subarray(txnCallFrame.size)
  // All bytes are equal: each equals the one before.
  const isMarked = input.length === 0 || input[0] === (seqno & 255)
  const isEven = Buffer.compare(input.subarray(1), input.subarray(0, -1)) === 0
  return readU64(payload, txnCallFrame.gas) === seqno && isMarked && isEven
}

/** Blocks this thread until the writer has come that far, as a stalled reader does. */
export function stallUntil(fd: number, seqno: number, deadlineMs = hangMs): void {
  const header = new Uint8Array(ringHeader.usedBytes)
  const sleep = new Int32Array(new SharedArrayBuffer(4))
  const endMs = performance.now() + deadlineMs
  while (performance.now() < endMs) {
    readSync(fd, header, 0, header.length, 0)
    if (readU64(header, ringHeader.lastSeqno) >= seqno) return
    Atomics.wait(sleep, 0, 0, 2)
  }
  throw new Error(`the writer did not reach ${seqno}`)
}
