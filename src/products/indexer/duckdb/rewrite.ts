// Rewrites ClickHouse names that are reserved in DuckDB.
// Thread: main of a query process. Pure; works on tokens, never inside strings or quoted names.
//
//   system.tables         system is a catalog of DuckDB             -> our schema system_
//   default.transactions  default is a keyword                      -> chain
//   SELECT at FROM usage  at and table are keywords                 -> "at", "table"
import { lex, symbolOf, type Token, wordOf } from '../sql/lexer.ts'

/** Schemas of the databases whose names DuckDB uses itself. */
export const schemaOf: Readonly<Record<string, string>> = {
  system: 'system_',
  information_schema: 'information_schema_',
  default: 'chain',
}

export function rewrite(text: string): string {
  const tokens = lex(text, 'duckdb-native')
  let made = ''
  let end = 0
  for (const [at, token] of tokens.entries()) {
    const replacement = replacementAt(text, tokens, at)
    if (replacement === null) continue
    made += text.slice(end, token.start) + replacement
    end = token.end
  }
  return made + text.slice(end)
}

function replacementAt(text: string, tokens: readonly Token[], at: number): string | null {
  const word = wordOf(text, tokens[at])
  const next = tokens[at + 1]
  const nextWord = wordOf(text, next)
  const isQualifier = symbolOf(text, next) === '.' && symbolOf(text, tokens[at - 1]) !== '.'
  if (isQualifier && Object.hasOwn(schemaOf, word.toLowerCase()))
    return schemaOf[word.toLowerCase()]!
  if (word === 'AT' && nextWord !== 'TIME') return '"at"'
  // `TABLE transactions` is a complete query.
  const isBeforeName = next?.kind === 'quoted' || (nextWord !== '' && !grammar.has(nextWord))
  return word === 'TABLE' && !isBeforeName ? '"table"' : null
}

/** Keywords that can follow a column and are not table names. */
const grammar = new Set(
  (
    'FROM AS IN NOT LIKE ILIKE IS AND OR ORDER GROUP BETWEEN ASC DESC NULLS THEN ELSE END WHEN ' +
    'WHERE HAVING LIMIT OFFSET UNION EXCEPT INTERSECT QUALIFY WINDOW ON USING JOIN COLLATE'
  ).split(' '),
)
