// Builds sysvar accounts, and reads those that carry state from slot to slot. Thread: main of the
// devnode.
//
//   clock:              slot u64 | epoch start i64 | epoch u64 | schedule epoch u64 | unix time i64
//   epoch schedule:     slots u64 | leader offset u64 | warmup u8 | first normal epoch, slot u64
//   slot hashes:        count u64 | { slot u64, hash[32] }…  newest first, 512
//   recent blockhashes: count u64 | { hash[32], lamports per signature u64 }…  newest first, 150
//   stake history:      count u64 | { epoch, effective, activating, deactivating u64 }…  the same
import { Commitment } from '../base/commitment.ts'
import { sysvarOwner, sysvars } from '../chain/solana/programs.ts'
import { lamportsPerSignature } from './fee.ts'
import { type BlockFacts, type EpochSchedule, epochOf } from './ledger/ledger.ts'
import type { LedgerState } from './ledger/state.ts'
import { rentExemptMinimum } from './rent.ts'
import type { StakeHistory, StakeTotals } from './stakes.ts'
import type { VmAccount } from './svm.ts'

export const slotHashesMax = 512
const recentBlockhashesMax = 150
const stakeHistoryMax = 512
const noRentEpoch = 0xffff_ffff_ffff_ffffn

export function sysvarAccount(pubkey: Uint8Array, data: Uint8Array): VmAccount {
  return {
    pubkey,
    lamports: rentExemptMinimum(data.length),
    owner: sysvarOwner,
    executable: false,
    rentEpoch: noRentEpoch,
    data,
  }
}

interface ClockInput {
  readonly slot: number
  readonly schedule: EpochSchedule
  /** Seconds since 1970. */
  readonly unixTime: number
  /** The one of the slot before; null in slot 0. */
  readonly clock: Uint8Array | null
}

/** `blocks` are the last, newest first. */
export function slotSysvars(
  input: ClockInput & { readonly blocks: readonly BlockFacts[] },
): VmAccount[] {
  return [
    sysvarAccount(sysvars.clock, clockData(input)),
    sysvarAccount(sysvars.slotHashes, slotHashesData(input.blocks)),
    sysvarAccount(sysvars.recentBlockhashes, recentBlockhashesData(input.blocks)),
  ]
}

function clockData({ slot, schedule, unixTime, clock }: ClockInput): Uint8Array {
  const epoch = BigInt(epochOf(slot, schedule))
  const before = clock === null ? null : Buffer.from(clock)
  const isSameEpoch = before !== null && before.readBigUInt64LE(16) === epoch
  const data = Buffer.alloc(40)
  data.writeBigUInt64LE(BigInt(slot), 0)
  data.writeBigInt64LE(isSameEpoch ? before.readBigInt64LE(8) : BigInt(unixTime), 8)
  data.writeBigUInt64LE(epoch, 16)
  data.writeBigUInt64LE(epoch + 1n, 24)
  data.writeBigInt64LE(BigInt(unixTime), 32)
  return data
}

export function epochScheduleSysvar(schedule: EpochSchedule): VmAccount {
  const data = Buffer.alloc(33)
  data.writeBigUInt64LE(BigInt(schedule.slotsPerEpoch), 0)
  data.writeBigUInt64LE(BigInt(schedule.leaderScheduleSlotOffset), 8)
  data[16] = schedule.warmup ? 1 : 0
  data.writeBigUInt64LE(BigInt(schedule.firstNormalEpoch), 17)
  data.writeBigUInt64LE(BigInt(schedule.firstNormalSlot), 25)
  return sysvarAccount(sysvars.epochSchedule, data)
}

export function slotsPerEpochOf(data: Uint8Array): number {
  return Number(Buffer.from(data).readBigUInt64LE(0))
}

/** With the newest entry first; more than 512 are not kept. */
export function stakeHistorySysvar(entries: readonly [epoch: bigint, StakeTotals][]): VmAccount {
  const kept = entries.slice(0, stakeHistoryMax)
  // A validator's account has the full size from the first slot on.
  const data = Buffer.alloc(8 + stakeHistoryMax * 32)
  let at = data.writeBigUInt64LE(BigInt(kept.length), 0)
  for (const [epoch, { effective, activating, deactivating }] of kept)
    for (const value of [epoch, effective, activating, deactivating])
      at = data.writeBigUInt64LE(value, at)
  return sysvarAccount(sysvars.stakeHistory, data)
}

/** Newest first. */
export function readStakeHistory(data: Uint8Array): StakeHistory {
  const view = Buffer.from(data)
  const u64 = (index: number) => view.readBigUInt64LE(8 + index * 8)
  const count = Number(view.readBigUInt64LE(0))
  return new Map(
    Array.from({ length: count }, (_, index) => [
      u64(index * 4),
      {
        effective: u64(index * 4 + 1),
        activating: u64(index * 4 + 2),
        deactivating: u64(index * 4 + 3),
      },
    ]),
  )
}

function slotHashesData(blocks: readonly BlockFacts[]): Uint8Array {
  // A validator's account has the full size from the first slot on.
  const data = Buffer.alloc(8 + slotHashesMax * 40)
  const count = Math.min(blocks.length, slotHashesMax)
  data.writeBigUInt64LE(BigInt(count), 0)
  for (let index = 0; index < count; index++) {
    const { slot, hash } = blocks[index]!
    data.writeBigUInt64LE(BigInt(slot), 8 + index * 40)
    data.set(hash, 16 + index * 40)
  }
  return data
}

function recentBlockhashesData(blocks: readonly BlockFacts[]): Uint8Array {
  const count = Math.min(blocks.length, recentBlockhashesMax)
  const data = Buffer.alloc(8 + recentBlockhashesMax * 40)
  data.writeBigUInt64LE(BigInt(count), 0)
  for (let index = 0; index < count; index++) {
    data.set(blocks[index]!.hash, 8 + index * 40)
    data.writeBigUInt64LE(lamportsPerSignature, 40 + index * 40)
  }
  return data
}

// The SlotHistory sysvar: which of the last 2^20 slots have a block.
//
//   1 u8 | words u64 | bits, slot % 2^20 each | bit count u64 | next slot u64

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
