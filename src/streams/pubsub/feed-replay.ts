// Sends a subscription what its cursor has not, from the log, then lets it join the live ones.
// Reads no faster than the connection does. At the end of the log it joins in the same turn, so
// that nothing is lost or sent twice.
//
//   subscribe with resume ─► waits for a permit ─► log ─► end of the log: joins the feed's topic
//     connection behind, over its rate ─► pauses, and holds nothing of the log
//     next slots not kept any more     ─► the subscription ends, with a message that says so
import { errorMessage } from '../../base/jsonrpc/build.ts'
import type { SolanaUpdate } from '../../chain/solana/updates.ts'
import type { ReplaySource } from '../hub/hub.ts'
import type { Customer, PubsubChain, Session } from './chain.ts'
import { type PubsubCursor, windowSlots } from './cursor.ts'
import { CursorFeeds, type CursorFeedsDeps } from './cursor-feeds.ts'
import { type Feed, FeedIndex, type FeedShare } from './feed.ts'
import { COMPARISON_BYTES, NOTIFICATION_BYTES } from './notifier.ts'

/** Updates per event-loop turn, so that others are served in between. */
const UPDATES_PER_TURN = 256
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
  unsubscribe(session: Session, id: number): void
}

/** Why a cursor cannot be resumed here. */
export type ResumeProblem =
  | { readonly kind: 'too-old'; readonly oldestSlot: number }
  | { readonly kind: 'ahead' | 'unavailable' }

/** Starts replays, a few at a time. */
export class FeedReplays {
  readonly #deps: FeedReplaysDeps
  readonly #running = new Map<Session | Customer, number>()
  #waiting: FeedReplay[] = []
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

  start(session: Session, feed: Feed, cursor: PubsubCursor): void {
    const share = feed.shares.get(session)!
    const replay = new FeedReplay({ session, feed, share, cursor }, this.#deps, () => {
      this.#count(session, -1)
      this.#next()
    })
    this.#waiting.push(replay)
    this.#next()
  }

  stop(): void {
    this.#isStopped = true
    this.#waiting = []
  }

  #next(): void {
    if (this.#isStopped) return
    this.#waiting = this.#waiting.filter((replay) => {
      if (replay.isOver) return false
      const { session } = replay.of
      const isFull =
        (this.#running.get(session) ?? 0) >= PER_CONNECTION ||
        (this.#running.get(session.budget) ?? 0) >= PER_CUSTOMER
      if (isFull) return true
      this.#count(session, 1)
      replay.start()
      return false
    })
  }

  #count(session: Session, change: number): void {
    for (const key of [session, session.budget]) {
      const count = (this.#running.get(key) ?? 0) + change
      if (count === 0) this.#running.delete(key)
      else this.#running.set(key, count)
    }
  }
}

interface ReplayOf {
  readonly session: Session
  readonly feed: Feed
  readonly share: FeedShare
  readonly cursor: PubsubCursor
}

class FeedReplay {
  readonly of: ReplayOf
  readonly #deps: FeedReplaysDeps
  readonly #done: () => void
  readonly #feeds: CursorFeeds
  #source: ReplaySource<SolanaUpdate> | null = null
  #isScheduled = false

  constructor(of: ReplayOf, deps: FeedReplaysDeps, done: () => void) {
    this.of = of
    this.#deps = deps
    this.#done = done
    const index = new FeedIndex()
    index.add(of.feed)
    const { session, cursor } = of
    const notifier: CursorFeedsDeps['notifier'] = {
      send: (feed, result, _slot, _createdAtMs, text) => {
        const message = feed.message(result, text)
        session.notify(message)
        session.budget.chargeNotification(message.length + NOTIFICATION_BYTES)
        deps.meters.notified(feed.params.kind, 1)
      },
      pass: () => {},
    }
    this.#feeds = new CursorFeeds({ ...deps, index, notifier }, cursor)
    this.#feeds.startAfter(of.feed.params, cursor)
  }

  /** Its connection or its subscription is gone, or it has joined the live ones. */
  get isOver(): boolean {
    const { feed, session, share } = this.of
    return feed.shares.get(session) !== share || !share.isReplaying
  }

  /** The answer to the subscribe is sent first. */
  start(): void {
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(this.#step)
  }

  #pause(waitMs: number): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#source?.release()
    setTimeout(this.#step, waitMs).unref()
  }

  readonly #step = (): void => {
    this.#isScheduled = false
    const { session } = this.of
    if (this.isOver) {
      this.#done()
      return
    }
    this.#source ??= this.#open()
    const source = this.#source
    let seen = 0
    for (; seen < UPDATES_PER_TURN; seen++) {
      if (source === null || source.isLost) {
        this.#lose()
        return
      }
      if (this.isOver || !session.hasRoom()) break
      const update = source.next()
      if (update === 'loading') return
      if (update === null) {
        this.#endOfLog()
        return
      }
      this.#feeds.take(this.#commitment, update)
    }
    session.budget.chargeNotification(seen * COMPARISON_BYTES)
    const waitMs = Math.max(session.hasRoom() ? 0 : PAUSE_MS, session.budget.notificationWaitMs())
    if (waitMs > 0) this.#pause(waitMs)
    else this.#schedule()
  }

  get #commitment() {
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
    const source =
      streamLog?.replay({ commitment, fromSlot, wantsBlocks }) ?? hub.replay(commitment, fromSlot)
    if (source !== null) source.onLoaded = () => this.#schedule()
    return source
  }

  #endOfLog(): void {
    const { session, feed, share } = this.of
    if (!this.#deps.live.adopt(this.#feeds, feed)) {
      this.#pause(PAUSE_MS)
      return
    }
    feed.caughtUp(session, share)
    this.#done()
  }

  #lose(): void {
    const { session, feed } = this.of
    session.notify(lostMessage(feed.id))
    this.#deps.unsubscribe(session, feed.id)
    this.#done()
  }
}

/** Slots below it were sent, or never came. */
function firstUnsent({ top, bits, partials }: PubsubCursor): number {
  const open = [...partials.keys()]
  return Math.min(...open, (bits & 1) === 1 ? top + 1 : top)
}

function lostMessage(subscription: number): string {
  const message = `Subscription ${subscription} has ended: the slots after its cursor are not kept`
  const data = { reason: 'replay-lost', subscription }
  return errorMessage('null', { code: CLEANED_UP, message, data })
}
