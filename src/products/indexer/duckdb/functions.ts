// The table of ClickHouse's functions: their result types, and how DuckDB's SQL writes those that
// are no macro of `macros.ts`. Thread: any (pure). Keys are in lower case.
import { type CallOf, type Entries, type Entry, itemOf, same } from './entry.ts'
import { operators } from './operators.ts'
import { timeType } from './types.ts'
import {
  condition,
  duckdbTypeOf,
  isNumber,
  isText,
  itemType,
  synonyms,
  type Typed,
  withoutNull,
} from './typing.ts'

/** Functions whose SQL is a macro or DuckDB's own function, by their result type. */
const byType: Readonly<Record<string, string>> = {
  flag: 'empty notEmpty startsWith endsWith match has hasAny hasAll isFinite isInfinite isNaN',
  String: `
    toString lower upper lowerUTF8 upperUTF8 substringUTF8 replaceAll replaceRegexpAll
    replaceRegexpOne arrayStringConcat hex unhex formatReadableSize formatReadableQuantity
    currentDatabase reverse version`,
  'Array(String)': 'splitByChar splitByString',
  DateTime: `
    now toDateTime fromUnixTimestamp parseDateTimeBestEffort toStartOfSecond toStartOfMinute
    toStartOfFiveMinute toStartOfFiveMinutes toStartOfTenMinutes toStartOfFifteenMinutes
    toStartOfHour toStartOfDay toStartOfInterval`,
  'DateTime64(3)': 'now64',
  Date: `
    today yesterday toDate toStartOfMonth toStartOfQuarter toStartOfYear toStartOfWeek toMonday`,
  UInt8: 'toQuarter toMonth toDayOfMonth toDayOfWeek toHour toMinute toSecond bitTest',
  UInt16: 'toYear toDayOfYear',
  UInt32: 'toUnixTimestamp toYYYYMM toYYYYMMDD arrayUniq',
  UInt64: 'toYYYYMMDDhhmmss indexOf',
  Int64: 'toUnixTimestamp64Milli toUnixTimestamp64Nano',
  Float64: 'sqrt cbrt exp log2 log10 ln sin cos tan asin acos atan pow power',
}

/** Those that return their first argument's type. */
const sameType = `
  arraySort arrayReverseSort arrayReverse arrayDistinct arraySlice arrayConcat materialize identity`

const words = (text: string) => text.trim().split(/\s+/)
const integers = 'UInt8 UInt16 UInt32 UInt64 Int8 Int16 Int32 Int64 Float32 Float64'.split(' ')
const units =
  'Nanosecond Microsecond Millisecond Second Minute Hour Day Week Month Quarter Year'.split(' ')

const moved: Entry = { type: ({ args }) => (args[0]?.type === 'Date' ? 'DateTime' : 'DateTime') }

const plain: Entries = Object.fromEntries([
  ...Object.entries(byType).flatMap(([type, names]) =>
    words(names).map((name) => [name.toLowerCase(), type]),
  ),
  ...words(sameType).map((name) => [name.toLowerCase(), { type: same(0) }]),
  ...integers.flatMap((type) => [
    [`to${type}`.toLowerCase(), type],
    [`to${type}OrZero`.toLowerCase(), type],
    [`to${type}OrNull`.toLowerCase(), { type: `Nullable(${type})`, nulls: 'own' }],
  ]),
  ...units.flatMap((unit) => [
    [`tointerval${unit.toLowerCase()}`, { type: `Interval${unit}` }],
    [`add${unit.toLowerCase()}s`, moved],
    [`subtract${unit.toLowerCase()}s`, moved],
  ]),
])

const counted = (sql: string): string => `CAST(${sql} AS UBIGINT)`

/** Two arguments: a lambda and an array. */
const higher =
  (write: (lambda: Typed, array: string) => string) =>
  ({ args: [lambda, array] }: CallOf): string | null =>
    lambda === undefined || array === undefined ? null : write(lambda, array.sql)
const test = (lambda: Typed) => lambda.flag ?? lambda.sql

const own: Entries = {
  position: { type: 'UInt64', sql: counted('instr($1, $2)') },
  extract: { type: 'String', sql: 'regexp_extract($1, $2)' },
  length: { type: 'UInt64', sql: counted('len($1)') },
  lengthutf8: { type: 'UInt64', sql: counted('len($1)') },
  datediff: { type: 'Int64', sql: 'date_diff($1, $2, $3)' },
  date_diff: { type: 'Int64', sql: 'date_diff($1, $2, $3)' },
  arrayjoin: { type: itemOf(0), sql: 'unnest($1)' },
  arraymap: {
    type: ({ args }) => `Array(${args[0]?.type})`,
    sql: higher((f, a) => `list_transform(${a}, ${f.sql})`),
  },
  arrayfilter: { type: same(1), sql: higher((f, a) => `list_filter(${a}, ${test(f)})`) },
  arrayexists: { type: 'flag', sql: higher((f, a) => `(len(list_filter(${a}, ${test(f)})) > 0)`) },
  arraycount: {
    type: 'UInt32',
    sql: higher((f, a) => `CAST(len(list_filter(${a}, ${test(f)})) AS UINTEGER)`),
  },
  arraysum: {
    type: ({ args: [first] }) => sumType(itemType(first?.type ?? '?')),
    sql: ({ args: [first, second] }) => {
      if (first === undefined) return null
      const all = second === undefined ? first.sql : `list_transform(${second.sql}, ${first.sql})`
      return `coalesce(list_sum(${all}), 0)`
    },
  },
  substring: {
    type: 'String',
    sql: ({ args: [text, ...rest] }) =>
      text === undefined
        ? null
        : `substring(${[text.sql, ...rest.map((one) => `CAST(${one.sql} AS BIGINT)`)].join(', ')})`,
  },
  todecimal64: {
    type: ({ args }) => `Decimal(18, ${args[1]?.literal ?? '0'})`,
    sql: ({ args: [x, scale] }) =>
      x === undefined || !/^\d+$/.test(scale?.literal ?? '')
        ? null
        : `CAST(${x.sql} AS DECIMAL(18, ${scale!.literal}))`,
  },
  map: {
    type: ({ args }) => `Map(${args[0]?.type ?? '?'}, ${args[1]?.type ?? '?'})`,
    sql: ({ args }) => {
      const pick = (rest: number) => args.filter((_, at) => at % 2 === rest).map((one) => one.sql)
      return `MAP([${pick(0).join(', ')}], [${pick(1).join(', ')}])`
    },
  },
  intdivorzero: { type: same(0), sql: 'coalesce(($1 // $2), 0)' },
  abs: { type: ({ args }) => (args[0]?.type ?? '?').replace(/^Int/, 'UInt'), sql: absolute },
  round: { type: same(0), sql: 'round($*)' },
  floor: { type: same(0), sql: 'floor($*)' },
  ceil: { type: same(0), sql: 'ceil($*)' },
  greatest: { type: same(0), sql: 'greatest($*)' },
  least: { type: same(0), sql: 'least($*)' },
  todatetime64: {
    type: ({ args }) => `DateTime64(${args[1]?.literal ?? '3'})`,
    sql: ({ args: [x, digits] }) =>
      x === undefined || !/^[0-9]$/.test(digits?.literal ?? '')
        ? null
        : `CAST(${x.sql} AS ${timeType(Number(digits!.literal))})`,
  },
  cast: { type: ({ args }) => castType(args[1]?.literal ?? ''), sql: castSql, nulls: 'own' },
}

export const functions: Entries = { ...plain, ...operators, ...own }

function sumType(item: string): string {
  return isNumber(item) ? '?' : '?'
}

function absolute({ args: [x] }: CallOf): string | null {
  if (x === undefined) return null
  const target = duckdbTypeOf(x.type.replace(/^Int/, 'UInt'))
  return /^Int/.test(x.type) && target !== null
    ? `CAST(abs(CAST(${x.sql} AS HUGEINT)) AS ${target})`
    : `abs(${x.sql})`
}

/** ClickHouse's name of a type that is written in one of its other ways. */
function castType(name: string): string {
  return synonyms[name.toUpperCase()] ?? name
}

/** Numbers are truncated as by the conversion functions; other types by DuckDB's CAST. */
function castSql({ args: [x, to] }: CallOf): string | null {
  const type = castType(to?.literal ?? '')
  const target = duckdbTypeOf(type)
  if (x === undefined || target === null) return null
  const base = withoutNull(type)
  if (base === 'Bool') return isNumber(x.type) ? condition(x) : `CAST(${x.sql} AS BOOLEAN)`
  if (base === 'String') return isText(x.type) ? x.sql : `toString(${x.sql})`
  if (x.type === 'Nullable(Nothing)') return `CAST(NULL AS ${target})`
  if (isNumber(base) || base === 'Date' || base === 'DateTime') return `to${base}(${x.sql})`
  return `CAST(${x.sql} AS ${target})`
}
