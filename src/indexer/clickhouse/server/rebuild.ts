// Rebuilds a query for a ClickHouse server from our own tokens.
//
// The server sees only this output: every string and quoted name decoded and quoted again, plain
// words and numbers, known operators, one space between two tokens, no comment. So it cannot read
// a quote, a comment or a heredoc where the gate read something else.
import { symbolOf, type Token } from '../sql/lexer.ts'
import { clickhouseName, clickhouseString, readQuoted } from '../sql/quoting.ts'

/** Replaces the tokens `first` to `last`, both included, by `text`. */
export interface Edit {
  readonly first: number
  readonly last: number
  readonly text: string
}

/** `tokens` are the valid tokens of `text`, without comments; edits do not overlap. */
export function rebuilt(
  text: string,
  tokens: readonly Token[],
  edits: readonly Edit[] = [],
): string {
  const parts: string[] = []
  const editAt = new Map(edits.map((edit) => [edit.first, edit]))
  for (let at = 0; at < tokens.length; at++) {
    const edit = editAt.get(at)
    parts.push(edit?.text ?? writtenToken(text, tokens[at]!))
    at = edit?.last ?? at
  }
  return parts.join(' ')
}

export function writtenToken(text: string, token: Token): string {
  const written = text.slice(token.start, token.end)
  // Reason for the fallback: an invalid literal was already refused when the query was read.
  if (token.kind === 'string') return clickhouseString(readQuoted(written) ?? '')
  return token.kind === 'quoted' ? clickhouseName(readQuoted(written) ?? '') : written
}

/** Symbols that the lexer knows for parameters and statements, but that no query contains. */
export function isForeignSymbol(text: string, token: Token): boolean {
  return ['{', '}', ';'].includes(symbolOf(text, token))
}
