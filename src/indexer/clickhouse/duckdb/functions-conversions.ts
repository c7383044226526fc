// ClickHouse's conversion functions in DuckDB's SQL, by the type of what they convert.
// Whole numbers wrap around, as in ClickHouse. Keys are in lower case.
import { SqlProblem } from '../sql/parser.ts'
import { duckdbString } from '../sql/quoting.ts'
import { parseType } from '../sql/types.ts'
import { type CallOf, type Entries, type Entry, notAnswered } from './entry.ts'
import {
  castTo,
  condition,
  defaultSql,
  duckdbTypeOf,
  enumValues,
  hasZone,
  type Integer,
  integerOf,
  isEnum,
  isFloat,
  isNumber,
  isText,
  isTime,
  nullable,
  opened,
  splitTypes,
  synonymOf,
  type Typed,
  timeType,
  unknown,
  withoutNull,
  zoneOf,
} from './typing.ts'

const numbers =
  'UInt8 UInt16 UInt32 UInt64 UInt128 Int8 Int16 Int32 Int64 Int128 Float32 Float64'.split(' ')
const decimalDigits: Readonly<Record<string, number>> = { 32: 9, 64: 18, 128: 38 }

/** The value in a type; null where there is no such conversion. */
export function converted(x: Typed, type: string): string | null {
  const base = withoutNull(type)
  const target = duckdbTypeOf(base)
  if (x.type === 'Nullable(Nothing)') return target === null ? null : `CAST(NULL AS ${target})`
  if (base === 'String') return textOf(x)
  if (isEnum(base)) return enumOf(x, base)
  if (base === 'Bool') return isNumber(x.type) ? condition(x) : `CAST(${x.sql} AS BOOLEAN)`
  if (base === 'Date' || base === 'Date32') return dateOf(x)
  if (/^DateTime(\(|$)/.test(base)) return dateTimeOf(x)
  if (base.startsWith('DateTime64')) return time64Of(x, Number(/\d/.exec(base)?.[0] ?? 3))
  const integer = integerOf(base)
  if (integer !== null) return wholeOf(x, base, integer)
  if (target === null) return null
  const scale = /^DECIMAL\(\d+, (\d+)\)$/.exec(target)?.[1]
  return `CAST(${scale === undefined ? x.sql : cutTo(x, scale)} AS ${target})`
}

/** From a name, or from a number. */
function enumOf(x: Typed, type: string): string {
  const target = duckdbTypeOf(type)
  if (!isNumber(x.type)) {
    const names = [...enumValues(type).keys()].map(duckdbString).join(', ')
    const known = `enumElement(CAST(${x.sql} AS VARCHAR), [${names}], ${duckdbString(type)})`
    return `CAST(${known} AS ${target})`
  }
  const cases = [...enumValues(type)].map(([name, n]) => `WHEN ${n} THEN ${duckdbString(name)}`)
  const other = `enumNumber(${x.sql}, ${duckdbString(type)})`
  return `CAST(CASE ${x.sql} ${cases.join(' ')} ELSE ${other} END AS ${target})`
}

function wholeOf(x: Typed, type: string, { bits, isSigned }: Integer): string {
  const target = duckdbTypeOf(type)
  const from = integerOf(x.type)
  if (from !== null) {
    const fits = from.isSigned === isSigned ? from.bits <= bits : !from.isSigned && from.bits < bits
    return fits ? castTo(x, type) : wrapped(`CAST(${x.sql} AS HUGEINT)`, { bits, isSigned }, target)
  }
  if (isFloat(x.type))
    return wrapped(`CAST(trunc(${x.sql}) AS HUGEINT)`, { bits, isSigned }, target)
  if (isText(x.type)) return `CAST(wholeText(${x.sql}) AS ${target})`
  if (x.type === 'Date') return `CAST((${x.sql} - DATE '1970-01-01') AS ${target})`
  if (isTime(x.type))
    return `CAST(epoch_ns(CAST(${x.sql} AS TIMESTAMP_NS)) // 1000000000 AS ${target})`
  if (/^Decimal/.test(withoutNull(x.type))) return `CAST(trunc(${x.sql}) AS ${target})`
  return `CAST(wholeOf(${x.sql}) AS ${target})`
}

function wrapped(sql: string, { bits, isSigned }: Integer, target: string | null): string {
  const mask = `${(1n << BigInt(bits)) - 1n}::HUGEINT`
  if (!isSigned) return `CAST((${sql} & ${mask}) AS ${target})`
  const half = `${1n << BigInt(bits - 1)}::HUGEINT`
  return `CAST((((${sql} + ${half}) & ${mask}) - ${half}) AS ${target})`
}

/** The text of a value as ClickHouse writes it. */
export function textOf(x: Typed): string {
  const type = withoutNull(x.type)
  if (isText(type)) return x.sql
  if (isFloat(type)) return `floatText(${x.sql})`
  const digits = Number(/^DateTime64\((\d)/.exec(type)?.[1] ?? 0)
  if (digits > 0)
    return `left(strftime(CAST(${x.sql} AS TIMESTAMP_NS), '%Y-%m-%d %H:%M:%S.%n'), ${20 + digits})`
  if (/^Decimal/.test(type)) return `decimalText(${x.sql})`
  if (/^(Array|Tuple)\(/.test(type)) return nestedText(x.sql, type)
  return type === unknown ? `anyText(${x.sql})` : `CAST(${x.sql} AS VARCHAR)`
}

/** `[1,2]`, `('a',1)`: texts and times are quoted inside. */
function nestedText(sql: string, type: string): string {
  const [name, inner] = opened(type)!
  const item = (value: string, of: string) => {
    const text = textOf({ sql: value, type: of })
    return isText(of) || isTime(of) ? `quotedText(${text})` : text
  }
  if (name === 'Array') {
    const level = `e${sql.length}_`
    const items = `list_transform(${sql}, lambda ${level}: ${item(level, inner)})`
    return `('[' || array_to_string(${items}, ',') || ']')`
  }
  const parts = splitTypes(inner).map((of, at) => item(`struct_extract(${sql}, ${at + 1})`, of))
  return `('(' || ${parts.join(` || ',' || `)} || ')')`
}

export function dateOf(x: Typed): string {
  if (isNumber(x.type)) return `dateFrom(CAST(${x.sql} AS BIGINT))`
  return isTime(x.type) || isText(x.type) ? `CAST(${x.sql} AS DATE)` : `anyDate(${x.sql})`
}

export function dateTimeOf(x: Typed): string {
  if (isFloat(x.type)) return `secondTime(CAST(trunc(${x.sql}) AS BIGINT))`
  if (isNumber(x.type)) return `secondTime(CAST(${x.sql} AS BIGINT))`
  if (isTime(x.type) || isText(x.type))
    return withoutNull(x.type) === 'DateTime'
      ? x.sql
      : `CAST(date_trunc('second', CAST(${x.sql} AS TIMESTAMP)) AS TIMESTAMP_S)`
  return `anyDateTime(${x.sql})`
}

function time64Of(x: Typed, digits: number): string {
  const target = timeType(digits)
  if (/^Decimal/.test(withoutNull(x.type))) {
    const [make, most] = digits > 6 ? ['make_timestamp_ns', 9] : ['make_timestamp', 6]
    const kept = `trunc(CAST(${x.sql} AS DECIMAL(28, 9)) * ${10 ** digits})`
    const count = `CAST(${kept} AS BIGINT) * ${10 ** (most - digits)}`
    return `CAST(${make}(${count}) AS ${target})`
  }
  if (!isNumber(x.type)) return `CAST(${x.sql} AS ${target})`
  const micros = isFloat(x.type)
    ? `CAST(CAST(${x.sql} AS DOUBLE) * 1000000 AS BIGINT)`
    : `CAST(${x.sql} AS BIGINT) * 1000000`
  return `CAST(make_timestamp(${micros}) AS ${target})`
}

/** A conversion with -OrZero, -OrNull and -OrDefault. */
function conversions(name: string, type: string): [string, Entry][] {
  const attempt = ({ args: [x] }: CallOf) => {
    if (x === undefined || !isText(x.type)) return null
    const whole = integerOf(type) === null ? x.sql : `tryWholeText(${x.sql})`
    return `TRY_CAST(${whole} AS ${duckdbTypeOf(type)})`
  }
  const or = (other: (call: CallOf) => string | null) => (call: CallOf) => {
    const [tried, fallback] = [attempt(call), other(call)]
    return tried === null || fallback === null ? null : `coalesce(${tried}, ${fallback})`
  }
  return [
    [name, { type, sql: (call) => convertedIn(call, type) }],
    [`${name}OrZero`, { type, sql: or(() => defaultSql(type)), nulls: 'own' }],
    [`${name}OrNull`, { type: nullable(type), sql: attempt, nulls: 'own' }],
    [
      `${name}OrDefault`,
      { type, sql: or(({ args: [, other] }) => other?.sql ?? defaultSql(type)), nulls: 'own' },
    ],
  ]
}

function convertedIn({ args: [x, ...more] }: CallOf, type: string): string | null {
  return x === undefined || more.length > 0 ? null : converted(x, type)
}

/** A decimal has no digits beyond its scale: they are cut off, not rounded. */
function cutTo(x: Typed, scale: string): string {
  if (isText(x.type)) return `regexp_replace(${x.sql}, '(\\.\\d{${scale}})\\d+$', '\\1')`
  return isFloat(x.type) ? `(trunc(${x.sql} * 1e${scale}) / 1e${scale})` : x.sql
}

const orZero = (sql: string | null) => (sql === null ? null : `coalesce(${sql}, 0)`)

/** `toDecimal64(x, scale)`. */
function decimals(bits: string): [string, Entry][] {
  const name = `toDecimal${bits}`
  const type = ({ args }: CallOf) => `Decimal(${decimalDigits[bits]}, ${args[1]?.literal ?? 0})`
  const target = (call: CallOf) =>
    /^\d{1,2}$/.test(call.args[1]?.literal ?? '') ? duckdbTypeOf(type(call)) : null
  const sql = (cast: string) => (call: CallOf) => {
    const [x, scale] = call.args
    const to = target(call)
    if (x === undefined || to === null) return null
    const cut = cutTo(x, scale?.literal ?? '0')
    return `${cast}(${cut} AS ${to})`
  }
  return [
    [name, { type, sql: sql('CAST') }],
    [`${name}OrNull`, { type: (call) => nullable(type(call)), sql: sql('TRY_CAST'), nulls: 'own' }],
    [`${name}OrZero`, { type, sql: (call) => orZero(sql('TRY_CAST')(call)), nulls: 'own' }],
  ]
}

const lower = (entries: readonly [string, Entry][]): Entries =>
  Object.fromEntries(entries.map(([name, entry]) => [name.toLowerCase(), entry]))

/** The type under its usual name. */
function castType(name: string): string {
  const other = synonymOf(name)
  if (other !== undefined) return other
  return /Enum/.test(name) ? (parseType(name)?.name ?? name) : name
}

/** `CAST(x, 'T')`: a type may be written under another name. */
function castSql({ args: [x, to] }: CallOf): string | null {
  const type = castType(to?.literal ?? '')
  if (x === undefined || duckdbTypeOf(type) === null) return null
  if (/^(Array|Map|Tuple)\(/.test(type)) return `CAST(${x.sql} AS ${duckdbTypeOf(type)})`
  return converted(x, type)
}

/** `accurateCastOrNull(x, 'T')`: NULL where the type cannot hold the value. */
function accurate(cast: string, isNull: boolean): Entry {
  return {
    type: ({ args }) => (isNull ? nullable : (t: string) => t)(castType(args[1]?.literal ?? '')),
    sql: ({ args: [x, to] }) => {
      const type = castType(to?.literal ?? '')
      const target = duckdbTypeOf(type)
      if (x === undefined || target === null) return null
      if (hasZone(type)) throw notAnswered(`a conversion to ${type}`)
      return `${cast}(${x.sql} AS ${target})`
    },
    nulls: 'own',
  }
}

function quotedZone(type: string): string {
  const zone = zoneOf(type)
  // UTC has several names, and the type keeps none of them.
  if (zone === null) throw notAnswered('timeZoneOf of a time in UTC')
  return duckdbString(zone)
}

export const conversionFunctions: Entries = {
  ...lower(numbers.flatMap((type) => conversions(`to${type}`, type))),
  ...lower([...conversions('toDate', 'Date'), ...conversions('toDate32', 'Date32')]),
  ...lower(conversions('toDateTime', 'DateTime')),
  ...lower(Object.keys(decimalDigits).flatMap(decimals)),
  tobool: { type: 'Bool', sql: ({ args: [x] }) => (x === undefined ? null : converted(x, 'Bool')) },
  tostring: {
    type: ({ args }) => (args[0]?.type === 'Nullable(Nothing)' ? 'Nullable(Nothing)' : 'String'),
    sql: ({ args: [x, ...more] }) => (x === undefined || more.length > 0 ? null : textOf(x)),
  },
  todatetime64: {
    type: ({ args }) => `DateTime64(${args[1]?.literal ?? '3'})`,
    sql: ({ args: [x, digits] }) =>
      x === undefined || !/^[0-9]$/.test(digits?.literal ?? '')
        ? null
        : time64Of(x, Number(digits!.literal)),
  },
  fromunixtimestamp: {
    type: 'DateTime',
    sql: ({ args: [x, ...more] }) => (x === undefined || more.length > 0 ? null : dateTimeOf(x)),
  },
  from_unixtime: {
    type: 'DateTime',
    sql: ({ args: [x, ...more] }) => (x === undefined || more.length > 0 ? null : dateTimeOf(x)),
  },
  tounixtimestamp: {
    type: 'UInt32',
    sql: ({ args: [x, ...more] }) =>
      x === undefined || more.length > 0
        ? null
        : `CAST(epoch_us(CAST(${x.sql} AS TIMESTAMP)) // 1000000 AS UINTEGER)`,
  },
  totypename: {
    type: 'String',
    sql: ({ args: [x] }) => {
      if (x === undefined || x.type.includes(unknown))
        throw new SqlProblem(
          'NOT_IMPLEMENTED',
          'the ClickHouse type of this expression is not known here',
        )
      const name = duckdbString(x.type)
      // The expression stays: an aggregate makes one row of all.
      return `CASE WHEN ${x.sql} IS NULL THEN ${name} ELSE ${name} END`
    },
    nulls: 'own',
  },
  cast: { type: ({ args }) => castType(args[1]?.literal ?? ''), sql: castSql, nulls: 'own' },
  accuratecast: accurate('CAST', false),
  accuratecastornull: accurate('TRY_CAST', true),
  timezoneof: {
    type: 'String',
    sql: ({ args: [x] }) => (x === undefined ? null : quotedZone(x.type)),
  },
  materialize: { type: ({ args }) => args[0]?.type ?? unknown, sql: '$1' },
  identity: { type: ({ args }) => args[0]?.type ?? unknown, sql: '$1' },
}
