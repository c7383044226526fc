// Puts complete slots together from a geyser stream at commitment `confirmed`.
// Slots that the stream did not keep until they were read are lost, and counted.
//
//   accounts, transactions, meta, status(confirmed) -> one slot -> parcels of bounded size
//
// A slot is emitted when it is confirmed and its block meta was received; late content is emitted
// when the slot is finalized. Slots that the index already has are emitted with their blockhash, so
// that the writer sees whether the chain restarted.
import type { Clock } from '../../base/clock.ts'
import { keyOf } from '../../chain/solana/base58.ts'
import {
  type AccountUpdate,
  type BlockMetaUpdate,
  type SlotUpdate,
  type SolanaUpdate,
  slotStatus,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import {
  type AccountFact,
  accountRecordBytes,
  type BlockFacts,
  type Cut,
  type Indexed,
  noTransaction,
  type Parcel,
  packAccounts,
} from '../engine.ts'

/** Most slots that wait for their block meta or have late content. */
const openSlotsMax = 64
/** Block times that are kept for late content. */
const timesMax = 64

/** A parcel is full when it has reached this size. */
export const parcelBytesMax = 256 * 1024
/** Approximate overhead of a transaction in addition to its bytes. */
const overheadBytes = 64

/** Updates of a slot received so far. */
interface OpenSlot {
  readonly transactions: TransactionUpdate[]
  readonly accounts: AccountUpdate[]
  meta: BlockMetaUpdate | null
  isConfirmed: boolean
}

export interface SlotSourceDeps {
  /** So many slots were lost. */
  lost(count: number): void
  readonly clock: Clock
}

export class SlotSource {
  readonly #deps: SlotSourceDeps
  readonly #open = new Map<number, OpenSlot>()
  readonly #times = new Map<number, number>()
  /** Parcels of complete slots, built when `next` requests them. */
  readonly #ready: Generator<Parcel, undefined>[] = []
  /** What the index may have from earlier; null when it has nothing. */
  #indexed: Indexed | null
  /** The last emitted slot. */
  #lastSlot: number | null = null

  /** `mark` is the index's. */
  constructor(mark: number | undefined, deps: SlotSourceDeps) {
    this.#deps = deps
    this.#indexed = mark === undefined ? null : { to: mark }
  }

  /** The last slot that the index has, or gets; null before the first. */
  get newestSlot(): number | null {
    return this.#lastSlot === null && this.#indexed === null
      ? null
      : Math.max(this.#lastSlot ?? 0, this.#indexed?.to ?? 0)
  }

  /**
   * The stream begins anew, perhaps with slots that were emitted before, or with another chain: as
   * in another run, the index may have them. Incomplete slots come again.
   */
  restart(): void {
    const { newestSlot } = this
    this.#indexed = newestSlot === null ? null : { to: newestSlot }
    this.#lastSlot = null
    this.#open.clear()
    this.#times.clear()
  }

  next(): Parcel | null {
    for (;;) {
      const next = this.#ready[0]?.next()
      if (next === undefined) return null
      if (next.value !== undefined) return next.value
      this.#ready.shift()
    }
  }

  take(update: SolanaUpdate): void {
    switch (update.kind) {
      case 'transaction':
        this.#slot(update.slot).transactions.push(update)
        return
      case 'account':
        this.#slot(update.slot).accounts.push(update)
        return
      case 'blockMeta': {
        const open = this.#slot(update.slot)
        open.meta = update
        if (open.isConfirmed) this.#emit(update.slot, open, update.createdAtMs)
        return
      }
      case 'slot':
        this.#status(update)
    }
  }

  #status({ slot, status, createdAtMs }: SlotUpdate): void {
    const open = this.#open.get(slot)
    if (open === undefined) return
    if (status === slotStatus.dead) this.#open.delete(slot)
    else if (status === slotStatus.finalized) this.#emit(slot, open, createdAtMs)
    else if (status === slotStatus.confirmed) {
      open.isConfirmed = true
      if (open.meta !== null) this.#emit(slot, open, createdAtMs)
    }
  }

  #slot(slot: number): OpenSlot {
    const known = this.#open.get(slot)
    if (known !== undefined) return known
    const open: OpenSlot = { transactions: [], accounts: [], meta: null, isConfirmed: false }
    this.#open.set(slot, open)
    if (this.#open.size > openSlotsMax) {
      const [oldest, content] = this.#open.entries().next().value!
      this.#emit(oldest, content, this.#deps.clock.nowMs())
    }
    return open
  }

  /** Queues the slot's parcels, which are built when `next` requests them. */
  #emit(slot: number, open: OpenSlot, createdAtMs: number): void {
    this.#open.delete(slot)
    const cut = this.#cutOf(slot, open)
    const mark = this.#advance(slot)
    const { clock } = this.#deps
    const sinceMs = clock.monotonicMs() - Math.max(0, clock.nowMs() - createdAtMs)
    const blockTime = open.meta?.blockTime ?? this.#times.get(slot) ?? 0
    this.#remember(slot, blockTime)
    this.#ready.push(parcelsOf(open, { slot, blockTime, cut, mark, sinceMs }))
  }

  /** Only in ascending order: a late slot must not delete the rows of a newer one. */
  #cutOf(slot: number, { meta }: OpenSlot): Cut | null {
    const indexed = this.#indexed
    const isNew = indexed === null || slot > indexed.to || slot <= (this.#lastSlot ?? -1)
    return isNew || meta === null ? null : { from: slot, blockhash: meta.blockhash, indexed }
  }

  /** Counts the slots lost before this one; returns the mark. */
  #advance(slot: number): number {
    const to = this.#indexed?.to ?? null
    // Later ones are not there because the chain skipped them.
    if (this.#lastSlot === null && to !== null && slot > to + 1) this.#deps.lost(slot - to - 1)
    this.#lastSlot = Math.max(slot, this.#lastSlot ?? 0)
    return this.#lastSlot
  }

  #remember(slot: number, time: number): void {
    this.#times.set(slot, time)
    if (this.#times.size > timesMax) this.#times.delete(this.#times.keys().next().value!)
  }
}

/** Fields shared by all parcels of a slot. */
interface SlotHead {
  readonly slot: number
  readonly blockTime: number
  readonly cut: Cut | null
  readonly mark: number | null
  readonly sinceMs: number
}

/** Transactions first, then accounts; the last parcel has the block and the mark. */
function* parcelsOf(
  open: OpenSlot,
  { slot, blockTime, cut, mark, sinceMs }: SlotHead,
): Generator<Parcel, undefined> {
  const { transactions, accounts, meta } = open
  const indexOf = new Map(transactions.map((one) => [keyOf(one.signature), one.index]))
  for (let tx = 0, account = 0, isLast = false, isFirst = true; !isLast; isFirst = false) {
    const infos: Uint8Array[] = []
    let bytes = overheadBytes
    for (; tx < transactions.length && bytes < parcelBytesMax; tx++) {
      const { info } = transactions[tx]!
      // Copied: a view would keep all that was received with it.
      infos.push(Buffer.from(info))
      bytes += info.length + overheadBytes
    }
    const space = Math.max(0, Math.ceil((parcelBytesMax - bytes) / accountRecordBytes))
    const facts = accounts.slice(account, account + space).map((one) => factOf(one, indexOf))
    account += facts.length
    bytes += facts.length * accountRecordBytes
    isLast = tx === transactions.length && account === accounts.length
    const block = isLast && meta !== null ? blockOf(meta) : null
    const content = { slot, blockTime, block, transactions: infos, accounts: packAccounts(facts) }
    const about = { cut: isFirst ? cut : null, mark: isLast ? mark : null, bytes, sinceMs }
    yield { feed: 'slots', content, ...about }
  }
}

function factOf(update: AccountUpdate, indexOf: ReadonlyMap<string, number>): AccountFact {
  const { pubkey, owner, lamports, writeVersion, data, txnSignature } = update
  const index = txnSignature === null ? undefined : indexOf.get(keyOf(txnSignature))
  const dataBytes = data.length
  return { pubkey, owner, lamports, writeVersion, dataBytes, index: index ?? noTransaction }
}

function blockOf(meta: BlockMetaUpdate): BlockFacts {
  const { parentSlot, blockhash, blockHeight, executedTransactionCount: txCount } = meta
  return { parentSlot, blockhash, height: blockHeight ?? 0, txCount }
}
