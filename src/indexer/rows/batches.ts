// Collects rows per table in columns, the form a sink accepts.
import { assert } from '../../base/assert.ts'
import type { Cell, RowBatch } from '../engine.ts'
import { type TableName, tables } from '../tables.ts'

interface Columns {
  readonly table: TableName
  count: number
  readonly columns: Cell[][]
}

export class RowBatches {
  readonly #byTable = new Map<TableName, Columns>()
  #count = 0

  /** Rows of all tables. */
  get count(): number {
    return this.#count
  }

  /** Adds a row; its cells are in the order of the table's columns. */
  add(table: TableName, cells: readonly Cell[]): void {
    const rows = this.#byTable.get(table) ?? this.#begin(table)
    const { columns } = rows
    assert(cells.length === columns.length, `a row of ${table} has all its columns`)
    for (let at = 0; at < cells.length; at++) columns[at]!.push(cells[at]!)
    rows.count++
    this.#count++
  }

  /** Returns everything collected so far and empties the collection. */
  take(): RowBatch[] {
    const taken = [...this.#byTable.values()]
    this.#byTable.clear()
    this.#count = 0
    return taken
  }

  #begin(table: TableName): Columns {
    const columns = Object.keys(tables[table].columns).map((): Cell[] => [])
    const rows: Columns = { table, count: 0, columns }
    this.#byTable.set(table, rows)
    return rows
  }
}
