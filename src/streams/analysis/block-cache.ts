// Caches the last executed blocks, for lookup by hash, number or tag.
// Bounded by count, 128 blocks, and by bytes, because a block of ten
// thousand transactions keeps megabytes. Eviction is oldest first. Texts have a bound of their own:
// requests for many of them must not evict blocks.

import { TextCache } from './block-text.ts'
import type { ExecutedBlock } from './executed-block.ts'

const blocksMax = 128
const cacheBytesMax = 192 * 1024 * 1024
const textBytesMax = 64 * 1024 * 1024

export class BlockCache {
  /** In the order in which they ended. */
  readonly #blocks = new Map<string, ExecutedBlock>()
  /** Cache for the texts of the blocks that are added here. */
  readonly texts = new TextCache(textBytesMax)
  #bytes = 0
  #last: ExecutedBlock | null = null

  add(block: ExecutedBlock): void {
    this.#remove(block.blockHash)
    this.#blocks.set(block.blockHash, block)
    this.#last = block
    this.#bytes += block.bytes
    for (const hash of this.#blocks.keys()) {
      if (this.#blocks.size <= blocksMax && this.#bytes <= cacheBytesMax) break
      if (hash !== block.blockHash) this.#remove(hash)
    }
  }

  get(blockHash: string): ExecutedBlock | null {
    return this.#blocks.get(blockHash) ?? null
  }

  /** Every cached proposal of a number, the newest first. */
  ofNumber(number: number): ExecutedBlock[] {
    return [...this.#blocks.values()].filter((block) => block.number === number).reverse()
  }

  /** The block that ended last. */
  last(): ExecutedBlock | null {
    return this.#last
  }

  /** The matching block of the highest number; of several proposals the last that ended. */
  newest(fits: (block: ExecutedBlock) => boolean): ExecutedBlock | null {
    let found: ExecutedBlock | null = null
    for (const block of this.#blocks.values())
      if (fits(block) && (found === null || block.number >= found.number)) found = block
    return found
  }

  earliest(): ExecutedBlock | null {
    let found: ExecutedBlock | null = null
    for (const block of this.#blocks.values())
      if (found === null || block.number < found.number) found = block
    return found
  }

  #remove(hash: string): void {
    const block = this.#blocks.get(hash)
    if (block === undefined) return
    this.#blocks.delete(hash)
    this.#bytes -= block.bytes
    block.drop()
  }
}
