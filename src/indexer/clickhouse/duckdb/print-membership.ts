// Prints `x IN (…)` and `x NOT IN (…)`. Thread: main of a query process. Pure.
// ClickHouse ignores NULL on the right side, so the result is never NULL because of it.
import type { Expr } from '../sql/ast.ts'
import { SqlProblem } from '../sql/parser.ts'
import type { Context } from './context.ts'
import { notAnswered } from './entry.ts'
import type { Scope } from './scope.ts'
import { flagOf, isNullable, nullable, type Typed, unknown, zoneOf } from './typing.ts'

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
