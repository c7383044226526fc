// Defines the indexer's tables: columns, keys and feeds. Data only.
// The single definition for building, storing and querying rows and for system.columns.
// Rows are unique by their key; a second row with the same key is a duplicate.
// A new column goes to the end of its table: stored tables get it added there.
import { assert } from '../base/errors.ts'

/** ClickHouse type names. */
const columnTypes = [
  ...(['UInt8', 'UInt16', 'UInt32', 'UInt64', 'Int8', 'Int16', 'Float64'] as const),
  ...(['String', 'Array(String)', 'DateTime', 'DateTime64(3)', 'DateTime64(9)'] as const),
  ...(['Nullable(DateTime)', 'Nullable(DateTime64(9))'] as const),
] as const
export type ColumnType = (typeof columnTypes)[number]

export interface Table {
  /** In order. */
  readonly columns: Readonly<Record<string, ColumnType>>
  readonly key: readonly string[]
  /** The source of its rows; a feed's positions grow, and the first key column is one. */
  readonly feed: FeedName
}

/** Databases that a query can name. */
export type Database = 'chain' | 'information_schema' | 'system'

/** Sources of rows: Solana slots, execution events by seq, tips and queries by their time. */
export const feedNames = ['slots', 'events', 'tips', 'usage'] as const
export type FeedName = (typeof feedNames)[number]

const solana = {
  blocks: table('slots', 'slot', [
    'slot UInt64, parent_slot UInt64, blockhash String, height UInt64, block_time DateTime',
    'tx_count UInt32',
  ]),
  transactions: table('slots', 'slot, idx', [
    'slot UInt64, idx UInt32, signature String, fee_payer String, success UInt8, err String',
    'fee UInt64, compute_units UInt64, version Int8, block_time DateTime',
  ]),
  instructions: table('slots', 'slot, idx, ix, inner_ix', [
    'slot UInt64, idx UInt32, ix UInt16, inner_ix Int16, signature String, program String',
    'accounts Array(String), data String, block_time Nullable(DateTime)',
  ]),
  account_updates: table('slots', 'slot, write_version', [
    'slot UInt64, idx UInt32, pubkey String, owner String, lamports UInt64, data_len UInt32',
    'write_version UInt64, block_time Nullable(DateTime)',
  ]),
  token_transfers: table('slots', 'slot, idx, ix, inner_ix', [
    'slot UInt64, idx UInt32, ix UInt16, signature String, mint String, source String',
    'destination String, authority String, amount UInt64, decimals UInt8, inner_ix Int16',
    'block_time Nullable(DateTime)',
  ]),
  tips: table('tips', 'received_at, signature, outcome', [
    'received_at DateTime64(3), signature String, fee_payer String, tip_account String',
    'lamports UInt64, outcome String, reason String, landed_slot UInt64',
  ]),
}

const execution = {
  execution_blocks: table('events', 'number, block_hash', [
    'number UInt64, block_hash String, eth_hash String, tx_count UInt32, gas_used UInt64',
    'started_at DateTime64(9)',
  ]),
  tps: table('events', 'seq', [
    'seq UInt64, block_number UInt64, tps UInt64, at Nullable(DateTime64(9))',
  ]),
  contention: table('events', 'seq', [
    'seq UInt64, block_number UInt64, block_wall_time_ns UInt64, total_tx_time_ns UInt64',
    'parallel_efficiency_pct Float64, total_unique_slots UInt64, contended_slot_count UInt64',
    'contention_ratio Float64, total_txn_count UInt64, written_contended_slot_count UInt64',
    'critical_path_txn_count UInt64, block_hash String, at Nullable(DateTime64(9))',
  ]),
  contended_slots: table('events', 'seq, rank', [
    'seq UInt64, block_number UInt64, rank UInt16, address String, slot String',
    'txn_count UInt64, access_count UInt64, at Nullable(DateTime64(9))',
  ]),
  contended_contracts: table('events', 'seq, rank', [
    'seq UInt64, block_number UInt64, rank UInt16, address String, total_slots UInt64',
    'contended_slots UInt64, total_accesses UInt64, contention_score Float64',
    'at Nullable(DateTime64(9))',
  ]),
  contract_edges: table('events', 'seq, rank', [
    'seq UInt64, block_number UInt64, rank UInt16, contract_a String, contract_b String',
    'shared_txn_count UInt64, at Nullable(DateTime64(9))',
  ]),
  top_accesses: table('events', 'seq, kind, rank', [
    'seq UInt64, block_number UInt64, kind String, rank UInt16, address String, slot String',
    'count UInt64, error UInt64, at Nullable(DateTime64(9))',
  ]),
  block_lifecycle: table('events', 'seq', [
    'seq UInt64, block_number UInt64, block_hash String, from_stage String, to_stage String',
    'age_ms Float64, at DateTime64(9)',
  ]),
}

/** Queries of all customers; a caller sees the rows of its own, without the first column. */
const queries = {
  usage: table('usage', 'subscription, at, query_id', [
    'subscription String, at DateTime64(3), query_id String, elapsed_ms Float64, rows UInt64',
    'bytes UInt64, code UInt16',
  ]),
}

export const tables = { ...solana, ...execution, ...queries }
export type TableName = keyof typeof tables
export const tableNames = Object.keys(tables) as readonly TableName[]
export const slotTables = tableNames.filter((name) => tables[name].feed === 'slots')

/** Where a table's rows of earlier versions, which lack its last column, get their time from. */
export interface TimeSource {
  readonly column: string
  /** The column that names the block. */
  readonly block: string
  readonly from: TableName
  readonly number: string
  readonly time: string
}

const timeSources: Readonly<Partial<Record<FeedName, TimeSource>>> = {
  slots: {
    column: 'block_time',
    block: 'slot',
    from: 'blocks',
    number: 'slot',
    time: 'block_time',
  },
  events: {
    ...{ column: 'at', block: 'block_number' },
    ...{ from: 'execution_blocks', number: 'number', time: 'started_at' },
  },
}

/** Undefined for a table that had a time from its first version on. */
export function timeSourceOf(name: TableName): TimeSource | undefined {
  const { columns, feed }: Table = tables[name]
  const source = timeSources[feed]
  return source && columns[source.column]?.startsWith('Nullable(') ? source : undefined
}

function table(feed: FeedName, key: string, columns: readonly string[]): Table {
  return { key: key.split(', '), columns: readColumns(columns.join(', ')), feed }
}

/** `name Type, name Type`, as in CREATE TABLE. */
export function readColumns(text: string): Table['columns'] {
  const columns = text.split(', ').map((column) => column.split(' ') as [string, ColumnType])
  for (const [name, type] of columns) assert(columnTypes.includes(type), `the type of ${name}`)
  return Object.fromEntries(columns)
}
