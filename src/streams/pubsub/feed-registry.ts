// Tracks which connection is subscribed to which feed; equal params share one feed.
// One for each engine.
//
//   session --subscribe(params)--> feed of those params (created, indexed) --join--> topic
//   unsubscribe, end of the connection, last notification --> drop --> an empty feed is removed

import { assert } from '../../base/assert.ts'
import { Feed } from './feed.ts'
import type { FeedIndex } from './feed-index.ts'
import type { Customer, Session } from './session.ts'
import { paramsText, type SubscriptionParams } from './subscription-params.ts'

/** As many as a validator takes. */
const SUBSCRIPTIONS_MAX = 1_000_000

type SessionFeeds = Map<number, Feed>

/** Numbers of feeds; the engines of an endpoint share them, because topics are the endpoint's. */
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

export class FeedRegistry {
  readonly #index: FeedIndex
  readonly #ids: Ids
  readonly #feeds = new Map<string, Feed>()
  readonly #sessions = new Map<Session, SessionFeeds>()
  #count = 0

  constructor(index: FeedIndex, ids: Ids) {
    this.#index = index
    this.#ids = ids
  }

  /** Subscriptions, and distinct ones among them. */
  get count(): number {
    return this.#count
  }
  get distinct(): number {
    return this.#feeds.size
  }

  /** A connection that has an equal subscription gets that one: there is one to unsubscribe. */
  subscribe(session: Session, params: SubscriptionParams): Feed | Refused {
    const own = this.#feedsOf(session)
    const text = paramsText(params)
    const known = this.#feeds.get(text)
    if (known?.shares.has(session) === true) return known
    if (own.size >= session.budget.plan.subscriptionsPerConnection) return 'connection-full'
    if (this.#count >= SUBSCRIPTIONS_MAX) return 'node-full'
    if (known === undefined || !known.hasCustomer(session.budget)) {
      if (session.budget.notificationWaitMs() > 0) return 'customer-over-rate'
      if (!session.budget.enter('distinctSubscriptions')) return 'customer-full'
    }
    const feed = known ?? this.#open(params, text)
    feed.join(session)
    own.set(feed.id, feed)
    this.#count++
    return feed
  }

  /** False when the connection has no such subscription. */
  unsubscribe(session: Session, id: number): boolean {
    const own = this.#sessions.get(session)
    const feed = own?.get(id)
    if (own === undefined || feed === undefined) return false
    this.#remove(session, own, feed)
    return true
  }

  /** The last notification was sent: removes all subscribers. */
  finish(feed: Feed): void {
    for (const session of [...feed.shares.keys()])
      this.#remove(session, this.#sessions.get(session)!, feed)
    feed.isOver = true
  }

  #open(params: SubscriptionParams, text: string): Feed {
    const feed: Feed = new Feed(this.#ids.take(), params, text, (budget) =>
      this.#evict(feed, budget),
    )
    this.#feeds.set(text, feed)
    this.#index.add(feed)
    return feed
  }

  #evict(feed: Feed, budget: Customer): void {
    for (const session of [...feed.shares.keys()])
      if (session.budget === budget) this.#remove(session, this.#sessions.get(session)!, feed)
  }

  #feedsOf(session: Session): SessionFeeds {
    const known = this.#sessions.get(session)
    if (known !== undefined) return known
    const own: SessionFeeds = new Map()
    this.#sessions.set(session, own)
    session.onEnd(() => {
      for (const feed of [...own.values()]) this.#remove(session, own, feed)
      this.#sessions.delete(session)
    })
    return own
  }

  #remove(session: Session, own: SessionFeeds, feed: Feed): void {
    feed.drop(session)
    if (!feed.hasCustomer(session.budget)) session.budget.leave('distinctSubscriptions')
    const isRemoved = own.delete(feed.id)
    this.#count--
    assert(isRemoved && this.#count >= 0, 'a subscription is counted and removed once')
    if (feed.shares.size > 0) return
    this.#index.remove(feed)
    this.#feeds.delete(feed.text)
  }
}
