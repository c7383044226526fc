// Source of event frames: reads the event log by a cursor. Thread: main.
// The log is the queue: frames that it evicts before they were read are lost, and counted.
import type { EventLog } from '../../../stream/log.ts'
import type { CounterChild } from '../../../telemetry/meters.ts'
import type { Parcel, Source } from './source.ts'

/** Approximate overhead of an event in addition to its payload. */
const overheadBytes = 200

export class EventSource implements Source {
  readonly #log: EventLog
  readonly #lost: CounterChild
  #cursor: number

  /** Starts with the oldest frame of the log. */
  constructor(log: EventLog, lost: CounterChild) {
    this.#log = log
    this.#lost = lost
    this.#cursor = log.oldestSeq === 0 ? log.position : log.oldestSeq - 1
  }

  next(): Parcel | null {
    const oldest = this.#log.oldestSeq
    if (oldest > this.#cursor + 1) {
      this.#lost.inc(oldest - this.#cursor - 1)
      this.#cursor = oldest - 1
    }
    const frame = this.#log.at(this.#cursor + 1)
    if (frame === null) return null
    this.#cursor = frame.seq
    const { seq, kind, payload, facts, sinceMs } = frame
    const bytes = payload.length + overheadBytes
    return { feed: 'events', content: { seq, kind, payload, facts }, bytes, sinceMs, mark: seq }
  }

  waitingSinceMs(): number | null {
    const next = Math.max(this.#cursor + 1, this.#log.oldestSeq)
    return this.#log.at(next)?.sinceMs ?? null
  }
}
