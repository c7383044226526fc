// The file that rows are written to: rows and marks in one transaction, durable by its log.
// Thread: main of the writer process. Called by the sink, one write at a time.
//
//   rows that cannot be there yet -> appender --------------------+-> hot-N.duckdb (+ .wal)
//   rows that may be there -> staged -> those whose key is new ---+   one commit with the marks
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { assert } from '../../../base/assert.ts'
import type { Marks, RowBatch } from '../engine.ts'
import { type FeedName, type TableName, tableNames, tables } from '../tables.ts'
import { appendRows, firstFresh, orderSpan } from './chunks.ts'
import { createTableSql, orderSql } from './columns.ts'
import { Spans } from './spans.ts'
import { hotName } from './store-files.ts'

/** A row can be there in these besides the hot file. */
export interface Elsewhere {
  /** The highest order of a table's rows anywhere; minus infinity without rows. */
  top(table: TableName): number
  /** Catalogs of sealed files with rows of the table between the two, attached for the caller. */
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

  private constructor(place: { folder: string; number: number }, spans: Spans, marks: Marks) {
    this.number = place.number
    this.catalog = `hot${place.number}`
    this.bornAtMs = Date.now()
    this.spans = spans
    this.#path = join(place.folder, hotName(place.number))
    this.#marks = marks
  }

  /** Makes the next one. What came before tells the marks, so that the newest file has them all. */
  static async create(
    connection: DuckDBConnection,
    place: { folder: string; number: number },
    marks: Marks,
  ): Promise<HotFile> {
    const hot = new HotFile(place, new Spans(), marks)
    await connection.run(`ATTACH ${quoted(hot.#path)} AS ${hot.catalog}`)
    await connection.run('BEGIN')
    for (const table of tableNames) await connection.run(createTableSql(hot.catalog, table))
    await connection.run(`CREATE TABLE ${hot.catalog}.marks (feed VARCHAR, mark UBIGINT)`)
    const marksSql = hot.#marksSql(marks)
    if (marksSql !== '') await connection.run(marksSql)
    await connection.run('COMMIT')
    return hot
  }

  /** Opens one that is there; null when a crash came before its first commit. */
  static async open(
    connection: DuckDBConnection,
    place: { folder: string; number: number },
  ): Promise<HotFile | null> {
    const spans = new Spans()
    const hot = new HotFile(place, spans, {})
    await connection.run(`ATTACH ${quoted(hot.#path)} AS ${hot.catalog}`)
    const found = await connection.runAndReadAll(
      `SELECT 1 FROM duckdb_tables()
        WHERE database_name = '${hot.catalog}' AND table_name = 'marks'`,
    )
    if (found.currentRowCount === 0) {
      await connection.run(`DETACH ${hot.catalog}`)
      return null
    }
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

  /** Of its log: what a restart would have to go through, and about what it holds in memory. */
  async logBytes(): Promise<number> {
    try {
      return (await stat(`${this.#path}.wal`)).size
    } catch {
      return 0
    }
  }

  /** Takes rows (a batch per table) and marks in, all or nothing; durable when it resolves. */
  async write(
    connection: DuckDBConnection,
    batches: readonly RowBatch[],
    marks: Marks,
    elsewhere: Elsewhere,
  ): Promise<void> {
    const staged: Staged[] = []
    const fresh: { batch: RowBatch; first: number }[] = []
    for (const batch of batches) {
      if (batch.count === 0) continue
      const top = Math.max(elsewhere.top(batch.table), this.spans.high(batch.table))
      const first = firstFresh(batch, top)
      if (first > 0) staged.push(await this.#stage(connection, batch, first, elsewhere))
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

  /** Rows that may be there already go into a table of their own first, outside the transaction. */
  async #stage(
    connection: DuckDBConnection,
    batch: RowBatch,
    end: number,
    elsewhere: Elsewhere,
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
    const sealed = await elsewhere.holding(table, span.low, span.high)
    return { table, sql: this.#newRowsSql(table, sealed, span), ...span }
  }

  /** Of the staged rows, one of each key that no file has. */
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

/** For a path or a text inside a statement. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

function higher(before: Marks, now: Marks): Marks {
  const result: Partial<Record<FeedName, number>> = { ...before }
  for (const [feed, mark] of Object.entries(now) as [FeedName, number][])
    result[feed] = Math.max(mark, result[feed] ?? 0)
  return result
}
