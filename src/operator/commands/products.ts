// `sluice products`: lists every product with its authorization, state and address.
// The rows are those of the specification's table of products.
import { accept } from '../../base/errors.ts'
import { type Config, enabledEndpoints, setsWithoutGeyser, sourcesOf } from '../config/config.ts'
import { askServer } from './ask-server.ts'
import { tableOf } from './output.ts'
import type { Verb } from './verb.ts'

export type ProductState = 'available' | 'coming soon' | 'arranged individually'

interface CatalogueRow {
  readonly product: string
  readonly name: string
  readonly purpose: string
  readonly authorization: string
  /** The configuration section of its endpoint; a row without one has a fixed `state`. */
  readonly section?: string
  readonly source?: string
  readonly state?: ProductState
}

interface Address {
  readonly host: string
  readonly port: number
}

const catalogue: readonly CatalogueRow[] = [
  {
    product: 'bundle',
    name: 'Bundle: RPC',
    purpose: 'JSON-RPC 2.0 over HTTP',
    authorization: 'token',
    section: 'rpc',
    source: 'chain.source',
  },
  {
    product: 'bundle',
    name: 'Bundle: WebSocket',
    purpose: 'streaming subscriptions',
    authorization: 'token',
    section: 'websocket',
    source: 'chain.source',
  },
  {
    product: 'bundle',
    name: 'Bundle: gRPC',
    purpose: 'streaming interface (geyser.Geyser)',
    authorization: 'token',
    section: 'grpc',
    source: 'chain.source',
  },
  {
    product: 'indexer',
    name: 'Indexer',
    purpose: 'queryable database',
    authorization: 'x-token plus database credentials',
    section: 'indexer',
  },
  {
    product: 'shredstream',
    name: 'ShredStream Raw',
    purpose: 'UDP push of raw shreds to one IP:port',
    authorization: 'destination address',
    section: 'shredstream',
    source: 'shredstream.feed',
  },
  {
    product: 'tpu',
    name: 'TPU Sender',
    purpose: 'transaction submission gated by a tip',
    authorization: 'open access, tip required',
    section: 'tpu',
    source: 'chain.source',
  },
  {
    product: 'shredstream-decoded',
    name: 'ShredStream Decoded',
    purpose: 'decoded shreds',
    authorization: 'to be confirmed',
    state: 'coming soon',
  },
  {
    product: 'dedicated-node',
    name: 'Dedicated Node',
    purpose: 'single-customer node',
    authorization: 'arranged individually at provisioning',
    state: 'arranged individually',
  },
  {
    product: 'metrics',
    name: 'Metrics service',
    purpose: 'event stream, REST, health, scraper, JSON-RPC',
    authorization: 'open, or any token by metrics.auth',
    section: 'metrics',
    source: 'metrics.source',
  },
]

export const productsVerb: Verb = {
  words: ['products'],
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
  return catalogue.map(({ section = '', source = '', state, ...row }) => {
    const endpoint = endpoints.get(section)
    // A product whose module is not in this build has no section in the configuration.
    const isBuilt = Object.hasOwn(config, section)
    return {
      ...row,
      state: state ?? (isBuilt ? 'available' : 'coming soon'),
      address: endpoint === undefined ? null : `${endpoint.host}:${endpoint.port}`,
      source: isBuilt ? (sources.get(source) ?? null) : null,
    }
  })
}
