// Translation of ClickHouse syntax into DuckDB's. The differential test compares results with
// ClickHouse; this file checks the translated text.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toDuckdb } from '../../../../src/products/indexer/duckdb/dialect.ts'

const rewritten: readonly (readonly [clickhouse: string, duckdb: string])[] = [
  ['SELECT quantile(0.9)(fee) FROM t', 'SELECT quantile_cont(fee, 0.9) FROM t'],
  ['SELECT quantiles(0.5, 0.9)(fee)', 'SELECT quantile_cont(fee, [0.5, 0.9])'],
  ['SELECT quantileExact(0.5)(fee)', 'SELECT quantileExact(fee, 0.5)'],
  ['SELECT quantileIf(0.5)(a, b > 1)', 'SELECT quantileIf(a, b > 1, 0.5)'],
  ['SELECT topK(3)(program)', 'SELECT topK(program, 3)'],
  ['SELECT groupArray(2)(x)', 'SELECT groupArray(x)[1:2]'],
  ['SELECT any(x), ANY(y)', 'SELECT any_value(x), any_value(y)'],
  ['SELECT any(any(x))', 'SELECT any_value(any_value(x))'],
  ['SELECT multiIf(a > 1, 1, b, 2, 3)', 'SELECT CASE WHEN a > 1 THEN 1 WHEN b THEN 2 ELSE 3 END'],
  ['SELECT multiIf(f(1, 2), [1, 2], [])', 'SELECT CASE WHEN f(1, 2) THEN [1, 2] ELSE [] END'],
  ["SELECT position(s, 'x')", "SELECT instr(s, 'x')"],
  ["SELECT extract(s, '[0-9]+')", "SELECT regexp_extract(s, '[0-9]+')"],
  ['SELECT isNull(x) OR isNotNull(y)', 'SELECT ((x) IS NULL) OR ((y) IS NOT NULL)'],
  ['SELECT arrayMap(x -> x + 1, a)', 'SELECT list_transform(a, x -> x + 1)'],
  ['SELECT arrayFilter(x -> isNull(x), a)', 'SELECT list_filter(a, x -> ((x) IS NULL))'],
  ['SELECT toDateTime64(t, 3)', 'SELECT CAST(t AS TIMESTAMP_MS)'],
  ['SELECT 1 LIMIT 20, 10', 'SELECT 1 LIMIT 10 OFFSET 20'],
]

const untouched = [
  'SELECT \'any(x) quantile(0.5)(y)\', "any(x)" FROM t -- multiIf(1,2,3)',
  'SELECT 1 WHERE 5 = ANY (SELECT 1)',
  "SELECT position('a' IN s), extract(YEAR FROM t)",
  'SELECT any, quantile FROM t',
  'SELECT multiIf(1, 2)',
  'SELECT (a)(b), quantile(x, 0.5)',
  "SELECT 'open",
  ')(',
  '',
]

describe('translation to DuckDB', () => {
  test.each(rewritten)('writes %s as %s', (clickhouse, duckdb) => {
    expect(toDuckdb(clickhouse)).toBe(duckdb)
  })

  test.each(untouched)('leaves %s', (text) => {
    expect(toDuckdb(text)).toBe(text)
  })

  test('handles deep nesting', () => {
    const deep = (depth: number) => `${'quantile(1, 2)(any('.repeat(depth)}1${'))'.repeat(depth)}`
    expect(toDuckdb(deep(20_000))).toBe(deep(20_000))
    expect(toDuckdb(deep(45))).toContain('any_value(1)')
  })

  test('never throws, and leaves other text unchanged', () => {
    fc.assert(fc.property(fc.string(), (text) => typeof toDuckdb(text) === 'string'))
    const words = fc.constantFrom(
      'SELECT',
      'any',
      '(',
      ')',
      ',',
      'x',
      "'a'",
      'quantile',
      '0.5',
      '[',
      ']',
      '--',
      '\n',
    )
    fc.assert(
      fc.property(
        fc.array(words).map((all) => all.join(' ')),
        (text) => {
          expect(typeof toDuckdb(text)).toBe('string')
        },
      ),
    )
    const plain = fc.constantFrom(
      'SELECT',
      'fee',
      '(',
      ')',
      ',',
      'sum',
      "'a'",
      '"q"',
      '1',
      ' ',
      '+',
    )
    fc.assert(
      fc.property(
        fc.array(plain).map((all) => all.join(' ')),
        (text) => {
          expect(toDuckdb(text)).toBe(text)
        },
      ),
    )
  })
})
