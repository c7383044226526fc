// Tracks the newest blocks and the recent blockhashes of a hub's chain, per commitment.
// A stream shows the newest block (`at`). A node's own calls show less (`shownAt`): confirmed and
// finalized blocks are on one chain, but processed ones may be forks, and a node shows the fork it
// voted for, which no stream carries. So while the blocks above the confirmed one are not a single
// line, the processed head of a node is unknown.
import { assert } from '../../base/assert.ts'
import { Commitment, isCommitment } from '../../base/commitment.ts'
import {
  type BlockMetaUpdate,
  blockhashBlocks,
  type Head,
  type SolanaHeads,
  type StreamHead,
} from '../../chain/solana/updates.ts'
import type { SolanaHub } from './hub.ts'

/** Tracked blocks: the window of valid blockhashes, and unfinalized blocks above it. */
const blocksMax = 512
const { processed, confirmed } = Commitment

interface KnownBlock extends StreamHead {
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
  readonly #stopListening: () => void
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
    this.#stopListening = () => {
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
    if (block === undefined || head === null || block.reached < commitment) return false
    if (head.blockHeight === null || block.blockHeight === null) return null
    return head.blockHeight - block.blockHeight <= blockhashBlocks
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

  stop(): void {
    this.#stopListening()
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

  #add({ slot, blockhash, blockHeight }: BlockMetaUpdate): KnownBlock {
    const block: KnownBlock = { slot, blockhash, blockHeight, reached: processed }
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
