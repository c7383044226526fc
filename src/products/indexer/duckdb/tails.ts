// Copies the hot file's newest rows into small files that readers can open.
// Thread: main of the writer process. Runs only on request: without queries nothing is copied.
//
//   hot rows   |--------------------------------------------->
//   tails      [ tail 9          ][ tail 12  ][ 14 ][15]
//
// Invariant: each tail has more rows than the next one. So there are few files, and a row is
// copied only a few times.
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { duckdbString } from '../sql/quoting.ts'
import { type TableName, tableNames } from '../tables.ts'
import type { HotFile } from './hot-file.ts'
import { keepAs, removeFiles, type SnapshotFile, tailName } from './store-files.ts'

type Counts = ReadonlyMap<TableName, number>

interface Tail extends SnapshotFile {
  /** Row counts of the hot file at the start and at the end of this tail. */
  readonly from: Counts
  readonly to: Counts
  readonly rows: number
}

const noCounts: Counts = new Map()
/** Small blocks: most tails have few rows. */
const blockBytes = 16_384

export class Tails {
  readonly #connection: DuckDBConnection
  readonly #folder: string
  #hot = -1
  #tails: readonly Tail[] = []
  #made: number

  /** `last`: number of the last tail; readers know a file by its name, so none is used twice. */
  constructor(connection: DuckDBConnection, folder: string, last: number) {
    this.#connection = connection
    this.#folder = folder
    this.#made = last
  }

  /** Number of the hot file whose rows were copied. */
  get hot(): number {
    return this.#hot
  }

  get files(): readonly SnapshotFile[] {
    return this.#tails.map(({ name, tables }) => ({ name, tables }))
  }

  /** Copies the rows committed since the last call. Returns the names of superseded files. */
  async follow(hot: HotFile): Promise<readonly string[]> {
    const superseded: Tail[] = []
    if (this.#hot !== hot.number) {
      superseded.push(...this.#tails)
      this.#tails = []
      this.#hot = hot.number
    }
    const to = new Map(tableNames.map((table) => [table, hot.spans.rows(table)]))
    let from = this.#tails.at(-1)?.to ?? noCounts
    let rows = between(from, to)
    if (rows > 0) {
      const kept = [...this.#tails]
      for (let last = kept.at(-1); last !== undefined && last.rows <= rows; last = kept.at(-1)) {
        kept.pop()
        superseded.push(last)
        from = last.from
        rows += last.rows
      }
      kept.push(await this.#copy(hot, from, to))
      this.#tails = kept
    }
    return superseded.map((tail) => tail.name)
  }

  async #copy(hot: HotFile, from: Counts, to: Counts): Promise<Tail> {
    this.#made += 1
    const name = tailName(hot.number, this.#made)
    const made = `new-${name}`
    const tables = tableNames.filter((table) => rowsOf(to, table) > rowsOf(from, table))
    await removeFiles(this.#folder, [made])
    const path = duckdbString(join(this.#folder, made))
    await this.#connection.run(`ATTACH ${path} AS tail (BLOCK_SIZE ${blockBytes})`)
    try {
      await this.#connection.run('BEGIN')
      for (const table of tables)
        await this.#connection.run(
          `CREATE TABLE tail."${table}" AS FROM ${hot.catalog}."${table}"
            WHERE rowid >= ${rowsOf(from, table)} AND rowid < ${rowsOf(to, table)}`,
        )
      await this.#connection.run('COMMIT')
    } catch (error) {
      await this.#connection.run('ROLLBACK').catch(() => {})
      throw error
    } finally {
      await this.#connection.run('DETACH tail')
    }
    await keepAs(this.#folder, made, name)
    return { name, tables, from, to, rows: between(from, to) }
  }
}

function between(from: Counts, to: Counts): number {
  return tableNames.reduce((sum, table) => sum + rowsOf(to, table) - rowsOf(from, table), 0)
}

function rowsOf(counts: Counts, table: TableName): number {
  return counts.get(table) ?? 0
}
