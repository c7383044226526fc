// ClickHouse's SQL on DuckDB: the answers in test/golden/indexer/clauses.json are ClickHouse's own,
// over the same rows. The gate of the engine passes every printed statement.
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { macros } from '../../../../../src/indexer/clickhouse/duckdb/definitions.ts'
import { passGate } from '../../../../../src/indexer/clickhouse/duckdb/gate.ts'
import { translate } from '../../../../../src/indexer/clickhouse/duckdb/print-select.ts'
import { clickhouseString } from '../../../../../src/indexer/clickhouse/sql/lexer.ts'
import {
  ownMacroNames,
  systemNames,
  systemSql,
} from '../../../../../src/indexer/duckdb/query-database.ts'
import { catalogue } from '../../../../../src/indexer/duckdb/schemas.ts'

import golden from '../../../../golden/indexer/clauses.json' with { type: 'json' }
import { caseCount } from '../../../../testkit/case-count.ts'

const tables: Readonly<Record<string, string>> = {
  blocks: `SELECT CAST(100 + i AS UBIGINT) AS slot, CAST(99 + i AS UBIGINT) AS parent_slot,
    'h' || i AS blockhash, CAST(i AS UBIGINT) AS height,
    CAST(make_timestamp((1770000000 + i * 13) * 1000000) AS TIMESTAMP_S) AS block_time,
    CAST(i % 7 AS UINTEGER) AS tx_count FROM range(40) AS t(i)`,
  transactions: `SELECT CAST(100 + i // 3 AS UBIGINT) AS slot, CAST(i % 3 AS UINTEGER) AS idx,
    's' || i AS signature, 'p' || (i % 5) AS fee_payer, CAST(i % 4 <> 0 AS UTINYINT) AS success,
    CASE WHEN i % 4 = 0 THEN 'e' || (i % 3) ELSE '' END AS err,
    CAST(5000 + (i * 37) % 1000 AS UBIGINT) AS fee, CAST(i * 11 AS UBIGINT) AS compute_units,
    CAST(i % 2 AS TINYINT) AS "version",
    CAST(make_timestamp((1770000000 + (i // 3) * 13) * 1000000) AS TIMESTAMP_S) AS block_time
    FROM range(80) AS t(i)`,
  instructions: `SELECT CAST(100 + i // 3 AS UBIGINT) AS slot, CAST(i % 3 AS UINTEGER) AS idx,
    CAST(i % 2 AS USMALLINT) AS ix, CAST(-1 AS SMALLINT) AS inner_ix, 's' || i AS signature,
    'g' || (i % 4) AS "program", list_transform(range(i % 4), lambda x: 'a' || x) AS accounts,
    '' AS "data" FROM range(40) AS t(i)`,
}

let connection: DuckDBConnection
const names = new Set(Object.keys(tables))
const rules = {
  tables: { '': names, chain: names, ...systemNames },
  macros: new Set([...macros.map(({ name }) => name.toLowerCase()), ...ownMacroNames]),
  reserved: new Set<string>(),
}

beforeAll(async () => {
  connection = await (await DuckDBInstance.create(':memory:')).connect()
  await connection.run([...macros.map(({ sql }) => sql), systemSql()].join(';\n'))
  await connection.run('CREATE SCHEMA IF NOT EXISTS chain')
  for (const [name, sql] of Object.entries(tables))
    await connection.run(`CREATE TABLE chain.${name} AS ${sql}`)
})

async function answer(sql: string, hasJoinNulls = false) {
  const gated = await passGate(connection, { texts: [sql], values: [] }, rules, {
    hasJoinNulls,
    catalogue,
  })
  if (!gated.ok) throw new Error(`${gated.error.code} ${gated.error.message}`)
  const rows = (await connection.runAndReadAll(gated.value.sql)).getRowsJson()
  return { columns: gated.value.columns.map(({ name }) => name), rows: cellOf(rows) }
}

/** The cells of both engines in one form: numbers as texts, tuples as lists, NaN as null. */
function cellOf(cell: unknown): unknown {
  if (cell === null || /^(NaN|-?Infinity)$/.test(String(cell))) return null
  if (Array.isArray(cell)) return cell.map(cellOf)
  if (typeof cell === 'object') return Object.values(cell).map(cellOf)
  if (typeof cell === 'boolean') return cell
  const isNumber = typeof cell === 'number' || /^-?\d+(\.\d+)?(e[+-]?\d+)?$/.test(String(cell))
  return isNumber ? String(Number(Number(cell).toPrecision(12))) : cell
}

describe("ClickHouse's queries on DuckDB", () => {
  test.each(golden.cases)('$sql', async ({ sql, columns, rows }) => {
    expect(await answer(sql)).toEqual({ columns, rows: cellOf(rows) })
  })

  test('have NULL for what an outer join does not match only when asked', async () => {
    const sql = 'SELECT t.fee FROM blocks b LEFT JOIN transactions t ON b.slot = t.slot + 100'
    expect((await answer(`${sql} LIMIT 1`)).rows).toEqual([['0']])
    expect((await answer(`${sql} LIMIT 1`, true)).rows).toEqual([[null]])
  })

  test('take * as the columns of their table in a call', async () => {
    const made = { columns: ['sum(number)'], rows: [['10']] }
    expect(await answer('SELECT sum(*) FROM numbers(5)')).toEqual(made)
    await expect(answer('SELECT max(*) FROM blocks a, blocks b')).rejects.toThrow(/^48 \*/)
  })

  test('end at the last number that WHERE allows', async () => {
    const from = 'FROM system.numbers WHERE'
    for (const [sql, rows] of [
      [`SELECT number ${from} number = 2 LIMIT 1`, [['2']]],
      [`SELECT numbers.number AS n ${from} number % 2 = 1 AND number <= 3`, [['1'], ['3']]],
      ['SELECT count() FROM system.numbers AS t PREWHERE t.number < 7', [['7']]],
    ] as const)
      expect((await answer(sql)).rows).toEqual(rows)
    const shifted = await answer(
      'SELECT number - 5 AS number FROM (SELECT number FROM numbers(9)) WHERE number = 2',
    )
    expect(shifted.rows).toEqual([['2']])
  })

  test('read information_schema by names in both cases', async () => {
    const from = `FROM information_schema.columns AS columns
      INNER JOIN INFORMATION_SCHEMA.TABLES AS tables ON columns.TABLE_NAME = tables.TABLE_NAME
      WHERE columns.TABLE_NAME = 'blocks' AND column_name = 'slot'`
    expect(await answer(`SELECT columns.COLUMN_NAME, tables.table_name, EXTRA ${from}`)).toEqual({
      columns: ['COLUMN_NAME', 'tables.table_name', 'EXTRA'],
      rows: [['slot', 'blocks', '']],
    })
    const { columns } = await answer('SELECT * FROM INFORMATION_SCHEMA.SCHEMATA')
    expect(columns.slice(0, 2)).toEqual(['catalog_name', 'schema_name'])
    expect(columns.length).toBe(4)
  })

  test('are part of the error about a name that they do not have', async () => {
    await expect(answer('SELECT number  FR')).rejects.toThrow(
      'Unknown expression identifier `number` in scope SELECT number AS FR',
    )
    await expect(answer('SELECT * FROM nowhere')).rejects.toThrow(/'nowhere' in scope SELECT \*/)
  })

  test('have a Bool of Bools, and times of decimals', async () => {
    const types = 'toTypeName(true AND 1), toTypeName(NOT false), toTypeName(1 OR 0)'
    const { rows } = await answer(`SELECT true AND false, xor(true, 0), 1 AND 1, ${types}`)
    expect(rows).toEqual([[false, true, '1', 'Bool', 'Bool', 'UInt8']])
    const times = [3, 6, 9].map((n) => `toString(toDateTime64(toDecimal64('0.1239999', 7), ${n}))`)
    expect((await answer(`SELECT ${times.join(', ')}`)).rows).toEqual([
      ['123', '123999', '123999900'].map((digits) => `1970-01-01 00:00:00.${digits}`),
    ])
  })

  test('have their string literals as they are, whatever is in them', async () => {
    const texts = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: fc.constantFrom(...`'"\\$1*DFp-;/ \0`) }),
    )
    await fc.assert(
      fc.asyncProperty(
        texts.map((text) => text.replaceAll(/\p{Surrogate}/gu, '')),
        async (text) => {
          const literal = clickhouseString(text)
          const sql = `SELECT ${literal} AS a, countIf(${literal} = ${literal}) AS n, any(${literal})`
          const gated = await passGate(connection, { texts: [sql], values: [] }, rules, {
            catalogue,
          })
          if (!gated.ok) throw new Error(gated.error.message)
          const [row] = (await connection.runAndReadAll(gated.value.sql)).getRows()
          expect(row).toEqual([text, 1n, text])
        },
      ),
      { numRuns: caseCount(15, 150) },
    )
  })
})

describe('what is refused', () => {
  test.each([
    ['SELECT * FROM blocks SAMPLE 0.1', 48, /SAMPLE/],
    ['SELECT slot FROM blocks ORDER BY slot WITH FILL', 48, /WITH FILL/],
    ['SELECT count() c FROM blocks GROUP BY slot WITH TOTALS HAVING c > 1', 48, /WITH TOTALS/],
    ['SELECT * FROM (SELECT slot FROM blocks GROUP BY slot WITH TOTALS)', 48, /WITH TOTALS/],
    ["SELECT 1 INTO OUTFILE 'x'", 164, /INTO OUTFILE/],
    ['SELECT * FROM blocks NATURAL JOIN transactions', 48, /NATURAL JOIN/],
    ['SELECT * APPLY(sum) FROM blocks', 48, /APPLY/],
    ['SELECT sumState(slot) FROM blocks', 48, /sumState/],
    ['SELECT leadInFrame(slot) OVER (ORDER BY slot) FROM blocks', 48, /leadInFrame/],
    ['SELECT intDiv(1, 0)', 153, /zero/],
    ['SELECT blockhash + 1 FROM blocks', 43, /String and UInt8/],
    ['SELECT slot = blockhash FROM blocks', 386, /UInt64, String/],
    ['SELECT 1 UNION SELECT 2', 558, /ALL or DISTINCT/],
    ['SELECT CAST(1 AS Foo)', 50, /Foo/],
    ['SELECT slto FROM blocks', 47, /`slto`.*'slot'/],
    ['SELECT zzzzzzz FROM blocks', 47, /`zzzzzzz`$/],
    ['SELECT * FROM blcks', 60, /blocks/],
    ['INSERT INTO blocks SELECT 1', 164, /read-only/],
  ])('%s', (sql, code, message) => {
    const made = translate(sql, { catalogue })
    expect(made.ok ? null : made.error.code).toBe(code)
    expect(made.ok ? '' : made.error.message).toMatch(message)
  })

  test('are queries that become too large, in short time', () => {
    const doubled = Array.from({ length: 99 }, (_, at) => `, a${at} + a${at} AS a${at + 1}`)
    let recursive = 'SELECT 1 AS x'
    for (let at = 0; at < 60; at++)
      recursive = `WITH RECURSIVE r AS ((${recursive}) UNION ALL SELECT 1) SELECT x FROM r`
    for (const sql of [
      `SELECT 1 AS a0${doubled.join('')}`,
      recursive,
      `SELECT ${'('.repeat(9000)}1${')'.repeat(9000)}`,
      `SELECT 1${'+1'.repeat(9000)}`,
      `SELECT ${'- '.repeat(9000)}1`,
      `SELECT [1]${'[1]'.repeat(5000)}`,
      `SELECT 1${' UNION ALL SELECT 1'.repeat(3000)}`,
      `SELECT 1 FROM blocks${' JOIN blocks b USING slot'.repeat(2000)}`,
      `SELECT 1::${'Array('.repeat(3000)}UInt8${')'.repeat(3000)}`,
      `SELECT concat(1${',1'.repeat(130_000)})`,
    ])
      expect(translate(sql, { catalogue }).ok, sql.slice(0, 60)).toBe(false)
    expect(translate(`SELECT 1${' OR 1'.repeat(4000)}`, { catalogue }).ok).toBe(true)
  })

  test('never throws', () => {
    const words = fc.constantFrom(
      ...'SELECT FROM WHERE blocks slot ( ) [ ] , . * + - = 1 x AS IN NOT CASE WHEN THEN END'.split(
        ' ',
      ),
      ...[
        "'a'",
        'count',
        'BETWEEN',
        'AND',
        'INTERVAL',
        'DAY',
        'JOIN',
        'ON',
        'USING',
        'ARRAY',
        '->',
      ],
      ...[
        'LIMIT',
        'BY',
        'WITH',
        'UNION',
        'ALL',
        'OVER',
        '{a:UInt8}',
        '::',
        'UInt8',
        '?',
        ':',
        '"q"',
      ],
    )
    fc.assert(
      fc.property(fc.array(words, { maxLength: 25 }), (parts) => {
        expect(typeof translate(`SELECT ${parts.join(' ')}`, { catalogue }).ok).toBe('boolean')
      }),
      { numRuns: 2_000 },
    )
  })
})
