// Writes the values of query parameters as DuckDB literals. Thread: main of a query process. Pure.
// A value is a validated string of its type (sql/values.ts); whatever it contains, it can only
// become a literal of that type here.
import type { Statement, TypedValue } from '../engine.ts'
import { duckdbString } from '../sql/quoting.ts'
import { parseType, type Scalar, type SqlType } from '../sql/types.ts'
import { sqlTypes, timeType } from './types.ts'

/** The statement as it was written, with its parameters in braces. */
export function statementText({ texts, values }: Statement): string {
  const braces = (value: TypedValue) => value.source ?? `{value:${value.type}}`
  return texts.map((text, at) => text + (values[at] ? braces(values[at]) : '')).join('')
}

export function literal({ type, value }: TypedValue): string {
  const parsed = parseType(type)
  if (parsed === null) return duckdbString(String(value))
  return `CAST(${written(parsed, value)} AS ${typeOf(parsed)})`
}

function written(type: SqlType, value: TypedValue['value']): string {
  if (value === null) return 'NULL'
  if ('of' in type) {
    if (type.kind === 'nullable') return written(type.of, value)
    const items = typeof value === 'string' ? [] : value
    return `[${items.map((item) => written(type.of, item.value)).join(', ')}]`
  }
  const text = String(value)
  // Integers are written as numbers, because LIMIT and similar clauses require one.
  return type.kind === 'integer' && /^-?\d+$/.test(text) ? text : duckdbString(text)
}

function typeOf(type: SqlType): string {
  if (!('of' in type)) return scalarType(type)
  return type.kind === 'array' ? `${typeOf(type.of)}[]` : typeOf(type.of)
}

function scalarType({ kind, name, precision, scale = 0 }: Scalar): string {
  if (kind === 'datetime64') return timeType(scale)
  if (kind === 'decimal') return `DECIMAL(${precision}, ${scale})`
  return kind === 'date' ? 'DATE' : (sqlTypes[name] ?? 'VARCHAR')
}
