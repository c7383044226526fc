// Orders the updates of a node as solana/updates.ts states, each once, whatever happens to the
// connection. Thread: main. Fed by solana-upstream.ts; publishes into the hub.
//
//   parts ────────────────────────► hub          parts of a slot that a broken connection left
//   meta ──► waits until all parts               open are told by the next one again, from its
//            of its block are there              start: what was told before is left out, and
//            ─► block, meta ──────► hub          the surer lanes get the slot as told last
//   processed ─► waits for the block ► hub
//   confirmed, finalized ─► also for every ancestor that was not told so ► hub
//
// Nodes tell a status for some slots only (a confirmation skips ancestors, a restart forgets them);
// the chain of parents says the rest. What a finalized slot leaves beside it was a fork.

import { publishUpdate, type SolanaHub } from '../geyser/hub.ts'
import { slotUpdate } from '../solana/update-build.ts'
import { type BlockMetaUpdate, type SlotUpdate, slotStatus } from '../solana/updates.ts'
import { AssembledBlock } from './assembled-block.ts'
import { isWhole, KnownSlot, tellBit } from './known-slot.ts'
import type { SlotPart } from './told-before.ts'

/** Slots remembered below the newest finalized one: a replay may tell of them again. */
const keptSlots = 64
/** Slots remembered when nothing is ever finalized. */
const slotsMax = 2_048

export interface SlotCounts {
  /** Updates that were told already. */
  duplicates: number
  /** Slots that no node could tell again after a failure. */
  gapSlots: number
  /** Blocks whose parts never came together. */
  incompleteBlocks: number
  /** Blocks that a node told otherwise after a failure. */
  rewrittenBlocks: number
}

export class SlotBook {
  readonly counts: SlotCounts = {
    duplicates: 0,
    gapSlots: 0,
    incompleteBlocks: 0,
    rewrittenBlocks: 0,
  }
  readonly #hub: SolanaHub
  readonly #slots = new Map<number, KnownSlot>()
  /** Number of the connection at hand. */
  #run = 0
  #floor = 0
  #newest: number | null = null
  #newestWhole: number | null = null
  /** The slot that was asked for in vain, until it is seen where the new connection begins. */
  #gapFrom: number | null = null

  constructor(hub: SolanaHub) {
    this.#hub = hub
  }

  get newestSlot(): number | null {
    return this.#newest
  }

  /** The first slot that is not complete; the newest complete one when all are. */
  resumeFrom(): number | null {
    let lowest: number | null = null
    for (const known of this.#slots.values())
      if (known.isOpen && (lowest === null || known.slot < lowest)) lowest = known.slot
    return lowest ?? this.#newestWhole
  }

  /** Another connection begins, at `fromSlot` or with what happens next. */
  opened(fromSlot: number | null): void {
    const wanted = this.resumeFrom()
    this.#run++
    this.#gapFrom = fromSlot === null ? wanted : null
    if (wanted !== null && fromSlot !== null && fromSlot > wanted)
      this.counts.gapSlots += fromSlot - wanted
    for (const known of this.#slots.values()) {
      if (!known.isOpen || (fromSlot !== null && known.slot >= fromSlot)) continue
      // Nobody will tell its missing parts; what still comes of it is no repetition.
      known.run = this.#run
      known.isLost = true
      this.#giveUp(known)
    }
  }

  part(update: SlotPart): void {
    const known = this.#know(update.slot)
    if (known === null) return
    if (known.blockhash !== null) {
      this.#partAfter(known, update)
      return
    }
    if (known.run !== this.#run) known.beginAgain(this.#run)
    known.add(update)
    if (known.toldBefore?.take(update) === true) this.counts.duplicates++
    else this.#hub.content(update)
    if (known.meta !== null) this.#trySeal(known)
  }

  meta(update: BlockMetaUpdate): void {
    const known = this.#know(update.slot)
    if (known === null) return
    known.parent = update.parentSlot
    if (known.blockhash !== null) {
      this.#metaAfter(known, update)
      return
    }
    known.meta = update
    this.#trySeal(known)
    // Too late to wait for anything.
    if (known.blockhash === null && (known.isLost || known.wasTold(slotStatus.confirmed)))
      this.#giveUp(known)
  }

  status(update: SlotUpdate): void {
    const known = this.#know(update.slot)
    if (known === null) return
    const { status, parent } = update
    if (parent !== null) known.parent = parent
    if (known.wasTold(status)) this.counts.duplicates++
    else if (status === slotStatus.confirmed) this.#confirm(known, update)
    else if (status === slotStatus.finalized) this.#finalize(known, update)
    else if (status === slotStatus.processed && known.isOpen) known.hold(update)
    else this.#tell(known, update)
  }

  /** Null for a slot so old that everything of it was told. */
  #know(slot: number): KnownSlot | null {
    if (slot < this.#floor) {
      this.counts.duplicates++
      return null
    }
    const found = this.#slots.get(slot)
    if (found !== undefined) return found
    const known = new KnownSlot(slot, this.#run)
    this.#slots.set(slot, known)
    if (this.#newest === null || slot > this.#newest) this.#newest = slot
    if (this.#gapFrom !== null) {
      this.counts.gapSlots += Math.max(0, slot - this.#gapFrom)
      this.#gapFrom = null
    }
    if (this.#slots.size > slotsMax) this.#slots.delete(this.#slots.keys().next().value!)
    return known
  }

  #trySeal(known: KnownSlot): void {
    const { meta } = known
    if (meta === null || !isWhole(known, meta)) return
    // It came over more than one connection: the surer lanes take it as the last one told it.
    if (known.toldBefore !== null) this.#hub.restate(known.slot, known.parts)
    this.#hub.content(new AssembledBlock(meta, known.parts))
    this.#close(known, meta)
    if (this.#newestWhole === null || known.slot > this.#newestWhole) this.#newestWhole = known.slot
  }

  /** Its parts will not come together any more: the meta goes without the block. */
  #giveUp(known: KnownSlot): void {
    if (known.meta !== null) {
      this.counts.incompleteBlocks++
      this.#close(known, known.meta)
    } else this.#release(known)
  }

  #close(known: KnownSlot, meta: BlockMetaUpdate): void {
    this.#hub.content(meta)
    known.close(meta)
    this.#release(known)
  }

  #release(known: KnownSlot): void {
    for (const update of known.takeHeld()) publishUpdate(this.#hub, update)
  }

  /** A part of a block that is complete: late, or told again by another connection. */
  #partAfter(known: KnownSlot, update: SlotPart): void {
    if (known.run === this.#run) {
      this.#hub.content(update)
      return
    }
    this.counts.duplicates++
    if (known.checkedRun !== this.#run) known.again.push(update)
  }

  #metaAfter(known: KnownSlot, update: BlockMetaUpdate): void {
    const again = known.again
    known.again = []
    if (known.run === this.#run || known.blockhash === update.blockhash) {
      this.counts.duplicates++
      known.checkedRun = this.#run
      return
    }
    this.counts.rewrittenBlocks++
    known.checkedRun = this.#run
    // A node that denies what is confirmed is not believed.
    if (known.wasTold(slotStatus.confirmed)) return
    this.#hub.abandon(known.slot)
    known.reopen(this.#run)
    for (const part of again) this.part(part)
    this.meta(update)
  }

  #confirm(known: KnownSlot, update: SlotUpdate): void {
    for (const one of this.#line(known, slotStatus.confirmed))
      this.#reach(one, one === known ? update : derived(one, slotStatus.confirmed, update))
  }

  #finalize(known: KnownSlot, update: SlotUpdate): void {
    const line = new Set(this.#line(known, slotStatus.finalized))
    // Confirmed and older: final too, though a gap may hide how they hang together.
    for (const one of this.#slots.values())
      if (one.slot < known.slot && isBetween(one)) line.add(one)
    for (const one of [...line].sort((a, b) => a.slot - b.slot)) {
      if (!one.wasTold(slotStatus.confirmed))
        this.#reach(one, derived(one, slotStatus.confirmed, update))
      this.#reach(one, one === known ? update : derived(one, slotStatus.finalized, update))
    }
    this.#forget(known.slot)
  }

  /** The slot and its ancestors that were not told so yet, oldest first. */
  #line(known: KnownSlot, status: 1 | 2): KnownSlot[] {
    const line = [known]
    let at: KnownSlot | undefined = known
    while (at !== undefined && at.parent !== null && at.parent < at.slot) {
      at = this.#slots.get(at.parent)
      if (at === undefined || at.wasTold(status) || at.wasTold(slotStatus.dead)) break
      line.push(at)
    }
    return line.reverse()
  }

  #reach(known: KnownSlot, update: SlotUpdate): void {
    if (known.isOpen) this.#giveUp(known)
    this.#tell(known, update)
  }

  #tell(known: KnownSlot, update: SlotUpdate): void {
    known.told |= tellBit(update.status)
    if (update.status === slotStatus.dead) known.isLost = true
    publishUpdate(this.#hub, update)
  }

  /** Below a finalized slot only its ancestors count. */
  #forget(finalized: number): void {
    this.#floor = Math.max(this.#floor, finalized - keptSlots)
    for (const known of [...this.#slots.values()]) {
      if (known.slot >= finalized) continue
      const isFork = !known.wasTold(slotStatus.finalized)
      if (isFork) {
        this.#hub.abandon(known.slot)
        known.isLost = true
      }
      if (known.slot < this.#floor) this.#slots.delete(known.slot)
    }
  }
}

function isBetween(known: KnownSlot): boolean {
  return known.wasTold(slotStatus.confirmed) && !known.wasTold(slotStatus.finalized)
}

/** A status that no node told and that follows from another one's. */
function derived(known: KnownSlot, status: 1 | 2, from: SlotUpdate): SlotUpdate {
  const { slot, parent } = known
  return slotUpdate({ slot, createdAtMs: from.createdAtMs }, { parent, status })
}
