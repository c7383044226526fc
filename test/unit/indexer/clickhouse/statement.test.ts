// What is read from a statement, and what an engine gets of it.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fingerprint, lex } from '../../../../src/indexer/clickhouse/sql/lexer.ts'
import {
  bindParameters,
  type Statement,
  VALUE_CHARS_MAX,
} from '../../../../src/indexer/clickhouse/sql/parameters.ts'
import { type Reading, readStatement } from '../../../../src/indexer/clickhouse/sql/reading.ts'
import type { QueryEngine } from '../../../../src/indexer/engine.ts'

type Engine = QueryEngine['name']

function read(text: string): Reading {
  const reading = readStatement(text)
  if (!reading.ok) throw new Error(`${reading.error.code} ${reading.error.message}`)
  return reading.value
}

function codeOf(text: string): number {
  const reading = readStatement(text)
  return reading.ok ? 0 : reading.error.code
}

function made(text: string, given: Record<string, string> = {}, engine: Engine = 'clickhouse') {
  return bindParameters(read(text), new Map(Object.entries(given)), engine)
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
  })

  it('is as written for the engine that parses it, with its parameters beside it', () => {
    const text = '-- a\nSELECT {a:UInt8} /* b */ FROM {t:Identifier} FORMAT JSON'
    const bound = made(text, { a: '7', t: 'blocks' }, 'duckdb')
    expect(bound).toEqual({
      ok: true,
      value: {
        texts: ['-- a\nSELECT ', ' /* b */ FROM ', ''],
        values: [
          { type: 'UInt8', value: '7', source: '{a:UInt8}' },
          { type: 'Identifier', value: 'blocks', source: '{t:Identifier}' },
        ],
      },
    })
  })

  it('has only names and strings that are UTF-8', () => {
    for (const text of [String.raw`SELECT '\xff'`, String.raw`SELECT '\xg0'`, 'SELECT ""'])
      expect(codeOf(text)).toBe(62)
  })

  it('never throws, and what was made of it is read the same way again', () => {
    const words = fc.constantFrom(
      ...['SELECT', 'FORMAT', 'JSON', 'SETTINGS', 'a', '=', '1', ',', "'x'", '--c\n', '/*c*/'],
      ...[';', '(', ')', '"q"', '{', '}', ':', 'UInt8', 'FROM', '`b`', '\\', "'", '\n'],
    )
    fc.assert(
      fc.property(fc.array(words), fc.constantFrom<Engine>('duckdb', 'clickhouse'), (parts, d) => {
        const reading = readStatement(`SELECT 1 ${parts.join(' ')}`)
        if (!reading.ok) return
        const bound = bindParameters(reading.value, new Map(), d)
        if (!bound.ok) return
        const once = bound.value.texts.join('?')
        const seen = new Set(lex(once).map(({ kind }) => kind))
        expect(seen.has('broken') || (d === 'clickhouse' && seen.has('comment'))).toBe(false)
        const again = readStatement(once)
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

  it('are not looked for in strings', () => {
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
    const text = `SELECT a, 'x', 1.5, 'y' /* ${secret} */ FROM t WHERE ${secret} IN (1, 2, 'z')`
    expect(fingerprint(text)).toBe('SELECT a , ? FROM t WHERE ? IN ( ? )')
    expect(fingerprint(`SELECT "${secret}"`)).toBe('SELECT ?')
    expect(fingerprint('a '.repeat(1_000)).length).toBeLessThan(402)
  })
})

describe('values of parameters', () => {
  it('have a total bound, however often each is used', () => {
    const places = (count: number) => `SELECT [${'{a:String},'.repeat(count)}1]`
    const half = { a: 'x'.repeat(VALUE_CHARS_MAX / 2) }
    expect(made(places(2), half).ok).toBe(true)
    for (const engine of ['duckdb', 'clickhouse'] as const)
      expect(made(places(3), half, engine)).toMatchObject({ ok: false, error: { code: 457 } })
  })
})
