// Cells as ClickHouse writes them, and the errors of values that a type does not have.
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { beforeAll, describe, expect, test } from 'vitest'
import { macros } from '../../../../../src/indexer/clickhouse/duckdb/definitions.ts'
import { engineError } from '../../../../../src/indexer/clickhouse/duckdb/engine-error.ts'
import {
  planned,
  renderingMacros,
  rowsSql,
} from '../../../../../src/indexer/clickhouse/duckdb/nested-text.ts'
import { translate } from '../../../../../src/indexer/clickhouse/duckdb/print-select.ts'
import { formatOf } from '../../../../../src/indexer/clickhouse/formats/formats.ts'
import { layoutOf } from '../../../../../src/indexer/clickhouse/formats/layouts.ts'
import { catalogue } from '../../../../../src/indexer/duckdb/schemas.ts'

let connection: DuckDBConnection
beforeAll(async () => {
  connection = await (await DuckDBInstance.create(':memory:')).connect()
  await connection.run([...macros.map(({ sql }) => sql), ...renderingMacros].join(';\n'))
})

/** The row in TSV. */
async function rowOf(expr: string): Promise<string> {
  const made = translate(`SELECT ${expr}`, { catalogue })
  if (!made.ok) throw new Error(made.error.message)
  const { sql, columns } = made.value
  const found = await planned(connection, sql, columns)
  const layout = layoutOf(formatOf('TSV', 'duckdb')!, columns)
  const rows = await connection.runAndReadAll(rowsSql(sql, found, layout, { quotes64: true }))
  return String(rows.getRows()[0]![0]).trimEnd()
}

describe('a time with nanoseconds in a time zone', () => {
  const text = "'2022-05-02 13:25:55.123456789'"
  test.each([
    [`toDateTime64(toDecimal128('1651490755.123456789', 9), 9, 'Europe/Amsterdam')`, '02 13'],
    [`toDateTime64(${text}, 9, 'Europe/Amsterdam')`, '02 13'],
    [`toString(toDateTime64(${text}, 9, 'Europe/Amsterdam'))`, '02 13'],
    [`toTimeZone(toDateTime64(${text}, 9), 'Europe/Amsterdam')`, '02 15'],
    [`addDays(toDateTime64(${text}, 9, 'Europe/Amsterdam'), 1)`, '03 13'],
  ])('keeps all of them: %s', async (expr, hour) => {
    expect(await rowOf(expr)).toBe(`2022-05-${hour}:25:55.123456789`)
  })
})

describe('a value that an Enum does not have', () => {
  test.each([
    [`CAST('zz' AS Enum8('a' = 1))`, 691, "Unknown element 'zz' for enum Enum8('a' = 1)"],
    [`CAST(7 AS Enum8('a' = 1))`, 36, "Unexpected value 7 in enum Enum8('a' = 1)"],
  ])('is named in the error of %s', async (expr, code, message) => {
    const error = await rowOf(expr).catch((thrown: Error) => engineError(thrown.message))
    expect(error).toMatchObject({ code, message })
  })

  test('is not NULL', async () => {
    expect(await rowOf(`CAST(NULL AS Nullable(Enum8('a' = 1)))`)).toBe('\\N')
    expect(await rowOf(`CAST('a' AS Enum8('a' = 1))`)).toBe('a')
  })
})
