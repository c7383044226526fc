// ClickHouse's operators in DuckDB's SQL: arithmetic with ClickHouse's result types, comparisons,
// logic, times. Where DuckDB has a value out of the type's range, it fails;
// ClickHouse wraps around.
import { SqlProblem } from '../sql/parser.ts'
import type { CallOf, Entries } from './entry.ts'
import {
  castTo,
  condition,
  duckdbTypeOf,
  filled,
  integerName,
  integerOf,
  isFloat,
  isNullable,
  isNumber,
  isText,
  isTime,
  itemType,
  nullable,
  opened,
  splitTypes,
  superType,
  type Typed,
  unknown,
  withoutNull,
} from './typing.ts'

type Rule = (a: string, b: string) => string

/** The type of the sum or product of two numbers. */
const widened =
  (isAlwaysSigned: boolean): Rule =>
  (a, b) => {
    const [x, y] = [integerOf(a), integerOf(b)]
    if (x === null || y === null) return 'Float64'
    const bits = Math.min(64, 2 * Math.max(x.bits, y.bits))
    return integerName({ bits, isSigned: isAlwaysSigned || x.isSigned || y.isSigned })
  }
const quotient: Rule = (a, b) => {
  const [x, y] = [integerOf(a), integerOf(b)]
  return integerName({
    bits: x?.bits ?? 64,
    isSigned: x === null || y === null || x.isSigned || y.isSigned,
  })
}
const remainder: Rule = (a, b) => {
  const [x, y] = [integerOf(a), integerOf(b)]
  if (x === null || y === null) return 'Float64'
  return integerName({ bits: x.isSigned ? Math.min(64, y.bits * 2) : y.bits, isSigned: x.isSigned })
}

/** `a + b`, by the types of both. */
function arithmetic(sign: string, rule: Rule): (call: CallOf) => Typed | null {
  return ({ args }) => {
    const [a, b] = args
    if (a === undefined || b === undefined || args.length !== 2) return null
    const time = sign === '+' || sign === '-' ? moved(sign, a, b) : null
    if (time !== null) return time
    if (!isNumber(a.type) || !isNumber(b.type)) {
      refuseTexts(sign, a, b)
      if (sign === '/' && [a, b].some(({ type }) => type.includes('Decimal')))
        throw new SqlProblem('NOT_IMPLEMENTED', 'division of Decimal: take toFloat64 of it')
      return { sql: `(${a.sql} ${sign} ${b.sql})`, type: unknown }
    }
    const type = rule(a.type, b.type)
    const target = duckdbTypeOf(type)
    const isWide = [a, b].some((one) => withoutNull(one.type) === 'UInt64') && type === 'Int64'
    if (!isWide) return { sql: `(${castTo(a, type)} ${sign} ${castTo(b, type)})`, type }
    return {
      sql: `CAST((CAST(${a.sql} AS HUGEINT) ${sign} CAST(${b.sql} AS HUGEINT)) AS ${target})`,
      type,
    }
  }
}

function refuseTexts(sign: string, a: Typed, b: Typed): void {
  if (!isText(a.type) && !isText(b.type)) return
  const name = { '+': 'plus', '-': 'minus', '*': 'multiply', '/': 'divide' }[sign] ?? 'modulo'
  const types = `${a.type} and ${b.type}`
  throw new SqlProblem(
    'ILLEGAL_TYPE_OF_ARGUMENT',
    `Illegal types ${types} of arguments of function ${name}`,
  )
}

/** Integer division and remainder: a zero divisor is an error, as in ClickHouse. */
function division(sign: '//' | '%', rule: Rule): (call: CallOf) => Typed | null {
  return ({ args }) => {
    const [a, b] = args
    if (a === undefined || b === undefined || args.length !== 2) return null
    refuseTexts(sign, a, b)
    const isKnown = isNumber(a.type) && isNumber(b.type)
    const type = isKnown ? rule(a.type, b.type) : unknown
    if (b.literal === '0') throw new SqlProblem('ILLEGAL_DIVISION', 'Division by zero')
    const isReal = isFloat(a.type) || isFloat(b.type)
    const divisor = b.literal === undefined && !isReal ? `nonZero(${b.sql})` : b.sql
    // DuckDB divides unsigned by signed in HUGEINT, and truncates towards zero.
    const made =
      isReal && sign === '//' ? `trunc(${a.sql} / ${divisor})` : `(${a.sql} ${sign} ${divisor})`
    const target = duckdbTypeOf(type)
    return { sql: target === null ? made : `CAST(${made} AS ${target})`, type }
  }
}

const comparison =
  (sign: string) =>
  ({ args }: CallOf): string | null => {
    const [a, b] = args
    if (a === undefined || b === undefined || args.length !== 2) return null
    const isMixed = (x: Typed, y: Typed) =>
      isText(x.type) && x.literal === undefined && isNumber(y.type)
    if (isMixed(a, b) || isMixed(b, a))
      throw new SqlProblem('NO_COMMON_TYPE', `There is no supertype for types ${a.type}, ${b.type}`)
    return `(${a.sql} ${sign} ${b.sql})`
  }

const like =
  (operator: string) =>
  ({ args }: CallOf): string | null => {
    const [text, pattern] = args
    if (text === undefined || pattern === undefined || args.length !== 2) return null
    // A backslash escapes in ClickHouse's patterns; without one DuckDB's plain form is faster.
    const isPlain = pattern.literal !== undefined && !pattern.literal.includes('\\')
    return `(${text.sql} ${operator} ${pattern.sql}${isPlain ? '' : " ESCAPE '\\'"})`
  }

const logic =
  (word: string) =>
  ({ args }: CallOf): string | null =>
    args.length < 2 ? null : `(${args.map(condition).join(` ${word} `)})`

function cases({ args }: CallOf): string | null {
  if (args.length < 3 || args.length % 2 === 0) return null
  let sql = 'CASE'
  for (let at = 0; at + 1 < args.length; at += 2)
    sql += ` WHEN ${condition(args[at]!)} THEN ${args[at + 1]!.sql}`
  return `(${sql} ELSE ${args.at(-1)!.sql} END)`
}

/** The common type of the branches of multiIf. */
function branchType({ args }: CallOf): string {
  return superType(
    args.filter((_, at) => at % 2 === 1 || at === args.length - 1).map((one) => one.type),
  )
}

function element({ args: [from, key] }: CallOf): Typed | null {
  if (from === undefined || key === undefined) return null
  const isMap = from.type.startsWith('Map(')
  const index = /^U?Int(8|16|32)$/.test(key.type) ? key.sql : `CAST(${key.sql} AS BIGINT)`
  const sql = isMap
    ? `map_extract_value(${from.sql}, ${key.sql})`
    : `list_extract(${from.sql}, ${index})`
  return filled({ sql, type: itemType(from.type) })
}

/** `t.1` and `t.name`. */
function tupleElement({ args: [from, key] }: CallOf): Typed | null {
  if (from === undefined || key?.literal === undefined) return null
  const parts = splitTypes(opened(from.type)?.[1] ?? '')
  const at = isText(key.type)
    ? parts.findIndex((part) => part.startsWith(`${key.literal} `))
    : Number(key.literal) - 1
  const type = parts[at]?.replace(/^\w+ (?=\w)/, '') ?? unknown
  const isPlace = !isText(key.type)
  // DuckDB fails to take a field by its place out of a column of a subquery, but not out of a list.
  const value = isPlace && from.sql.startsWith('"') ? `list_extract([${from.sql}], 1)` : from.sql
  return { sql: `struct_extract(${value}, ${isPlace ? key.literal : key.sql})`, type }
}

/** Operators that decide SQL and type together. */
export const typedOperators: Readonly<Record<string, (call: CallOf) => Typed | null>> = {
  plus: arithmetic('+', widened(false)),
  minus: arithmetic('-', widened(true)),
  multiply: arithmetic('*', widened(false)),
  divide: arithmetic('/', () => 'Float64'),
  intdiv: division('//', quotient),
  modulo: division('%', remainder),
  negate: ({ args: [x] }) => {
    if (x === undefined) return null
    const integer = integerOf(x.type)
    if (integer === null) return { sql: `(-${x.sql})`, type: x.type }
    const bits = integer.isSigned ? integer.bits : Math.min(64, integer.bits * 2)
    const type = integerName({ bits, isSigned: true })
    return { sql: `(-${castTo(x, type)})`, type }
  },
  arrayelement: element,
  tupleelement: tupleElement,
}

export const operators: Entries = {
  equals: { type: 'flag', sql: comparison('=') },
  notequals: { type: 'flag', sql: comparison('<>') },
  less: { type: 'flag', sql: comparison('<') },
  lessorequals: { type: 'flag', sql: comparison('<=') },
  greater: { type: 'flag', sql: comparison('>') },
  greaterorequals: { type: 'flag', sql: comparison('>=') },
  and: { type: 'logic', sql: logic('AND') },
  or: { type: 'logic', sql: logic('OR') },
  not: {
    type: 'logic',
    sql: ({ args: [x] }) => (x === undefined ? null : `(NOT ${condition(x)})`),
  },
  xor: {
    type: 'logic',
    sql: ({ args }) => (args.length < 2 ? null : `(${args.map(condition).join(' <> ')})`),
  },
  isnull: { type: 'flag', sql: '($1 IS NULL)', nulls: 'own' },
  isnotnull: { type: 'flag', sql: '($1 IS NOT NULL)', nulls: 'own' },
  like: { type: 'flag', sql: like('LIKE') },
  notlike: { type: 'flag', sql: like('NOT LIKE') },
  ilike: { type: 'flag', sql: like('ILIKE') },
  notilike: { type: 'flag', sql: like('NOT ILIKE') },
  if: {
    type: branchType,
    nulls: 'own',
    sql: (call) => (call.args.length === 3 ? cases(call) : null),
  },
  multiif: { type: branchType, nulls: 'own', sql: cases },
  casewithexpression: {
    type: ({ args }) =>
      superType(
        args
          .slice(1)
          .filter((_, at) => at % 2 === 1 || at === args.length - 2)
          .map((one) => one.type),
      ),
    nulls: 'own',
    sql: ({ args }) => {
      let sql = `CASE ${args[0]!.sql}`
      for (let at = 1; at + 1 < args.length; at += 2)
        sql += ` WHEN ${args[at]!.sql} THEN ${args[at + 1]!.sql}`
      return `(${sql} ELSE ${args.at(-1)!.sql} END)`
    },
  },
  array: {
    type: ({ args }) =>
      `Array(${args.length === 0 ? 'Nothing' : superType(args.map((one) => one.type))})`,
    sql: '[$*]',
    nulls: 'own',
  },
  tuple: {
    type: ({ args }) => `Tuple(${args.map((one) => one.type).join(', ')})`,
    sql: 'row($*)',
    nulls: 'own',
  },
  concat: {
    type: 'String',
    sql: ({ args }) =>
      `(${args.map((one) => (isText(one.type) ? one.sql : `toString(${one.sql})`)).join(' || ')})`,
  },
  coalesce: { type: coalesced, sql: 'coalesce($*)', nulls: 'own' },
  ifnull: { type: coalesced, sql: 'coalesce($1, $2)', nulls: 'own' },
  nullif: {
    type: ({ args }) => nullable(args[0]?.type ?? unknown),
    sql: 'nullif($1, $2)',
    nulls: 'own',
  },
  assumenotnull: {
    type: ({ args }) => withoutNull(args[0]?.type ?? unknown),
    sql: '$1',
    nulls: 'own',
  },
  tonullable: { type: ({ args }) => nullable(args[0]?.type ?? unknown), sql: '$1', nulls: 'own' },
}

function coalesced({ args }: CallOf): string {
  const type = superType(
    args.map((one) => withoutNull(one.type)).filter((one) => one !== 'Nothing'),
  )
  return args.every((one) => isNullable(one.type)) ? nullable(type) : type
}

// Sums and differences of times, intervals and numbers in DuckDB's SQL.

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
