// Plans a landing test: which route each transaction takes, and what all may cost.
// Pure.
import type { SeededRandom } from '../statistics.ts'

/** Base fee of one signature. */
const signatureLamports = 5_000n
/** Two transfers and two budget instructions take 600 units. */
export const unitLimit = 1_000
const microPerLamport = 1_000_000n

export interface Price {
  readonly tipLamports: bigint
  /** Priority fee in micro-lamports per compute unit; 0 for none. */
  readonly unitPrice: bigint
}

/** Fee of one transaction without its tip. */
export function feeOf({ unitPrice }: Price): bigint {
  const micro = unitPrice * BigInt(unitLimit)
  return signatureLamports + (micro + microPerLamport - 1n) / microPerLamport
}

/** What a transaction costs when it lands: tip and fee; the rest goes back to the wallet. */
export function costOf(price: Price): bigint {
  return price.tipLamports + feeOf(price)
}

/**
 * The route of each transaction: every block of `routes` has each route once, in random order, so
 * that no route gets a better hour or the first place of every round.
 */
export function routeOrder(count: number, routes: number, random: SeededRandom): number[] {
  const order: number[] = []
  while (order.length < count) {
    const block = Array.from({ length: routes }, (_, index) => index)
    for (let last = routes - 1; last > 0; last--) {
      const pick = random.below(last + 1)
      const moved = block[last]!
      block[last] = block[pick]!
      block[pick] = moved
    }
    order.push(...block)
  }
  return order.slice(0, count)
}

/** How many transactions may be sent: all of them could land. */
export function affordable(count: number, cost: bigint, spendMax: bigint | null): number {
  if (spendMax === null || BigInt(count) * cost <= spendMax) return count
  return Number(spendMax / cost)
}
