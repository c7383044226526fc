// The catalogue that customers see: databases, tables, columns. Thread: any. Data only.
// The single source for SHOW and DESCRIBE of the endpoint and for `system.*` of an engine.
import { readColumns, type Table, tableNames, tables } from './tables.ts'

/** Database of the tables; `default` is an alias. */
export const DATABASE = 'chain'
export const databases = [DATABASE, 'system'] as const

export interface VisibleTable extends Pick<Table, 'columns' | 'key'> {
  readonly database: (typeof databases)[number]
  readonly name: string
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
  }
})

const systemTables = [
  { name: 'databases', columns: 'name String', key: ['name'] },
  {
    name: 'tables',
    columns: 'database String, name String, engine String, comment String',
    key: ['database', 'name'],
  },
  {
    name: 'columns',
    columns:
      'database String, table String, name String, type String, position UInt64, ' +
      'default_kind String, default_expression String, comment String, is_in_primary_key UInt8',
    key: ['database', 'table', 'position'],
  },
].map((table): VisibleTable => {
  return { ...table, database: 'system', columns: readColumns(table.columns) }
})

export const visibleTables: readonly VisibleTable[] = [...chainTables, ...systemTables].sort(
  (a, b) => (`${a.database}.${a.name}` < `${b.database}.${b.name}` ? -1 : 1),
)

export type SystemRow = Readonly<Record<string, string | number>>

/** The rows of `system.databases`, `system.tables` and `system.columns`. */
export function systemRows(engine: string): Readonly<Record<string, readonly SystemRow[]>> {
  return {
    databases: databases.map((name) => ({ name })),
    tables: visibleTables.map(({ database, name }) => ({ database, name, engine, comment: '' })),
    columns: visibleTables.flatMap(columnRows),
  }
}

function columnRows({ database, name: table, columns, key }: VisibleTable): SystemRow[] {
  return Object.entries(columns).map(([name, type], index) => ({
    database,
    table,
    name,
    type,
    position: index + 1,
    default_kind: '',
    default_expression: '',
    comment: '',
    is_in_primary_key: key.includes(name) ? 1 : 0,
  }))
}
