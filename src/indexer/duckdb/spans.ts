// Row count and range of order values per table of one file.
// Thread: main of the writer process. Limits deduplication to files that can contain a key, and
// lists the tables of a file in a snapshot. `orderSql` defines a row's order value.
import type { DuckDBConnection } from '@duckdb/node-api'
import { type TableName, tableNames } from '../tables.ts'
import { orderSql } from './columns.ts'

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
