// Writes the events of one generated proposal up to the current time.
// Thread: source worker. Mimics the engine: a window of transactions executes concurrently, results
// are recorded in block order but two may interleave, times occasionally step back, and system
// accounts are touched before the first and after the last transaction.
import {
  AccessContext,
  accountAccess,
  accountAccessListHeader,
  blockEnd,
  blockReject,
  storageAccess,
  txnReject,
} from '../../../chain/evm/event-payload.ts'
import { EventType } from '../../../chain/evm/event-type.ts'
import { writeU32, writeU64 } from '../../../chain/evm/words.ts'
import { writeBlockStart } from './block-header.ts'
import type { EventWriter } from './event-writer.ts'
import type { Proposal } from './proposal.ts'
import { Random, writeDigest } from './random.ts'
import type { TrafficPlan } from './traffic-plan.ts'
import { TxnEvents } from './txn-events.ts'

/** Transactions that execute concurrently. */
const windowTxns = 128
/** From BlockStart to the first transaction, ns. */
const prologueNs = 1_110_000
const epilogueNs = 60_000
/** Chance that a transaction starts recording before the previous one has finished. */
const interleaveChance = 0.0015
const swapChance = 0.02
const historySlots = 8191

export class BlockEvents {
  readonly #traffic: TrafficPlan
  readonly #random = new Random()
  #first: TxnEvents
  #second: TxnEvents
  #proposal: Proposal | null = null
  #stage: 'start' | 'body' | 'end' | 'done' = 'done'
  #entered = 0
  #begun = 0
  #finished = 0
  #gasUsed = 0

  constructor(traffic: TrafficPlan) {
    this.#traffic = traffic
    this.#first = new TxnEvents(traffic)
    this.#second = new TxnEvents(traffic)
  }

  begin(proposal: Proposal): void {
    this.#proposal = proposal
    this.#random.seed(proposal.word, 0x5eed, proposal.variant)
    this.#stage = 'start'
    this.#entered = 0
    this.#begun = 0
    this.#finished = 0
    this.#gasUsed = 0
  }

  /** Writes every event that is due; true when the block is complete. */
  emitUntil(writer: EventWriter, timeNs: number): boolean {
    const proposal = this.#proposal
    if (proposal === null) return true
    if (this.#stage === 'start') {
      this.#start(writer, proposal)
      this.#stage = 'body'
    }
    while (this.#stage === 'body' && this.#commitNs(proposal) <= timeNs) {
      if (this.#finished === proposal.recordedTxns) this.#stage = 'end'
      else this.#step(writer, proposal)
    }
    if (this.#stage === 'end' && proposal.wallNs <= timeNs) {
      if (proposal.isRejected) this.#reject(writer, proposal)
      else this.#end(writer, proposal)
      this.#stage = 'done'
      this.#proposal = null
    }
    return this.#stage === 'done'
  }

  /** When the next result is recorded. */
  #commitNs(proposal: Proposal): number {
    const body = proposal.wallNs - prologueNs - epilogueNs
    return prologueNs + body * Math.min(1, (this.#finished + 1) / (proposal.txnCount + 1))
  }

  #start(writer: EventWriter, proposal: Proposal): void {
    writer.blockSeqno = writer.nextSeqno
    writer.txn = 0
    writer.account = 0
    writer.timeNs = 0
    writeBlockStart(writer, this.#traffic, proposal)
    writer.timeNs = prologueNs - 4000
    writer.emit(EventType.BlockPerfEvmEnter, 0)
    this.#systemAccess(writer, proposal, AccessContext.Prologue)
  }

  /** Writes one event, or a transaction's entry when the window is not full. */
  #step(writer: EventWriter, proposal: Proposal): void {
    const open = Math.min(proposal.txnCount, this.#finished + windowTxns)
    if (this.#entered < open) {
      this.#enter(writer, proposal, open)
      return
    }
    if (this.#first.isDone) this.#beginTxn(writer, proposal, this.#first)
    else if (
      this.#second.isDone &&
      this.#first.isTail &&
      this.#begun < proposal.recordedTxns &&
      this.#random.chance(interleaveChance)
    )
      this.#beginTxn(writer, proposal, this.#second)
    const other = !this.#second.isDone && this.#random.chance(0.5)
    const txn = other ? this.#second : this.#first
    txn.emitNext(writer)
    if (!txn.isDone) return
    this.#finished += 1
    this.#gasUsed += txn.plan.gasUsed
    if (!other && !this.#second.isDone) {
      const done = this.#first
      this.#first = this.#second
      this.#second = done
    }
  }

  #enter(writer: EventWriter, proposal: Proposal, open: number): void {
    const next = this.#entered
    // Threads race: occasionally the later of two transactions enters first.
    const isSwapped = next + 1 < open && this.#random.chance(swapChance)
    writer.timeNs = next < windowTxns ? prologueNs + next * 3000 : this.#commitNs(proposal)
    this.#mark(writer, EventType.TxnPerfEvmEnter, isSwapped ? next + 1 : next)
    if (isSwapped) {
      writer.timeNs -= 500
      this.#mark(writer, EventType.TxnPerfEvmEnter, next)
    }
    this.#entered += isSwapped ? 2 : 1
  }

  #beginTxn(writer: EventWriter, proposal: Proposal, txn: TxnEvents): void {
    const index = this.#begun
    this.#begun += 1
    const commitNs = this.#commitNs(proposal)
    writer.timeNs = commitNs - this.#random.below(20_000)
    this.#mark(writer, EventType.TxnPerfEvmExit, index)
    txn.begin(proposal, index, Math.max(commitNs, writer.timeNs) + 400)
  }

  #mark(writer: EventWriter, type: number, txn: number): void {
    writer.txn = txn + 1
    writer.account = 0
    writer.emit(type, 0)
  }

  #end(writer: EventWriter, proposal: Proposal): void {
    writer.txn = 0
    writer.account = 0
    writer.timeNs = proposal.wallNs - 40_000
    this.#systemAccess(writer, proposal, AccessContext.Epilogue)
    writer.timeNs = proposal.wallNs - 2000
    writer.emit(EventType.BlockPerfEvmExit, 0)
    writer.timeNs = proposal.wallNs
    const payload = writer.begin(blockEnd.size)
    payload.set(proposal.ethHash, blockEnd.ethHash)
    const { word, variant } = proposal
    writeDigest(payload, { at: blockEnd.stateRoot, length: 64 }, word, variant, 1, 1)
    for (let bit = 0; bit < Math.min(400, proposal.txnCount * 3); bit++) {
      const offset = blockEnd.logsBloom + this.#random.below(blockEnd.logsBloomBytes)
      payload[offset] = payload[offset]! | (1 << this.#random.below(8))
    }
    writeU64(payload, blockEnd.gasUsed, this.#gasUsed)
    writer.emit(EventType.BlockEnd, blockEnd.size)
    writer.blockSeqno = 0
  }

  /** A transaction that fails validation makes the whole proposal invalid. */
  #reject(writer: EventWriter, proposal: Proposal): void {
    writer.txn = proposal.recordedTxns + 1
    writer.account = 0
    writer.timeNs = proposal.wallNs - 2000
    writeU32(writer.begin(txnReject.size), txnReject.reason, 4)
    writer.emit(EventType.TxnReject, txnReject.size)
    writer.txn = 0
    writer.timeNs = proposal.wallNs
    writeU32(writer.begin(blockReject.size), blockReject.reason, 2)
    writer.emit(EventType.BlockReject, blockReject.size)
    writer.blockSeqno = 0
  }

  /** Prologue: the history of block hashes. Epilogue: the ledger of rewards. */
  #systemAccess(writer: EventWriter, proposal: Proposal, context: number): void {
    const list = writer.begin(accountAccessListHeader.size)
    writeU32(list, accountAccessListHeader.count, 1)
    list[accountAccessListHeader.context] = context
    writer.emit(EventType.AccountAccessListHeader, accountAccessListHeader.size)
    const account = writer.begin(accountAccess.size)
    this.#systemAddress(account, accountAccess.address, context)
    account[accountAccess.context] = context
    writeU32(account, accountAccess.storageKeyCount, 1)
    writer.timeNs += 200
    writer.emit(EventType.AccountAccess, accountAccess.size)
    const slot = writer.begin(storageAccess.size)
    this.#systemAddress(slot, storageAccess.address, context)
    slot[storageAccess.context] = context
    slot[storageAccess.isModified] = 1
    const key = proposal.number % historySlots
    slot[storageAccess.key + 30] = key >>> 8
    slot[storageAccess.key + 31] = key
    slot.set(proposal.parentHash, storageAccess.endValue)
    writer.timeNs += 200
    writer.emit(EventType.StorageAccess, storageAccess.size)
  }

  #systemAddress(bytes: Uint8Array, at: number, context: number): void {
    bytes[at + 18] = 0x10
    bytes[at + 19] = context
  }
}
