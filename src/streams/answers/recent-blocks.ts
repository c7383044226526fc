// Keeps the confirmed blocks of the last slots with their transactions.
// Only complete blocks: what is found here is exact; what is not found may still exist.
// Bounded by slots and bytes: the transactions of the oldest block go first, then whole blocks.
//
//   newest ─► | block, transactions | … | block without its transactions | … ─► oldest
import { assert } from '../../base/assert.ts'
import { Commitment } from '../../base/commitment.ts'
import type { BlockMetaUpdate, SolanaUpdate } from '../../chain/solana/updates.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import { type Landing, RecentBlock, signatureHash } from './recent-block.ts'

/** A validator's own cache of statuses reaches as far back. */
const windowSlots = 300

export class RecentBlocks {
  readonly #bytesMax: number
  /** Ascending by slot. */
  readonly #blocks: RecentBlock[] = []
  /** What was confirmed of a slot before its block. */
  #landings: Landing[] = []
  #landingSlot = 0
  #bytes = 0

  constructor(hub: SolanaHub, { bytesMax }: { readonly bytesMax: number }) {
    this.#bytesMax = bytesMax
    if (bytesMax === 0) return
    hub.onRestart(() => {
      this.#blocks.length = 0
      this.#bytes = 0
      this.#begin(0)
    })
    hub.listen(
      (commitment, update) => {
        if (commitment === Commitment.confirmed) this.#confirm(update)
        else if (commitment === Commitment.finalized && update.kind === 'blockMeta') {
          const block = this.at(update.slot)
          if (block !== null) block.isFinalized = true
        }
      },
      (commitment) => commitment === Commitment.confirmed,
    )
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Null for a slot without a block here. */
  at(slot: number): RecentBlock | null {
    return this.#blocks.findLast(({ meta }) => meta.slot === slot) ?? null
  }

  /** The block of a transaction, and its position there. */
  find(signature: Uint8Array): { readonly block: RecentBlock; readonly at: number } | null {
    const hash = signatureHash(signature)
    for (let last = this.#blocks.length - 1; last >= 0; last--) {
      const block = this.#blocks[last]!
      const at = block.find(signature, hash)
      if (at !== -1) return { block, at }
    }
    return null
  }

  #confirm(update: SolanaUpdate): void {
    if (update.kind === 'transaction') {
      const { slot, index, signature, err, info } = update
      if (slot !== this.#landingSlot) this.#begin(slot)
      this.#landings.push({ index, signature, err, info })
    } else if (update.kind === 'block') {
      const landings = update.slot === this.#landingSlot ? this.#landings : []
      this.#begin(0)
      this.#add(update.meta, landings)
    } else if (update.kind === 'blockMeta') this.#begin(0)
  }

  #begin(slot: number): void {
    this.#landingSlot = slot
    this.#landings = []
  }

  #add(meta: BlockMetaUpdate, landings: readonly Landing[]): void {
    // Some nodes leave these out; such a block cannot be shown.
    if (meta.blockHeight === null || meta.blockTime === null) return
    if (landings.length !== meta.executedTransactionCount) return
    if (meta.slot <= (this.#blocks.at(-1)?.meta.slot ?? -1)) return
    const block = new RecentBlock(meta, landings)
    this.#blocks.push(block)
    this.#bytes += block.indexBytes + block.contentBytes
    this.#trim(meta.slot - windowSlots)
  }

  #trim(oldestSlot: number): void {
    while (this.#blocks[0]!.meta.slot < oldestSlot) this.#removeOldest()
    for (const block of this.#blocks) {
      if (this.#bytes <= this.#bytesMax) return
      this.#bytes -= block.contentBytes
      block.dropContent()
    }
    while (this.#bytes > this.#bytesMax) this.#removeOldest()
  }

  #removeOldest(): void {
    const { indexBytes, contentBytes } = this.#blocks.shift()!
    this.#bytes -= indexBytes + contentBytes
    assert(this.#bytes >= 0, 'the bytes of the blocks are counted')
  }
}
