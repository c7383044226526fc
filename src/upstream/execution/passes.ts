// Rewrites a recording's events for its second and later passes, so that each continues the last.
// Thread: source worker. Block numbers, sequence numbers and times increase; the pass is mixed into
// ids and hashes, so that every proposal and transaction is a new one and parents still link.
import {
  blockEnd,
  blockFinalized,
  blockQc,
  blockStart,
  blockVerified,
  txnHeaderStart,
} from '../../chain/evm/event-payload.ts'
import { descriptor, payloadAlignBytes } from '../../chain/evm/event-ring.ts'
import { EventType, eventTypeMax } from '../../chain/evm/event-type.ts'
import {
  readU16,
  readU32,
  readU64,
  readU64Exact,
  writeU32,
  writeU64,
  writeU64Exact,
} from '../../chain/evm/words.ts'
import type { Recording } from './recording.ts'

const two32 = 0x1_0000_0000

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
export class Shift {
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
export const rewrites = new Uint8Array(eventTypeMax + 1)
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
export function rewritePayload(
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
    writeU64(
      copy,
      blockStart.timestamp,
      readU64(copy, blockStart.timestamp) + passes.seconds * pass,
    )
    writeU64(copy, blockStart.round, readU64(copy, blockStart.round) + passes.rounds * pass)
    addBlocks(copy, blockStart.blockNumber, passes, pass)
    return addBlocks(copy, blockStart.number, passes, pass)
  }
  if (type === EventType.BlockQc) {
    const copy = mixPass(payload.slice(), blockQc.id, pass)
    writeU64(copy, blockQc.round, readU64(copy, blockQc.round) + passes.rounds * pass)
    return addBlocks(copy, blockQc.blockNumber, passes, pass)
  }
  if (type === EventType.BlockFinalized)
    return addBlocks(
      mixPass(payload.slice(), blockFinalized.id, pass),
      blockFinalized.blockNumber,
      passes,
      pass,
    )
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
export function mixPass(bytes: Uint8Array, at: number, pass: number): Uint8Array {
  writeU32(bytes, at, (readU32(bytes, at) ^ pass) >>> 0)
  return bytes
}
