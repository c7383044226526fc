// Writes the values of query parameters as DuckDB literals. Thread: main of a query process. Pure.
// A value is a validated string of its type (sql/values.ts); whatever it contains, it can only
// become a literal of that type here.
import type { Statement, TypedValue } from '../engine.ts'
import { duckdbString } from '../sql/quoting.ts'
import { parseType, type Scalar, type SqlType } from '../sql/types.ts'

/** The statement with its parameter values inserted. */
export function statementText({ texts, values }: Statement): string {
  return texts.map((text, index) => text + (values[index] ? literal(values[index]) : '')).join('')
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
  switch (kind) {
    case 'integer':
      return integers[name] ?? 'HUGEINT'
    case 'float':
      return name === 'Float32' ? 'FLOAT' : 'DOUBLE'
    case 'bool':
      return 'BOOLEAN'
    case 'uuid':
      return 'UUID'
    case 'date':
      return 'DATE'
    case 'datetime':
      return 'TIMESTAMP_S'
    case 'datetime64':
      if (scale === 0) return 'TIMESTAMP_S'
      if (scale <= 3) return 'TIMESTAMP_MS'
      return scale <= 6 ? 'TIMESTAMP' : 'TIMESTAMP_NS'
    case 'decimal':
      return `DECIMAL(${precision}, ${scale})`
    default:
      return 'VARCHAR'
  }
}

const integers: Readonly<Record<string, string>> = {
  UInt8: 'UTINYINT',
  UInt16: 'USMALLINT',
  UInt32: 'UINTEGER',
  UInt64: 'UBIGINT',
  UInt128: 'UHUGEINT',
  Int8: 'TINYINT',
  Int16: 'SMALLINT',
  Int32: 'INTEGER',
  Int64: 'BIGINT',
  Int128: 'HUGEINT',
}
