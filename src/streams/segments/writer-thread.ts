// The stream log's thread: writes what it is sent, and reports each era that is on disk.
// Thread: stream-log. Any failure of the disk ends a generation: what follows is ignored until the
// log is told to begin anew.
import { messageOf } from '../../base/errors.ts'
import type { EraContent } from './segment-format.ts'
import { type EraPlace, type LogBounds, SegmentWriter } from './segment-writer.ts'

export type LogRequest =
  | { readonly kind: 'open' }
  | { readonly kind: 'batch'; readonly table: Float64Array; readonly bytes: Uint8Array }
  | { readonly kind: 'era'; readonly content: EraContent }
  | { readonly kind: 'reset'; readonly generation: number }

export type LogReport =
  | {
      readonly kind: 'opened'
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
  | { readonly kind: 'failed'; readonly reason: string }

export class LogThread {
  readonly #writer: SegmentWriter
  readonly #report: (report: LogReport) => void
  #generation = 0
  #isBroken = false

  constructor(folder: string, bounds: LogBounds, report: (report: LogReport) => void) {
    this.#writer = new SegmentWriter(folder, bounds)
    this.#report = report
  }

  take(request: LogRequest): void {
    if (this.#isBroken && request.kind !== 'reset') return
    try {
      this.#do(request)
    } catch (error) {
      this.#isBroken = true
      this.#report({ kind: 'failed', reason: messageOf(error) })
    }
  }

  stop(): void {
    this.#writer.stop()
  }

  #do(request: LogRequest): void {
    const writer = this.#writer
    const generation = this.#generation
    switch (request.kind) {
      case 'open':
        this.#opened(writer.open(Date.now()))
        break
      case 'batch': {
        const { table, bytes } = request
        writer.batch(new Uint8Array(table.buffer, table.byteOffset, table.byteLength), bytes)
        break
      }
      case 'era':
        this.#report({ kind: 'wrote', generation, ...writer.era(request.content, Date.now()) })
        break
      case 'reset':
        this.#generation = request.generation
        writer.reset()
        this.#isBroken = false
        this.#opened([])
    }
  }

  #opened(eras: readonly EraPlace[]): void {
    const { run, bytes } = this.#writer
    this.#report({ kind: 'opened', generation: this.#generation, run, eras, bytes })
  }
}
