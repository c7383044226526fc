// Defines ClickHouse functions in DuckDB as CREATE MACRO statements. Thread: any; data.
// A query process runs them before its configuration is locked; `functions.ts` has their types,
// and `aggregates.ts` and `operators.ts` what no macro can express.
//
// Types: DateTime is TIMESTAMP_S, DateTime64 is TIMESTAMP_MS, TIMESTAMP or TIMESTAMP_NS, Date is
// DATE. `typeof` is folded while a query is planned, so a CASE over it costs nothing per row.
// A macro of the same name hides DuckDB's function; `system.main.` reaches the hidden one.

import { sqlTypes } from './types.ts'

export interface Macro {
  readonly name: string
  /** The complete CREATE MACRO statement. */
  readonly sql: string
}

const isReal = (x: string) =>
  `(typeof(${x}) IN ('DOUBLE', 'FLOAT') OR typeof(${x}) LIKE 'DECIMAL%')`
const isTime = (x: string) => `(typeof(${x}) LIKE 'TIMESTAMP%' OR typeof(${x}) = 'DATE')`
const isInteger = (x: string) => `typeof(${x}) LIKE '%INT%'`
const toTime = (x: string) => `CAST(${x} AS TIMESTAMP)`
const instant = "timezone('UTC', current_timestamp)"

const ofNames = (pattern: RegExp) => Object.entries(sqlTypes).filter(([name]) => pattern.test(name))
const integers = ofNames(/^U?Int(8|16|32|64)$/)
const reals = ofNames(/^Float/)

/** Truncates towards zero as ClickHouse does; overflow is an error and does not wrap. */
function conversions(): Macro[] {
  const whole = integers.map(([name, type]) =>
    macro(
      `to${name}`,
      `(x) AS CASE WHEN ${isReal('x')} THEN CAST(trunc(TRY_CAST(x AS DOUBLE)) AS ${type})
       WHEN ${isTime('x')} THEN CAST(epoch(TRY_CAST(x AS TIMESTAMP)) AS ${type})
       ELSE CAST(x AS ${type}) END`,
    ),
  )
  const real = reals.map(([name, type]) => macro(`to${name}`, `(x) AS CAST(x AS ${type})`))
  const careful = [...integers, ...reals].flatMap(([name, type]) => [
    macro(`to${name}OrNull`, `(x) AS TRY_CAST(x AS ${type})`),
    macro(`to${name}OrZero`, `(x) AS coalesce(TRY_CAST(x AS ${type}), CAST(0 AS ${type}))`),
  ])
  return [...whole, ...real, ...careful]
}

/** Functions that DuckDB has under another name, by their number of arguments. */
const renamed = [
  [
    'x',
    'lengthUTF8 len, lowerUTF8 lower, upperUTF8 upper, anyLast last, anyHeavy mode, ' +
      'varPop var_pop, varSamp var_samp, stddevPop stddev_pop, stddevSamp stddev_samp, ' +
      'groupBitAnd bit_and, groupBitOr bit_or, groupBitXor bit_xor, arrayJoin unnest, ' +
      'arraySort list_sort, arrayReverseSort list_reverse_sort, arrayReverse list_reverse, ' +
      'arrayDistinct list_distinct',
  ],
  [
    'x, y',
    'startsWith starts_with, endsWith ends_with, positionUTF8 instr, match regexp_matches, ' +
      'quantiles quantile_cont, topK approx_top_k, covarPop covar_pop, covarSamp covar_samp, ' +
      'has list_contains, hasAny list_has_any, hasAll list_has_all, ' +
      'arrayElement list_extract, arrayConcat list_concat, bitXor xor, ifNull coalesce',
  ],
  ['x, y, z', 'replaceAll replace, replaceRegexpOne regexp_replace'],
].flatMap(([args, names]) =>
  names!.split(', ').map((pair) => {
    const [name, own] = pair.split(' ')
    return macro(name!, `(${args}) AS ${own}(${args})`)
  }),
)

const texts = [
  macro(
    'toString',
    `(x) AS CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT')
     THEN regexp_replace(CAST(x AS VARCHAR), '\\.0$', '') ELSE CAST(x AS VARCHAR) END`,
  ),
  macro('empty', '(x) AS len(x) = 0'),
  macro('notEmpty', '(x) AS len(x) > 0'),
  macro(
    'substringUTF8',
    '(x, start) AS substring(x, start), (x, start, n) AS substring(x, start, n)',
  ),
  macro('positionCaseInsensitive', '(x, part) AS instr(lower(x), lower(part))'),
  macro('replaceRegexpAll', "(x, pattern, other) AS regexp_replace(x, pattern, other, 'g')"),
  macro('splitByChar', '(sep, x) AS string_split(x, sep)'),
  macro('splitByString', '(sep, x) AS string_split(x, sep)'),
  macro('arrayStringConcat', "(a) AS array_to_string(a, ''), (a, sep) AS array_to_string(a, sep)"),
  macro(
    'hex',
    `(x) AS CASE WHEN strlen(system.main.hex(x)) % 2 = 1
     THEN '0' || system.main.hex(x) ELSE system.main.hex(x) END`,
  ),
  macro('unhex', '(x) AS decode(from_hex(x))'),
  macro('formatReadableSize', `(x) AS ${scaled(1024, ['B', ...prefixes('iB')])}`),
  macro(
    'formatReadableQuantity',
    `(x) AS ${scaled(1000, ['', 'thousand', 'million', 'billion', 'trillion', 'quadrillion'])}`,
  ),
]

const times = [
  macro('now', `() AS CAST(date_trunc('second', ${instant}) AS TIMESTAMP_S)`),
  macro('now64', `() AS CAST(date_trunc('millisecond', ${instant}) AS TIMESTAMP_MS)`),
  macro('today', `() AS CAST(${instant} AS DATE)`),
  macro('yesterday', `() AS CAST(${instant} AS DATE) - 1`),
  macro(
    'toDate',
    `(x) AS CASE WHEN ${isInteger('x')}
     THEN DATE '1970-01-01' + CAST(TRY_CAST(x AS UINTEGER) AS INTEGER)
     ELSE CAST(x AS DATE) END`,
  ),
  macro('toDateTime', `(x) AS ${dateTime('x')}, (x, zone) AS ${dateTime('x')}`),
  macro('fromUnixTimestamp', `(x) AS ${dateTime('CAST(x AS BIGINT)')}`),
  macro('parseDateTimeBestEffort', `(x) AS CAST(${toTime('x')} AS TIMESTAMP_S)`),
  macro('toUnixTimestamp', `(x) AS CAST(epoch(${toTime('x')}) AS UINTEGER)`),
  macro('toUnixTimestamp64Milli', `(x) AS epoch_ms(CAST(x AS TIMESTAMP_NS))`),
  macro('toUnixTimestamp64Nano', `(x) AS epoch_ns(CAST(x AS TIMESTAMP_NS))`),
  ...Object.entries({ Minute: 'minute', Hour: 'hour', Day: 'day', Second: 'second' }).map(
    ([name, unit]) =>
      macro(
        `toStartOf${name}`,
        `(t) AS CAST(date_trunc('${unit}', ${toTime('t')}) AS TIMESTAMP_S)`,
      ),
  ),
  ...Object.entries({ FiveMinute: 5, FiveMinutes: 5, TenMinutes: 10, FifteenMinutes: 15 }).map(
    ([name, minutes]) =>
      macro(
        `toStartOf${name}`,
        `(t) AS CAST(time_bucket(INTERVAL ${minutes} MINUTE, ${toTime('t')}) AS TIMESTAMP_S)`,
      ),
  ),
  ...Object.entries({ Month: 'month', Quarter: 'quarter', Year: 'year' }).map(([name, unit]) =>
    macro(`toStartOf${name}`, `(t) AS CAST(date_trunc('${unit}', ${toTime('t')}) AS DATE)`),
  ),
  macro('toMonday', `(t) AS CAST(date_trunc('week', ${toTime('t')}) AS DATE)`),
  // ClickHouse counts weeks from Sunday unless mode 1 is requested.
  macro(
    'toStartOfWeek',
    `(t) AS CAST(CAST(t AS DATE) - CAST(dayofweek(${toTime('t')}) AS INTEGER) AS DATE),
     (t, mode) AS CAST(CASE WHEN mode % 2 = 1 THEN CAST(date_trunc('week', ${toTime('t')}) AS DATE)
       ELSE CAST(t AS DATE) - CAST(dayofweek(${toTime('t')}) AS INTEGER) END AS DATE)`,
  ),
  macro('toStartOfInterval', `(t, step) AS CAST(time_bucket(step, ${toTime('t')}) AS TIMESTAMP_S)`),
  ...calendar(),
]

function calendar(): Macro[] {
  const part = (name: string, type: string, unit: string) =>
    macro(name, `(t) AS CAST(${unit}(${toTime('t')}) AS ${type})`)
  const time = toTime('t')
  const day = `year(${time}) * 10000 + month(${time}) * 100 + day(${time})`
  const clock = `hour(${time}) * 10000 + minute(${time}) * 100 + second(${time})`
  const units = ['Second', 'Minute', 'Hour', 'Day', 'Week', 'Month', 'Year']
  const moved = (unit: string, sign: string) =>
    `(t, n) AS CAST(${time} ${sign} to_${unit.toLowerCase()}s(CAST(n AS INTEGER))
     AS TIMESTAMP_S)`
  return [
    part('toYear', 'USMALLINT', 'year'),
    part('toQuarter', 'UTINYINT', 'quarter'),
    part('toMonth', 'UTINYINT', 'month'),
    part('toDayOfMonth', 'UTINYINT', 'day'),
    part('toDayOfWeek', 'UTINYINT', 'isodow'),
    part('toDayOfYear', 'USMALLINT', 'dayofyear'),
    part('toHour', 'UTINYINT', 'hour'),
    part('toMinute', 'UTINYINT', 'minute'),
    part('toSecond', 'UTINYINT', 'second'),
    macro('toYYYYMM', `(t) AS CAST((${day}) // 100 AS UINTEGER)`),
    macro('toYYYYMMDD', `(t) AS CAST(${day} AS UINTEGER)`),
    macro('toYYYYMMDDhhmmss', `(t) AS CAST((${day}) * 1000000 + ${clock} AS UBIGINT)`),
    ...units.flatMap((unit) => [
      macro(`toInterval${unit}`, `(n) AS to_${unit.toLowerCase()}s(CAST(n AS INTEGER))`),
      macro(`add${unit}s`, moved(unit, '+')),
      macro(`subtract${unit}s`, moved(unit, '-')),
    ]),
  ]
}

const aggregates = [
  ...['uniq', 'uniqExact', 'uniqCombined', 'uniqHLL12'].flatMap((name) => [
    macro(
      name,
      `(x) AS count(DISTINCT x), (x, y) AS count(DISTINCT (x, y)),
       (x, y, z) AS count(DISTINCT (x, y, z))`,
    ),
    macro(`${name}If`, '(x, cond) AS count(DISTINCT x) FILTER (WHERE cond)'),
  ]),
  macro('groupArray', '(x) AS coalesce(list(x), [])'),
  macro('groupUniqArray', '(x) AS coalesce(list(DISTINCT x), [])'),
  macro('groupArrayIf', '(x, cond) AS coalesce(list(x) FILTER (WHERE cond), [])'),
  macro('sumIf', '(x, cond) AS coalesce(sum(x) FILTER (WHERE cond), 0)'),
  ...['avg', 'min', 'max'].map((name) =>
    macro(`${name}If`, `(x, cond) AS ${name}(x) FILTER (WHERE cond)`),
  ),
  macro('anyIf', '(x, cond) AS any_value(x) FILTER (WHERE cond)'),
  macro('argMinIf', '(x, y, cond) AS arg_min(x, y) FILTER (WHERE cond)'),
  macro('argMaxIf', '(x, y, cond) AS arg_max(x, y) FILTER (WHERE cond)'),
  macro('quantile', '(x) AS quantile_cont(x, 0.5), (x, level) AS quantile_cont(x, level)'),
  macro('quantileIf', '(x, cond, level) AS quantile_cont(x, level) FILTER (WHERE cond)'),
  macro('quantileExact', `(x) AS ${exact('0.5')}, (x, level) AS ${exact('level')}`),
  macro('medianExact', `(x) AS ${exact('0.5')}`),
]

const rest = [
  // What `typing.ts` prints where it does not know a type.
  macro(
    'orDefault',
    `(x) AS coalesce(x, cast_to_type(CASE WHEN typeof(x) = 'VARCHAR' THEN ''
     WHEN typeof(x) LIKE 'TIMESTAMP%' OR typeof(x) = 'DATE' THEN '1970-01-01'
     WHEN typeof(x) LIKE '%[]' THEN '[]' WHEN typeof(x) LIKE 'MAP(%' THEN '{}'
     WHEN typeof(x) = 'UUID' THEN '00000000-0000-0000-0000-000000000000'
     WHEN typeof(x) LIKE 'STRUCT(%' THEN NULL ELSE '0' END, x))`,
  ),
  macro('nonZero', "(x) AS CASE WHEN x = 0 THEN error('Division by zero') ELSE x END"),
  macro(
    'sameLength',
    `(a, b) AS CASE WHEN len(a) <> len(b)
     THEN error('Sizes of ARRAY-JOIN-ed arrays do not match') ELSE a END`,
  ),
  macro('indexOf', '(a, x) AS CAST(coalesce(list_position(a, x), 0) AS UBIGINT)'),
  macro('arraySlice', '(a, start) AS a[start:], (a, start, n) AS a[start:start + n - 1]'),
  macro('arrayUniq', '(a) AS CAST(list_unique(a) AS UINTEGER)'),
  macro('arraySum', '(a) AS coalesce(list_sum(a), 0)'),
  macro('tuple', '(a) AS row(a), (a, b) AS row(a, b), (a, b, c) AS row(a, b, c)'),
  macro('intDiv', '(a, b) AS a // b'),
  macro('intDivOrZero', '(a, b) AS coalesce(a // b, 0)'),
  macro('modulo', '(a, b) AS a % b'),
  ...Object.entries({ plus: '+', minus: '-', multiply: '*', divide: '/' }).map(([name, sign]) =>
    macro(name, `(a, b) AS a ${sign} b`),
  ),
  ...Object.entries({
    equals: '=',
    notEquals: '<>',
    less: '<',
    lessOrEquals: '<=',
    greater: '>',
    greaterOrEquals: '>=',
  }).map(([name, sign]) => macro(name, `(a, b) AS a ${sign} b`)),
  macro('negate', '(a) AS -a'),
  macro('bitAnd', '(a, b) AS a & b'),
  macro('bitOr', '(a, b) AS a | b'),
  macro('bitNot', '(a) AS ~a'),
  macro('bitShiftLeft', '(a, n) AS a << n'),
  macro('bitShiftRight', '(a, n) AS a >> n'),
  macro('bitTest', '(a, n) AS CAST((a >> n) & 1 AS UTINYINT)'),
  macro('assumeNotNull', '(x) AS x'),
  macro('toNullable', '(x) AS x'),
  macro('materialize', '(x) AS x'),
  macro('identity', '(x) AS x'),
  macro('currentDatabase', "() AS 'chain'"),
]

export const macros: readonly Macro[] = [
  ...conversions(),
  ...renamed,
  ...texts,
  ...times,
  ...aggregates,
  ...rest,
]

function macro(name: string, body: string): Macro {
  return { name, sql: `CREATE OR REPLACE MACRO "${name}"${body.replace(/\s+/g, ' ')}` }
}

/** Converts seconds since 1970, a string or another time to a DateTime. */
function dateTime(x: string): string {
  return `CAST(CASE WHEN ${isInteger(x)} THEN make_timestamp(TRY_CAST(${x} AS BIGINT) * 1000000)
    WHEN ${isReal(x)}
    THEN make_timestamp(TRY_CAST(trunc(TRY_CAST(${x} AS DOUBLE)) AS BIGINT) * 1000000)
    ELSE ${toTime(x)} END AS TIMESTAMP_S)`
}

/** Where level * n is whole, ClickHouse takes the upper of two neighbours and DuckDB the lower. */
function exact(level: string): string {
  return `quantile_disc(x, least(${level} + 1e-12, 1))`
}

function prefixes(unit: string): string[] {
  return [...'KMGTPE'].map((letter) => `${letter}${unit}`)
}

function scaled(base: number, names: readonly string[]): string {
  const steps = names.map((name, power) => {
    const unit = name === '' ? '' : ` ${name}`
    const shown = `printf('%.2f', CAST(x AS DOUBLE) / ${base ** power}.0) || '${unit}'`
    return power === names.length - 1
      ? `ELSE ${shown}`
      : `WHEN abs(x) < ${base ** (power + 1)} THEN ${shown}`
  })
  return `CASE ${steps.join(' ')} END`
}
