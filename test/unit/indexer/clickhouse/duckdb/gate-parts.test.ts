// The pure parts of the query gate: literals, bounds, syntax trees, errors.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { engineError } from '../../../../../src/indexer/clickhouse/duckdb/engine-error.ts'
import { literal, statementText } from '../../../../../src/indexer/clickhouse/duckdb/literal.ts'
import {
  boundsProblem,
  checkTree,
} from '../../../../../src/indexer/clickhouse/duckdb/syntax-tree.ts'
import { parseSnapshot } from '../../../../../src/indexer/duckdb/store-files.ts'

const constant = (value: unknown, id = 'INTEGER') => ({
  class: 'CONSTANT',
  value: { type: { id }, value },
})
const column = (name: string) => ({ class: 'COLUMN_REF', column_names: [name] })
const call = (name: string, children: unknown[] = [], schema = '', catalog = '') => ({
  class: 'FUNCTION',
  function_name: name,
  schema,
  catalog,
  children,
})
const table = (name: string, schema = '', catalog = '') => ({
  type: 'BASE_TABLE',
  table_name: name,
  schema_name: schema,
  catalog_name: catalog,
})
const rules = {
  tables: { '': new Set(['transactions', 'usage']), chain: new Set(['transactions']) },
  macros: new Set(['touint64']),
  reserved: new Set(['duckdb_tables']),
}

describe('parameter values as literals', () => {
  test.each([
    ['UInt64', '5', 'CAST(5 AS UBIGINT)'],
    ['Int8', '-5', 'CAST(-5 AS TINYINT)'],
    ['String', "it's", "CAST('it''s' AS VARCHAR)"],
    ['String', 'a\0b', "CAST(('a' || chr(0) || 'b') AS VARCHAR)"],
    ['Nullable(String)', null, 'CAST(NULL AS VARCHAR)'],
    ['DateTime', '2026-01-02 03:04:05', "CAST('2026-01-02 03:04:05' AS TIMESTAMP_S)"],
    ['Decimal(10, 2)', '1.5', "CAST('1.5' AS DECIMAL(10, 2))"],
    ['Bool', 'true', "CAST('true' AS BOOLEAN)"],
  ])('%s %s', (type, value, expected) => expect(literal({ type, value })).toBe(expected))

  test('leave the text as it was written', () => {
    const values = [
      { type: 'UInt8', value: '1', source: '{a:UInt8}' },
      { type: 'UInt8', value: '2', source: '{ b : UInt8 }' },
    ]
    expect(statementText({ texts: ['a ', ' b ', ' c'], values })).toBe(
      'a {a:UInt8} b { b : UInt8 } c',
    )
  })

  test('are one literal, whatever text they contain', () => {
    fc.assert(
      fc.property(fc.string(), (value) => {
        const inside = literal({ type: 'String', value }).slice(
          'CAST('.length,
          -' AS VARCHAR)'.length,
        )
        const parts = inside.replace(/^\(|\)$/g, '').split(' || chr(0) || ')
        const isWhole = parts.length === value.split('\0').length
        return !isWhole || parts.every((part) => /^'(?:[^']|'')*'$/s.test(part))
      }),
    )
  })
})

describe('bounds of functions', () => {
  test.each([
    ['repeat', [constant('x', 'VARCHAR'), constant(100)], null],
    ['repeat', [constant('x', 'VARCHAR'), constant(1e9)], /at most/],
    ['repeat', [constant('x', 'VARCHAR'), column('fee')], /plain number/],
    ['range', [constant(10)], null],
    ['range', [constant(0), constant(5_000_000)], /at most/],
    ['range', [constant(0), constant(5_000_000), constant(100)], null],
    ['range', [constant(0), constant(5), constant(0)], /at most/],
    ['generate_series', [call('+', [constant(1), constant(1)])], /plain numbers/],
    ['printf', [constant('%5d', 'VARCHAR')], null],
    ['printf', [constant('%50000d', 'VARCHAR')], /digits/],
    ['format', [column('err')], /plain text/],
    ['lower', [column('err')], null],
  ])('%s %#', (name, args, expected) => {
    const problem = boundsProblem(name, args)
    if (expected === null) expect(problem).toBe(null)
    else expect(problem).toMatch(expected)
  })
})

describe('the syntax tree of a statement', () => {
  test('names the tables that are read', () => {
    const tree = { from: table('Transactions'), in: { x: [table('transactions', 'chain')] } }
    const found = checkTree(tree, rules)
    expect(found.ok && [...found.value].sort()).toEqual(['chain.transactions', 'transactions'])
  })

  test.each([
    [{ a: table('duckdb_tables') }, 60],
    [{ a: table('transactions', 'information_schema') }, 60],
    [{ a: table('transactions', 'main', 'seg_1_1_0') }, 60],
    [{ a: table('/etc/passwd') }, 60],
    [{ a: table('usage', 'chain') }, 60],
    [{ a: table('x', 'constructor') }, 60],
    [{ a: { type: 'TABLE_FUNCTION', function: call('read_text') } }, 46],
    [{ a: call('getenv') }, 46],
    [{ a: call('lower', [], 'main', 'system') }, 46],
    [{ a: { class: 'WINDOW', function_name: 'getenv', schema: '', catalog: '' } }, 46],
    [{ a: { type: 'SHOW_REF', query: null } }, 164],
    [{ cte_map: { map: [{ key: 'DUCKDB_TABLES' }] } }, 36],
    [{ cte_map: { map: [{ key: '/etc/passwd' }] } }, 36],
  ])('refuses %#', (tree, code) => {
    const found = checkTree(tree, rules)
    expect(found.ok ? 0 : found.error.code).toBe(code)
  })

  test('accepts our macros and WITH names, and suggests the nearest name', () => {
    expect(checkTree({ a: call('toUInt64') }, rules).ok).toBe(true)
    const tree = { cte_map: { map: [{ key: 'mine' }] }, from: table('mine') }
    expect(checkTree(tree, rules)).toEqual({ ok: true, value: new Set() })
    const near = checkTree({ a: call('toUInt46') }, rules)
    expect(near.ok ? '' : near.error.message).toMatch(/touint64/)
  })
})

describe('DuckDB errors', () => {
  const told = (exception_type: string, exception_message: string) =>
    engineError(JSON.stringify({ exception_type, exception_message }))

  test('get ClickHouse error codes', () => {
    expect(told('Parser', 'syntax error at or near "x"').code).toBe(62)
    expect(told('Binder', 'Referenced column "x" not found in FROM clause!').code).toBe(47)
    expect(told('Out of Memory', 'Failed to allocate block of 1 bytes').code).toBe(241)
    expect(engineError('Out of Memory Error: bad allocation').code).toBe(241)
    expect(engineError('std::bad_alloc').code).toBe(241)
    expect(engineError('INTERNAL Error: assertion\n\nStack Trace:\n/usr/lib/x.so').code).toBe(1002)
    expect(engineError('').code).toBe(1002)
  })

  test('reveal no paths, catalogs or traces', () => {
    const path = told('Permission', 'Cannot access file "/var/lib/sluice/index/seg-1-1-0.duckdb"')
    expect(path.message).not.toMatch(/sluice|duckdb/)
    expect(told('Binder', 'Referenced column "seg_1_8_0.transactions" x').message).not.toMatch(
      /seg_/,
    )
    expect(engineError('INTERNAL Error: x\n/usr/lib/x.so').message).not.toMatch(/usr|so/)
  })
})

describe('a snapshot', () => {
  test('accepts only names of index files', () => {
    const files = [
      'seg-1-2-0.duckdb',
      'tail-3-4.duckdb',
      '../x.duckdb',
      "a'b.duckdb",
      'hot-1.duckdb',
    ]
    const text = JSON.stringify({
      version: 3,
      files: files.map((name) => ({ name, tables: ['tps', 'nope'] })),
    })
    expect(parseSnapshot(text)).toEqual({
      version: 3,
      files: [
        { name: 'seg-1-2-0.duckdb', tables: ['tps'] },
        { name: 'tail-3-4.duckdb', tables: ['tps'] },
      ],
    })
  })
})
