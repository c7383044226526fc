// Converts row batches into DuckDB data chunks, and finds the rows that may be duplicates.
// Thread: main of the writer process.
import type { DuckDBAppender, DuckDBType, DuckDBValue } from '@duckdb/node-api'
import { DuckDBDataChunk } from '@duckdb/node-api/lib/DuckDBDataChunk.js'
import { assert } from '../../base/errors.ts'
import type { Cell, RowBatch } from '../engine.ts'
import { type TableName, tableNames, tables } from '../tables.ts'
import { columnsOf, orderColumnOf, storageOf } from './columns.ts'

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

export interface RowRange {
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
  const storages = columns.map(([, type]) => storageOf(type))
  const order = orderColumnOf(table)
  const names = [order, ...tables[table].key.filter((name) => name !== order)]
  return {
    types: storages.map((storage) => storage.type),
    values: storages.map((storage) => storage.value),
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
