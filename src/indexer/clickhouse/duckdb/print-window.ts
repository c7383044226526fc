// Prints windows and ORDER BY items as DuckDB's SQL. Thread: main of a query process. Pure.
import type { Expr, Order, Window } from '../sql/ast.ts'
import { duckdbName } from '../sql/quoting.ts'
import type { Context } from './context.ts'
import type { Scope } from './scope.ts'

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
