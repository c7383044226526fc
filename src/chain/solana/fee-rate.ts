// Computes the price per compute unit of a landed transaction, and what it pays for its priority.
import { isSameKey } from './base58.ts'
import type { MessageContent } from './geyser-decode.ts'
import { loaderV4, programs } from './programs.ts'

export const unitsMax = 1_400_000
const unitsPerInstruction = 200_000
const unitsPerBuiltin = 3_000
const microPerLamport = 1_000_000n
const u64Max = 2n ** 64n - 1n
const tag = { unitLimit: 2, unitPrice: 3 } as const

/** Builtin programs: their default compute limit is small unless more is requested. */
const builtins = [
  programs.system,
  programs.computeBudget,
  programs.loaderV1,
  programs.loaderV2,
  programs.upgradeableLoader,
  loaderV4,
  programs.secp256k1,
  programs.ed25519,
]

/** Micro-lamports per compute unit; a bigint beyond 2^53. */
export type FeeRate = number | bigint

/**
 * The price that it offered, or, `isPaid`, what its priority cost per unit: whole lamports, rounded
 * up. Null for a transaction whose compute unit limit is 0: a price per unit means nothing there.
 */
export function feeRateOf(message: MessageContent, isPaid: boolean): FeeRate | null {
  const { accountKeys, instructions, config } = message
  if (config !== null)
    return paidRate(config.priorityFee ?? 0n, Math.min(unitsMax, config.computeUnitLimit ?? 0))
  let requested: number | null = null
  let price = 0n
  for (const { programIdIndex, data } of instructions) {
    const program = accountKeys[programIdIndex]
    if (program === undefined || !isSameKey(program, programs.computeBudget)) continue
    const view = Buffer.from(data.buffer, data.byteOffset, data.length)
    if (data[0] === tag.unitLimit && data.length >= 5) requested = view.readUInt32LE(1)
    if (data[0] === tag.unitPrice && data.length >= 9) price = view.readBigUInt64LE(1)
  }
  if (instructions.length === 0 || requested === 0) return null
  if (!isPaid || price === 0n) return rateOf(price)
  const given = () =>
    instructions.reduce((sum, one) => sum + unitsGiven(accountKeys[one.programIdIndex]), 0)
  const units = Math.min(unitsMax, requested ?? given())
  return paidRate(bidOf(price, units), units)
}

/** Compute units that an instruction adds to the default limit, also one of an unknown program. */
export function unitsGiven(program: Uint8Array = new Uint8Array(0)): number {
  return builtins.some((key) => isSameKey(key, program)) ? unitsPerBuiltin : unitsPerInstruction
}

/** Lamports that so many units cost at a price in micro-lamports. */
export function bidOf(price: bigint, units: number): bigint {
  const lamports = (price * BigInt(units) + microPerLamport - 1n) / microPerLamport
  return lamports > u64Max ? u64Max : lamports
}

/** A rate that a u64 cannot hold counts as 0. */
function paidRate(lamports: bigint, units: number): FeeRate | null {
  if (units === 0) return null
  const rate = (lamports * microPerLamport) / BigInt(units)
  return rate > u64Max ? 0 : rateOf(rate)
}

function rateOf(value: bigint): FeeRate {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value
}
