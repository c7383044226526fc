// What one node of a cluster has seen of the chain: its stream, and the ledger up to its heads.
// Thread: main of the devnode.
import { Commitment, isCommitment } from '../../base/commitment.ts'
import {
  type BlockMetaUpdate,
  blockhashBlocks,
  type SignatureStatus,
  type SolanaUpdate,
  slotStatus,
} from '../../chain/solana/updates.ts'
import type { LatestBlockhash } from '../../chain/solana-rpc/chain-reads.ts'
import type { BlockFee } from '../../chain/solana-rpc/recent-fees.ts'
import { Heads } from '../../streams/geyser/heads.ts'
import { openSolanaHub, publishUpdate } from '../../streams/geyser/hub.ts'
import type { Block } from '../ledger/block.ts'
import type { EpochSchedule } from '../ledger/epoch-schedule.ts'
import type {
  Ledger,
  LedgerAccount,
  LedgerTransaction,
  PerformanceSample,
  SignatureInfo,
  SignatureRange,
  TokenIndex,
} from '../ledger/ledger.ts'
import type { LedgerState } from '../ledger/state.ts'
import { slotsAhead } from './node-script.ts'
import type { ClusterPlan } from './plan.ts'
import { otherHash, type VoidBlocks } from './void-blocks.ts'

export class NodeView {
  readonly hub = openSolanaHub()
  readonly heads = new Heads(this.hub)
  readonly #voids: VoidBlocks
  /** Slots with a bank that are not finalized. */
  readonly #banks = new Set<number>()
  readonly #slots: [processed: number, confirmed: number, finalized: number] = [0, 0, 0]
  /** The last block of the vote-only phase of a migration, until its slots are used again. */
  #stall: BlockMetaUpdate | null = null

  constructor(voids: VoidBlocks) {
    this.#voids = voids
  }

  /** The newest block of the chain that reached the node at a commitment. */
  slot(commitment: Commitment): number {
    return this.#slots[commitment]
  }

  get stall(): BlockMetaUpdate | null {
    return this.#stall
  }

  /** The node has seen everything up to this slot. */
  settle(slot: number): void {
    this.#slots.fill(slot)
  }

  deliver(update: SolanaUpdate): void {
    if (update.kind === 'slot' && update.status === slotStatus.createdBank) {
      // The bank before is void: what it had is never confirmed.
      if (this.#banks.has(update.slot)) this.hub.replaceBank(update.slot)
      this.#banks.add(update.slot)
    }
    publishUpdate(this.hub, update)
    if (this.#voids.isVoid(update)) {
      this.#stall = this.#voids.stallHead(update) ?? this.#stall
      return
    }
    if (this.#stall !== null && update.slot <= this.#stall.slot) this.#stall = null
    if (update.kind !== 'slot' || !isCommitment(update.status)) return
    this.#slots[update.status] = Math.max(this.#slots[update.status], update.slot)
    if (update.status === slotStatus.finalized) this.#forget(update.slot)
  }

  stop(): void {
    this.heads.stop()
  }

  /** Forks below a finalized slot never get there. */
  #forget(finalized: number): void {
    for (const slot of this.#banks) {
      if (slot > finalized) continue
      if (slot < finalized) this.hub.abandon(slot)
      this.#banks.delete(slot)
    }
  }
}

/** The chain's ledger up to the heads of a node, which may lie about them. */
export class LedgerView implements Ledger {
  readonly genesisHash: string
  readonly identity: string
  readonly faucet: string
  readonly #ledger: LedgerState
  readonly #view: NodeView
  readonly #plan: ClusterPlan
  readonly #ahead: number
  readonly #isOtherHash: boolean

  constructor(
    ledger: LedgerState,
    of: {
      readonly view: NodeView
      readonly plan: ClusterPlan
      readonly node: number
      readonly identity: string
    },
  ) {
    const { view, plan, node, identity } = of
    this.#ledger = ledger
    this.#view = view
    this.#plan = plan
    this.identity = identity
    this.faucet = ledger.faucet
    const isOtherGenesis = plan.lies('lie-genesis', node)
    this.genesisHash = isOtherGenesis ? otherHash(ledger.genesisHash) : ledger.genesisHash
    this.#ahead = plan.lies('lie-slot', node) ? slotsAhead : 0
    this.#isOtherHash = plan.lies('lie-blockhash', node)
  }

  get epochSchedule(): EpochSchedule {
    return this.#ledger.epochSchedule
  }

  get firstAvailableSlot(): number {
    return this.#ledger.firstAvailableSlot
  }

  slot(commitment: Commitment): number {
    const stall = commitment === Commitment.processed ? this.#view.stall : null
    return (stall?.slot ?? this.#view.slot(commitment)) + this.#ahead
  }

  /** A node shows complete blocks only: those it voted for. */
  stateSlot(commitment: Commitment): number {
    return this.slot(commitment)
  }

  blockHeight(commitment: Commitment): number {
    const stall = commitment === Commitment.processed ? this.#view.stall : null
    return stall?.blockHeight ?? this.#block(commitment).blockHeight
  }

  latestBlockhash(commitment: Commitment): LatestBlockhash {
    const { blockhash } = this.#block(commitment)
    return {
      blockhash: this.#isOtherHash ? otherHash(blockhash) : blockhash,
      slot: this.slot(commitment),
      lastValidBlockHeight: this.blockHeight(commitment) + blockhashBlocks,
    }
  }

  isBlockhashValid(blockhash: Uint8Array, commitment: Commitment): boolean {
    return this.#ledger.isBlockhashValidAt(blockhash, this.#block(commitment).blockHeight)
  }

  transactionCount(commitment: Commitment): number {
    return this.#block(commitment).facts.transactionsTotal
  }

  supply(commitment: Commitment): bigint {
    return this.#block(commitment).facts.supply
  }

  rentExemptMinimum(dataBytes: number): bigint {
    return this.#ledger.rentExemptMinimum(dataBytes)
  }

  account(pubkey: Uint8Array, commitment: Commitment): LedgerAccount | null {
    return this.#ledger.accountAt(pubkey, this.#view.slot(commitment))
  }

  accountsByOwner(owner: Uint8Array, commitment: Commitment): IterableIterator<LedgerAccount> {
    return this.#ledger.indexedAt('program', owner, this.#view.slot(commitment))
  }

  tokenAccounts(
    index: TokenIndex,
    key: Uint8Array,
    commitment: Commitment,
  ): IterableIterator<LedgerAccount> {
    return this.#ledger.indexedAt(index, key, this.#view.slot(commitment))
  }

  accounts(commitment: Commitment): IterableIterator<LedgerAccount> {
    return this.#ledger.accountsAt(this.#view.slot(commitment))
  }

  block(slot: number): Block | null {
    return this.#isSeen(slot) ? this.#ledger.block(slot) : null
  }

  blockSlots(
    range: { readonly from: number; readonly to: number; readonly limit: number },
    commitment: Commitment,
  ): number[] {
    const to = Math.min(range.to, this.#view.slot(commitment))
    return this.#ledger.blockSlots({ ...range, to }, Commitment.processed)
  }

  blockCommitment(slot: number): Commitment | null {
    const reached = this.#ledger.blockCommitment(slot)
    return reached === null || !this.#isSeen(slot) ? null : this.#commitmentOf(slot)
  }

  transaction(signature: Uint8Array): LedgerTransaction | null {
    const found = this.#ledger.transaction(signature)
    return found !== null && this.#isSeen(found.slot) ? found : null
  }

  signatureStatus(signature: Uint8Array): SignatureStatus | null {
    const found = this.#ledger.signatureStatus(signature)
    if (found === null || !this.#isSeen(found.slot)) return null
    const { slot, err } = found
    const commitment = this.#commitmentOf(slot)
    const depth = this.#view.slot(Commitment.processed) - slot
    const votes = this.#plan.isMigrated(slot) ? 0 : depth
    return {
      slot,
      confirmations: commitment === Commitment.finalized ? null : votes,
      err,
      commitment,
    }
  }

  signaturesForAddress(address: Uint8Array, options: SignatureRange): SignatureInfo[] {
    const newestSlot = this.#view.slot(options.commitment)
    return this.#ledger
      .signaturesUpTo(address, { ...options, newestSlot })
      .map((info) => ({ ...info, commitment: this.#commitmentOf(info.slot) }))
  }

  prioritizationFees(accounts: readonly Uint8Array[], isPaid: boolean): BlockFee[] {
    const fees = this.#ledger.prioritizationFees(accounts, isPaid)
    return fees.filter(({ slot }) => slot <= this.#view.slot(Commitment.confirmed))
  }

  performanceSamples(limit: number): PerformanceSample[] {
    return this.#ledger.performanceSamples(limit)
  }

  #block(commitment: Commitment): Block {
    return this.#ledger.block(this.#view.slot(commitment))!
  }

  #isSeen(slot: number): boolean {
    return slot <= this.#view.slot(Commitment.processed)
  }

  #commitmentOf(slot: number): Commitment {
    const { processed, confirmed, finalized } = Commitment
    if (slot <= this.#view.slot(finalized)) return finalized
    return slot <= this.#view.slot(confirmed) ? confirmed : processed
  }
}
