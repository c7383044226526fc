// What one node of a cluster has seen of the chain: its stream, and the ledger up to its heads.
// Thread: main of the devnode.
import { Commitment, isCommitment } from '../../base/commitment.ts'
import { type BlockMetaUpdate, type SolanaUpdate, slotStatus } from '../../chain/solana/updates.ts'
import type { LatestBlockhash } from '../../chain/solana-rpc/chain-reads.ts'
import type { BlockFee } from '../../chain/solana-rpc/recent-fees.ts'
import { Heads, openSolanaHub, publishUpdate } from '../../streams/geyser/hub.ts'
import type { EpochSchedule } from '../ledger/epoch-schedule.ts'
import type { PerformanceSample } from '../ledger/ledger.ts'
import { LedgerReads, type LedgerState } from '../ledger/state.ts'
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
export class LedgerView extends LedgerReads {
  readonly genesisHash: string
  readonly identity: string
  readonly faucet: string
  protected readonly state: LedgerState
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
    super()
    const { view, plan, node, identity } = of
    this.state = ledger
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
    return this.state.epochSchedule
  }

  get firstAvailableSlot(): number {
    return this.state.firstAvailableSlot
  }

  slot(commitment: Commitment): number {
    const stall = commitment === Commitment.processed ? this.#view.stall : null
    return (stall?.slot ?? this.#view.slot(commitment)) + this.#ahead
  }

  /** A node shows complete blocks only: those it voted for. */
  stateSlot(commitment: Commitment): number {
    return this.slot(commitment)
  }

  override blockHeight(commitment: Commitment): number {
    const stall = commitment === Commitment.processed ? this.#view.stall : null
    return stall?.blockHeight ?? super.blockHeight(commitment)
  }

  override latestBlockhash(commitment: Commitment): LatestBlockhash {
    const latest = super.latestBlockhash(commitment)
    return this.#isOtherHash ? { ...latest, blockhash: otherHash(latest.blockhash) } : latest
  }

  prioritizationFees(accounts: readonly Uint8Array[], isPaid: boolean): BlockFee[] {
    const fees = this.state.prioritizationFees(accounts, isPaid)
    return fees.filter(({ slot }) => slot <= this.#view.slot(Commitment.confirmed))
  }

  performanceSamples(limit: number): PerformanceSample[] {
    return this.state.performanceSamples(limit)
  }

  protected shownSlot(commitment: Commitment): number {
    return this.#view.slot(commitment)
  }

  protected head(commitment: Commitment): number {
    return this.#view.slot(commitment)
  }

  protected override votesOn(slot: number): number {
    return this.#plan.isMigrated(slot) ? 0 : super.votesOn(slot)
  }
}
