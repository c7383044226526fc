// Prints ClickHouse queries as DuckDB's SQL. Thread: main of a query process. Pure.
//
//   WITH  -> relations with names of ours, aliases     SELECT -> printSelect
//   UNION, INTERSECT, EXCEPT of parts in parentheses
//
// Aliases are written out where they are used, so DuckDB resolves only columns of tables.
import { type Checked, checked } from '../exceptions.ts'
import type { Call, Expr, From, Group, Order, Query, Select, Star } from '../sql/ast.ts'
import { columnName, explainSyntax } from '../sql/explain-syntax.ts'
import { duckdbName, duckdbString } from '../sql/lexer.ts'
import type { TypedValue } from '../sql/parameters.ts'
import { parseStatement } from '../sql/parse-select.ts'
import { SqlProblem } from '../sql/parser.ts'
import { findAggregate } from './aggregates.ts'
import type { Catalogue, Context } from './entry.ts'
import { orderSql, print, windowSql } from './print-expression.ts'
import { lateral, type PrintedFrom, printFrom } from './print-from.ts'
import type { Relation, ScopeColumn, Source } from './scope.ts'
import { argumentsOf, isNamed, Scope } from './scope.ts'
import { checkColumns } from './special-types.ts'
import { condition, filled, superType, type Typed } from './typing.ts'

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

function printSelect(select: Select, parent: Scope, context: Context): Relation {
  const from: PrintedFrom =
    select.from === null
      ? { sql: '', sources: [], merged: new Map() }
      : printFrom(boundedNumbers(select, select.from, context), parent, context)
  const scope = new Scope(parent, { ...from, aliases: aliasesOf(select) })
  const joined = arrayJoins(select, scope, context)
  const source = `${from.sql === '' && joined !== '' ? '(SELECT 1)' : from.sql}${joined}`
  const where = [select.prewhere, select.where].filter((one) => one !== null)
  const whereSql = where.map((one) => condition(print(one, scope, context))).join(' AND ')
  const group = groupSql(select, scope, context)
  const items = select.items.flatMap((item) => itemsOf(item, scope, context))
  const { qualify, limit, order } = endOf(select, items, scope, context)
  const windows = select.windows.map(
    ({ name, window }) => `${duckdbName(name)} AS ${windowSql(window, scope, context)}`,
  )
  const { list, columns } = listed(items)
  const clauses = [
    `SELECT ${distinctSql(select, scope, context)}${list}`,
    source === '' ? '' : `FROM ${source}`,
    whereSql === '' ? '' : `WHERE ${whereSql}`,
    group,
    select.having === null ? '' : `HAVING ${condition(print(select.having, scope, context))}`,
    windows.length === 0 ? '' : `WINDOW ${windows.join(', ')}`,
    qualify,
    order,
    limit,
  ]
  return { sql: clauses.filter((one) => one !== '').join(' '), columns }
}

/** A printed item of SELECT with its ClickHouse name and its alias. */
interface Item extends Typed {
  readonly name: string
  readonly node: Expr | null
}

function itemsOf(item: Expr, scope: Scope, context: Context): readonly Item[] {
  if (item.kind === 'star') return starOf(item, scope, context)
  return [{ ...print(item, scope, context), name: itemName(item, scope), node: item }]
}

/** `t.a` is called `a` unless another table has it too. */
function itemName(item: Expr, scope: Scope): string {
  return columnName(withColumns(item, scope), (path) => {
    const name = path.at(-1)!
    const prefix = path.slice(0, -1).join('.')
    if (prefix === '') return name
    const holders = scope.sources.filter(({ columns }) => columns.some((one) => isNamed(one, name)))
    // Of three tables and more ClickHouse names each; of two only the second.
    const isShared = scope.sources.length > 2 && holders.length > 1
    return !isShared && holders[0]?.names.includes(prefix) ? name : path.join('.')
  })
}

/** Calls of `*` are named by its columns. */
function withColumns(item: Expr, scope: Scope): Expr {
  return item.kind === 'call' && item.args.some(({ kind }) => kind === 'star')
    ? { ...item, args: argumentsOf(item.args, scope) }
    : item
}

function starOf(star: Star, scope: Scope, context: Context): readonly Item[] {
  const prefix = star.of.join('.')
  const chosen =
    prefix === '' ? scope.sources : scope.sources.filter(({ names }) => names.includes(prefix))
  if (chosen.length === 0)
    throw new SqlProblem(
      'UNKNOWN_IDENTIFIER',
      `there is no table for ${prefix === '' ? '*' : `${prefix}.*`}`,
    )
  const pattern = star.pattern === null ? null : patternOf(star.pattern)
  const except = new Set(star.except)
  const items: Item[] = []
  for (const column of expanded(chosen, scope, prefix === '')) {
    if (except.has(column.name) || pattern?.test(column.name) === false) continue
    const other = star.replace.find(({ name }) => name === column.name)
    items.push({
      ...(other === undefined ? column : print(other.of, scope, context)),
      name: column.name,
      node: null,
    })
  }
  if (items.length === 0) throw new SqlProblem('BAD_ARGUMENTS', 'no column is left of *')
  return items
}

function patternOf(pattern: string): RegExp {
  try {
    return new RegExp(pattern)
  } catch {
    throw new SqlProblem('BAD_ARGUMENTS', 'the pattern of COLUMNS is no regular expression')
  }
}

/** The columns of `*`: those of USING once, items of ARRAY JOIN instead of their arrays. */
function expanded(
  sources: readonly Source[],
  scope: Scope,
  isAll: boolean,
): readonly ScopeColumn[] {
  const found: ScopeColumn[] = []
  const seen = new Set<string>()
  const items = sources.filter((one) => one.isItems).flatMap(({ columns }) => columns)
  const add = (column: ScopeColumn) => {
    seen.add(column.name)
    found.push(column)
  }
  for (const { names, columns, isItems } of sources) {
    if (isItems) continue
    for (const column of columns) {
      const merged = isAll ? scope.merged.get(column.name) : undefined
      if (merged !== undefined && seen.has(column.name)) continue
      const item = items.find(({ name }) => name === column.name)
      const value = item ?? { ...column, ...merged }
      add(seen.has(column.name) ? { ...value, name: `${names[0]}.${column.name}` } : value)
    }
  }
  for (const item of items) if (!seen.has(item.name)) add(item)
  return found
}

/** The list of SELECT; DuckDB's names differ where ClickHouse has two equal ones. */
function listed(items: readonly Item[]): { list: string; columns: readonly ScopeColumn[] } {
  const used = new Set<string>()
  const columns = items.map(({ name, type }, at) => {
    const own = used.has(name.toLowerCase()) || name === '' ? `${name}_${at}_` : name
    used.add(own.toLowerCase())
    return { name, type, sql: duckdbName(own) }
  })
  return { list: items.map(({ sql }, at) => `${sql} AS ${columns[at]!.sql}`).join(', '), columns }
}

function distinctSql({ isDistinct, distinctOn }: Select, scope: Scope, context: Context): string {
  if (distinctOn.length > 0)
    return `DISTINCT ON (${distinctOn.map((one) => print(one, scope, context).sql).join(', ')}) `
  return isDistinct ? 'DISTINCT ' : ''
}

function groupSql({ group, items }: Select, scope: Scope, context: Context): string {
  if (group === null) return ''
  if (group.hasTotals)
    throw new SqlProblem('NOT_IMPLEMENTED', 'WITH TOTALS is answered for the outermost SELECT')
  if (group.items === 'ALL') return 'GROUP BY ALL'
  const one = (expr: Expr): Expr => {
    const at = expr.kind === 'literal' && /^UInt/.test(expr.type) ? Number(expr.text) : 0
    const item = at > 0 ? items[at - 1] : expr
    if (item === undefined || item.kind === 'star')
      throw new SqlProblem('BAD_ARGUMENTS', 'GROUP BY has a position that SELECT does not have')
    return item.kind === 'alias' ? item.of : item
  }
  const keys = (group.sets === null ? [group.items] : group.sets).map((list) => list.map(one))
  const printed = keys.map((list) => list.map((key) => print(key, scope, context)))
  const lists = printed.map((list) => list.map(({ sql }) => sql).join(', '))
  if (group.sets === null && group.modifier === null)
    return lists[0] === '' ? '' : `GROUP BY ${lists[0]}`
  // A key that a row does not group by has its default there.
  for (const [at, list] of keys.entries())
    for (const [index, key] of list.entries()) {
      const value = filled(printed[at]![index]!)
      for (const name of namesOf(key, scope)) scope.replaced.set(name, value)
    }
  const sets = lists.map((list) => `(${list})`).join(', ')
  if (group.sets === null) return `GROUP BY ${group.modifier} ${sets}`
  const totals = group.isTotals ? ` HAVING GROUPING(${lists[0]}) = ${2 ** keys[0]!.length - 1}` : ''
  return `GROUP BY GROUPING SETS (${sets})${totals}`
}

/** The ways in which a key can be written. */
function namesOf(key: Expr, scope: Scope): readonly string[] {
  const alias =
    key.kind === 'column' && key.path.length === 1 ? scope.aliases.get(key.path[0]!) : undefined
  return alias === undefined ? [columnName(key)] : [columnName(key), columnName(alias)]
}

interface End {
  readonly qualify: string
  readonly order: string
  readonly limit: string
}

/** QUALIFY with LIMIT BY and WITH TIES, ORDER BY, LIMIT. */
function endOf(select: Select, items: readonly Item[], scope: Scope, context: Context): End {
  const { limitBy, limit } = select
  const byPosition = (at: number): Order => ({
    by: positionOf(items, at),
    isDescending: false,
    nulls: null,
  })
  const wanted: readonly Order[] =
    select.order === 'ALL' ? items.map((_, at) => byPosition(at)) : select.order
  const window = wanted.map((one) =>
    orderSql({ ...one, by: itemAt(one.by, items) ?? one.by }, scope, context),
  )
  const orderList = window.length === 0 ? '' : `ORDER BY ${window.join(', ')}`
  const conditions =
    select.qualify === null ? [] : [condition(print(select.qualify, scope, context))]
  if (limitBy !== null) {
    if (select.isDistinct)
      throw new SqlProblem('NOT_IMPLEMENTED', 'LIMIT BY with DISTINCT is not answered here')
    const by = limitBy.by
      .map((one) => print(itemAt(one, items) ?? one, scope, context).sql)
      .join(', ')
    const row = `row_number() OVER (PARTITION BY ${by} ${orderList})`
    const offset = limitBy.offset === null ? '0' : numberOf(limitBy.offset, scope, context)
    conditions.push(
      `(${row} > ${offset} AND ${row} <= ${offset} + ${numberOf(limitBy.count, scope, context)})`,
    )
  }
  if (limit?.hasTies) {
    if (limitBy !== null || limit.offset !== null || window.length === 0)
      throw new SqlProblem('NOT_IMPLEMENTED', 'WITH TIES is answered for LIMIT n with ORDER BY')
    conditions.push(`(rank() OVER (${orderList}) <= ${numberOf(limit.count!, scope, context)})`)
  }
  const count =
    limit === null || limit.hasTies || limit.count === null
      ? ''
      : `LIMIT ${numberOf(limit.count, scope, context)}`
  const offset = limit?.offset ? `OFFSET ${numberOf(limit.offset, scope, context)}` : ''
  return {
    qualify: conditions.length === 0 ? '' : `QUALIFY ${conditions.join(' AND ')}`,
    order:
      wanted.length === 0
        ? ''
        : `ORDER BY ${wanted.map((one, at) => placed(one, items, window[at]!)).join(', ')}`,
    limit: [count, offset].filter((one) => one !== '').join(' '),
  }
}

/** An item of SELECT is ordered by its position, so that it is computed once. */
function placed({ by, isDescending, nulls }: Order, items: readonly Item[], sql: string): string {
  const at = positionIn(by, items)
  return at < 0 ? sql : `${at + 1} ${isDescending ? 'DESC' : 'ASC'} NULLS ${nulls ?? 'LAST'}`
}

function positionIn(expr: Expr, items: readonly Item[]): number {
  if (expr.kind === 'literal' && /^UInt/.test(expr.type)) {
    const at = Number(expr.text) - 1
    if (at < 0 || at >= items.length)
      throw new SqlProblem('BAD_ARGUMENTS', 'ORDER BY has a position that SELECT does not have')
    return at
  }
  const name = columnName(expr)
  return items.findIndex(
    ({ node }) =>
      node !== null &&
      (columnName(node) === name || (node.kind === 'alias' && columnName(node.of) === name)),
  )
}

/** The expression at a position of SELECT; null when `expr` is no position. */
function itemAt(expr: Expr, items: readonly Item[]): Expr | null {
  if (expr.kind !== 'literal' || !/^UInt/.test(expr.type)) return null
  return positionOf(items, positionIn(expr, items))
}

function positionOf(items: readonly Item[], at: number): Expr {
  const { node, name } = items[at]!
  return node ?? { kind: 'column', at: 0, path: [name] }
}

/** A count of LIMIT: a plain number, because DuckDB takes it before it computes anything. */
function numberOf(expr: Expr, scope: Scope, context: Context): string {
  const { sql, literal } = print(expr, scope, context)
  return literal !== undefined && /^\d+$/.test(literal) ? literal : `CAST(${sql} AS UBIGINT)`
}

// Ends the endless `system.numbers` where WHERE does, as ClickHouse does: DuckDB gathers the few
// rows of a filter before LIMIT sees them, and would read on.

/** Exact in a number of JavaScript; a larger bound is none. */
const BOUND_MAX = Number.MAX_SAFE_INTEGER

/** `numbers(n)` instead of `system.numbers` when a condition of WHERE excludes all others. */
function boundedNumbers(select: Select, from: From, context: Context): From {
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

// Collects the aliases of a SELECT, and prints the joins of its arrayJoin() calls.

function clausesOf(select: Select): readonly Expr[] {
  const order = select.order === 'ALL' ? [] : select.order.map(({ by }) => by)
  const group = select.group === null || select.group.items === 'ALL' ? [] : select.group.items
  const rest = [select.prewhere, select.where, select.having, select.qualify].filter(
    (one) => one !== null,
  )
  return [...select.items, ...rest, ...group, ...order]
}

/** All aliases of a SELECT: ClickHouse sees each of them everywhere in it. */
function aliasesOf(select: Select): Map<string, Expr> {
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
    // One by one: a call takes at most so many arguments itself.
    if (next.kind === 'call') for (const arg of next.args) left.push(arg)
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
function arrayJoins(select: Select, scope: Scope, context: Context): string {
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
