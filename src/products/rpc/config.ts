// The `rpc` section of the configuration.
import { flag, group, integer, text, type Values } from '../../base/fields.ts'

export const rpcSection = group('JSON-RPC over HTTP.', {
  enabled: flag({ initial: true, doc: 'Opens the endpoint.' }),
  host: text({ initial: '127.0.0.1', doc: 'Address to listen on.' }),
  port: integer({ initial: 8899, min: 0, max: 65_535, doc: 'Port; 0 takes any free one.' }),
  inFlightPerAddress: integer({
    initial: 256,
    min: 1,
    max: 100_000,
    doc: 'Requests in flight per client address, waiting for body or answer.',
  }),
})

export type RpcSection = Values<typeof rpcSection.fields>
