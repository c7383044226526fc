// `sluice products`: lists every product with its authorization, state and address.
// The rows are those of the specification's table of products.
import { accept } from '../../base/errors.ts'
import { type Config, enabledEndpoints, setsWithoutGeyser, sourcesOf } from '../config/config.ts'
import { askServer } from './ask-server.ts'
import { tableOf } from './output.ts'
import type { Verb } from './verb.ts'

interface Address {
  readonly host: string
  readonly port: number
}

/**
 * Product, name, purpose, authorization; then the configuration section of its endpoint and the key
 * of its source, or a fixed state.
 */
const catalogue = `
bundle | Bundle: RPC | JSON-RPC 2.0 over HTTP | token | rpc | chain.source
bundle | Bundle: WebSocket | streaming subscriptions | token | websocket | chain.source
bundle | Bundle: gRPC | streaming interface (geyser.Geyser) | token | grpc | chain.source
indexer | Indexer | queryable database | x-token plus database credentials | indexer
shredstream | ShredStream Raw | UDP push of raw shreds to one IP:port | destination address | \
  shredstream | shredstream.feed
tpu | TPU Sender | transaction submission gated by a tip | open access, tip required | \
  tpu | chain.source
shredstream-decoded | ShredStream Decoded | decoded shreds | to be confirmed | | | coming soon
dedicated-node | Dedicated Node | single-customer node | arranged individually at provisioning | \
  | | arranged individually
metrics | Metrics service | event stream, REST, health, scraper, JSON-RPC | \
  open, or any token by metrics.auth | metrics | metrics.source`

export const productsVerb: Verb = {
  words: ['products'],
  api: 'read',
  summary: 'Show the catalogue: authorization, state, address and source of every product.',
  examples: ['products', 'products --json'],
  async run({ loaded }) {
    const products = productsOf(loaded.config, await liveEndpoints(loaded.config.data))
    const rows = products.map((one) => [
      one.product,
      one.name,
      one.authorization,
      one.state,
      one.address ?? '',
      one.source ?? '',
    ])
    const head = ['product', 'name', 'authorization', 'state', 'address', 'source']
    const warnings = setsWithoutGeyser(loaded.config)
    const text = [tableOf(head, rows, ''), ...warnings].join('\n')
    return accept({ json: { products, ...(warnings.length > 0 && { warnings }) }, text })
  },
}

/** The addresses of a running server's endpoints; empty when none runs. */
async function liveEndpoints(data: string): Promise<ReadonlyMap<string, Address>> {
  const answer = await askServer(data, 'status')
  if (!answer.ok) return new Map()
  const { doors = {} } = answer.value as { doors?: Readonly<Record<string, Address>> }
  return new Map(Object.entries(doors))
}

function productsOf(config: Config, live: ReadonlyMap<string, Address>) {
  const configured = enabledEndpoints(config).map((endpoint) => [endpoint.name, endpoint] as const)
  const endpoints = new Map<string, Address>([...configured, ...live])
  const sources = sourcesOf(config)
  const rows = catalogue.trim().split('\n')
  return rows.map((row) => {
    const cells = row.split('|').map((cell) => cell.trim())
    const [product = '', name = '', purpose = '', authorization = ''] = cells
    const [, , , , section = '', source = '', state] = cells
    const endpoint = endpoints.get(section)
    return {
      ...{ product, name, purpose, authorization },
      state: state ?? 'available',
      address: endpoint === undefined ? null : `${endpoint.host}:${endpoint.port}`,
      source: sources.get(source) ?? null,
    }
  })
}
