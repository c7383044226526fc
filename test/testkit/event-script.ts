// Writes execution events by hand: sequence numbers, times and flow tags are kept by the script.
import {
  accountAccess,
  blockEnd,
  blockFinalized,
  blockQc,
  blockReject,
  blockStart,
  blockVerified,
  EventType,
  storageAccess,
  txnHeaderStart,
} from '../../src/chain/evm/event-payload.ts'
import { descriptor } from '../../src/chain/evm/event-ring.ts'
import { writeU16, writeU32, writeU64, writeU64Exact } from '../../src/chain/evm/words.ts'
import type { EventSink } from './recording.ts'

export interface StorageStep {
  readonly txn: number | null
  readonly address: Uint8Array
  readonly slot: Uint8Array
  readonly writes?: boolean
  readonly transient?: boolean
}

export class EventScript {
  seqno = 0
  timeNs = 1_700_000_000_000_000_000n
  blockSeqno = 0
  readonly #sink: EventSink

  constructor(sink: EventSink) {
    this.#sink = sink
  }

  emit(type: number, payload: Uint8Array, txn: number | null = null): number {
    const head = new Uint8Array(descriptor.bytes)
    this.seqno += 1
    this.timeNs += 1000n
    if (type === EventType.BlockStart) this.blockSeqno = this.seqno
    writeU64(head, descriptor.seqno, this.seqno)
    writeU16(head, descriptor.type, type)
    writeU32(head, descriptor.payloadSize, payload.length)
    writeU64Exact(head, descriptor.timeNs, this.timeNs)
    writeU64(head, descriptor.blockSeqno, this.blockSeqno)
    writeU64(head, descriptor.txn, txn === null ? 0 : txn + 1)
    this.#sink.event(head, payload)
    return this.seqno
  }

  start(number: number, options: { id?: number; txns?: number; timestamp?: number } = {}): number {
    const payload = new Uint8Array(blockStart.size)
    payload.set(idOf(options.id ?? number), blockStart.id)
    writeU64(payload, blockStart.blockNumber, number)
    writeU64(payload, blockStart.number, number)
    writeU64(payload, blockStart.timestamp, options.timestamp ?? 1_700_000_000)
    writeU64(payload, blockStart.txnCount, options.txns ?? 0)
    writeU64(payload, blockStart.chainId, 20143)
    return this.emit(EventType.BlockStart, payload)
  }

  end(gasUsed = 21_000): number {
    const payload = new Uint8Array(blockEnd.size)
    payload.fill(0xee, blockEnd.ethHash, 32)
    writeU64(payload, blockEnd.gasUsed, gasUsed)
    const seqno = this.emit(EventType.BlockEnd, payload)
    this.blockSeqno = 0
    return seqno
  }

  reject(): number {
    return this.emit(EventType.BlockReject, new Uint8Array(blockReject.size))
  }

  qc(id: number, number = id): number {
    const payload = new Uint8Array(blockQc.size)
    payload.set(idOf(id), blockQc.id)
    writeU64(payload, blockQc.blockNumber, number)
    return this.emit(EventType.BlockQc, payload)
  }

  finalized(id: number, number = id): number {
    const payload = new Uint8Array(blockFinalized.size)
    payload.set(idOf(id), blockFinalized.id)
    writeU64(payload, blockFinalized.blockNumber, number)
    return this.emit(EventType.BlockFinalized, payload)
  }

  verified(number: number): number {
    const payload = new Uint8Array(blockVerified.size)
    writeU64(payload, blockVerified.blockNumber, number)
    return this.emit(EventType.BlockVerified, payload)
  }

  header(txn: number, data = new Uint8Array(0), edit?: (payload: Uint8Array) => void): number {
    const payload = new Uint8Array(txnHeaderStart.size + data.length)
    payload.set(idOf(1_000_000 + txn), txnHeaderStart.hash)
    payload.set(data, txnHeaderStart.size)
    writeU32(payload, txnHeaderStart.dataLength, data.length)
    edit?.(payload)
    return this.emit(EventType.TxnHeaderStart, payload, txn)
  }

  enter(txn: number): number {
    return this.emit(EventType.TxnPerfEvmEnter, new Uint8Array(0), txn)
  }

  exit(txn: number): number {
    return this.emit(EventType.TxnPerfEvmExit, new Uint8Array(0), txn)
  }

  txnEnd(txn: number): number {
    return this.emit(EventType.TxnEnd, new Uint8Array(0), txn)
  }

  storage(step: StorageStep): number {
    const payload = new Uint8Array(storageAccess.size)
    payload.set(step.address, storageAccess.address)
    payload.set(step.slot, storageAccess.key)
    payload[storageAccess.isModified] = step.writes === true ? 1 : 0
    payload[storageAccess.isTransient] = step.transient === true ? 1 : 0
    return this.emit(EventType.StorageAccess, payload, step.txn)
  }

  account(address: Uint8Array, txn: number | null = null): number {
    const payload = new Uint8Array(accountAccess.size)
    payload.set(address, accountAccess.address)
    return this.emit(EventType.AccountAccess, payload, txn)
  }
}

/** 32 bytes that differ in the last eight. */
export function idOf(value: number): Uint8Array {
  const bytes = new Uint8Array(32)
  new DataView(bytes.buffer).setBigUint64(24, BigInt(value))
  return bytes
}

/** 20 bytes that differ in the first and the last ones, so that order and equality both matter. */
export function addressOf(value: number): Uint8Array {
  const bytes = new Uint8Array(20)
  new DataView(bytes.buffer).setUint32(16, value)
  bytes[0] = (value * 37) & 0xff
  return bytes
}
