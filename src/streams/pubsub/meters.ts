// The meters of the subscriptions. Plain numbers, read at scrape.
import type { LatencyTally, Meters } from '../../base/telemetry/meters.ts'
import { type Topic, topics } from './read-params.ts'

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
