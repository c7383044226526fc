// Who subscribed to what: equal wishes share one feed, and a connection knows its own.
// Thread: main. Called by methods.ts; what happens to the feeds is notifier.ts's business.
//
//   session --subscribe(wish)--> feed of that wish (made, indexed) --join--> topic
//   unsubscribe, end of the connection, last word --> drop --> an empty feed leaves the index
import type { Session } from '../handle.ts'
import { Feed } from './feed.ts'
import type { FeedIndex } from './feed-index.ts'
import { type Wanted, wantedText } from './wanted.ts'

/** As many as a validator takes. */
const SUBSCRIPTIONS_MAX = 1_000_000

interface Holding {
  readonly feeds: Map<number, Feed>
  /** Subscriptions, counting each time one was asked for. */
  count: number
}

export type Refused = 'connection-full' | 'node-full'

export class Registry {
  readonly #index: FeedIndex
  readonly #feeds = new Map<string, Feed>()
  readonly #holdings = new Map<Session, Holding>()
  #nextId = 1
  #count = 0

  constructor(index: FeedIndex) {
    this.#index = index
  }

  /** Subscriptions there are, and distinct ones among them. */
  get count(): number {
    return this.#count
  }
  get distinct(): number {
    return this.#feeds.size
  }

  subscribe(session: Session, wanted: Wanted): Feed | Refused {
    const holding = this.#holdingOf(session)
    if (holding.count >= session.budget.plan.subscriptionsPerConnection) return 'connection-full'
    if (this.#count >= SUBSCRIPTIONS_MAX) return 'node-full'
    const text = wantedText(wanted)
    let feed = this.#feeds.get(text)
    if (feed === undefined) {
      feed = new Feed(this.#nextId++, wanted, text)
      this.#feeds.set(text, feed)
      this.#index.add(feed)
    }
    feed.join(session)
    holding.feeds.set(feed.id, feed)
    holding.count++
    this.#count++
    return feed
  }

  /** False when the connection has no such subscription. */
  unsubscribe(session: Session, id: number): boolean {
    const holding = this.#holdings.get(session)
    const feed = holding?.feeds.get(id)
    const share = feed?.shares.get(session)
    if (holding === undefined || feed === undefined || share === undefined) return false
    if (share.times > 1) {
      share.times--
      holding.count--
      this.#count--
    } else this.#take(session, holding, feed)
    return true
  }

  /** The feed has said its last word: everybody is taken out of it. */
  finish(feed: Feed): void {
    for (const session of [...feed.shares.keys()])
      this.#take(session, this.#holdings.get(session)!, feed)
    feed.isOver = true
  }

  #holdingOf(session: Session): Holding {
    const known = this.#holdings.get(session)
    if (known !== undefined) return known
    const holding: Holding = { feeds: new Map(), count: 0 }
    this.#holdings.set(session, holding)
    session.onEnd(() => {
      for (const feed of [...holding.feeds.values()]) this.#take(session, holding, feed)
      this.#holdings.delete(session)
    })
    return holding
  }

  #take(session: Session, holding: Holding, feed: Feed): void {
    const times = feed.shares.get(session)?.times ?? 0
    feed.drop(session)
    holding.feeds.delete(feed.id)
    holding.count -= times
    this.#count -= times
    if (feed.shares.size > 0) return
    this.#index.remove(feed)
    this.#feeds.delete(feed.text)
  }
}
