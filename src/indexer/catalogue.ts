// The catalogue that customers see: databases, tables, columns. Data only.
// The single source for SHOW and DESCRIBE of the endpoint, and for `system` and
// `information_schema` of an engine.
import { formats } from './clickhouse/formats/formats.ts'
import { clickhouseString } from './clickhouse/sql/quoting.ts'
import { columnComment, tableComment } from './comments.ts'
import { settingRows } from './settings.ts'
import { type Database, type TableName, tableNames, tables } from './tables.ts'
import { views } from './views.ts'

/** Database of the tables; `default` is an alias. */
export const DATABASE = 'chain'
export const databases: readonly Database[] = [DATABASE, 'information_schema', 'system']

/** The version of ClickHouse whose interface and SQL the embedded engine follows: `version()`. */
export const EMULATED_VERSION = '26.7.1.1'

export interface VisibleTable {
  readonly database: Database
  readonly name: string
  /** ClickHouse types by name, in order. */
  readonly columns: Readonly<Record<string, string>>
  readonly key: readonly string[]
  readonly comment: string
  /** Comments by column. */
  readonly comments: Readonly<Record<string, string>>
  /** What a view reads; null for a table. */
  readonly view: string | null
}

/** How large a table is, where the engine knows it. */
export interface TableSize {
  readonly rows: number | null
  readonly bytes: number | null
}
export type TableSizes = Readonly<Partial<Record<TableName, TableSize>>>

/** The database of that name; null when it does not exist. '' is the one of the tables. */
export function databaseOf(name: string | null): Database | null {
  const lower = name?.toLowerCase()
  if (lower === '' || lower === 'default') return DATABASE
  // ClickHouse has this one in both cases.
  if (name === 'INFORMATION_SCHEMA') return 'information_schema'
  return databases.find((known) => known === name) ?? null
}

/** Customers see only their own rows of `usage`, so the column is hidden. */
const hiddenColumn = 'subscription'

const chainTables: readonly VisibleTable[] = tableNames.map((name) => {
  const { columns, key } = tables[name]
  const shown = Object.entries(columns).filter(([column]) => column !== hiddenColumn)
  return {
    database: DATABASE,
    name,
    columns: Object.fromEntries(shown),
    key: key.filter((column) => column !== hiddenColumn),
    view: null,
    ...commentsOf(name, Object.keys(columns)),
  }
})

const chainViews = Object.entries(views).map(([name, { columns, sql }]): VisibleTable => {
  const names = Object.keys(columns)
  const key = names.slice(0, 1)
  return { database: DATABASE, name, columns, key, view: sql, ...commentsOf(name, names) }
})

function commentsOf(
  table: string,
  columns: readonly string[],
): Pick<VisibleTable, 'comment' | 'comments'> {
  const comments = columns.map((column) => [column, columnComment(table, column)])
  return { comment: tableComment(table), comments: Object.fromEntries(comments) }
}

/** Columns of the tables about tables; the engine itself has `numbers`, `zeros`, `functions`. */
const catalogueTables: Readonly<Record<string, string>> = {
  'system.numbers': 'number UInt64',
  'system.one': 'dummy UInt8',
  'system.zeros': 'zero UInt8',
  'system.functions': 'name String, is_aggregate UInt8, case_insensitive UInt8, alias_to String',
  'system.formats': 'name String, is_input UInt8, is_output UInt8',
  'system.settings':
    'name String, value String, changed UInt8, description String, readonly UInt8, type String, ' +
    'default String',
  'system.databases': 'name String, engine String, uuid String, comment String',
  'system.tables':
    'database String, name String, uuid String, engine String, is_temporary UInt8, ' +
    'create_table_query String, engine_full String, partition_key String, sorting_key String, ' +
    'primary_key String, sampling_key String, total_rows Nullable(UInt64), ' +
    'total_bytes Nullable(UInt64), comment String',
  'system.columns':
    'database String, table String, name String, type String, position UInt64, ' +
    'default_kind String, default_expression String, comment String, is_in_partition_key UInt8, ' +
    'is_in_sorting_key UInt8, is_in_primary_key UInt8, is_in_sampling_key UInt8',
  'information_schema.schemata':
    'catalog_name String, schema_name String, schema_owner String, ' +
    'default_character_set_name String',
  'information_schema.tables':
    'table_catalog String, table_schema String, table_name String, table_type String, ' +
    'table_comment String',
  'information_schema.columns':
    'table_catalog String, table_schema String, table_name String, column_name String, ' +
    'ordinal_position UInt64, column_default String, is_nullable String, data_type String, ' +
    'column_type String, column_comment String, extra String',
}

export const visibleTables: readonly VisibleTable[] = [
  ...chainTables,
  ...chainViews,
  ...Object.entries(catalogueTables).map(([path, text]): VisibleTable => {
    const [database, name] = path.split('.') as [Database, string]
    const columns = Object.fromEntries(text.split(', ').map((column) => column.split(' ')))
    const key = Object.keys(columns).slice(0, 1)
    return { database, name, columns, key, view: null, comment: '', comments: {} }
  }),
].sort((a, b) => (`${a.database}.${a.name}` < `${b.database}.${b.name}` ? -1 : 1))

export function visibleTable(database: string | null, name: string): VisibleTable | undefined {
  // The tables of this database have names in both cases, too.
  const wanted = database === 'information_schema' ? name.toLowerCase() : name
  return visibleTables.find((one) => one.database === database && one.name === wanted)
}

/** Cells in the order of the table's columns. */
export type SystemRow = readonly (string | number | null)[]

/** Rows by `database.table`; the tables that are missing are the engine's own. */
export function systemRows(
  engine: string,
  sizes: TableSizes = {},
): Readonly<Record<string, readonly SystemRow[]>> {
  const columns = visibleTables.flatMap(columnRows)
  return {
    'system.one': [[0]],
    'system.formats': formats.map(({ name }) => [name, 0, 1]),
    'system.settings': settingRows().map(({ name, value, description }) => [
      ...[name, value, 0, description, 0],
      ...['String', value],
    ]),
    'system.databases': databases.map((name) => [name, engine, '', '']),
    'system.tables': visibleTables.map((table) => tableRow(table, engine, sizes)),
    'system.columns': columns.map(({ cells, isKey, comment }) => [
      ...cells.slice(0, 5),
      ...['', '', comment, 0, isKey, isKey, 0],
    ]),
    'information_schema.schemata': databases.map((name) => [name, name, 'default', '']),
    'information_schema.tables': visibleTables.map(({ database, name, view, comment }) => {
      const stored = view === null ? 'BASE TABLE' : 'VIEW'
      const kind = database === DATABASE ? stored : 'SYSTEM VIEW'
      return [database, database, name, kind, comment]
    }),
    'information_schema.columns': columns.map(
      ({ cells: [database, table, name, type, position], comment }) =>
        [
          ...[database, database, table, name, position],
          ...['', type.startsWith('Nullable(') ? '1' : '0', type, type, comment, ''],
        ] as SystemRow,
    ),
  }
}

/** The size of `usage` is that of all customers, and theirs alone to know. */
function tableRow(table: VisibleTable, engine: string, sizes: TableSizes): SystemRow {
  const key = table.view === null ? table.key.join(', ') : ''
  const kind = table.view === null ? engine : 'View'
  const size =
    table.database === DATABASE && table.name !== 'usage' && sizes[table.name as TableName]
  const { rows, bytes } = size || { rows: null, bytes: null }
  const head = [table.database, table.name, '', kind, 0, createText(table), '', '', key, key, '']
  return [...head, rows, bytes, table.comment]
}

/** The statement of SHOW CREATE TABLE. */
export function createText({ database, name, columns, key, view, ...said }: VisibleTable): string {
  const noted = (comment = '') => (comment === '' ? '' : ` COMMENT ${clickhouseString(comment)}`)
  const lines = Object.entries(columns).map(
    ([column, type]) => `    ${column} ${type}${noted(said.comments[column])}`,
  )
  const kind = view === null ? 'TABLE' : 'VIEW'
  const rest = view === null ? `ORDER BY (${key.join(', ')})` : `AS ${view}`
  const end = noted(said.comment).replace(' ', '\n')
  return `CREATE ${kind} ${database}.${name}\n(\n${lines.join(',\n')}\n)\n${rest}${end}`
}

function columnRows({ database, name: table, columns, key, view, comments }: VisibleTable) {
  return Object.entries(columns).map(([name, type], index) => ({
    cells: [database, table, name, type, index + 1] as const,
    isKey: view === null && key.includes(name) ? 1 : 0,
    comment: comments[name] ?? '',
  }))
}
