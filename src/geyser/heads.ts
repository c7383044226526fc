// What a hub's updates say of its chain: newest slot, block and blockhashes per commitment.
// Thread: main. Hears stream/hub.ts from its opening on; read by the gRPC door and the tpu.
import type { BlockMetaUpdate, Commitment, Head, SolanaHeads } from '../solana/updates.ts'
import { blockhashBlocks, slotStatus } from '../solana/updates.ts'
import type { SolanaHub } from './hub.ts'

/** Blocks remembered: the window, and those above it that are not finalized yet. */
const blocksMax = 512

interface KnownBlock extends Head {
  /** The surest level the block has reached. */
  reached: Commitment
}

export class Heads implements SolanaHeads {
  readonly #bySlot = new Map<number, KnownBlock>()
  readonly #byHash = new Map<string, KnownBlock>()
  readonly #newest: [KnownBlock | null, KnownBlock | null, KnownBlock | null] = [null, null, null]
  readonly #stopListening: () => void

  constructor(hub: SolanaHub) {
    this.#stopListening = hub.listen((lane, update) => {
      // Everything is told on the first lane; the others only repeat it.
      if (lane !== 0) return
      if (update.kind === 'blockMeta') this.#learn(update)
      else if (update.kind === 'slot' && update.status <= slotStatus.finalized)
        this.#raise(update.slot, update.status as Commitment)
    })
  }

  at(commitment: Commitment): Head | null {
    return this.#newest[commitment]
  }

  isBlockhashValid(blockhash: string, commitment: Commitment): boolean {
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
