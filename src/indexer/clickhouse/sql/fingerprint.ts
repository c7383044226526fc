// Removes everything private from a statement, for the log of slow queries.
// Literals, parameters, long words and comments are `?`.
import { lex, type Token } from './lexer.ts'

const CHARS_MAX = 400
/** Longer than all our names, shorter than a password or a token, which may appear anywhere. */
const NAME_CHARS_MAX = 30

export function fingerprint(text: string): string {
  const parts: string[] = []
  let chars = 0
  for (const token of lex(text, CHARS_MAX)) {
    if (token.kind === 'comment') continue
    const part = shown(text, token)
    // A list of values is collapsed into one.
    if (part === '?' && parts.at(-1) === ',' && parts.at(-2) === '?') {
      parts.pop()
      continue
    }
    parts.push(part)
    chars += part.length + 1
    if (chars > CHARS_MAX) return `${parts.join(' ').slice(0, CHARS_MAX)}…`
  }
  return parts.join(' ')
}

function shown(text: string, { kind, start, end }: Token): string {
  if (kind === 'symbol') return text.slice(start, end)
  const isName = kind === 'word' || kind === 'quoted'
  return isName && end - start <= NAME_CHARS_MAX ? text.slice(start, end) : '?'
}
