// The SlotHistory sysvar: which of the last 2^20 slots have a block. Thread: main of the devnode.
//
//   1 u8 | words u64 | bits, slot % 2^20 each | bit count u64 | next slot u64
import { Commitment } from '../base/commitment.ts'
import type { LedgerState } from './ledger/state.ts'

const slotsMax = 1024 * 1024
const bitsAt = 9
const nextSlotAt = bitsAt + slotsMax / 8 + 8

/** Up to the newest block. Slots before those in memory count as not skipped. */
export function slotHistoryOf(ledger: LedgerState): Buffer {
  const data = emptySlotHistory()
  const { slot: newest } = ledger.newest
  const { recentSlot } = ledger
  for (let slot = Math.max(1, newest - slotsMax + 1); slot < recentSlot; slot++) addSlot(data, slot)
  const recent = { from: Math.max(1, recentSlot), to: newest, limit: slotsMax }
  for (const slot of ledger.blockSlots(recent, Commitment.processed)) addSlot(data, slot)
  return data
}

/** As it is after slot 0. */
export function emptySlotHistory(): Buffer {
  const data = Buffer.alloc(nextSlotAt + 8)
  data[0] = 1
  data.writeBigUInt64LE(BigInt(slotsMax / 64), 1)
  data.writeBigUInt64LE(BigInt(slotsMax), nextSlotAt - 8)
  data[bitsAt] = 1
  data.writeBigUInt64LE(1n, nextSlotAt)
  return data
}

/** Adds a slot; those between the last one and this one were skipped. */
export function addSlot(data: Buffer, slot: number): void {
  const next = Number(data.readBigUInt64LE(nextSlotAt))
  if (slot - next >= slotsMax) data.fill(0, bitsAt, nextSlotAt - 8)
  else for (let skipped = next; skipped < slot; skipped++) setBit(data, skipped, 0)
  setBit(data, slot, 1)
  data.writeBigUInt64LE(BigInt(slot + 1), nextSlotAt)
}

function setBit(data: Buffer, slot: number, bit: 0 | 1): void {
  const at = bitsAt + Math.floor((slot % slotsMax) / 8)
  const mask = 1 << (slot % 8)
  data[at] = bit === 1 ? data[at]! | mask : data[at]! & ~mask
}
