// What one node of a cluster sends for each update of the chain: the same, with the banks and
// blocks of its own that the plan gives it.
// Pure: updates in, updates out, in order; when they are sent is decided elsewhere.
//
//   handover      CREATED_BANK (older parent) ─ items ─ CREATED_BANK ─ late items ─ all items
//   dead          CREATED_BANK ─ items ─ DEAD ─ CREATED_BANK ─ all items
//   equivocation  CREATED_BANK ─ another block, PROCESSED ─ CREATED_BANK ─ all items
//   fork          a whole block of a skipped slot, never confirmed
import { hash } from 'node:crypto'
import { decodeKey, encodeBase58, keyText } from '../../chain/solana/base58.ts'
import type { EntryContent, TransactionContent } from '../../chain/solana/geyser-decode.ts'
import { Keypair } from '../../chain/solana/keypair.ts'
import { programs } from '../../chain/solana/programs.ts'
import {
  accountUpdate,
  blockMetaUpdate,
  entryUpdate,
  slotUpdate,
  transactionUpdate,
} from '../../chain/solana/received-batch.ts'
import { TransactionLayout } from '../../chain/solana/transaction.ts'
import type {
  AccountUpdate,
  BlockMetaUpdate,
  EntryUpdate,
  SlotStatus,
  SlotUpdate,
  SolanaUpdate,
  TransactionUpdate,
} from '../../chain/solana/updates.ts'
import { slotStatus } from '../../chain/solana/updates.ts'
import { buildTransaction, memoInstruction } from '../build.ts'
import { messageContent, signaturesOf } from '../message-content.ts'
import type { ClusterPlan, VoidBank } from './plan.ts'

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

// Makes what only a bank that does not win has: signed transactions, written accounts, entries and
// whole blocks. Nothing of it was executed; the signatures are good, their payer is here only.

interface VoidItems {
  readonly accounts: readonly AccountUpdate[]
  readonly transactions: readonly TransactionUpdate[]
  readonly entries: readonly EntryUpdate[]
}

/** Where a void bank is: after what other transactions and entries. */
interface VoidAt {
  readonly slot: number
  readonly createdAtMs: number
  readonly transactions: number
  readonly entries: number
}

const lamports = 1_000_000_000n
const fee = 5_000n
const noRentEpoch = 0xffff_ffff_ffff_ffffn
const noData = new Uint8Array(0)

export class VoidBlocks {
  readonly #payer: Keypair
  readonly #layout = new TransactionLayout()
  /** Heads of blocks of the vote-only phase, by the status that completes them. */
  readonly #stallHeads = new WeakMap<SolanaUpdate, BlockMetaUpdate>()
  readonly #made = new WeakSet<SolanaUpdate>()

  /** `seed`: that of the chain's keys. */
  constructor(seed: Uint8Array) {
    this.#payer = Keypair.derive(seed, 'void')
  }

  /** Marks an update that is not of the chain. */
  mark(update: SolanaUpdate): SolanaUpdate {
    this.#made.add(update)
    return update
  }

  /** Whether an update is of a bank that does not win, or of none. */
  isVoid(update: SolanaUpdate): boolean {
    return this.#made.has(update)
  }

  /** The block of the vote-only phase that this status completes; null for any other update. */
  stallHead(update: SolanaUpdate): BlockMetaUpdate | null {
    return this.#stallHeads.get(update) ?? null
  }

  /** The same for every node that sees the slot. */
  contents(slot: number, firstIndex: number): readonly TransactionContent[] {
    return [0, 1].map((number) => this.#transaction(slot, number, firstIndex + number))
  }

  items(at: VoidAt): VoidItems {
    const { slot, createdAtMs } = at
    const moment = { slot, createdAtMs }
    const contents = this.contents(slot, at.transactions)
    const transactions = contents.map((content) => transactionUpdate(moment, content))
    const accounts = transactions.map(({ signature }, index) =>
      accountUpdate(moment, this.#written(signature, BigInt(slot * 2 + index))),
    )
    const entry = voidEntry(slot, { index: at.entries, from: at.transactions, count: 2 })
    const items = { accounts, transactions, entries: [entryUpdate(moment, entry)] }
    for (const list of Object.values(items)) for (const one of list) this.mark(one)
    return items
  }

  /** A whole block that is never confirmed, from its bank to PROCESSED. `parent`: of the chain. */
  block(slot: number, parent: BlockMetaUpdate, createdAtMs: number): SolanaUpdate[] {
    const items = this.items({ slot, createdAtMs, transactions: 0, entries: 0 })
    return this.#block({ slot, createdAtMs }, parent, items).updates
  }

  /** A block of the vote-only phase. */
  stallBlock(
    slot: number,
    parent: BlockMetaUpdate,
    createdAtMs: number,
  ): { readonly updates: SolanaUpdate[]; readonly meta: BlockMetaUpdate } {
    const moment = { slot, createdAtMs }
    const tick = entryUpdate(moment, voidEntry(slot, { index: 0, from: 0, count: 0 }))
    const block = this.#block(moment, parent, { accounts: [], transactions: [], entries: [tick] })
    this.#stallHeads.set(block.updates.at(-1)!, block.meta)
    return block
  }

  #block(
    moment: { readonly slot: number; readonly createdAtMs: number },
    parent: BlockMetaUpdate,
    items: VoidItems,
  ): { updates: SolanaUpdate[]; meta: BlockMetaUpdate } {
    const { slot } = moment
    const status = (value: 0 | 3 | 4 | 5) =>
      slotUpdate(moment, { parent: parent.slot, status: value })
    const meta = blockMetaUpdate(moment, {
      blockhash: encodeBase58(voidHash(`block ${slot}`)),
      parentSlot: parent.slot,
      parentBlockhash: parent.blockhash,
      blockHeight: (parent.blockHeight ?? 0) + 1,
      blockTime: parent.blockTime,
      executedTransactionCount: items.transactions.length,
      entriesCount: items.entries.length,
      rewards: [],
    })
    const updates: SolanaUpdate[] = [
      status(slotStatus.firstShredReceived),
      status(slotStatus.createdBank),
      ...items.accounts,
      ...items.transactions,
      ...items.entries,
      status(slotStatus.completed),
      { kind: 'block', ...moment, meta, ...items },
      meta,
      status(slotStatus.processed),
    ]
    for (const update of updates) this.mark(update)
    return { updates, meta }
  }

  #written(txnSignature: Uint8Array, writeVersion: bigint) {
    return {
      pubkey: this.#payer.publicKey,
      lamports: lamports - fee,
      owner: programs.system,
      executable: false,
      rentEpoch: noRentEpoch,
      data: noData,
      writeVersion,
      txnSignature,
    }
  }

  #transaction(slot: number, number: number, index: number): TransactionContent {
    const layout = this.#layout
    const bytes = buildTransaction({
      signers: [this.#payer],
      blockhash: voidHash('recent'),
      instructions: [memoInstruction(`void ${slot} ${number}`)],
    })
    layout.decode(bytes)
    const program = keyText(programs.memo)
    return {
      signatures: signaturesOf(layout, bytes),
      isVote: false,
      index,
      message: messageContent(layout, bytes),
      meta: {
        err: null,
        fee,
        preBalances: [lamports, 1n],
        postBalances: [lamports - fee, 1n],
        innerInstructions: [],
        logMessages: [`Program ${program} invoke [1]`, `Program ${program} success`],
        preTokenBalances: [],
        postTokenBalances: [],
        rewards: [],
        loadedWritableAddresses: [],
        loadedReadonlyAddresses: [],
        returnData: null,
        computeUnitsConsumed: 1_000n,
        costUnits: 2_000n,
      },
    }
  }
}

/** An entry of `count` transactions from that index on; a tick for 0. */
export function voidEntry(
  slot: number,
  at: { readonly index: number; readonly from: number; readonly count: number },
): EntryContent {
  return {
    index: at.index,
    numHashes: 1,
    hash: voidHash(`entry ${slot} ${at.index}`),
    executedTransactionCount: at.count,
    startingTransactionIndex: at.from,
  }
}

function voidHash(name: string): Uint8Array {
  return hash('sha256', `void ${name}`, 'buffer')
}

/** Another blockhash, the same for everyone who asks. */
export function otherHash(blockhash: string): string {
  return encodeBase58(hash('sha256', decodeKey(blockhash) ?? new Uint8Array(32), 'buffer'))
}
