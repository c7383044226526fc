// The tables of the catalogue, and their names in DuckDB. Data only.
import { databaseOf, visibleTable, visibleTables } from '../catalogue.ts'
import type { Catalogue } from '../clickhouse/duckdb/entry.ts'
import { duckdbName } from '../clickhouse/sql/lexer.ts'

/** Schemas of the databases whose names DuckDB uses itself. */
export const schemaOf: Readonly<Record<string, string>> = {
  system: 'system_',
  information_schema: 'information_schema_',
  default: 'chain',
}

export const catalogue: Catalogue = {
  table: (written, name) => {
    const table = visibleTable(databaseOf(written), name)
    if (table === undefined) return undefined
    const schema = schemaOf[table.database] ?? table.database
    return { ...table, sql: `${schema}.${duckdbName(table.name)}` }
  },
  namesOf: (written) => {
    const database = databaseOf(written)
    return visibleTables.filter((one) => one.database === database).map(({ name }) => name)
  },
}
