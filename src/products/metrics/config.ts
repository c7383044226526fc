// The metrics section of the configuration. Thread: any (declarations only).
// Composed into the one Config by config/config.ts, together with the fields of the execution
// source, which upstream/execution declares.
import { choice, flag, group, integer, text, type Values } from '../../base/fields.ts'

export const metricsSection = group(
  'The metrics service: event stream, REST, health, scraping and JSON-RPC on one port.',
  {
    enabled: flag({ initial: true, doc: 'Whether the metrics service opens its door.' }),
    host: text({ initial: '127.0.0.1', doc: 'Address to listen on.' }),
    port: integer({ initial: 8443, min: 0, max: 65_535, doc: 'Port; 0 takes any free one.' }),
    auth: choice(['open', 'token'], {
      initial: 'open',
      doc: 'token: REST, WebSocket and POST / want the token of any active subscription.',
    }),
    onStale: choice(['close', 'exit'], {
      initial: 'close',
      doc: 'After 30 s without an event: close this door until the next one, or exit with code 75.',
    }),
    connectionsPerAddress: integer({
      initial: 10,
      min: 0,
      max: 1_000_000,
      doc: 'WebSockets that one address may hold; 0 means any number.',
    }),
  },
)

export type MetricsSection = Values<typeof metricsSection.fields>
