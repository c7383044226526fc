// The table of formats, and results that the endpoint renders itself.
import { describe, expect, test } from 'vitest'
import { formatOf, formats, isWhole } from '../../../../src/indexer/clickhouse/formats/formats.ts'
import { renderSmall } from '../../../../src/indexer/queries/answer-from-catalogue.ts'

import golden from '../../../golden/indexer/formats.json' with { type: 'json' }

const small = {
  columns: [
    { name: 'name/', type: 'String' },
    { name: 'count', type: 'UInt32' },
  ],
  rows: [
    ['a"b\\\n\'', 1],
    ['', 22],
  ],
} as const

function rendered(name: string): string | null {
  return renderSmall(small, formatOf(name, 'duckdb')!)
}

describe('the table of formats', () => {
  test('names are read without regard to case, and TSV is TabSeparated', () => {
    expect(formatOf('jsoneachrow', 'duckdb')?.name).toBe('JSONEachRow')
    expect(formatOf('TSVWithNames', 'duckdb')?.name).toBe('TabSeparatedWithNames')
    expect(formatOf('ndjson', 'duckdb')?.contentType).toBe('application/x-ndjson; charset=UTF-8')
    expect(formatOf('constructor', 'duckdb')).toBe(null)
  })

  test('formats that only a server writes are unknown to DuckDB', () => {
    expect(formatOf('Avro', 'duckdb')).toBe(null)
    expect(formatOf('Avro', 'clickhouse')?.name).toBe('Avro')
    // They read files of the server.
    for (const name of ['Template', 'Protobuf', 'CapnProto'])
      expect(formatOf(name, 'clickhouse')).toBe(null)
  })

  test('a header line is announced in the content type of CSV', () => {
    expect(formatOf('CSV', 'duckdb')?.contentType).toContain('header=absent')
    expect(formatOf('CSVWithNamesAndTypes', 'duckdb')?.contentType).toContain('header=present')
  })

  test('documents are buffered, lines are not', () => {
    const whole = formats.filter(isWhole).map(({ name }) => name)
    expect(whole).toContain('JSON')
    expect(whole).toContain('JSONColumns')
    expect(whole).not.toContain('JSONEachRow')
    expect(whole).not.toContain('CSV')
  })
})

describe('a result of the endpoint itself', () => {
  test('has the text of the engines', () => {
    expect(rendered('JSONEachRow')).toBe(
      '{"name\\/":"a\\"b\\\\\\n\'","count":1}\n{"name\\/":"","count":22}\n',
    )
    expect(rendered('CSVWithNames')).toBe('"name/","count"\n"a""b\\\n\'",1\n"",22\n')
    expect(rendered('TSV')).toBe('a"b\\\\\\n\\\'\t1\n\t22\n')
    expect(rendered('JSONCompactEachRowWithNamesAndTypes')).toBe(
      '["name\\/", "count"]\n["String", "UInt32"]\n["a\\"b\\\\\\n\'", 1]\n["", 22]\n',
    )
    expect(rendered('Values')).toBe(`('a"b\\\\\\n\\'',1),('',22)`)
    expect(rendered('Vertical')).toBe(
      'Row 1:\n──────\nname/: a"b\\\n\'\ncount: 1\n\nRow 2:\n──────\nname/: \ncount: 22\n',
    )
    expect(rendered('Null')).toBe('')
    expect(JSON.parse(rendered('JSON')!).data[1]).toEqual({ 'name/': '', count: 22 })
  })

  test('is written in every format of text, and in no other', () => {
    for (const format of formats) {
      const text = renderSmall(small, format)
      const isText = 'rows' in format.writing || 'whole' in format.writing
      expect(text !== null, format.name).toBe(isText)
    }
  })

  test('equals ClickHouse byte for byte', () => {
    const { results } = golden.cases.find(({ name }) => name === 'narrow')!
    const result = {
      columns: [
        { name: 'a', type: 'UInt8' },
        { name: 'bb', type: 'String' },
        { name: 'dec', type: 'Decimal(18, 2)' as 'Float64' },
      ],
      rows: [
        [0, '', 0],
        [1, 'x', 1.5],
        [2, 'xy', 3],
      ],
    } as const
    for (const [name, written] of Object.entries(results)) {
      const text = renderSmall(result, formatOf(name, 'duckdb')!)
      if (text === null || /elapsed/.test(written)) continue
      expect(text, name).toBe(written)
    }
  })
})
