// Sends notifications: each is encoded once and published to all subscribers of its feed.
// Owns the timers of the subscriptions.
//
//   send(feed, result) -> bytes -> publish(topic) -> charged to one customer of the feed
//     slots, roots      -> sent at once, the others at the end of the turn
//     over its rate     -> the customer is removed from the feed with -32429
//     end of the turn   -> connections that read too slowly fall behind, or are closed with 1013
//     once a second     -> messages and bytes are metered for each connection
import type { Clock } from '../../base/clock.ts'
import { codesOf } from '../../base/errors.ts'
import { errorMessage } from '../../base/jsonrpc/build.ts'
import type { LatencyTally, Meters } from '../../base/telemetry/meters.ts'
import type { Customer, Session } from './chain.ts'
import type { Feed, Publish } from './feed.ts'
import { type Topic, topics } from './read-params.ts'

const SETTLE_MS = 1_000
/** What a notification costs besides its own bytes: the time that so many bytes would take. */
export const NOTIFICATION_BYTES = 4_096
/** What a comparison with an update that the feed does not take costs, in the same unit; charged
 *  many at a time. */
export const COMPARISON_BYTES = 32
const COMPARISONS_PER_CHARGE = 256
/** Sent at once: they do not wait for what the same event-loop turn encodes for others. */
const sentFirst: ReadonlySet<Feed['params']['kind']> = new Set(['slot', 'root', 'slotsUpdates'])

/** What notifications need of it. */
export interface Notify {
  /** To all subscribers. `createdAtMs` is the time of the update. */
  send(feed: Feed, result: string, slot: number, createdAtMs?: number | null, cursor?: string): void
  /** The feed was compared with an update that its filters exclude. */
  pass(feed: Feed): void
  /** Of what is sent now; taken before a notification that has to wait. */
  cursorOf?(feed: Feed): string
}

export class Notifier implements Notify {
  readonly #meters: SubscriptionMeters
  readonly #clock: Clock
  readonly #settler: NodeJS.Timeout
  readonly #unsettled = new Set<Feed>()
  readonly #unchecked = new Set<Feed>()
  /** Set once the endpoint is open. */
  publish: Publish = () => {}

  constructor(meters: SubscriptionMeters, clock: Clock) {
    this.#meters = meters
    this.#clock = clock
    this.#settler = setInterval(() => this.settle(), SETTLE_MS).unref()
  }

  send(
    feed: Feed,
    result: string,
    slot: number,
    createdAtMs: number | null = null,
    cursor?: string,
  ): void {
    const message = feed.message(result, cursor)
    feed.count(message)
    feed.remember(slot)
    const isFirst = sentFirst.has(feed.params.kind)
    this.publish(feed.topic, message, isFirst ? feed.liveSessions() : undefined)
    this.#meters.notified(feed.params.kind, feed.liveCount)
    if (createdAtMs !== null) this.#meters.delivery.observeMs(this.#clock.nowMs() - createdAtMs)
    this.#unsettled.add(feed)
    if (this.#unchecked.size === 0) setImmediate(() => this.#check())
    this.#unchecked.add(feed)
    this.#charge(feed, message.length + NOTIFICATION_BYTES)
  }

  pass(feed: Feed): void {
    if (++feed.passed % COMPARISONS_PER_CHARGE === 0)
      this.#charge(feed, COMPARISONS_PER_CHARGE * COMPARISON_BYTES)
  }

  /** To one subscriber alone. */
  sendTo(session: Session, feed: Feed, result: string): void {
    session.notify(feed.message(result))
    this.#meters.notified(feed.params.kind, 1)
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

  #charge(feed: Feed, bytes: number): void {
    const payer = feed.nextPayer()
    if (payer === null || payer.chargeNotification(bytes)) return
    this.#meters.ended++
    feed.evict(payer, endedMessage(feed, payer))
  }

  #check(): void {
    const published = new Map<Session, number>()
    for (const feed of this.#unchecked) {
      const bytes = feed.bytes - feed.checkedBytes
      feed.checkedBytes = feed.bytes
      for (const [session, { isReplaying }] of feed.shares)
        published.set(session, (published.get(session) ?? 0) + (isReplaying ? 0 : bytes))
    }
    this.#unchecked.clear()
    for (const [session, bytes] of published) session.checkUnsent(bytes)
  }
}

function endedMessage({ id }: Feed, budget: Customer): string {
  const message = `Too many requests: subscription ${id} has ended, its notifications cost too much`
  return errorMessage('null', {
    code: codesOf.exhausted.jsonrpc,
    message,
    data: { ...overRate(budget), subscription: id },
  })
}

/** The error data of a customer that is over its rate of notifications. */
export function overRate(budget: Customer) {
  const retryAfterMs = Math.ceil(budget.notificationWaitMs())
  return { reason: 'notification-bytes', retryAfterMs }
}

// The meters of the subscriptions. Plain numbers, read at scrape.

export interface SubscriptionMeters {
  /** From the update's creation to the socket, processed only. */
  readonly delivery: LatencyTally
  /** `count` subscribers were sent a notification. */
  notified(topic: Topic, count: number): void
  /** A feed was compared with an update. */
  examined: number
  /** Customers removed from a feed whose notifications cost more than the plan allows. */
  ended: number
  /** Set by the owner of the subscriptions. */
  subscriptions: () => { readonly count: number; readonly distinct: number }
}

export function declareSubscriptionMeters(meters: Meters): SubscriptionMeters {
  const sent = meters.counters(
    'sluice_websocket_notifications_total',
    'Notifications sent, by what was subscribed to',
    'topic',
    topics,
  )
  const own: SubscriptionMeters = {
    delivery: meters.latency(
      'sluice_websocket_delivery_seconds',
      'From the creation of an update to its notification, processed only',
    ),
    notified: (topic, count) => sent[topic].inc(count),
    examined: 0,
    ended: 0,
    subscriptions: () => ({ count: 0, distinct: 0 }),
  }
  meters.totalRead(
    'sluice_websocket_feeds_examined_total',
    'Distinct subscriptions compared with an update; grows with what matches, not with what exists',
    () => own.examined,
  )
  meters.totalRead(
    'sluice_websocket_subscriptions_ended_total',
    'Subscriptions ended because their notifications cost more than the plan allows',
    () => own.ended,
  )
  meters.gaugeRead(
    'sluice_websocket_subscriptions',
    'WebSocket subscriptions',
    () => own.subscriptions().count,
  )
  meters.gaugeRead(
    'sluice_websocket_subscriptions_distinct',
    'Distinct ones among them: each is encoded once',
    () => own.subscriptions().distinct,
  )
  return own
}
