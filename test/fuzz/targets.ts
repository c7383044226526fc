// The targets: every parser of bytes from outside. A target is loaded when it is run, so that the
// coverage of its files is complete.
import type { Target } from './target.ts'

interface Row {
  /** Files below src whose code guides the search; a folder ends in /. */
  readonly files: readonly string[]
  /** Executions of another target for one of this: where one takes much longer. */
  readonly cost?: number
  load(): Promise<Target>
}

const json = () => import('./targets/json-rpc.ts')
const geyser = () => import('./targets/geyser.ts')
const chainData = () => import('./targets/chain-data.ts')
const http2 = () => import('./targets/http2.ts')
const bytes = () => import('./targets/bytes.ts')
const shreds = () => import('./targets/shreds.ts')
const sql = () => import('./targets/sql.ts')
const messages = () => import('./targets/messages.ts')
const keptFiles = () => import('./targets/kept-files.ts')

const table: Readonly<Record<string, Row>> = {
  'json-rpc-request': {
    files: ['base/jsonrpc/parse', 'base/jsonrpc/scan'],
    load: async () => (await json()).jsonRpcRequest,
  },
  'json-rpc-answer': {
    files: ['base/jsonrpc/envelope', 'base/jsonrpc/scan'],
    load: async () => (await json()).jsonRpcAnswer,
  },
  'http-endpoint': {
    files: ['base/transport/http', 'base/transport/request', 'base/transport/exchange'],
    cost: 10,
    load: async () => (await import('./targets/http-endpoint.ts')).httpEndpoint,
  },
  'http-response': {
    files: ['upstream/http-client/http-request'],
    load: async () => (await import('./targets/http-response.ts')).httpResponse,
  },
  'node-replies': {
    files: ['upstream/node-pool/', 'upstream/set-reads', 'upstream/transaction-senders'],
    cost: 4,
    load: async () => (await import('./targets/node-replies.ts')).nodeReplies,
  },
  'http2-frames': {
    files: ['upstream/geyser/http2-reader'],
    load: async () => (await http2()).http2Frames,
  },
  'http2-headers': {
    files: ['upstream/geyser/hpack'],
    load: async () => (await http2()).http2Headers,
  },
  'geyser-request': {
    files: ['streams/geyser/codec', 'streams/geyser/filter-compile', 'streams/geyser/filter-set'],
    load: async () => (await geyser()).geyserRequest,
  },
  'geyser-update': {
    files: ['chain/solana/', 'base/proto-reader', 'streams/geyser/frame'],
    load: async () => (await geyser()).geyserUpdate,
  },
  'account-data': {
    files: ['chain/solana/'],
    load: async () => (await chainData()).accountData,
  },
  'instruction-data': {
    files: ['chain/solana/'],
    load: async () => (await chainData()).instructionData,
  },
  transaction: {
    files: ['chain/solana/transaction', 'chain/solana/base58'],
    load: async () => (await import('./targets/transaction.ts')).transaction,
  },
  shred: {
    files: ['chain/solana/shred'],
    load: async () => (await shreds()).shred,
  },
  entries: {
    files: ['loadtest/race/shred-transactions', 'chain/solana/transaction'],
    load: async () => (await shreds()).entries,
  },
  packets: {
    files: ['base/transport/pcap', 'base/transport/udp-errors'],
    load: async () => (await shreds()).packets,
  },
  'event-ring': {
    files: ['upstream/execution/', 'chain/evm/'],
    cost: 20,
    load: async () => (await import('./targets/event-ring.ts')).eventRing,
  },
  zstd: {
    files: ['base/zstd'],
    load: async () => (await bytes()).zstd,
  },
  frames: {
    files: ['base/threads/frames'],
    load: async () => (await bytes()).frames,
  },
  'sql-reader': {
    files: ['indexer/clickhouse/sql/'],
    load: async () => (await sql()).sqlReader,
  },
  'sql-printer': {
    files: ['indexer/clickhouse/sql/', 'indexer/clickhouse/duckdb/'],
    load: async () => (await sql()).sqlPrinter,
  },
  'sql-gate': {
    files: ['indexer/clickhouse-server/gate', 'indexer/clickhouse/server/'],
    load: async () => (await sql()).sqlGate,
  },
  'sql-value': {
    files: ['indexer/clickhouse/sql/parameters', 'indexer/clickhouse/sql/types'],
    load: async () => (await sql()).sqlValue,
  },
  'socket-message': {
    files: ['products/metrics/handle', 'streams/pubsub/', 'chain/solana/account-filter'],
    load: async () => (await messages()).socketMessage,
  },
  'event-frame': {
    files: ['streams/log/'],
    load: async () => (await messages()).eventFrame,
  },
  'config-file': {
    files: ['operator/config/', 'base/fields', 'base/nearest'],
    cost: 20,
    load: async () => (await import('./targets/config-file.ts')).configFile,
  },
  segments: {
    files: ['streams/segments/', 'base/records'],
    cost: 10,
    load: async () => (await keptFiles()).segments,
  },
  'flight-recording': {
    files: ['base/recording-file', 'base/records'],
    cost: 4,
    load: async () => (await keptFiles()).flightRecording,
  },
}

export const targetNames: readonly string[] = Object.keys(table)

export function filesOf(name: string): readonly string[] {
  return table[name]!.files
}

export function costOf(name: string): number {
  return table[name]!.cost ?? 1
}

export function loadTarget(name: string): Promise<Target> {
  return table[name]!.load()
}
