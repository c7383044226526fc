// Reads the files of an index as a stranger would: another engine, read-only, by readable.json.
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { readSnapshot, type StoreSnapshot } from '../../src/indexer/duckdb/store-files.ts'
import { type ColumnType, type TableName, tables } from '../../src/indexer/tables.ts'

/** Integers and times as digits, in their own unit. */
export type ReadRow = Readonly<Record<string, unknown>>

/** As the index's reader gives it: integers as digits, the rest as it is. */
export function asRead(row: ReadRow, floats: readonly string[] = []): ReadRow {
  const entries = Object.entries(row).map(([name, cell]) => {
    const isDigits =
      typeof cell === 'bigint' || (typeof cell === 'number' && !floats.includes(name))
    return [name, isDigits ? String(cell) : cell]
  })
  return Object.fromEntries(entries)
}

/** Orders rows by a column of integers. */
export const byNumber = (column: string) => (a: ReadRow, b: ReadRow) =>
  Number(a[column]) - Number(b[column])

export interface Counted {
  readonly rows: number
  readonly distinct: number
}

/** How many rows the view has of a table, and how many distinct keys. */
export async function countRows(
  folder: string,
  table: TableName,
  key = 'slot, idx',
  of?: StoreSnapshot,
): Promise<Counted> {
  const expression = `count(*), count(DISTINCT (${key}))`
  const [counts] = await select(folder, table, { expression, of })
  const [rows, distinct] = counts ?? [0, 0]
  return { rows: Number(rows), distinct: Number(distinct) }
}

/** All rows of a table; integers and times (in their own unit) as digits, floats as numbers. */
export async function readRows(
  folder: string,
  table: TableName,
  of?: StoreSnapshot,
): Promise<readonly (readonly unknown[])[]> {
  const types = Object.entries(tables[table].columns)
  const expression = types.map(([name, type]) => readAs[type](`"${name}"`)).join(', ')
  const rows = await select(folder, table, { expression, of })
  return rows.map((row) =>
    row.map((cell, at) => (types[at]![1] === 'Array(String)' ? JSON.parse(String(cell)) : cell)),
  )
}

const digits = (column: string) => `CAST(${column} AS VARCHAR)`
const itself = (column: string) => column
const readAs: Readonly<Record<ColumnType, (column: string) => string>> = {
  UInt8: digits,
  UInt16: digits,
  UInt32: digits,
  UInt64: digits,
  Int8: digits,
  Int16: digits,
  Float64: itself,
  String: itself,
  'Array(String)': (column) => `CAST(to_json(${column}) AS VARCHAR)`,
  DateTime: (column) => digits(`CAST(epoch(${column}) AS BIGINT)`),
  'DateTime64(3)': (column) => digits(`epoch_ms(${column})`),
  'DateTime64(9)': (column) => digits(`epoch_ns(${column})`),
  'Nullable(DateTime)': (column) => digits(`CAST(epoch(${column}) AS BIGINT)`),
  'Nullable(DateTime64(9))': (column) => digits(`epoch_ns(${column})`),
}

async function select(
  folder: string,
  table: TableName,
  { expression, of }: { expression: string; of: StoreSnapshot | undefined },
): Promise<readonly (readonly unknown[])[]> {
  const snapshot = of ?? (await readSnapshot(folder))
  const instance = await DuckDBInstance.create()
  try {
    const connection = await instance.connect()
    const parts: string[] = []
    for (const [number, file] of snapshot.files.entries()) {
      await connection.run(`ATTACH '${join(folder, file.name)}' AS f${number} (READ_ONLY)`)
      if (file.tables.includes(table)) parts.push(`FROM f${number}."${table}"`)
    }
    if (parts.length === 0) return []
    const found = await connection.runAndReadAll(
      `SELECT ${expression} FROM (${parts.join(' UNION ALL ')})`,
    )
    return found.getRows()
  } finally {
    instance.closeSync()
  }
}
