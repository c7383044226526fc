// Writes a query for a ClickHouse server anew from our own tokens. Thread: main (pure).
//
// The server sees only what is written here: every string and quoted name decoded and quoted again,
// plain words and numbers, known operators, one blank between two tokens, no comment. So it cannot
// read a quote, a comment or a heredoc where the gate read something else.
import { symbolOf, type Token } from '../sql/lexer.ts'
import { clickhouseName, clickhouseString, readQuoted } from '../sql/quoting.ts'

/** Text of ours in the place of the tokens `first` to `last`, both included. */
export interface Edit {
  readonly first: number
  readonly last: number
  readonly text: string
}

/** `tokens` were read from `text` without a problem and hold no comment; edits do not overlap. */
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
  // Reason for the fallback: a literal that is no text was refused when the query was read.
  if (token.kind === 'string') return clickhouseString(readQuoted(written) ?? '')
  return token.kind === 'quoted' ? clickhouseName(readQuoted(written) ?? '') : written
}

/** Signs that the lexer knows for parameters and statements, but that no query has. */
export function isForeignSymbol(text: string, token: Token): boolean {
  return ['{', '}', ';'].includes(symbolOf(text, token))
}
