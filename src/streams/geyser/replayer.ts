// Replays the hub's log to one stream from a past slot, then switches it to live.
// Reads no faster than the stream drains (backpressure). At the end of the log the stream joins
// the live fan-out in the same turn, so that no update is lost or duplicated.
//
// Of each slot a replay has the content, the block meta, then processed, confirmed and finalized,
// as yellowstone replays it: the life cycle of a slot (first shred, bank, completed, dead) is only
// live, and a status below the stream's commitment waits for the content, which comes later.
// That of a consumer has everything as it was published, but for what it had before.
import { Commitment, isCommitment } from '../../base/commitment.ts'
import type { SlotUpdate, SolanaUpdate } from '../../chain/solana/updates.ts'
import type { ReplaySource } from '../hub/hub.ts'
import { type ReplayedChain, ReplayPace, type ReplayTurns } from '../hub/replay-turns.ts'
import { copyFilters, type FilterSet, type KeyChange, ownFilters } from './filter-set.ts'
import { type RunSink, type SlabPool, SubscriberGroup } from './frame.ts'
import { Matcher } from './matcher.ts'
import { newestPassed, type Position, type PublishedSlots, type Resumption } from './position.ts'

/** Unsent bytes at which a replay pauses, at most. */
export const aheadBytes = 1024 * 1024
/** Updates of a turn, so that other streams are served in between. */
const updatesPerTurn = 256
/** How many updates pass between two looks at the time. */
const updatesPerLook = 16
/** How often a paused replay looks whether its slots were evicted: its reader may never drain. */
const lostCheckMs = 1_000
/** How often a consumer at the end looks for more, while it has some of what is published next. */
const nextLookMs = 20

export interface ReplayingStream extends RunSink {
  readonly backlogBytes: number
  /** Of those: at so many the replay pauses. */
  readonly aheadMax: number
  /** What comes before the replay is still to be published here: the stream must not get it. */
  readonly isAhead: boolean
  /** The end of the log is reached: the stream is live from here. */
  caughtUp(): void
  /** The hub evicted the next update. */
  lostReplay(): void
}

/** Of a consumer: what it has, and what was published. */
export interface Resuming {
  readonly resumption: Resumption
  readonly published: PublishedSlots
  /** What it has of a slot is of another block than the one that is published here. */
  otherBlock(slot: number): void
}

/** Of the hub that is replayed. */
export interface ReplayMeans {
  readonly pool: SlabPool
  readonly hub: ReplayedChain & { readonly turns: ReplayTurns }
}

export class Replayer {
  readonly #replay: ReplaySource<SolanaUpdate>
  readonly #turns: ReplayTurns
  readonly #pace: ReplayPace
  readonly #stream: ReplayingStream
  readonly #matcher: Matcher
  readonly #group: SubscriberGroup
  /** Statuses of slots whose content was not replayed yet. */
  readonly #early = new Map<number, SlotUpdate[]>()
  readonly #resuming: Resuming | null
  #isStopped = false
  #isScheduled = false
  #isPaused = false
  /** Whether others match by the lists of its filters. */
  sharesLists = false
  /** After the last slot that was passed on whole; 0 before the first. */
  nextSlot = 0

  constructor(
    replay: ReplaySource<SolanaUpdate>,
    filters: FilterSet,
    { pool, hub }: ReplayMeans,
    stream: ReplayingStream,
    resuming: Resuming | null = null,
  ) {
    this.#resuming = resuming
    this.#replay = replay
    this.#turns = hub.turns
    this.#pace = new ReplayPace(hub)
    replay.onLoaded = () => this.#schedule()
    // Whoever compares states needs those before, too.
    if (resuming !== null && filters.states === null)
      replay.passes = (slot) => resuming.resumption.hasItems(slot)
    this.#stream = stream
    // All is copied: the memory of what was passed on is read into again (`usesAtOnce`).
    this.#group = new SubscriberGroup(filters, pool, () => {}, Number.POSITIVE_INFINITY)
    this.#group.sinks.add(stream)
    // Keys that change before anything is replayed leave alone what the stream has had.
    const passed = resuming === null ? -1 : newestPassed(resuming.resumption.position)
    this.#matcher = new Matcher(filters.commitment, () => replay.kept(), passed)
    this.#matcher.add(this.#group)
    this.#schedule()
  }

  /** The stream drained: resumes. */
  drained(): void {
    this.#schedule()
  }

  /** Filters that no other stream has, whose keys may change. */
  own(): FilterSet {
    const group = this.#group
    if (!this.sharesLists) group.filters = ownFilters(group.filters)
    else {
      this.sharesLists = false
      this.#matcher.remove(group)
      group.filters = copyFilters(group.filters)
      this.#matcher.add(group)
    }
    return group.filters
  }

  /** Changes keys; returns the first slot that is matched by the new ones. */
  changeKeys(changes: readonly KeyChange[]): number {
    this.#group.flush()
    return this.#matcher.changeKeys(this.#group, changes)
  }

  /** What follows is matched by these; false where that takes another replay. */
  replace(filters: FilterSet): boolean {
    const group = this.#group
    const { commitment, blocks } = group.filters
    const isRead = filters.blocks.length === 0 || blocks.length > 0
    if (filters.commitment !== commitment || !isRead) return false
    group.flush()
    this.#matcher.remove(group)
    group.filters = filters
    this.#matcher.add(group)
    this.sharesLists = false
    return true
  }

  stop(): void {
    this.#isStopped = true
  }

  /** Of a consumer: after everything that the stream was given. */
  position(): Position {
    this.#group.flush()
    return this.#resuming!.resumption.position
  }

  #schedule(): void {
    if (this.#isStopped || this.#isScheduled) return
    this.#isScheduled = true
    this.#turns.ask(this.#step, this.#pace)
  }

  #pause(ms = lostCheckMs): void {
    if (this.#isPaused) return
    this.#isPaused = true
    this.#replay.release()
    setTimeout(() => {
      this.#isPaused = false
      this.#schedule()
    }, ms).unref()
  }

  readonly #step = (isOver: () => boolean): void => {
    this.#isScheduled = false
    for (let seen = 0; seen < updatesPerTurn; seen++) {
      if (this.#isStopped) return
      if (seen % updatesPerLook === updatesPerLook - 1 && isOver()) break
      if (this.#replay.isLost) {
        this.#isStopped = true
        this.#stream.lostReplay()
        return
      }
      if (this.#stream.backlogBytes >= this.#stream.aheadMax) break
      const update = this.#replay.next()
      if (update === 'loading') {
        this.#group.flush()
        return
      }
      if (update === null) {
        this.#atEnd()
        return
      }
      this.#pace.passed(update.slot)
      this.#deliver(update)
    }
    this.#group.flush()
    if (this.#stream.backlogBytes < this.#stream.aheadMax) this.#schedule()
    else this.#pause()
  }

  #atEnd(): void {
    const isHad = this.#resuming?.resumption.isOver(this.#resuming.published) === false
    if (isHad || this.#stream.isAhead) {
      this.#group.flush()
      this.#pause(nextLookMs)
      return
    }
    this.#isStopped = true
    for (const slot of this.#early.keys()) this.#deliverEarly(slot)
    this.#group.flush()
    this.#stream.caughtUp()
  }

  #deliverNew(update: SolanaUpdate, { resumption, otherBlock }: Resuming): void {
    for (const one of resumption.takenBack(update)) this.#matcher.deliver(one)
    const verdict = resumption.judge(update)
    if (verdict === 'conflict') {
      this.#isStopped = true
      otherBlock(update.slot)
    }
    if (verdict !== 'new' || this.#isUnasked(update)) this.#matcher.observe(update)
    else this.#matcher.deliver(update)
  }

  #deliver(update: SolanaUpdate): void {
    if (this.#resuming !== null) {
      this.#deliverNew(update, this.#resuming)
      return
    }
    if (this.#isUnasked(update)) this.#matcher.observe(update)
    else if (update.kind === 'slot') this.#deliverStatus(update)
    else this.#matcher.deliver(update)
  }

  #isUnasked({ kind }: SolanaUpdate): boolean {
    return kind === 'retraction' && this.#group.filters.retractions === null
  }

  #deliverStatus(update: SlotUpdate): void {
    const { slot, status } = update
    const { commitment } = this.#group.filters
    if (status === Math.max(commitment, Commitment.confirmed))
      this.nextSlot = Math.max(this.nextSlot, slot + 1)
    if (!isCommitment(status) || status < commitment) this.#matcher.observe(update)
    if (!isCommitment(status)) return
    if (status < commitment) {
      const early = this.#early.get(slot)
      if (early === undefined) this.#early.set(slot, [update])
      else early.push(update)
      return
    }
    this.#deliverEarly(slot)
    this.#matcher.deliver(update)
  }

  #deliverEarly(slot: number): void {
    for (const update of this.#early.get(slot) ?? []) this.#matcher.deliver(update)
    this.#early.delete(slot)
  }
}
