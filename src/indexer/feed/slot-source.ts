// Source of complete slots at commitment `confirmed`, read by a replay of the hub.
// The hub is the queue: slots that it evicts before they were read are lost, and counted.
//
//   accounts, transactions, meta, status(confirmed) -> one slot -> parcels of bounded size
//
// A slot is emitted when it is confirmed and its block meta was received; late content is emitted
// when the slot is finalized. Slots that the index already has are emitted with their blockhash, so
// that the writer sees whether the chain restarted.
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import type { CounterChild } from '../../base/telemetry/meters.ts'
import { keyOf } from '../../chain/solana/keys.ts'
import {
  type AccountUpdate,
  type BlockMetaUpdate,
  type SlotUpdate,
  type SolanaUpdate,
  slotStatus,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import type { Hub, Replay } from '../../streams/hub/hub.ts'
import {
  type AccountFact,
  accountRecordBytes,
  type BlockFacts,
  type Cut,
  noTransaction,
  type Parcel,
  packAccounts,
} from '../parcels.ts'
import type { Source } from './source.ts'

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
  readonly hub: Hub<SolanaUpdate>
  readonly lost: CounterChild
  readonly clock: Clock
}

export class SlotSource implements Source {
  readonly #deps: SlotSourceDeps
  readonly #open = new Map<number, OpenSlot>()
  readonly #times = new Map<number, number>()
  #replay: Replay<SolanaUpdate> | null = null
  readonly #ready: Generator<Parcel, undefined>[] = []
  /** The index's mark before the first slot of this run. */
  #indexedTo: number | null = null
  /** The newest emitted slot. */
  #lastSlot: number | null = null
  #isAfterLoss = false
  #waitingSinceMs: number | null = null

  constructor(deps: SlotSourceDeps) {
    this.#deps = deps
  }

  /** Sets the index's mark, before the first `next`. */
  resume(mark: number | undefined): void {
    if (this.#lastSlot === null) this.#indexedTo = mark ?? null
  }

  /** The hub has a new confirmed update. */
  onUpdate(): void {
    this.#waitingSinceMs ??= this.#deps.clock.monotonicMs()
  }

  /** The chain begins anew: as in another run, the index may have its slots of the old one. */
  restart(): void {
    this.#indexedTo = Math.max(this.#lastSlot ?? 0, this.#indexedTo ?? 0)
    this.#lastSlot = null
    this.#times.clear()
  }

  next(): Parcel | null {
    for (;;) {
      const parcel = this.#nextParcel()
      if (parcel !== null) {
        this.#waitingSinceMs = parcel.sinceMs
        return parcel
      }
      if (this.#replay === null || this.#replay.isLost) this.#begin()
      const update = this.#replay?.next() ?? null
      if (update === null) {
        this.#waitingSinceMs = null
        return null
      }
      this.#take(update)
    }
  }

  waitingSinceMs(): number | null {
    return this.#waitingSinceMs
  }

  #nextParcel(): Parcel | null {
    for (;;) {
      const next = this.#ready[0]?.next()
      if (next === undefined) return null
      if (next.value !== undefined) return next.value
      this.#ready.shift()
    }
  }

  #begin(): void {
    const { hub } = this.#deps
    // Incomplete slots are discarded: their missing updates are gone.
    if (this.#replay !== null) this.#isAfterLoss = true
    this.#open.clear()
    this.#replay = hub.oldestSlot === null ? null : hub.replay(Commitment.confirmed, hub.oldestSlot)
  }

  #take(update: SolanaUpdate): void {
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
    const to = this.#indexedTo
    const isNew = to === null || slot > to || slot <= (this.#lastSlot ?? -1)
    return isNew || meta === null ? null : { from: slot, to, blockhash: meta.blockhash }
  }

  /** Counts the slots lost before this one; returns the mark. */
  #advance(slot: number): number {
    const last = this.#lastSlot ?? this.#indexedTo
    const isAfterGap = this.#isAfterLoss || this.#lastSlot === null
    if (isAfterGap && last !== null && slot > last + 1) this.#deps.lost.inc(slot - last - 1)
    this.#isAfterLoss = false
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
      infos.push(info)
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
