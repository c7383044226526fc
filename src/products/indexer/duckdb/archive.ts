// The sealed files: what is in them, small ones merged into larger ones, old ones dropped.
// Thread: main of the writer process. Called by the sink; works beside the writes.
//
//   hot-9  -> seg-9-9-0 --+
//   hot-10 -> seg-10-10-0 +-> seg-9-16-0   eight neighbours of one size make one;
//   ...                   |                whole files leave by age and bytes
import { utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { type TableName, tableNames, tables } from '../tables.ts'
import { orderColumnOf } from './columns.ts'
import { type HotFile, quoted } from './hot-file.ts'
import { Spans } from './spans.ts'
import {
  describe,
  hotName,
  keepAs,
  type ReadableFile,
  removeFiles,
  type Sealed,
  type SealedSpan,
  sealedName,
} from './store-files.ts'

/** So many neighbours of one size are merged into one. */
const mergeWidth = 8
/** A file that spans more than this leaves too much at once. */
const mergedMsMax = 24 * 3_600_000
/** Readers that chose their files before a change have this long to open them. */
export const removeDelayMs = 15_000

export interface ArchiveOptions {
  readonly folder: string
  readonly retentionMs: number
  readonly retentionBytes: number
  /** A merged file is not made larger than this. */
  readonly mergedBytesMax: number
  /** Called when the list of files is another. */
  onChange(): void
  /** The sealed files have no use for this any more. */
  remove(names: readonly string[]): void
}

interface Member extends Sealed {
  readonly spans: Spans
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

  get files(): readonly ReadableFile[] {
    return this.#members.map(({ name, spans }) => ({ name, tables: spans.tables }))
  }

  get bytes(): number {
    return this.#members.reduce((sum, member) => sum + member.bytes, 0)
  }

  has(hot: number): boolean {
    return this.#members.some((member) => member.from <= hot && hot <= member.to)
  }

  /** The highest order of a table's rows in all that was ever sealed. */
  top(table: TableName): number {
    return this.#all.high(table)
  }

  /** Rows that are about to be sealed count from here on. */
  expect(spans: Spans): void {
    this.#all.addAll(spans)
  }

  /** Catalogs with rows of the table between the two. */
  holding(table: TableName, low: number, high: number): readonly string[] {
    return this.#members
      .filter((member) => member.spans.meets(table, low, high))
      .map((member) => catalogOf(member))
  }

  async open(sealed: readonly Sealed[]): Promise<void> {
    for (const file of sealed) await this.#admit(file, [])
  }

  /** Makes a hot file that takes no more writes a sealed one. */
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

  /** Drops what is too old or too much, then merges what can be merged, one at a time. */
  async tidy(nowMs: number): Promise<void> {
    await this.#dropOld(nowMs)
    this.#merging ??= this.#mergeAll().finally(() => {
      this.#merging = null
    })
    await this.#merging
  }

  /** Takes the rows of slots back: the files that have some are written anew without them. */
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

  /** A merge under way is given up: what it merges stays. */
  async stop(): Promise<void> {
    this.#isStopping = true
    this.#connection.interrupt()
    await this.#merging?.catch(() => {})
  }

  async #dropOld(nowMs: number): Promise<void> {
    const { retentionMs, retentionBytes } = this.#options
    let bytes = this.bytes
    const leaving = this.#members.filter((member) => {
      const isOld = nowMs - member.sealedAtMs > retentionMs
      const leaves = isOld || bytes > retentionBytes
      if (leaves) bytes -= member.bytes
      return leaves
    })
    if (leaving.length > 0) await this.#replace(leaving, [])
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

  /** Writes the rows of some files that `only` lets through into one, and puts it there instead. */
  async #rewrite(
    run: readonly Member[],
    span: SealedSpan,
    only: (table: TableName) => string,
  ): Promise<void> {
    const { folder } = this.#options
    const made = `new-${sealedName(span)}`
    await removeFiles(folder, [made])
    await this.#connection.run(`ATTACH ${quoted(join(folder, made))} AS made`)
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

  /** Takes a file in, in place of others. */
  async #admit(file: Sealed, instead: readonly Member[]): Promise<void> {
    const path = quoted(join(this.#options.folder, file.name))
    await this.#connection.run(`ATTACH ${path} AS ${catalogOf(file)} (READ_ONLY)`)
    const spans = new Spans()
    await spans.load(this.#connection, catalogOf(file))
    this.#all.addAll(spans)
    await this.#replace(instead, [{ ...file, spans }])
  }

  async #replace(leaving: readonly Member[], coming: readonly Member[]): Promise<void> {
    const staying = this.#members.filter((member) => !leaving.includes(member))
    this.#members = [...staying, ...coming].sort((a, b) => a.from - b.from)
    if (leaving.length === 0) return
    this.#options.onChange()
    for (const member of leaving) await this.#connection.run(`DETACH ${catalogOf(member)}`)
    this.#options.remove(leaving.map((member) => member.name))
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
  const parts = run.map((member) => `FROM ${catalogOf(member)}."${table}"${only}`)
  return `CREATE TABLE made."${table}" AS ${parts.join(' UNION ALL ')}`
}
