// The formats of a result, byte by byte.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ResultCell, ResultColumn } from '../../../../src/products/indexer/formats.ts'
import { encoderOf, type TextFormat } from '../../../../src/products/indexer/formats.ts'

const columns: readonly ResultColumn[] = [
  { name: 'n', type: 'UInt64', kind: 'big' },
  { name: 'f', type: 'Float64', kind: 'float' },
  { name: 'te"xt', type: 'String', kind: 'text' },
  { name: 'a', type: 'Array(String)', kind: 'nested' },
  { name: 'b', type: 'Bool', kind: 'bool' },
]
const big = '18446744073709551615'
const cells: readonly (readonly ResultCell[])[] = [
  [big, null],
  [1.5, Number.NaN],
  ['a"b\t\\\n', null],
  ["['x']", null],
  [true, null],
]

function encode(format: TextFormat, quotes64 = true, rows = cells): string {
  const encoder = encoderOf(format, columns, quotes64)
  const text = encoder.rows(rows, rows[0]!.length)
  return encoder.begin() + text + encoder.end({ rows: rows[0]!.length, elapsedSeconds: 0.5 })
}

describe('the formats of a result', () => {
  test('CSV and CSVWithNames', () => {
    const lines = `${big},1.5,"a""b\t\\\n","['x']",true\n\\N,nan,\\N,\\N,\\N\n`
    expect(encode('CSV')).toBe(lines)
    expect(encode('CSVWithNames')).toBe(`"n","f","te""xt","a","b"\n${lines}`)
  })

  test('TabSeparated and TabSeparatedWithNames', () => {
    const lines = `${big}\t1.5\ta"b\\t\\\\\\n\t['x']\ttrue\n\\N\tnan\t\\N\t\\N\t\\N\n`
    expect(encode('TabSeparated')).toBe(lines)
    expect(encode('TabSeparatedWithNames')).toBe(`n\tf\tte"xt\ta\tb\n${lines}`)
  })

  test('JSONEachRow and JSONCompactEachRow', () => {
    const json = cells.map((column, at) => (at === 3 ? ['["x"]', null] : column))
    expect(encode('JSONEachRow', true, json)).toBe(
      `{"n":"${big}","f":1.5,"te\\"xt":"a\\"b\\t\\\\\\n","a":["x"],"b":true}\n` +
        '{"n":null,"f":null,"te\\"xt":null,"a":null,"b":null}\n',
    )
    expect(encode('JSONCompactEachRow', false, json)).toBe(
      `[${big},1.5,"a\\"b\\t\\\\\\n",["x"],true]\n[null,null,null,null,null]\n`,
    )
  })

  test('JSON and JSONCompact are whole documents, also without rows', () => {
    const json = cells.map((column, at) => (at === 3 ? ['["x"]', null] : column))
    const whole = JSON.parse(encode('JSON', true, json))
    expect(whole.meta[0]).toEqual({ name: 'n', type: 'UInt64' })
    expect(whole.data[0]).toEqual({ n: big, f: 1.5, 'te"xt': 'a"b\t\\\n', a: ['x'], b: true })
    expect(whole.rows).toBe(2)
    expect(whole.statistics.elapsed).toBe(0.5)
    expect(JSON.parse(encode('JSONCompact', true, json)).data[1]).toEqual(Array(5).fill(null))
    expect(JSON.parse(encode('JSON', true, [[], [], [], [], []])).data).toEqual([])
  })

  test('any text comes back as it was', () => {
    const one: readonly ResultColumn[] = [{ name: 't', type: 'String', kind: 'text' }]
    fc.assert(
      fc.property(fc.array(fc.string(), { minLength: 1 }), (texts) => {
        const json = encoderOf('JSONCompactEachRow', one, true).rows([texts], texts.length)
        const read = json
          .split('\n')
          .slice(0, -1)
          .map((line) => JSON.parse(line)[0])
        expect(read).toEqual(texts)
        const csv = encoderOf('CSV', one, true).rows([texts], texts.length)
        const cut = [...csv.matchAll(/"((?:[^"]|"")*)"\n/gs)].map((m) =>
          m[1]!.replaceAll('""', '"'),
        )
        expect(cut).toEqual(texts)
        const tsv = encoderOf('TabSeparated', one, true).rows([texts], texts.length)
        expect(tsv.split('\n').length).toBe(texts.length + 1)
      }),
    )
  })
})
