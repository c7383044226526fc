// The sealed, immutable files of the index: adds, merges, cuts and drops them.
// Thread: main of the writer process.
//
//   hot-9  -> seg-9-9-0 --+
//   hot-10 -> seg-10-10-0 +-> seg-9-16-0   eight or more neighbours of like size become one;
//   ...                   |                retention by age and bytes drops whole files
//
// The list changes only in `seal`, `replace` and `cut`, which the sink runs one at a time. `copy`
// makes a file that is not in the list, and runs beside everything else.
import { utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { duckdbTypeOf } from '../clickhouse/duckdb/typing.ts'
import { duckdbString } from '../clickhouse/sql/quoting.ts'
import {
  type Table,
  type TableName,
  type TimeSource,
  tableNames,
  tables,
  timeSourceOf,
} from '../tables.ts'
import { columnsOf, type PresentColumns, presentColumns, selectList } from './columns.ts'
import { type HotFile, RecentKeys } from './hot-file.ts'
import { Spans } from './spans.ts'
import {
  attach,
  describe,
  hotName,
  removeFiles,
  type Sealed,
  type SealedSpan,
  type SnapshotFile,
  sealedName,
  shareAs,
  syncFolder,
} from './store-files.ts'

/** Fewer neighbouring files are not merged. */
const mergeWidth = 8
/** Longest time a merged file covers: retention drops whole files, so it must stay bounded. */
const mergedMsMax = 24 * 3_600_000

export interface ArchiveOptions {
  readonly folder: string
  readonly retentionMs: number
  readonly retentionBytes: number
  /** Upper bound for the size of a merged file. */
  readonly mergedBytesMax: number
}

export interface Member extends Sealed {
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
    const bySlot = tableNames.filter((table) => tables[table].feed === 'slots')
    const only = (table: TableName) =>
      bySlot.includes(table) ? ` WHERE slot NOT BETWEEN ${from} AND ${to}` : ''
    const removed: string[] = []
    for (const member of this.#members.filter(({ spans }) =>
      bySlot.some((table) => spans.meets(table, from, to)),
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
    const parts = this.#members.flatMap((other, index) =>
      other.spans.meets(from, low, high)
        ? [
            `SELECT "${number}" AS number, "${time}" AS time, ${Math.abs(index - at)} AS far
            FROM ${catalogOf(other)}."${from}" WHERE "${number}" BETWEEN ${low} AND ${high}`,
          ]
        : [],
    )
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
