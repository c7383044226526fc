// What is read from a statement, and what an engine gets of it.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Statement } from '../../../../src/products/indexer/engine.ts'
import { fingerprint } from '../../../../src/products/indexer/sql/fingerprint.ts'
import { type Dialect, lex } from '../../../../src/products/indexer/sql/lexer.ts'
import { bindParameters, VALUE_CHARS_MAX } from '../../../../src/products/indexer/sql/parameters.ts'
import { type Reading, readStatement } from '../../../../src/products/indexer/sql/reading.ts'

function read(text: string, dialect: Dialect = 'duckdb'): Reading {
  const reading = readStatement(text, dialect)
  if (!reading.ok) throw new Error(`${reading.error.code} ${reading.error.message}`)
  return reading.value
}

function codeOf(text: string): number {
  const reading = readStatement(text, 'duckdb')
  return reading.ok ? 0 : reading.error.code
}

function made(text: string, given: Record<string, string> = {}, dialect: Dialect = 'duckdb') {
  return bindParameters(read(text, dialect), new Map(Object.entries(given)), dialect)
}

function statement(text: string, given: Record<string, string> = {}): Statement {
  const bound = made(text, given)
  if (!bound.ok) throw new Error(`${bound.error.code} ${bound.error.message}`)
  return bound.value
}

/** The statement's text where no values are in it. */
const plain = (text: string) => statement(text).texts.join('?')

describe('FORMAT and SETTINGS', () => {
  it('takes both off the end, in either order, with comments and semicolons around', () => {
    for (const text of [
      'SELECT 1 FORMAT JSON',
      'SELECT 1 format JSON;',
      'SELECT 1 -- FORMAT CSV\n FORMAT JSON -- end',
      "/* a */ SELECT 1 SETTINGS a = 1, b = 'x' FORMAT JSON ; ; -- ;",
      "SELECT 1 FORMAT JSON SETTINGS a = 1, b = 'x'",
    ]) {
      expect(read(text).format).toBe('JSON')
      expect(plain(text)).toBe('SELECT 1')
    }
    expect(read("SELECT 1 SETTINGS a = 1, b = 'x', c = -2 FORMAT JSON").settings).toEqual([
      ['a', '1'],
      ['b', 'x'],
      ['c', '-2'],
    ])
  })

  it('leaves both alone inside strings, names and comments, and where they are names', () => {
    for (const text of [
      "SELECT 'x FORMAT JSON'",
      'SELECT "FORMAT JSON"',
      'SELECT $$ x FORMAT JSON$$',
      'SELECT 1 AS format',
      'SELECT format, settings FROM t',
      'SELECT * FROM settings',
      'SELECT * FROM format f',
      'SELECT a.format b FROM t',
      'SELECT x FROM t ORDER BY settings',
    ]) {
      expect(plain(text)).toBe(text)
      expect(read(text).format).toBeNull()
    }
  })

  it('refuses settings where they would go around the limits, and files', () => {
    expect(codeOf('SELECT * FROM (SELECT 1 SETTINGS max_execution_time = 1000)')).toBe(62)
    expect(codeOf('SELECT 1 SETTINGS a = 1 UNION ALL SELECT 2')).toBe(62)
    expect(codeOf("SELECT 1 INTO OUTFILE 'x'")).toBe(164)
  })

  it('accepts SETTINGS before and after FORMAT, and not a third time', () => {
    expect(read('SELECT 1 SETTINGS a = 1 FORMAT JSON SETTINGS b = 2').settings).toHaveLength(2)
    expect(codeOf(`SELECT 1 ${'SETTINGS a = 1 '.repeat(3)}`)).toBe(62)
  })
})

describe('a statement', () => {
  it('has an end', () => {
    expect(codeOf(`SELECT ${'1,'.repeat(9_000)}1`)).toBe(0)
    expect(codeOf(`SELECT ${'1,'.repeat(11_000)}1`)).toBe(62)
  })

  it('is one: several, none and an open quote are syntax errors', () => {
    expect(codeOf('SELECT 1; SELECT 2')).toBe(62)
    expect(codeOf("SELECT ';'; --x\n;")).toBe(0)
    for (const text of ['', ' ', ';', '-- x', '/* x */', "SELECT 'x", 'SELECT /* x'])
      expect(codeOf(text)).toBe(62)
  })

  it('only reads', () => {
    for (const text of [
      'INSERT INTO t VALUES (1)',
      'create table t (a int)',
      '/* SELECT */ DROP TABLE t',
      '-- SELECT\nALTER TABLE t DELETE WHERE 1',
      'SET max_execution_time = 0',
      "COPY t TO 'x'",
      "ATTACH 'x'",
      'PRAGMA database_list',
      '(DELETE FROM t)',
      'WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a',
      'EXPLAIN ANALYZE DELETE FROM t',
      'EXPLAIN INSERT INTO t SELECT 1',
    ])
      expect(codeOf(text)).toBe(164)
    for (const text of ['foo', '1', '"SELECT"', "'SELECT'", 'constructor', '(SHOW TABLES)'])
      expect(codeOf(text)).toBe(62)
  })

  it('is recognized by its first word', () => {
    expect(read('(SELECT 1) UNION ALL (SELECT 2)').kind).toBe('query')
    expect(read('with a as (select 1) select * from a').kind).toBe('query')
    expect(read('WITH delete_log AS (SELECT 1) SELECT 1 AS insert').kind).toBe('query')
    expect(read('EXPLAIN SELECT 1').kind).toBe('query')
    expect(read("kill query where query_id = 'x'").kind).toBe('kill')
    expect(read('DESC TABLE blocks').kind).toBe('describe')
    expect(read('EXISTS TABLE blocks').kind).toBe('exists')
  })

  it('loses its comments and keeps its words apart', () => {
    expect(plain('SELECT/* x */1--y\n+2')).toBe('SELECT 1 +2')
    expect(plain('SELECT `a"b``c` FROM t')).toBe('SELECT "a""b`c" FROM t')
  })

  it("has its literals and names in DuckDB's quotes, whatever the original quotes", () => {
    for (const [given, wanted] of [
      [String.raw`'x\' OR 1=1 --'`, `'x'' OR 1=1 --'`],
      [String.raw`'a\tb\n\\d+'`, `'a\tb\n\\d+'`],
      [String.raw`'\d+ 100\%'`, String.raw`'\d+ 100\%'`],
      [String.raw`'\xe2\x82\xac\x41'`, `'€A'`],
      [String.raw`'a\0b'`, `('a' || chr(0) || 'b')`],
      [`'it''s'`, `'it''s'`],
      [String.raw`E'a\'b'`, String.raw`E'a\'b'`],
      [String.raw`"a\"b"`, `"a""b"`],
      [`"a""b"`, `"a""b"`],
      ['`a"b``c`', '"a""b`c"'],
      [String.raw`$$a\'b$$`, String.raw`$$a\'b$$`],
    ] as const)
      expect(plain(`SELECT ${given} FROM t`)).toBe(`SELECT ${wanted} FROM t`)
    for (const text of [String.raw`SELECT '\xff'`, String.raw`SELECT '\xg0'`, 'SELECT ""'])
      expect(codeOf(text)).toBe(62)
  })

  it('never throws, and what was made of it is read the same way again', () => {
    const words = fc.constantFrom(
      ...['SELECT', 'FORMAT', 'JSON', 'SETTINGS', 'a', '=', '1', ',', "'x'", '--c\n', '/*c*/'],
      ...[';', '(', ')', '"q"', '{', '}', ':', 'UInt8', '$$h$$', 'FROM', '`b`', '\\', "'", '\n'],
    )
    fc.assert(
      fc.property(fc.array(words), fc.constantFrom<Dialect>('duckdb', 'clickhouse'), (parts, d) => {
        const reading = readStatement(`SELECT 1 ${parts.join(' ')}`, d)
        if (!reading.ok) return
        const bound = bindParameters(reading.value, new Map(), d)
        if (!bound.ok) return
        const once = bound.value.texts.join('?')
        // What is made for DuckDB is in its own quotes.
        if (d === 'duckdb' && once.includes('\\')) return
        expect(lex(once, d).every(({ kind }) => kind !== 'comment' && kind !== 'broken')).toBe(true)
        const again = readStatement(once, d)
        if (!again.ok || again.value.format !== null || again.value.settings.length > 0) return
        expect(bindParameters(again.value, new Map(), d)).toEqual(bound)
      }),
      { numRuns: 500 },
    )
  })
})

describe('parameters', () => {
  it('become values between texts', () => {
    expect(
      statement('SELECT {a:UInt8}, {b: Array(String)} FROM {t:Identifier} -- {c:UInt8}', {
        a: '7',
        b: "['x','it\\'s']",
        t: 'blocks',
        unused: '1',
      }),
    ).toEqual({
      texts: ['SELECT ', ', ', ' FROM "blocks"'],
      values: [
        { type: 'UInt8', value: '7' },
        {
          type: 'Array(String)',
          value: [
            { type: 'String', value: 'x' },
            { type: 'String', value: "it's" },
          ],
        },
      ],
    })
  })

  it('are not looked for in strings, nor in the structs of DuckDB', () => {
    for (const text of ["SELECT '{a:UInt8}'", "SELECT {'a': 1}", 'SELECT {a: 1}', 'SELECT {a: b}'])
      expect(plain(text)).toBe(text)
  })

  it('are refused when missing, malformed or of an unknown type', () => {
    const code = (text: string, given = {}) => {
      const bound = made(text, given)
      return bound.ok ? 0 : bound.error.code
    }
    expect(code('SELECT {a:UInt8}')).toBe(456)
    expect(code('SELECT {a:UInt8}', { a: '256' })).toBe(457)
    expect(code('SELECT {a:Uint8}', { a: '1' })).toBe(50)
    expect(code('SELECT {a:Identifier}', { a: 'x"; DROP' })).toBe(457)
  })
})

describe('the fingerprint of a slow query', () => {
  it('contains no literal, no comment and no long word', () => {
    const secret = `slu_${'x'.repeat(38)}`
    const text = `SELECT a, 'x', 1.5, $$y$$ /* ${secret} */ FROM t WHERE ${secret} IN (1, 2, 'z')`
    expect(fingerprint(text, 'duckdb')).toBe('SELECT a , ? FROM t WHERE ? IN ( ? )')
    expect(fingerprint(`SELECT "${secret}"`, 'duckdb')).toBe('SELECT ?')
    expect(fingerprint('a '.repeat(1_000), 'duckdb').length).toBeLessThan(402)
  })
})

describe('values of parameters', () => {
  it('have a total bound, however often each is used', () => {
    const places = (count: number) => `SELECT [${'{a:String},'.repeat(count)}1]`
    const half = { a: 'x'.repeat(VALUE_CHARS_MAX / 2) }
    expect(made(places(2), half).ok).toBe(true)
    for (const dialect of ['duckdb', 'clickhouse'] as const)
      expect(made(places(3), half, dialect)).toMatchObject({ ok: false, error: { code: 457 } })
  })
})
