// ClickHouse's conversion functions in DuckDB's SQL, by the type of what they convert, and those of
// dates and times. Whole numbers wrap around, as in ClickHouse. Keys are in lower case.
import { duckdbString } from '../sql/lexer.ts'
import { SqlProblem } from '../sql/parser.ts'
import { parseType } from '../sql/types.ts'
import { type CallOf, type Entries, type Entry, notAnswered } from './entry.ts'
import { typedOperators } from './operators.ts'
import type { Integer, Typed } from './typing.ts'
import {
  castTo,
  condition,
  defaultSql,
  duckdbTypeOf,
  enumValues,
  hasZone,
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

function dateOf(x: Typed): string {
  if (isNumber(x.type)) return `dateFrom(CAST(${x.sql} AS BIGINT))`
  return isTime(x.type) || isText(x.type) ? `CAST(${x.sql} AS DATE)` : `anyDate(${x.sql})`
}

function dateTimeOf(x: Typed): string {
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

/** DuckDB's SQL of an interval, by unit. */
const intervals: Readonly<Record<string, (n: string) => string>> = {
  Millisecond: (n) => `to_milliseconds(CAST(${n} AS BIGINT))`,
  Microsecond: (n) => `to_microseconds(CAST(${n} AS BIGINT))`,
  Second: (n) => `to_seconds(CAST(${n} AS BIGINT))`,
  Minute: (n) => `to_minutes(CAST(${n} AS BIGINT))`,
  Hour: (n) => `to_hours(CAST(${n} AS BIGINT))`,
  Day: (n) => `to_days(CAST(${n} AS INTEGER))`,
  Week: (n) => `to_weeks(CAST(${n} AS INTEGER))`,
  Month: (n) => `to_months(CAST(${n} AS INTEGER))`,
  Quarter: (n) => `to_months(CAST(${n} AS INTEGER) * 3)`,
  Year: (n) => `to_years(CAST(${n} AS INTEGER))`,
}
const seconds: Readonly<Record<string, number>> = {
  Second: 1,
  Minute: 60,
  Hour: 3_600,
  Day: 86_400,
}
const months: Readonly<Record<string, number>> = { Month: 1, Quarter: 3 }

const intervalOf = (unit: string, n: Typed): Typed => ({
  sql: intervals[unit]!(n.sql),
  type: `Interval${unit}`,
})

/** An entry from a function that decides SQL and type together. */
function both(make: (call: CallOf) => Typed | null): Entry {
  return { type: (call) => make(call)?.type ?? unknown, sql: (call) => make(call)?.sql ?? null }
}

function moved(operator: 'plus' | 'minus', time: Typed | undefined, step: Typed): Typed | null {
  if (time === undefined || !isTime(time.type)) return null
  return typedOperators[operator]!({ name: operator, args: [time, step], params: [], nodes: [] })
}

/** A unit is a literal, or a word without quotes: `dateAdd(DAY, 1, t)`. */
function unitOf({ args, nodes: [node] }: CallOf): string | null {
  const text = args[0]?.literal ?? (node?.kind === 'column' ? node.path[0]! : '')
  const plain = text.toLowerCase().replace(/s$/, '')
  const long = { ...short, ...(Object.hasOwn(short, plain) ? {} : { [plain]: plain }) }[plain]!
  const unit = long.charAt(0).toUpperCase() + long.slice(1)
  return Object.hasOwn(intervals, unit) ? unit : null
}
const short: Readonly<Record<string, string>> = {
  ms: 'millisecond',
  ss: 'second',
  mi: 'minute',
  hh: 'hour',
  dd: 'day',
  ww: 'week',
  mm: 'month',
  qq: 'quarter',
  yyyy: 'year',
}

/** `dateAdd(unit, n, t)` and `dateAdd(t, INTERVAL n unit)`. */
const added = (operator: 'plus' | 'minus') =>
  both((call) => {
    const [first, second, third] = call.args
    if (third === undefined) return second === undefined ? null : moved(operator, first, second)
    const unit = unitOf(call)
    return unit === null ? null : moved(operator, third, intervalOf(unit, second!))
  })

const difference: Entry = {
  type: 'Int64',
  sql: (call) => {
    const unit = unitOf(call)
    const [, from, to, ...more] = call.args
    if (unit === null || from === undefined || to === undefined || more.length > 0) return null
    if (unit === 'Week') return `weeksBetween(${from.sql}, ${to.sql})`
    return `unitsBetween('${unit.toLowerCase()}', ${from.sql}, ${to.sql})`
  },
}

/** The begin of the interval that a time is in; intervals are counted from 1970, years from 0. */
function startOf(time: Typed, unit: string, count: string): Typed | null {
  const n = Number(count)
  if (!Number.isInteger(n) || n < 1) return null
  if (seconds[unit] !== undefined)
    return { sql: `bucket(${time.sql}, ${seconds[unit] * n})`, type: 'DateTime' }
  if (unit === 'Week') return { sql: `weekBucket(${time.sql}, ${n})`, type: 'Date' }
  if (unit === 'Year') return { sql: `yearBucket(${time.sql}, ${n})`, type: 'Date' }
  if (months[unit] !== undefined)
    return { sql: `monthBucket(${time.sql}, ${months[unit] * n})`, type: 'Date' }
  if (unit !== 'Millisecond') return null
  return { sql: `millisecondBucket(${time.sql}, ${n})`, type: 'DateTime64(3)' }
}

const interval = both(({ args: [time, , ...more], nodes: [, node] }) => {
  const unit = node?.kind === 'call' ? /^toInterval(\w+)$/i.exec(node.name)?.[1] : undefined
  const count = node?.kind === 'call' ? node.args[0] : undefined
  if (time === undefined || unit === undefined || count?.kind !== 'literal') return null
  if (more.length > 0) return null
  return startOf(time, unit, count.text)
})

const truncated = both((call) => {
  const [, time, ...more] = call.args
  const unit = unitOf(call)
  return time === undefined || unit === null || more.length > 0 ? null : startOf(time, unit, '1')
})

/** What ClickHouse's letters are in DuckDB's format; null where there is no equal. */
const letters: Readonly<Record<string, string>> = {
  a: '%a',
  b: '%b',
  c: '%m',
  C: '',
  d: '%d',
  D: '%m/%d/%y',
  e: '%-d',
  F: '%Y-%m-%d',
  f: '%f',
  G: '%G',
  h: '%I',
  H: '%H',
  i: '%M',
  I: '%I',
  j: '%j',
  k: '%H',
  l: '%I',
  m: '%m',
  M: '%B',
  n: '\n',
  p: '%p',
  r: '%I:%M %p',
  R: '%H:%M',
  s: '%S',
  S: '%S',
  t: '\t',
  T: '%H:%M:%S',
  u: '%u',
  V: '%V',
  w: '%w',
  W: '%A',
  y: '%y',
  Y: '%Y',
  z: '+0000',
  '%': '%%',
}

function formatOf(format: Typed | undefined, name: string): string {
  const text = format?.literal
  if (text === undefined)
    throw new SqlProblem('NOT_IMPLEMENTED', `${name} is answered for a format that is a literal`)
  return text.replaceAll(/%(.)/gs, (_, letter: string) => {
    const found = letters[letter]
    if (found === undefined || found === '')
      throw new SqlProblem('NOT_IMPLEMENTED', `${name} with %${letter} is not answered here`)
    return found
  })
}

const formatted: Entry = {
  type: 'String',
  sql: ({ name, args: [time, format] }) =>
    time === undefined
      ? null
      : `strftime(CAST(${time.sql} AS TIMESTAMP), ${duckdbString(formatOf(format, name))})`,
}

const parsed: Entry = {
  type: 'DateTime',
  sql: ({ name, args: [x, format] }) =>
    x === undefined
      ? null
      : `CAST(strptime(${x.sql}, ${duckdbString(formatOf(format, name))}) AS TIMESTAMP_S)`,
}

const names: Readonly<Record<string, string>> = {
  year: '%Y',
  quarter: '',
  month: '%B',
  dayofyear: '%-j',
  day: '%-d',
  week: '%-V',
  weekday: '%A',
  hour: '%-H',
  minute: '%-M',
  second: '%-S',
}

const units = Object.keys(intervals)

/** A time zone as the last argument of a function whose result is not a time. */
export const timeFunctions: Entries = {
  ...Object.fromEntries(
    units.flatMap((unit) => [
      [
        `tointerval${unit.toLowerCase()}`,
        both(({ args: [n] }) => (n === undefined ? null : intervalOf(unit, n))),
      ],
      [
        `add${unit.toLowerCase()}s`,
        both(({ args: [time, n] }) =>
          n === undefined ? null : moved('plus', time, intervalOf(unit, n)),
        ),
      ],
      [
        `subtract${unit.toLowerCase()}s`,
        both(({ args: [time, n] }) =>
          n === undefined ? null : moved('minus', time, intervalOf(unit, n)),
        ),
      ],
    ]),
  ),
  dateadd: added('plus'),
  date_add: added('plus'),
  timestampadd: added('plus'),
  timestamp_add: added('plus'),
  datesub: added('minus'),
  date_sub: added('minus'),
  timestampsub: added('minus'),
  timestamp_sub: added('minus'),
  datediff: difference,
  date_diff: difference,
  timestampdiff: difference,
  timestamp_diff: difference,
  age: {
    type: 'Int64',
    sql: (call) => {
      const unit = unitOf(call)
      const [, from, to] = call.args
      if (unit === null || from === undefined || to === undefined) return null
      const count = { Month: 1, Quarter: 3, Year: 12 }[unit]
      if (count !== undefined) return `wholeMonthsBetween(${count}, ${from.sql}, ${to.sql})`
      return `wholeUnitsBetween('${unit.toLowerCase()}', ${from.sql}, ${to.sql})`
    },
  },
  tostartofinterval: interval,
  date_trunc: truncated,
  datetrunc: truncated,
  tostartofsecond: {
    type: ({ args }) => args[0]?.type ?? unknown,
    sql: ({ args: [x] }) => {
      const target = duckdbTypeOf(withoutNull(x?.type ?? ''))
      if (x === undefined || !target?.startsWith('TIMESTAMP')) return null
      return `CAST(date_trunc('second', CAST(${x.sql} AS TIMESTAMP)) AS ${target})`
    },
  },
  formatdatetime: formatted,
  date_format: formatted,
  parsedatetime: parsed,
  datename: {
    type: 'String',
    sql: ({ args: [part, time] }) => {
      const unit = part?.literal?.toLowerCase() ?? ''
      const format = Object.hasOwn(names, unit) ? names[unit] : ''
      return !format || time === undefined
        ? null
        : `strftime(CAST(${time.sql} AS TIMESTAMP), '${format}')`
    },
  },
  // With a literal zone it is answered by special-types.ts.
  totimezone: { sql: () => null },
}
