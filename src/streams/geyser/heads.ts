// Tracks the newest block and the recent blockhashes of a hub's chain, per commitment.
import { assert } from '../../base/assert.ts'
import { Commitment, isCommitment } from '../../base/commitment.ts'
import type { BlockMetaUpdate, SolanaHeads, StreamHead } from '../../chain/solana/updates.ts'
import { blockhashBlocks } from '../../chain/solana/updates.ts'
import type { SolanaHub } from './hub.ts'

/** Tracked blocks: the window of valid blockhashes, and unfinalized blocks above it. */
const blocksMax = 512

interface KnownBlock extends StreamHead {
  /** The highest commitment that the block has reached. */
  reached: Commitment
}

export class Heads implements SolanaHeads {
  readonly #bySlot = new Map<number, KnownBlock>()
  readonly #byHash = new Map<string, KnownBlock>()
  #newest: [KnownBlock | null, KnownBlock | null, KnownBlock | null] = [null, null, null]
  readonly #stopListening: () => void

  constructor(hub: SolanaHub) {
    const stopWatching = hub.onRestart(() => this.#restart())
    const stopListening = hub.listen(
      (commitment, update) => {
        // Every update is published as processed; the other commitments are duplicates.
        if (commitment !== Commitment.processed) return
        if (update.kind === 'blockMeta') this.#add(update)
        else if (update.kind === 'slot' && isCommitment(update.status))
          this.#raise(update.slot, update.status)
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

  stop(): void {
    this.#stopListening()
  }

  #restart(): void {
    this.#bySlot.clear()
    this.#byHash.clear()
    this.#newest = [null, null, null]
  }

  #add(meta: BlockMetaUpdate): void {
    const { slot, blockhash, blockHeight } = meta
    const reached = Commitment.processed
    const block: KnownBlock = { slot, blockhash, blockHeight, reached }
    this.#bySlot.set(slot, block)
    this.#byHash.set(blockhash, block)
    this.#advance(block, Commitment.processed)
    if (this.#bySlot.size <= blocksMax) return
    const oldest = this.#bySlot.values().next().value!
    assert(oldest !== block, 'the newest block is not evicted')
    this.#bySlot.delete(oldest.slot)
    this.#byHash.delete(oldest.blockhash)
  }

  #raise(slot: number, commitment: Commitment): void {
    const block = this.#bySlot.get(slot)
    if (block === undefined) return
    if (commitment > block.reached) block.reached = commitment
    this.#advance(block, commitment)
  }

  /** Also advances the lower commitments, whose own status may have been missed. */
  #advance(block: KnownBlock, commitment: Commitment): void {
    for (let lower = commitment; lower >= Commitment.processed; lower--) {
      const newest = this.#newest[lower] ?? null
      if (newest === null || block.slot > newest.slot) this.#newest[lower] = block
    }
  }
}
