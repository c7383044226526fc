// Prints ClickHouse queries as DuckDB's SQL. Thread: main of a query process. Pure.
//
//   WITH  -> relations with names of ours, aliases     SELECT -> print-select.ts
//   UNION, INTERSECT, EXCEPT of parts in parentheses
import { type Checked, checked } from '../exceptions.ts'
import type { Expr, Group, Query } from '../sql/ast.ts'
import { explainSyntax } from '../sql/explain-syntax.ts'
import type { TypedValue } from '../sql/parameters.ts'
import { parseStatement } from '../sql/parse-select.ts'
import { SqlProblem } from '../sql/parser.ts'
import { duckdbString } from '../sql/quoting.ts'
import type { Catalogue, Context } from './entry.ts'
import { print } from './print-expression.ts'
import { printSelect } from './print-select.ts'
import { type Relation, Scope } from './scope.ts'
import { checkColumns } from './special-types.ts'
import { superType } from './typing.ts'

/** Expressions of one query: an alias that uses another twice doubles them. */
const PRINTED_MAX = 60_000
/** Of a query, in expressions. */
const QUERY_COST = 20

export interface Translated {
  readonly sql: string
  /** Returns the row of WITH TOTALS; empty without it. */
  readonly totals: string
  /** EXPLAIN of the query, in DuckDB's words. */
  readonly explain: '' | 'EXPLAIN ' | 'EXPLAIN ANALYZE '
  /** ClickHouse names and types; `?` for a type that only DuckDB knows. */
  readonly columns: readonly { readonly name: string; readonly type: string }[]
}

export interface TranslateOptions {
  readonly catalogue: Catalogue
  /** The values of the parameters, in the order of the text. */
  readonly values?: readonly TypedValue[]
  readonly hasJoinNulls?: boolean
  /** Of table names without one. */
  readonly database?: string
}

/** The query in DuckDB's SQL; relies on the macros of `definitions.ts`. */
export function translate(text: string, options: TranslateOptions): Checked<Translated> {
  const parsed = parseStatement(text)
  if (!parsed.ok) return parsed
  const { query, explain } = parsed.value
  if (explain === 'syntax') {
    const lines = explainSyntax(query).map(duckdbString).join(', ')
    const sql = `SELECT unnest([${lines}]) AS "explain"`
    return checked({ sql, totals: '', explain: '', columns: [{ name: 'explain', type: 'String' }] })
  }
  let numbers = 0
  let printed = 0
  const context: Context = {
    catalogue: options.catalogue,
    values: options.values ?? [],
    hasJoinNulls: options.hasJoinNulls ?? false,
    database: options.database ?? '',
    print: (expr, scope) => print(expr, scope, context),
    query: (inner, scope) => printQuery(inner, scope, context),
    spend: (count = 1) => {
      printed += count
      if (printed > PRINTED_MAX)
        throw new SqlProblem(
          'BAD_ARGUMENTS',
          'the query is too large once its aliases are written out',
        )
    },
    number: () => ++numbers,
  }
  try {
    const split = withTotals(query)
    const { sql, columns } = printQuery(split?.rows ?? query, new Scope(null), context)
    const totals = split === null ? '' : printQuery(split.totals, new Scope(null), context).sql
    checkColumns(columns)
    const interval = columns.find(({ type }) => /^(Nullable\()?Interval/.test(type))
    if (interval !== undefined)
      throw new SqlProblem(
        'NOT_IMPLEMENTED',
        `a result of type ${interval.type} is not answered here`,
      )
    const word = explain === null ? '' : explain === 'analyze' ? 'EXPLAIN ANALYZE ' : 'EXPLAIN '
    return checked({ sql, totals, explain: word, columns })
  } catch (thrown) {
    if (thrown instanceof SqlProblem) return { ok: false, error: thrown.error }
    throw thrown
  }
}

/** The query without WITH TOTALS, and the one that returns the totals; null when it has none. */
function withTotals(query: Query): { readonly rows: Query; readonly totals: Query } | null {
  const { body } = query
  if (body.kind !== 'select' || !body.group?.hasTotals) return null
  const { items, sets, modifier } = body.group
  if (body.having !== null || sets !== null || modifier !== null || items === 'ALL')
    throw new SqlProblem(
      'NOT_IMPLEMENTED',
      'WITH TOTALS is answered for GROUP BY of named keys, without HAVING, ROLLUP and CUBE',
    )
  const group: Group = { items, sets, modifier, hasTotals: false }
  const totals: Group = { ...group, sets: items.length === 0 ? null : [items, []], isTotals: true }
  const ends = { order: [], limit: null, limitBy: null, isDistinct: false, distinctOn: [] }
  return {
    rows: { ...query, body: { ...body, group } },
    totals: { ...query, body: { ...body, ...ends, qualify: null, group: totals } },
  }
}

function printQuery(query: Query, parent: Scope, context: Context): Relation {
  const withs: string[] = []
  const aliases = new Map<string, Expr>()
  let scope = parent
  let isRecursive = false
  context.spend(QUERY_COST)
  for (const one of query.with) {
    if ('kind' in one.of) {
      aliases.set(one.name, one.of)
      continue
    }
    const name = `w${context.number()}_`
    isRecursive ||= one.isRecursive
    const own = one.isRecursive ? firstPart(one.of, one.name, name, scope, context) : scope
    const made = printQuery(one.of, own, context)
    withs.push(`${name} AS (${made.sql})`)
    const relation = { sql: `SELECT * FROM ${name}`, columns: made.columns }
    scope = new Scope(scope, { relations: new Map([[one.name, relation]]) })
  }
  if (aliases.size > 0) scope = new Scope(scope, { aliases })
  const body = printBody(query.body, scope, context)
  if (withs.length === 0) return body
  return { ...body, sql: `WITH ${isRecursive ? 'RECURSIVE ' : ''}${withs.join(', ')} ${body.sql}` }
}

/** A recursive relation has the columns of its first part. */
function firstPart(query: Query, name: string, own: string, scope: Scope, context: Context): Scope {
  if (query.body.kind !== 'set') return scope
  const { columns } = printQuery(query.body.left, scope, context)
  const relations = new Map([[name, { sql: `SELECT * FROM ${own}`, columns }]])
  return new Scope(scope, { relations })
}

function printBody(body: Query['body'], scope: Scope, context: Context): Relation {
  if (body.kind === 'select') return printSelect(body, scope, context)
  const left = printQuery(body.left, scope, context)
  const right = printQuery(body.right, scope, context)
  if (left.columns.length !== right.columns.length)
    throw new SqlProblem(
      'BAD_ARGUMENTS',
      'Different number of columns in the parts of a set operation',
    )
  const operator = body.operator.replace('UNION DISTINCT', 'UNION')
  const columns = left.columns.map((one, at) => ({
    name: one.name,
    sql: one.sql,
    type: superType([one.type, right.columns[at]!.type]),
  }))
  return { sql: `(${left.sql}) ${operator} (${right.sql})`, columns }
}
