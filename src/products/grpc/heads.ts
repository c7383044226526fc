// What the unary methods say of the chain: its newest slot, block and blockhashes per commitment.
// Thread: main. Hears stream/hub.ts from the start of the product on; read by handle.ts.
import type { BlockMetaUpdate, Commitment, SolanaUpdate } from '../../chain/ports.ts'
import { slotStatus } from '../../chain/ports.ts'
import type { Hub } from '../../stream/hub.ts'

/** Blocks after which a transaction that names a blockhash is refused by the chain. */
export const blockhashBlocks = 150
/** Blocks remembered: the window, and those above it that are not finalized yet. */
const blocksMax = 512

export interface Head {
  readonly slot: number
  readonly blockhash: string
  readonly blockHeight: number
}

interface KnownBlock extends Head {
  /** The surest level the block has reached. */
  reached: Commitment
}

export class Heads {
  readonly #bySlot = new Map<number, KnownBlock>()
  readonly #byHash = new Map<string, KnownBlock>()
  readonly #newest: [KnownBlock | null, KnownBlock | null, KnownBlock | null] = [null, null, null]
  readonly #stopListening: () => void

  constructor(hub: Hub<SolanaUpdate>) {
    this.#stopListening = hub.listen((lane, update) => {
      // Everything is told on the first lane; the others only repeat it.
      if (lane !== 0) return
      if (update.kind === 'blockMeta') this.#learn(update)
      else if (update.kind === 'slot' && update.status <= slotStatus.finalized)
        this.#raise(update.slot, update.status as Commitment)
    })
  }

  /** The newest block that is at least so sure; null before the first. */
  at(commitment: Commitment): Head | null {
    return this.#newest[commitment]
  }

  /** Whether a transaction with this blockhash could still land on the chain as it is so surely. */
  isValid(blockhash: string, commitment: Commitment): boolean {
    const block = this.#byHash.get(blockhash)
    const head = this.#newest[commitment]
    if (block === undefined || head === null || block.reached < commitment) return false
    return head.blockHeight - block.blockHeight <= blockhashBlocks
  }

  stop(): void {
    this.#stopListening()
  }

  #learn(meta: BlockMetaUpdate): void {
    const { slot, blockhash } = meta
    const block: KnownBlock = { slot, blockhash, blockHeight: meta.blockHeight ?? slot, reached: 0 }
    this.#bySlot.set(slot, block)
    this.#byHash.set(blockhash, block)
    this.#lift(block, 0)
    if (this.#bySlot.size <= blocksMax) return
    const oldest = this.#bySlot.values().next().value!
    this.#bySlot.delete(oldest.slot)
    this.#byHash.delete(oldest.blockhash)
  }

  #raise(slot: number, level: Commitment): void {
    const block = this.#bySlot.get(slot)
    if (block === undefined || level === 0) return
    if (level > block.reached) block.reached = level
    this.#lift(block, level)
  }

  /** A finalized block is confirmed too, should its confirmation have been missed. */
  #lift(block: KnownBlock, level: Commitment): void {
    for (let lower = level; lower >= 0; lower--) {
      const newest = this.#newest[lower] ?? null
      if (newest === null || block.slot > newest.slot) this.#newest[lower] = block
    }
  }
}
