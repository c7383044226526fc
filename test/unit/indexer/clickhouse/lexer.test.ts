// Tokens of SQL: nothing inside strings, quoted names and comments is ever taken apart.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { lex } from '../../../../src/indexer/clickhouse/sql/lexer.ts'

function cut(text: string): string[] {
  return lex(text).map(({ kind, start, end }) => `${kind}:${text.slice(start, end)}`)
}

describe('the lexer of the indexer', () => {
  it('cuts words, numbers, strings and signs', () => {
    expect(cut(`SELECT a.b, 1e-5+0x1e-2, 'it''s' FROM "t ""x"""`)).toEqual([
      'word:SELECT',
      'word:a',
      'symbol:.',
      'word:b',
      'symbol:,',
      'number:1e-5',
      'symbol:+',
      'number:0x1e',
      'symbol:-',
      'number:2',
      'symbol:,',
      "string:'it''s'",
      'word:FROM',
      'quoted:"t ""x"""',
    ])
  })

  it('reads backslashes as ClickHouse does', () => {
    expect(cut(String.raw`'a\' 1`)).toEqual([String.raw`broken:'a\' 1`])
    expect(cut(String.raw`'a\'b' 1`)).toEqual([String.raw`string:'a\'b'`, 'number:1'])
  })

  it('has the comments of ClickHouse', () => {
    expect(cut('1 -- x ; \n2')).toEqual(['number:1', 'comment:-- x ; ', 'number:2'])
    expect(cut('/* a /* b */ 1')).toEqual(['comment:/* a /* b */', 'number:1'])
    expect(cut('# x\n1')).toEqual(['comment:# x', 'number:1'])
  })

  it('takes of ClickHouse only what every server reads the same way', () => {
    expect(cut('a->b::c<=1||t.1.2 != .5/2')).toEqual([
      ...['word:a', 'symbol:->', 'word:b', 'symbol:::', 'word:c', 'symbol:<=', 'number:1'],
      ...['symbol:||', 'word:t', 'symbol:.', 'number:1', 'symbol:.', 'number:2'],
      ...['symbol:!=', 'number:.5', 'symbol:/', 'number:2'],
    ])
    for (const text of [
      '//x',
      '$$x$$',
      '$ x$',
      '#x',
      '\\G',
      '@@a',
      '|x',
      '!x',
      '1abc',
      '0x',
      'é',
      '‘x’',
    ])
      expect(cut(`a ${text}`).at(-1), text).toBe(`unknown:${text}`)
  })

  it('marks an unterminated string or comment as broken', () => {
    for (const open of ["'", '"a', '`a', '/* ', "'a''"])
      expect(lex(open).at(-1)?.kind).toBe('broken')
  })

  it('never throws, and loses nothing but white space', () => {
    const letters = fc.constantFrom(...`'"\`$-/*#\\ \n\tEae1._{}:;(),=é𝄞`)
    const texts = fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: letters }))
    fc.assert(
      fc.property(texts, (text) => {
        let end = 0
        for (const token of lex(text)) {
          expect(text.slice(end, token.start)).toMatch(/^[\s\u00a0\ufeff]*$/)
          expect(token.end).toBeGreaterThan(token.start)
          end = token.end
        }
        expect(text.slice(end)).toMatch(/^[\s\u00a0\ufeff]*$/)
      }),
      { numRuns: 500 },
    )
  })

  it('keeps every string and comment whole, whatever is in it', () => {
    fc.assert(
      fc.property(fc.string(), (content) => {
        const inside = content.replaceAll('\\', '').replaceAll("'", "''")
        const comment = content.replaceAll(/[*/]/g, '')
        const text = `a '${inside}' b /*${comment}*/ c`
        expect(cut(text)).toEqual([
          'word:a',
          `string:'${inside}'`,
          'word:b',
          `comment:/*${comment}*/`,
          'word:c',
        ])
      }),
    )
  })
})
