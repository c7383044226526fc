// Sends a subscription what its cursor has not, from the log, then lets it join the live ones.
// Reads no faster than the connection does. At the end of the log it joins in the same turn, so
// that nothing is lost or sent twice.
//
//   subscribe with resume ─► waits for a permit ─► log ─► end of the log: joins the feed's topic
//   connection too slow ───► leaves it, waits for room ─┘
//     connection behind, over its rate ─► pauses, and holds nothing of the log
//     next slots not kept any more     ─► the subscription ends, with a message that says so
import type { Commitment } from '../../base/commitment.ts'
import { errorMessage } from '../../base/jsonrpc/build.ts'
import { KnownBlocks } from '../../chain/solana/known-blocks.ts'
import type { SolanaUpdate } from '../../chain/solana/updates.ts'
import type { ReplaySource } from '../hub/hub.ts'
import { ReplayPace, type ReplayStep } from '../hub/replay-turns.ts'
import type { Customer, PubsubChain, Session } from './chain.ts'
import { type PubsubCursor, windowSlots } from './cursor.ts'
import { CursorFeeds, type CursorFeedsDeps, isReached } from './cursor-feeds.ts'
import type { Feed, FeedRegistry, FeedShare, ShareReplay } from './feed.ts'
import { FeedIndex } from './feed.ts'
import { COMPARISON_BYTES, NOTIFICATION_BYTES } from './notifier.ts'
import type { TransactionParams } from './read-params.ts'

/** Updates of a turn, so that others are served in between. */
const UPDATES_PER_TURN = 256
/** How many updates pass between two looks whether it is over. */
const UPDATES_PER_LOOK = 16
/** Between two looks at a connection that is behind, or at a log whose end is reached too early. */
const PAUSE_MS = 20
/** Replays at once; further ones wait, in the order of their subscribes. */
const PER_CONNECTION = 4
const PER_CUSTOMER = 16
/** Slots that a cursor may be ahead of this gateway: another one may be faster. */
const AHEAD_MAX = 512
/** The code with which a validator says that a block is not kept any more. */
export const CLEANED_UP = -32001

export interface FeedReplaysDeps extends Omit<CursorFeedsDeps, 'index' | 'notifier'> {
  readonly chain: PubsubChain
  readonly live: CursorFeeds
  /** Lets the live ones take what was published and waits for them. */
  catchUp(): void
  readonly registry: FeedRegistry
}

/** Why a cursor cannot be resumed here. */
export type ResumeProblem =
  | { readonly kind: 'too-old'; readonly oldestSlot: number }
  | { readonly kind: 'ahead' | 'unavailable' }

/** What the live subscriptions have taken. */
export interface LivePosition {
  /** By commitment the newest slot of which they have something that keys select. */
  readonly newest: readonly number[]
  /** The era of what waits for them; null when nothing does. */
  readonly era: number | null
}

/** Starts replays, a few at a time. */
export class FeedReplays {
  readonly #deps: FeedReplaysDeps
  readonly #running = new Map<Session | Customer, number>()
  /** Replays of connections that have fallen behind, until all of them have caught up. */
  readonly #behind = new Map<Session, Set<FeedReplay>>()
  #waiting: FeedReplay[] = []
  #isPolling = false
  #isStopped = false

  constructor(deps: FeedReplaysDeps) {
    this.#deps = deps
  }

  /** Null when a replay can start there. */
  problemWith(cursor: PubsubCursor): ResumeProblem | null {
    const { hub, streamLog } = this.#deps.chain
    const oldestSlot = (streamLog ?? hub).oldestSlot
    const { newestSlot } = hub
    if (oldestSlot === null || newestSlot === null) return { kind: 'unavailable' }
    if (cursor.top > newestSlot + AHEAD_MAX) return { kind: 'ahead' }
    return firstUnsent(cursor) < oldestSlot ? { kind: 'too-old', oldestSlot } : null
  }

  /** A replay that is held starts with `release`. */
  start(session: Session, feed: Feed, cursor: PubsubCursor, isHeld: boolean): void {
    const replay = this.#make({ session, feed, share: feed.shares.get(session)!, cursor })
    replay.isHeld = isHeld
    this.#next()
  }

  release(session: Session, feed: Feed): void {
    const replay = this.#waiting.find(({ of }) => of.session === session && of.feed === feed)
    if (replay?.isHeld !== true) return
    replay.isHeld = false
    this.#next()
  }

  /** The feeds go on from here, and begin when the connection has read what it has. */
  fallBehind(session: Session, feeds: readonly Feed[], from: LivePosition): void {
    // Sent first: with it goes what was published in this turn, which is before the cursors.
    this.#notify(session, true, feeds)
    if (!this.#deps.registry.has(session)) return
    const behind = this.#behind.get(session) ?? new Set()
    this.#behind.set(session, behind)
    for (const feed of feeds) {
      const share = feed.shares.get(session)!
      const cursor = this.#deps.live.cursorOf(feed)
      feed.fallBehind(session, share)
      const replay = this.#make({ session, feed, share, cursor })
      replay.startHere(from)
      replay.isFallen = true
      replay.needsRoom = true
      behind.add(replay)
    }
    this.#next()
  }

  stop(): void {
    this.#isStopped = true
    this.#waiting = []
  }

  #make(of: ReplayOf): FeedReplay {
    const replay: FeedReplay = new FeedReplay(of, this.#deps, {
      done: () => {
        this.#count(of.session.budget, -1)
        this.#finish(replay)
        this.#next()
      },
      waitForRoom: () => {
        this.#count(of.session.budget, -1)
        replay.needsRoom = true
        this.#waiting.push(replay)
        this.#next()
      },
    })
    of.share.replay = replay
    this.#waiting.push(replay)
    return replay
  }

  /**
   * A replay holds its permits until it is over. One of a connection that has fallen behind returns
   * that of the customer while it waits for room: its other connections do not wait for it.
   */
  #next(): void {
    if (this.#isStopped) return
    const starting: FeedReplay[] = []
    // Asked once for all replays of a connection: many may wait.
    const withRoom = new Set([...this.#behind.keys()].filter((session) => session.hasRoom()))
    this.#waiting = this.#waiting.filter((replay) => {
      if (replay.isOver) {
        this.#finish(replay)
        return false
      }
      const { session } = replay.of
      const isFull =
        (!replay.isStarted && (this.#running.get(session) ?? 0) >= PER_CONNECTION) ||
        (this.#running.get(session.budget) ?? 0) >= PER_CUSTOMER
      const isWaiting = replay.needsRoom && !replay.isLost && !withRoom.has(session)
      if (replay.isHeld || isFull || isWaiting) return true
      if (!replay.isStarted) this.#count(session, 1)
      this.#count(session.budget, 1)
      starting.push(replay)
      return false
    })
    for (const replay of starting) replay.start()
    if (this.#isPolling || !this.#waiting.some(({ needsRoom }) => needsRoom)) return
    this.#isPolling = true
    setTimeout(() => {
      this.#isPolling = false
      this.#next()
    }, PAUSE_MS).unref()
  }

  #finish(replay: FeedReplay): void {
    const { session } = replay.of
    if (replay.isStarted) this.#count(session, -1)
    const behind = this.#behind.get(session)
    if (behind?.delete(replay) !== true || behind.size > 0) return
    this.#behind.delete(session)
    if (this.#deps.registry.has(session)) this.#notify(session, false, [])
  }

  /** A connection gets what follows from what is kept, or is up to date again. */
  #notify(session: Session, isBehind: boolean, feeds: readonly Feed[]): void {
    const slot = this.#deps.chain.hub.newestSlot ?? 0
    const subscriptions = isBehind ? { subscriptions: feeds.map(({ id }) => id) } : {}
    const params = { result: { isBehind, slot, ...subscriptions } }
    const text = JSON.stringify({ jsonrpc: '2.0', method: 'behindNotification', params })
    const message = Buffer.from(text)
    session.budget.meter('notifications', 1)
    session.budget.meter('bytes', message.length)
    session.sendNow(message)
  }

  #count(key: Session | Customer, change: number): void {
    const count = (this.#running.get(key) ?? 0) + change
    if (count === 0) this.#running.delete(key)
    else this.#running.set(key, count)
  }
}

interface ReplayOf {
  readonly session: Session
  readonly cursor: PubsubCursor
  feed: Feed
  share: FeedShare
}

class FeedReplay implements ShareReplay {
  readonly of: ReplayOf
  newestSlot = -1
  /** It waits for changes of keys; for its connection to read, which has fallen behind. */
  isHeld = false
  needsRoom = false
  isFallen = false
  isStarted = false
  readonly #deps: FeedReplaysDeps
  readonly #events: { done(): void; waitForRoom(): void }
  #index: FeedIndex | null = null
  #feeds: CursorFeeds | null = null
  #source: ReplaySource<SolanaUpdate> | null = null
  readonly #pace: ReplayPace
  #isScheduled = false
  #hasEnded = false

  constructor(of: ReplayOf, deps: FeedReplaysDeps, events: { done(): void; waitForRoom(): void }) {
    this.of = of
    this.#deps = deps
    this.#events = events
    this.#pace = new ReplayPace(deps.chain.hub)
  }

  /** Made when it is used first: many wait. */
  get index(): FeedIndex {
    if (this.#index !== null) return this.#index
    this.#index = new FeedIndex()
    this.#index.add(this.of.feed)
    return this.#index
  }

  /** Its connection or its subscription is gone, or it has joined the live ones. */
  get isOver(): boolean {
    const { feed, session, share } = this.of
    return feed.shares.get(session) !== share || !share.isReplaying
  }

  /** It has an end to report, whether there is room or not. */
  get isLost(): boolean {
    return this.#source?.isLost === true
  }

  moveTo(feed: Feed, share: FeedShare): void {
    this.#index?.remove(this.of.feed)
    this.#index?.add(feed)
    this.of.feed = feed
    this.of.share = share
  }

  /** The answer to the subscribe is sent first. */
  start(): void {
    this.isStarted = true
    this.needsRoom = false
    this.#schedule()
  }

  /** Begins with the slots that are open here, not as far back as a cursor of elsewhere needs. */
  startHere({ newest, era: waiting }: LivePosition): void {
    const { hub, streamLog } = this.#deps.chain
    const { kind } = this.of.feed.params
    const commitment = this.#commitment
    this.newestSlot = newest[commitment]!
    const open = this.#deps.live.oldestOpen(commitment) ?? hub.newestSlot
    if (kind === 'slot' || kind === 'root' || open === null) return
    const era = Math.min(open, waiting ?? open)
    const at = { era, count: 0 }
    const options = { commitment, fromSlot: 0, wantsBlocks: kind === 'block', at }
    this.#use(streamLog?.replay(options) ?? hub.replay(commitment, 0, at))
    this.#source?.release()
  }

  #use(source: ReplaySource<SolanaUpdate> | null): void {
    this.#source = source
    // What is loaded while it waits for room is read when it starts.
    if (source !== null) source.onLoaded = () => this.needsRoom || this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#deps.chain.hub.turns.ask(this.#step, this.#pace)
  }

  #pause(waitMs: number): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#source?.release()
    setTimeout(() => {
      this.#isScheduled = false
      this.#schedule()
    }, waitMs).unref()
  }

  readonly #step: ReplayStep = (isOver) => {
    this.#isScheduled = false
    const { session } = this.of
    if (this.isOver) return void this.#end()
    this.#feeds ??= this.#makeFeeds()
    if (this.#source === null) this.#use(this.#open())
    const source = this.#source
    let seen = 0
    for (; seen < UPDATES_PER_TURN; seen++) {
      if (source === null || source.isLost) {
        this.#lose()
        return
      }
      if (seen % UPDATES_PER_LOOK === UPDATES_PER_LOOK - 1 && isOver()) break
      if (this.isOver || !session.hasRoom()) break
      const update = source.next()
      if (update === 'loading') return
      if (update === null) {
        this.#endOfLog(this.#feeds)
        return
      }
      this.#pace.passed(update.slot)
      this.#advance(update)
      this.#feeds.take(this.#commitment, update)
    }
    session.budget.chargeNotification(seen * COMPARISON_BYTES)
    const hasRoom = session.hasRoom()
    const waitMs = Math.max(hasRoom ? 0 : PAUSE_MS, session.budget.notificationWaitMs())
    if (!hasRoom && this.isFallen) {
      this.#source?.release()
      this.#events.waitForRoom()
    } else if (waitMs > 0) this.#pause(waitMs)
    else this.#schedule()
  }

  #makeFeeds(): CursorFeeds {
    const deps = this.#deps
    const { session, feed, cursor } = this.of
    const notifier: CursorFeedsDeps['notifier'] = {
      send: (one, result, _slot, _createdAtMs, text) => {
        // A notification may wait for a mint, or be one of many of an update.
        if (this.isOver) return
        const message = one.message(result, text)
        session.notify(message)
        session.budget.chargeNotification(message.length + NOTIFICATION_BYTES)
        deps.meters.notified(one.params.kind, 1)
      },
      pass: () => {},
    }
    const blocks = new KnownBlocks(this.#commitment, () => this.#source?.kept() ?? [])
    const blocksOf = () => blocks
    const feeds = new CursorFeeds({ ...deps, index: this.index, notifier, blocksOf }, cursor)
    feeds.startAfter(feed.params, cursor)
    return feeds
  }

  #advance(update: SolanaUpdate): void {
    const { feed } = this.of
    if (update.slot <= this.newestSlot || !isReached(this.#commitment, update)) return
    this.newestSlot = update.slot
    if (feed.keys === null) return
    const gone = feed.keys.settle(update.slot)
    // Reason for the cast: only those have keys that change.
    this.index.changeKeys(feed as Feed<TransactionParams>, 'remove', gone)
  }

  get #commitment(): Commitment {
    const { params } = this.of.feed
    return 'commitment' in params ? params.commitment : 0
  }

  #open(): ReplaySource<SolanaUpdate> | null {
    const { hub, streamLog } = this.#deps.chain
    const { cursor, feed } = this.of
    const oldest = (streamLog ?? hub).oldestSlot
    if (oldest === null || firstUnsent(cursor) < oldest) return null
    // A slot notification names the root, which is finalized about as much later.
    const back = feed.params.kind === 'slot' ? 2 * windowSlots : windowSlots
    const fromSlot = Math.max(oldest, cursor.top - back + 1)
    const commitment = this.#commitment
    const wantsBlocks = feed.params.kind === 'block'
    return (
      streamLog?.replay({ commitment, fromSlot, wantsBlocks }) ?? hub.replay(commitment, fromSlot)
    )
  }

  #endOfLog(feeds: CursorFeeds): void {
    const { session, feed, share } = this.of
    this.#deps.catchUp()
    // What waited may have been too much for its customer, which then has no share any more.
    if (this.isOver) {
      this.#end()
      return
    }
    if (!this.#deps.live.adopt(feeds, feed)) {
      this.#pause(PAUSE_MS)
      return
    }
    feed.caughtUp(session, share)
    this.#end()
  }

  /** Once: a source that is lost may say so twice. */
  #end(): void {
    if (!this.#hasEnded) this.#events.done()
    this.#hasEnded = true
  }

  #lose(): void {
    const { session, feed } = this.of
    const { id } = feed
    const message = `Subscription ${id} has ended: the slots after its cursor are not kept`
    const data = { reason: 'replay-lost', subscription: id }
    session.notify(errorMessage('null', { code: CLEANED_UP, message, data }))
    this.#deps.registry.unsubscribe(session, id)
    this.#end()
  }
}

/** Slots below it were sent, or never came. */
function firstUnsent({ top, bits, partials }: PubsubCursor): number {
  const open = [...partials.keys()]
  return Math.min(...open, (bits & 1) === 1 ? top + 1 : top)
}
