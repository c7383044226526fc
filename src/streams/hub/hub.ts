// Publishes each Solana update to every listener in order, at three commitments, and keeps the
// last slots for replay. It numbers no update, drops none for a listener, and waits for none.
//
//   content(slot 9) ---> processed now       status(slot 9, confirmed) --+
//                   \--> kept for slot 9 ----> confirmed: all of slot 9, then the status
//                                        ----> finalized: the same when it is finalized
//
//   era 7 -> era 8 -> era 9      an era keeps, per commitment, what was published while that slot
//   [p c f] [p c f] [p c f]      was the newest; whole eras are evicted from the front, so all
//                                updates of slot n are there as long as era n is; an evicted era
//                                is emptied and cut off, so that a replay left in it holds nothing
import { allCommitments, Commitment } from '../../base/commitment.ts'
import { assert } from '../../base/errors.ts'
import { SlotTime } from '../../base/slot-time.ts'
import { ownTurns, type ReplayTurns } from './replay-turns.ts'
import { type Listed, UpdateList, type UpdateReader } from './update-list.ts'

export type HubListener<U> = (commitment: Commitment, update: U) => void

/** Whether a listener looks at updates that a source makes when a slot reaches a commitment. */
export type HubInterest = (commitment: Commitment) => boolean

export interface HubBounds {
  /** Slots kept for replay; 0 keeps none. */
  readonly replaySlots: number
  /** Where that is longer than `replaySlots`. */
  readonly replayMs?: number
  readonly replayBytesMax: number
  /** Content that waits to be finalized; of more, the oldest slots are dropped. */
  readonly unfinalizedBytesMax?: number
}

/** Slots whose content waits to be confirmed or finalized; a healthy chain has about 33. */
const unfinalizedSlots = 1_024
const unfinalizedMs = 400_000
/** A busy mainnet has up to 3 GiB in 33 slots. */
export const unfinalizedBytesInitial = 4 * 1024 * 1024 * 1024

export interface HubUpdate extends Listed {
  readonly slot: number
}

export interface ClosedEra<U extends HubUpdate> {
  readonly slot: number
  readonly updates: readonly [
    processed: UpdateList<U>,
    confirmed: UpdateList<U>,
    finalized: UpdateList<U>,
  ]
  readonly bytes: number
}

interface Era<U extends HubUpdate> extends ClosedEra<U> {
  bytes: number
  next: Era<U> | null
  isDropped: boolean
}

/** Where in the log the last bank of a slot begins: what the slot has before is void. */
interface BankStart<U extends HubUpdate> {
  readonly era: Era<U>
  /** Updates of the era before it, by commitment. */
  readonly at: readonly number[]
}

interface SlotContent<U extends HubUpdate> {
  /** Null once they were dropped: half a slot must not look like a whole one. */
  updates: UpdateList<U> | null
  bytes: number
  reached: Commitment
}

export class Hub<U extends HubUpdate> {
  readonly #bounds: HubBounds
  /** Of the chain that is published. */
  readonly slotTime: SlotTime
  /** Of those who replay it. */
  readonly turns: ReplayTurns
  readonly #bytesOf: (update: U) => number
  #listeners: readonly HubListener<U>[] = []
  #interests: readonly HubInterest[] = []
  #restartListeners: readonly (() => void)[] = []
  readonly #voidListeners: ((updates: Iterable<U>) => void)[] = []
  readonly #contents = new Map<number, SlotContent<U>>()
  readonly #bankStarts = new Map<number, BankStart<U>>()
  #first: Era<U> | null = null
  #last: Era<U> | null = null
  #eras = 0
  #bytes = 0
  #unfinalizedBytes = 0
  /** Of the first content: a source that begins in the middle of a chain has statuses before. */
  firstContent: number | null = null
  /** Slots that were dropped before they were finalized. */
  droppedSlots = 0
  /** The newest slot that has reached each commitment. */
  readonly #newestAt = [-1, -1, -1]
  /** Called with each era from the first content on once nothing more is added to it. */
  onClosed: (era: ClosedEra<U>) => void = () => {}

  constructor(
    bounds: HubBounds,
    bytesOf: (update: U) => number,
    slotTime = new SlotTime(),
    turns = ownTurns,
  ) {
    this.#bounds = bounds
    this.slotTime = slotTime
    this.turns = turns
    this.#bytesOf = bytesOf
  }

  /** Publishes an update of a slot: as processed now, then at each commitment that it reaches. */
  content(update: U): void {
    this.firstContent ??= update.slot
    const content = this.#contentOf(update.slot)
    const bytes = this.#bytesOf(update)
    this.#keep(content, update, bytes)
    const era = this.#eraOf(update)
    era.bytes += bytes
    this.#bytes += bytes
    // What comes before it is complete.
    this.#reach(Commitment.processed, update.slot - 1)
    this.#emit(era, Commitment.processed, update)
    if (content.reached >= Commitment.confirmed) this.#emit(era, Commitment.confirmed, update)
    if (content.reached === Commitment.finalized) this.#emit(era, Commitment.finalized, update)
    this.#trim()
  }

  /**
   * Publishes a slot's change of status at all commitments. `reached` is the commitment that the
   * slot reached with it, if any: the slot's content is then published at that commitment first.
   * Lower commitments have the status before that content: it does not wait for what is bulky.
   */
  status(update: U, reached: Commitment | null): void {
    const era = this.#eraOf(update)
    for (const commitment of allCommitments) {
      if (reached !== null && commitment <= reached) this.catchUp(update.slot, commitment)
      this.#emit(era, commitment, update)
      if (reached !== null && commitment <= reached) this.#reach(commitment, update.slot)
    }
    this.#trim()
  }

  /** Publishes the content of a slot at what it has reached, which may precede the content. */
  catchUp(slot: number, reached: Commitment): void {
    const content = this.#contents.get(slot)
    const era = this.#last
    if (content === undefined || era === null) return
    for (const commitment of allCommitments) {
      if (commitment <= content.reached || commitment > reached) continue
      content.reached = commitment
      if (content.updates !== null) this.#emitAll(era, commitment, content.updates)
    }
    // That it was finalized is kept: an item that is late is published at all commitments.
    if (reached === Commitment.finalized) this.#release(content)
  }

  /** Replaces the content of a slot that is only processed; confirmed and finalized get this. */
  restate(slot: number, updates: Iterable<U>): void {
    const content = this.#contentOf(slot)
    if (content.reached !== Commitment.processed || content.updates === null) return
    this.#release(content)
    content.updates = new UpdateList()
    for (const update of updates) this.#keep(content, update, this.#bytesOf(update))
  }

  /** Publishes an update at processed alone: what was published before is void. */
  retract(update: U): void {
    this.#emit(this.#eraOf(update), Commitment.processed, update)
    this.#trim()
  }

  /** Another bank follows that of the slot, whose content is void: listeners get it once more. */
  replace(slot: number): void {
    const updates = this.#contents.get(slot)?.updates
    if (updates) for (const listener of this.#voidListeners) listener(updates)
    this.abandon(slot)
  }

  onVoid(listener: (updates: Iterable<U>) => void): void {
    this.#voidListeners.push(listener)
  }

  /** The slot will never be confirmed: its content is dropped. */
  abandon(slot: number): void {
    const content = this.#contents.get(slot)
    if (content === undefined) return
    this.#release(content)
    this.#contents.delete(slot)
    const isCounted = this.#contents.size > 0 || this.#unfinalizedBytes === 0
    assert(isCounted, 'bytes wait to be finalized with their slots')
  }

  /** The slot has another bank from here on: a replay has nothing of the one before. */
  replaceBank(slot: number): void {
    this.abandon(slot)
    const era = this.#last
    if (era === null) return
    this.#bankStarts.set(slot, { era, at: era.updates.map(({ length }) => length) })
  }

  /** The chain begins anew: everything kept is dropped, and replays are lost. */
  restart(): void {
    for (let era = this.#first; era !== null; ) {
      const { next } = era
      era.isDropped = true
      era.next = null
      era = next
    }
    this.#first = null
    this.#last = null
    this.#eras = 0
    this.#bytes = 0
    this.#contents.clear()
    this.#bankStarts.clear()
    this.#unfinalizedBytes = 0
    this.firstContent = null
    this.#newestAt.fill(-1)
    for (const listener of this.#restartListeners) listener()
  }

  /** Calls the listener when the chain begins anew: whatever it knows is of another chain. */
  onRestart(listener: () => void): () => void {
    this.#restartListeners = [...this.#restartListeners, listener]
    return () => {
      this.#restartListeners = this.#restartListeners.filter((one) => one !== listener)
    }
  }

  /**
   * `wants` is asked when a slot reaches a commitment: while it is false for all listeners, the
   * updates of the slot that a source makes are kept for a replay, but not made for them.
   */
  listen(listener: HubListener<U>, wants: HubInterest = () => true): () => void {
    this.#listeners = [...this.#listeners, listener]
    this.#interests = [...this.#interests, wants]
    return () => {
      this.#listeners = this.#listeners.filter((one) => one !== listener)
      this.#interests = this.#interests.filter((one) => one !== wants)
    }
  }

  /** The oldest slot that a replay can start from; null while no content is kept. */
  get oldestSlot(): number | null {
    if (this.#first === null || this.firstContent === null) return null
    return Math.max(this.#first.slot, this.firstContent)
  }

  /** The oldest era in memory; there may be nothing but statuses in it. */
  get oldestEra(): number | null {
    return this.#first?.slot ?? null
  }

  get newestSlot(): number | null {
    return this.#last?.slot ?? null
  }

  /** The newest slot whose content is published at a commitment; -1 before the first. */
  newestAt(commitment: Commitment): number {
    return this.#newestAt[commitment]!
  }

  get keptBytes(): number {
    return this.#bytes
  }

  /** Where the next update at a commitment will be. */
  end(commitment: Commitment): ReplayPosition {
    const era = this.#last
    return { era: era?.slot ?? 0, count: era?.updates[commitment].length ?? 0 }
  }

  /** The content of slots that are not finalized, as far as it was published at a commitment. */
  *unfinalized(commitment: Commitment): Iterable<readonly [slot: number, UpdateList<U>]> {
    for (const [slot, { updates, reached }] of this.#contents)
      if (updates !== null && reached >= commitment) yield [slot, updates]
  }

  /** Of the content of a slot that is not finalized: the updates that are kept themselves. */
  keptOf(slot: number): Iterable<U> {
    return this.#contents.get(slot)?.updates?.kept() ?? []
  }

  /**
   * Replays `fromSlot` and later slots at a commitment, or continues in the era of `at`, after so
   * many of its updates; null when some were evicted.
   */
  replay(commitment: Commitment, fromSlot: number, at?: ReplayPosition): Replay<U> | null {
    const { era: slot, count } = at ?? { era: fromSlot, count: 0 }
    if (at === undefined && fromSlot < (this.oldestSlot ?? fromSlot + 1)) return null
    let era = this.#first
    if (era === null || slot < era.slot) return null
    while (era.next !== null && era.slot < slot) era = era.next
    const replay = new Replay(era, { commitment, fromSlot, bankStarts: this.#bankStarts })
    if (era.slot === slot) replay.skip(count)
    return replay
  }

  #reach(commitment: Commitment, slot: number): void {
    if (slot > this.#newestAt[commitment]!) this.#newestAt[commitment] = slot
  }

  #contentOf(slot: number): SlotContent<U> {
    const known = this.#contents.get(slot)
    if (known !== undefined) return known
    const { processed: reached } = Commitment
    const content: SlotContent<U> = { updates: new UpdateList(), bytes: 0, reached }
    this.#contents.set(slot, content)
    const slotsMax = this.slotTime.slotsIn(unfinalizedMs, unfinalizedSlots)
    while (this.#contents.size > slotsMax) {
      const [oldest, { updates }] = this.#contents.entries().next().value!
      if (updates !== null) this.droppedSlots++
      this.abandon(oldest)
    }
    return content
  }

  #keep(content: SlotContent<U>, update: U, bytes: number): void {
    if (content.updates === null) return
    content.updates.push(update)
    content.bytes += bytes
    this.#unfinalizedBytes += bytes
    const { unfinalizedBytesMax = unfinalizedBytesInitial } = this.#bounds
    if (this.#unfinalizedBytes <= unfinalizedBytesMax) return
    for (const oldest of this.#contents.values()) {
      if (this.#unfinalizedBytes <= unfinalizedBytesMax) return
      if (oldest.updates === null) continue
      this.droppedSlots++
      this.#release(oldest)
    }
  }

  #release(content: SlotContent<U>): void {
    this.#unfinalizedBytes -= content.bytes
    assert(this.#unfinalizedBytes >= 0, 'bytes that wait to be finalized are counted')
    content.bytes = 0
    content.updates = null
  }

  #eraOf(update: U): Era<U> {
    const last = this.#last
    if (last !== null && update.slot <= last.slot) return last
    const { slot } = update
    const updates = [new UpdateList<U>(), new UpdateList<U>(), new UpdateList<U>()] as const
    const era: Era<U> = { slot, updates, bytes: 0, next: null, isDropped: false }
    assert((last === null) === (this.#eras === 0), 'eras are counted')
    if (last === null) this.#first = era
    else last.next = era
    this.#last = era
    this.#eras++
    if (last !== null && last.slot >= (this.firstContent ?? slot)) this.onClosed(last)
    return era
  }

  #emitAll(era: Era<U>, commitment: Commitment, updates: UpdateList<U>): void {
    if (this.#interests.some((wants) => wants(commitment))) {
      const reader = updates.reader()
      for (let one = reader.next(); one !== null; one = reader.next())
        this.#emit(era, commitment, one)
      return
    }
    era.updates[commitment].append(updates, (update) => {
      for (const listener of this.#listeners) listener(commitment, update)
    })
  }

  #emit(era: Era<U>, commitment: Commitment, update: U): void {
    // Into the era first: a replay that reaches its end inside a listener has then read this one.
    era.updates[commitment].push(update)
    for (const listener of this.#listeners) listener(commitment, update)
  }

  #trim(): void {
    const { replaySlots, replayMs = 0, replayBytesMax } = this.#bounds
    const erasMax = this.slotTime.slotsIn(replayMs, Math.max(1, replaySlots))
    while (this.#eras > erasMax || this.#bytes > replayBytesMax) {
      const first = this.#first
      assert(first !== null, 'an era is counted')
      // The newest era stays, whatever its size: new streams start from it.
      if (first.next === null) return
      this.#first = first.next
      this.#eras--
      this.#bytes -= first.bytes
      first.isDropped = true
      first.next = null
      for (const updates of first.updates) updates.clear()
      for (const [slot, { era }] of this.#bankStarts)
        if (era === first) this.#bankStarts.delete(slot)
      assert(this.#bytes >= 0 && this.#eras > 0, 'eras and their bytes are counted')
    }
  }
}

/** Updates from a past slot on, and what is published meanwhile. */
export interface ReplaySource<U> {
  /** The next update is not kept any more. */
  readonly isLost: boolean
  /** Called when there is more to say than 'loading'. */
  onLoaded: () => void
  /** Null at the end, until more is published; 'loading' until `onLoaded`. */
  next(): U | null | 'loading'
  /** Items of slots for which it is true are not wanted, and mostly not read. */
  passes: ((slot: number) => boolean) | null
  /** A reader that pauses holds nothing. */
  release(): void
  /** Updates around its position that are kept themselves; blocks may be without their items. */
  kept(): Iterable<U>
}

export interface ReplayOptions {
  readonly commitment: Commitment
  readonly fromSlot: number
  readonly wantsBlocks: boolean
  /** Nothing refers to an update's bytes once the next is asked for: their memory is used again. */
  readonly usesAtOnce?: boolean
  /** Begins there instead of at the slot, which is 0. */
  readonly at?: ReplayPosition
}

/** What was published earlier than the hub remembers. */
export interface KeptStream<U> {
  /** The oldest slot that a replay can start from; null while nothing is kept. */
  readonly oldestSlot: number | null
  /** Null when some of it was removed. */
  replay(options: ReplayOptions): ReplaySource<U> | null
}

export interface ReplayPosition {
  readonly era: number
  /** Updates of the era that were read. */
  readonly count: number
}

interface ReplayOf<U extends HubUpdate> {
  readonly commitment: Commitment
  readonly fromSlot: number
  readonly bankStarts: ReadonlyMap<number, BankStart<U>>
}

/** Reads kept updates. At its end (`next` returns null) a listener takes over in the same turn. */
export class Replay<U extends HubUpdate> implements ReplaySource<U> {
  readonly #of: ReplayOf<U>
  #era: Era<U>
  #reader: UpdateReader<U>
  #count = 0

  constructor(era: Era<U>, of: ReplayOf<U>) {
    this.#era = era
    this.#of = of
    this.#reader = era.updates[of.commitment].reader()
  }

  /** True when the hub evicted the next update: the reader was too slow and must stop. */
  get isLost(): boolean {
    return this.#era.isDropped
  }

  get position(): ReplayPosition {
    return { era: this.#era.slot, count: this.#count }
  }

  passes: ((slot: number) => boolean) | null = null
  onLoaded: () => void = () => {}

  release(): void {}

  kept(): Iterable<U> {
    return this.#era.updates[this.#of.commitment].kept()
  }

  /** Passes over updates of its era. */
  skip(count: number): void {
    while (this.#count < count && this.#reader.next() !== null) this.#count++
  }

  /** Null at the end, until more is published. Not for a replay that is lost. */
  next(): U | null {
    assert(!this.isLost, 'the slots of the replay were not evicted')
    for (;;) {
      if (this.passes !== null) this.#count += this.#reader.pass(this.passes)
      const update = this.#reader.next()
      if (update !== null) {
        const at = this.#count++
        if (update.slot >= this.#of.fromSlot && !this.#isVoid(update.slot, at)) return update
        continue
      }
      if (this.#era.next === null) return null
      this.#era = this.#era.next
      this.#count = 0
      this.#reader = this.#era.updates[this.#of.commitment].reader()
    }
  }

  #isVoid(slot: number, at: number): boolean {
    const { bankStarts, commitment } = this.#of
    const start = bankStarts.get(slot)
    if (start === undefined) return false
    return this.#era === start.era ? at < start.at[commitment]! : this.#era.slot < start.era.slot
  }
}
