// Sums and differences of times, intervals and numbers in DuckDB's SQL.
import { SqlProblem } from '../sql/parser.ts'
import { duckdbTypeOf, isNumber, isTime, type Typed, withoutNull } from './typing.ts'

const timeUnits: Readonly<Record<string, number>> = {
  Nanosecond: 9,
  Microsecond: 6,
  Millisecond: 3,
}

/** The type of a time moved by an interval or a number. */
function movedType(time: string, other: string): string {
  const unit = /^Interval(\w+)$/.exec(withoutNull(other))?.[1]
  const base = withoutNull(time)
  if (unit === undefined) return base
  const digits = timeUnits[unit]
  if (digits !== undefined)
    return `DateTime64(${Math.max(digits, Number(/\((\d)/.exec(base)?.[1] ?? 0))})`
  const isDay = /^(Day|Week|Month|Quarter|Year)$/.test(unit)
  return base === 'Date' && !isDay ? 'DateTime' : base
}

function isInterval(type: string): boolean {
  return withoutNull(type).startsWith('Interval')
}

/** Plus and minus of times, intervals and numbers. */
export function moved(sign: '+' | '-', a: Typed, b: Typed): Typed | null {
  if (isTime(a.type) && (isInterval(b.type) || isNumber(b.type))) {
    const type = movedType(a.type, b.type)
    const target = duckdbTypeOf(type)
    if (withoutNull(a.type) === 'Date' && isNumber(b.type))
      return { sql: `(${a.sql} ${sign} CAST(${b.sql} AS INTEGER))`, type }
    const step = isInterval(b.type) ? b.sql : `to_seconds(CAST(${b.sql} AS BIGINT))`
    const sql = `CAST((CAST(${a.sql} AS TIMESTAMP) ${sign} ${step}) AS ${target})`
    // DuckDB adds intervals to microseconds only.
    return { sql: target === 'TIMESTAMP_NS' ? `withNanoseconds(${sql}, ${a.sql})` : sql, type }
  }
  if (sign === '+' && isTime(b.type) && !isTime(a.type)) return moved('+', b, a)
  if (isInterval(a.type) && isInterval(b.type))
    return { sql: `(${a.sql} ${sign} ${b.sql})`, type: a.type }
  if (sign === '-' && isTime(a.type) && isTime(b.type)) return difference(a, b)
  return null
}

function difference(a: Typed, b: Typed): Typed {
  const [x, y] = [withoutNull(a.type), withoutNull(b.type)]
  if ((x === 'Date') !== (y === 'Date'))
    throw new SqlProblem(
      'ILLEGAL_TYPE_OF_ARGUMENT',
      `Illegal types ${x} and ${y} of arguments of function minus`,
    )
  if (x === 'Date') return { sql: `CAST((${a.sql} - ${b.sql}) AS INTEGER)`, type: 'Int32' }
  const digits = Math.max(...[x, y].map((type) => Number(/\((\d)\)/.exec(type)?.[1] ?? 0)))
  const since = ({ sql }: Typed) => `epoch_ns(CAST(${sql} AS TIMESTAMP_NS))`
  const nanos = `(${since(a)} - ${since(b)})`
  if (digits === 0) return { sql: `CAST(${nanos} // 1000000000 AS INTEGER)`, type: 'Int32' }
  return {
    sql: `CAST(CAST(${nanos} AS DECIMAL(38, 9)) / 1000000000 AS DECIMAL(18, ${digits}))`,
    type: `Decimal(18, ${digits})`,
  }
}
