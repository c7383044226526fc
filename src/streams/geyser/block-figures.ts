// Figures of the last confirmed blocks of a hub's chain: transactions, fees and cost.
// What takes reading every transaction is computed while someone asks for it, and for ten seconds
// after that; of other blocks only the count of transactions is known.
// Bounded: 64 blocks, and the fees of one block while it is read.
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import { readCost } from '../../chain/solana/geyser-parts.ts'
import type { BlockMetaUpdate, TransactionUpdate } from '../../chain/solana/updates.ts'
import type { SolanaHub } from './hub.ts'

const blocksMax = 64
const watchedMs = 10_000

export interface BlockFigures {
  readonly slot: number
  readonly transactions: number
  /** Null when its transactions were not read, or some were missing. */
  readonly content: BlockContent | null
}

export interface BlockContent {
  readonly votes: number
  readonly failed: number
  readonly feeLamports: number
  /** Of the transactions that are no votes; null when there are none. */
  readonly feeMedian: number | null
  /** What the block counts against its limit. */
  readonly costUnits: number
}

export class BlockFiguresTracker {
  readonly #clock: Clock
  /** Ascending by slot. */
  readonly #blocks: BlockFigures[] = []
  #open = new OpenBlock(0)
  #isWatched = false
  #watchedUntilMs = 0
  #newestMs: number | null = null
  readonly stop: () => void

  constructor(hub: SolanaHub, clock: Clock) {
    this.#clock = clock
    const stopWatching = hub.onRestart(() => {
      this.#blocks.length = 0
      this.#newestMs = null
    })
    const stopListening = hub.listen(
      (commitment, update) => {
        if (update.kind === 'blockMeta') {
          if (commitment === Commitment.processed) this.#newestMs = clock.monotonicMs()
          else if (commitment === Commitment.confirmed) this.#add(update)
        } else if (this.#isWatched && update.kind === 'transaction')
          if (commitment === Commitment.confirmed) this.#count(update)
      },
      (commitment) => this.#isWatched && commitment === Commitment.confirmed,
    )
    this.stop = () => {
      stopListening()
      stopWatching()
    }
  }

  /** The last confirmed blocks, oldest first. Whoever asks has the next ones read. */
  watch(): readonly BlockFigures[] {
    this.#isWatched = true
    this.#watchedUntilMs = this.#clock.monotonicMs() + watchedMs
    return this.#blocks
  }

  /** Time since the newest block arrived; null before the first. */
  ageMs(): number | null {
    return this.#newestMs === null ? null : this.#clock.monotonicMs() - this.#newestMs
  }

  #count(update: TransactionUpdate): void {
    if (update.slot !== this.#open.slot) this.#open = new OpenBlock(update.slot)
    this.#open.count(update)
  }

  #add({ slot, executedTransactionCount: transactions }: BlockMetaUpdate): void {
    const open = this.#open
    this.#open = new OpenBlock(0)
    if (this.#clock.monotonicMs() > this.#watchedUntilMs) this.#isWatched = false
    if (slot <= (this.#blocks.at(-1)?.slot ?? -1)) return
    const read = slot === open.slot ? open.length : 0
    // An empty block has nothing to be read.
    const isWhole = read === transactions && (this.#isWatched || read > 0)
    this.#blocks.push({ slot, transactions, content: isWhole ? open.content() : null })
    if (this.#blocks.length > blocksMax) this.#blocks.shift()
  }
}

/** What was read of a block so far. */
class OpenBlock {
  readonly slot: number
  readonly #fees: number[] = []
  #votes = 0
  #failed = 0
  #feeLamports = 0
  #costUnits = 0

  constructor(slot: number) {
    this.slot = slot
  }

  get length(): number {
    return this.#votes + this.#fees.length
  }

  count({ info, isVote, err }: TransactionUpdate): void {
    const { fee, units } = readCost(info)
    if (isVote) this.#votes++
    else this.#fees.push(fee)
    if (err !== null) this.#failed++
    this.#feeLamports += fee
    this.#costUnits += units
  }

  content(): BlockContent {
    const fees = this.#fees.sort((a, b) => a - b)
    return {
      votes: this.#votes,
      failed: this.#failed,
      feeLamports: this.#feeLamports,
      feeMedian: fees[fees.length >> 1] ?? null,
      costUnits: this.#costUnits,
    }
  }
}
