// The meters of the websocket endpoint. Plain numbers, read at scrape.

import { callOutcomes } from '../../base/jsonrpc/serve.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import { declareSubscriptionMeters } from '../../streams/pubsub/notifier.ts'

const closings = ['client', 'stopping', 'token', 'too-long', 'too-slow', 'bug', 'lost'] as const
export type Closing = (typeof closings)[number]

/** `other` is any other name. */
const methodLabels: readonly string[] = [
  ...['account', 'block', 'logs', 'program', 'root', 'signature', 'slot', 'slotsUpdates']
    .concat('tokenOwner', 'transaction', 'vote')
    .flatMap((topic) => [`${topic}Subscribe`, `${topic}Unsubscribe`]),
  'transactionUpdate',
  'getVersion',
  'other',
]

export type WebsocketMeters = ReturnType<typeof declareWebsocketMeters>

export function declareWebsocketMeters(meters: Meters) {
  const own = {
    calls: meters.pairs(
      'sluice_websocket_requests_total',
      'JSON-RPC calls over WebSocket by method and outcome',
      ['method', methodLabels],
      ['outcome', callOutcomes],
    ),
    closed: meters.counters(
      'sluice_websocket_closed_total',
      'WebSockets closed, by who or what ended them',
      'by',
      closings,
    ),
    subscriptions: declareSubscriptionMeters(meters),
    /** Read at scrape; the server sets it once it listens. */
    openSockets: () => 0,
  }
  meters.gaugeRead(
    'sluice_websocket_connections',
    'Open WebSockets of the websocket endpoint',
    () => own.openSockets(),
  )
  return own
}

/** Who ended a socket, from the close code. */
export function closingOf(code: number): Closing {
  return closingCodes[code] ?? 'client'
}

const closingCodes: Readonly<Record<number, Closing>> = {
  1001: 'stopping',
  1006: 'lost',
  1008: 'token',
  1009: 'too-long',
  1011: 'bug',
  1013: 'too-slow',
}
