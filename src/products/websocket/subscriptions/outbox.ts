// Sends notifications: each is encoded once, published to all subscribers of its feed, and paid for
// later. Thread: main. Called by the notices; owns the timers of this room.
//
//   send(feed, result) -> bytes -> publish(topic)
//     end of the turn   -> connections that read too slowly are closed with 1013
//     once a second     -> messages and bytes are metered for each connection
import type { Clock } from '../../../base/clock.ts'
import type { Session } from '../handle.ts'
import type { Feed, Publish } from './feed.ts'
import type { SubscriptionMeters } from './meters.ts'

const SETTLE_MS = 1_000

export class Outbox {
  readonly #meters: SubscriptionMeters
  readonly #clock: Clock
  readonly #settler: NodeJS.Timeout
  readonly #unsettled = new Set<Feed>()
  readonly #unchecked = new Set<Feed>()
  #publish: Publish = () => {}

  constructor(meters: SubscriptionMeters, clock: Clock) {
    this.#meters = meters
    this.#clock = clock
    this.#settler = setInterval(() => this.settle(), SETTLE_MS).unref()
  }

  /** The door says how to publish once it is open. */
  usePublisher(publish: Publish): void {
    this.#publish = publish
  }

  /** To all subscribers. `createdAtMs` is when the chain said it. */
  send(feed: Feed, result: string, createdAtMs: number | null = null): void {
    const message = feed.message(result)
    feed.count(message)
    this.#publish(feed.topic, message)
    this.#meters.notified(feed.wanted.kind, feed.shares.size)
    if (createdAtMs !== null) this.#meters.delivery.observeMs(this.#clock.nowMs() - createdAtMs)
    this.#unsettled.add(feed)
    if (this.#unchecked.size === 0) setImmediate(() => this.#check())
    this.#unchecked.add(feed)
  }

  /** To one subscriber alone. */
  sendTo(session: Session, feed: Feed, result: string): void {
    session.notify(feed.message(result))
    this.#meters.notified(feed.wanted.kind, 1)
  }

  settle(): void {
    for (const feed of this.#unsettled)
      for (const [session, share] of feed.shares) feed.settle(session, share)
    this.#unsettled.clear()
  }

  stop(): void {
    clearInterval(this.#settler)
    this.settle()
  }

  #check(): void {
    const sessions = new Set<Session>()
    for (const feed of this.#unchecked)
      for (const session of feed.shares.keys()) sessions.add(session)
    this.#unchecked.clear()
    for (const session of sessions) session.checkUnsent()
  }
}
