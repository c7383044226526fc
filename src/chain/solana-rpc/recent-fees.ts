// Keeps the least fee rates of the last confirmed blocks, as a validator's cache of prioritization
// fees does.
// A block without a transaction that offers a rate has no entry. Bounded by blocks, and by the
// accounts in them: the oldest blocks are dropped first.
import { keyOf } from '../solana/base58.ts'
import { type FeeRate, feeRateOf } from '../solana/fee-rate.ts'
import type { MessageContent, MetaContent } from '../solana/geyser-decode.ts'
import { writeLocks } from '../solana/write-locks.ts'

/** As a validator keeps. */
export const feeBlocksMax = 150
/** Written accounts in all blocks together, at about 100 bytes each. */
const accountsMax = 1_000_000

type Loaded = Pick<MetaContent, 'loadedReadonlyAddresses' | 'loadedWritableAddresses'>

export interface BlockFee {
  readonly slot: number
  readonly rate: FeeRate
}

/** The fees of a block while its transactions arrive. */
class BlockFees {
  /** Null before the first transaction. */
  least: FeeRate | null = null
  readonly byAccount = new Map<string, FeeRate>()

  add(message: MessageContent, loaded: Loaded, isPaid: boolean): void {
    const rate = feeRateOf(message, isPaid)
    if (rate === null) return
    if (this.least === null || rate < this.least) this.least = rate
    const locks = writeLocks(message, loaded)
    const keys = [...message.accountKeys, ...loaded.loadedWritableAddresses]
    for (const [at, key] of keys.entries()) if (locks[at]) this.#write(keyOf(key), rate)
  }

  /** Keeps the accounts alone whose rate differs from the block's. */
  prune(): void {
    for (const [key, rate] of this.byAccount)
      if (this.least === null || rate <= this.least) this.byAccount.delete(key)
  }

  #write(key: string, rate: FeeRate): void {
    const known = this.byAccount.get(key)
    if (known === undefined || rate < known) this.byAccount.set(key, rate)
  }
}

export class RecentFees {
  /** Ascending by slot. */
  readonly #blocks: { readonly slot: number; readonly fees: BlockFees }[] = []
  #accounts = 0
  #open = new BlockFees()
  readonly #isPaid: boolean

  /** `isPaid`: by the rates that were paid, not those that were offered. */
  constructor(isPaid: boolean) {
    this.#isPaid = isPaid
  }

  /** Whether it has as many blocks as a validator keeps. */
  get isFull(): boolean {
    return this.#blocks.length === feeBlocksMax
  }

  /** Adds a transaction of the next block: failed ones, too, votes not. */
  land(message: MessageContent, loaded: Loaded): void {
    this.#open.add(message, loaded, this.#isPaid)
  }

  /** Drops what landed since the last block. */
  reset(): void {
    this.#open = new BlockFees()
  }

  /** The next confirmed block has what landed since the last one. */
  close(slot: number): void {
    const fees = this.#open
    this.reset()
    if (fees.least === null) return
    fees.prune()
    this.#blocks.push({ slot, fees })
    this.#accounts += fees.byAccount.size
    while (this.#blocks.length > feeBlocksMax || this.#accounts > accountsMax)
      this.#accounts -= this.#blocks.shift()!.fees.byAccount.size
  }

  /** Drops all blocks, not what landed since. */
  clear(): void {
    this.#blocks.length = 0
    this.#accounts = 0
  }

  /** For each block its least rate, or the highest that one of the accounts needed. */
  read(accounts: readonly Uint8Array[]): BlockFee[] {
    const keys = accounts.map(keyOf)
    return this.#blocks.map(({ slot, fees }) => {
      let rate = fees.least!
      for (const key of keys) {
        const needed = fees.byAccount.get(key)
        if (needed !== undefined && needed > rate) rate = needed
      }
      return { slot, rate }
    })
  }
}
