// Rewrites ClickHouse names that are reserved in DuckDB.
// Thread: main of a query process. Pure; works on tokens, never inside strings or quoted names.
//
//   system.tables         system is a catalog of DuckDB             -> our schema system_
//   default.transactions  default is a keyword                      -> chain
//   SELECT at FROM usage  at and table are keywords                 -> "at", "table"
import { lex, symbolOf, wordOf } from '../sql/lexer.ts'

/** Schema of the views for `system.*`. */
export const systemSchema = 'system_'

export function rewrite(text: string): string {
  const tokens = lex(text, 'duckdb-native')
  let made = ''
  let end = 0
  for (const [index, token] of tokens.entries()) {
    const word = wordOf(text, token)
    const next = tokens[index + 1]
    const isQualified = symbolOf(text, tokens[index - 1]) === '.'
    const replacement = replacementOf(word, {
      isQualifier: symbolOf(text, next) === '.' && !isQualified,
      isBeforeName: next?.kind === 'quoted' || isName(wordOf(text, next)),
      next: wordOf(text, next),
    })
    if (replacement === null) continue
    made += text.slice(end, token.start) + replacement
    end = token.end
  }
  return made + text.slice(end)
}

interface WordContext {
  readonly isQualifier: boolean
  readonly isBeforeName: boolean
  readonly next: string
}

function replacementOf(
  word: string,
  { isQualifier, isBeforeName, next }: WordContext,
): string | null {
  if (word === 'SYSTEM' && isQualifier) return systemSchema
  if (word === 'DEFAULT' && isQualifier) return 'chain'
  if (word === 'AT' && next !== 'TIME') return '"at"'
  // `TABLE transactions` is a complete query.
  return word === 'TABLE' && !isBeforeName ? '"table"' : null
}

/** Keywords that can follow a column and are not table names. */
const grammar = new Set(
  (
    'FROM AS IN NOT LIKE ILIKE IS AND OR ORDER GROUP BETWEEN ASC DESC NULLS THEN ELSE END WHEN ' +
    'WHERE HAVING LIMIT OFFSET UNION EXCEPT INTERSECT QUALIFY WINDOW ON USING JOIN COLLATE'
  ).split(' '),
)

function isName(word: string): boolean {
  return word !== '' && !grammar.has(word)
}
