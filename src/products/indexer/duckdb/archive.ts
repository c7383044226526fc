// Manages the sealed, immutable files of the index: seals, merges small ones, drops old ones.
// Thread: main of the writer process. Runs concurrently with writes to the hot file.
//
//   hot-9  -> seg-9-9-0 --+
//   hot-10 -> seg-10-10-0 +-> seg-9-16-0   eight neighbours of one size are merged into one;
//   ...                   |                retention by age and bytes drops whole files
import { utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { duckdbString } from '../sql/quoting.ts'
import { type TableName, tableNames, tables } from '../tables.ts'
import {
  columnsOf,
  orderColumnOf,
  type PresentColumns,
  presentColumns,
  selectList,
} from './columns.ts'
import type { HotFile } from './hot-file.ts'
import { Spans } from './spans.ts'
import {
  describe,
  hotName,
  keepAs,
  removeFiles,
  type Sealed,
  type SealedSpan,
  type SnapshotFile,
  sealedName,
} from './store-files.ts'

/** Number of neighbouring files of one size class that are merged into one. */
const mergeWidth = 8
/** Longest time a merged file covers: retention drops whole files, so it must stay bounded. */
const mergedMsMax = 24 * 3_600_000

export interface ArchiveOptions {
  readonly folder: string
  readonly retentionMs: number
  readonly retentionBytes: number
  /** Upper bound for the size of a merged file. */
  readonly mergedBytesMax: number
  /** Called when the list of files changed. */
  onChange(): void
  /** Deletes files that the archive no longer uses. */
  remove(names: readonly string[]): void
}

interface Member extends Sealed {
  readonly spans: Spans
  readonly columns: PresentColumns
}

export class Archive {
  readonly #connection: DuckDBConnection
  readonly #options: ArchiveOptions
  #members: readonly Member[] = []
  #all = new Spans()
  #merging: Promise<void> | null = null
  #isStopping = false

  constructor(connection: DuckDBConnection, options: ArchiveOptions) {
    this.#connection = connection
    this.#options = options
  }

  get files(): readonly SnapshotFile[] {
    return this.#members.map(({ name, spans }) => ({ name, tables: spans.tables }))
  }

  get bytes(): number {
    return this.#members.reduce((sum, member) => sum + member.bytes, 0)
  }

  has(hot: number): boolean {
    return this.#members.some((member) => member.from <= hot && hot <= member.to)
  }

  /** The highest order value of a table's rows ever sealed. */
  top(table: TableName): number {
    return this.#all.high(table)
  }

  /** Counts rows that are about to be sealed, so that `top` includes them. */
  expect(spans: Spans): void {
    this.#all.addAll(spans)
  }

  /** Catalogs that have rows of the table from `low` to `high`. */
  holding(table: TableName, low: number, high: number): readonly string[] {
    return this.#members
      .filter((member) => member.spans.meets(table, low, high))
      .map((member) => catalogOf(member))
  }

  async open(sealed: readonly Sealed[]): Promise<void> {
    for (const file of sealed) await this.#admit(file, [])
  }

  /** Turns a hot file that receives no more writes into a sealed file. */
  async seal(hot: HotFile): Promise<void> {
    const { folder } = this.#options
    if (hot.spans.totalRows > 0) {
      await hot.spans.store(this.#connection, hot.catalog)
      await this.#connection.run(`CHECKPOINT ${hot.catalog}`)
    }
    await this.#connection.run(`DETACH ${hot.catalog}`)
    if (hot.spans.totalRows === 0) {
      await removeFiles(folder, [hotName(hot.number), `${hotName(hot.number)}.wal`])
      return
    }
    const span = { from: hot.number, to: hot.number, revision: 0 }
    await keepAs(folder, hotName(hot.number), sealedName(span))
    await this.#admit(await describe(folder, span), [])
    this.#options.onChange()
  }

  /** Drops files beyond the retention limits, then merges what can be merged, one at a time. */
  async tidy(nowMs: number): Promise<void> {
    await this.#dropOld(nowMs)
    this.#merging ??= this.#mergeAll().finally(() => {
      this.#merging = null
    })
    await this.#merging
  }

  /** Deletes the rows of these slots: every file that has some is rewritten without them. */
  async cut(from: number, to: number): Promise<void> {
    while (this.#merging !== null) await this.#merging.catch(() => {})
    const ofSlots = tableNames.filter((table) => tables[table].feed === 'slots' && isBySlot(table))
    const isTouched = (member: Member) =>
      ofSlots.some((table) => member.spans.meets(table, from, to))
    for (const member of this.#members.filter(isTouched)) {
      const span = { from: member.from, to: member.to, revision: member.revision + 1 }
      await this.#rewrite([member], span, (table) =>
        ofSlots.includes(table) ? ` WHERE slot NOT BETWEEN ${from} AND ${to}` : '',
      )
    }
    this.#all = new Spans()
    for (const member of this.#members) this.#all.addAll(member.spans)
    this.#options.onChange()
  }

  /** Aborts a running merge; its input files stay. */
  async stop(): Promise<void> {
    this.#isStopping = true
    this.#connection.interrupt()
    await this.#merging?.catch(() => {})
  }

  async #dropOld(nowMs: number): Promise<void> {
    const { retentionMs, retentionBytes } = this.#options
    let bytes = this.bytes
    const dropped = this.#members.filter((member) => {
      const isOld = nowMs - member.sealedAtMs > retentionMs
      const isDropped = isOld || bytes > retentionBytes
      if (isDropped) bytes -= member.bytes
      return isDropped
    })
    if (dropped.length > 0) await this.#replace(dropped, [])
  }

  async #mergeAll(): Promise<void> {
    for (let run = this.#nextRun(); run !== null; run = this.#nextRun()) await this.#merge(run)
  }

  /** Eight neighbours of one size class, oldest first; null when there are none. */
  #nextRun(): readonly Member[] | null {
    if (this.#isStopping) return null
    for (let at = 0; at + mergeWidth <= this.#members.length; at += 1) {
      const run = this.#members.slice(at, at + mergeWidth)
      const bytes = run.reduce((sum, member) => sum + member.bytes, 0)
      const spanMs = run.at(-1)!.sealedAtMs - run[0]!.sealedAtMs
      const isEven = run.every((member) => levelOf(member) === levelOf(run[0]!))
      if (isEven && bytes <= this.#options.mergedBytesMax && spanMs <= mergedMsMax) return run
    }
    return null
  }

  async #merge(run: readonly Member[]): Promise<void> {
    const span = { from: run[0]!.from, to: run.at(-1)!.to, revision: 0 }
    await this.#rewrite(run, span, () => '')
    this.#options.onChange()
  }

  /** Copies the rows of the files that match the filter `only` into one file that replaces them. */
  async #rewrite(
    run: readonly Member[],
    span: SealedSpan,
    only: (table: TableName) => string,
  ): Promise<void> {
    const { folder } = this.#options
    const made = `new-${sealedName(span)}`
    await removeFiles(folder, [made])
    await this.#connection.run(`ATTACH ${duckdbString(join(folder, made))} AS made`)
    try {
      for (const table of tableNames) await this.#connection.run(copySql(table, run, only(table)))
      const spans = new Spans()
      await spans.measure(this.#connection, 'made')
      await spans.store(this.#connection, 'made')
      await this.#connection.run('CHECKPOINT made')
    } finally {
      await this.#connection.run('DETACH made')
    }
    const sealedAtSeconds = run.at(-1)!.sealedAtMs / 1000
    await utimes(join(folder, made), sealedAtSeconds, sealedAtSeconds)
    await keepAs(folder, made, sealedName(span))
    await this.#admit(await describe(folder, span), run)
  }

  /** Attaches a sealed file and adds it to the list instead of `replaced`. */
  async #admit(file: Sealed, replaced: readonly Member[]): Promise<void> {
    const path = duckdbString(join(this.#options.folder, file.name))
    await this.#connection.run(`ATTACH ${path} AS ${catalogOf(file)} (READ_ONLY)`)
    const spans = new Spans()
    await spans.load(this.#connection, catalogOf(file))
    const columns = await presentColumns(this.#connection, catalogOf(file))
    this.#all.addAll(spans)
    await this.#replace(replaced, [{ ...file, spans, columns }])
  }

  async #replace(removed: readonly Member[], added: readonly Member[]): Promise<void> {
    const kept = this.#members.filter((member) => !removed.includes(member))
    this.#members = [...kept, ...added].sort((a, b) => a.from - b.from)
    if (removed.length === 0) return
    this.#options.onChange()
    for (const member of removed) await this.#connection.run(`DETACH ${catalogOf(member)}`)
    this.#options.remove(removed.map((member) => member.name))
  }
}

function catalogOf({ from, to, revision }: SealedSpan): string {
  return `seg_${from}_${to}_${revision}`
}

function levelOf(file: SealedSpan): number {
  return Math.floor(Math.log(file.to - file.from + 1) / Math.log(mergeWidth) + 1e-9)
}

function isBySlot(table: TableName): boolean {
  return orderColumnOf(table) === 'slot'
}

function copySql(table: TableName, run: readonly Member[], only: string): string {
  const parts = run.map((member) => {
    const cells = selectList(columnsOf(table), member.columns.get(table))
    return `SELECT ${cells} FROM ${catalogOf(member)}."${table}"${only}`
  })
  return `CREATE TABLE made."${table}" AS ${parts.join(' UNION ALL ')}`
}
