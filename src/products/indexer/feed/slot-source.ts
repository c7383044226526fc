// Reads confirmed slots out of the hub, whole, by a replay of lane 1. Thread: main.
// Pulled by outbox.ts. The hub is the queue: what it lets go before it was read is lost, counted.
//
//   lane 1: accounts, transactions, meta, status(confirmed) -> one slot -> slot-parcels.ts
//
// A slot is sent when it is confirmed and its meta is there; what comes for it later follows when
// it is finalized.
import type { Clock } from '../../../base/clock.ts'
import {
  type SlotStatus,
  type SlotUpdate,
  type SolanaUpdate,
  slotStatus,
} from '../../../solana/updates.ts'
import type { Hub, Replay } from '../../../stream/hub.ts'
import type { CounterChild } from '../../../telemetry/meters.ts'
import type { SlotRange } from '../parcels.ts'
import { type OpenSlot, parcelsOf } from './slot-parcels.ts'
import type { Parcel, Source } from './source.ts'

/** Slots that are confirmed and wait for their meta, or have had late content. */
const openSlotsMax = 64
/** Block times that are remembered for late content. */
const timesMax = 64

export interface SlotSourceDeps {
  readonly hub: Hub<SolanaUpdate>
  /** An embedded chain may begin anew, below what the index has. */
  readonly isEmbedded: boolean
  readonly lost: CounterChild
  readonly clock: Clock
}

export class SlotSource implements Source {
  readonly #deps: SlotSourceDeps
  readonly #open = new Map<number, OpenSlot>()
  readonly #times = new Map<number, number>()
  #replay: Replay<SolanaUpdate> | null = null
  readonly #ready: Generator<Parcel, undefined>[] = []
  /** The newest slot that was given; before the first, what the index has. */
  #lastSlot: number | null = null
  #isFirst = true
  #isBehindLoss = false
  #waitingSinceMs: number | null = null
  /** The status that makes a slot ready to go. */
  #sureAt: SlotStatus = slotStatus.confirmed

  constructor(deps: SlotSourceDeps) {
    this.#deps = deps
  }

  /** Tells how far the index is, before the first `next`. */
  resume(mark: number | undefined): void {
    if (this.#isFirst) this.#lastSlot = mark ?? null
  }

  /**
   * The last words: an embedded chain takes its processed blocks for final when it starts again,
   * and tells nobody. So they are taken in now; one that a crash undoes is cut by the next run.
   */
  finish(): void {
    const { hub, isEmbedded } = this.#deps
    if (!isEmbedded || hub.oldestSlot === null) return
    const from = Math.max(hub.oldestSlot, (this.#lastSlot ?? -1) + 1)
    this.#open.clear()
    this.#replay = hub.replay(0, from)
    this.#sureAt = slotStatus.processed
    this.noticed()
  }

  /** Something was said on lane 1. A reader that is too far behind lets go of the past at once. */
  noticed(): void {
    this.#waitingSinceMs ??= this.#deps.clock.monotonicMs()
    if (this.#replay?.isLost) this.#begin()
  }

  next(): Parcel | null {
    for (;;) {
      const parcel = this.#nextPart()
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

  #nextPart(): Parcel | null {
    for (;;) {
      const parts = this.#ready[0]
      if (parts === undefined) return null
      const { value } = parts.next()
      if (value !== undefined) return value
      this.#ready.shift()
    }
  }

  #begin(): void {
    const { hub } = this.#deps
    // Half a slot is of no use, and its other half is gone.
    if (this.#replay !== null) this.#isBehindLoss = true
    this.#open.clear()
    this.#replay = hub.oldestSlot === null ? null : hub.replay(1, hub.oldestSlot)
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
        if (open.isConfirmed) this.#give(update.slot, open, update.createdAtMs)
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
    else if (status === slotStatus.finalized) this.#give(slot, open, createdAtMs)
    else if (status === this.#sureAt) {
      open.isConfirmed = true
      if (open.meta !== null) this.#give(slot, open, createdAtMs)
    }
  }

  #slot(slot: number): OpenSlot {
    const known = this.#open.get(slot)
    if (known !== undefined) return known
    const open: OpenSlot = { transactions: [], accounts: [], meta: null, isConfirmed: false }
    this.#open.set(slot, open)
    if (this.#open.size > openSlotsMax) {
      const [oldest, content] = this.#open.entries().next().value!
      this.#give(oldest, content, this.#deps.clock.nowMs())
    }
    return open
  }

  /** The slot goes out, in parts where it is large; they are made when they are asked for. */
  #give(slot: number, open: OpenSlot, saidAtMs: number): void {
    this.#open.delete(slot)
    const cut = this.#account(slot)
    const mark = this.#lastSlot
    const { clock } = this.#deps
    const sinceMs = clock.monotonicMs() - Math.max(0, clock.nowMs() - saidAtMs)
    const blockTime = open.meta?.blockTime ?? this.#times.get(slot) ?? 0
    this.#remember(slot, blockTime)
    this.#ready.push(parcelsOf(open, { slot, blockTime, cut, mark, sinceMs }))
  }

  /** Counts what is missing before the slot; tells what to forget when the chain began anew. */
  #account(slot: number): SlotRange | null {
    const { isEmbedded, lost } = this.#deps
    const last = this.#lastSlot
    const isFirst = this.#isFirst
    const isBehindGap = this.#isBehindLoss || (isFirst && isEmbedded)
    this.#isFirst = false
    this.#isBehindLoss = false
    this.#lastSlot = Math.max(slot, isFirst && isEmbedded ? 0 : (last ?? 0))
    if (last === null) return null
    if (isBehindGap && slot > last + 1) lost.inc(slot - last - 1)
    return isFirst && isEmbedded && slot <= last ? { from: slot, to: last } : null
  }

  #remember(slot: number, time: number): void {
    this.#times.set(slot, time)
    if (this.#times.size > timesMax) this.#times.delete(this.#times.keys().next().value!)
  }
}
