// Declares the metrics section of the configuration.
// config/config.ts merges it with the fields of the execution source, which upstream/execution
// declares.
import { isLoopback } from '../../base/cidr.ts'
import { choice, flag, group, integer, text, type Values } from '../../base/fields.ts'

export const metricsSection = group(
  'The metrics service: event stream, REST, health, scraping and JSON-RPC on one port.',
  {
    enabled: flag({ initial: true, doc: 'Whether the metrics service opens its endpoint.' }),
    host: text({ initial: '127.0.0.1', doc: 'Address to listen on.' }),
    port: integer({ initial: 8443, min: 0, max: 65_535, doc: 'Port; 0 means any free port.' }),
    auth: choice(['open', 'token'], {
      initial: 'open',
      doc: 'token: REST, WebSocket and POST / require the token of any active subscription.',
    }),
    onStale: choice(['close', 'exit'], {
      initial: 'close',
      doc:
        'After 30 s without an event: close streams and REST until the next (/metrics, /ready, ' +
        '/live stay), or exit with code 75.',
    }),
    connectionsPerAddress: integer({
      initial: 10,
      min: 0,
      max: 1_000_000,
      doc: 'WebSockets that one address may have open; 0 means any number.',
    }),
    page: choice(['auto', 'full', 'stream', 'off'], {
      initial: 'auto',
      doc: 'Live page: full, stream (no operator view), off; auto: full on loopback, else stream.',
    }),
  },
)

export type MetricsSection = Values<typeof metricsSection.fields>

/** What the live page shows. */
export type Page = Exclude<MetricsSection['page'], 'auto'>

/** Resolves `auto`. */
export function pageOf(section: Pick<MetricsSection, 'host' | 'page'>): Page {
  if (section.page !== 'auto') return section.page
  return isLoopback(section.host) ? 'full' : 'stream'
}
