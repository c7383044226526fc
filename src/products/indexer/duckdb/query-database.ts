// The database that a customer's query sees: read-only files behind views, and nothing else.
// Thread: main of a query process.
//
//   memory (empty, ours)  chain.transactions  = view over seg_…, tail_…  attached READ_ONLY
//                         chain.usage         = a copy of the caller's own rows
//                         system_.tables      = what there is
//   then: no file outside the index's folder, no network, no setting can be changed any more
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance, version } from '@duckdb/node-api'
import { type SystemRow, systemRows, visibleTables } from '../catalogue.ts'
import { type TableName, tableNames } from '../tables.ts'
import { columnsOf, storageOf } from './columns.ts'
import { quoted } from './hot-file.ts'
import { macros } from './macros.ts'
import { systemSchema } from './rewrite.ts'
import type { Snapshot, SnapshotFile } from './store-files.ts'
import type { TreeRules } from './syntax-tree.ts'

export interface DatabasePlace {
  /** The index's folder, as this process may reach it. */
  readonly folder: string
  /** Below it: where this process alone may write, and only results. */
  readonly scratch: string
  readonly memoryBytes: number
  readonly threads: number
}

/** A file of the view went away before it could be opened: the view is to be asked for again. */
export class StaleView extends Error {}

const ownMacros = ["CREATE OR REPLACE MACRO database() AS 'chain'"]
const hiddenColumn = 'subscription'

export class QueryDatabase {
  readonly connection: DuckDBConnection
  readonly rules: TreeRules
  readonly #instance: DuckDBInstance
  readonly #place: DatabasePlace
  #attached = new Map<string, SnapshotFile>()
  #files: readonly SnapshotFile[] = []
  #version = -1
  /** The version of the view that each table's SQL view stands for. */
  readonly #shown = new Map<TableName, number>()

  private constructor(
    instance: DuckDBInstance,
    connection: DuckDBConnection,
    place: DatabasePlace,
    reserved: ReadonlySet<string>,
  ) {
    this.#instance = instance
    this.connection = connection
    this.#place = place
    const names = new Set<string>(tableNames)
    this.rules = {
      tables: { '': names, chain: names, [systemSchema]: new Set(Object.keys(systemRows(''))) },
      macros: new Set([...macros.map(({ name }) => name.toLowerCase()), 'database']),
      reserved,
    }
  }

  static async open(place: DatabasePlace): Promise<QueryDatabase> {
    const instance = await DuckDBInstance.create(':memory:', {
      threads: String(place.threads),
      memory_limit: `${Math.floor(place.memoryBytes / 1024)}KiB`,
    })
    const connection = await instance.connect()
    const found = await connection.runAndReadAll(
      'SELECT lower(view_name) FROM duckdb_views() WHERE internal',
    )
    const reserved = new Set(found.getRows().map(([name]) => String(name)))
    await connection.run(`CREATE SCHEMA chain; CREATE SCHEMA ${systemSchema}`)
    await connection.run([...macros.map(({ sql }) => sql), ...ownMacros].join(';\n'))
    for (const [name, rows] of Object.entries(systemRows('DuckDB')))
      await connection.run(systemTableSql(name, rows))
    for (const setting of settings(place)) await connection.run(`SET ${setting}`)
    return new QueryDatabase(instance, connection, place, reserved)
  }

  get version(): string {
    return version()
  }

  get scratch(): string {
    return this.#place.scratch
  }

  /** Opens the files of a view and lets go of those that are no longer in it. */
  async refresh(snapshot: Snapshot): Promise<void> {
    if (snapshot.version === this.#version) return
    const wanted = new Set(snapshot.files.map((file) => file.name))
    for (const name of [...this.#attached.keys()].filter((one) => !wanted.has(one))) {
      await this.connection.run(`DETACH ${catalogOf(name)}`)
      this.#attached.delete(name)
    }
    for (const file of snapshot.files.filter((one) => !this.#attached.has(one.name))) {
      const path = quoted(join(this.#place.folder, file.name))
      try {
        await this.connection.run(`ATTACH ${path} AS ${catalogOf(file.name)} (READ_ONLY)`)
      } catch (error) {
        throw new StaleView('a file of the view is gone', { cause: error })
      }
      this.#attached.set(file.name, file)
    }
    this.#files = snapshot.files
    this.#version = snapshot.version
  }

  /** Makes the tables that a statement reads show the files of now. */
  async show(names: ReadonlySet<string>, subscription: string): Promise<void> {
    for (const table of tableNames) {
      if (!names.has(table) && !names.has(`chain.${table}`)) continue
      if (table === 'usage') {
        // A copy, not a view: conditions of the query are never asked of another's rows, so that
        // not even an error can tell what stands in them.
        const only = `WHERE ${hiddenColumn} = ${quoted(subscription)}`
        await this.connection.run(
          `CREATE OR REPLACE TABLE memory.chain."usage" AS ${this.#unionSql(table, only)}`,
        )
      } else if (this.#shown.get(table) !== this.#version) {
        await this.connection.run(
          `CREATE OR REPLACE VIEW memory.chain."${table}" AS ${this.#unionSql(table, '')}`,
        )
        this.#shown.set(table, this.#version)
      }
    }
  }

  /** Forgets what a query of one customer left, before the next one's. */
  async clear(): Promise<void> {
    await this.connection.run('DROP TABLE IF EXISTS memory.chain."usage"')
    await rm(join(this.scratch, resultName), { force: true })
  }

  close(): void {
    this.#instance.closeSync()
  }

  #unionSql(table: TableName, only: string): string {
    const columns = columnsOf(table).filter(([name]) => name !== hiddenColumn)
    const names = columns.map(([name]) => `"${name}"`).join(', ')
    const parts = this.#files
      .filter((file) => file.tables.includes(table))
      .map((file) => `SELECT ${names} FROM ${catalogOf(file.name)}."${table}" ${only}`)
    if (parts.length > 0) return parts.join(' UNION ALL ')
    const none = columns.map(([name, type]) => `CAST(NULL AS ${storageOf(type).sql}) AS "${name}"`)
    return `SELECT ${none.join(', ')} WHERE false`
  }
}

/** The file of a result that is written whole before it is sent. */
export const resultName = 'result.parquet'

/** In this order: the last ones lock the door behind the others. */
function settings({ folder, scratch }: DatabasePlace): readonly string[] {
  const folders = [folder, scratch].map((path) => quoted(`${path}/`))
  return [
    "search_path = 'memory.chain,memory.main'",
    "TimeZone = 'UTC'",
    'errors_as_json = true',
    "temp_directory = ''",
    'autoinstall_known_extensions = false',
    'autoload_known_extensions = false',
    'allow_community_extensions = false',
    'allow_persistent_secrets = false',
    `allowed_directories = [${folders.join(', ')}]`,
    'enable_external_access = false',
    'lock_configuration = true',
  ]
}

function catalogOf(file: string): string {
  return file.replace(/\.duckdb$/, '').replaceAll('-', '_')
}

function systemTableSql(name: string, rows: readonly SystemRow[]): string {
  const table = visibleTables.find((one) => one.database === 'system' && one.name === name)
  const types = Object.entries(table?.columns ?? {})
  const columns = types.map(([column]) => column)
  const values = rows.map((row) => `(${columns.map((column) => cell(row[column]!)).join(', ')})`)
  const names = columns.map((column) => `"${column}"`).join(', ')
  const typed = types.map(
    ([name, type]) => `CAST("${name}" AS ${storageOf(type).sql}) AS "${name}"`,
  )
  return `CREATE TABLE ${systemSchema}."${name}" AS
    SELECT ${typed.join(', ')} FROM (VALUES ${values.join(', ')}) AS t(${names})`
}

function cell(value: string | number): string {
  return typeof value === 'number' ? String(value) : quoted(value)
}
