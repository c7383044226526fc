// Maps the indexer's tables to DuckDB: column types, CREATE TABLE, and the order of rows.
// Thread: main of the writer and query processes.
import type { DuckDBConnection, DuckDBType, DuckDBValue } from '@duckdb/node-api'
import {
  DOUBLE,
  LIST,
  SMALLINT,
  TIMESTAMP_MS,
  TIMESTAMP_NS,
  TIMESTAMP_S,
  TINYINT,
  UBIGINT,
  UINTEGER,
  USMALLINT,
  UTINYINT,
  VARCHAR,
} from '@duckdb/node-api/lib/DuckDBType.js'
import {
  DuckDBTimestampMillisecondsValue,
  DuckDBTimestampNanosecondsValue,
  DuckDBTimestampSecondsValue,
  listValue,
} from '@duckdb/node-api/lib/values/index.js'
import { defaultSql, duckdbTypeOf } from '../clickhouse/duckdb/typing.ts'
import type { Cell } from '../engine.ts'
import { type ColumnType, type TableName, tables } from '../tables.ts'

interface Storage {
  readonly type: DuckDBType
  value(cell: Cell): DuckDBValue
}

const whole = (cell: Cell): bigint => (typeof cell === 'bigint' ? cell : BigInt(cell as number))

const seconds: Storage = {
  type: TIMESTAMP_S,
  value: (cell) => new DuckDBTimestampSecondsValue(whole(cell)),
}
const nanoseconds: Storage = {
  type: TIMESTAMP_NS,
  value: (cell) => new DuckDBTimestampNanosecondsValue(whole(cell)),
}
const orNull = ({ type, value }: Storage): Storage => ({
  type,
  value: (cell) => (cell === null ? null : value(cell)),
})

const storages: Readonly<Record<ColumnType, Storage>> = {
  UInt8: { type: UTINYINT, value: Number },
  UInt16: { type: USMALLINT, value: Number },
  UInt32: { type: UINTEGER, value: Number },
  UInt64: { type: UBIGINT, value: whole },
  Int8: { type: TINYINT, value: Number },
  Int16: { type: SMALLINT, value: Number },
  Float64: { type: DOUBLE, value: Number },
  String: { type: VARCHAR, value: (cell) => cell as string },
  'Array(String)': {
    type: LIST(VARCHAR),
    value: (cell) => listValue(cell as readonly string[]),
  },
  DateTime: seconds,
  'Nullable(DateTime)': orNull(seconds),
  'DateTime64(3)': {
    type: TIMESTAMP_MS,
    value: (cell) => new DuckDBTimestampMillisecondsValue(whole(cell)),
  },
  'DateTime64(9)': nanoseconds,
  'Nullable(DateTime64(9))': orNull(nanoseconds),
}

export function storageOf(type: ColumnType): Storage {
  return storages[type]
}

export function columnsOf(table: TableName): readonly (readonly [string, ColumnType])[] {
  return Object.entries(tables[table].columns)
}

export function createTableSql(catalog: string, table: TableName): string {
  const columns = columnsOf(table).map(([name, type]) => `"${name}" ${duckdbTypeOf(type)}`)
  return `CREATE TABLE IF NOT EXISTS ${catalog}."${table}" (${columns.join(', ')})`
}

/** The columns of each table of an attached file: one of an earlier version may lack some. */
export type PresentColumns = ReadonlyMap<string, ReadonlySet<string>>

export async function presentColumns(
  connection: DuckDBConnection,
  catalog: string,
): Promise<PresentColumns> {
  const found = await connection.runAndReadAll(
    `SELECT table_name, list(column_name) FROM duckdb_columns()
      WHERE database_name = '${catalog}' AND NOT internal GROUP BY table_name`,
  )
  return new Map(
    found.getRowsJS().map(([table, columns]) => [String(table), new Set(columns as string[])]),
  )
}

/**
 * The list of a SELECT over a table; a column that the file lacks has its type's default, as
 * ClickHouse gives it to rows written before a column was added.
 */
export function selectList(
  columns: readonly (readonly [string, ColumnType])[],
  present: ReadonlySet<string> | undefined,
): string {
  return columns
    .map(([name, type]) =>
      present?.has(name) === false
        ? `CAST(${defaultSql(type)} AS ${duckdbTypeOf(type)}) AS "${name}"`
        : `"${name}"`,
    )
    .join(', ')
}

/**
 * The column by which a table's rows arrive: the first one of its key that is a number or a time.
 * A row above the highest value seen so far cannot be a duplicate.
 */
export function orderColumnOf(table: TableName): string {
  const { columns, key } = tables[table]
  return key.find((name) => columns[name] !== 'String') ?? key[0]!
}

/** The order value of a row: its order column as a number in the column's own unit, in SQL. */
export function orderSql(table: TableName, of = ''): string {
  const column = orderColumnOf(table)
  const type = tables[table].columns[column]
  const value = `${of}"${column}"`
  if (type === 'DateTime64(3)') return `epoch_ms(${value})`
  return type === 'DateTime' ? `epoch(${value})::BIGINT` : value
}
