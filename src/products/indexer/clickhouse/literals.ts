// Inserts parameter values into a query as literals of their types. Thread: any (pure).
// Servers before 19.14 do not support parameters, so all versions get literals. The values were
// validated by sql/; they are quoted here so that nothing in them can be read as SQL.

import { clickhouseString } from '../../../clickhouse/sql/quoting.ts'
import type { Statement, TypedValue } from '../../../clickhouse/sql/statement.ts'

/** The statement with its values as one string. */
export function withLiterals({ texts, values }: Statement): string {
  let text = texts[0] ?? ''
  for (const [index, value] of values.entries())
    text += literalAt(text, value) + (texts[index + 1] ?? '')
  return text
}

/** After LIMIT and similar words SQL requires a plain number without a cast. */
function literalAt(before: string, value: TypedValue): string {
  const isCount = /\b(limit|offset|top|interval)\s*$|\blimit\s+\d+\s*,\s*$/i.test(before.slice(-60))
  if (isCount && typeof value.value === 'string' && /^-?\d+$/.test(value.value)) return value.value
  return ` ${literal(value)} `
}

export function literal({ type, value }: TypedValue): string {
  const plain = /^Nullable\((.*)\)$/s.exec(type)?.[1] ?? type
  if (value === null)
    return `CAST(NULL AS ${type.startsWith('Nullable') ? type : `Nullable(${type})`})`
  if (typeof value !== 'string') return `CAST(${item({ type, value })} AS ${inUtc(type)})`
  if (plain === 'String') return clickhouseString(value)
  if (plain === 'Bool') return value === 'true' ? '1' : '0'
  return `CAST(${clickhouseString(value)} AS ${inUtc(plain)})`
}

/** Inside an array, a tuple or a map the surrounding cast sets the type. */
function item({ type, value }: TypedValue): string {
  if (value === null) return 'NULL'
  if (typeof value !== 'string') {
    const items = value.map(item).join(', ')
    if (type.startsWith('Map')) return `map(${items})`
    return type.startsWith('Tuple') ? `tuple(${items})` : `[${items}]`
  }
  if (/^U?Int\d+$/.test(type)) return value
  return type === 'Bool' ? (value === 'true' ? '1' : '0') : clickhouseString(value)
}

/** All times here are UTC, whatever the server's own zone. */
function inUtc(type: string): string {
  return type
    .replaceAll(/\bDateTime(?!64|\()/g, "DateTime('UTC')")
    .replaceAll(/\bDateTime64\((\d)\)/g, "DateTime64($1, 'UTC')")
}
