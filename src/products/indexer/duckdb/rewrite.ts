// Words of ClickHouse that DuckDB reads otherwise, put right before it sees them.
// Thread: main of a query process. Pure; works on words and never inside texts or quoted names.
//
//   system.tables         system is a catalog of DuckDB's own       -> a schema of ours
//   default.transactions  default is a word of its grammar          -> chain
//   SELECT at FROM usage  at and table are words of its grammar     -> "at", "table"
import { lex, symbolOf, wordOf } from '../sql/lexer.ts'

/** Where the views behind `system.*` stand. */
export const systemSchema = 'system_'

export function rewrite(text: string): string {
  const tokens = lex(text, 'duckdb-native')
  let made = ''
  let end = 0
  for (const [index, token] of tokens.entries()) {
    const word = wordOf(text, token)
    const next = tokens[index + 1]
    const isQualified = symbolOf(text, tokens[index - 1]) === '.'
    const other = otherWord(word, {
      isQualifier: symbolOf(text, next) === '.' && !isQualified,
      isBeforeName: next?.kind === 'quoted' || isName(wordOf(text, next)),
      next: wordOf(text, next),
    })
    if (other === null) continue
    made += text.slice(end, token.start) + other
    end = token.end
  }
  return made + text.slice(end)
}

interface Place {
  readonly isQualifier: boolean
  readonly isBeforeName: boolean
  readonly next: string
}

function otherWord(word: string, { isQualifier, isBeforeName, next }: Place): string | null {
  if (word === 'SYSTEM' && isQualifier) return systemSchema
  if (word === 'DEFAULT' && isQualifier) return 'chain'
  if (word === 'AT' && next !== 'TIME') return '"at"'
  // `TABLE transactions` is a query of its own.
  return word === 'TABLE' && !isBeforeName ? '"table"' : null
}

/** Words that can follow a column, and are no name of a table. */
const grammar = new Set(
  (
    'FROM AS IN NOT LIKE ILIKE IS AND OR ORDER GROUP BETWEEN ASC DESC NULLS THEN ELSE END WHEN ' +
    'WHERE HAVING LIMIT OFFSET UNION EXCEPT INTERSECT QUALIFY WINDOW ON USING JOIN COLLATE'
  ).split(' '),
)

function isName(word: string): boolean {
  return word !== '' && !grammar.has(word)
}
