// The file that new rows are written to: rows and marks in one transaction, deduplicated by key,
// durable through DuckDB's write-ahead log.
// Thread: main of the writer process. One write at a time.
//
//   rows that are surely new -> appender ---------------------------+-> hot-N.duckdb (+ .wal)
//   possible duplicates -> staged -> only rows whose key is new ----+   one commit with the marks
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { assert } from '../../base/errors.ts'
import { duckdbString } from '../clickhouse/sql/quoting.ts'
import type { Marks, RowBatch } from '../engine.ts'
import { type FeedName, type TableName, tableNames, tables } from '../tables.ts'
import { appendRows, firstFresh, keysOf, orderOf, orderSpan } from './chunks.ts'
import { createTableSql, orderSql, type PresentColumns, presentColumns } from './columns.ts'
import { type Span, Spans } from './spans.ts'
import { attach, hotName } from './store-files.ts'

/** What is stored, for deduplication. */
export interface SealedRows {
  /** Of all files. */
  readonly recent: RecentKeys
  /** The highest order value of a table's sealed rows; minus infinity without rows. */
  top(table: TableName): number
  /** Attached catalogs of sealed files that have rows of the table from `low` to `high`. */
  holding(table: TableName, low: number, high: number): readonly string[]
}

/** Small blocks: under queries a file is sealed with few rows. */
const blockBytes = 16_384
/** Size of the headers that DuckDB writes first. A shorter file has none of our commits. */
const headersBytes = 3 * 4096

export class HotFile {
  readonly number: number
  readonly catalog: string
  readonly bornAtMs = Date.now()
  readonly spans = new Spans()
  /** Of its tables, where a file of an earlier version lacks some; all in one that was created. */
  columns: PresentColumns = new Map()
  readonly #connection: DuckDBConnection
  readonly #path: string
  #marks: Marks = {}

  private constructor(connection: DuckDBConnection, folder: string, number: number) {
    this.#connection = connection
    this.number = number
    this.catalog = `hot${number}`
    this.#path = join(folder, hotName(number))
  }

  /** Creates a hot file that starts with the marks of its predecessor, so it has all of them. */
  static async create(
    connection: DuckDBConnection,
    file: { readonly folder: string; readonly number: number },
    marks: Marks,
  ): Promise<HotFile> {
    const hot = new HotFile(connection, file.folder, file.number)
    const path = duckdbString(hot.#path)
    await connection.run(`ATTACH ${path} AS ${hot.catalog} (BLOCK_SIZE ${blockBytes})`)
    await hot.#commit(async () => {
      await connection.run(`CREATE TABLE ${hot.catalog}.marks (feed VARCHAR, mark UBIGINT)`)
      await hot.#insertMarks(marks)
    })
    hot.#marks = marks
    return hot
  }

  /** Opens an existing hot file; null when a crash or a full disk came before its first commit. */
  static async open(
    connection: DuckDBConnection,
    file: { readonly folder: string; readonly number: number },
  ): Promise<HotFile | null> {
    const hot = new HotFile(connection, file.folder, file.number)
    const isCreated = (await stat(hot.#path)).size >= headersBytes
    if (!isCreated && (await hot.logBytes()) === 0) return null
    await attach(connection, { folder: file.folder, name: hotName(file.number) }, hot.catalog)
    const present = await presentColumns(connection, hot.catalog)
    if (!present.has('marks')) {
      await connection.run(`DETACH ${hot.catalog}`)
      return null
    }
    // Of a file that version 0.2.0 began to seal.
    await connection.run(`DROP TABLE IF EXISTS ${hot.catalog}.spans`)
    const names = tableNames.filter((name) => present.has(name))
    await hot.spans.measure(connection, hot.catalog, names)
    // A file with rows is sealed before the next write; tables without rows are created again.
    for (const table of names.filter((name) => hot.spans.rows(name) === 0))
      await connection.run(`DROP TABLE ${hot.catalog}."${table}"`)
    hot.columns = new Map([...present].filter(([name]) => hot.spans.tables.some((t) => t === name)))
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

  /** Writes rows and marks atomically; durable when it resolves. */
  async write(batches: readonly RowBatch[], marks: Marks, sealed: SealedRows): Promise<void> {
    const taken = new Spans()
    const some = batches.filter(({ count }) => count > 0)
    const first = some.filter(({ table }) => this.spans.rows(table) === 0)
    await this.#commit(async () => {
      if (first.length > 0)
        await this.#connection.run(
          first.map(({ table }) => createTableSql(this.catalog, table)).join(';'),
        )
      for (const batch of some) await this.#add(batch, taken, sealed)
      await this.#insertMarks(marks)
    })
    this.spans.addAll(taken)
    this.#marks = higher(this.#marks, marks)
  }

  /** Replaces the marks, also by lower ones. */
  async setMarks(marks: Marks): Promise<void> {
    await this.#commit(async () => {
      await this.#connection.run(`DELETE FROM ${this.catalog}.marks`)
      await this.#insertMarks(marks)
    })
    this.#marks = marks
  }

  async #add(batch: RowBatch, taken: Spans, sealed: SealedRows): Promise<void> {
    const { table, count } = batch
    const top = Math.max(sealed.top(table), this.spans.high(table), taken.high(table))
    const first = sealed.recent.add(batch, top) ? 0 : firstFresh(batch, top)
    if (first > 0) {
      const span = orderSpan(batch, { first: 0, end: first })
      const rows = await this.#addUnknown(batch, first, sealed.holding(table, span.low, span.high))
      if (rows > 0) taken.add(table, { rows, ...span })
    }
    if (first === count) return
    const range = { first, end: count }
    const appender = await this.#connection.createAppender(table, 'main', this.catalog)
    appendRows(appender, batch, range)
    appender.closeSync()
    taken.add(table, { rows: count - first, ...orderSpan(batch, range) })
  }

  /** Adds one row of each key that no file contains yet, of the rows before `end`. */
  async #addUnknown(batch: RowBatch, end: number, sealed: readonly string[]): Promise<number> {
    const { table } = batch
    const stage = `staged_${table}`
    await this.#connection.run(
      `CREATE TEMP TABLE "${stage}" AS FROM ${this.catalog}."${table}" LIMIT 0`,
    )
    const appender = await this.#connection.createAppender(stage, 'main', 'temp')
    appendRows(appender, batch, { first: 0, end })
    appender.closeSync()
    const span = orderSpan(batch, { first: 0, end })
    const sql = newRowsSql(table, this.catalog, [this.catalog, ...sealed], span)
    const { rowsChanged } = await this.#connection.run(sql)
    await this.#connection.run(`DROP TABLE temp."${stage}"`)
    return rowsChanged
  }

  async #insertMarks(marks: Marks): Promise<void> {
    const rows = Object.entries(marks).map(([feed, mark]) => {
      assert(Number.isSafeInteger(mark) && mark >= 0, `the mark of ${feed} is a whole number`)
      return `('${feed}', ${mark})`
    })
    if (rows.length === 0) return
    await this.#connection.run(`INSERT INTO ${this.catalog}.marks VALUES ${rows.join(', ')}`)
  }

  async #commit(work: () => Promise<void>): Promise<void> {
    await this.#connection.run('BEGIN')
    try {
      await work()
      await this.#connection.run('COMMIT')
    } catch (error) {
      await this.#connection.run('ROLLBACK').catch(() => {})
      throw error
    }
  }
}

function newRowsSql(
  table: TableName,
  hot: string,
  catalogs: readonly string[],
  { low, high }: Pick<Span, 'low' | 'high'>,
): string {
  const { key } = tables[table]
  const isNew = catalogs.map(
    (catalog) =>
      `NOT EXISTS (FROM ${catalog}."${table}" AS t
        WHERE ${key.map((name) => `t."${name}" = s."${name}"`).join(' AND ')}
          AND ${orderSql(table, 't.')} BETWEEN ${low} AND ${high})`,
  )
  return `INSERT INTO ${hot}."${table}"
    SELECT DISTINCT ON (${key.map((name) => `s."${name}"`).join(', ')}) s.*
    FROM temp."staged_${table}" AS s WHERE ${isNew.join(' AND ')}`
}

function higher(before: Marks, now: Marks): Marks {
  const result: Partial<Record<FeedName, number>> = { ...before }
  for (const [feed, mark] of Object.entries(now) as [FeedName, number][])
    result[feed] = Math.max(mark, result[feed] ?? 0)
  return result
}

// Remembers the keys of the newest rows of tables whose rows arrive out of order: a query or a tip
// is reported when it ends, and ordered by when it began. A row that is surely new is appended
// without a search of the files.

/** Keys per table: at 200 queries a second those of 20 s. */
const keysMax = 4096
const feeds: ReadonlySet<FeedName> = new Set(['tips', 'usage'])

interface Recent {
  /** All stored rows with a higher order value are in `keys`. */
  floor: number
  /** With their order values, oldest first. */
  readonly keys: Map<string, number>
}

/** Valid from the opening of the files until they are closed. */
export class RecentKeys {
  readonly #tables = new Map<TableName, Recent>()

  /**
   * True when no row of the batch is stored and no two have the same key; false when it is not
   * known. Adds the rows in any case. `top` is the highest order value of the stored rows.
   */
  add(batch: RowBatch, top: number): boolean {
    const { table } = batch
    if (!feeds.has(tables[table].feed)) return false
    const recent = this.#tables.get(table) ?? { floor: top, keys: new Map<string, number>() }
    this.#tables.set(table, recent)
    const order = orderOf(batch)
    let isNew = true
    for (const [row, key] of keysOf(batch).entries()) {
      const value = Number(order[row])
      isNew &&= value > recent.floor && !recent.keys.has(key)
      recent.keys.set(key, value)
    }
    for (const [key, value] of recent.keys) {
      if (recent.keys.size <= keysMax) break
      recent.keys.delete(key)
      recent.floor = Math.max(recent.floor, value)
    }
    return isNew
  }
}
