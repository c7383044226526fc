// Delivers the events of one pass over a recording to a sink, one call each. Thread: source worker.
// Synchronous and separate from the pacing in snapshot.ts: this is the inner loop of a replay at
// full speed, and an asynchronous loop is several times slower.
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { type Clock, systemClock } from '../../base/clock.ts'
import {
  blockEnd,
  blockFinalized,
  blockQc,
  blockStart,
  blockVerified,
  EventType,
  eventTypeMax,
  isWellFormed,
  txnHeaderStart,
} from '../../chain/evm/event-payload.ts'
import { descriptor, payloadAlignBytes } from '../../chain/evm/event-ring.ts'
import {
  readU16,
  readU32,
  readU64,
  readU64Exact,
  writeU32,
  writeU64,
  writeU64Exact,
} from '../../chain/evm/words.ts'
import type { ExecutionSink } from '../ports.ts'
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

// Rewrites a recording's events for its second and later passes, so that each continues the last.
// Thread: source worker. Block numbers, sequence numbers and times increase; the pass is mixed into
// ids and hashes, so that every proposal and transaction is a new one and parents still link.

/** Offsets that pass n adds n times. */
export interface Passes {
  readonly events: number
  readonly blocks: number
  readonly rounds: number
  readonly payloadBytes: number
  /** The earliest time, as a u64 in bytes. */
  readonly firstNs: Uint8Array
  readonly spanNs: bigint
  readonly seconds: number
  readonly firstBlock: number
  /** The last block's hash: the parent of the first block of the next pass. */
  readonly lastHash: Uint8Array
}

export function passesOf(recording: Recording, blockMs: number): Passes {
  const range = { first: Number.POSITIVE_INFINITY, last: 0, firstRound: 0, lastRound: 0 }
  const seconds = { first: 0, last: 0 }
  let [firstNs, lastNs, payloadEnd] = [0n, 0n, 0]
  let lastHash = new Uint8Array(32)
  for (let index = 0; index < recording.count; index++) {
    const at = index * descriptor.bytes
    const type = readU16(recording.descriptors, at + descriptor.type)
    const timeNs = readU64Exact(recording.descriptors, at + descriptor.timeNs)
    if (index === 0 || timeNs < firstNs) firstNs = timeNs
    if (timeNs > lastNs) lastNs = timeNs
    payloadEnd =
      readU64(recording.descriptors, at + descriptor.payloadOffset) +
      readU32(recording.descriptors, at + descriptor.payloadSize)
    if (type === EventType.BlockEnd) lastHash = recording.payloadOf(index).slice(0, 32)
    if (type !== EventType.BlockStart) continue
    const payload = recording.payloadOf(index)
    const number = readU64(payload, blockStart.blockNumber)
    if (range.last === 0) {
      range.firstRound = readU64(payload, blockStart.round)
      seconds.first = readU64(payload, blockStart.timestamp)
    }
    range.first = Math.min(range.first, number)
    range.last = Math.max(range.last, number)
    range.lastRound = Math.max(range.lastRound, readU64(payload, blockStart.round))
    seconds.last = Math.max(seconds.last, readU64(payload, blockStart.timestamp))
  }
  const hasBlocks = range.last > 0
  const firstTime = new Uint8Array(8)
  writeU64Exact(firstTime, 0, firstNs)
  return {
    events: recording.count,
    blocks: hasBlocks ? range.last - range.first + 1 : 0,
    rounds: range.lastRound - range.firstRound + 1,
    payloadBytes: Math.ceil(payloadEnd / payloadAlignBytes) * payloadAlignBytes,
    firstNs: firstTime,
    spanNs: lastNs - firstNs + BigInt(blockMs) * 1_000_000n,
    seconds: seconds.last - seconds.first + Math.ceil(blockMs / 1000),
    firstBlock: hasBlocks ? range.first : 0,
    lastHash,
  }
}

/** Offsets of one pass for descriptors, in 32-bit halves: computed once, added per event. */
class Shift {
  readonly #seqnoLow: number
  readonly #seqnoHigh: number
  readonly #offsetLow: number
  readonly #offsetHigh: number
  #timeLow = 0
  #timeHigh = 0

  constructor(passes: Passes, pass: number) {
    this.#seqnoLow = (passes.events * pass) % two32
    this.#seqnoHigh = Math.floor((passes.events * pass) / two32)
    this.#offsetLow = (passes.payloadBytes * pass) % two32
    this.#offsetHigh = Math.floor((passes.payloadBytes * pass) / two32)
    this.setTime(passes.spanNs * BigInt(pass))
  }

  /** May be negative: it is added modulo 2^64. */
  setTime(shiftNs: bigint): void {
    const bits = BigInt.asUintN(64, shiftNs)
    this.#timeLow = Number(bits & 0xffff_ffffn)
    this.#timeHigh = Number(bits >> 32n)
  }

  /** `words` is a descriptor as sixteen little-endian words. */
  apply(words: Uint32Array): void {
    this.applySeqno(words)
    add(words, descriptor.payloadOffset / 4, this.#offsetLow, this.#offsetHigh)
    add(words, descriptor.timeNs / 4, this.#timeLow, this.#timeHigh)
    const block = descriptor.blockSeqno / 4
    // Outside a block the tag stays 0.
    if (words[block] !== 0 || words[block + 1] !== 0)
      add(words, block, this.#seqnoLow, this.#seqnoHigh)
  }

  applySeqno(words: Uint32Array): void {
    add(words, descriptor.seqno / 4, this.#seqnoLow, this.#seqnoHigh)
  }
}

/** 1 for the types that `rewritePayload` changes. */
const rewrites = new Uint8Array(eventTypeMax + 1)
for (const type of [
  EventType.BlockStart,
  EventType.BlockQc,
  EventType.BlockFinalized,
  EventType.BlockVerified,
  EventType.BlockEnd,
  EventType.TxnHeaderStart,
])
  rewrites[type] = 1

/** Adds modulo 2^64. */
function add(words: Uint32Array, at: number, low: number, high: number): void {
  const sum = words[at]! + low
  words[at] = sum
  words[at + 1] = words[at + 1]! + high + (sum >= two32 ? 1 : 0)
}

/** A copy with the pass's numbers where the event has some; otherwise the payload itself. */
function rewritePayload(
  payload: Uint8Array,
  type: number,
  passes: Passes,
  pass: number,
): Uint8Array {
  if (type === EventType.BlockStart) {
    const copy = payload.slice()
    const isFirst = readU64(copy, blockStart.blockNumber) === passes.firstBlock
    if (isFirst) copy.set(passes.lastHash, blockStart.parentHash)
    mixPass(copy, blockStart.parentHash, isFirst ? pass - 1 : pass)
    mixPass(copy, blockStart.id, pass)
    const timestamp = readU64(copy, blockStart.timestamp) + passes.seconds * pass
    writeU64(copy, blockStart.timestamp, timestamp)
    writeU64(copy, blockStart.round, readU64(copy, blockStart.round) + passes.rounds * pass)
    addBlocks(copy, blockStart.blockNumber, passes, pass)
    return addBlocks(copy, blockStart.number, passes, pass)
  }
  if (type === EventType.BlockQc) {
    const copy = mixPass(payload.slice(), blockQc.id, pass)
    writeU64(copy, blockQc.round, readU64(copy, blockQc.round) + passes.rounds * pass)
    return addBlocks(copy, blockQc.blockNumber, passes, pass)
  }
  if (type === EventType.BlockFinalized) {
    const copy = mixPass(payload.slice(), blockFinalized.id, pass)
    return addBlocks(copy, blockFinalized.blockNumber, passes, pass)
  }
  if (type === EventType.BlockVerified)
    return addBlocks(payload.slice(), blockVerified.blockNumber, passes, pass)
  if (type === EventType.BlockEnd) return mixPass(payload.slice(), blockEnd.ethHash, pass)
  if (type === EventType.TxnHeaderStart) return mixPass(payload.slice(), txnHeaderStart.hash, pass)
  return payload
}

function addBlocks(bytes: Uint8Array, at: number, passes: Passes, pass: number): Uint8Array {
  writeU64(bytes, at, readU64(bytes, at) + passes.blocks * pass)
  return bytes
}

/** Mixes the pass into the first bytes of a hash; pass 0 leaves it as it is. */
function mixPass(bytes: Uint8Array, at: number, pass: number): Uint8Array {
  writeU32(bytes, at, (readU32(bytes, at) ^ pass) >>> 0)
  return bytes
}

// Abortable waits on an injected clock, for execution sources. Thread: source worker.
// Sources never call timers themselves, so that a test can simulate days at once.

export interface Pacer {
  readonly clock: Clock
  /** True after `stop`; every wait then returns at once. */
  readonly isStopped: boolean
  /** Returns when `clock.monotonicMs()` has reached `ms`, or after `stop`. Always yields once. */
  until(ms: number): Promise<void>
  stop(): void
}

export class TimerPacer implements Pacer {
  readonly clock: Clock
  readonly #abort = new AbortController()

  constructor(clock: Clock = systemClock) {
    this.clock = clock
  }

  get isStopped(): boolean {
    return this.#abort.signal.aborted
  }

  async until(ms: number): Promise<void> {
    // Timers may fire slightly early: the remaining time is checked again.
    let left = ms - this.clock.monotonicMs()
    if (left <= 0) await nextTurn()
    while (left > 0 && !this.isStopped) {
      // `stop` aborts the sleep, which rejects it: expected.
      await sleep(left, undefined, { signal: this.#abort.signal }).catch(() => {})
      left = ms - this.clock.monotonicMs()
    }
  }

  stop(): void {
    this.#abort.abort()
  }
}
