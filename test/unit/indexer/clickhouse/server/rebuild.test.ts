// The text sent to a ClickHouse server is rebuilt from tokens and lexes to the same tokens.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { rebuilt } from '../../../../../src/indexer/clickhouse/server/rebuild.ts'
import {
  clickhouseName,
  clickhouseString,
  lex,
  nameOf,
  readQuoted,
} from '../../../../../src/indexer/clickhouse/sql/lexer.ts'
import { lexProblem } from '../../../../../src/indexer/clickhouse/sql/reading.ts'
import { admit } from '../../../../../src/indexer/clickhouse-server/gate.ts'

/** Null: refused. */
function rebuild(text: string): string | null {
  const tokens = lex(text).filter(({ kind }) => kind !== 'comment')
  return lexProblem(text, tokens) === null ? rebuilt(text, tokens) : null
}

/** What a text means: each token's kind, and its value where it is quoted. */
function meaning(text: string): string[] {
  return lex(text)
    .filter(({ kind }) => kind !== 'comment')
    .map((token) => {
      const written = text.slice(token.start, token.end)
      if (token.kind === 'quoted') return `name:${nameOf(text, token)}`
      return token.kind === 'string' ? `string:${readQuoted(written)}` : written
    })
}

const fragments = fc.constantFrom(
  ...["'", "''", '"', '`', '\\', "\\'", '\\\\', '\\x27', '\\x', '--', '/*', '*/', '//', '#', '# '],
  ...[
    '#!',
    '$',
    '$$',
    '$ x$',
    '$a$',
    '\n',
    ' ',
    '\t',
    '\0',
    '\u00a0',
    '\ufeff',
    'é',
    '‘',
    '’',
    '−',
  ],
  ...[
    'SELECT',
    'FROM',
    'a',
    'chain',
    '_usage',
    '.',
    ',',
    '(',
    ')',
    '=',
    '1',
    '1e',
    '0x1',
    '.5',
    ';',
  ],
  ...['x', 'b', 'E', '->', '::', '|', '||', '!', '@', '{', '}', '?', ':', '%', '+', '-', '\ud800'],
)
const hostile = fc.oneof(
  fc.array(fragments, { maxLength: 40 }).map((all) => all.join('')),
  fc.string({ unit: 'binary', maxLength: 40 }),
)

describe('a query rebuilt from tokens', () => {
  test('is a fixed point that means the same', () => {
    let taken = 0
    fc.assert(
      fc.property(hostile, (text) => {
        const once = rebuild(text)
        if (once === null) return
        taken++
        expect(rebuild(once)).toBe(once)
        expect(meaning(once)).toEqual(meaning(text.replaceAll(/\p{Surrogate}/gu, '\ufffd')))
      }),
      { numRuns: 3_000 },
    )
    expect(taken).toBeGreaterThan(100)
  })

  test('contains only plain words, numbers, operators, spaces and our own quotes', () => {
    const ours =
      /^(?:'(?:[^'\\\p{Cc}]|\\[\\'0nrtbf]|\\x[\da-f]{2})*'|`(?:[^`\\\p{Cc}]|\\[\\`0nrtbf]|\\x[\da-f]{2})*`|[A-Za-z_]\w*|[\d.][\w.+-]*|->|::|<=|>=|<>|!=|==|\|\||[-()[\]{},.+*%=<>?:;/])$/u
    fc.assert(
      fc.property(hostile, (text) => {
        const once = rebuild(text)
        if (once === null) return
        const tokens = lex(once)
        let at = 0
        for (const { start, end } of tokens) {
          expect(once.slice(at, start)).toBe(start === 0 ? '' : ' ')
          expect(once.slice(start, end)).toMatch(ours)
          at = end
        }
        expect(at).toBe(once.length)
      }),
      { numRuns: 3_000 },
    )
  })

  test('keeps any text in a string and in a quoted name', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(readQuoted(clickhouseString(text))).toBe(text)
        expect(readQuoted(clickhouseName(text))).toBe(text)
      }),
    )
  })

  test('never contains a comment or an open quote after the gate', () => {
    const facts = {
      version: '',
      hasDateTime64: true,
      hasBool: false,
      settings: new Set<string>(),
    }
    fc.assert(
      fc.property(hostile, (tail) => {
        const admitted = admit(`SELECT 1 AS a FROM blocks WHERE ${tail}`, {
          subscription: 'sub',
          database: 'chain',
          facts,
        })
        if (!admitted.ok) return
        const kinds = lex(admitted.value).map(({ kind }) => kind)
        expect(kinds).not.toContain('comment')
        expect(kinds).not.toContain('broken')
        expect(kinds).not.toContain('unknown')
      }),
      { numRuns: 1_000 },
    )
  })
})
