// ContentionData the slow, obvious way: Maps, Sets and sorting, straight from the contract's words.
import { hexOf } from '../../src/chain/evm/hex.ts'
import type { StorageStep } from './event-script.ts'

interface Slot {
  readonly address: string
  readonly slot: string
  readonly txns: Set<number>
  readonly writers: Set<number>
  accesses: number
}

export function slowContention(steps: readonly StorageStep[], txnCount: number) {
  const inside = steps.filter((step) => step.txn !== null && step.transient !== true)
  const slots = new Map<string, Slot>()
  for (const step of inside) {
    const address = hexOf(step.address)
    const slot = hexOf(step.slot)
    const key = address + slot
    const known = slots.get(key) ?? {
      address,
      slot,
      txns: new Set<number>(),
      writers: new Set<number>(),
      accesses: 0,
    }
    slots.set(key, known)
    known.txns.add(step.txn!)
    if (step.writes === true) known.writers.add(step.txn!)
    known.accesses += 1
  }
  const all = [...slots.values()]
  const contended = all.filter((slot) => slot.txns.size >= 2)
  return {
    total_unique_slots: all.length,
    contended_slot_count: contended.length,
    contention_ratio: all.length === 0 ? 0 : contended.length / all.length,
    total_txn_count: txnCount,
    written_contended_slot_count: contended.filter((slot) => slot.writers.size > 0).length,
    critical_path_txn_count: longestChain(all, txnCount),
    top_contended_slots: topSlots(contended),
    top_contended_contracts: topContracts(all),
    contract_edges: topEdges(inside),
  }
}

/** By trying every earlier transaction for each one. */
function longestChain(slots: readonly Slot[], txnCount: number): number {
  const txns = [...new Set(slots.flatMap((slot) => [...slot.txns]))].sort((a, b) => a - b)
  const chain = new Map<number, number>()
  for (const txn of txns) {
    const before = txns
      .filter((earlier) => earlier < txn)
      .filter((earlier) =>
        slots.some(
          (slot) =>
            slot.txns.has(txn) &&
            slot.txns.has(earlier) &&
            (slot.writers.has(txn) || slot.writers.has(earlier)),
        ),
      )
    chain.set(txn, 1 + Math.max(0, ...before.map((earlier) => chain.get(earlier)!)))
  }
  return Math.max(txnCount > 0 ? 1 : 0, ...chain.values())
}

function topSlots(contended: readonly Slot[]) {
  return contended
    .map(({ address, slot, txns, accesses }) => ({
      address,
      slot,
      txn_count: txns.size,
      access_count: accesses,
    }))
    .sort(
      (a, b) =>
        b.txn_count - a.txn_count ||
        b.access_count - a.access_count ||
        compare(a.address + a.slot, b.address + b.slot),
    )
    .slice(0, 20)
}

function topContracts(slots: readonly Slot[]) {
  const addresses = [...new Set(slots.map((slot) => slot.address))]
  return addresses
    .map((address) => {
      const own = slots.filter((slot) => slot.address === address)
      const contended = own.filter((slot) => slot.txns.size >= 2).length
      return {
        address,
        total_slots: own.length,
        contended_slots: contended,
        total_accesses: own.reduce((sum, slot) => sum + slot.accesses, 0),
        contention_score: contended / own.length,
      }
    })
    .filter((contract) => contract.contended_slots > 0)
    .sort(
      (a, b) =>
        b.contended_slots - a.contended_slots ||
        b.contention_score - a.contention_score ||
        compare(a.address, b.address),
    )
    .slice(0, 15)
}

function topEdges(steps: readonly StorageStep[]) {
  const touched = new Map<number, Set<string>>()
  for (const step of steps) {
    const set = touched.get(step.txn!) ?? new Set()
    touched.set(step.txn!, set.add(hexOf(step.address)))
  }
  const counts = new Map<string, number>()
  for (const set of touched.values()) {
    const list = [...set].sort()
    for (const [index, a] of list.entries())
      for (const b of list.slice(index + 1))
        counts.set(`${a} ${b}`, (counts.get(`${a} ${b}`) ?? 0) + 1)
  }
  return [...counts]
    .sort(([a, n], [b, m]) => m - n || compare(a, b))
    .slice(0, 15)
    .map(([key, count]) => {
      const [contract_a, contract_b] = key.split(' ')
      return { contract_a, contract_b, shared_txn_count: count }
    })
}

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
