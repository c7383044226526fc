// Writes the events of one generated transaction, one at a time, so that two can interleave.
// Thread: source worker. The order within a transaction is the engine's: header, lists, output,
// logs, call frames, accounts with their storage, end.
import {
  AccessContext,
  accountAccess,
  accountAccessListHeader,
  storageAccess,
  txnAccessListEntry,
  txnAuthListEntry,
  txnCallFrame,
  txnEvmOutput,
  txnHeaderStart,
  txnLog,
} from '../../../chain/evm/event-payload.ts'
import { EventType } from '../../../chain/evm/event-type.ts'
import { writeU32, writeU64, writeU256 } from '../../../chain/evm/words.ts'
import { generatedChainId } from './block-header.ts'
import type { EventWriter } from './event-writer.ts'
import { type TrafficPlan, TxnPlan } from './traffic-plan.ts'

const opcodeCall = 0xf1
const opcodeStaticCall = 0xfa
const opcodeDelegateCall = 0xf4
const gweiWei = 1e9

const phases = {
  header: 0,
  accessList: 1,
  authList: 2,
  headerEnd: 3,
  output: 4,
  logs: 5,
  callFrames: 6,
  accountList: 7,
  accounts: 8,
  end: 9,
  done: 10,
}

export class TxnEvents {
  readonly plan = new TxnPlan()
  /** Nanoseconds since the block's start of this transaction's next event. */
  timeNs = 0
  readonly #traffic: TrafficPlan
  #phase = phases.done
  /** Index of the log, frame or account within the phase. */
  #step = 0
  /** Index of the account's storage slot; -1 before the account itself. */
  #slot = -1

  constructor(traffic: TrafficPlan) {
    this.#traffic = traffic
  }

  get isDone(): boolean {
    return this.#phase === phases.done
  }

  /** True while only account accesses and the end are left: the next transaction may start. */
  get isTail(): boolean {
    return this.#phase >= phases.accounts
  }

  begin(block: { word: number; beneficiary: number }, index: number, timeNs: number): void {
    this.#traffic.plan(this.plan, block, index)
    this.timeNs = timeNs
    this.#phase = phases.header
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
    while (this.#step >= this.#countOf(this.#phase)) {
      this.#phase += 1
      this.#step = 0
    }
    // An account counts as a step only when all its slots are written.
    if (this.#phase !== phases.accounts) this.#step += 1
    this.#emitOf(writer, this.#phase)
    if (this.#phase === phases.end) this.#phase = phases.done
  }

  #emitOf(writer: EventWriter, phase: number): void {
    if (phase === phases.header) this.#header(writer)
    else if (phase === phases.accessList) this.#accessListEntry(writer)
    else if (phase === phases.authList) this.#authListEntry(writer)
    else if (phase === phases.headerEnd) writer.emit(EventType.TxnHeaderEnd, 0)
    else if (phase === phases.output) this.#output(writer)
    else if (phase === phases.logs) this.#log(writer)
    else if (phase === phases.callFrames) this.#callFrame(writer)
    else if (phase === phases.accountList) this.#accountList(writer)
    else if (phase === phases.accounts) this.#access(writer)
    else writer.emit(EventType.TxnEnd, 0)
  }

  /** Number of steps of a phase. */
  #countOf(phase: number): number {
    if (phase === phases.accessList) return this.plan.accessListCount
    if (phase === phases.authList) return this.plan.authListCount
    if (phase === phases.logs) return this.plan.logCount
    if (phase === phases.callFrames) return this.plan.callFrameCount
    return phase === phases.accounts ? this.plan.accountCount : 1
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
