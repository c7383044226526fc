// Tracks the newest block of a hub's chain at each commitment, as a node's own calls show it.
// Confirmed and finalized blocks are on one chain. Processed ones may be forks, and a node shows
// the fork it voted for, which no stream carries: so while the blocks above the confirmed one are
// not a single line, the processed head is unknown.
import { Commitment } from '../../base/commitment.ts'
import { type BlockMetaUpdate, blockhashBlocks, type Head } from '../../chain/solana/updates.ts'
import type { SolanaHub } from '../geyser/hub.ts'

/** Blocks whose hash is known: the window of valid ones, and what is not finalized above it. */
const blocksMax = 512

export class ChainHeads {
  #heads: [Head | null, Head | null, Head | null] = [null, null, null]
  /** Confirmed blocks by their hash, the oldest first. */
  readonly #confirmed = new Map<string, Head>()
  /** Blocks above the confirmed one by their hash. */
  readonly #line = new Map<string, Head>()
  /** A confirmed block at or above it ends the doubt which fork a node is on. */
  #forkedUntil = 0
  /** Called when a head moved. */
  onMove: () => void = () => {}

  constructor(hub: SolanaHub) {
    hub.onRestart(() => this.#restart())
    hub.listen(
      (commitment, update) => {
        if (update.kind === 'blockMeta') this.#add(update, commitment)
      },
      () => false,
    )
  }

  /** Null while it is unknown. */
  at(commitment: Commitment): Head | null {
    if (commitment !== Commitment.processed) return this.#heads[commitment]
    const confirmed = this.#heads[Commitment.confirmed]?.slot ?? -1
    return confirmed < this.#forkedUntil ? null : this.#heads[Commitment.processed]
  }

  /** Null when the hash is not one of the known blocks. */
  isBlockhashValid(blockhash: string, head: Head): boolean | null {
    const block = this.#confirmed.get(blockhash) ?? this.#line.get(blockhash)
    if (block === undefined) return null
    return block.slot <= head.slot && head.blockHeight - block.blockHeight <= blockhashBlocks
  }

  #restart(): void {
    this.#heads = [null, null, null]
    this.#confirmed.clear()
    this.#line.clear()
    this.#forkedUntil = 0
    this.onMove()
  }

  #add(meta: BlockMetaUpdate, commitment: Commitment): void {
    const { slot, blockhash, blockHeight, parentSlot } = meta
    // Some nodes leave it out; no head can be shown then.
    if (blockHeight === null) return
    const block: Head = { slot, blockhash, blockHeight }
    const head = this.#heads[commitment]
    if (commitment === Commitment.processed) {
      if (head !== null && parentSlot !== head.slot) this.#forkedUntil = Math.max(slot, head.slot)
      this.#line.set(blockhash, block)
    }
    if (commitment === Commitment.confirmed) this.#confirm(block)
    if (head !== null && head.slot >= slot) return
    this.#heads[commitment] = block
    this.onMove()
  }

  #confirm(block: Head): void {
    this.#confirmed.set(block.blockhash, block)
    if (this.#confirmed.size > blocksMax)
      this.#confirmed.delete(this.#confirmed.keys().next().value!)
    for (const [blockhash, { slot }] of this.#line)
      if (slot <= block.slot) this.#line.delete(blockhash)
  }
}
