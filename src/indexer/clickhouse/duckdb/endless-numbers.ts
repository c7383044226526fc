// Ends the endless `system.numbers` where WHERE does, as ClickHouse does: DuckDB gathers the few
// rows of a filter before LIMIT sees them, and would read on. Thread: main of a query process.
import type { Call, Expr, From, Select } from '../sql/ast.ts'
import type { Context } from './context.ts'
import { aliasesOf } from './print-array-join.ts'

/** Exact in a number of JavaScript; a larger bound is none. */
const BOUND_MAX = Number.MAX_SAFE_INTEGER

/** `numbers(n)` instead of `system.numbers` when a condition of WHERE excludes all others. */
export function boundedNumbers(select: Select, from: From, context: Context): From {
  if (from.kind !== 'table' || !isNumbers(from.path, context)) return from
  // An alias of that name is meant by WHERE.
  if (aliasesOf(select).has('number')) return from
  const bounds = [select.prewhere, select.where]
    .flatMap((one) => (one === null ? [] : conjuncts(one)))
    .flatMap((one) => boundOf(one, context) ?? [])
  if (bounds.length === 0) return from
  const text = String(Math.min(...bounds))
  return {
    kind: 'function',
    at: from.at,
    name: 'numbers',
    args: [{ kind: 'literal', at: from.at, type: 'UInt64', text }],
    alias: from.alias ?? 'numbers',
    columns: [],
  }
}

function isNumbers(path: readonly unknown[], context: Context): boolean {
  const [name, database = context.database] = [...path].reverse()
  if (name !== 'numbers' || typeof database !== 'string') return false
  return context.catalogue.table(database, name)?.database === 'system'
}

function conjuncts(expr: Expr): readonly Call[] {
  if (expr.kind !== 'call') return []
  return expr.name === 'and' ? expr.args.flatMap(conjuncts) : [expr]
}

/** How many of the first numbers can satisfy the condition; null when it excludes none. */
function boundOf({ name, args: [column, value] }: Call, context: Context): number | null {
  if (column?.kind !== 'column' || column.path.at(-1) !== 'number') return null
  const text =
    value?.kind === 'literal'
      ? value.text
      : value?.kind === 'parameter'
        ? context.values[value.index]?.value
        : null
  if (typeof text !== 'string' || !/^\d+$/.test(text)) return null
  const more = { equals: 1, lessOrEquals: 1, less: 0 }[name]
  const bound = more === undefined ? BOUND_MAX : Number(text) + more
  return bound < BOUND_MAX ? bound : null
}
