// The catalogue: comments, times and views of all tables, as tools and analysts see them.
import { describe, expect, test } from 'vitest'
import {
  createText,
  DATABASE,
  systemRows,
  views,
  visibleTable,
  visibleTables,
} from '../../../src/indexer/catalogue.ts'
import { translate } from '../../../src/indexer/clickhouse/duckdb/print-select.ts'
import { catalogue } from '../../../src/indexer/duckdb/schemas.ts'
import { type Table, tableNames, tables, timeSourceOf } from '../../../src/indexer/tables.ts'

const shown = visibleTables.filter(({ database }) => database === DATABASE)

describe('the catalogue', () => {
  test('has a comment for every table, view and column, in one line', () => {
    for (const { name, columns, comment, comments } of shown) {
      expect([name, comment]).toEqual([name, expect.stringMatching(/^[A-Z0-9].{3,110}$/)])
      expect(Object.keys(comments)).toEqual(expect.arrayContaining(Object.keys(columns)))
      for (const column of Object.keys(columns))
        expect([name, column, comments[column]]).toEqual([
          name,
          column,
          expect.stringMatching(/^.{3,100}$/),
        ])
    }
  })

  test('has a time in every table; one that was added is the last column', () => {
    for (const name of tableNames) {
      const columns: Table['columns'] = tables[name].columns
      const types = Object.values(columns)
      expect([name, types.some((type) => type.includes('DateTime'))]).toEqual([name, true])
      const source = timeSourceOf(name)
      if (source !== undefined) expect(Object.keys(columns).at(-1)).toBe(source.column)
      else expect([name, types.some((type) => type.startsWith('Nullable('))]).toEqual([name, false])
    }
  })

  test.each(Object.keys(views))('knows the types of the view %s', (name) => {
    const printed = translate(`SELECT * FROM ${name}`, { catalogue, database: 'chain' })
    if (!printed.ok) throw new Error(printed.error.message)
    const columns = printed.value.columns.map((column) => [column.name, column.type])
    expect(Object.fromEntries(columns)).toEqual(views[name]!.columns)
    expect(columns.map(([column]) => column)).toEqual(Object.keys(views[name]!.columns))
  })

  test('lists views with the engine View, without a key and without a size', () => {
    const sizes = { blocks: { rows: 5, bytes: 70 }, usage: { rows: 9, bytes: 9 } }
    const rows = systemRows('DuckDB', sizes)
    const names = Object.keys(visibleTable('system', 'tables')!.columns)
    const cells = (table: string) => {
      const row = rows['system.tables']!.find((one) => one[1] === table)!
      return Object.fromEntries(names.map((name, at) => [name, row[at]]))
    }
    const none = { total_rows: null, total_bytes: null }
    const view = { engine: 'View', sorting_key: '', primary_key: '', ...none }
    expect(cells('transfers')).toMatchObject(view)
    expect(cells('transfers').create_table_query).toContain('AS SELECT block_time')
    expect(cells('blocks')).toMatchObject({ engine: 'DuckDB', total_rows: 5, total_bytes: 70 })
    // Of all customers: nobody's to know.
    expect(cells('usage')).toMatchObject(none)
    expect(cells('tips')).toMatchObject(none)
  })

  test('writes comments into the statement that creates a table', () => {
    const blocks = shown.find(({ name }) => name === 'blocks')!
    expect(createText(blocks).split('\n').slice(0, 3)).toEqual([
      'CREATE TABLE chain.blocks',
      '(',
      "    slot UInt64 COMMENT 'Slot of the block',",
    ])
    expect(createText(blocks)).toMatch(/\nORDER BY \(slot\)\nCOMMENT 'Confirmed blocks of Solana'$/)
  })
})
