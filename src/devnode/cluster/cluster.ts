// The nodes of a cluster: one chain, and for each node its own script, delay and view.
// Thread: main of the devnode.
//
//   chain ─► encoded once ─► script of node 1 ─► delay ─► view: hub, heads, ledger up to them
//                       └──► script of node 2 ─► delay ─► view
import { hash } from 'node:crypto'
import type { Clock } from '../../base/clock.ts'
import { Commitment, isCommitment } from '../../base/commitment.ts'
import { encodeBase58 } from '../../chain/solana/base58.ts'
import { type BlockMetaUpdate, type SolanaUpdate, slotStatus } from '../../chain/solana/updates.ts'
import type { LatestBlockhash } from '../../chain/solana-rpc/chain-reads.ts'
import type { BlockFee } from '../../chain/solana-rpc/recent-fees.ts'
import { Heads, openSolanaHub, publishUpdate } from '../../streams/geyser/hub.ts'
import { alpenglowBatches, type BlockPoint } from '../block-markers.ts'
import { identityOf } from '../genesis.ts'
import type { EpochSchedule, PerformanceSample } from '../ledger/ledger.ts'
import { LedgerReads, type LedgerState } from '../ledger/state.ts'
import { encodeEntries, type ShredScript } from '../shred-feed.ts'
import { NodeScript, otherHash, slotsAhead, VoidBlocks, voidEntry } from './node-script.ts'
import { type ClusterOptions, ClusterPlan } from './plan.ts'

/** Slots that one step of the chain skips at most; a jump skips more, in no time. */
const skippedMax = 8

interface ClusterNode {
  readonly identity: string
  readonly script: NodeScript
  readonly outbox: Outbox
  readonly view: NodeView
}

export class ChainCluster {
  readonly plan: ClusterPlan
  readonly nodes: readonly ClusterNode[]
  readonly #voids: VoidBlocks
  readonly #clock: Clock
  readonly #slotMs: number
  #isLive = false
  #open = { slot: 0, parent: 0, ticks: 0 }
  #newest: BlockMetaUpdate | null = null
  #parent: BlockMetaUpdate | null = null
  /** What the chain did during the vote-only phase; null outside of it. */
  #held: SolanaUpdate[] | null = null

  /** `seed`: that of the chain's keys. */
  constructor(
    options: ClusterOptions,
    deps: { readonly seed: Uint8Array; readonly slotMs: number; readonly clock: Clock },
  ) {
    const { seed, slotMs, clock } = deps
    this.plan = new ClusterPlan(options)
    this.#voids = new VoidBlocks(seed)
    this.#slotMs = slotMs
    this.#clock = clock
    this.nodes = Array.from({ length: options.nodes }, (_, node) => {
      const view = new NodeView(this.#voids)
      return {
        identity: encodeBase58(identityOf(seed, node).publicKey),
        script: new NodeScript(this.plan, node, this.#voids),
        outbox: new Outbox(clock, (update) => view.deliver(update)),
        view,
      }
    })
  }

  /** Nodes see what is on disk already; from now on they lag, and a migration may begin. */
  start(ledger: LedgerState): LedgerView[] {
    this.#isLive = true
    ledger.oldestView = () =>
      Math.min(...this.nodes.map(({ view }) => view.slot(Commitment.finalized)))
    return this.nodes.map(({ view, identity }, node) => {
      view.settle(ledger.newest.slot)
      return new LedgerView(ledger, { view, plan: this.plan, node, identity })
    })
  }

  take(update: SolanaUpdate): void {
    if (update.kind === 'slot' && update.status === slotStatus.firstShredReceived) {
      const { slot, parent } = update
      this.#open = { slot, parent: parent ?? slot - 1, ticks: 0 }
      const isStall = this.#isLive && this.#newest !== null && this.plan.stallSlots(slot) > 0
      if (isStall) this.#held = []
    }
    if (update.kind === 'blockMeta') {
      this.#parent = this.#newest
      this.#newest = update
    }
    if (this.#held === null) this.#send(update)
    else this.#held.push(update)
  }

  /** Called once per slot time: whether the open slot ends. Skipped slots take their time too. */
  isDue(): boolean {
    const { slot, parent } = this.#open
    const stall = this.#held === null ? 0 : this.plan.stallSlots(slot)
    const ticks = Math.min(slot - parent - 1, skippedMax) + stall
    if (this.#open.ticks >= ticks) return true
    this.#open.ticks++
    if (this.#held !== null) this.#stall(this.#open.ticks)
    return false
  }

  /** The block that Alpenglow began after, seen from a slot; null before it. */
  genesisBlock(slot: number): BlockPoint | null {
    const genesis = this.plan.genesisSlot(slot)
    return genesis === null ? null : this.#point(genesis)
  }

  readonly leaderOf: ShredScript['leaderOf'] = (slot) => this.plan.leaderOf(slot)

  readonly batchesOf: ShredScript['batchesOf'] = (block, entries, transactions) => {
    const { slot, parentSlot } = block
    if (!this.plan.isMigrated(slot))
      return { parent: parentSlot, batches: [encodeEntries(entries, transactions)] }
    const parent = this.#point(parentSlot)
    const handover = this.plan.isHandover(slot) ? this.#handover(slot) : null
    const genesis = this.genesisBlock(slot)
    const batches = alpenglowBatches({
      entries,
      transactions,
      parent,
      handover,
      genesis: genesis?.slot === parentSlot ? genesis : null,
      bankHash: hash('sha256', `bank ${block.blockhash}`, 'buffer'),
      timeNs: BigInt(Math.round(this.#clock.nowMs() * 1e6)),
      userAgent: 'sluice devnode',
    })
    return { parent: handover?.parent.slot ?? parentSlot, batches }
  }

  stop(): void {
    for (const { outbox, view } of this.nodes) {
      outbox.stop()
      view.stop()
    }
  }

  /** What the leader of a slot sent over an older parent. */
  #handover(slot: number) {
    const transactions = this.#voids.contents(slot, 0)
    const entries = [voidEntry(slot, { index: 0, from: 0, count: transactions.length })]
    return { parent: this.#point(this.#parent?.parentSlot ?? 0), entries, transactions }
  }

  /** A block id of our own: the real one is a Merkle root over the block's shreds. */
  #point(slot: number): BlockPoint {
    return { slot, blockId: hash('sha256', `${this.nodes[0]!.identity} ${slot}`, 'buffer') }
  }

  /** One more block of the vote-only phase; after the last one its slots are used again. */
  #stall(ticks: number): void {
    const { slot } = this.#open
    const at = slot + ticks - 1
    const parent = this.#newest!
    const { updates, meta } = this.#voids.stallBlock(at, parent, this.#clock.nowMs())
    for (const node of this.nodes.keys()) this.#deliver(node, updates, at)
    this.#newest = meta
    if (ticks < this.plan.stallSlots(slot)) return
    const held = this.#held!
    this.#held = null
    for (const update of held) this.#send(update)
  }

  #send(update: SolanaUpdate): void {
    for (const [node, { script }] of this.nodes.entries())
      this.#deliver(node, script.next(update), update.slot)
  }

  #deliver(node: number, updates: readonly SolanaUpdate[], slot: number): void {
    const delayMs = this.#isLive ? this.plan.lagSlots(slot, node) * this.#slotMs : 0
    this.nodes[node]!.outbox.push(updates, delayMs)
  }
}

/** Delivers updates in order, each after its delay. */
class Outbox {
  readonly #clock: Clock
  readonly #deliver: (update: SolanaUpdate) => void
  /** What is due at a time; a node lags a few slots at most. */
  #queue: { readonly dueMs: number; readonly updates: readonly SolanaUpdate[] }[] = []
  #timer: NodeJS.Timeout | null = null

  constructor(clock: Clock, deliver: (update: SolanaUpdate) => void) {
    this.#clock = clock
    this.#deliver = deliver
  }

  push(updates: readonly SolanaUpdate[], delayMs: number): void {
    if (delayMs === 0 && this.#queue.length === 0) for (const one of updates) this.#deliver(one)
    else if (updates.length > 0) {
      this.#queue.push({ dueMs: this.#clock.monotonicMs() + delayMs, updates })
      this.#arm()
    }
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#queue = []
  }

  #arm(): void {
    const [first] = this.#queue
    if (this.#timer !== null || first === undefined) return
    const waitMs = Math.max(0, first.dueMs - this.#clock.monotonicMs())
    this.#timer = setTimeout(() => this.#drain(), waitMs)
  }

  #drain(): void {
    this.#timer = null
    const nowMs = this.#clock.monotonicMs()
    const due = this.#queue.findIndex(({ dueMs }) => dueMs > nowMs)
    for (const { updates } of this.#queue.splice(0, due < 0 ? this.#queue.length : due))
      for (const update of updates) this.#deliver(update)
    this.#arm()
  }
}

// What one node of a cluster has seen of the chain: its stream, and the ledger up to its heads.

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
