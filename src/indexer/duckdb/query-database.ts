// The database that a customer's query sees: views over read-only files, and nothing else.
// Thread: main of a query process.
//
//   memory (empty, ours)  chain.transactions  = view over seg_…  attached READ_ONLY
//                         chain.usage         = a copy of the caller's own rows
//                         system_.tables      = list of tables
//   then: no file outside the index's folder, no network, settings locked
import { join } from 'node:path'
import type { DuckDBConnection, DuckDBPreparedStatement } from '@duckdb/node-api'
import { DuckDBInstance } from '@duckdb/node-api/lib/DuckDBInstance.js'
import { DuckDBScalarFunction } from '@duckdb/node-api/lib/DuckDBScalarFunction.js'
import { ANY, BLOB, VARCHAR } from '@duckdb/node-api/lib/DuckDBType.js'
import { version } from '@duckdb/node-api/lib/version.js'
import { messageOf } from '../../base/errors.ts'
import { decodeBase58, encodeBase58 } from '../../chain/solana/base58.ts'
import {
  EMULATED_VERSION,
  type SystemRow,
  systemRows,
  type TableSize,
  type TableSizes,
  visibleTables,
} from '../catalogue.ts'
import { aggregateNames } from '../clickhouse/duckdb/aggregates.ts'
import { macros } from '../clickhouse/duckdb/definitions.ts'
import { functionNames } from '../clickhouse/duckdb/functions.ts'
import { renderingMacros } from '../clickhouse/duckdb/nested-text.ts'
import { allowedFunctions, type TreeRules } from '../clickhouse/duckdb/syntax-tree.ts'
import { duckdbTypeOf } from '../clickhouse/duckdb/typing.ts'
import { duckdbString } from '../clickhouse/sql/lexer.ts'
import { type Database, type TableName, tableNames } from '../tables.ts'
import { columnsOf, type PresentColumns, presentColumns, selectList } from './chunks.ts'
import { schemaOf } from './schemas.ts'
import type { SnapshotFile, StoreSnapshot } from './store-files.ts'

export interface DatabaseOptions {
  /** Path of the index's folder in this process. */
  readonly folder: string
  /** Folder below it that only this process writes, and only results. */
  readonly scratch: string
  readonly memoryBytes: number
  readonly threads: number
}

/** A file of the snapshot was deleted before it was opened: a new snapshot must be requested. */
export class StaleSnapshot extends Error {}

const hiddenColumn = 'subscription'

export class QueryDatabase {
  readonly connection: DuckDBConnection
  readonly rules: TreeRules
  readonly #instance: DuckDBInstance
  readonly #options: DatabaseOptions
  /** Empty the log of metrics, and read it: prepared, because every query needs both. */
  readonly #metrics: Readonly<Record<'clear' | 'read', DuckDBPreparedStatement>>
  /** Attached files by name, with the columns of their tables where a file may lack some. */
  #attached = new Map<string, PresentColumns | null>()
  #files: readonly SnapshotFile[] = []
  #version = -1
  /** The snapshot whose sizes `system.tables` has. */
  #measured = -1
  /** The files of each table's SQL view. */
  readonly #shown = new Map<TableName, string>()
  /** The caller's rows of `usage` were copied. */
  #hasUsage = false

  private constructor(
    instance: DuckDBInstance,
    connection: DuckDBConnection,
    options: DatabaseOptions,
    reserved: ReadonlySet<string>,
    metrics: Readonly<Record<'clear' | 'read', DuckDBPreparedStatement>>,
  ) {
    this.#instance = instance
    this.connection = connection
    this.#metrics = metrics
    this.#options = options
    const names = new Set<string>(tableNames)
    this.rules = {
      tables: { '': names, chain: names, ...systemNames },
      macros: new Set([
        ...macros.map(({ name }) => name.toLowerCase()),
        ...ownMacroNames,
        ...base58Names,
      ]),
      reserved,
    }
  }

  static async open(options: DatabaseOptions): Promise<QueryDatabase> {
    const instance = await DuckDBInstance.create(':memory:', {
      threads: String(options.threads),
      memory_limit: `${Math.floor(options.memoryBytes / 1024)}KiB`,
    })
    const connection = await instance.connect()
    const found = await connection.runAndReadAll(
      'SELECT lower(view_name) FROM duckdb_views() WHERE internal',
    )
    const reserved = new Set(found.getRows().map(([name]) => String(name)))
    await connection.run([...macros.map(({ sql }) => sql), ...renderingMacros].join(';\n'))
    registerBase58(connection)
    await connection.run(systemSql())
    await connection.run("CALL enable_logging('Metrics')")
    for (const setting of settings(options)) await connection.run(`SET ${setting}`)
    const metrics = {
      clear: await connection.prepare('CALL truncate_duckdb_logs()'),
      // `clear` itself leaves an entry, of 0 rows.
      read: await connection.prepare(
        "SELECT max(regexp_extract(message, '(\\d+)}$', 1)::UBIGINT) FROM duckdb_logs()",
      ),
    }
    return new QueryDatabase(instance, connection, options, reserved, metrics)
  }

  /** The rules for a query whose table names without a database are of this one. */
  rulesFor(database: Database): TreeRules {
    const { tables } = this.rules
    return { ...this.rules, tables: { ...tables, '': tables[schemaOf[database] ?? database]! } }
  }

  get version(): string {
    return version()
  }

  get scratch(): string {
    return this.#options.scratch
  }

  /** Later queries read this snapshot. Detaches the files that are no longer in it. */
  async refresh(snapshot: StoreSnapshot): Promise<void> {
    if (snapshot.version === this.#version) return
    const wanted = new Set(snapshot.files.map((file) => file.name))
    await this.#detach([...this.#attached.keys()].filter((name) => !wanted.has(name)))
    this.#files = snapshot.files
    this.#version = snapshot.version
  }

  /** Updates the tables that a statement reads to the current snapshot. */
  async show(names: ReadonlySet<string>, subscription: string): Promise<void> {
    if (names.has(`${schemaOf.system}.tables`)) await this.#measure()
    const read = tableNames.filter((table) => names.has(table) || names.has(`chain.${table}`))
    if (read.length === 0) return
    await this.#attach(this.#files.filter((file) => read.some((one) => file.tables.includes(one))))
    for (const table of read) {
      if (table === 'usage') {
        // A copy, not a view: the query's conditions are never evaluated on another customer's
        // rows, so that not even an error can reveal their content.
        this.#hasUsage = true
        const only = `WHERE ${hiddenColumn} = ${duckdbString(subscription)}`
        await this.#create('TABLE', table, only)
        continue
      }
      const files = this.#filesOf(table).join(' ')
      if (this.#shown.get(table) === files) continue
      await this.#create('VIEW', table, '')
      this.#shown.set(table, files)
    }
  }

  /** From here on the rows are counted that the next statement reads. */
  async countRows(): Promise<void> {
    await this.#metrics.clear.run()
  }

  /** Rows that the last statement read from tables; 0 when statistics alone answered it. */
  async rowsRead(): Promise<number> {
    const result = await this.#metrics.read.runAndReadAll()
    return Number(result.getRows()[0]?.[0] ?? 0)
  }

  /** Deletes what a customer's query left, before the next customer's query. */
  async clear(): Promise<void> {
    if (!this.#hasUsage) return
    await this.connection.run('DROP TABLE IF EXISTS memory.chain."usage"')
    this.#hasUsage = false
  }

  close(): void {
    this.#instance.closeSync()
  }

  /** Writes the sizes of this snapshot into `system.tables`. */
  async #measure(): Promise<void> {
    if (this.#measured === this.#version) return
    const path = 'system.tables'
    const rows = systemRows('DuckDB', sizesOf(this.#files))[path]!
    await this.connection.run(tableSql(path, rows))
    this.#measured = this.#version
  }

  async #attach(files: readonly SnapshotFile[]): Promise<void> {
    const names = files.map((file) => file.name).filter((name) => !this.#attached.has(name))
    if (names.length === 0) return
    const each = names.map((name) => {
      const path = duckdbString(join(this.#options.folder, name))
      return `ATTACH ${path} AS ${catalogOf(name)} (READ_ONLY, TYPE duckdb)`
    })
    try {
      await this.connection.run(each.join(';'))
    } catch (error) {
      await this.#detach(names).catch(() => {})
      throw new StaleSnapshot('a file of the snapshot is gone', { cause: error })
    }
    for (const name of names) this.#attached.set(name, null)
  }

  async #detach(names: readonly string[]): Promise<void> {
    if (names.length === 0) return
    const each = names.map((name) => `DETACH DATABASE IF EXISTS ${catalogOf(name)}`)
    await this.connection.run(each.join(';'))
    for (const name of names) this.#attached.delete(name)
  }

  /**
   * Only files of an earlier version lack columns, and to list those of a file takes longer than
   * most queries: they are listed when the engine misses one.
   */
  async #create(kind: 'TABLE' | 'VIEW', table: TableName, only: string): Promise<void> {
    const create = () =>
      this.connection.run(
        `CREATE OR REPLACE ${kind} memory.chain."${table}" AS ${this.#unionSql(table, only)}`,
      )
    try {
      await create()
    } catch (error) {
      // Anything but a column that is missing.
      if (!/Binder/.test(messageOf(error))) throw error
      for (const name of this.#filesOf(table)) {
        const columns = await presentColumns(this.connection, catalogOf(name))
        this.#attached.set(name, columns)
      }
      await create()
    }
  }

  #filesOf(table: TableName): readonly string[] {
    return this.#files.filter((file) => file.tables.includes(table)).map((file) => file.name)
  }

  #unionSql(table: TableName, only: string): string {
    const columns = columnsOf(table).filter(([name]) => name !== hiddenColumn)
    const parts = this.#filesOf(table).map((name) => {
      const cells = selectList(columns, this.#attached.get(name)?.get(table))
      return `SELECT ${cells} FROM ${catalogOf(name)}."${table}" ${only}`
    })
    if (parts.length > 0) return parts.join(' UNION ALL ')
    const none = columns.map(([name, type]) => `CAST(NULL AS ${duckdbTypeOf(type)}) AS "${name}"`)
    return `SELECT ${none.join(', ')} WHERE false`
  }
}

/** The file of a result that is written completely before it is sent. */
export const resultName = 'result.parquet'

/** The order matters: the last ones lock the configuration. */
function settings({ folder, scratch }: DatabaseOptions): readonly string[] {
  const schemas = ['chain', 'main', ...Object.keys(systemNames)].map((name) => `memory.${name}`)
  const folders = [folder, scratch].map((path) => duckdbString(`${path}/`))
  return [
    // A name without a schema is checked by the gate; no two of these schemas share one.
    `search_path = '${schemas.join(',')}'`,
    "TimeZone = 'UTC'",
    'errors_as_json = true',
    // The metrics of a statement go to a log in memory.
    "enable_profiling = 'no_output'",
    `custom_profiling_settings = '{"CUMULATIVE_ROWS_SCANNED":"true"}'`,
    // About two chunks of rendered rows: with more, the first byte waits until as many are made.
    "streaming_buffer_size = '64KB'",
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

/** Rows are known, bytes are not: the tables of a file share its blocks. */
function sizesOf(files: readonly SnapshotFile[]): TableSizes {
  const sizes: Partial<Record<TableName, TableSize>> = {}
  for (const table of tableNames) {
    const counts = files.map((file) => (file.rows ?? [])[file.tables.indexOf(table)] ?? null)
    const holding = counts.filter((_, at) => files[at]!.tables.includes(table))
    const sum = holding.reduce((a, b) => (a === null || b === null ? null : a + b), 0)
    sizes[table] = { rows: sum, bytes: null }
  }
  return sizes
}

function catalogOf(file: string): string {
  return file.replace(/\.duckdb$/, '').replaceAll('-', '_')
}

// Base58 as functions of DuckDB that are computed by Node, for analysts of Solana's data.

/** Names of the functions, which functions.sql uses. */
export const base58Names = ['base58_text', 'base58_bytes']

/** The time grows with the square of the length; a transaction is shorter. */
const bytesMax = 1_683

type Text = { readonly bytes: Uint8Array } | string

const bytesOf = (value: Text): Uint8Array =>
  typeof value === 'string' ? Buffer.from(value) : value.bytes

export function registerBase58(connection: DuckDBConnection): void {
  const text = (value: Text) => encodeBase58(bytesOf(value))
  const bytes = (value: Text) => {
    const decoded = decodeBase58(Buffer.from(bytesOf(value)).toString('latin1'))
    return decoded === null ? null : { bytes: decoded }
  }
  for (const [name, returnType, compute] of [
    ['base58_text', VARCHAR, text],
    ['base58_bytes', BLOB, bytes],
  ] as const)
    connection.registerScalarFunction(
      DuckDBScalarFunction.create({
        name,
        returnType,
        parameterTypes: [ANY],
        mainFunction: (info, input, output) => {
          const values = input.getColumnVector(0)
          for (let row = 0; row < input.rowCount; row += 1) {
            // Reason for the cast: functions.sql calls it with a String, a VARCHAR or a BLOB.
            const value = values.getItem(row) as Text | null
            if (value !== null && bytesOf(value).length > bytesMax)
              return info.setError(`not answered here: Base58 of more than ${bytesMax} bytes`)
            output.setItem(row, value === null ? null : compute(value))
          }
          output.flush()
        },
      }),
    )
}

// The SQL that makes `system`, `information_schema` and ClickHouse's table functions in DuckDB.

/** Names by schema, for the gate. */
export const systemNames: Readonly<Record<string, ReadonlySet<string>>> = Object.fromEntries(
  ['system', 'information_schema'].map((database) => [
    schemaOf[database]!,
    new Set(visibleTables.filter((one) => one.database === database).map(({ name }) => name)),
  ]),
)

/** Streamed by DuckDB: a row exists only while it is read. */
const numbers = (...bounds: readonly string[]) =>
  `(SELECT CAST(range AS UBIGINT) AS number FROM range(${bounds.join(', ')}))`
const end = 'CAST(a AS BIGINT) + CAST(n AS BIGINT)'
const int64Max = '9223372036854775807'

const ownMacros = ["database() AS 'chain'", `version() AS '${EMULATED_VERSION}'`]
const tableMacros = [
  `numbers(n) AS TABLE ${numbers('CAST(n AS BIGINT)')},
   (a, n) AS TABLE ${numbers('CAST(a AS BIGINT)', end)},
   (a, n, step) AS TABLE ${numbers('CAST(a AS BIGINT)', end, 'CAST(step AS BIGINT)')}`,
  'zeros(n) AS TABLE (SELECT CAST(0 AS UTINYINT) AS zero FROM range(CAST(n AS BIGINT)))',
]

export const ownMacroNames = [...ownMacros, ...tableMacros].map((text) =>
  text.slice(0, text.indexOf('(')).toLowerCase(),
)

export function systemSql(): string {
  const views = {
    'system.numbers': numbers(int64Max),
    'system.zeros': `SELECT CAST(0 AS UTINYINT) AS zero FROM range(${int64Max})`,
    'system.functions': functionsSql(),
  }
  return [
    ...Object.values(schemaOf).map((schema) => `CREATE SCHEMA IF NOT EXISTS ${schema}`),
    ...[...ownMacros, ...tableMacros].map((text) => `CREATE OR REPLACE MACRO ${text}`),
    ...Object.entries(systemRows('DuckDB')).map(([path, rows]) => tableSql(path, rows)),
    ...Object.entries(views).map(([path, sql]) => `CREATE VIEW ${placeOf(path)} AS ${sql}`),
  ].join(';\n')
}

function placeOf(path: string): string {
  const [database = '', name] = path.split('.')
  return `${schemaOf[database]}."${name}"`
}

/** ClickHouse's functions, and DuckDB's that may be called as well. */
function functionsSql(): string {
  const own = [...functionNames, ...aggregateNames]
  const names = new Map(own.map((name) => [name.toLowerCase(), name]))
  const other = [...allowedFunctions].filter((name) => /^\w+$/.test(name) && !names.has(name))
  const aggregates = new Set(aggregateNames.map((name) => name.toLowerCase()))
  const rows = [...names.values(), ...other].map(
    (name) => `(${duckdbString(name)}, ${Number(aggregates.has(name.toLowerCase()))})`,
  )
  return `SELECT name, CAST(is_aggregate AS UTINYINT) AS is_aggregate,
      CAST(1 AS UTINYINT) AS case_insensitive, '' AS alias_to
    FROM (VALUES ${rows.join(', ')}) AS t(name, is_aggregate)`
}

function tableSql(path: string, rows: readonly SystemRow[]): string {
  const table = visibleTables.find(({ database, name }) => `${database}.${name}` === path)
  const types = Object.entries(table?.columns ?? {})
  const names = types.map(([name]) => `"${name}"`).join(', ')
  const typed = types.map(([name, type]) => `CAST("${name}" AS ${duckdbTypeOf(type)}) AS "${name}"`)
  const values = rows.map((row) => `(${row.map(cell).join(', ')})`)
  return `CREATE OR REPLACE TABLE ${placeOf(path)} AS
    SELECT ${typed.join(', ')} FROM (VALUES ${values.join(', ')}) AS t(${names})`
}

function cell(value: string | number | null): string {
  return typeof value === 'string' ? duckdbString(value) : String(value)
}
