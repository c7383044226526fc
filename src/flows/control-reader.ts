// Reads the control ring on the main thread and hands its messages on, one by one, in order.
// Thread: main. Used by flows/execution.ts. Messages are copied and confirmed before they are
// used, so that one that was overwritten meanwhile is never taken for true.
import { type Control, parseControl } from '../analysis/control.ts'
import type { RingDescriptor } from '../rings/layout.ts'
import { RingReader } from '../rings/ring-reader.ts'

/** Bytes looked at before the event loop gets its turn again; some 40 blocks. */
const batchBytes = 64 * 1024
/** The longest sleep; a wake-up ends it at once. */
const sleepMs = 1000

export interface ControlReaderOptions {
  /** Makes the writer wait for us: where loss is not allowed. */
  readonly isLossless: boolean
  readonly take: (control: Control) => void
  /** Messages were lost to an overrun; what follows is new. */
  readonly onOverrun: () => void
  /** Resolves when another message may be taken. */
  readonly room: () => Promise<void>
}

export class ControlReader {
  readonly #reader: RingReader
  readonly #options: ControlReaderOptions
  #overruns = 0
  #isStopped = false

  constructor(ring: RingDescriptor, options: ControlReaderOptions) {
    const hold = options.isLossless ? { hold: 0 } : {}
    this.#reader = new RingReader(ring, { from: 'oldest', ...hold })
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
      if (isIntact) await this.#handOn(batch)
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
      // A private copy: the ring's bytes may change under us.
      const copy = new Uint8Array(length)
      copy.set(bytes.subarray(offset, offset + length))
      const control = parseControl(tag, copy)
      if (control !== null) batch.push(control)
    }
    return batch
  }

  async #handOn(batch: readonly Control[]): Promise<void> {
    const { take, room } = this.#options
    for (const control of batch) {
      await room()
      if (this.#isStopped) return
      take(control)
    }
  }

  #noteOverrun(): void {
    if (this.#reader.overruns === this.#overruns) return
    this.#overruns = this.#reader.overruns
    this.#options.onOverrun()
  }
}
