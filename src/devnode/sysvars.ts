// Builds the sysvar accounts that change with every slot. Thread: main of the devnode.
//
//   clock:              slot u64 | epoch start i64 | epoch u64 | schedule epoch u64 | unix time i64
//   slot hashes:        count u64 | { slot u64, hash[32] }…  newest first, 512
//   recent blockhashes: count u64 | { hash[32], lamports per signature u64 }…  newest first, 150
import { sysvarOwner, sysvars } from '../solana/programs.ts'
import type { VmAccount } from './executed.ts'
import { lamportsPerSignature } from './fee.ts'
import type { Block } from './ledger/block.ts'

const slotHashesMax = 512
const recentBlockhashesMax = 150
const noRentEpoch = 0xffff_ffff_ffff_ffffn

export interface SysvarInput {
  readonly slot: number
  readonly slotsPerEpoch: number
  /** Seconds since 1970. */
  readonly unixTime: number
  readonly epochStart: number
  /** The last blocks, newest first. */
  readonly blocks: readonly Block[]
  rentExemptMinimum(dataBytes: number): bigint
}

export function sysvarAccounts(input: SysvarInput): VmAccount[] {
  const account = (pubkey: Uint8Array, data: Uint8Array): VmAccount => ({
    pubkey,
    lamports: input.rentExemptMinimum(data.length),
    owner: sysvarOwner,
    executable: false,
    rentEpoch: noRentEpoch,
    data,
  })
  return [
    account(sysvars.clock, clockData(input)),
    account(sysvars.slotHashes, slotHashesData(input.blocks)),
    account(sysvars.recentBlockhashes, recentBlockhashesData(input.blocks)),
  ]
}

function clockData({ slot, slotsPerEpoch, unixTime, epochStart }: SysvarInput): Uint8Array {
  const epoch = BigInt(Math.floor(slot / slotsPerEpoch))
  const data = Buffer.alloc(40)
  data.writeBigUInt64LE(BigInt(slot), 0)
  data.writeBigInt64LE(BigInt(epochStart), 8)
  data.writeBigUInt64LE(epoch, 16)
  data.writeBigUInt64LE(epoch + 1n, 24)
  data.writeBigInt64LE(BigInt(unixTime), 32)
  return data
}

function slotHashesData(blocks: readonly Block[]): Uint8Array {
  // A validator's account has the full size from the first slot on.
  const data = Buffer.alloc(8 + slotHashesMax * 40)
  const count = Math.min(blocks.length, slotHashesMax)
  data.writeBigUInt64LE(BigInt(count), 0)
  for (let index = 0; index < count; index++) {
    const { slot, hash } = blocks[index]!.facts
    data.writeBigUInt64LE(BigInt(slot), 8 + index * 40)
    data.set(hash, 16 + index * 40)
  }
  return data
}

function recentBlockhashesData(blocks: readonly Block[]): Uint8Array {
  const count = Math.min(blocks.length, recentBlockhashesMax)
  const data = Buffer.alloc(8 + recentBlockhashesMax * 40)
  data.writeBigUInt64LE(BigInt(count), 0)
  for (let index = 0; index < count; index++) {
    data.set(blocks[index]!.facts.hash, 8 + index * 40)
    data.writeBigUInt64LE(lamportsPerSignature, 40 + index * 40)
  }
  return data
}
