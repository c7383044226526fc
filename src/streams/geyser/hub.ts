// Publishes Solana updates to a hub.
import type { Clock } from '../../base/clock.ts'
import { Commitment, isCommitment } from '../../base/commitment.ts'
import { assert } from '../../base/errors.ts'
import { SlotTime } from '../../base/slot-time.ts'
import { readCost } from '../../chain/solana/geyser-parts.ts'
import {
  type BlockMetaUpdate,
  blockhashBlocks,
  type Head,
  type SolanaHeads,
  type SolanaUpdate,
  type StreamHead,
  slotStatus,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import { Hub, type HubBounds } from '../hub/hub.ts'
import type { ReplayTurns } from '../hub/replay-turns.ts'

export type SolanaHub = Hub<SolanaUpdate>

/** As yellowstone keeps by default. */
export const yellowstoneBounds: HubBounds = { replaySlots: 150, replayBytesMax: 256 * 1024 * 1024 }

/** The same time where slots are shorter than 400 ms. */
export const gatewayBounds = { ...yellowstoneBounds, replayMs: 60_000 } satisfies HubBounds

export function openSolanaHub(
  bounds = yellowstoneBounds,
  slotTime = new SlotTime(),
  turns?: ReplayTurns,
): SolanaHub {
  return new Hub<SolanaUpdate>(bounds, bytesOf, slotTime, turns)
}

export function publishUpdate(hub: SolanaHub, update: SolanaUpdate): void {
  if (update.kind === 'retraction') hub.retract(update)
  else if (update.kind !== 'slot') hub.content(update)
  else {
    hub.status(update, isCommitment(update.status) ? update.status : null)
    if (update.status === slotStatus.dead) hub.abandon(update.slot)
  }
}

/** Estimate for a transaction's status and an update's plain fields. */
const besideBodyBytes = 128

/** Memory of a kept update; a block only refers to updates that are counted already. */
function bytesOf(update: SolanaUpdate): number {
  switch (update.kind) {
    case 'account':
    case 'transaction':
      // Nothing else is read: an update from a node makes views and decodes fields on access.
      return (update.bodyBytes ?? update.body.length) + besideBodyBytes
    case 'block':
    case 'retraction':
      return 0
    default:
      return update.body.length
  }
}

// Tracks the newest blocks and the recent blockhashes of a hub's chain, per commitment.
// A stream shows the newest block (`at`). A node's own calls show less (`shownAt`): confirmed and
// finalized blocks are on one chain, but processed ones may be forks, and a node shows the fork it
// voted for, which no stream carries. So while the blocks above the confirmed one are not a single
// line, the processed head of a node is unknown.

/** Tracked blocks: the window of valid blockhashes, and unfinalized blocks above it. */
const blocksMax = 512
const { processed, confirmed } = Commitment

interface KnownBlock extends StreamHead {
  readonly parentSlot: number
  /** The highest commitment that the block has reached. */
  reached: Commitment
}

export class Heads implements SolanaHeads {
  readonly #bySlot = new Map<number, KnownBlock>()
  /** The oldest first. */
  readonly #byHash = new Map<string, KnownBlock>()
  #newest: [KnownBlock | null, KnownBlock | null, KnownBlock | null] = [null, null, null]
  #shown: [Head | null, Head | null, Head | null] = [null, null, null]
  /** A confirmed block at or above it ends the doubt which fork a node is on. */
  #forkedUntil = 0
  readonly stop: () => void
  /** Called when a head that a node shows moved. */
  onMove: () => void = () => {}

  constructor(hub: SolanaHub) {
    const stopWatching = hub.onRestart(() => this.#restart())
    const stopListening = hub.listen(
      (commitment, update) => {
        if (update.kind === 'blockMeta') this.#take(update, commitment)
        // Statuses are published at every commitment: the others are duplicates.
        else if (update.kind === 'slot' && commitment === processed && isCommitment(update.status))
          this.#reach(this.#bySlot.get(update.slot), update.status)
      },
      () => false,
    )
    this.stop = () => {
      stopListening()
      stopWatching()
    }
  }

  at(commitment: Commitment): StreamHead | null {
    return this.#newest[commitment]
  }

  isBlockhashValid(blockhash: string, commitment: Commitment): boolean | null {
    const block = this.#byHash.get(blockhash)
    const head = this.#newest[commitment]
    if (head === null || (block !== undefined && block.reached < commitment)) return false
    // It may be of a block before the first one here, or of one that was missed.
    if (block === undefined) return this.#hasWindow(head) ? false : null
    if (head.blockHeight === null || block.blockHeight === null) return null
    return head.blockHeight - block.blockHeight <= blockhashBlocks
  }

  /** Whether each block is known whose hash may be valid. */
  #hasWindow(head: KnownBlock): boolean {
    let oldest: KnownBlock = head
    for (let count = 0; count < blockhashBlocks && (oldest.blockHeight ?? 2) > 1; count++) {
      const parent = this.#bySlot.get(oldest.parentSlot)
      if (parent === undefined) return false
      oldest = parent
    }
    return true
  }

  /** The head that a node's own calls show; null while it is unknown. */
  shownAt(commitment: Commitment): Head | null {
    if (commitment !== processed) return this.#shown[commitment]
    return this.#confirmedSlot() < this.#forkedUntil ? null : this.#shown[processed]
  }

  /** Null when the hash is not one of a known block that a node shows, too. */
  isShownValid(blockhash: string, head: Head): boolean | null {
    const block = this.#byHash.get(blockhash)
    if (block === undefined || block.blockHeight === null) return null
    if (block.reached < confirmed && block.slot <= this.#confirmedSlot()) return null
    return block.slot <= head.slot && head.blockHeight - block.blockHeight <= blockhashBlocks
  }

  #confirmedSlot(): number {
    return this.#shown[confirmed]?.slot ?? -1
  }

  #restart(): void {
    this.#bySlot.clear()
    this.#byHash.clear()
    this.#newest = [null, null, null]
    this.#shown = [null, null, null]
    this.#forkedUntil = 0
    this.onMove()
  }

  #take(meta: BlockMetaUpdate, commitment: Commitment): void {
    this.#reach(this.#byHash.get(meta.blockhash) ?? this.#add(meta), commitment)
    const { slot, blockhash, blockHeight, parentSlot } = meta
    // Some nodes leave it out; no head can be shown then.
    if (blockHeight === null) return
    const head = this.#shown[commitment]
    if (commitment === processed && head !== null && parentSlot !== head.slot)
      this.#forkedUntil = Math.max(slot, head.slot)
    if (head !== null && head.slot >= slot) return
    this.#shown[commitment] = { slot, blockhash, blockHeight }
    this.onMove()
  }

  #add({ slot, blockhash, blockHeight, parentSlot }: BlockMetaUpdate): KnownBlock {
    const block: KnownBlock = { slot, blockhash, blockHeight, parentSlot, reached: processed }
    this.#bySlot.set(slot, block)
    this.#byHash.set(blockhash, block)
    if (this.#byHash.size <= blocksMax) return block
    const oldest = this.#byHash.values().next().value!
    assert(oldest !== block, 'the newest block is not evicted')
    this.#byHash.delete(oldest.blockhash)
    if (this.#bySlot.get(oldest.slot) === oldest) this.#bySlot.delete(oldest.slot)
    return block
  }

  /** Also advances the lower commitments, whose own status may have been missed. */
  #reach(block: KnownBlock | undefined, commitment: Commitment): void {
    if (block === undefined) return
    if (commitment > block.reached) block.reached = commitment
    for (let lower = commitment; lower >= processed; lower--) {
      const newest = this.#newest[lower] ?? null
      if (newest === null || block.slot > newest.slot) this.#newest[lower] = block
    }
  }
}

// Figures of the last confirmed blocks of a hub's chain: transactions, fees and cost.
// What takes reading every transaction is computed while someone asks for it, and for ten seconds
// after that; of other blocks only the count of transactions is known.
// Bounded: 64 blocks, and the fees of one block while it is read.

const figuresMax = 64
const watchedMs = 10_000

export interface BlockFigures {
  readonly slot: number
  readonly transactions: number
  /** Null when its transactions were not read, or some were missing. */
  readonly content: BlockContent | null
}

interface BlockContent {
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
          if (commitment === Commitment.confirmed) {
            if (update.slot !== this.#open.slot) this.#open = new OpenBlock(update.slot)
            this.#open.count(update)
          }
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

  #add({ slot, executedTransactionCount: transactions }: BlockMetaUpdate): void {
    const open = this.#open
    this.#open = new OpenBlock(0)
    if (this.#clock.monotonicMs() > this.#watchedUntilMs) this.#isWatched = false
    if (slot <= (this.#blocks.at(-1)?.slot ?? -1)) return
    const read = slot === open.slot ? open.length : 0
    // An empty block has nothing to be read.
    const isWhole = read === transactions && (this.#isWatched || read > 0)
    this.#blocks.push({ slot, transactions, content: isWhole ? open.content() : null })
    if (this.#blocks.length > figuresMax) this.#blocks.shift()
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
