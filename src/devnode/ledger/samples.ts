// Fee and performance samples of the last blocks. Thread: main of the devnode.
import { keyOf } from '../../solana/keys.ts'
import type { PerformanceSample, PrioritizationFee } from './ledger.ts'

/** As a validator's caches: 150 blocks of fees, 12 hours of samples, one a minute. */
const feeBlocksMax = 150
const samplesMax = 720
const samplePeriodSecs = 60

/** The priority fee of a transaction and the accounts it wrote. */
export interface Offer {
  /** Micro-lamports per compute unit. */
  readonly price: number
  readonly writable: readonly Uint8Array[]
}

interface BlockFees {
  readonly slot: number
  least: number | null
  readonly byAccount: Map<string, number>
}

export class Samples {
  readonly #fees: BlockFees[] = []
  readonly #samples: PerformanceSample[] = []
  #sample = { sinceSecs: 0, slots: 0, transactions: 0 }
  #open: BlockFees = { slot: 0, least: null, byAccount: new Map() }

  landed({ price, writable }: Offer): void {
    const fees = this.#open
    fees.least = Math.min(fees.least ?? price, price)
    for (const key of writable) {
      const account = keyOf(key)
      fees.byAccount.set(account, Math.min(fees.byAccount.get(account) ?? price, price))
    }
  }

  closed(block: { slot: number; transactionCount: number; blockTime: number }): void {
    this.#fees.push({ ...this.#open, slot: block.slot })
    if (this.#fees.length > feeBlocksMax) this.#fees.shift()
    this.#open = { slot: 0, least: null, byAccount: new Map() }
    const sample = this.#sample
    if (sample.sinceSecs === 0) sample.sinceSecs = block.blockTime
    sample.slots += 1
    sample.transactions += block.transactionCount
    if (block.blockTime - sample.sinceSecs < samplePeriodSecs) return
    this.#samples.push({
      slot: block.slot,
      numTransactions: sample.transactions,
      numNonVoteTransactions: sample.transactions,
      numSlots: sample.slots,
      samplePeriodSecs,
    })
    if (this.#samples.length > samplesMax) this.#samples.shift()
    this.#sample = { sinceSecs: block.blockTime, slots: 0, transactions: 0 }
  }

  /** Of the last blocks, ascending: the least that landed, the most of it over the accounts. */
  prioritizationFees(addresses: readonly Uint8Array[]): PrioritizationFee[] {
    const keys = addresses.map(keyOf)
    return this.#fees.map(({ slot, least, byAccount }) => ({
      slot,
      prioritizationFee: Math.max(least ?? 0, ...keys.map((key) => byAccount.get(key) ?? 0)),
    }))
  }

  performanceSamples(limit: number): PerformanceSample[] {
    return this.#samples.slice(-limit).reverse()
  }
}
