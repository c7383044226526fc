// The SQL that makes `system`, `information_schema` and ClickHouse's table functions in DuckDB.
// Thread: main of a query process; runs once, before the configuration is locked.

import { EMULATED_VERSION, type SystemRow, systemRows, visibleTables } from '../catalogue.ts'
import { aggregateNames } from '../clickhouse/duckdb/aggregates.ts'
import { allowedFunctions } from '../clickhouse/duckdb/allowed-functions.ts'
import { functionNames } from '../clickhouse/duckdb/functions.ts'
import { sqlTypes } from '../clickhouse/duckdb/types.ts'
import { duckdbString } from '../clickhouse/sql/quoting.ts'
import { schemaOf } from './schemas.ts'

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
  const typed = types.map(([name, type]) => `CAST("${name}" AS ${sqlTypes[type]}) AS "${name}"`)
  const values = rows.map((row) => `(${row.map(cell).join(', ')})`)
  return `CREATE TABLE ${placeOf(path)} AS
    SELECT ${typed.join(', ')} FROM (VALUES ${values.join(', ')}) AS t(${names})`
}

function cell(value: string | number): string {
  return typeof value === 'number' ? String(value) : duckdbString(value)
}
