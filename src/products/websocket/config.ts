// The `websocket` section of the configuration.
import { autoFlag, flag, group, integer, text, type Values } from '../../base/fields.ts'

export const websocketSection = group('Streaming subscriptions over WebSocket.', {
  enabled: flag({ initial: true, doc: 'Opens the endpoint.' }),
  host: text({ initial: '127.0.0.1', doc: 'Address to listen on.' }),
  port: integer({ initial: 8900, min: 0, max: 65_535, doc: 'Port; 0 takes any free one.' }),
  queryToken: autoFlag({
    initial: 'auto',
    doc:
      'Takes the token from ?api-key=, ?api_key= or subprotocol x-token.<token>, too; auto: only ' +
      'while all endpoints are on loopback, all sources embedded and trustedProxies empty.',
  }),
  connectionsPerAddress: integer({
    initial: 100,
    min: 0,
    max: 1_000_000,
    doc: 'Connections of one client address at once; 0 is no limit.',
  }),
  unsentBytes: integer({
    initial: 16_777_216,
    min: 65_536,
    max: 1_073_741_824,
    unit: 'bytes',
    doc: 'What may wait for a slow client before 1013; cursors fall behind at a quarter.',
  }),
  pingMs: integer({
    initial: 30_000,
    min: 1_000,
    max: 60_000,
    unit: 'ms',
    doc: 'Time between protocol pings.',
  }),
})

/** `auto` is resolved by whoever knows the rest of the configuration. */
export type WebsocketSection = Values<typeof websocketSection.fields> & {
  readonly queryToken: boolean
}
