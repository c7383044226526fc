// Contention of a block with the language's own containers: Maps, Sets, strings, sorting. What one
// would write first, and what the analysis is measured against. Thread: main of the bench process.
import { EventType, storageAccess } from '../../src/chain/evm/event-payload.ts'
import { readU32 } from '../../src/chain/evm/words.ts'

interface Slot {
  readonly address: string
  readonly txns: Set<number>
  readonly writers: Set<number>
  accesses: number
  chain: number
  writerChain: number
}

export interface PlainResult {
  readonly total_unique_slots: number
  readonly contended_slot_count: number
  readonly total_txn_count: number
  readonly critical_path_txn_count: number
  readonly topSlots: readonly number[]
  readonly topContracts: readonly number[]
  readonly topEdges: readonly number[]
}

/** Records as the event ring has them, of one block, with accesses in transaction order. */
export class PlainContention {
  readonly #slots = new Map<string, Slot>()
  readonly #edges = new Map<string, number>()
  #txnCount = 0
  #current = 0
  #touched = new Map<Slot, boolean>()
  #contracts = new Set<string>()
  #longest = 0

  /** Takes one event; `payload` is a Buffer, because only Buffers make hex quickly. */
  event(type: number, txn: number, payload: Buffer): void {
    if (type === EventType.TxnHeaderStart) this.#txnCount += 1
    if (type !== EventType.StorageAccess || txn === 0) return
    if (payload[storageAccess.isTransient] !== 0) return
    if (txn !== this.#current) this.#close()
    this.#current = txn
    const address = `0x${payload.toString('hex', 0, 20)}`
    const key = `${address}:0x${payload.toString('hex', storageAccess.key, storageAccess.key + 32)}`
    let slot = this.#slots.get(key)
    if (slot === undefined) {
      slot = {
        address,
        txns: new Set(),
        writers: new Set(),
        accesses: 0,
        chain: 0,
        writerChain: 0,
      }
      this.#slots.set(key, slot)
    }
    const writes = payload[storageAccess.isModified] !== 0
    slot.txns.add(txn)
    if (writes) slot.writers.add(txn)
    slot.accesses += 1
    this.#touched.set(slot, writes || this.#touched.get(slot) === true)
    this.#contracts.add(address)
  }

  result(): PlainResult {
    this.#close()
    const slots = [...this.#slots.entries()]
    const contended = slots.filter(([, slot]) => slot.txns.size > 1)
    const contracts = new Map<string, number>()
    for (const [, { address }] of contended)
      contracts.set(address, (contracts.get(address) ?? 0) + 1)
    const top = <T>(list: T[], value: (item: T) => number, limit: number) =>
      list
        .sort((a, b) => value(b) - value(a))
        .slice(0, limit)
        .map(value)
    return {
      total_unique_slots: slots.length,
      contended_slot_count: contended.length,
      total_txn_count: this.#txnCount,
      critical_path_txn_count: Math.max(this.#longest, Math.min(1, this.#txnCount)),
      topSlots: top(contended, ([, slot]) => slot.txns.size, 20),
      topContracts: top([...contracts], ([, count]) => count, 15),
      topEdges: top([...this.#edges], ([, count]) => count, 15),
    }
  }

  #close(): void {
    const list = [...this.#contracts].sort()
    for (let first = 0; first < list.length; first++)
      for (let second = first + 1; second < list.length; second++) {
        const edge = `${list[first]}|${list[second]}`
        this.#edges.set(edge, (this.#edges.get(edge) ?? 0) + 1)
      }
    let chain = 0
    for (const [slot, writes] of this.#touched)
      chain = Math.max(chain, writes ? slot.chain : slot.writerChain)
    chain += 1
    for (const [slot, writes] of this.#touched) {
      slot.chain = Math.max(slot.chain, chain)
      if (writes) slot.writerChain = Math.max(slot.writerChain, chain)
    }
    if (this.#touched.size > 0) this.#longest = Math.max(this.#longest, chain)
    this.#touched = new Map()
    this.#contracts = new Set()
  }
}

/** Walks records back to back, without padding or continued ones. */
export function plainContention(bytes: Uint8Array): PlainResult {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const plain = new PlainContention()
  for (let at = 0; at < buffer.length; ) {
    const length = readU32(buffer, at) & 0x1ffff
    const payload = buffer.subarray(at + 24, at + 8 + length)
    plain.event(readU32(buffer, at + 4), readU32(buffer, at + 8), payload)
    at = (at + 8 + length + 7) & ~7
  }
  return plain.result()
}
