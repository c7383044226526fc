// Writes the query of an unknown name into its error, as ClickHouse does.
import { explainSyntax } from './explain-syntax.ts'
import { parseStatement } from './parse-select.ts'

const SCOPE_CHARS_MAX = 200

/** One line, in ClickHouse's form where the query can be parsed. */
export function scopeText(text: string): string {
  const parsed = parseStatement(text)
  const lines = parsed.ok ? explainSyntax(parsed.value.query) : [text]
  return lines.join(' ').replaceAll(/\s+/g, ' ').trim().slice(0, SCOPE_CHARS_MAX)
}
