// Projects block-level events and analysis results, in order, into frames of the event log, and
// keeps the blocks and lifecycles that REST and JSON-RPC return.
// Order per block: at BlockStart TPS then Lifecycle; at BlockEnd TopAccesses then ContentionData.
import type { FrameFacts } from '../../base/shared-log.ts'
import {
  blockEnd,
  blockFinalized,
  blockQc,
  blockStart,
  blockVerified,
  EventType,
} from '../../chain/evm/event-payload.ts'
import { hexOf } from '../../chain/evm/hex.ts'
import { readU64, readU256 } from '../../chain/evm/words.ts'
import type { JobOutcome } from '../analysis/block-jobs.ts'
import type { LifecycleMove, LifecycleRecord } from '../analysis/block-stages.ts'
import { BlockStages, Tps, wallMs } from '../analysis/block-stages.ts'
import { BlockCache, ExecutedBlock } from '../analysis/executed-block.ts'
import type { ControlEvent } from '../analysis/feed.ts'
import type { FrameKind } from '../log/encoded.ts'

/** The subset of log/log.ts that the projector writes to. */
export interface FrameLog {
  /** The frame's number; 0 when it was dropped because none could be had. */
  append(kind: FrameKind, payload: Uint8Array, sinceMs?: number, facts?: FrameFacts | null): number
}

export type BlockRef = number | 'latest' | 'safe' | 'finalized' | 'earliest'

/** Used before the first block: the embedded generator's. */
const chainIdDefault = 20_143n

interface OpenBlock {
  readonly id: string
  readonly number: number
  readonly startSeqno: number
  readonly timeNs: bigint
  readonly start: Uint8Array
  /** Events were lost since its start: the next BlockEnd may belong to another block. */
  isTorn: boolean
}

/** Source sequence numbers, both included. */
interface Range {
  readonly from: number
  readonly to: number
}

/** Payload of a Gap frame; field names are wire names. */
interface GapPayload extends Range {
  /** Time of the last block-level event before the loss was noticed; absent before the first. */
  readonly at_ms?: number
}

export class ExecutionProjector {
  readonly #log: FrameLog
  readonly #tps = new Tps()
  readonly #lifecycle = new BlockStages()
  readonly #cache = new BlockCache()
  /** Source sequence numbers of frames that the log dropped: sent as a Gap when it resumes. */
  #dropped: GapPayload | null = null
  #open: OpenBlock | null = null
  latestBlock = 0
  chainId = chainIdDefault
  /** Time of the last block-level event by the source's clock; null before the first. */
  #lastNs: bigint | null = null

  constructor(log: FrameLog) {
    this.#log = log
  }

  start(event: ControlEvent): void {
    this.#lastNs = event.timeNs
    this.abandon()
    const start = event.payload
    const id = hexOf(start, blockStart.id, 32)
    const number = readU64(start, blockStart.blockNumber)
    const { seqno: startSeqno, timeNs } = event
    this.#open = { id, number, startSeqno, timeNs, start, isTorn: false }
    this.chainId = readU256(start, blockStart.chainId)
    const facts = { blockNumber: number, atNs: timeNs, key: id }
    this.#append('TPS', jsonOf(this.#tps.start(number)), event, facts)
    const txnCount = readU64(start, blockStart.txnCount)
    this.#appendMoves(this.#lifecycle.propose({ id, number, startSeqno, timeNs, txnCount }), event)
  }

  /** `outcome` is null for a block that was not seen whole: its Gap was already appended. */
  end(event: ControlEvent, outcome: JobOutcome | null): void {
    this.#lastNs = event.timeNs
    const open = this.#open
    if (open === null || (open.isTorn && open.startSeqno !== event.blockSeqno)) {
      this.abandon()
      return
    }
    this.#open = null
    this.latestBlock = open.number
    this.#tps.complete(outcome === null ? 0 : event.txnCount)
    const ethHash = hexOf(event.payload, blockEnd.ethHash, 32)
    const gasUsed = readU64(event.payload, blockEnd.gasUsed)
    this.#lifecycle.execute(open.id, { ethHash, gasUsed, timeNs: event.timeNs })
    if (outcome === null) return
    if (outcome.outcome === 'lost')
      return void this.gap(event.firstSeqno, event.seqno, event.readAtMs)
    const { texts } = this.#cache
    this.#cache.add(new ExecutedBlock(open.start, event.payload, outcome.transactions, texts))
    const facts = { blockNumber: open.number, atNs: event.timeNs, key: open.id }
    const { id: blockHash, timeNs: startedNs } = open
    const block = { blockHash, ethHash, txCount: event.txnCount, gasUsed, startedNs }
    const { firstSeqno: from, seqno: to, readAtMs } = event
    this.#put('TopAccesses', outcome.top, readAtMs, { from, to }, facts)
    // In front, what only the projector knows.
    const head = Buffer.from(`{"block_hash":"${blockHash}","at_ms":${wallMs(event.timeNs)},`)
    const contention = Buffer.concat([head, outcome.contention.subarray(1)])
    this.#put('ContentionData', contention, readAtMs, { from, to }, { ...facts, block })
  }

  /** Handles QC, finalized, verified and reject events. */
  stage(event: ControlEvent): void {
    const { type, payload, timeNs } = event
    this.#lastNs = timeNs
    let moves: readonly LifecycleMove[] = []
    if (type === EventType.BlockQc)
      moves = this.#lifecycle.vote(hexOf(payload, blockQc.id, 32), timeNs)
    else if (type === EventType.BlockFinalized)
      moves = this.#lifecycle.finalize(hexOf(payload, blockFinalized.id, 32), timeNs)
    else if (type === EventType.BlockVerified)
      moves = this.#lifecycle.verify(readU64(payload, blockVerified.blockNumber), timeNs)
    else if (type === EventType.BlockReject) {
      // A rejected block has no BlockEnd and does not count as completed.
      this.#open = null
      moves = this.#lifecycle.reject(event.blockSeqno, timeNs)
    }
    this.#appendMoves(moves, event)
  }

  /** The open block's BlockEnd was lost: the block counts as missing. False without one. */
  abandon(): boolean {
    const wasOpen = this.#open !== null
    if (wasOpen) this.#tps.complete(0)
    this.#open = null
    return wasOpen
  }

  /** Appends a Gap for lost source sequence numbers, both ends included. */
  gap(from: number, to: number, sinceMs: number): void {
    if (this.#open !== null) this.#open.isTorn = true
    this.#put('Gap', jsonOf(this.#gapOf({ from, to })), sinceMs, { from, to })
  }

  lifecycles(): LifecycleRecord[] {
    return this.#lifecycle.records()
  }

  lifecycle(number: number): LifecycleRecord | null {
    return this.#lifecycle.record(number)
  }

  block(which: BlockRef): ExecutedBlock | null {
    if (typeof which === 'number') return this.#numbered(which)
    if (which === 'latest') return this.#cache.last
    if (which === 'earliest') return this.#cache.earliest()
    const stages = which === 'safe' ? ['Voted', 'Finalized', 'Verified'] : ['Finalized', 'Verified']
    return this.#cache.newest((block) => {
      const stage = this.#lifecycle.stageOf(block.blockHash)
      return stage !== null && stages.includes(stage)
    })
  }

  #numbered(number: number): ExecutedBlock | null {
    const chosen = this.#lifecycle.idOf(number)
    const known = chosen === null ? null : this.#cache.get(chosen)
    return known ?? this.#cache.ofNumber(number)[0] ?? null
  }

  #appendMoves(moves: readonly LifecycleMove[], event: ControlEvent): void {
    for (const move of moves) {
      const key = `${move.block_hash}/${move.to_stage}`
      const facts = { blockNumber: move.block_number, atNs: event.timeNs, key }
      this.#append('Lifecycle', jsonOf(move), event, facts)
    }
  }

  #append(kind: FrameKind, payload: Uint8Array, event: ControlEvent, facts: FrameFacts): void {
    const { seqno, readAtMs } = event
    this.#put(kind, payload, readAtMs, { from: seqno, to: seqno }, facts)
  }

  #put(
    kind: FrameKind,
    payload: Uint8Array,
    sinceMs: number,
    range: Range,
    facts: FrameFacts | null = null,
  ): void {
    if (this.#dropped !== null && this.#log.append('Gap', jsonOf(this.#dropped), sinceMs) !== 0)
      this.#dropped = null
    if (this.#dropped === null && this.#log.append(kind, payload, sinceMs, facts) !== 0) return
    const { from, to } = this.#dropped ?? range
    const lost = { from: Math.min(from, range.from), to: Math.max(to, range.to) }
    this.#dropped = this.#gapOf(lost)
  }

  #gapOf(range: Range): GapPayload {
    return this.#lastNs === null ? range : { ...range, at_ms: wallMs(this.#lastNs) }
  }
}

function jsonOf(payload: unknown): Buffer {
  return Buffer.from(JSON.stringify(payload))
}
