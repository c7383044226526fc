// The file that new rows are written to: rows and marks in one transaction, deduplicated by key,
// durable through DuckDB's write-ahead log.
// Thread: main of the writer process. One write at a time.
//
//   rows that are surely new -> appender ---------------------------+-> hot-N.duckdb (+ .wal)
//   possible duplicates -> staged -> only rows whose key is new ----+   one commit with the marks
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { assert } from '../../../base/assert.ts'
import type { Marks, RowBatch } from '../engine.ts'
import { duckdbString } from '../sql/quoting.ts'
import { type FeedName, type TableName, tableNames, tables } from '../tables.ts'
import { appendRows, firstFresh, orderSpan } from './chunks.ts'
import { addColumnsSql, createTableSql, orderSql, presentColumns } from './columns.ts'
import { Spans } from './spans.ts'
import { hotName } from './store-files.ts'

/** Access to rows outside the hot file, for deduplication. */
export interface SealedRows {
  /** The highest order value of a table's rows ever sealed; minus infinity without rows. */
  top(table: TableName): number
  /** Attached catalogs of sealed files that have rows of the table from `low` to `high`. */
  holding(table: TableName, low: number, high: number): Promise<readonly string[]>
}

interface Staged {
  readonly table: TableName
  readonly sql: string
  readonly low: number
  readonly high: number
}

export class HotFile {
  readonly number: number
  readonly catalog: string
  readonly bornAtMs: number
  readonly spans: Spans
  readonly #path: string
  #marks: Marks

  private constructor(file: { folder: string; number: number }, spans: Spans, marks: Marks) {
    this.number = file.number
    this.catalog = `hot${file.number}`
    this.bornAtMs = Date.now()
    this.spans = spans
    this.#path = join(file.folder, hotName(file.number))
    this.#marks = marks
  }

  /** Creates a hot file that starts with the marks of its predecessor, so it has all of them. */
  static async create(
    connection: DuckDBConnection,
    file: { folder: string; number: number },
    marks: Marks,
  ): Promise<HotFile> {
    const hot = new HotFile(file, new Spans(), marks)
    await connection.run(`ATTACH ${duckdbString(hot.#path)} AS ${hot.catalog}`)
    await connection.run('BEGIN')
    for (const table of tableNames) await connection.run(createTableSql(hot.catalog, table))
    await connection.run(`CREATE TABLE ${hot.catalog}.marks (feed VARCHAR, mark UBIGINT)`)
    const marksSql = hot.#marksSql(marks)
    if (marksSql !== '') await connection.run(marksSql)
    await connection.run('COMMIT')
    return hot
  }

  /** Opens an existing hot file; null when a crash came before its first commit. */
  static async open(
    connection: DuckDBConnection,
    file: { folder: string; number: number },
  ): Promise<HotFile | null> {
    const spans = new Spans()
    const hot = new HotFile(file, spans, {})
    await connection.run(`ATTACH ${duckdbString(hot.#path)} AS ${hot.catalog}`)
    const found = await connection.runAndReadAll(
      `SELECT 1 FROM duckdb_tables()
        WHERE database_name = '${hot.catalog}' AND table_name = 'marks'`,
    )
    if (found.currentRowCount === 0) {
      await connection.run(`DETACH ${hot.catalog}`)
      return null
    }
    const present = await presentColumns(connection, hot.catalog)
    for (const table of tableNames)
      for (const sql of addColumnsSql(hot.catalog, table, present.get(table)))
        await connection.run(sql)
    await spans.measure(connection, hot.catalog)
    const marks = await connection.runAndReadAll(
      `SELECT feed, max(mark) FROM ${hot.catalog}.marks GROUP BY feed`,
    )
    hot.#marks = Object.fromEntries(marks.getRows().map(([feed, mark]) => [feed, Number(mark)]))
    return hot
  }

  get marks(): Marks {
    return this.#marks
  }

  /** Size of the write-ahead log: what a restart replays, and roughly the memory it uses. */
  async logBytes(): Promise<number> {
    try {
      return (await stat(`${this.#path}.wal`)).size
    } catch {
      return 0
    }
  }

  /** Writes rows (a batch per table) and marks atomically; durable when it resolves. */
  async write(
    connection: DuckDBConnection,
    batches: readonly RowBatch[],
    marks: Marks,
    sealedRows: SealedRows,
  ): Promise<void> {
    const staged: Staged[] = []
    const fresh: { batch: RowBatch; first: number }[] = []
    for (const batch of batches) {
      if (batch.count === 0) continue
      const top = Math.max(sealedRows.top(batch.table), this.spans.high(batch.table))
      const first = firstFresh(batch, top)
      if (first > 0) staged.push(await this.#stage(connection, batch, first, sealedRows))
      if (first < batch.count) fresh.push({ batch, first })
    }
    const taken = new Spans()
    await connection.run('BEGIN')
    try {
      for (const { table, sql, low, high } of staged) {
        const { rowsChanged } = await connection.run(sql)
        if (rowsChanged > 0) taken.add(table, { rows: rowsChanged, low, high })
      }
      for (const { batch, first } of fresh) {
        const range = { first, end: batch.count }
        const appender = await connection.createAppender(batch.table, 'main', this.catalog)
        appendRows(appender, batch, range)
        appender.closeSync()
        taken.add(batch.table, { rows: batch.count - first, ...orderSpan(batch, range) })
      }
      const sql = this.#marksSql(marks)
      if (sql !== '') await connection.run(sql)
      await connection.run('COMMIT')
    } catch (error) {
      await connection.run('ROLLBACK').catch(() => {})
      throw error
    }
    this.spans.addAll(taken)
    this.#marks = higher(this.#marks, marks)
  }

  /** Copies possible duplicates into a staging table, outside the transaction. */
  async #stage(
    connection: DuckDBConnection,
    batch: RowBatch,
    end: number,
    sealedRows: SealedRows,
  ): Promise<Staged> {
    const { table } = batch
    const stage = `memory.main."staged_${table}"`
    const span = orderSpan(batch, { first: 0, end })
    await connection.run(`DROP TABLE IF EXISTS ${stage}`)
    await connection.run(
      createTableSql('memory.main', table).replace(`"${table}"`, `"staged_${table}"`),
    )
    const appender = await connection.createAppender(`staged_${table}`, 'main', 'memory')
    appendRows(appender, batch, { first: 0, end })
    appender.closeSync()
    const sealed = await sealedRows.holding(table, span.low, span.high)
    return { table, sql: this.#newRowsSql(table, sealed, span), ...span }
  }

  /** Inserts one staged row of each key that no file contains yet. */
  #newRowsSql(
    table: TableName,
    sealed: readonly string[],
    span: { low: number; high: number },
  ): string {
    const { key } = tables[table]
    const isNew = [this.catalog, ...sealed].map(
      (catalog) =>
        `NOT EXISTS (FROM ${catalog}."${table}" AS t
          WHERE ${key.map((name) => `t."${name}" = s."${name}"`).join(' AND ')}
            AND ${orderSql(table, 't.')} BETWEEN ${span.low} AND ${span.high})`,
    )
    return `INSERT INTO ${this.catalog}."${table}"
      SELECT DISTINCT ON (${key.map((name) => `s."${name}"`).join(', ')}) s.*
      FROM memory.main."staged_${table}" AS s WHERE ${isNew.join(' AND ')}`
  }

  #marksSql(marks: Marks): string {
    const rows = Object.entries(marks).map(([feed, mark]) => {
      assert(Number.isSafeInteger(mark) && mark >= 0, `the mark of ${feed} is a whole number`)
      return `('${feed}', ${mark})`
    })
    return rows.length === 0 ? '' : `INSERT INTO ${this.catalog}.marks VALUES ${rows.join(', ')}`
  }
}

function higher(before: Marks, now: Marks): Marks {
  const result: Partial<Record<FeedName, number>> = { ...before }
  for (const [feed, mark] of Object.entries(now) as [FeedName, number][])
    result[feed] = Math.max(mark, result[feed] ?? 0)
  return result
}
