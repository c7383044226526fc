// Prints ClickHouse expressions as DuckDB's SQL, each with its static type. Thread: main of a query
// process. Pure. Every printed expression is an atom: it can stand anywhere without parentheses.

import type { Expr, Lambda, Literal, Order, Window } from '../sql/ast.ts'
import { duckdbName, duckdbString } from '../sql/lexer.ts'
import type { TypedValue } from '../sql/parameters.ts'
import { SqlProblem } from '../sql/parser.ts'
import { type AggregateCall, aggregateSql, findAggregate } from './aggregates.ts'
import type { CallOf, Context } from './entry.ts'
import { filledTemplate, isFlagEntry, notAnswered, resultType } from './entry.ts'
import { functions } from './functions.ts'
import { literal as valueSql } from './literal.ts'
import { typedOperators } from './operators.ts'
import { argumentsOf, nearName, Scope, shown } from './scope.ts'
import { checkAggregate, specialCall } from './special-types.ts'
import { allowedFunctions } from './syntax-tree.ts'
import type { Typed } from './typing.ts'
import {
  defaultSql,
  filled,
  flagOf,
  isNullable,
  itemType,
  nullable,
  numberSql,
  opened,
  splitTypes,
  unknown,
  withoutNull,
  zoneOf,
} from './typing.ts'

/** Aliases are written out where they are used; without a bound a short query becomes gigabytes. */
const CHARS_MAX = 1_000_000

export function print(expr: Expr, scope: Scope, context: Context): Typed {
  context.spend()
  const replaced = scope.replacement(expr)
  if (replaced !== null) return replaced
  switch (expr.kind) {
    case 'literal':
      return literalOf(expr)
    case 'parameter': {
      const value = context.values[expr.index]
      if (value === undefined) throw new SqlProblem('UNKNOWN_QUERY_PARAMETER', 'a value is missing')
      if (value.type === 'Identifier') return columnOf([String(value.value)], scope, context)
      return { sql: valueSql(value), type: value.type, ...constantOf(value) }
    }
    case 'alias': {
      const owner = scope.ownerOf(expr.name, expr.of)
      owner?.expanding.add(expr.name)
      const value = print(expr.of, scope, context)
      owner?.expanding.delete(expr.name)
      return value
    }
    case 'column':
      return columnOf(expr.path, scope, context)
    case 'subquery': {
      const { sql, columns } = context.query(expr.query, scope)
      if (columns.length !== 1)
        throw new SqlProblem('BAD_ARGUMENTS', 'a subquery that is a value has one column')
      return { sql: `(${sql})`, type: nullable(columns[0]!.type) }
    }
    case 'lambda':
      throw new SqlProblem('BAD_ARGUMENTS', 'a lambda is only the first argument of a function')
    case 'star':
      throw new SqlProblem('BAD_ARGUMENTS', '* is only an item of SELECT or the argument of count')
    default: {
      const made = callOf(expr, scope, context)
      if (made.sql.length > CHARS_MAX)
        throw new SqlProblem(
          'BAD_ARGUMENTS',
          'the query is too long once its aliases are written out',
        )
      return made
    }
  }
}

function constantOf({ type, value }: TypedValue): { literal?: string } {
  return typeof value === 'string' && /^(U?Int|Float|String)/.test(type) ? { literal: value } : {}
}

function literalOf({ type, text }: Literal): Typed {
  if (type === 'String') return { sql: duckdbString(text), type, literal: text }
  if (type === 'Bool') return { sql: text, type, flag: text }
  if (type === 'Nullable(Nothing)') return { sql: 'NULL', type }
  return { sql: numberSql(text, type), type, literal: text }
}

function columnOf(path: readonly string[], scope: Scope, context: Context): Typed {
  const found = scope.find(path)
  let value: Typed
  if (found.kind === 'value') ({ value } = found)
  else {
    found.scope.expanding.add(found.name)
    // An alias belongs to its own select: a lambda's arguments inside are visible, others not.
    value = print(found.of, scope, context)
    found.scope.expanding.delete(found.name)
  }
  for (const name of found.rest) {
    const key = { sql: duckdbString(name), type: 'String', literal: name }
    value = typedOperators.tupleelement!({ name, args: [value, key], params: [], nodes: [] })!
  }
  return value
}

function callOf(expr: Expr & { kind: 'call' }, scope: Scope, context: Context): Typed {
  const name = expr.name.toLowerCase()
  if (name === 'in' || name === 'notin') return printMembership(expr, scope, context)
  if (name === 'exists' && expr.args[0]?.kind === 'subquery')
    return flagOf(`EXISTS (${context.query(expr.args[0].query, scope).sql})`)
  if (name === 'cast' || name === '_cast') return castOf(expr, scope, context)
  if (expr.over !== null && Object.hasOwn(windowFunctions, name)) {
    const call = { ...printedCall(expr, scope, context), over: overSql(expr.over, scope, context) }
    return windowFunctions[name]!(call, expr.over)
  }
  const aggregate = findAggregate(expr.name)
  if (aggregate !== null) {
    const call: AggregateCall = {
      ...printedCall(expr, scope, context),
      isDistinct: expr.isDistinct,
      filter: expr.filter === null ? null : print(expr.filter, scope, context),
      over: expr.over === null ? '' : ` OVER ${overSql(expr.over, scope, context)}`,
    }
    checkAggregate(aggregate.name, call.args)
    return aggregateSql(aggregate, call)
  }
  return functionOf(printedCall(expr, scope, context), expr, scope, context)
}

function functionOf(
  call: CallOf,
  expr: Expr & { kind: 'call' },
  scope: Scope,
  context: Context,
): Typed {
  const special = specialCall(call, (plain) => functionOf(plain, expr, scope, context))
  if (special !== null) return special
  const key = call.name.toLowerCase()
  const operator = Object.hasOwn(typedOperators, key) ? typedOperators[key]! : null
  if (operator !== null) {
    const made = operator(call) ?? wrongArguments(call.name)
    const isNull = call.args.some((one) => one.type.startsWith('Nullable('))
    return isNull && key !== 'arrayelement' ? { ...made, type: nullable(made.type) } : made
  }
  const over = expr.over === null ? '' : ` OVER ${overSql(expr.over, scope, context)}`
  const distinct = expr.isDistinct ? 'DISTINCT ' : ''
  const filter =
    expr.filter === null
      ? ''
      : ` FILTER (WHERE ${print(expr.filter, scope, context).flag ?? 'true'})`
  const entry = Object.hasOwn(functions, key) ? functions[key]! : null
  const params = call.params.length === 0 ? '' : `, ${call.params.map((one) => one.sql).join(', ')}`
  if (expr.params !== null && (entry === null || typeof entry === 'string'))
    throw new SqlProblem('NOT_IMPLEMENTED', `${call.name}(…)(…) is not answered here`)
  const inner = call.args.map((one) => one.sql).join(', ')
  const written = `${functionName(call.name)}(${distinct}${inner}${params})${filter}${over}`
  if (entry === null && !allowedFunctions.has(key)) throw unknownFunction(call.name)
  if (entry === null) return { sql: written, type: unknown }
  const template = typeof entry === 'string' ? undefined : entry.sql
  const sql =
    template === undefined
      ? written
      : ((typeof template === 'string' ? filledTemplate(template, call) : template(call)) ??
        wrongArguments(call.name))
  const type = resultType(entry, call)
  return isFlagEntry(entry) ? flagOf(sql, type) : { sql, type }
}

function unknownFunction(name: string): SqlProblem {
  const near = nearName(name.toLowerCase(), Object.keys(functions))
  const hint = near === null ? '' : `. Maybe you meant: ['${near}']`
  return new SqlProblem(
    'UNKNOWN_FUNCTION',
    `Function with name \`${shown(name)}\` does not exist${hint}`,
  )
}

function wrongArguments(name: string): never {
  throw new SqlProblem(
    'NUMBER_OF_ARGUMENTS_DOESNT_MATCH',
    `the arguments of function ${name} are not what it takes`,
  )
}

/** Words of DuckDB's grammar that are functions of ClickHouse. */
const quotedNames = /^(any|filter|row|array|map|position|substring|extract|overlay|trim)$/i

function functionName(name: string): string {
  return quotedNames.test(name) ? duckdbName(name) : name
}

function printedCall(
  { name, args: given, params }: Expr & { kind: 'call' },
  scope: Scope,
  context: Context,
): CallOf {
  const args = argumentsOf(given, scope)
  const printed = params?.map((one) => print(one, scope, context)) ?? []
  const [first, ...rest] = args
  if (first?.kind !== 'lambda')
    return {
      name,
      args: args.map((one) => print(one, scope, context)),
      params: printed,
      nodes: args,
    }
  const arrays = rest.map((one) => print(one, scope, context))
  return {
    name,
    args: lambdaArguments(first, arrays, scope, context),
    params: printed,
    nodes: args,
  }
}

/** A lambda of several arguments takes the tuples of its arrays, or the entries of a map. */
function lambdaArguments(
  { names, body }: Lambda,
  arrays: readonly Typed[],
  scope: Scope,
  context: Context,
): Typed[] {
  const count = names.length
  const variable = `v${context.number()}_`
  const isMap = count === 2 && arrays[0]?.type.startsWith('Map(') === true
  const types = isMap
    ? splitTypes(opened(arrays[0]!.type)![1])
    : arrays.map(({ type }) => itemType(type))
  const bound = names.map((name, at): [string, Typed] => {
    const type = types[at] ?? unknown
    const key = isMap ? ["'key'", "'value'"][at] : at + 1
    return [name, { sql: count === 1 ? variable : `struct_extract(${variable}, ${key})`, type }]
  })
  const inner = print(body, new Scope(scope, { locals: new Map(bound) }), context)
  const lambda = {
    ...inner,
    sql: `lambda ${variable}: ${inner.sql}`,
    ...(inner.flag !== undefined && { flag: `lambda ${variable}: ${inner.flag}` }),
  }
  if (count === 1 || isMap) return [lambda, ...arrays]
  const zipped = arrays.slice(0, count)
  const first = zipped[0]?.sql ?? ''
  const same = zipped.map(({ sql }, at) => (at === 0 ? sql : `sameLength(${sql}, ${first})`))
  const type = `Array(Tuple(${types.slice(0, count).join(', ')}))`
  return [lambda, { sql: `list_zip(${same.join(', ')})`, type }, ...arrays.slice(count)]
}

/** CAST is the conversion function of its type. */
function castOf(expr: Expr & { kind: 'call' }, scope: Scope, context: Context): Typed {
  const [from, to] = expr.args.map((one) => print(one, scope, context))
  if (from === undefined || to?.literal === undefined) return wrongArguments('CAST')
  const cast = functions.cast
  if (typeof cast !== 'object' || typeof cast.sql !== 'function') return wrongArguments('CAST')
  const zone = zoneOf(to.literal)
  if (zone !== null || zoneOf(from.type) !== null) {
    const digits = /^DateTime64\((\d)/.exec(to.literal)?.[1]
    const name = zone === null ? `to${to.literal}` : `toDateTime${digits === undefined ? '' : '64'}`
    const given = [
      from,
      ...[digits, zone ?? undefined].filter((one) => one !== undefined).map(text),
    ]
    return functionOf({ name, args: given, params: [], nodes: expr.args }, expr, scope, context)
  }
  const call = { name: 'CAST', args: [from, to], params: [], nodes: expr.args }
  const type = resultType(cast, call)
  const sql = cast.sql(call)
  if (sql === null)
    throw new SqlProblem('UNKNOWN_TYPE', `Unknown data type family: ${to.literal.slice(0, 60)}`)
  return withoutNull(type) === 'Bool' ? { sql, type, flag: sql } : { sql, type }
}

function text(literal: string): Typed {
  return { sql: duckdbString(literal), type: 'String', literal }
}

// Prints `x IN (…)` and `x NOT IN (…)`. Pure.
// ClickHouse ignores NULL on the right side, so the result is never NULL because of it.

export function printMembership(
  expr: Expr & { kind: 'call' },
  scope: Scope,
  context: Context,
): Typed {
  const [subject, set] = expr.args
  if (subject === undefined || set === undefined || expr.args.length !== 2)
    throw new SqlProblem('BAD_ARGUMENTS', 'IN takes a value and a set')
  const value = context.print(subject, scope)
  if (zoneOf(value.type) !== null) throw notAnswered('IN of a time with a time zone')
  const word = /^not/i.test(expr.name) ? 'NOT IN' : 'IN'
  const sql = setSql(set, subject, scope, context)
  if (sql === null) return flagOf(word === 'IN' ? 'false' : 'true')
  const made =
    sql.startsWith('[') || set.kind === 'parameter'
      ? `${word === 'IN' ? '' : 'NOT '}list_contains(${sql}, ${value.sql})`
      : `${value.sql} ${word} ${sql}`
  return flagOf(`(${made})`, isNullable(value.type) ? nullable('UInt8') : 'UInt8')
}

/** The right side; null when it is empty. */
function setSql(set: Expr, subject: Expr, scope: Scope, context: Context): string | null {
  if (set.kind === 'subquery') return queryOf(context.query(set.query, scope))
  if (set.kind === 'column' && set.path.length === 1) {
    const relation = scope.relation(set.path[0]!)
    if (relation !== null) return queryOf(relation)
  }
  const isSet = set.kind === 'call' && set.name === 'tuple'
  const isPair = subject.kind === 'call' && subject.name === 'tuple'
  // `(a, b) IN (1, 2)` is one tuple.
  const isOne =
    isPair && isSet && !set.args.every((one) => one.kind === 'call' && one.name === 'tuple')
  if (!isSet || isOne) {
    const value = context.print(set, scope)
    if (value.type.startsWith('Array('))
      return set.kind === 'call' ? value.sql : `[${value.sql}][1]`
    return value.type === 'Nullable(Nothing)' ? null : `(${value.sql})`
  }
  const items = set.args
    .map((one) => context.print(one, scope))
    .filter((one) => one.type !== 'Nullable(Nothing)')
  return items.length === 0 ? null : `(${items.map((one) => one.sql).join(', ')})`
}

function queryOf({
  sql,
  columns,
}: {
  sql: string
  columns: readonly { readonly type: string; readonly sql: string }[]
}): string {
  const hasNulls =
    columns.length === 1 && (isNullable(columns[0]!.type) || columns[0]!.type === unknown)
  const name = columns[0]?.sql ?? ''
  if (columns.length > 1)
    return `(SELECT row(${columns.map((one) => one.sql).join(', ')}) FROM (${sql}))`
  return hasNulls ? `(SELECT ${name} FROM (${sql}) WHERE ${name} IS NOT NULL)` : `(${sql})`
}

// Prints windows and ORDER BY items as DuckDB's SQL. Pure.

export function overSql(over: Window | string, scope: Scope, context: Context): string {
  return typeof over === 'string' ? duckdbName(over) : windowSql(over, scope, context)
}

export function windowSql(
  { base, partition, order, frame }: Window,
  scope: Scope,
  context: Context,
): string {
  const list = (all: readonly Expr[]) => all.map((one) => context.print(one, scope).sql).join(', ')
  const parts = base === null ? [] : [duckdbName(base)]
  if (partition.length > 0) parts.push(`PARTITION BY ${list(partition)}`)
  if (order.length > 0)
    parts.push(`ORDER BY ${order.map((one) => orderSql(one, scope, context)).join(', ')}`)
  if (frame !== null) {
    const bound = ({ side, count }: NonNullable<typeof frame.end>) =>
      side === 'CURRENT ROW'
        ? side
        : `${count === null ? 'UNBOUNDED' : context.print(count, scope).sql} ${side}`
    const { begin, end } = frame
    parts.push(
      `${frame.unit} ${end === null ? bound(begin) : `BETWEEN ${bound(begin)} AND ${bound(end)}`}`,
    )
  }
  return `(${parts.join(' ')})`
}

/** ClickHouse places NULL last in both directions. */
export function orderSql(
  { by, isDescending, nulls }: Order,
  scope: Scope,
  context: Context,
): string {
  const { sql } = context.print(by, scope)
  return `${sql} ${isDescending ? 'DESC' : 'ASC'} NULLS ${nulls ?? 'LAST'}`
}

interface WindowCall extends CallOf {
  /** What follows OVER. */
  readonly over: string
}
type Write = (call: WindowCall, window: Window | string) => Typed

const ranking =
  (type: string, sqlType: string): Write =>
  ({ name, args, over }) => {
    const inner = args.map((one) => one.sql).join(', ')
    return { sql: `CAST(${name}(${inner}) OVER ${over} AS ${sqlType})`, type }
  }

/** `lag(x, offset, default)`: outside the rows ClickHouse has the type's default. */
const shifted =
  (name: 'lag' | 'lead'): Write =>
  ({ args, over }) => {
    const [x, offset, other] = args
    if (x === undefined)
      throw new SqlProblem('NUMBER_OF_ARGUMENTS_DOESNT_MATCH', `${name} takes an argument`)
    const { type } = x
    const fallback = other?.sql ?? defaultSql(type)
    const parts = [x.sql, offset?.sql ?? '1', ...(fallback === null ? [] : [fallback])]
    const value = { sql: `${name}(${parts.join(', ')}) OVER ${over}`, type }
    return fallback === null ? filled(value) : value
  }

/** DuckDB's functions ignore the frame: right only where the frame reaches to that end. */
const inFrame =
  (name: 'lag' | 'lead'): Write =>
  (call, window) => {
    const frame = typeof window === 'string' ? null : window.frame
    const edge = name === 'lag' ? frame?.begin : frame?.end
    const side = name === 'lag' ? 'PRECEDING' : 'FOLLOWING'
    const isWhole = edge?.side === side && edge.count === null
    const isDefault = name === 'lag' && frame === null && typeof window !== 'string'
    if (!isWhole && !isDefault)
      throw new SqlProblem(
        'NOT_IMPLEMENTED',
        `${call.name} is answered for a frame that is UNBOUNDED ${side}, written in OVER (…)`,
      )
    return shifted(name)(call, window)
  }

const within: Write = ({ name, args, over }) =>
  filled({
    sql: `${name}(${args.map((one) => one.sql).join(', ')}) OVER ${over}`,
    type: args[0]?.type ?? unknown,
  })

export const windowFunctions: Readonly<Record<string, Write>> = {
  row_number: ranking('UInt64', 'UBIGINT'),
  rank: ranking('UInt64', 'UBIGINT'),
  dense_rank: ranking('UInt64', 'UBIGINT'),
  ntile: ranking('UInt64', 'UBIGINT'),
  percent_rank: ranking('Float64', 'DOUBLE'),
  cume_dist: ranking('Float64', 'DOUBLE'),
  lag: shifted('lag'),
  lead: shifted('lead'),
  laginframe: inFrame('lag'),
  leadinframe: inFrame('lead'),
  first_value: within,
  last_value: within,
  nth_value: within,
}
