// The stream log's thread: writes what it is sent, and reports each era that is on disk.
// Thread: stream-log. After any failure of the disk what follows is ignored until the log is told
// where to continue, or to begin anew.
import { messageOf } from '../../base/errors.ts'
import type { LaidOut } from './batch-chunks.ts'
import type { EraContent } from './segment-format.ts'
import { type EraPlace, type LogBounds, SegmentWriter } from './segment-writer.ts'

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
        this.#isBroken = false
        this.#opened('opened', [])
        break
      case 'resume': {
        this.#generation = request.generation
        const { run, last } = request
        const eras = writer.resume({ run, last, isFull: this.#isFull })
        this.#isBroken = false
        this.#opened('resumed', eras)
      }
    }
  }

  #opened(kind: 'opened' | 'resumed', eras: readonly EraPlace[]): void {
    const { run, bytes } = this.#writer
    this.#report({ kind, generation: this.#generation, run, eras, bytes })
  }
}
