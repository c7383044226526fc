// The file that new rows are written to: rows and marks in one transaction, deduplicated by key,
// durable through DuckDB's write-ahead log.
// Thread: main of the writer process. One write at a time.
//
//   rows that are surely new -> appender ---------------------------+-> hot-N.duckdb (+ .wal)
//   possible duplicates -> staged -> only rows whose key is new ----+   one commit with the marks
import { stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { assert } from '../../base/errors.ts'
import { duckdbTypeOf } from '../clickhouse/duckdb/typing.ts'
import { duckdbString } from '../clickhouse/sql/lexer.ts'
import type { Marks, RowBatch } from '../engine.ts'
import type { FeedName, Table, TableName, TimeSource } from '../tables.ts'
import { slotTables, tableNames, tables, timeSourceOf } from '../tables.ts'
import type { PresentColumns, Span } from './chunks.ts'
import {
  appendRows,
  columnsOf,
  createTableSql,
  firstFresh,
  keysOf,
  orderOf,
  orderSpan,
  orderSql,
  presentColumns,
  Spans,
  selectList,
} from './chunks.ts'
import type { Sealed, SealedSpan, SnapshotFile } from './store-files.ts'
import {
  attach,
  describe,
  hotName,
  removeFiles,
  sealedName,
  shareAs,
  syncFolder,
} from './store-files.ts'

/** What is stored, for deduplication. */
interface SealedRows {
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
  marks: Marks = {}

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
    hot.marks = marks
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
    hot.marks = Object.fromEntries(marks.getRows().map(([feed, mark]) => [feed, Number(mark)]))
    return hot
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
    this.marks = higher(this.marks, marks)
  }

  /** Replaces the marks, also by lower ones. */
  async setMarks(marks: Marks): Promise<void> {
    await this.#commit(async () => {
      await this.#connection.run(`DELETE FROM ${this.catalog}.marks`)
      await this.#insertMarks(marks)
    })
    this.marks = marks
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

// The sealed, immutable files of the index: adds, merges, cuts and drops them.
// Thread: main of the writer process.
//
//   hot-9  -> seg-9-9-0 --+
//   hot-10 -> seg-10-10-0 +-> seg-9-16-0   eight or more neighbours of like size become one;
//   ...                   |                retention by age and bytes drops whole files
//
// The list changes only in `seal`, `replace` and `cut`, which the sink runs one at a time. `copy`
// makes a file that is not in the list, and runs beside everything else.

/** Fewer neighbouring files are not merged. */
const mergeWidth = 8
/** Longest time a merged file covers: retention drops whole files, so it must stay bounded. */
const mergedMsMax = 24 * 3_600_000

interface ArchiveOptions {
  readonly folder: string
  readonly retentionMs: number
  readonly retentionBytes: number
  /** Upper bound for the size of a merged file. */
  readonly mergedBytesMax: number
}

interface Member extends Sealed {
  readonly spans: Spans
  /** A table that is not listed has all columns. */
  readonly columns: PresentColumns
}

interface Rewrite {
  /** The condition of the rows of a table that are kept, as SQL; '' for all. */
  readonly only: (table: TableName) => string
}

export class SealedFiles {
  readonly recent = new RecentKeys()
  readonly #connection: DuckDBConnection
  readonly #options: ArchiveOptions
  #members: readonly Member[] = []

  constructor(connection: DuckDBConnection, options: ArchiveOptions) {
    this.#connection = connection
    this.#options = options
  }

  get files(): readonly SnapshotFile[] {
    return this.#members.map(({ name, spans }) => {
      return { name, tables: spans.tables, rows: spans.tables.map((table) => spans.rows(table)) }
    })
  }

  /** The highest order value of a table's rows. */
  top(table: TableName): number {
    return Math.max(...this.#members.map(({ spans }) => spans.high(table)))
  }

  /** Catalogs that have rows of the table from `low` to `high`. */
  holding(table: TableName, low: number, high: number): readonly string[] {
    return this.#members.filter(({ spans }) => spans.meets(table, low, high)).map(catalogOf)
  }

  async open(sealed: readonly Sealed[]): Promise<void> {
    for (const file of sealed) await this.#admit(file)
  }

  /** Turns a hot file that receives no more writes into a sealed file. */
  async seal(hot: HotFile): Promise<void> {
    const { folder } = this.#options
    if (hot.spans.totalRows === 0) {
      await this.#connection.run(`DETACH ${hot.catalog}`)
      return removeFiles(folder, [hotName(hot.number), `${hotName(hot.number)}.wal`])
    }
    await this.#connection.run(`CHECKPOINT ${hot.catalog}`)
    await this.#connection.run(`DETACH ${hot.catalog}`)
    const span = { from: hot.number, to: hot.number, revision: 0 }
    // Not synced: after a crash of the machine it may be a hot file again, and is sealed again.
    await shareAs(folder, hotName(hot.number), sealedName(span))
    await this.#admit(await describe(folder, span), hot)
  }

  /** Files beyond the retention limits, oldest first. */
  expired(nowMs: number): readonly Member[] {
    const { retentionMs, retentionBytes } = this.#options
    let bytes = this.#members.reduce((sum, member) => sum + member.bytes, 0)
    return this.#members.filter((member) => {
      const isDropped = nowMs - member.sealedAtMs > retentionMs || bytes > retentionBytes
      if (isDropped) bytes -= member.bytes
      return isDropped
    })
  }

  /**
   * Neighbours to merge, newest first tried: each file has at most as many rows as the newer ones
   * of the run together, so a row is copied a number of times that grows with the logarithm.
   */
  nextRun(): readonly Member[] | null {
    for (let end = this.#members.length; end >= mergeWidth; end--) {
      let [first, rows, bytes] = [end, 0, 0]
      for (let at = end - 1; at >= 0; at--) {
        const member = this.#members[at]!
        const spanMs = this.#members[end - 1]!.sealedAtMs - member.sealedAtMs
        bytes += member.bytes
        const isTooLarge = bytes > this.#options.mergedBytesMax || spanMs > mergedMsMax
        if (isTooLarge || (rows > 0 && member.spans.totalRows > rows)) break
        rows += member.spans.totalRows
        first = at
      }
      if (end - first >= mergeWidth) return this.#members.slice(first, end)
    }
    return null
  }

  /** The newest file of an earlier version whose rows lack their time, as a run of its own. */
  nextUntimed(): readonly Member[] | null {
    const found = this.#members.findLast((member) =>
      tableNames.some((table) => untimed(member, table) !== undefined),
    )
    return found === undefined ? null : [found]
  }

  /**
   * Copies the files' rows into one new file, which `replace` puts in their place. Rows of an
   * earlier version get their time from their block.
   */
  async copy(
    connection: DuckDBConnection,
    run: readonly Member[],
    { only }: Rewrite = { only: () => '' },
  ): Promise<SealedSpan> {
    const { folder } = this.#options
    const revision = run.length === 1 ? run[0]!.revision + 1 : 0
    const span = { from: run[0]!.from, to: run.at(-1)!.to, revision }
    const made = `new-${sealedName(span)}`
    const catalog = `new_${catalogOf(span)}`
    await removeFiles(folder, [made, `${made}.wal`])
    await connection.run(`ATTACH ${duckdbString(join(folder, made))} AS ${catalog}`)
    try {
      const present = tableNames.filter((table) => run.some(({ spans }) => spans.rows(table) > 0))
      for (const table of present) {
        const source = await this.#sourceSql(connection, table, run, only(table))
        await connection.run(`CREATE TABLE ${catalog}."${table}" AS ${source}`)
      }
      const spans = new Spans()
      await spans.measure(connection, catalog, present)
      await spans.store(connection, catalog)
      await connection.run(`CHECKPOINT ${catalog}`)
    } finally {
      await connection.run(`DETACH ${catalog}`)
    }
    const sealedAtSeconds = run.at(-1)!.sealedAtMs / 1000
    await utimes(join(folder, made), sealedAtSeconds, sealedAtSeconds)
    return span
  }

  /**
   * Puts a copied file in the place of `removed`, or only drops them. Returns the files that are
   * to be deleted; nothing happens when one of `removed` is no longer in the list.
   */
  async replace(removed: readonly Member[], copied: SealedSpan | null): Promise<readonly string[]> {
    const { folder } = this.#options
    const made = copied === null ? [] : [`new-${sealedName(copied)}`]
    if (!removed.every((member) => this.#members.includes(member))) return made
    if (copied !== null) {
      await shareAs(folder, made[0]!, sealedName(copied))
      // Its sources will be deleted.
      await syncFolder(folder)
      await this.#admit(await describe(folder, copied))
    }
    this.#members = this.#members.filter((member) => !removed.includes(member))
    for (const member of removed) await this.#connection.run(`DETACH ${catalogOf(member)}`)
    return removed.map((member) => member.name)
  }

  /** Deletes the rows of these slots: every file that has some is rewritten without them. */
  async cut(from: number, to: number): Promise<readonly string[]> {
    const only = (table: TableName) =>
      slotTables.includes(table) ? ` WHERE slot NOT BETWEEN ${from} AND ${to}` : ''
    const removed: string[] = []
    for (const member of this.#members.filter(({ spans }) =>
      slotTables.some((table) => spans.meets(table, from, to)),
    )) {
      const copied = await this.copy(this.#connection, [member], { only })
      removed.push(...(await this.replace([member], copied)))
    }
    return removed
  }

  /** The rows of a table of all these files. */
  async #sourceSql(
    connection: DuckDBConnection,
    table: TableName,
    run: readonly Member[],
    only: string,
  ): Promise<string> {
    const parts: string[] = []
    for (const member of run.filter(({ spans }) => spans.rows(table) > 0)) {
      const rows = rowsSql(member, table, only)
      const source = untimed(member, table)
      if (source === undefined) parts.push(rows)
      else {
        const times = await this.#timesSql(connection, member, table, source)
        // The time is the last column.
        parts.push(`SELECT t.*, b.time AS "${source.column}" FROM (${rows}) AS t
          LEFT JOIN (${times}) AS b ON b.number = t."${source.block}"`)
      }
    }
    return parts.join(' UNION ALL ')
  }

  /** Times of the blocks that the rows name. Numbers may come again: the nearest file counts. */
  async #timesSql(
    connection: DuckDBConnection,
    member: Member,
    table: TableName,
    { column, block, from, number, time }: TimeSource,
  ): Promise<string> {
    const found = await connection.runAndReadAll(
      `SELECT min("${block}"), max("${block}") FROM ${catalogOf(member)}."${table}"`,
    )
    const [low, high] = found.getRows()[0]!.map(Number) as [number, number]
    const at = this.#members.indexOf(member)
    const parts = this.#members.flatMap((other, index) => {
      if (!other.spans.meets(from, low, high)) return []
      return `SELECT "${number}" AS number, "${time}" AS time, ${Math.abs(index - at)} AS far
        FROM ${catalogOf(other)}."${from}" WHERE "${number}" BETWEEN ${low} AND ${high}`
    })
    const { columns }: Table = tables[table]
    const type = duckdbTypeOf(columns[column]!)
    if (parts.length === 0) return `SELECT 0::UBIGINT AS number, NULL::${type} AS time WHERE false`
    // A block whose time is not known has the time 0.
    return `SELECT number, arg_min(time, far) AS time FROM (${parts.join(' UNION ALL ')})
      WHERE time > '1970-01-01'::TIMESTAMP GROUP BY number`
  }

  /** Attaches a sealed file and adds it to the list. */
  async #admit(file: Sealed, known?: Pick<Member, 'spans' | 'columns'>): Promise<void> {
    const { folder } = this.#options
    const catalog = catalogOf(file)
    await attach(this.#connection, { folder, name: file.name }, catalog, '(READ_ONLY)')
    const columns = known?.columns ?? (await presentColumns(this.#connection, catalog))
    const spans = known?.spans ?? (await this.#spansOf(catalog, columns))
    const added = { ...file, spans, columns }
    this.#members = [...this.#members, added].sort((a, b) => a.from - b.from)
  }

  async #spansOf(catalog: string, columns: PresentColumns): Promise<Spans> {
    const spans = new Spans()
    if (columns.has('spans')) await spans.load(this.#connection, catalog)
    else {
      const present = tableNames.filter((table) => columns.has(table))
      await spans.measure(this.#connection, catalog, present)
    }
    return spans
  }
}

function catalogOf({ from, to, revision }: SealedSpan): string {
  return `seg_${from}_${to}_${revision}`
}

/** Where the file's rows of the table get the time from that they lack. */
function untimed({ columns, spans }: Member, table: TableName): TimeSource | undefined {
  const source = timeSourceOf(table)
  const isMissing = source && columns.get(table)?.has(source.column) === false
  return isMissing && spans.rows(table) > 0 ? source : undefined
}

function rowsSql(member: Member, table: TableName, only: string): string {
  const source = untimed(member, table)
  const columns = columnsOf(table).filter(([name]) => name !== source?.column)
  const cells = selectList(columns, member.columns.get(table))
  return `SELECT ${cells} FROM ${catalogOf(member)}."${table}"${only}`
}
