// ClickHouse's functions of dates and times whose SQL depends on a unit or on types.
// Keys are in lower case.
import { SqlProblem } from '../sql/parser.ts'
import { duckdbString } from '../sql/quoting.ts'
import type { CallOf, Entries, Entry } from './entry.ts'
import { typedOperators } from './operators.ts'
import { duckdbTypeOf, isTime, type Typed, unknown, withoutNull } from './typing.ts'

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
