// Static ClickHouse types of expressions, and the DuckDB types that carry them.
// A type is its ClickHouse name; `?` is unknown, and may be inside another: `Nullable(?)`.
import { duckdbName, duckdbString } from '../sql/lexer.ts'
import { SqlProblem } from '../sql/parser.ts'
import { parseType } from '../sql/types.ts'

/** Printed SQL that can be inserted anywhere, with its type. */
export interface Typed {
  readonly sql: string
  readonly type: string
  /** The BOOLEAN of a condition, whose value `sql` is ClickHouse's UInt8. */
  readonly flag?: string
  /** The text of a literal. */
  readonly literal?: string
}

export const unknown = '?'

/** `Array(String)` is ['Array', 'String']; null when the type has no argument. */
export function opened(type: string): readonly [name: string, inner: string] | null {
  const at = type.indexOf('(')
  return at < 0 || !type.endsWith(')') ? null : [type.slice(0, at), type.slice(at + 1, -1)]
}

export function isNullable(type: string): boolean {
  return type.startsWith('Nullable(')
}

export function withoutNull(type: string): string {
  return isNullable(type) ? type.slice('Nullable('.length, -1) : type
}

export function nullable(type: string): string {
  const isPlain = isNullable(type) || /^(Array|Map|Tuple)\(/.test(type)
  return isPlain ? type : `Nullable(${type})`
}

/** The type of an array's items or a map's values. */
export function itemType(type: string): string {
  const [name, inner] = opened(withoutNull(type)) ?? ['', '']
  if (name === 'Array') return inner
  return name === 'Map' ? (splitTypes(inner)[1] ?? unknown) : unknown
}

/** The arguments of a type, split at the outer commas. */
export function splitTypes(inner: string): readonly string[] {
  const parts: string[] = []
  let depth = 0
  let begin = 0
  let isQuoted = false
  for (let at = 0; at < inner.length; at++) {
    const char = inner[at]
    if (char === '\\') at++
    else if (char === "'") isQuoted = !isQuoted
    else if (isQuoted) continue
    else if (char === '(') depth++
    else if (char === ')') depth--
    else if (char === ',' && depth === 0) {
      parts.push(inner.slice(begin, at).trim())
      begin = at + 1
    }
  }
  const last = inner.slice(begin).trim()
  return last === '' ? parts : [...parts, last]
}

export interface Integer {
  readonly bits: number
  readonly isSigned: boolean
}

export function integerOf(type: string): Integer | null {
  const found = /^(U?)Int(8|16|32|64)$/.exec(withoutNull(type))
  if (found === null) return type === 'Bool' ? { bits: 8, isSigned: false } : null
  return { bits: Number(found[2]), isSigned: found[1] === '' }
}

export function integerName({ bits, isSigned }: Integer): string {
  return `${isSigned ? '' : 'U'}Int${bits}`
}

export function isFloat(type: string): boolean {
  return /^Float(32|64)$/.test(withoutNull(type))
}

export function isNumber(type: string): boolean {
  return integerOf(type) !== null || isFloat(type)
}

export function isText(type: string): boolean {
  return /^(String|FixedString)/.test(withoutNull(type))
}

export function isTime(type: string): boolean {
  return /^(Date|Date32|DateTime|DateTime64\(\d\))$/.test(withoutNull(type))
}

/** The zone of a DateTime; null for one in UTC. */
export function zoneOf(type: string): string | null {
  const form = /^DateTime(?:\(|64\(\s*\d\s*,)\s*'([^']+)'\s*\)$/
  return form.exec(withoutNull(type))?.[1] ?? null
}

/** The time by the clocks of a zone, or back; DuckDB's zones know microseconds only. */
export function movedTime(
  macro: 'inZone' | 'fromZone',
  sql: string,
  zone: string,
  target: string | null,
): string {
  const moved = `CAST(${macro}(${sql}, ${duckdbString(zone)}) AS ${target})`
  return target === 'TIMESTAMP_NS' ? `withNanoseconds(${moved}, ${sql})` : moved
}

/** A zone is in the type, or in one inside. */
export function hasZone(type: string): boolean {
  return /DateTime(\(|64\(\s*\d\s*,)\s*'/.test(type)
}

/** The type of a DateTime in another zone; null and UTC are the plain type. */
export function timeIn(type: string, zone: string | null): string {
  const digits = /DateTime64\((\d)/.exec(type)?.[1]
  const isPlain = zone === null || /^(Etc\/)?(UTC|GMT)$/.test(zone)
  const inside = [...(digits === undefined ? [] : [digits]), ...(isPlain ? [] : [`'${zone}'`])]
  const name = `DateTime${digits === undefined ? '' : '64'}`
  const made = inside.length === 0 ? name : `${name}(${inside.join(', ')})`
  return isNullable(type) ? nullable(made) : made
}

export function isEnum(type: string): boolean {
  return /^Enum(8|16)\(/.test(withoutNull(type))
}

/** Numbers of an enum by name, in the order of the numbers. */
export function enumValues(type: string): ReadonlyMap<string, string> {
  const parsed = parseType(withoutNull(type))
  return (parsed !== null && 'values' in parsed ? parsed.values : undefined) ?? new Map()
}

/** The number of an enum's value. */
export function enumNumber({ sql, type }: Typed): Typed {
  const cases = [...enumValues(type)].map(([name, n]) => `WHEN ${duckdbString(name)} THEN ${n}`)
  const number = type.includes('Enum16(') ? 'Int16' : 'Int8'
  return {
    sql: `CAST(CASE CAST(${sql} AS VARCHAR) ${cases.join(' ')} END AS ${sqlTypes[number]})`,
    type: isNullable(type) ? nullable(number) : number,
  }
}

/** The common type of values in one column, array or CASE; `?` when it is not certain. */
export function superType(types: readonly string[]): string {
  const known = [...new Set(types.filter((type) => type !== 'Nullable(Nothing)'))]
  const hasNull = known.length > 0 && types.some(isNullable)
  const plain = [...new Set(known.map(withoutNull))]
  if (plain.length > 1 && plain.some((type) => zoneOf(type) !== null || isEnum(type)))
    throw new SqlProblem('NOT_IMPLEMENTED', `values of ${plain.join(' and ')} in one column`)
  const common = plain.length === 1 ? plain[0]! : numberType(plain)
  if (types.length > 0 && known.length === 0) return 'Nullable(Nothing)'
  return hasNull ? nullable(common) : common
}

function numberType(types: readonly string[]): string {
  if (types.length === 0 || !types.every(isNumber)) return unknown
  if (types.some(isFloat)) return 'Float64'
  const all = types.map((type) => integerOf(type)!)
  const isSigned = all.some((one) => one.isSigned)
  const bits = Math.max(...all.map((one) => (isSigned && !one.isSigned ? one.bits * 2 : one.bits)))
  return bits > 64 ? unknown : integerName({ bits, isSigned })
}

/** A longer name of a type is not known. */
const TYPE_CHARS_MAX = 10_000

/**
 * The DuckDB type of a ClickHouse type; null for one that is not known here. Of the name, which may
 * be the text of a literal, only digits and quoted names become SQL.
 */
export function duckdbTypeOf(type: string): string | null {
  const own = Object.hasOwn(sqlTypes, type) ? type : (synonymOf(type) ?? '')
  if (Object.hasOwn(sqlTypes, own)) return sqlTypes[own]!
  if (type.length > TYPE_CHARS_MAX) return null
  const [name, inner] = opened(type) ?? [type, '']
  const parts = splitTypes(inner)
  switch (name) {
    case 'Nullable':
    case 'LowCardinality':
      return parts.length === 1 ? duckdbTypeOf(parts[0]!) : null
    case 'Array':
    case 'Map':
    case 'Tuple':
      return nestedTypeOf(name, parts)
    case 'FixedString':
      return /^\d{1,9}$/.test(inner) ? 'VARCHAR' : null
    case 'Enum8':
    case 'Enum16': {
      const names = [...enumValues(type).keys()]
      // A zero byte is no part of a constant.
      if (names.length === 0 || names.some((one) => one.includes('\0'))) return null
      return `ENUM(${names.map(duckdbString).join(', ')})`
    }
    case 'DateTime':
      return isZones(parts) ? 'TIMESTAMP_S' : null
    case 'DateTime64': {
      const [digits = '3', ...zones] = parts
      return /^\d$/.test(digits) && isZones(zones) ? timeType(Number(digits)) : null
    }
    case 'Decimal':
    case 'DECIMAL':
      return decimalOf(parts)
    case 'Decimal32':
    case 'Decimal64':
    case 'Decimal128':
      return decimalOf([{ Decimal32: '9', Decimal64: '18', Decimal128: '38' }[name], ...parts])
    default:
      return null
  }
}

function nestedTypeOf(name: 'Array' | 'Map' | 'Tuple', parts: readonly string[]): string | null {
  if (name === 'Tuple') {
    const fields = parts.map((part) => {
      const [, field, inner = ''] = /^(\w+) (.+)$/s.exec(part) ?? []
      const sql = duckdbTypeOf(inner)
      return field === undefined || sql === null ? null : `${duckdbName(field)} ${sql}`
    })
    return fields.length === 0 || fields.includes(null) ? null : `STRUCT(${fields.join(', ')})`
  }
  const inside = parts.map(duckdbTypeOf)
  if (inside.includes(null) || inside.length !== (name === 'Map' ? 2 : 1)) return null
  return name === 'Map' ? `MAP(${inside.join(', ')})` : `${inside[0]}[]`
}

/** Precision and scale, of at most two digits each. */
function decimalOf(parts: readonly (string | undefined)[]): string | null {
  const [precision = '', scale = '0'] = parts
  const isKnown = parts.length < 3 && [precision, scale].every((one) => /^\d{1,2}$/.test(one))
  return isKnown ? `DECIMAL(${precision}, ${scale})` : null
}

/** At most one time zone in quotes. */
function isZones(parts: readonly string[]): boolean {
  return parts.length < 2 && parts.every((one) => /^'[\w+/-]+'$/.test(one))
}

/** The usual name of a type that is written under another one. */
export function synonymOf(name: string): string | undefined {
  const key = name.toUpperCase()
  return Object.hasOwn(synonyms, key) ? synonyms[key] : undefined
}

/** Other names of ClickHouse for its types. */
const synonyms: Readonly<Record<string, string>> = {
  BOOLEAN: 'Bool',
  TINYINT: 'Int8',
  SMALLINT: 'Int16',
  INT: 'Int32',
  INTEGER: 'Int32',
  BIGINT: 'Int64',
  FLOAT: 'Float32',
  REAL: 'Float32',
  DOUBLE: 'Float64',
  CHAR: 'String',
  VARCHAR: 'String',
  TEXT: 'String',
  TIMESTAMP: 'DateTime',
  DATE32: 'Date',
}

/** The default value of a type; null when the type is not known. */
export function defaultSql(type: string): string | null {
  if (isNullable(type)) return 'NULL'
  const sql = duckdbTypeOf(type)
  if (sql === null) return null
  if (isText(type)) return "''"
  if (isEnum(type)) return `CAST(${duckdbString([...enumValues(type).keys()][0] ?? '')} AS ${sql})`
  if (type.startsWith('Array(')) return `CAST([] AS ${sql})`
  if (type.startsWith('Map(')) return `CAST(MAP {} AS ${sql})`
  const text = type.startsWith('Date')
    ? '1970-01-01'
    : type === 'UUID'
      ? '00000000-0000-0000-0000-000000000000'
      : '0'
  return `CAST(${duckdbString(text)} AS ${sql})`
}

/** The value, or its type's default instead of NULL. */
export function filled(value: Typed): Typed {
  if (isNullable(value.type)) return value
  const other = defaultSql(value.type)
  const sql = other === null ? `orDefault(${value.sql})` : `coalesce(${value.sql}, ${other})`
  return { sql, type: value.type }
}

/** A condition, from DuckDB's BOOLEAN. */
export function flagOf(sql: string, type = 'UInt8'): Typed {
  const value = withoutNull(type) === 'Bool' ? sql : `CAST(${sql} AS UTINYINT)`
  return { sql: value, type, flag: sql }
}

/** The value as a condition. */
export function condition(value: Typed): string {
  return value.flag ?? (isNumber(value.type) ? `CAST(${value.sql} AS BOOLEAN)` : value.sql)
}

/** The value in another numeric type; a literal is written in it. */
export function castTo(value: Typed, type: string): string {
  const { sql } = value
  const wanted = duckdbTypeOf(type)
  if (withoutNull(value.type) === withoutNull(type) || wanted === null) return sql
  return value.literal !== undefined && isNumber(value.type)
    ? numberSql(value.literal, type)
    : `CAST(${sql} AS ${wanted})`
}

export function numberSql(text: string, type: string): string {
  const isPlain = /^\d+(\.\d+)?$/.test(text)
  return `${isPlain ? text : `'${text}'`}::${duckdbTypeOf(type)}`
}

// ClickHouse type names and the DuckDB types that they are stored and cast as. Thread: any; data.

export const sqlTypes: Readonly<Record<string, string>> = {
  Bool: 'BOOLEAN',
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
  Float32: 'FLOAT',
  Float64: 'DOUBLE',
  String: 'VARCHAR',
  'Array(String)': 'VARCHAR[]',
  UUID: 'UUID',
  Date: 'DATE',
  DateTime: 'TIMESTAMP_S',
  'DateTime64(3)': 'TIMESTAMP_MS',
  'DateTime64(6)': 'TIMESTAMP',
  'DateTime64(9)': 'TIMESTAMP_NS',
}

/** ClickHouse names by DuckDB type. */
export const typeNames: ReadonlyMap<string, string> = new Map([
  ...Object.entries(sqlTypes).map(([name, sql]) => [sql, name] as const),
  ['TIMESTAMP_TZ', 'DateTime64(6)'],
  ['SQLNULL', 'Nullable(Nothing)'],
])

/** The DuckDB type of a time with that many fractional digits. */
export function timeType(digits: number): string {
  if (digits === 0) return 'TIMESTAMP_S'
  return sqlTypes[`DateTime64(${Math.ceil(digits / 3) * 3})`]!
}
