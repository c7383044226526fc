// The chain of a set as its stream shows it, for the shared RPC methods.
// What the stream does not know exactly is noted as missing: then the answer that was built with
// it is not given, and a node is asked.
import { Commitment } from '../../base/commitment.ts'
import type { RpcError } from '../../base/jsonrpc/build.ts'
import { encodeBase58 } from '../../chain/solana/base58.ts'
import type { AccountState } from '../../chain/solana/geyser-content.ts'
import {
  decodeMessageOf,
  decodePlainRewards,
  decodeTransactionInfo,
} from '../../chain/solana/geyser-decode.ts'
import { decodeTransactionError } from '../../chain/solana/transaction-error.ts'
import {
  type BlockMetaUpdate,
  blockhashBlocks,
  type Head,
  type SignatureStatus,
  type SolanaUpdate,
} from '../../chain/solana/updates.ts'
import type {
  AccountReads,
  FeeReads,
  HistoryReads,
  Landed,
  LandedBlock,
  LatestBlockhash,
  SlotReads,
} from '../../chain/solana-rpc/chain-reads.ts'
import { rpcFaults } from '../../chain/solana-rpc/errors.ts'
import { transactionsPerTurn } from '../../chain/solana-rpc/history-methods.ts'
import { type BlockFee, RecentFees } from '../../chain/solana-rpc/recent-fees.ts'
import type { Heads } from '../geyser/heads.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import type { AccountCache } from './account-cache.ts'
import type { RecentBlock, RecentBlocks } from './recent-blocks.ts'

/**
 * Below the 300 slots of a node's status cache, and the slots by which it may be ahead of us: slots
 * at any slot time, as the node counts them.
 */
const statusSlots = 256

const unknown: Head = { slot: 0, blockhash: '', blockHeight: 0 }

export class StreamLedger implements SlotReads, AccountReads, HistoryReads, FeeReads {
  readonly #heads: Heads
  readonly #accounts: AccountCache
  readonly #blocks: RecentBlocks
  readonly #fees: StreamFees
  /** What the call read so far; null before its first read. */
  #commitment: Commitment | null = null
  #isMissing = false

  constructor(known: {
    readonly heads: Heads
    readonly accounts: AccountCache
    readonly blocks: RecentBlocks
    readonly fees: StreamFees
  }) {
    this.#heads = known.heads
    this.#accounts = known.accounts
    this.#blocks = known.blocks
    this.#fees = known.fees
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
    const isValid = this.#heads.isShownValid(encodeBase58(blockhash), head)
    if (isValid === null) this.miss()
    return isValid === true
  }

  account(pubkey: Uint8Array, commitment: Commitment): AccountState | null {
    const { slot } = this.#head(commitment)
    const isProcessed = commitment === Commitment.processed
    const accounts = this.#accounts
    const account = isProcessed ? accounts.readProcessed(pubkey, slot) : accounts.read(pubkey, slot)
    if (account === undefined) this.miss()
    return account ?? null
  }

  prioritizationFees(accounts: readonly Uint8Array[], isPaid: boolean): readonly BlockFee[] {
    this.#head(Commitment.confirmed)
    const fees = this.#fees.read(accounts, isPaid)
    if (fees === null) this.miss()
    return fees ?? []
  }

  /**
   * Only void and finalized ones: how far an earlier one is confirmed depends on the votes that a
   * node saw.
   */
  signatureStatus(signature: Uint8Array): SignatureStatus | null {
    const found = this.#blocks.find(signature)
    if (found === null && this.#blocks.isVoid(signature)) return null
    const { slot } = found?.block.meta ?? unknown
    const error = found?.block.error(found.at) ?? null
    const err = error === null ? null : decodeTransactionError(error)
    const isKnown = found?.block.isFinalized === true && (error === null) === (err === null)
    if (!isKnown || slot < this.#head(Commitment.processed).slot - statusSlots) this.miss()
    return { slot, confirmations: null, err, commitment: Commitment.finalized }
  }

  landed(signature: Uint8Array, commitment: Commitment): Landed | null {
    const found = this.#blocks.find(signature)
    const info = found?.block.info(found.at) ?? null
    if (found === null || info === null || !hasReached(found.block, commitment)) {
      this.miss()
      return null
    }
    const { slot, blockTime } = found.block.meta
    return { slot, index: found.at, blockTime: blockTime!, content: decodeTransactionInfo(info) }
  }

  landedBlock(slot: number | bigint, commitment: Commitment): LandedBlock | RpcError {
    const block = typeof slot === 'bigint' ? null : this.#blocks.at(slot)
    const rewards = block === null ? null : decodePlainRewards(block.meta.rewards)
    if (block === null || rewards === null || !hasReached(block, commitment)) {
      this.miss()
      return rpcFaults.blockNotAvailable(slot)
    }
    const { parentSlot, blockhash, parentBlockhash, blockHeight, blockTime } = block.meta
    return {
      parentSlot,
      blockhash,
      previousBlockhash: parentBlockhash,
      blockHeight: blockHeight!,
      blockTime: blockTime!,
      rewards,
      transactions: () => this.#transactionsOf(block),
      signatures: () => Array.from({ length: block.length }, (_, at) => block.signature(at)),
    }
  }

  /** Of a short block: the main thread passes on a node's text of a long one faster than it
   *  encodes that. */
  #transactionsOf(block: RecentBlock): ReturnType<LandedBlock['transactions']> {
    const length = Math.min(block.length, transactionsPerTurn + 1)
    const infos = Array.from({ length }, (_, at) => block.info(at))
    if (length <= transactionsPerTurn && infos.every((info) => info !== null))
      return infos.map((info) => ({ content: decodeTransactionInfo(info) }))
    this.miss()
    return []
  }

  #head(commitment: Commitment): Head {
    this.#commitment = commitment
    const head = this.#heads.shownAt(commitment)
    if (head === null) this.miss()
    return head ?? unknown
  }
}

function hasReached(block: RecentBlock, commitment: Commitment): boolean {
  return block.isFinalized || commitment !== Commitment.finalized
}

// Follows the fee rates of confirmed blocks, as the caches of nodes do, once they were asked for.
// A node answers until the last blocks are known without a gap: then its own cache has the same.

export class StreamFees {
  /** Null until it is asked. */
  #recent: RecentFees | null = null
  #isPaid = false
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
        const recent = this.#recent
        if (recent !== null && commitment === Commitment.confirmed) this.#confirm(recent, update)
      },
      (commitment) => this.#recent !== null && commitment === Commitment.confirmed,
    )
  }

  /** Null when a node has to answer. Nodes of another version with other rates begin anew. */
  read(accounts: readonly Uint8Array[], isPaid: boolean): readonly BlockFee[] | null {
    if (this.#recent === null || isPaid !== this.#isPaid) {
      this.#recent = new RecentFees(isPaid)
      this.#isPaid = isPaid
      this.#newestSlot = null
      this.#begin(0)
    }
    return this.#recent.isFull ? this.#recent.read(accounts) : null
  }

  #confirm(recent: RecentFees, update: SolanaUpdate): void {
    if (update.kind === 'transaction') {
      if (update.slot !== this.#open.slot) this.#begin(update.slot)
      this.#open.transactions++
      if (update.isVote) return
      const { message, loaded } = decodeMessageOf(update.info)
      recent.land(message, loaded)
    } else if (update.kind === 'block') this.#add(recent, update.meta)
    // A meta without its block: some of its transactions were lost.
    else if (update.kind === 'blockMeta' && update.slot > (this.#newestSlot ?? 0)) this.#forget()
  }

  #add(recent: RecentFees, { slot, parentSlot, executedTransactionCount }: BlockMetaUpdate): void {
    if (this.#newestSlot !== null && slot <= this.#newestSlot) return
    if (this.#open.slot !== slot) this.#begin(slot)
    if (this.#open.transactions !== executedTransactionCount) {
      this.#forget()
      return
    }
    if (parentSlot !== this.#newestSlot) recent.clear()
    recent.close(slot)
    this.#newestSlot = slot
  }

  #begin(slot: number): void {
    this.#open = { slot, transactions: 0 }
    this.#recent?.reset()
  }

  #forget(): void {
    this.#newestSlot = null
    this.#recent?.clear()
  }
}
