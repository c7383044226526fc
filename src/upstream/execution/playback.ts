// Delivers the events of one pass over a recording to a sink, one call each. Thread: source worker.
// Synchronous and separate from the pacing in snapshot.ts: this is the inner loop of a replay at
// full speed, and an asynchronous loop is several times slower.
import { isWellFormed, txnHeaderStart } from '../../chain/evm/event-payload.ts'
import { descriptor } from '../../chain/evm/event-ring.ts'
import { EventType, eventTypeMax } from '../../chain/evm/event-type.ts'
import { readU16, readU64 } from '../../chain/evm/words.ts'
import type { ExecutionSink } from '../ports.ts'
import { mixPass, type Passes, rewritePayload, rewrites, Shift } from './passes.ts'
import type { Recording } from './recording.ts'

const wordsPerEvent = descriptor.bytes / 4
const typeWord = descriptor.type / 4
const sizeWord = descriptor.payloadSize / 4
const offsetWord = descriptor.payloadOffset / 4
const two32 = 0x1_0000_0000
const empty = new Uint8Array(0)

export class Playback {
  readonly shift: Shift
  readonly #sink: ExecutionSink
  readonly #recording: Recording
  readonly #passes: Passes
  readonly #pass: number
  readonly #recorded: Uint32Array
  readonly #words = new Uint32Array(wordsPerEvent)
  readonly #bytes = new Uint8Array(this.#words.buffer)
  /** 1 for types whose payload the sink ignores. */
  readonly #ignored: Uint8Array

  constructor(sink: ExecutionSink, recording: Recording, passes: Passes, pass: number) {
    const { descriptors } = recording
    this.shift = new Shift(passes, pass)
    this.#sink = sink
    this.#recording = recording
    this.#passes = passes
    this.#pass = pass
    this.#recorded = new Uint32Array(
      descriptors.buffer,
      descriptors.byteOffset,
      descriptors.length / 4,
    )
    this.#ignored = Uint8Array.from({ length: eventTypeMax + 1 }, (_, type) =>
      type !== EventType.RecordError && sink.ignores?.(type) === true ? 1 : 0,
    )
  }

  /** The descriptor as recorded; the bytes are valid until the next call only. */
  look(index: number): Uint8Array {
    this.#load(index)
    return this.#bytes
  }

  typeOf(index: number): number {
    return this.#recorded[index * wordsPerEvent + typeWord]! & 0xffff
  }

  /** Delivers the events from `from` up to, but not including, `to`. */
  play(from: number, to: number): void {
    for (let index = from; index < to; index++) this.#one(index)
  }

  #one(index: number): void {
    const words = this.#words
    const recorded = this.#recorded
    const type = this.typeOf(index)
    if (this.#ignored[type] === 1) {
      for (let word = 0; word <= sizeWord; word++)
        words[word] = recorded[index * wordsPerEvent + word]!
      this.shift.applySeqno(words)
      this.#sink.event(this.#bytes, empty, 0, 0)
      return
    }
    this.#load(index)
    const size = words[sizeWord]!
    const { payloads, startOf } = this.#recording
    const from = startOf(words[offsetWord]! + words[offsetWord + 1]! * two32)
    this.shift.apply(words)
    const isRewritten = this.#pass > 0 && rewrites[type] === 1
    const isHeader = type === EventType.TxnHeaderStart
    if ((!isRewritten || isHeader) && from + size <= payloads.length) {
      // Headers are many and long: rewritten in place and back again, not in a copy.
      if (isHeader) mixPass(payloads, from + txnHeaderStart.hash, this.#pass)
      deliver(this.#sink, this.#bytes, payloads, from, size)
      if (isHeader) mixPass(payloads, from + txnHeaderStart.hash, this.#pass)
      return
    }
    const payload = this.#recording.payloadOf(index)
    // One that is too short has nothing to rewrite; it becomes a gap.
    const isWhole = isRewritten && isWellFormed(type, payload)
    const own = isWhole ? rewritePayload(payload, type, this.#passes, this.#pass) : payload
    deliver(this.#sink, this.#bytes, own)
  }

  #load(index: number): void {
    const at = index * wordsPerEvent
    const words = this.#words
    const recorded = this.#recorded
    for (let word = 0; word < wordsPerEvent; word++) words[word] = recorded[at + word]!
  }
}

// Validates an event before it enters the execution pipeline.
// An event that the writer could not record, or whose layout does not match its type, is reported
// as a gap: a block with a missing event is never analysed as if it were whole.

export function deliver(
  sink: ExecutionSink,
  bytes: Uint8Array,
  payload: Uint8Array,
  at = 0,
  length = payload.length,
): void {
  const type = readU16(bytes, descriptor.type)
  if (type !== EventType.RecordError && isWellFormed(type, payload, at, length)) {
    sink.event(bytes, payload, at, length)
    return
  }
  const seqno = readU64(bytes, descriptor.seqno)
  sink.gap(seqno, seqno)
}
