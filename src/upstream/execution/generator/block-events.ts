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
  EventType,
  storageAccess,
  txnAccessListEntry,
  txnAuthListEntry,
  txnCallFrame,
  txnEvmOutput,
  txnHeaderStart,
  txnLog,
  txnReject,
} from '../../../chain/evm/event-payload.ts'
import { writeU32, writeU64, writeU256 } from '../../../chain/evm/words.ts'
import { type EventWriter, generatedChainId, writeBlockStart } from './event-writer.ts'
import { type Proposal, Random, type TrafficPlan, TxnPlan, writeDigest } from './traffic-plan.ts'

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

// Writes the events of one generated transaction, one at a time, so that two can interleave.
// Thread: source worker. The order within a transaction is the engine's: header, lists, output,
// logs, call frames, accounts with their storage, end.

const opcodeCall = 0xf1
const opcodeStaticCall = 0xfa
const opcodeDelegateCall = 0xf4
const gweiWei = 1e9

class TxnEvents {
  readonly plan = new TxnPlan()
  /** Nanoseconds since the block's start of this transaction's next event. */
  timeNs = 0
  readonly #traffic: TrafficPlan
  /** The events in their order: how many of a kind, and what writes one of them. */
  readonly #phases: readonly [count: () => number, write: (writer: EventWriter) => void][] = [
    [() => 1, (writer) => this.#header(writer)],
    [() => this.plan.accessListCount, (writer) => this.#accessListEntry(writer)],
    [() => this.plan.authListCount, (writer) => this.#authListEntry(writer)],
    [() => 1, (writer) => writer.emit(EventType.TxnHeaderEnd, 0)],
    [() => 1, (writer) => this.#output(writer)],
    [() => this.plan.logCount, (writer) => this.#log(writer)],
    [() => this.plan.callFrameCount, (writer) => this.#callFrame(writer)],
    [() => 1, (writer) => this.#accountList(writer)],
    [() => this.plan.accountCount, (writer) => this.#access(writer)],
    [() => 1, (writer) => writer.emit(EventType.TxnEnd, 0)],
  ]
  readonly #accountsPhase = this.#phases.length - 2
  #phase = this.#phases.length
  /** Index of the log, frame or account within the phase. */
  #step = 0
  /** Index of the account's storage slot; -1 before the account itself. */
  #slot = -1

  constructor(traffic: TrafficPlan) {
    this.#traffic = traffic
  }

  get isDone(): boolean {
    return this.#phase === this.#phases.length
  }

  /** True while only account accesses and the end are left: the next transaction may start. */
  get isTail(): boolean {
    return this.#phase >= this.#accountsPhase
  }

  begin(block: { word: number; beneficiary: number }, index: number, timeNs: number): void {
    this.#traffic.plan(this.plan, block, index)
    this.timeNs = timeNs
    this.#phase = 0
    this.#step = 0
    this.#slot = -1
  }

  /** Writes the next event. */
  emitNext(writer: EventWriter): void {
    const plan = this.plan
    writer.txn = plan.index + 1
    writer.account = 0
    writer.timeNs = this.timeNs
    this.timeNs += 40 + plan.random.below(300)
    while (this.#step >= this.#phases[this.#phase]![0]()) {
      this.#phase += 1
      this.#step = 0
    }
    // An account counts as a step only when all its slots are written.
    if (this.#phase !== this.#accountsPhase) this.#step += 1
    this.#phases[this.#phase]![1](writer)
    if (this.#phase === this.#phases.length - 1) this.#phase += 1
  }

  #header(writer: EventWriter): void {
    const { plan } = this
    const size = txnHeaderStart.size + plan.dataLength
    const payload = writer.begin(size)
    plan.random.fill(payload, txnHeaderStart.hash, 32)
    copyAddress(payload, txnHeaderStart.sender, plan, 0)
    payload[txnHeaderStart.type] = plan.type
    writeU256(payload, txnHeaderStart.chainId, generatedChainId)
    writeU64(payload, txnHeaderStart.nonce, plan.nonce)
    writeU64(payload, txnHeaderStart.gasLimit, plan.gasLimit)
    writeU256(payload, txnHeaderStart.maxFee, 100 * gweiWei)
    writeU256(payload, txnHeaderStart.maxPriorityFee, (1 + plan.random.below(5)) * gweiWei)
    writeU256(payload, txnHeaderStart.value, plan.isCall ? 0 : plan.random.word() * gweiWei)
    copyAddress(payload, txnHeaderStart.to, plan, 1)
    plan.random.fill(payload, txnHeaderStart.r, 32)
    plan.random.fill(payload, txnHeaderStart.s, 31)
    payload[txnHeaderStart.parity] = plan.random.below(2)
    writeU32(payload, txnHeaderStart.dataLength, plan.dataLength)
    writeU32(payload, txnHeaderStart.accessListCount, plan.accessListCount)
    writeU32(payload, txnHeaderStart.authListCount, plan.authListCount)
    fillArguments(payload, txnHeaderStart.size, plan.dataLength, plan)
    writer.emit(EventType.TxnHeaderStart, size)
  }

  #accessListEntry(writer: EventWriter): void {
    const { plan } = this
    const keys = 1 + plan.random.below(4)
    const size = txnAccessListEntry.size + keys * 32
    const payload = writer.begin(size)
    writeU32(payload, txnAccessListEntry.index, this.#step - 1)
    copyAddress(payload, txnAccessListEntry.address, plan, 1)
    writeU32(payload, txnAccessListEntry.keyCount, keys)
    for (let key = 0; key < keys; key++) payload[txnAccessListEntry.size + key * 32 + 31] = key
    writer.emit(EventType.TxnAccessListEntry, size)
  }

  #authListEntry(writer: EventWriter): void {
    const { plan } = this
    const payload = writer.begin(txnAuthListEntry.size)
    writeU32(payload, txnAuthListEntry.index, this.#step - 1)
    writeU256(payload, txnAuthListEntry.chainId, generatedChainId)
    copyAddress(payload, txnAuthListEntry.address, plan, 1)
    plan.random.fill(payload, txnAuthListEntry.r, 64)
    copyAddress(payload, txnAuthListEntry.authority, plan, 0)
    payload[txnAuthListEntry.isValid] = 1
    writer.emit(EventType.TxnAuthListEntry, txnAuthListEntry.size)
  }

  #output(writer: EventWriter): void {
    const { plan } = this
    const payload = writer.begin(txnEvmOutput.size)
    payload[txnEvmOutput.status] = plan.isSuccess ? 1 : 0
    writeU32(payload, txnEvmOutput.logCount, plan.logCount)
    writeU64(payload, txnEvmOutput.gasUsed, plan.gasUsed)
    writeU32(payload, txnEvmOutput.callFrameCount, plan.callFrameCount)
    writer.emit(EventType.TxnEvmOutput, txnEvmOutput.size)
  }

  #log(writer: EventWriter): void {
    const { plan } = this
    const topics = Math.min(4, 2 + plan.random.below(3))
    const dataLength = 32 * Math.min(120, Math.floor(plan.random.exponential(2.7)))
    const size = txnLog.size + topics * 32 + dataLength
    const payload = writer.begin(size)
    writeU32(payload, txnLog.index, this.#step - 1)
    copyAddress(payload, txnLog.address, plan, 1)
    payload[txnLog.topicCount] = topics
    writeU32(payload, txnLog.dataLength, dataLength)
    plan.random.fill(payload, txnLog.size, 32)
    for (let topic = 1; topic < topics; topic++)
      copyAddress(payload, txnLog.size + topic * 32 + 12, plan, topic % plan.accountCount)
    fillArguments(payload, txnLog.size + topics * 32, dataLength, plan)
    writer.emit(EventType.TxnLog, size)
  }

  #callFrame(writer: EventWriter): void {
    const { plan } = this
    const frame = this.#step - 1
    const inputLength = frame === 0 ? plan.dataLength : 4 + 32 * plan.random.below(10)
    const returnLength = plan.isCall && plan.random.chance(0.7) ? 32 : 0
    const size = txnCallFrame.size + inputLength + returnLength
    const payload = writer.begin(size)
    writeU32(payload, txnCallFrame.index, frame)
    copyAddress(payload, txnCallFrame.caller, plan, frame === 0 ? 0 : 1)
    copyAddress(payload, txnCallFrame.target, plan, (1 + frame) % plan.accountCount)
    const draw = frame === 0 ? 1 : plan.random.fraction()
    payload[txnCallFrame.opcode] =
      draw < 0.25 ? opcodeStaticCall : draw < 0.4 ? opcodeDelegateCall : opcodeCall
    writeU64(payload, txnCallFrame.gas, plan.gasLimit)
    writeU64(payload, txnCallFrame.gasUsed, Math.floor(plan.gasUsed / (frame + 1)))
    writeU32(payload, txnCallFrame.status, plan.isSuccess ? 0 : 2)
    writeU64(payload, txnCallFrame.depth, frame === 0 ? 0 : 1 + (frame % 3))
    writeU64(payload, txnCallFrame.inputLength, inputLength)
    writeU64(payload, txnCallFrame.returnLength, returnLength)
    fillArguments(payload, txnCallFrame.size, inputLength, plan)
    writer.emit(EventType.TxnCallFrame, size)
  }

  #accountList(writer: EventWriter): void {
    const payload = writer.begin(accountAccessListHeader.size)
    writeU32(payload, accountAccessListHeader.count, this.plan.accountCount)
    payload[accountAccessListHeader.context] = AccessContext.Transaction
    writer.emit(EventType.AccountAccessListHeader, accountAccessListHeader.size)
  }

  /** An account, then its storage slots, then its transient ones, then the next account. */
  #access(writer: EventWriter): void {
    const { plan } = this
    const account = this.#step
    const slots = plan.slots[account]! + plan.transientSlots[account]!
    const slot = this.#slot
    if (slot + 1 < slots) this.#slot = slot + 1
    else {
      this.#slot = -1
      this.#step += 1
    }
    if (slot < 0) this.#accountAccess(writer, account)
    else this.#storageAccess(writer, account, slot)
  }

  #accountAccess(writer: EventWriter, account: number): void {
    const { plan } = this
    const payload = writer.begin(accountAccess.size)
    const hasCode = plan.contracts[account]! > 0
    const isSender = account === 0
    writeU32(payload, accountAccess.index, account)
    copyAddress(payload, accountAccess.address, plan, account)
    payload[accountAccess.context] = AccessContext.Transaction
    payload[accountAccess.isBalanceModified] = hasCode ? 0 : 1
    payload[accountAccess.isNonceModified] = isSender ? 1 : 0
    writeU64(payload, accountAccess.nonce, isSender ? plan.nonce : hasCode ? 1 : 0)
    writeU64(payload, accountAccess.balance, plan.random.word() * gweiWei)
    copyAddress(payload, accountAccess.codeHash, plan, account)
    writeU64(payload, accountAccess.newBalance, hasCode ? 0 : plan.random.word() * gweiWei)
    writeU64(payload, accountAccess.newNonce, isSender ? plan.nonce + 1 : 0)
    writeU32(payload, accountAccess.storageKeyCount, plan.slots[account]!)
    writeU32(payload, accountAccess.transientKeyCount, plan.transientSlots[account]!)
    writer.emit(EventType.AccountAccess, accountAccess.size)
  }

  #storageAccess(writer: EventWriter, account: number, slot: number): void {
    const { plan } = this
    const payload = writer.begin(storageAccess.size)
    const isTransient = slot >= plan.slots[account]!
    const isModified = isTransient || plan.random.chance(0.37)
    copyAddress(payload, storageAccess.address, plan, account)
    writeU32(payload, storageAccess.index, isTransient ? slot - plan.slots[account]! : slot)
    payload[storageAccess.context] = AccessContext.Transaction
    payload[storageAccess.isModified] = isModified ? 1 : 0
    payload[storageAccess.isTransient] = isTransient ? 1 : 0
    this.#traffic.writeSlotKey(payload, storageAccess.key, plan, account, slot)
    plan.random.fill(payload, storageAccess.startValue + 24, 8)
    if (isModified) plan.random.fill(payload, storageAccess.endValue + 24, 8)
    writer.account = account
    writer.emit(EventType.StorageAccess, storageAccess.size)
  }
}

function copyAddress(payload: Uint8Array, to: number, plan: TxnPlan, account: number): void {
  const from = account * 20
  for (let index = 0; index < 20; index++) payload[to + index] = plan.addresses[from + index]!
}

/** Call data in the ABI layout: a selector, then words that are small numbers. */
function fillArguments(payload: Uint8Array, at: number, length: number, plan: TxnPlan): void {
  if (length < 4) return
  plan.random.fill(payload, at, 4)
  for (let word = at + 4; word + 32 <= at + length; word += 32)
    plan.random.fill(payload, word + 28, 4)
}
