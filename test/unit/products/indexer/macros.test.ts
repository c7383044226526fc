// ClickHouse functions as DuckDB macros: the values below are what ClickHouse 18.16 returns, and
// where a server is installed they are compared with it.
import { DuckDBInstance } from '@duckdb/node-api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { macros } from '../../../../src/products/indexer/duckdb/macros.ts'
import {
  type ClickhouseServer,
  hasClickhouseServer,
  startClickhouseServer,
} from '../../../testkit/clickhouse-server.ts'

/** What both answer, as texts. */
const scalars: readonly (readonly [expression: string, value: string])[] = [
  ['toUInt8(5)', '5'],
  ["toUInt8('5')", '5'],
  ['toUInt16(5.7)', '5'],
  ["toUInt32('4294967295')", '4294967295'],
  ["toUInt64('18446744073709551615')", '18446744073709551615'],
  ['toUInt64(18446744073709551615)', '18446744073709551615'],
  ["toUInt64(toDateTime('2026-03-15 13:47:29'))", '1773582449'],
  ['toInt8(-5.7)', '-5'],
  ["toInt16('-300')", '-300'],
  ['toInt32(-7)', '-7'],
  ["toInt64('-9223372036854775808')", '-9223372036854775808'],
  ['toFloat32(0.5)', '0.5'],
  ["toFloat64('0.1')", '0.1'],
  ["toUInt64OrZero('x')", '0'],
  ["toUInt64OrZero('7')", '7'],
  ["toInt32OrNull('x')", '\\N'],
  ["toFloat64OrZero('1.5')", '1.5'],
  ['toString(5)', '5'],
  ['toString(toFloat64(1))', '1'],
  ['toString(toFloat64(1.25))', '1.25'],
  ["toString(toDateTime('2026-03-15 13:47:29'))", '2026-03-15 13:47:29'],
  ["empty('')", '1'],
  ["notEmpty('')", '0'],
  ["notEmpty('x')", '1'],
  ['empty([1])', '0'],
  ["lengthUTF8('añb')", '3'],
  ["lowerUTF8('AÑ')", 'añ'],
  ["upperUTF8('añ')", 'AÑ'],
  ["lower('ABC')", 'abc'],
  ["upper('abc')", 'ABC'],
  ["length('abc')", '3'],
  ['length([1, 2, 3])', '3'],
  ["substring('abcdef', 2, 3)", 'bcd'],
  ["substringUTF8('añbc', 2, 2)", 'ñb'],
  ["startsWith('abc', 'ab')", '1'],
  ["endsWith('abc', 'ab')", '0'],
  ["positionUTF8('añb', 'b')", '3'],
  ["positionCaseInsensitive('abC', 'c')", '3'],
  ["replaceAll('aXbX', 'X', 'yy')", 'ayybyy'],
  ["replaceRegexpAll('a1b22', '[0-9]+', '#')", 'a#b#'],
  ["replaceRegexpOne('a1b22', '[0-9]+', '#')", 'a#b22'],
  ["match('abc', 'b.')", '1'],
  ["match('abc', '^b')", '0'],
  ["splitByChar(',', 'a,b,c')", "['a','b','c']"],
  ["splitByString('--', 'a--b')", "['a','b']"],
  ["arrayStringConcat(['a', 'b'], '-')", 'a-b'],
  ["arrayStringConcat(['a', 'b'])", 'ab'],
  ['hex(255)', 'FF'],
  ['hex(256)', '0100'],
  ['hex(0)', '00'],
  ["hex('abc')", '616263'],
  ["unhex('616263')", 'abc'],
  ['formatReadableSize(0)', '0.00 B'],
  ['formatReadableSize(1000)', '1000.00 B'],
  ['formatReadableSize(1536)', '1.50 KiB'],
  ['formatReadableSize(123456789)', '117.74 MiB'],
  ['formatReadableSize(1099511627776)', '1.00 TiB'],
  ["toDate('2026-03-15')", '2026-03-15'],
  ["toDate(toDateTime('2026-03-15 13:47:29'))", '2026-03-15'],
  ['toDate(20527)', '2026-03-15'],
  ["toDateTime('2026-03-15 13:47:29')", '2026-03-15 13:47:29'],
  ['toDateTime(1773582449)', '2026-03-15 13:47:29'],
  ["toDateTime(toDate('2026-03-15'))", '2026-03-15 00:00:00'],
  ["toUnixTimestamp(toDateTime('2026-03-15 13:47:29'))", '1773582449'],
  ["toStartOfMinute(toDateTime('2026-03-15 13:47:29'))", '2026-03-15 13:47:00'],
  ["toStartOfFiveMinute(toDateTime('2026-03-15 13:47:29'))", '2026-03-15 13:45:00'],
  ["toStartOfFifteenMinutes(toDateTime('2026-03-15 13:47:29'))", '2026-03-15 13:45:00'],
  ["toStartOfHour(toDateTime('2026-03-15 13:47:29'))", '2026-03-15 13:00:00'],
  ["toStartOfDay(toDateTime('2026-03-15 13:47:29'))", '2026-03-15 00:00:00'],
  ["toStartOfMonth(toDateTime('2026-03-15 13:47:29'))", '2026-03-01'],
  ["toStartOfQuarter(toDateTime('2026-03-15 13:47:29'))", '2026-01-01'],
  ["toStartOfYear(toDateTime('2026-03-15 13:47:29'))", '2026-01-01'],
  ["toMonday(toDateTime('2026-03-15 13:47:29'))", '2026-03-09'],
  ["toYear(toDateTime('2026-03-15 13:47:29'))", '2026'],
  ["toQuarter(toDateTime('2026-03-15 13:47:29'))", '1'],
  ["toMonth(toDateTime('2026-03-15 13:47:29'))", '3'],
  ["toDayOfMonth(toDateTime('2026-03-15 13:47:29'))", '15'],
  ["toDayOfWeek(toDateTime('2026-03-15 13:47:29'))", '7'],
  ["toDayOfYear(toDateTime('2026-03-15 13:47:29'))", '74'],
  ["toHour(toDateTime('2026-03-15 13:47:29'))", '13'],
  ["toMinute(toDateTime('2026-03-15 13:47:29'))", '47'],
  ["toSecond(toDateTime('2026-03-15 13:47:29'))", '29'],
  ["toYYYYMM(toDateTime('2026-03-15 13:47:29'))", '202603'],
  ["toYYYYMMDD(toDateTime('2026-03-15 13:47:29'))", '20260315'],
  ["toYYYYMMDDhhmmss(toDateTime('2026-03-15 13:47:29'))", '20260315134729'],
  ["addSeconds(toDateTime('2026-03-15 13:47:29'), 31)", '2026-03-15 13:48:00'],
  ["addMinutes(toDateTime('2026-03-15 13:47:29'), -47)", '2026-03-15 13:00:29'],
  ["addHours(toDateTime('2026-03-15 13:47:29'), 11)", '2026-03-16 00:47:29'],
  ["addDays(toDateTime('2026-03-15 13:47:29'), 20)", '2026-04-04 13:47:29'],
  ["addWeeks(toDateTime('2026-03-15 13:47:29'), 1)", '2026-03-22 13:47:29'],
  ["addMonths(toDateTime('2026-03-15 13:47:29'), 1)", '2026-04-15 13:47:29'],
  ["addYears(toDateTime('2026-03-15 13:47:29'), 1)", '2027-03-15 13:47:29'],
  ["subtractSeconds(toDateTime('2026-03-15 13:47:29'), 30)", '2026-03-15 13:46:59'],
  ["subtractMinutes(toDateTime('2026-03-15 13:47:29'), 48)", '2026-03-15 12:59:29'],
  ["subtractHours(toDateTime('2026-03-15 13:47:29'), 14)", '2026-03-14 23:47:29'],
  ["subtractDays(toDateTime('2026-03-15 13:47:29'), 15)", '2026-02-28 13:47:29'],
  ["subtractWeeks(toDateTime('2026-03-15 13:47:29'), 3)", '2026-02-22 13:47:29'],
  ["subtractMonths(toDateTime('2026-03-15 13:47:29'), 1)", '2026-02-15 13:47:29'],
  ["subtractYears(toDateTime('2026-03-15 13:47:29'), 1)", '2025-03-15 13:47:29'],
  ["toDateTime('2026-03-15 13:47:29') + toIntervalHour(2)", '2026-03-15 15:47:29'],
  ["toDateTime('2026-03-15 13:47:29') + toIntervalDay(2)", '2026-03-17 13:47:29'],
  ["toDateTime('2026-03-15 13:47:29') - INTERVAL 1 HOUR", '2026-03-15 12:47:29'],
  [
    "dateDiff('minute', toDateTime('2026-03-15 13:47:29'), toDateTime('2026-03-15 14:01:00'))",
    '14',
  ],
  ["dateDiff('hour', toDateTime('2026-03-15 13:47:29'), toDateTime('2026-03-16 14:01:00'))", '25'],
  ["now() >= toDateTime('2026-01-01 00:00:00')", '1'],
  ["today() >= toDate('2026-01-01')", '1'],
  ['yesterday() < today()', '1'],
  ['has([1, 2, 3], 2)', '1'],
  ["has(['a'], 'b')", '0'],
  ['hasAny([1, 2], [2, 5])', '1'],
  ['hasAll([1, 2], [2, 5])', '0'],
  ['indexOf([5, 6, 7], 6)', '2'],
  ['indexOf([5, 6, 7], 9)', '0'],
  ["arrayElement(['a', 'b'], 2)", 'b'],
  ['arraySlice([1, 2, 3, 4], 2, 2)', '[2,3]'],
  ['arraySlice([1, 2, 3, 4], 3)', '[3,4]'],
  ['arraySort([3, 1, 2])', '[1,2,3]'],
  ['arrayReverseSort([3, 1, 2])', '[3,2,1]'],
  ['arrayReverse([3, 1, 2])', '[2,1,3]'],
  ['arrayDistinct([1, 1])', '[1]'],
  ['arrayUniq([1, 1, 2])', '2'],
  ['arrayConcat([1], [2, 3])', '[1,2,3]'],
  ['arraySum([1, 2, 3])', '6'],
  ['intDiv(7, 2)', '3'],
  ['intDiv(-7, 2)', '-3'],
  ['intDivOrZero(7, 0)', '0'],
  ['modulo(7, 3)', '1'],
  ['modulo(-7, 3)', '-1'],
  ['plus(1, 2)', '3'],
  ['minus(5, 2)', '3'],
  ['multiply(3, 4)', '12'],
  ['divide(7, 2)', '3.5'],
  ['equals(1, 1)', '1'],
  ['notEquals(1, 1)', '0'],
  ['less(1, 2)', '1'],
  ['lessOrEquals(2, 2)', '1'],
  ['greater(1, 2)', '0'],
  ['greaterOrEquals(2, 2)', '1'],
  ['negate(5)', '-5'],
  ['bitAnd(12, 10)', '8'],
  ['bitOr(12, 10)', '14'],
  ['bitXor(12, 10)', '6'],
  ['bitShiftLeft(1, 4)', '16'],
  ['bitShiftRight(256, 4)', '16'],
  ['bitTest(5, 2)', '1'],
  ['bitTest(5, 1)', '0'],
  ['assumeNotNull(5)', '5'],
  ['toNullable(5)', '5'],
  ['materialize(5)', '5'],
  ['identity(5)', '5'],
  ['ifNull(NULL, 5)', '5'],
  ['coalesce(NULL, 5)', '5'],
  ['nullIf(5, 6)', '5'],
  ["if(1 = 1, 'a', 'b')", 'a'],
  ['greatest(1, 5)', '5'],
  ['least(1, 5)', '1'],
  ['abs(-5)', '5'],
  ['round(2.567, 2)', '2.57'],
  ['floor(2.7)', '2'],
  ['ceil(2.1)', '3'],
  ["concat('a', 'b')", 'ab'],
  ["reverse('abc')", 'cba'],
  ["currentDatabase() = 'default' OR currentDatabase() = 'chain'", '1'],
]

/** The same over a column x with the numbers 1 to 10. */
const aggregates: typeof scalars = [
  ['count()', '10'],
  ['uniq(x)', '10'],
  ['uniq(x % 3)', '3'],
  ['uniq(x % 3, x % 2)', '6'],
  ['uniqExact(x % 4)', '4'],
  ['uniqCombined(x % 4)', '4'],
  ['uniqHLL12(x % 4)', '4'],
  ['uniqExactIf(x % 4, x > 8)', '2'],
  ['uniqIf(x % 4, x > 8)', '2'],
  ['countIf(x > 3)', '7'],
  ['sumIf(x, x > 3)', '49'],
  ['sumIf(x, x > 100)', '0'],
  ['avgIf(x, x > 3)', '7'],
  ['minIf(x, x > 3)', '4'],
  ['maxIf(x, x < 3)', '2'],
  ['anyLast(7)', '7'],
  ['anyIf(7, x > 3)', '7'],
  ['anyHeavy(7)', '7'],
  ['groupArray(x)', '[1,2,3,4,5,6,7,8,9,10]'],
  ['arraySort(groupArrayIf(x, x > 8))', '[9,10]'],
  ['arraySort(groupUniqArray(x % 3))', '[0,1,2]'],
  ['argMin(x % 7, x)', '1'],
  ['argMax(x % 7, x)', '3'],
  ['argMaxIf(x, x, x < 5)', '4'],
  ['argMinIf(x, x, x > 5)', '6'],
  ['median(x)', '5.5'],
  ['quantile(x)', '5.5'],
  ['quantileExact(x)', '6'],
  ['medianExact(x)', '6'],
  ['varPop(x)', '8.25'],
  ['round(varSamp(x), 6)', '9.166667'],
  ['round(stddevPop(x), 6)', '2.872281'],
  ['round(stddevSamp(x), 6)', '3.02765'],
  ['covarPop(x, x * 2)', '16.5'],
  ['round(covarSamp(x, x * 2), 6)', '18.333333'],
  ['groupBitAnd(x)', '0'],
  ['groupBitOr(x)', '15'],
  ['groupBitXor(x)', '11'],
  ['sum(x)', '55'],
  ['avg(x)', '5.5'],
  ['min(x)', '1'],
  ['max(x)', '10'],
]

describe('ClickHouse functions in DuckDB', () => {
  test('are CREATE MACRO statements that DuckDB accepts, each name once', async () => {
    await prepared()
    const names = macros.map(({ name }) => name.toLowerCase())
    expect(new Set(names).size).toBe(names.length)
  })

  test('return what ClickHouse returns', async () => {
    const ask = await prepared()
    const wrong: string[] = []
    for (const [expression, value] of scalars) {
      const found = await ask(`SELECT ${expression}`)
      if (found !== plain(value)) wrong.push(`${expression} = ${found}, not ${value}`)
    }
    for (const [expression, value] of aggregates) {
      const found = await ask(`SELECT ${expression} FROM (SELECT x FROM range(1, 11) t(x))`)
      if (found !== plain(value)) wrong.push(`${expression} = ${found}, not ${value}`)
    }
    expect(wrong).toEqual([])
  })

  test('fail on overflow instead of wrapping', async () => {
    const ask = await prepared()
    await expect(ask('SELECT toUInt8(300)')).rejects.toThrow(/out of range|UINT8/i)
  })
})

describe.skipIf(!hasClickhouseServer())('ClickHouse itself (skipped: no clickhouse-server)', () => {
  let server: ClickhouseServer
  beforeAll(async () => {
    server = await startClickhouseServer()
  })
  afterAll(() => server?.stop())

  test('returns the values of the list above', async () => {
    const wrong: string[] = []
    const compare = async (expression: string, value: string, from: string) => {
      const found = (await server.ask(`SELECT ${expression}${from} FORMAT TabSeparated`)).slice(
        0,
        -1,
      )
      if (found !== value) wrong.push(`${expression} = ${found}, not ${value}`)
    }
    for (const [expression, value] of scalars) await compare(expression, value, '')
    const numbers = ' FROM (SELECT number AS x FROM numbers(1, 10))'
    for (const [expression, value] of aggregates) await compare(expression, value, numbers)
    expect(wrong).toEqual([])
  })
})

async function prepared(): Promise<(sql: string) => Promise<string>> {
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  for (const { sql } of macros) await connection.run(sql)
  return async (sql) => {
    const rows = (await connection.runAndReadAll(sql)).getRowsJson()
    return shown(rows[0]?.[0])
  }
}

function shown(value: unknown): string {
  if (typeof value === 'boolean') return value ? '1' : '0'
  if (Array.isArray(value)) return `[${value.map(shown).join(',')}]`
  return value === null ? '\\N' : String(value)
}

/** Texts inside arrays without their quotes. */
function plain(value: string): string {
  return value.startsWith('[') ? value.replaceAll("'", '') : value
}
