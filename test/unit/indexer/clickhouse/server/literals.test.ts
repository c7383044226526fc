// Parameters as literals: whatever a value contains, it stays one literal.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { literal, withLiterals } from '../../../../../src/indexer/clickhouse/server/rebuild.ts'
import { clickhouseString, lex } from '../../../../../src/indexer/clickhouse/sql/lexer.ts'

describe('literals', () => {
  test('are one string token whatever the text', () => {
    const hard = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc
        .array(fc.constantFrom("'", '\\', '"', '`', '\0', '\n', '--', '/*', ';', 'x'))
        .map((all) => all.join('')),
    )
    fc.assert(
      fc.property(hard, (text) => {
        const written = clickhouseString(text)
        const tokens = lex(`${written} `)
        expect(tokens).toEqual([{ kind: 'string', start: 0, end: written.length }])
      }),
    )
  })

  test('have their types', () => {
    const one = (type: string, value: string | null) => literal({ type, value })
    expect(one('UInt64', '18446744073709551615')).toBe("CAST('18446744073709551615' AS UInt64)")
    expect(one('String', "it's")).toBe("'it\\'s'")
    expect(one('Nullable(UInt8)', null)).toBe('CAST(NULL AS Nullable(UInt8))')
    expect(one('Nullable(UInt8)', '5')).toBe("CAST('5' AS UInt8)")
    expect(one('DateTime', '2026-01-02 03:04:05')).toBe(
      "CAST('2026-01-02 03:04:05' AS DateTime('UTC'))",
    )
    expect(one('Bool', 'true')).toBe('true')
    const numbers = ['1', '2'].map((value) => ({ type: 'UInt64', value }))
    expect(literal({ type: 'Array(UInt64)', value: numbers })).toBe('CAST([1, 2] AS Array(UInt64))')
    expect(literal({ type: 'Array(String)', value: [] })).toBe('CAST([] AS Array(String))')
  })

  test('are plain numbers where SQL requires one', () => {
    const count = { type: 'UInt32', value: '5' }
    expect(withLiterals({ texts: ['SELECT 1 LIMIT ', ''], values: [count] }, true)).toBe(
      'SELECT 1 LIMIT 5',
    )
    expect(withLiterals({ texts: ['SELECT 1 LIMIT 2, ', ''], values: [count] }, true)).toBe(
      'SELECT 1 LIMIT 2, 5',
    )
    expect(withLiterals({ texts: ['SELECT slot > ', ''], values: [count] }, true)).toContain(
      'CAST(',
    )
  })

  test('are a list after IN, which servers of every age take', () => {
    const inList = (type: string, ...values: string[]) =>
      withLiterals(
        {
          texts: ['SELECT 1 WHERE x NOT IN ', ' AND y'],
          values: [{ type: `Array(${type})`, value: values.map((value) => ({ type, value })) }],
        },
        true,
      )
    expect(inList('UInt64', '1', '2')).toBe('SELECT 1 WHERE x NOT IN  (1, 2)  AND y')
    expect(inList('String', "a'b")).toContain(" ('a\\'b') ")
    expect(inList('Date', '2026-01-02')).toContain('AS Array(Date))')
    expect(inList('UInt64')).toContain('CAST([] AS Array(UInt64))')
  })

  test('are numbers instead of Bool for a server without the type', () => {
    const type = "Tuple(Array(Bool), Enum8('Bool' = 1))"
    const flags = { type: 'Array(Bool)', value: [{ type: 'Bool', value: 'true' }] }
    const value = [flags, { type: "Enum8('Bool' = 1)", value: 'Bool' }]
    const written = (hasBool: boolean) =>
      withLiterals({ texts: ['', ''], values: [{ type, value }] }, hasBool).trim()
    expect(written(true)).toBe(`CAST(tuple([true], 'Bool') AS ${type})`)
    const plain = "Tuple(Array(UInt8), Enum8('Bool' = 1))"
    expect(written(false)).toBe(`CAST(tuple([1], 'Bool') AS ${plain})`)
  })
})
