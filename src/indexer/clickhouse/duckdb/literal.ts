// Writes the values of query parameters as DuckDB literals. Thread: main of a query process. Pure.
// A value is a validated string of its type (sql/parameters.ts); whatever it contains, it can only
// become a literal of that type here.
import { duckdbString } from '../sql/lexer.ts'
import type { Statement, TypedValue } from '../sql/parameters.ts'
import { parseType, type Scalar, type SqlType } from '../sql/types.ts'
import { duckdbTypeOf, sqlTypes, timeType } from './typing.ts'

/** The statement as it was written, with its parameters in braces. */
export function statementText({ texts, values }: Statement): string {
  const braces = (value: TypedValue) => value.source ?? `{value:${value.type}}`
  return texts.map((text, at) => text + (values[at] ? braces(values[at]) : '')).join('')
}

export function literal({ type, value }: TypedValue): string {
  const parsed = parseType(type)
  return parsed === null ? duckdbString(String(value)) : written(parsed, value)
}

type Inner = (type: SqlType, value: TypedValue['value'], inner: Inner) => string

/** One cast around the whole; DuckDB has no name for a tuple's type, so its elements have casts. */
function written(type: SqlType, value: TypedValue['value'], _?: Inner): string {
  const name = typeOf(type)
  if (name !== null) return `CAST(${plain(type, value, plain)} AS ${name})`
  return plain(type, value, written)
}

function plain(type: SqlType, value: TypedValue['value'], inner: Inner): string {
  if ('of' in type && type.kind === 'nullable') return plain(type.of[0]!, value, inner)
  if (value === null && (!('of' in type) || type.kind !== 'tuple')) return 'NULL'
  if (!('of' in type)) {
    const text = String(value)
    // Integers are written as numbers, because LIMIT and similar clauses require one.
    return type.kind === 'integer' && /^-?\d+$/.test(text) ? text : duckdbString(text)
  }
  const { kind, of } = type
  const items = value === null || typeof value === 'string' ? [] : value
  if (kind === 'tuple')
    return `row(${of.map((one, at) => written(one, items[at]?.value ?? null)).join(', ')})`
  const lists = of.map((one, part) => {
    const own = items.filter((_, at) => at % of.length === part)
    // An empty list has its type from an item that is cut off.
    if (own.length === 0) return `[${inner(one, null, inner)}][1:0]`
    return `[${own.map((item) => inner(one, item.value, inner)).join(', ')}]`
  })
  return kind === 'map' ? `map(${lists.join(', ')})` : lists[0]!
}

/** Null when a tuple is inside. */
function typeOf(type: SqlType): string | null {
  if (!('of' in type)) return scalarType(type)
  const inner = type.of.map(typeOf)
  if (type.kind === 'tuple' || inner.includes(null)) return null
  if (type.kind === 'map') return `MAP(${inner.join(', ')})`
  return type.kind === 'array' ? `${inner[0]}[]` : inner[0]!
}

function scalarType({ kind, name, precision, scale = 0 }: Scalar): string {
  if (kind === 'datetime64') return timeType(scale)
  if (kind === 'decimal') return `DECIMAL(${precision}, ${scale})`
  if (kind === 'enum') return duckdbTypeOf(name) ?? 'VARCHAR'
  return kind === 'date' ? 'DATE' : (sqlTypes[name] ?? 'VARCHAR')
}
