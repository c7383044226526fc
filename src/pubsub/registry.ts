// Who subscribed to what: equal wishes share one feed, and a connection knows its own.
// Thread: main. One for each engine; what fills the feeds is the engine's business.
//
//   session --subscribe(wish)--> feed of that wish (made, indexed) --join--> topic
//   unsubscribe, end of the connection, last word --> drop --> an empty feed leaves the index

import { Feed } from './feed.ts'
import type { Customer, Session } from './session.ts'
import { type Wanted, wantedText } from './wanted.ts'

/** As many as a validator takes. */
const SUBSCRIPTIONS_MAX = 1_000_000

interface Holding {
  readonly feeds: Map<number, Feed>
  /** Subscriptions, counting each time one was asked for. */
  count: number
}

/** Hears of a feed when its first subscriber comes, and when the last one has gone. */
export interface FeedHolder {
  add(feed: Feed): void
  remove(feed: Feed): void
}

/** Numbers of feeds: the registries of a door share them, as their topics are the door's. */
export class Ids {
  #last = 0

  take(): number {
    return ++this.#last
  }
}

export type Refused =
  | 'chain-down'
  | 'connection-full'
  | 'customer-full'
  | 'customer-over-rate'
  | 'node-full'

export class Registry {
  readonly #holder: FeedHolder
  readonly #ids: Ids
  readonly #feeds = new Map<string, Feed>()
  readonly #holdings = new Map<Session, Holding>()
  #count = 0

  constructor(holder: FeedHolder, ids: Ids) {
    this.#holder = holder
    this.#ids = ids
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
    const known = this.#feeds.get(text)
    if (known === undefined || !known.isHeldBy(session.budget)) {
      if (session.budget.notificationWaitMs() > 0) return 'customer-over-rate'
      if (!session.budget.enter('distinctSubscriptions')) return 'customer-full'
    }
    const feed = known ?? this.#open(wanted, text)
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

  #open(wanted: Wanted, text: string): Feed {
    const feed: Feed = new Feed(this.#ids.take(), wanted, text, (budget) =>
      this.#evict(feed, budget),
    )
    this.#feeds.set(text, feed)
    this.#holder.add(feed)
    return feed
  }

  #evict(feed: Feed, budget: Customer): void {
    for (const session of [...feed.shares.keys()])
      if (session.budget === budget) this.#take(session, this.#holdings.get(session)!, feed)
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
    if (!feed.isHeldBy(session.budget)) session.budget.leave('distinctSubscriptions')
    holding.feeds.delete(feed.id)
    holding.count -= times
    this.#count -= times
    if (feed.shares.size > 0) return
    this.#holder.remove(feed)
    this.#feeds.delete(feed.text)
  }
}
