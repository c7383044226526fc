// Follows the fee rates of confirmed blocks, as the caches of nodes do, once they were asked for.
// A node answers until the last blocks are known without a gap: then its own cache has the same.
import { Commitment } from '../../base/commitment.ts'
import { decodeMessageOf } from '../../chain/solana/geyser-decode.ts'
import type { BlockMetaUpdate, SolanaUpdate } from '../../chain/solana/updates.ts'
import { type BlockFee, RecentFees } from '../../chain/solana-rpc/recent-fees.ts'
import type { SolanaHub } from '../geyser/hub.ts'

export class StreamFees {
  readonly #recent = new RecentFees()
  #isAsked = false
  /** Of the slot that is being confirmed. */
  #open = { slot: 0, transactions: 0 }
  /** Slot of the newest block; null after a gap. */
  #newestSlot: number | null = null

  constructor(hub: SolanaHub) {
    hub.onRestart(() => {
      this.#begin(0)
      this.#forget()
    })
    hub.listen(
      (commitment, update) => {
        if (this.#isAsked && commitment === Commitment.confirmed) this.#confirm(update)
      },
      (commitment) => this.#isAsked && commitment === Commitment.confirmed,
    )
  }

  /** Null when a node has to answer. */
  read(accounts: readonly Uint8Array[]): readonly BlockFee[] | null {
    this.#isAsked = true
    return this.#recent.isFull ? this.#recent.read(accounts) : null
  }

  #confirm(update: SolanaUpdate): void {
    if (update.kind === 'transaction') {
      if (update.slot !== this.#open.slot) this.#begin(update.slot)
      this.#open.transactions++
      if (update.isVote) return
      const { message, loaded } = decodeMessageOf(update.info)
      this.#recent.land(message, loaded)
    } else if (update.kind === 'block') this.#add(update.meta)
    // A meta without its block: some of its transactions were lost.
    else if (update.kind === 'blockMeta' && update.slot > (this.#newestSlot ?? 0)) this.#forget()
  }

  #add({ slot, parentSlot, executedTransactionCount }: BlockMetaUpdate): void {
    if (this.#newestSlot !== null && slot <= this.#newestSlot) return
    if (this.#open.slot !== slot) this.#begin(slot)
    if (this.#open.transactions !== executedTransactionCount) {
      this.#forget()
      return
    }
    if (parentSlot !== this.#newestSlot) this.#recent.clear()
    this.#recent.close(slot)
    this.#newestSlot = slot
  }

  #begin(slot: number): void {
    this.#open = { slot, transactions: 0 }
    this.#recent.reset()
  }

  #forget(): void {
    this.#newestSlot = null
    this.#recent.clear()
  }
}
