// Computes the price per compute unit that a landed transaction offered.
import type { MessageContent } from './geyser-content.ts'
import { isSameKey } from './keys.ts'
import { programs } from './programs.ts'

const unitsMax = 1_400_000n
const microPerLamport = 1_000_000n
const tag = { unitLimit: 2, unitPrice: 3 } as const

/** Micro-lamports per compute unit; a bigint beyond 2^53. */
export type FeeRate = number | bigint

/** Null for a transaction whose compute unit limit is 0: a price per unit means nothing there. */
export function feeRateOf({ accountKeys, instructions, config }: MessageContent): FeeRate | null {
  if (config !== null) return rateOfBid(config.priorityFee ?? 0n, config.computeUnitLimit ?? 0)
  // Each instruction adds to the default limit.
  let hasUnits = instructions.length > 0
  let rate: FeeRate = 0
  for (const { programIdIndex, data } of instructions) {
    const program = accountKeys[programIdIndex]
    if (program === undefined || !isSameKey(program, programs.computeBudget)) continue
    const view = Buffer.from(data.buffer, data.byteOffset, data.length)
    if (data[0] === tag.unitLimit && data.length >= 5) hasUnits = view.readUInt32LE(1) > 0
    if (data[0] === tag.unitPrice && data.length >= 9) rate = rateOf(view.readBigUInt64LE(1))
  }
  return hasUnits ? rate : null
}

/** Of a transaction of version 1, which offers lamports: divided before it is multiplied, as in
 *  agave after 4.0. */
function rateOfBid(lamports: bigint, unitLimit: number): FeeRate | null {
  const units = BigInt(unitLimit) < unitsMax ? BigInt(unitLimit) : unitsMax
  return units === 0n ? null : rateOf((lamports / units) * microPerLamport)
}

function rateOf(value: bigint): FeeRate {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value
}
