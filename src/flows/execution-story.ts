// Turns block-level events and analyses, told in order, into frames of the event log, and keeps
// what REST and JSON-RPC may ask. Thread: main. Called by flows/execution.ts only.
// Order per block: at BlockStart TPS then Lifecycle; at BlockEnd TopAccesses then ContentionData.
import { Block } from '../analysis/block.ts'
import { BlockShelf } from '../analysis/block-shelf.ts'
import type { ControlEvent } from '../analysis/control.ts'
import { Lifecycle } from '../analysis/lifecycle.ts'
import type { LifecycleMove, LifecycleRecord } from '../analysis/lifecycle-record.ts'
import { Tps } from '../analysis/tps.ts'
import {
  blockEnd,
  blockFinalized,
  blockQc,
  blockStart,
  blockVerified,
} from '../evm/event-payload.ts'
import { EventType } from '../evm/event-type.ts'
import { hexOf } from '../evm/hex.ts'
import { readU64, readU256 } from '../evm/words.ts'
import type { FrameFacts, FrameKind } from '../stream/encoded.ts'
import type { JobOutcome } from './block-jobs.ts'

/** The part of stream/log.ts that is written here. */
export interface FrameLog {
  append(kind: FrameKind, payload: Uint8Array, sinceMs?: number, facts?: FrameFacts | null): number
}

export type BlockPlace = number | 'latest' | 'safe' | 'finalized' | 'earliest'

/** Before the first block: the embedded generator's. Row "POST /" in DESIGN.md. */
const chainIdDefault = 20_143n

interface OpenBlock {
  readonly id: string
  readonly number: number
  readonly startSeqno: number
  readonly timeNs: bigint
  readonly start: Uint8Array
  /** Something was lost since its start: the next BlockEnd may be another block's. */
  isTorn: boolean
}

export class ExecutionStory {
  readonly #log: FrameLog
  readonly #tps = new Tps()
  readonly #lifecycle = new Lifecycle()
  readonly #shelf = new BlockShelf()
  #open: OpenBlock | null = null
  #latestBlock = 0
  #chainId = chainIdDefault

  constructor(log: FrameLog) {
    this.#log = log
  }

  get latestBlock(): number {
    return this.#latestBlock
  }

  get chainId(): bigint {
    return this.#chainId
  }

  start(event: ControlEvent): void {
    this.abandon()
    const start = event.payload
    const id = hexOf(start, blockStart.id, 32)
    const number = readU64(start, blockStart.blockNumber)
    const { seqno: startSeqno, timeNs } = event
    this.#open = { id, number, startSeqno, timeNs, start, isTorn: false }
    this.#chainId = readU256(start, blockStart.chainId)
    const facts = { blockNumber: number, atNs: timeNs }
    this.#append('TPS', this.#tps.start(number), event.readAtMs, facts)
    const txnCount = readU64(start, blockStart.txnCount)
    this.#tell(this.#lifecycle.propose({ id, number, startSeqno, timeNs, txnCount }), event)
  }

  /** `outcome` is null for a block that was not seen whole: its Gap is told already. */
  end(event: ControlEvent, outcome: JobOutcome | null): void {
    const open = this.#open
    if (open === null || (open.isTorn && open.startSeqno !== event.blockSeqno)) {
      this.abandon()
      return
    }
    this.#open = null
    this.#latestBlock = open.number
    this.#tps.complete(outcome === null ? 0 : event.txnCount)
    const ethHash = hexOf(event.payload, blockEnd.ethHash, 32)
    const gasUsed = readU64(event.payload, blockEnd.gasUsed)
    this.#lifecycle.execute(open.id, { ethHash, gasUsed, timeNs: event.timeNs })
    if (outcome === null) return
    if (outcome.outcome === 'lost') {
      this.gap(event.firstSeqno, event.seqno, event.readAtMs)
      return
    }
    const { texts } = this.#shelf
    this.#shelf.add(new Block(open.start, event.payload, outcome.transactions, texts))
    const facts = { blockNumber: open.number, atNs: event.timeNs }
    const { id: blockHash, timeNs: startedNs } = open
    const block = { blockHash, ethHash, txCount: event.txnCount, gasUsed, startedNs }
    this.#log.append('TopAccesses', outcome.top, event.readAtMs, facts)
    this.#log.append('ContentionData', outcome.contention, event.readAtMs, { ...facts, block })
  }

  /** QC, finalized, verified and reject, as they come. */
  stage(event: ControlEvent): void {
    const { type, payload, timeNs } = event
    if (type === EventType.BlockQc)
      this.#tell(this.#lifecycle.vote(hexOf(payload, blockQc.id, 32), timeNs), event)
    else if (type === EventType.BlockFinalized)
      this.#tell(this.#lifecycle.finalize(hexOf(payload, blockFinalized.id, 32), timeNs), event)
    else if (type === EventType.BlockVerified)
      this.#tell(this.#lifecycle.verify(readU64(payload, blockVerified.blockNumber), timeNs), event)
    else if (type === EventType.BlockReject) {
      // A rejected block does not end; it is no completed block either.
      this.#open = null
      this.#tell(this.#lifecycle.reject(event.blockSeqno, timeNs), event)
    }
  }

  /** The open block's end was not seen, and will not be: it counts as missing. */
  abandon(): void {
    if (this.#open !== null) this.#tps.complete(0)
    this.#open = null
  }

  /** Source sequence numbers that are lost, both included. */
  gap(from: number, to: number, sinceMs: number): void {
    if (this.#open !== null) this.#open.isTorn = true
    this.#append('Gap', { from, to }, sinceMs)
  }

  lifecycles(): LifecycleRecord[] {
    return this.#lifecycle.records()
  }

  lifecycle(number: number): LifecycleRecord | null {
    return this.#lifecycle.record(number)
  }

  block(which: BlockPlace): Block | null {
    if (typeof which === 'number') return this.#numbered(which)
    if (which === 'latest') return this.#shelf.last()
    if (which === 'earliest') return this.#shelf.earliest()
    const stages = which === 'safe' ? ['Voted', 'Finalized', 'Verified'] : ['Finalized', 'Verified']
    return this.#shelf.newest((block) => {
      const stage = this.#lifecycle.stageOf(block.blockHash)
      return stage !== null && stages.includes(stage)
    })
  }

  #numbered(number: number): Block | null {
    const chosen = this.#lifecycle.idOf(number)
    const known = chosen === null ? null : this.#shelf.get(chosen)
    return known ?? this.#shelf.ofNumber(number)[0] ?? null
  }

  #tell(moves: readonly LifecycleMove[], event: ControlEvent): void {
    for (const move of moves) {
      const facts = { blockNumber: move.block_number, atNs: event.timeNs }
      this.#append('Lifecycle', move, event.readAtMs, facts)
    }
  }

  #append(
    kind: FrameKind,
    payload: unknown,
    sinceMs: number,
    facts: FrameFacts | null = null,
  ): void {
    this.#log.append(kind, Buffer.from(JSON.stringify(payload)), sinceMs, facts)
  }
}
