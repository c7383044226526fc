// What one node of a cluster sends for each update of the chain: the same, with the banks and
// blocks of its own that the plan gives it.
// Pure: updates in, updates out, in order; when they are sent is decided elsewhere.
//
//   handover      CREATED_BANK (older parent) ─ items ─ CREATED_BANK ─ late items ─ all items
//   dead          CREATED_BANK ─ items ─ DEAD ─ CREATED_BANK ─ all items
//   equivocation  CREATED_BANK ─ another block, PROCESSED ─ CREATED_BANK ─ all items
//   fork          a whole block of a skipped slot, never confirmed
import { blockMetaUpdate, slotUpdate } from '../../chain/solana/received-batch.ts'
import {
  type BlockMetaUpdate,
  type SlotStatus,
  type SlotUpdate,
  type SolanaUpdate,
  slotStatus,
} from '../../chain/solana/updates.ts'
import type { ClusterPlan, VoidBank } from './plan.ts'
import { otherHash, type VoidBlocks } from './void-blocks.ts'

/** A slot whose first bank is not replaced yet. */
interface VoidOpen {
  readonly way: VoidBank
  readonly created: SlotUpdate
  /** Updates of the bank that wins so far: it begins with all of them. */
  readonly held: SolanaUpdate[]
  /** So many more are sent before the bank is replaced. */
  left: number
  transactions: number
  entries: number
}

/** Slots that a node which lies about them is ahead. */
export const slotsAhead = 1_000_000
/** A jump of the chain skips more than a script does. */
const forksMax = 8

export class NodeScript {
  readonly #plan: ClusterPlan
  readonly #node: number
  readonly #voids: VoidBlocks
  #open: VoidOpen | null = null
  /** The last block of the chain. */
  #newest: BlockMetaUpdate | null = null
  /** CONFIRMED, while ROOTED is awaited. */
  #confirmed: SlotUpdate | null = null

  constructor(plan: ClusterPlan, node: number, voids: VoidBlocks) {
    this.#plan = plan
    this.#node = node
    this.#voids = voids
  }

  /** What the node sends for the next update of the chain. */
  next(update: SolanaUpdate): readonly SolanaUpdate[] {
    if (update.kind === 'blockMeta') this.#newest = update
    if (update.kind === 'slot' && update.status <= slotStatus.finalized)
      return this.#reached(update)
    if (update.kind === 'slot' && update.status === slotStatus.firstShredReceived)
      return [...this.#forks(update), update]
    if (update.kind === 'slot' && update.status === slotStatus.createdBank)
      return this.#created(update)
    const open = this.#open
    const sent = this.#isLying ? this.#lie(update) : update
    if (open === null || update.slot !== open.created.slot) return [sent]
    if (update.kind === 'slot' || update.kind === 'block') return [...this.#replace(open), sent]
    open.held.push(sent)
    if (update.kind === 'transaction') open.transactions++
    if (update.kind === 'entry') open.entries++
    const early = open.way === 'equivocation' ? [] : [sent]
    return --open.left > 0 ? early : [...early, ...this.#replace(open)]
  }

  #created(update: SlotUpdate): readonly SolanaUpdate[] {
    const { slot, createdAtMs } = update
    const way = this.#plan.voidBank(slot, this.#node)
    const parent = this.#newest
    if (way === null || parent === null || parent.slot !== update.parent) return [update]
    const left = this.#plan.itemsBefore(slot, this.#node)
    this.#open = { way, created: update, held: [], left, transactions: 0, entries: 0 }
    if (way === 'dead') return [update]
    // The statuses of its shreds are the slot's, and come once.
    if (way === 'equivocation')
      return this.#voids.block(slot, parent, createdAtMs).filter((one) => !isOfShreds(one))
    return [statusOf(update, slotStatus.createdBank, parent.parentSlot)]
  }

  /** The next bank of the slot begins, with all that the chain has of it. */
  #replace({ way, created, held, transactions, entries }: VoidOpen): SolanaUpdate[] {
    this.#open = null
    const { slot, createdAtMs } = created
    if (way === 'equivocation') return [created, ...held]
    const own = this.#voids.items({ slot, createdAtMs, transactions, entries })
    const [first, ...late] = own.transactions
    if (way === 'dead') {
      const died = statusOf(created, slotStatus.dead, created.parent)
      return [...own.accounts, ...own.transactions, ...own.entries, died, created, ...held]
    }
    // A node has a queue for each kind: what is late precedes the new bank's own of that kind.
    return [...own.accounts, first!, created, ...late, ...own.entries, ...held]
  }

  /** Blocks of the slots that the chain skipped, as far as this node has them. */
  #forks({ slot, parent, createdAtMs }: SlotUpdate): SolanaUpdate[] {
    const newest = this.#newest
    if (newest === null || newest.slot !== parent || slot - parent > forksMax) return []
    const skipped = Array.from({ length: slot - parent - 1 }, (_, index) => parent + 1 + index)
    return skipped
      .filter((one) => this.#plan.isForked(one, this.#node))
      .flatMap((one) => this.#voids.block(one, newest, createdAtMs))
  }

  #reached(update: SlotUpdate): readonly SolanaUpdate[] {
    const { slot, status } = update
    const lies = this.#plan.lies('lie-slot', this.#node)
      ? [this.#voids.mark(statusOf({ ...update, slot: slot + slotsAhead }, status, null))]
      : []
    if (status === slotStatus.processed) {
      const open = this.#open?.created.slot === slot ? this.#open : null
      return [...(open === null ? [] : this.#replace(open)), update, ...lies]
    }
    if (status === slotStatus.confirmed && this.#plan.isRootedFirst(slot, this.#node)) {
      this.#confirmed = update
      return []
    }
    const late = this.#confirmed?.slot === slot ? [this.#confirmed] : []
    if (late.length > 0) this.#confirmed = null
    return [update, ...late, ...lies]
  }

  get #isLying(): boolean {
    return this.#plan.lies('lie-blockhash', this.#node)
  }

  /** The same block under another blockhash. */
  #lie(update: SolanaUpdate): SolanaUpdate {
    if (update.kind === 'block')
      return { ...update, meta: this.#lie(update.meta) as BlockMetaUpdate }
    if (update.kind !== 'blockMeta') return update
    const { blockhash, parentBlockhash } = update
    const { slot, createdAtMs } = update
    return blockMetaUpdate(
      { slot, createdAtMs },
      {
        ...update,
        blockhash: otherHash(blockhash),
        parentBlockhash: otherHash(parentBlockhash),
        rewards: [],
      },
    )
  }
}

function isOfShreds(update: SolanaUpdate): boolean {
  if (update.kind !== 'slot') return false
  return update.status === slotStatus.firstShredReceived || update.status === slotStatus.completed
}

function statusOf(
  { slot, createdAtMs }: SlotUpdate,
  status: SlotStatus,
  parent: number | null,
): SlotUpdate {
  return slotUpdate({ slot, createdAtMs }, { parent, status })
}
