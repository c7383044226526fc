// Which module may import which, how many lines each may have, and which file may import a package;
// tidy.test.ts enforces it.

/**
 * The gateway from its top to its ground: a group imports only from groups after it. Beside it are
 * the programs, which have an order of their own below.
 */
export const groups = [
  'main',
  'topology',
  'operator',
  'products',
  'customers',
  'streams',
  'upstream',
  'chain',
  'base',
] as const

/**
 * Programs beside the gateway, and the files by which the gateway enters them. `customer` programs
 * import nothing of the gateway above `streams`.
 */
export const programs: Readonly<Record<string, readonly string[]>> = {
  devnode: ['node', 'process', 'config', 'genesis-input', 'cluster/plan'],
  indexer: [
    ...['ingest', 'config', 'meters', 'feed-items'],
    ...['queries/service', 'queries/protocol', 'clickhouse/exceptions'],
  ],
  loadtest: ['*'],
  live: [],
  client: ['*'],
}

// A module is a folder of a group, a product, a program, or a single file; `base/` are the files of
// base itself. Each row: what the module may import besides itself.
const ground = ['base/']
const floorTwo = ['base/', 'base/telemetry']
const rpcMethods = ['chain/solana-rpc', 'base/jsonrpc', 'chain/solana']
const entries = (program: string) => programs[program]!.map((file) => `${program}/${file}`)
export const mayImport: Readonly<Record<string, readonly string[]>> = {
  main: ['operator/commands', ...ground],
  topology: [
    ...['operator', 'streams', 'customers', 'indexer/config', 'base/threads', 'base/rings'],
    ...floorTwo,
  ],
  'operator/commands': [
    'operator/config',
    'operator/record',
    'operator/topology',
    'topology',
    'customers/cluster',
    'customers/subscriptions',
    'client',
    ...entries('devnode'),
    ...entries('loadtest'),
    ...['indexer/ingest', 'indexer/meters'],
    ...['unix-socket', 'listen-address', 'udp', 'pcap'].map((file) => `base/transport/${file}`),
    'streams/geyser/codec',
    'chain/solana',
    'base/threads/running',
    ...floorTwo,
  ],
  // The verbs of the command over HTTP.
  'operator/api': [
    'operator/commands',
    'operator/config',
    'customers/subscriptions',
    'base/transport',
    ...floorTwo,
  ],
  // A replay runs the pipelines themselves, without their endpoints.
  'operator/record': [
    'products/shredstream/replay',
    ...['answers', 'flows', 'geyser', 'log', 'pubsub'].map((name) => `streams/${name}`),
    'upstream/config',
    'upstream/ports',
    'chain/solana',
    'base/jsonrpc',
    'base/transport',
    'base/threads',
    'base/rings',
    ...floorTwo,
  ],
  'operator/topology': [
    'topology',
    'operator/config',
    'operator/record',
    'products/*/server',
    'products/*/meters',
    'products/*/config',
    'products/indexer/feeds',
    ...entries('devnode'),
    ...entries('indexer'),
    'customers',
    'streams/answers',
    'streams/flows',
    'streams/geyser',
    'streams/hub',
    'streams/log',
    'streams/pubsub',
    'streams/segments',
    'upstream',
    'chain/solana/base58',
    'chain/solana/version',
    'base/transport',
    'base/threads',
    'base/rings',
    ...floorTwo,
  ],
  'operator/config': [
    'products/*/config',
    'devnode/config',
    'indexer/config',
    'customers/cluster/config',
    'customers/quota/config',
    'customers/push/config',
    'customers/subscriptions/plans',
    'streams/segments/config',
    'upstream/config',
    'upstream/execution/config',
    ...ground,
  ],
  products: [
    'customers/cluster/ports',
    'customers/auth',
    'customers/quota',
    'customers/subscriptions',
    'streams/pubsub',
    'streams/geyser',
    'streams/hub',
    'streams/log',
    'upstream/ports',
    'chain/evm',
    'chain/solana',
    'base/jsonrpc',
    'base/transport',
    'base/threads',
    'base/rings',
    ...floorTwo,
  ],
  'products/indexer': entries('indexer'),
  'customers/auth': ['customers/subscriptions', ...floorTwo],
  // Ports of what several gateways share, and their PostgreSQL implementation.
  'customers/cluster': ['customers/subscriptions', 'customers/quota', ...floorTwo],
  'customers/quota': [
    ...['plans', 'subscription', 'usage'].map((file) => `customers/subscriptions/${file}`),
    ...floorTwo,
  ],
  'customers/subscriptions': floorTwo,
  'customers/push': ['customers/subscriptions', 'base/transport/webhook', ...floorTwo],
  'streams/answers': ['streams/geyser', 'upstream/ports', ...rpcMethods, ...ground],
  'streams/segments': [
    'streams/flows',
    'streams/geyser',
    'streams/hub',
    'chain/solana',
    'base/threads',
    ...floorTwo,
  ],
  'streams/flows': [
    'streams/analysis',
    'streams/geyser',
    'streams/hub',
    'streams/log',
    'upstream/ports',
    'chain/evm',
    'chain/solana',
    'base/rings',
    'base/threads',
    ...floorTwo,
  ],
  'streams/geyser': ['streams/hub', 'streams/log', 'chain/solana', 'base/transport', ...floorTwo],
  'streams/pubsub': [
    'streams/geyser/joined-states',
    ...['streams/hub', 'streams/log', 'chain/solana', 'base/jsonrpc', ...floorTwo],
  ],
  'streams/hub': ['streams/log', ...floorTwo],
  'streams/log': floorTwo,
  // Computation over bytes: nothing that does I/O.
  'streams/analysis': ['chain/evm', 'base/rings', ...ground],
  upstream: [
    'chain/evm',
    'chain/solana',
    'base/jsonrpc',
    'base/threads',
    'base/rings',
    ...floorTwo,
  ],
  'chain/solana-rpc': ['base/jsonrpc', 'chain/solana', ...ground],
  'chain/solana': ground,
  'chain/evm': ground,
  'base/transport': ['base/threads/supervisor', ...floorTwo],
  'base/jsonrpc': ground,
  'base/threads': ['base/rings', ...floorTwo],
  'base/rings': floorTwo,
  'base/telemetry': [],
  'base/': [],
  devnode: [
    'streams/pubsub',
    'streams/geyser',
    'streams/hub',
    'streams/log',
    ...rpcMethods,
    'base/transport',
    'base/threads',
    ...floorTwo,
  ],
  // A customer of the gateway: it reads its streams as others do.
  indexer: [
    'upstream/geyser',
    'chain/evm',
    'chain/solana',
    'base/transport',
    'base/threads',
    ...floorTwo,
  ],
  live: ['client'],
  client: [],
  loadtest: [
    'client',
    'devnode/build',
    'upstream/geyser',
    'chain/solana',
    'base/transport',
    'base/threads',
    ...ground,
  ],
  workers: [
    // A gateway of a hub is the whole service.
    'operator/topology/service',
    'operator/api/server',
    'operator/record/recorder-thread',
    'products/shredstream/handle',
    'streams/analysis',
    'streams/segments',
    'upstream',
    'devnode',
    'indexer',
    'loadtest',
    'chain/solana',
    'base/rings',
    'base/threads/frames',
    'base/transport/grpc-thread-calls',
    'base/transport/udp',
    'base/transport/udp-batch',
    ...ground,
  ],
}

/**
 * Lines of TypeScript that a module may have, 124,232 together; one that needs more takes them from
 * another.
 */
export const budgets: Readonly<Record<string, number>> = {
  operator: 13_645,
  products: 10_692,
  customers: 7_591,
  streams: 19_087,
  upstream: 9_457,
  chain: 7_886,
  base: 11_935,
  devnode: 10_454,
  indexer: 20_871,
  'live client': 6_394,
  loadtest: 5_888,
  workers: 332,
}

// One package, one importer.
export const importers: Readonly<Record<string, readonly string[]>> = {
  'uWebSockets.js': ['src/base/transport/'],
  '@grpc/grpc-js': ['src/base/transport/grpc.ts', 'src/base/transport/grpc-bind.ts'],
  protobufjs: ['src/streams/geyser/codec.ts', 'src/products/grpc/', 'src/base/transport/'],
  piscina: ['src/base/threads/pool.ts'],
  'prom-client': ['src/base/telemetry/meters.ts'],
  msgpackr: [
    'src/streams/log/encoded.ts',
    'src/customers/subscriptions/tables.ts',
    'src/base/threads/frames.ts',
  ],
  'node:dgram': ['src/base/transport/udp.ts', 'src/operator/commands/doctor.ts'],
  // Batched datagrams, epoll, the lock on a file, the end of all threads: Node has no call for it.
  koffi: ['src/base/transport/', 'src/customers/subscriptions/lock.ts', 'src/base/exit.ts'],
  'hdr-histogram-js': ['src/loadtest/latencies.ts'],
  pg: ['src/customers/cluster/postgres/client.ts'],
  lmdb: ['src/customers/subscriptions/tables.ts', 'src/devnode/ledger/archive.ts'],
  litesvm: ['src/devnode/svm.ts'],
  pino: ['src/base/telemetry/open-log.ts'],
  yaml: ['src/operator/config/load.ts'],
  fzstd: ['src/upstream/execution/'],
  '@bokuweb/zstd-wasm': ['src/base/zstd.ts'],
  undici: [
    'src/upstream/',
    'src/indexer/clickhouse-server/',
    // The WebSocket of `sluice/client/node`; `sluice/client` itself stays free of packages.
    'src/client/node-socket.ts',
  ],
  '@duckdb/node-api': ['src/indexer/duckdb/', 'src/indexer/clickhouse/duckdb/'],
  '@duckdb/node-bindings': ['src/indexer/clickhouse/duckdb/'],
  'apache-arrow': ['src/indexer/clickhouse/duckdb/arrow.ts'],
  uplot: ['src/live/'],
}
