// The chain of a set as its stream shows it, for the shared RPC methods. Thread: main.
// What the stream does not know exactly is noted as missing: then the answer that was built with
// it is not given, and a node is asked.
import { Commitment } from '../base/commitment.ts'
import { encodeBase58 } from '../solana/base58.ts'
import type { AccountState } from '../solana/geyser-content.ts'
import { blockhashBlocks, type Head } from '../solana/updates.ts'
import type { AccountReads, LatestBlockhash, SlotReads } from '../solana-rpc/chain-reads.ts'
import type { AccountCache } from './account-cache.ts'
import type { ChainHeads } from './chain-heads.ts'

const unknown: Head = { slot: 0, blockhash: '', blockHeight: 0 }

export class StreamLedger implements SlotReads, AccountReads {
  readonly #heads: ChainHeads
  readonly #accounts: AccountCache
  /** What the call read so far; null before its first read. */
  #commitment: Commitment | null = null
  #isMissing = false

  constructor(heads: ChainHeads, accounts: AccountCache) {
    this.#heads = heads
    this.#accounts = accounts
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

  /** Not at processed: validators show a complete slot there, the devnode its open one. */
  account(pubkey: Uint8Array, commitment: Commitment): AccountState | null {
    const { slot } = this.#head(commitment)
    const isProcessed = commitment === Commitment.processed
    const account = isProcessed ? undefined : this.#accounts.read(pubkey, slot)
    if (account === undefined) this.miss()
    return account ?? null
  }

  #head(commitment: Commitment): Head {
    this.#commitment = commitment
    const head = this.#heads.at(commitment)
    if (head === null) this.miss()
    return head ?? unknown
  }
}
