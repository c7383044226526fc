// Reads the control ring and delivers its messages one by one, in order.
// Messages are copied, and the copy is validated before use, so that a message overwritten in the
// meantime is never delivered.

import type { RingDescriptor } from '../../base/rings/layout.ts'
import { RingReader } from '../../base/rings/ring-reader.ts'
import { type Control, parseControl } from '../analysis/control.ts'

/** Bytes read before yielding to the event loop; about 40 blocks. */
const batchBytes = 64 * 1024
/** Timeout of one wait; a wake-up ends it at once. */
const sleepMs = 1000

export interface ControlReaderOptions {
  /** Backpressure: makes the writer wait for this reader, where loss is not allowed. */
  readonly isLossless: boolean
  readonly onControl: (control: Control) => void
  /** Messages were lost to an overrun; the next message comes after the loss. */
  readonly onOverrun: () => void
  /** Resolves when another message may be delivered. */
  readonly waitForCapacity: () => Promise<void>
}

export class ControlReader {
  readonly #reader: RingReader
  readonly #options: ControlReaderOptions
  #overruns = 0
  #isStopped = false

  constructor(ring: RingDescriptor, options: ControlReaderOptions) {
    const lease = options.isLossless ? { lease: 0 } : {}
    this.#reader = new RingReader(ring, { from: 'oldest', ...lease })
    this.#options = options
  }

  /** Reads until `stop`. Never rejects. */
  async run(): Promise<void> {
    const reader = this.#reader
    while (!this.#isStopped) {
      if (reader.poll(batchBytes) === 0) {
        this.#noteOverrun()
        await reader.waitAsync(sleepMs)
        continue
      }
      const batch = this.#copyBatch()
      const isIntact = reader.commit()
      this.#noteOverrun()
      if (isIntact) await this.#deliver(batch)
    }
  }

  stop(): void {
    this.#isStopped = true
  }

  #copyBatch(): Control[] {
    const batch: Control[] = []
    const reader = this.#reader
    while (reader.next()) {
      const { bytes, offset, length, tag } = reader
      // A private copy: the writer may overwrite the ring's bytes at any time.
      const copy = new Uint8Array(length)
      copy.set(bytes.subarray(offset, offset + length))
      const control = parseControl(tag, copy)
      if (control !== null) batch.push(control)
    }
    return batch
  }

  async #deliver(batch: readonly Control[]): Promise<void> {
    const { onControl, waitForCapacity } = this.#options
    for (const control of batch) {
      await waitForCapacity()
      if (this.#isStopped) return
      onControl(control)
    }
  }

  #noteOverrun(): void {
    if (this.#reader.overruns === this.#overruns) return
    this.#overruns = this.#reader.overruns
    this.#options.onOverrun()
  }
}
