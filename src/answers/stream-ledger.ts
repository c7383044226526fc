// The chain of a set as its stream shows it, for the shared RPC methods. Thread: main.
// What the stream does not know exactly is noted as missing: then the answer that was built with
// it is not given, and a node is asked.
import type { Commitment } from '../base/commitment.ts'
import { encodeBase58 } from '../solana/base58.ts'
import { blockhashBlocks, type Head } from '../solana/updates.ts'
import type { LatestBlockhash, SlotReads } from '../solana-rpc/chain-reads.ts'
import type { ChainHeads } from './chain-heads.ts'

const unknown: Head = { slot: 0, blockhash: '', blockHeight: 0 }

export class StreamLedger implements SlotReads {
  readonly #heads: ChainHeads
  /** What the call read so far; null before its first read. */
  #commitment: Commitment | null = null
  #isMissing = false

  constructor(heads: ChainHeads) {
    this.#heads = heads
  }

  /** Before each call. */
  begin(): void {
    this.#commitment = null
    this.#isMissing = false
  }

  /** Where the call read; null when something was missing. */
  view(): { readonly commitment: Commitment; readonly slot: number } | null {
    const commitment = this.#commitment
    if (this.#isMissing || commitment === null) return null
    return { commitment, slot: this.#head(commitment).slot }
  }

  /** Notes that the answer cannot be given. */
  miss(): void {
    this.#isMissing = true
  }

  slot(commitment: Commitment): number {
    return this.#head(commitment).slot
  }

  stateSlot(commitment: Commitment): number {
    return this.#head(commitment).slot
  }

  blockHeight(commitment: Commitment): number {
    return this.#head(commitment).blockHeight
  }

  latestBlockhash(commitment: Commitment): LatestBlockhash {
    const { blockhash, slot, blockHeight } = this.#head(commitment)
    return { blockhash, slot, lastValidBlockHeight: blockHeight + blockhashBlocks }
  }

  isBlockhashValid(blockhash: Uint8Array, commitment: Commitment): boolean {
    const head = this.#head(commitment)
    const isValid = this.#heads.isBlockhashValid(encodeBase58(blockhash), head)
    if (isValid === null) this.miss()
    return isValid === true
  }

  #head(commitment: Commitment): Head {
    this.#commitment = commitment
    const head = this.#heads.at(commitment)
    if (head === null) this.miss()
    return head ?? unknown
  }
}
