// Collects the aliases of a SELECT, and prints the joins of its arrayJoin() calls.
// Thread: main of a query process. Pure.
import type { Call, Expr, Select } from '../sql/ast.ts'
import { columnName } from '../sql/naming.ts'
import { findAggregate } from './aggregates.ts'
import type { Context } from './context.ts'
import { lateral } from './print-from.ts'
import type { Scope } from './scope.ts'

function clausesOf(select: Select): readonly Expr[] {
  const order = select.order === 'ALL' ? [] : select.order.map(({ by }) => by)
  const group = select.group === null || select.group.items === 'ALL' ? [] : select.group.items
  const rest = [select.prewhere, select.where, select.having, select.qualify].filter(
    (one) => one !== null,
  )
  return [...select.items, ...rest, ...group, ...order]
}

/** All aliases of a SELECT: ClickHouse sees each of them everywhere in it. */
export function aliasesOf(select: Select): Map<string, Expr> {
  const found = new Map<string, Expr>()
  for (const clause of clausesOf(select))
    for (const expr of nodesOf(clause))
      if (expr.kind === 'alias' && !found.has(expr.name)) found.set(expr.name, expr.of)
  return found
}

/** The expression and all inside, those inside first; without subqueries. */
function nodesOf(expr: Expr): readonly Expr[] {
  const found: Expr[] = []
  const left: Expr[] = [expr]
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    found.push(next)
    if (next.kind === 'call') left.push(...next.args)
    else if (next.kind === 'alias') left.push(next.of)
    else if (next.kind === 'lambda') left.push(next.body)
  }
  return found.reverse()
}

function isAggregate(expr: Expr): expr is Call {
  return expr.kind === 'call' && expr.over === null && findAggregate(expr.name) !== null
}

/**
 * Joins for arrayJoin(): its rows exist before grouping where the call is in a key, a condition or
 * an aggregate, and after it elsewhere.
 */
export function arrayJoins(select: Select, scope: Scope, context: Context): string {
  const all = clausesOf(select).flatMap(nodesOf)
  const calls = all.filter(
    (one): one is Call => one.kind === 'call' && /^arrayJoin$/i.test(one.name),
  )
  if (calls.length === 0) return ''
  const isGrouped = select.group !== null || all.some(isAggregate)
  const keys = select.group === null || select.group.items === 'ALL' ? [] : select.group.items
  const resolved = keys.map((key) =>
    key.kind === 'column' && key.path.length === 1 ? (scope.aliases.get(key.path[0]!) ?? key) : key,
  )
  const before = new Set(
    [
      ...resolved,
      ...all.filter(isAggregate).flatMap(({ args }) => args),
      ...(select.where === null ? [] : [select.where]),
    ]
      .flatMap(nodesOf)
      .map((one) => columnName(one)),
  )
  let sql = ''
  for (const call of calls) {
    const name = columnName(call)
    if (scope.replaced.has(name) || (isGrouped && !before.has(name)) || call.args.length !== 1)
      continue
    const made = lateral([{ name, array: context.print(call.args[0]!, scope) }], false, context)
    scope.replaced.set(name, made.source.columns[0]!)
    sql += made.sql
  }
  return sql
}
