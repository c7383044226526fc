// Values of query parameters, each type with what it takes and what it refuses.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseValue } from '../../../../src/indexer/clickhouse/sql/parameters.ts'
import { parseType } from '../../../../src/indexer/clickhouse/sql/types.ts'

function value(type: string, text: string): unknown {
  const parsed = parseType(type)
  if (parsed === null) throw new Error(`no type ${type}`)
  return parseValue(parsed, text)?.value
}

const takes: readonly (readonly [type: string, text: string, canonical: unknown])[] = [
  ['UInt8', '255', '255'],
  ['UInt8', '+007', '7'],
  ['Int8', '-128', '-128'],
  ['UInt64', '18446744073709551615', '18446744073709551615'],
  ['Int128', `-${2n ** 127n}`, `-${2n ** 127n}`],
  ['Float64', '-1.5e-3', '-1.5e-3'],
  ['Float64', 'nan', 'nan'],
  ['Float32', '+inf', 'inf'],
  ['Bool', '1', 'true'],
  ['Bool', 'FALSE', 'false'],
  ['String', '', ''],
  ['String', "a\\tb\\n\\\\\\'\\x41", "a\tb\n\\'A"],
  ['FixedString(2)', 'é', 'é'],
  ['UUID', '00000000-0000-0000-0000-0000000000AF', '00000000-0000-0000-0000-0000000000af'],
  ['Date', '2024-02-29', '2024-02-29'],
  ['DateTime', '2026-01-02 03:04:05', '2026-01-02 03:04:05'],
  ['DateTime', '2026-01-02T03:04:05Z', '2026-01-02 03:04:05'],
  ['DateTime', '0000000001', '1970-01-01 00:00:01'],
  ["DateTime('UTC')", '1', '1970-01-01 00:00:01'],
  ['DateTime64(3)', '1767323045.678', '2026-01-02 03:04:05.678'],
  ["DateTime64(9, 'UTC')", '2026-01-02 03:04:05', '2026-01-02 03:04:05.000000000'],
  ['Decimal(10, 2)', '-12.50', '-12.5'],
  ['Decimal64(4)', '0.0001', '0.0001'],
  ['Nullable(UInt8)', '\\N', null],
  ['Nullable(String)', 'x', 'x'],
  ['LowCardinality(String)', 'x', 'x'],
  ['Identifier', 'block_time', 'block_time'],
]

const refuses: readonly (readonly [type: string, text: string])[] = [
  ['UInt8', '256'],
  ['UInt8', '-1'],
  ['UInt8', ''],
  ['UInt8', '1.0'],
  ['UInt8', '\\N'],
  ['UInt64', '18446744073709551616'],
  ['Float64', '1,5'],
  ['Float64', 'e5'],
  ['Bool', 'yes'],
  ['String', 'a\\'],
  ['String', '\\xZZ'],
  ['FixedString(1)', 'é'],
  ['UUID', 'x'],
  ['Date', '2023-02-29'],
  ['Date', '20230228'],
  ['DateTime', '2026-01-02 24:00:00'],
  ['DateTime64(3)', '2026-13-02 00:00:00'],
  ['Decimal(4, 2)', '123'],
  ['Decimal(4, 2)', '1.234'],
  ['Decimal(4, 2)', '.'],
  ['Array(UInt8)', '[1'],
  ['Array(UInt8)', '[1,]'],
  ['Array(UInt8)', '[1]]'],
  ['Array(UInt8)', '[300]'],
  ['Array(String)', '[a]'],
  ['Array(String)', "['a' 'b']"],
  ['Identifier', 'a b'],
  ['Identifier', '1a'],
]

describe('values of parameters', () => {
  it('are taken in one canonical form', () => {
    for (const [type, text, canonical] of takes)
      expect([type, text, value(type, text)]).toEqual([type, text, canonical])
  })

  it('are refused when they are none of their type', () => {
    for (const [type, text] of refuses)
      expect([type, text, value(type, text)]).toEqual([type, text, undefined])
  })

  it('are arrays of arrays, with NULL where it may be', () => {
    const item = (type: string, inner: unknown) => ({ type, value: inner })
    expect(value('Array(UInt8)', '[]')).toEqual([])
    expect(value('Array(Nullable(UInt8))', '[1, NULL]')).toEqual([
      item('Nullable(UInt8)', '1'),
      item('Nullable(UInt8)', null),
    ])
    expect(value('Array(Array(String))', "[['a,]',''],[]]")).toEqual([
      item('Array(String)', [item('String', 'a,]'), item('String', '')]),
      item('Array(String)', []),
    ])
  })

  it('are tuples, maps and enums, nested in each other', () => {
    const item = (type: string, inner: unknown) => ({ type, value: inner })
    expect(value('Tuple(Int32, Nullable(String))', "(42,'it\\'s (1,2)')")).toEqual([
      item('Int32', '42'),
      item('Nullable(String)', "it's (1,2)"),
    ])
    expect(value('Map(String, Tuple(UInt8, Boolean))', "{'a:b':(1,TRUE)}")).toEqual([
      item('String', 'a:b'),
      item('Tuple(UInt8, Bool)', [item('UInt8', '1'), item('Bool', 'true')]),
    ])
    expect(value('Map(String, UInt8)', '{}')).toEqual([])
    expect(value('Array(DateTime)', "['2022-05-02']")).toEqual([
      item('DateTime', '2022-05-02 00:00:00'),
    ])
    expect(value("Enum8('a' = 1, 'b')", '2')).toBe('b')
    for (const [type, text] of [
      ['Tuple(UInt8, UInt8)', '(1)'],
      ['Map(String, UInt8)', "{'a'}"],
      ['Map(String, UInt8)', "{'a':1:2}"],
      ["Enum('a')", 'c'],
      ['Tuple(UInt8)', '(1'],
    ] as const)
      expect([type, value(type, text)]).toEqual([type, undefined])
  })

  it('have types that are known, and no others', () => {
    for (const name of ['Uint8', 'Array', 'Array()', 'Nullable(Array(UInt8))', 'Tuple(Uint8)'])
      expect(parseType(name)).toBeNull()
    for (const name of ["DateTime('Asia/Tokyo')", 'Decimal(50,1)', 'Array(Identifier)', ''])
      expect(parseType(name)).toBeNull()
    expect(parseType(`${'Array('.repeat(20)}UInt8${')'.repeat(20)}`)).toBeNull()
    expect(parseType(' Array( UInt8 ) ')?.name).toBe('Array(UInt8)')
  })

  it('never make it throw', () => {
    const types = fc.constantFrom('UInt8', 'String', 'Array(Array(String))', 'Decimal(9,2)', 'Bool')
    const texts = fc.string({ unit: fc.constantFrom(...`[]',\\x1.eN-: T`) })
    fc.assert(
      fc.property(types, texts, (type, text) => {
        parseValue(parseType(type)!, text)
      }),
    )
    fc.assert(fc.property(fc.string(), (text) => void parseType(text)))
  })
})
