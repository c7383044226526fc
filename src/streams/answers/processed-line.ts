// Tracks the complete blocks above the confirmed one, and which of them are one line of parents.
import type { BlockUpdate } from '../../chain/solana/updates.ts'

export interface BlockName {
  readonly slot: number
  readonly blockhash: string
}

interface Child extends BlockName {
  /** Null when its writes are in doubt. */
  readonly parent: BlockName | null
}

/** A healthy chain has two. */
const blocksMax = 1_024

export class ProcessedLine {
  readonly #blocks = new Map<number, Child>()

  add({ slot, meta, isMixed = false }: BlockUpdate): void {
    const { blockhash, parentSlot, parentBlockhash } = meta
    // Published twice: it was replaced by another one.
    const isDoubtful = isMixed || this.#blocks.has(slot)
    const parent = isDoubtful ? null : { slot: parentSlot, blockhash: parentBlockhash }
    this.#blocks.set(slot, { slot, blockhash, parent })
    if (this.#blocks.size > blocksMax) this.#blocks.delete(this.#blocks.keys().next().value!)
  }

  /** A write of a slot: after its block it is late, or of another version of the block. */
  written(slot: number): void {
    const block = this.#blocks.get(slot)
    if (block !== undefined && block.parent !== null)
      this.#blocks.set(slot, { ...block, parent: null })
  }

  confirmed(slot: number): void {
    for (const at of this.#blocks.keys()) if (at <= slot) this.#blocks.delete(at)
  }

  clear(): void {
    this.#blocks.clear()
  }

  /** The slots from `slot` down to the confirmed block, without that; null when unknown. */
  down(slot: number, confirmed: BlockName): number[] | null {
    const slots: number[] = []
    let at: BlockName = this.#blocks.get(slot) ?? confirmed
    if (at.slot !== slot) return null
    while (at.slot > confirmed.slot) {
      const block = this.#blocks.get(at.slot)
      if (block === undefined || block.parent === null || block.blockhash !== at.blockhash)
        return null
      slots.push(at.slot)
      at = block.parent
    }
    return at.slot === confirmed.slot && at.blockhash === confirmed.blockhash ? slots : null
  }
}
