// The meters of the subscriptions. Plain numbers, read at scrape.
import type { Meters } from '../../base/telemetry/meters.ts'
import { LatencyTally } from '../../base/telemetry/tally.ts'
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
  const sent = new Map<Topic, number>(topics.map((topic) => [topic, 0]))
  const own: SubscriptionMeters = {
    delivery: new LatencyTally(),
    notified: (topic, count) => sent.set(topic, sent.get(topic)! + count),
    examined: 0,
    ended: 0,
    subscriptions: () => ({ count: 0, distinct: 0 }),
  }
  meters.counterRead(
    'sluice_websocket_notifications_total',
    'Notifications sent, by what was subscribed to',
    { topic: topics },
    function* () {
      for (const [topic, count] of sent) yield [{ topic }, count]
    },
  )
  meters.counterRead(
    'sluice_websocket_feeds_examined_total',
    'Distinct subscriptions compared with an update; grows with what matches, not with what exists',
    {},
    function* () {
      yield [{}, own.examined]
    },
  )
  meters.counterRead(
    'sluice_websocket_subscriptions_ended_total',
    'Subscriptions ended because their notifications cost more than the plan allows',
    {},
    function* () {
      yield [{}, own.ended]
    },
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
  meters.histogramRead(
    'sluice_websocket_delivery_seconds',
    'From the creation of an update to its notification, processed only',
    own.delivery.buckets,
    () => own.delivery.read(),
  )
  return own
}
