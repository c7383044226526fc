// Converts row batches into DuckDB data chunks, and finds the rows that may be duplicates.
// Thread: main of the writer process; column types also in query processes.
import type { DuckDBAppender, DuckDBConnection, DuckDBType, DuckDBValue } from '@duckdb/node-api'
import { DuckDBDataChunk } from '@duckdb/node-api/lib/DuckDBDataChunk.js'
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
import { assert } from '../../base/errors.ts'
import { defaultSql, duckdbTypeOf } from '../clickhouse/duckdb/typing.ts'
import type { Cell, RowBatch } from '../engine.ts'
import { type ColumnType, type TableName, tableNames, tables } from '../tables.ts'

// Maps the indexer's tables to DuckDB: column types, CREATE TABLE, and the order of rows.

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
function orderColumnOf(table: TableName): string {
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

/** Rows per chunk: DuckDB's vector size. */
const chunkRows = 2048

interface Layout {
  readonly types: readonly DuckDBType[]
  readonly values: readonly ((cell: Cell) => DuckDBValue)[]
  /** Column indexes of the order column, then of the rest of the key. */
  readonly key: readonly number[]
}

/** Passes the rows of a range to an appender. */
export function appendRows(appender: DuckDBAppender, batch: RowBatch, range: RowRange): void {
  const { types, values } = layoutOf(batch.table)
  assert(batch.columns.length === types.length, `rows of ${batch.table} have all their columns`)
  for (let start = range.first; start < range.end; start += chunkRows) {
    const count = Math.min(chunkRows, range.end - start)
    const chunk = DuckDBDataChunk.create(types, count)
    for (let column = 0; column < types.length; column += 1) {
      const cells = batch.columns[column]!
      const value = values[column]!
      const vector = chunk.getColumnVector(column)
      for (let row = 0; row < count; row += 1) vector.setItem(row, value(cells[start + row]!))
      vector.flush()
    }
    appender.appendDataChunk(chunk)
  }
}

interface RowRange {
  readonly first: number
  /** After the last. */
  readonly end: number
}

/**
 * Index of the first row that is surely new: from there on all rows are above `top` in their
 * order column and unique. Rows before it may be duplicates. `batch.count` when no row is surely
 * new.
 */
export function firstFresh(batch: RowBatch, top: number): number {
  const { key } = layoutOf(batch.table)
  const columns = key.map((index) => batch.columns[index]!)
  const order = columns[0]!
  if (isAscending(columns, batch.count)) {
    let first = 0
    while (first < batch.count && Number(order[first]) <= top) first += 1
    return first
  }
  for (let row = 0; row < batch.count; row += 1) if (Number(order[row]) <= top) return batch.count
  return isUnique(columns, batch.count) ? 0 : batch.count
}

/** The order column. */
export function orderOf(batch: RowBatch): readonly Cell[] {
  return batch.columns[layoutOf(batch.table).key[0]!]!
}

/** The key of each row, as a text. */
export function keysOf(batch: RowBatch): readonly string[] {
  const columns = layoutOf(batch.table).key.map((index) => batch.columns[index]!)
  return Array.from({ length: batch.count }, (_, row) => keyAt(columns, row))
}

/** The lowest and highest order value of a range of rows. */
export function orderSpan(batch: RowBatch, range: RowRange): { low: number; high: number } {
  const order = orderOf(batch)
  let low = Number.POSITIVE_INFINITY
  let high = Number.NEGATIVE_INFINITY
  for (let row = range.first; row < range.end; row += 1) {
    const value = Number(order[row])
    if (value < low) low = value
    if (value > high) high = value
  }
  return { low, high }
}

function layoutOf(table: TableName): Layout {
  return layouts.get(table)!
}

const layouts = new Map(tableNames.map((table) => [table, makeLayout(table)]))

function makeLayout(table: TableName): Layout {
  const columns = columnsOf(table)
  const order = orderColumnOf(table)
  const names = [order, ...tables[table].key.filter((name) => name !== order)]
  return {
    types: columns.map(([, type]) => storages[type].type),
    values: columns.map(([, type]) => storages[type].value),
    key: names.map((name) => columns.findIndex(([column]) => column === name)),
  }
}

/** Strictly ascending, so that no key is duplicated: the cheap test, and true of most batches. */
function isAscending(columns: readonly (readonly Cell[])[], count: number): boolean {
  for (let row = 1; row < count; row += 1) {
    let isAbove = false
    for (const cells of columns) {
      const before = cells[row - 1]!
      const here = cells[row]!
      if (here > before) {
        isAbove = true
        break
      }
      if (here < before) return false
    }
    if (!isAbove) return false
  }
  return true
}

function isUnique(columns: readonly (readonly Cell[])[], count: number): boolean {
  const seen = new Set<string>()
  for (let row = 0; row < count; row += 1) {
    const key = keyAt(columns, row)
    if (seen.has(key)) return false
    seen.add(key)
  }
  return true
}

function keyAt(columns: readonly (readonly Cell[])[], row: number): string {
  let key = ''
  for (const cells of columns) key += `${cells[row]}\0`
  return key
}

// Row count and range of order values per table of one file.
// Limits deduplication to files that can contain a key, and
// lists the tables of a file in a snapshot. `orderSql` defines a row's order value.

export interface Span {
  readonly rows: number
  readonly low: number
  readonly high: number
}

export class Spans {
  readonly #spans = new Map<TableName, Span>()

  rows(table: TableName): number {
    return this.#spans.get(table)?.rows ?? 0
  }

  high(table: TableName): number {
    return this.#spans.get(table)?.high ?? Number.NEGATIVE_INFINITY
  }

  get totalRows(): number {
    return tableNames.reduce((sum, table) => sum + this.rows(table), 0)
  }

  /** Tables with rows. */
  get tables(): readonly TableName[] {
    return tableNames.filter((table) => this.rows(table) > 0)
  }

  meets(table: TableName, low: number, high: number): boolean {
    const span = this.#spans.get(table)
    return span !== undefined && span.rows > 0 && span.low <= high && low <= span.high
  }

  add(table: TableName, more: Span): void {
    const span = this.#spans.get(table)
    this.#spans.set(table, {
      rows: (span?.rows ?? 0) + more.rows,
      low: Math.min(span?.low ?? more.low, more.low),
      high: Math.max(span?.high ?? more.high, more.high),
    })
  }

  addAll(more: Spans): void {
    for (const [table, span] of more.#spans) this.add(table, span)
  }

  /** Computes the spans of a file that has no `spans` table, of the tables it has. */
  async measure(
    connection: DuckDBConnection,
    catalog: string,
    present: readonly TableName[],
  ): Promise<void> {
    for (const table of present) {
      const order = orderSql(table)
      const found = await connection.runAndReadAll(
        `SELECT count(*), min(${order}), max(${order}) FROM ${catalog}."${table}"`,
      )
      const [rows, low, high] = found.getRows()[0]!.map(Number)
      if (rows! > 0) this.add(table, { rows: rows!, low: low!, high: high! })
    }
  }

  /** Writes the `spans` table into a merged file: measuring a large one takes long. */
  async store(connection: DuckDBConnection, catalog: string): Promise<void> {
    await connection.run(
      `CREATE TABLE ${catalog}.spans (name VARCHAR, rows UBIGINT, low HUGEINT, high HUGEINT)`,
    )
    const rows = [...this.#spans].map(
      ([table, { rows, low, high }]) => `('${table}', ${rows}, ${low}, ${high})`,
    )
    if (rows.length > 0)
      await connection.run(`INSERT INTO ${catalog}.spans VALUES ${rows.join(', ')}`)
  }

  /** Reads the `spans` table of a sealed file. */
  async load(connection: DuckDBConnection, catalog: string): Promise<void> {
    const found = await connection.runAndReadAll(`SELECT * FROM ${catalog}.spans`)
    for (const [name, rows, low, high] of found.getRows())
      this.add(name as TableName, { rows: Number(rows), low: Number(low), high: Number(high) })
  }
}
