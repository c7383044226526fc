// The catalogue that customers see: databases, tables, columns, views, comments. Data only.
// The single source for SHOW and DESCRIBE of the endpoint, and for `system` and
// `information_schema` of an engine.
import { formats } from './clickhouse/formats/formats.ts'
import { clickhouseString } from './clickhouse/sql/lexer.ts'
import { settingRows } from './settings.ts'
import { type Database, type TableName, tableNames, tables } from './tables.ts'

// Comments of tables and columns, as DESCRIBE and `system` show them.

/** By table. */
const ofTables: Readonly<Record<string, string>> = {
  blocks: 'Confirmed blocks of Solana',
  transactions: 'Transactions of confirmed blocks, failed ones included',
  instructions: 'Instructions of transactions, inner ones included',
  account_updates: 'Writes of accounts in confirmed blocks',
  token_transfers: 'Transfers of SPL Token and Token-2022 in successful transactions',
  tips: 'Submissions to the TPU Sender, accepted and refused',
  execution_blocks: 'Blocks of the execution chain that were analysed',
  tps: 'Transactions per second of the execution chain, at the start of each block',
  contention: 'How much the transactions of a block waited for each other',
  contended_slots: 'Storage slots that several transactions of a block accessed, most first',
  contended_contracts: 'Contracts with contended storage slots, highest score first',
  contract_edges: 'Pairs of contracts that the same transactions of a block accessed',
  top_accesses: 'Ten most accessed accounts and storage slots since the last 5-minute boundary',
  block_lifecycle: 'Steps of a block from its proposal to its finality',
  usage: 'Your own queries',
  transfers: 'Transfers of tokens with their time, and the amount in whole tokens',
  balance_changes:
    'Balances of accounts that changed, in lamports; every write is compared with the one before',
  fees_by_payer: 'Fees by day and payer, failed transactions included',
  tps_by_minute: 'Transactions per second of the execution chain, by minute',
  contention_by_hour: 'Contention of the execution chain, by hour',
}

/** By column; one of a table comes first. */
const ofColumns: Readonly<Record<string, string>> = {
  slot: 'Slot of the block',
  parent_slot: 'Slot of the block before',
  blockhash: 'Hash of the block, base58',
  height: 'Number of the block, without empty slots',
  block_time: 'When the block was produced, by its leader, in whole seconds',
  tx_count: 'Transactions in the block',
  idx: 'Position of the transaction in its block, from 0 on',
  'account_updates.idx':
    'Position of the transaction that wrote it; 4294967295 when no transaction did',
  signature: 'First signature of the transaction, base58',
  fee_payer: 'Account that paid the fee, base58',
  success: '1 when it succeeded, 0 when it failed',
  err: 'Why it failed, as JSON; empty when it succeeded',
  fee: 'Fee in lamports',
  compute_units: 'Compute units that it consumed',
  version: '-1 for a legacy transaction, else its version',
  ix: 'Position of the top-level instruction in its transaction, from 0 on',
  inner_ix: 'Position among the inner instructions of `ix`; -1 for the top-level one itself',
  program: 'Program that ran it, base58',
  accounts: 'Its accounts in order, base58',
  data: 'Its data, base58',
  pubkey: 'The account, base58',
  owner: 'Program that owns the account, base58',
  lamports: 'Balance after the write, in lamports',
  'tips.lamports': 'The tip, in lamports',
  data_len: "Bytes of the account's data",
  write_version: "Grows with every write of the node's accounts",
  mint: 'Mint of the token, base58; empty when it is not known',
  source: 'Token account that it left, base58',
  destination: 'Token account that it reached, base58',
  authority: 'Who allowed it, base58',
  amount: 'In the smallest unit of the token',
  decimals: 'Decimal places of the token',
  received_at: 'When it was received',
  tip_account: 'Tip account that was paid, base58',
  outcome: 'landed, expired, failed or rejected',
  reason: 'Why it was refused; empty when it was not',
  landed_slot: 'Slot in which it landed; 0 when it did not',
  number: 'Number of the block',
  block_hash: 'Id of the block',
  eth_hash: 'Hash of the block as Ethereum clients know it',
  gas_used: 'Gas that its transactions used',
  started_at: 'When its execution began',
  seq: 'Number of the event in the log',
  block_number: 'Number of the block',
  tps: 'Transactions of the last 2.5 blocks, about one second',
  at: 'When it happened, by the source; of rows of earlier versions when their block began',
  block_wall_time_ns: 'Time from the first to the last transaction of the block',
  total_tx_time_ns: 'Sum of the times of its transactions',
  parallel_efficiency_pct: 'How much of the parallel time was used, in percent',
  total_unique_slots: 'Storage slots that were accessed',
  contended_slot_count: 'Storage slots that several transactions accessed',
  contention_ratio: 'contended_slot_count / total_unique_slots',
  total_txn_count: 'Transactions in the block',
  written_contended_slot_count: 'Contended storage slots that were written',
  critical_path_txn_count: 'Transactions in the longest chain that could not run in parallel',
  rank: 'From 1 on, most first',
  address: 'Address of the contract or account, hex',
  'contended_slots.slot': 'Storage slot, hex',
  txn_count: 'Transactions that accessed it',
  access_count: 'Accesses of it',
  total_slots: 'Its storage slots that were accessed',
  contended_slots: 'Its storage slots that several transactions accessed',
  total_accesses: 'Accesses of its storage',
  contention_score: 'contended_slots / total_slots',
  contract_a: 'One contract, hex',
  contract_b: 'The other, hex',
  shared_txn_count: 'Transactions that accessed both',
  kind: 'account or storage',
  'top_accesses.slot': 'Storage slot, hex; empty for an account',
  count: 'Accesses, at most `error` too high',
  error: 'Largest possible error of `count`',
  from_stage: 'Stage before; empty for the first',
  to_stage: 'Stage that it reached',
  age_ms: 'Milliseconds since it was first seen',
  'usage.at': 'When the query came',
  query_id: 'Its id',
  elapsed_ms: 'Its run time',
  rows: 'Rows of its result',
  bytes: 'Bytes of its result',
  code: '0 when it succeeded, else the code of its error',
  ui_amount: 'In whole tokens, rounded to a Float64',
  change: 'Lamports more than before; NULL for the first write of the account in the index',
  day: 'Of the blocks, UTC',
  transactions: 'How many',
  failed: 'How many of them failed',
  fees: 'Their fees in lamports',
  compute_units_total: 'Compute units that they consumed',
  minute: 'Its start, UTC',
  hour: 'Its start, UTC',
  blocks: 'How many',
  tps_min: 'Lowest of the minute',
  tps_avg: 'Average of the minute',
  tps_max: 'Highest of the minute',
  contention_ratio_avg: 'Average of the blocks',
  parallel_efficiency_pct_avg: 'Average of the blocks that have transactions',
  contended_slots_total: 'Contended storage slots of the blocks',
  critical_path_max: 'Highest critical_path_txn_count of a block',
}

function columnComment(table: string, column: string): string {
  return ofColumns[`${table}.${column}`] ?? ofColumns[column] ?? ''
}

// Views: queries under a name, for what is asked most.
// A view is written out wherever a query names it, on both engines, so it reads what the caller may
// read, within its limits. Names of tables have their database: a table that the caller's query
// defines with WITH is not taken for one of them.

export interface View {
  /** ClickHouse's, as both engines answer it. */
  readonly sql: string
  /** Types of its columns by name, in order. */
  readonly columns: Readonly<Record<string, string>>
}

export const views: Readonly<Record<string, View>> = {
  transfers: {
    sql: `SELECT block_time, slot, idx, signature, mint, source, destination, authority, amount,
      decimals, amount / pow(10, decimals) AS ui_amount
    FROM chain.token_transfers`,
    columns: {
      ...{ block_time: 'Nullable(DateTime)', slot: 'UInt64', idx: 'UInt32', signature: 'String' },
      ...{ mint: 'String', source: 'String', destination: 'String', authority: 'String' },
      ...{ amount: 'UInt64', decimals: 'UInt8', ui_amount: 'Float64' },
    },
  },
  balance_changes: {
    sql: `SELECT block_time, slot, idx, pubkey, owner, lamports, change
    FROM (
      SELECT block_time, slot, idx, pubkey, owner, lamports,
        toInt64(lamports) - lagInFrame(toNullable(toInt64(lamports))) OVER (
          PARTITION BY pubkey ORDER BY slot, write_version
          ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS change
      FROM chain.account_updates)
    WHERE change != 0 OR change IS NULL`,
    columns: {
      ...{ block_time: 'Nullable(DateTime)', slot: 'UInt64', idx: 'UInt32', pubkey: 'String' },
      ...{ owner: 'String', lamports: 'UInt64', change: 'Nullable(Int64)' },
    },
  },
  fees_by_payer: {
    sql: `SELECT toDate(block_time) AS day, fee_payer, sum(fee) AS fees, count() AS transactions,
      countIf(success = 0) AS failed, sum(compute_units) AS compute_units_total
    FROM chain.transactions
    GROUP BY day, fee_payer`,
    columns: {
      ...{ day: 'Date', fee_payer: 'String', fees: 'UInt64', transactions: 'UInt64' },
      ...{ failed: 'UInt64', compute_units_total: 'UInt64' },
    },
  },
  tps_by_minute: {
    sql: `SELECT toStartOfMinute(at) AS minute, avg(tps) AS tps_avg, min(tps) AS tps_min,
      max(tps) AS tps_max, count() AS blocks
    FROM chain.tps
    WHERE at IS NOT NULL
    GROUP BY minute`,
    columns: {
      ...{ minute: 'Nullable(DateTime)', tps_avg: 'Float64', tps_min: 'UInt64' },
      ...{ tps_max: 'UInt64', blocks: 'UInt64' },
    },
  },
  contention_by_hour: {
    sql: `SELECT toStartOfHour(at) AS hour, avg(contention_ratio) AS contention_ratio_avg,
      avgIf(parallel_efficiency_pct, total_txn_count > 0) AS parallel_efficiency_pct_avg,
      sum(contended_slot_count) AS contended_slots_total,
      max(critical_path_txn_count) AS critical_path_max,
      count() AS blocks, sum(total_txn_count) AS transactions
    FROM chain.contention
    WHERE at IS NOT NULL
    GROUP BY hour`,
    columns: {
      ...{ hour: 'Nullable(DateTime)', contention_ratio_avg: 'Float64' },
      ...{ parallel_efficiency_pct_avg: 'Float64', contended_slots_total: 'UInt64' },
      ...{ critical_path_max: 'UInt64', blocks: 'UInt64', transactions: 'UInt64' },
    },
  },
}

/** Database of the tables; `default` is an alias. */
export const DATABASE = 'chain'
export const databases: readonly Database[] = [DATABASE, 'information_schema', 'system']

/** The version of ClickHouse whose interface and SQL the embedded engine follows: `version()`. */
export const EMULATED_VERSION = '26.7.1.1'

export interface VisibleTable {
  readonly database: Database
  readonly name: string
  /** ClickHouse types by name, in order. */
  readonly columns: Readonly<Record<string, string>>
  readonly key: readonly string[]
  readonly comment: string
  /** Comments by column. */
  readonly comments: Readonly<Record<string, string>>
  /** What a view reads; null for a table. */
  readonly view: string | null
}

/** How large a table is, where the engine knows it. */
export interface TableSize {
  readonly rows: number | null
  readonly bytes: number | null
}
export type TableSizes = Readonly<Partial<Record<TableName, TableSize>>>

/** The database of that name; null when it does not exist. '' is the one of the tables. */
export function databaseOf(name: string | null): Database | null {
  const lower = name?.toLowerCase()
  if (lower === '' || lower === 'default') return DATABASE
  // ClickHouse has this one in both cases.
  if (name === 'INFORMATION_SCHEMA') return 'information_schema'
  return databases.find((known) => known === name) ?? null
}

/** Customers see only their own rows of `usage`, so the column is hidden. */
const hiddenColumn = 'subscription'

const chainTables: readonly VisibleTable[] = tableNames.map((name) => {
  const { columns, key } = tables[name]
  const shown = Object.entries(columns).filter(([column]) => column !== hiddenColumn)
  return {
    database: DATABASE,
    name,
    columns: Object.fromEntries(shown),
    key: key.filter((column) => column !== hiddenColumn),
    view: null,
    ...commentsOf(name, Object.keys(columns)),
  }
})

const chainViews = Object.entries(views).map(([name, { columns, sql }]): VisibleTable => {
  const names = Object.keys(columns)
  const key = names.slice(0, 1)
  return { database: DATABASE, name, columns, key, view: sql, ...commentsOf(name, names) }
})

function commentsOf(
  table: string,
  columns: readonly string[],
): Pick<VisibleTable, 'comment' | 'comments'> {
  const comments = columns.map((column) => [column, columnComment(table, column)])
  return { comment: ofTables[table] ?? '', comments: Object.fromEntries(comments) }
}

/** Columns of the tables about tables; the engine itself has `numbers`, `zeros`, `functions`. */
const catalogueTables: Readonly<Record<string, string>> = {
  'system.numbers': 'number UInt64',
  'system.one': 'dummy UInt8',
  'system.zeros': 'zero UInt8',
  'system.functions': 'name String, is_aggregate UInt8, case_insensitive UInt8, alias_to String',
  'system.formats': 'name String, is_input UInt8, is_output UInt8',
  'system.settings':
    'name String, value String, changed UInt8, description String, readonly UInt8, type String, ' +
    'default String',
  'system.databases': 'name String, engine String, uuid String, comment String',
  'system.tables':
    'database String, name String, uuid String, engine String, is_temporary UInt8, ' +
    'create_table_query String, engine_full String, partition_key String, sorting_key String, ' +
    'primary_key String, sampling_key String, total_rows Nullable(UInt64), ' +
    'total_bytes Nullable(UInt64), comment String',
  'system.columns':
    'database String, table String, name String, type String, position UInt64, ' +
    'default_kind String, default_expression String, comment String, is_in_partition_key UInt8, ' +
    'is_in_sorting_key UInt8, is_in_primary_key UInt8, is_in_sampling_key UInt8',
  'information_schema.schemata':
    'catalog_name String, schema_name String, schema_owner String, ' +
    'default_character_set_name String',
  'information_schema.tables':
    'table_catalog String, table_schema String, table_name String, table_type String, ' +
    'table_comment String',
  'information_schema.columns':
    'table_catalog String, table_schema String, table_name String, column_name String, ' +
    'ordinal_position UInt64, column_default String, is_nullable String, data_type String, ' +
    'column_type String, column_comment String, extra String',
}

export const visibleTables: readonly VisibleTable[] = [
  ...chainTables,
  ...chainViews,
  ...Object.entries(catalogueTables).map(([path, text]): VisibleTable => {
    const [database, name] = path.split('.') as [Database, string]
    const columns = Object.fromEntries(text.split(', ').map((column) => column.split(' ')))
    const key = Object.keys(columns).slice(0, 1)
    return { database, name, columns, key, view: null, comment: '', comments: {} }
  }),
].sort((a, b) => (`${a.database}.${a.name}` < `${b.database}.${b.name}` ? -1 : 1))

export function visibleTable(database: string | null, name: string): VisibleTable | undefined {
  // The tables of this database have names in both cases, too.
  const wanted = database === 'information_schema' ? name.toLowerCase() : name
  return visibleTables.find((one) => one.database === database && one.name === wanted)
}

/** Cells in the order of the table's columns. */
export type SystemRow = readonly (string | number | null)[]

/** Rows by `database.table`; the tables that are missing are the engine's own. */
export function systemRows(
  engine: string,
  sizes: TableSizes = {},
): Readonly<Record<string, readonly SystemRow[]>> {
  const columns = visibleTables.flatMap(columnRows)
  return {
    'system.one': [[0]],
    'system.formats': formats.map(({ name }) => [name, 0, 1]),
    'system.settings': settingRows().map(({ name, value, description }) => [
      ...[name, value, 0, description, 0],
      ...['String', value],
    ]),
    'system.databases': databases.map((name) => [name, engine, '', '']),
    'system.tables': visibleTables.map((table) => tableRow(table, engine, sizes)),
    'system.columns': columns.map(({ cells, isKey, comment }) => [
      ...cells.slice(0, 5),
      ...['', '', comment, 0, isKey, isKey, 0],
    ]),
    'information_schema.schemata': databases.map((name) => [name, name, 'default', '']),
    'information_schema.tables': visibleTables.map(({ database, name, view, comment }) => {
      const stored = view === null ? 'BASE TABLE' : 'VIEW'
      const kind = database === DATABASE ? stored : 'SYSTEM VIEW'
      return [database, database, name, kind, comment]
    }),
    'information_schema.columns': columns.map(
      ({ cells: [database, table, name, type, position], comment }) =>
        [
          ...[database, database, table, name, position],
          ...['', type.startsWith('Nullable(') ? '1' : '0', type, type, comment, ''],
        ] as SystemRow,
    ),
  }
}

/** The size of `usage` is that of all customers, and theirs alone to know. */
function tableRow(table: VisibleTable, engine: string, sizes: TableSizes): SystemRow {
  const key = table.view === null ? table.key.join(', ') : ''
  const kind = table.view === null ? engine : 'View'
  const size =
    table.database === DATABASE && table.name !== 'usage' && sizes[table.name as TableName]
  const { rows, bytes } = size || { rows: null, bytes: null }
  const head = [table.database, table.name, '', kind, 0, createText(table), '', '', key, key, '']
  return [...head, rows, bytes, table.comment]
}

/** The statement of SHOW CREATE TABLE. */
export function createText({ database, name, columns, key, view, ...said }: VisibleTable): string {
  const noted = (comment = '') => (comment === '' ? '' : ` COMMENT ${clickhouseString(comment)}`)
  const lines = Object.entries(columns).map(
    ([column, type]) => `    ${column} ${type}${noted(said.comments[column])}`,
  )
  const kind = view === null ? 'TABLE' : 'VIEW'
  const rest = view === null ? `ORDER BY (${key.join(', ')})` : `AS ${view}`
  const end = noted(said.comment).replace(' ', '\n')
  return `CREATE ${kind} ${database}.${name}\n(\n${lines.join(',\n')}\n)\n${rest}${end}`
}

function columnRows({ database, name: table, columns, key, view, comments }: VisibleTable) {
  return Object.entries(columns).map(([name, type], index) => ({
    cells: [database, table, name, type, index + 1] as const,
    isKey: view === null && key.includes(name) ? 1 : 0,
    comment: comments[name] ?? '',
  }))
}
