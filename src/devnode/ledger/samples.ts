// Performance samples of the last blocks. Thread: main of the devnode.
import type { PerformanceSample } from './ledger.ts'

/** As a validator's cache: 12 hours of samples, one a minute. */
const samplesMax = 720
const samplePeriodSecs = 60

export class Samples {
  readonly #samples: PerformanceSample[] = []
  #sample = { sinceSecs: 0, slots: 0, transactions: 0 }

  closed(block: { slot: number; transactionCount: number; blockTime: number }): void {
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

  performanceSamples(limit: number): PerformanceSample[] {
    return this.#samples.slice(-limit).reverse()
  }
}
