// Prints FROM: tables, subqueries, joins, ARRAY JOIN. Thread: main of a query process. Pure.
// Columns without a match in an outer join have their type's default, as in ClickHouse, unless
// join_use_nulls is set: every reference to such a column is filled.
import { assert } from '../../../base/errors.ts'
import type { ArrayJoin, Expr, From, Join, TableFunction, TableRef } from '../sql/ast.ts'
import { columnName } from '../sql/explain-syntax.ts'
import { duckdbName } from '../sql/lexer.ts'
import { parseStatement } from '../sql/parse-select.ts'
import { SqlProblem } from '../sql/parser.ts'
import type { Context } from './entry.ts'
import { print } from './print-expression.ts'
import { nearName, type Relation, Scope, type ScopeColumn, type Source, shown } from './scope.ts'
import { condition, defaultSql, filled, itemType, nullable, type Typed, unknown } from './typing.ts'

export function printFrom(from: From, scope: Scope, context: Context): PrintedFrom {
  switch (from.kind) {
    case 'table':
      return tableOf(from, scope, context)
    case 'derived': {
      const { sql, columns } = context.query(from.query, scope)
      return named(
        `(${sql})`,
        from.alias,
        from.alias === null ? [] : [from.alias],
        columns,
        context,
      )
    }
    case 'function':
      return functionOf(from, scope, context)
    case 'join':
      return joinOf(from, scope, context)
    default:
      return arrayJoinOf(from, scope, context)
  }
}

/** One source under an alias of DuckDB; its columns are read through that. */
function named(
  sql: string,
  alias: string | null,
  names: readonly string[],
  columns: readonly ScopeColumn[],
  context: Context,
  list = '',
): PrintedFrom {
  const own = duckdbName(alias ?? `t${context.number()}_`)
  const read = columns.map((one) => ({ ...one, sql: `${own}.${one.sql}` }))
  return { sql: `${sql} AS ${own}${list}`, sources: [{ names, columns: read }], merged: new Map() }
}

function tableOf({ path, alias }: TableRef, scope: Scope, context: Context): PrintedFrom {
  const parts = path.map((one) =>
    typeof one === 'string' ? one : String(context.values[one.index]?.value ?? ''),
  )
  const name = parts.at(-1)!
  const relation = parts.length === 1 ? scope.relation(name) : null
  const names = alias === null ? [name] : [alias, name]
  if (relation !== null) {
    const columns = relation.columns
    return named(`(${relation.sql})`, alias ?? name, names, columns, context)
  }
  const written = parts.length > 1 ? parts.at(-2)! : context.database
  const table = context.catalogue.table(written, name)
  if (table === undefined || parts.length > 2)
    throw unknownTable(parts.join('.'), context.catalogue.namesOf(written))
  const qualified = [`${written}.${name}`, `${table.database}.${name}`]
  if (table.view !== null) {
    const { sql, columns } = viewOf(table.view, context)
    return named(`(${sql})`, alias ?? name, [...names, ...qualified], columns, context)
  }
  const columns = Object.entries(table.columns).map(([column, type]) => ({
    name: column,
    sql: duckdbName(column),
    type,
    ...(table.database === 'information_schema' && { otherName: column.toUpperCase() }),
  }))
  return named(table.sql, alias ?? name, [...names, ...qualified], columns, context)
}

/** In a scope of its own: no name of the query around it is seen there. */
function viewOf(text: string, context: Context): Relation {
  const parsed = parseStatement(text)
  assert(parsed.ok, 'a view of the catalogue can be parsed')
  return context.query(parsed.value.query, new Scope(null))
}

function unknownTable(name: string, known: readonly string[]): SqlProblem {
  const near = nearName(name.split('.').at(-1)!, known)
  const hint = near === null ? '' : `. Maybe you meant ${near}`
  return new SqlProblem(
    'UNKNOWN_TABLE',
    `Unknown table expression identifier '${shown(name)}'${hint}`,
  )
}

/** The columns of table functions: name, type, and the first arguments that make the type. */
const tableFunctions: Readonly<Record<string, readonly [column: string, type: string]>> = {
  range: ['range', 'Int64'],
  generate_series: ['generate_series', 'Int64'],
  unnest: ['unnest', unknown],
  numbers: ['number', 'UInt64'],
  zeros: ['zero', 'UInt8'],
}

function functionOf(
  { name, args, alias, columns }: TableFunction,
  scope: Scope,
  context: Context,
): PrintedFrom {
  const key = name.toLowerCase()
  const printed = args.map((one) => print(one, scope, context))
  if (!Object.hasOwn(tableFunctions, key))
    throw new SqlProblem('UNKNOWN_FUNCTION', `Unknown table function ${shown(name)}`)
  const [column, type] = tableFunctions[key]!
  const made = columns[0] ?? column
  const list = `(${duckdbName(made)})`
  const sql = `${key}(${printed.map((one) => one.sql).join(', ')})`
  const one = {
    name: made,
    sql: duckdbName(made),
    type: key === 'unnest' ? itemType(printed[0]?.type ?? unknown) : type,
  }
  return named(sql, alias, alias === null ? [] : [alias], [one], context, list)
}

function joinOf(join: Join, scope: Scope, context: Context): PrintedFrom {
  const left = printFrom(join.left, scope, context)
  const right = printFrom(join.right, scope, context)
  const { side, strictness } = join
  if (side === 'CROSS')
    return {
      sql: `${left.sql} CROSS JOIN ${right.sql}`,
      sources: [...left.sources, ...right.sources],
      merged: left.merged,
    }
  const keys = new JoinKeys(join, left, right, scope, context)
  if (strictness === 'SEMI' || strictness === 'ANTI')
    return oneSided(join, left, right, keys, context)
  const isAny = strictness === 'ANY'
  if (isAny && side === 'FULL')
    throw new SqlProblem('NOT_IMPLEMENTED', 'FULL ANY JOIN is not answered here')
  // ANY keeps one row of the other side for each key; INNER one of both.
  const leftSql = isAny && side !== 'LEFT' ? keys.distinct(left, 'left') : left.sql
  const rightSql = isAny && side !== 'RIGHT' ? keys.distinct(right, 'right') : right.sql
  const word = strictness === 'ASOF' ? `ASOF ${side}` : side
  const sources = [
    ...sourcesOf(left, side === 'RIGHT' || side === 'FULL', context),
    ...sourcesOf(right, side === 'LEFT' || side === 'FULL', context),
  ]
  return {
    sql: `${leftSql} ${word} JOIN ${rightSql} ON ${keys.sql}`,
    sources,
    merged: new Map([...left.merged, ...keys.merged(sources, left.sources.length)]),
  }
}

/** The sources of one side, with defaults or Nullable types where it may have no row. */
function sourcesOf(
  { sources }: PrintedFrom,
  isOuter: boolean,
  context: Context,
): readonly Source[] {
  if (!isOuter) return sources
  return sources.map(({ names, columns }) => ({
    names,
    columns: columns.map((one) => ({
      ...one,
      ...(context.hasJoinNulls ? { type: nullable(one.type) } : filled(one)),
    })),
  }))
}

/** SEMI and ANTI: the rows of one side with or without a match in the other. */
function oneSided(
  join: Join,
  left: PrintedFrom,
  right: PrintedFrom,
  keys: JoinKeys,
  context: Context,
): PrintedFrom {
  const isLeft = join.side !== 'RIGHT'
  const [kept, other] = isLeft ? [left, right] : [right, left]
  const ordered = (first: readonly Source[], second: readonly Source[]) =>
    isLeft ? [...first, ...second] : [...second, ...first]
  if (join.strictness === 'SEMI') {
    const sources = ordered(kept.sources, other.sources)
    const one = keys.distinct(other, isLeft ? 'right' : 'left')
    const sql = `${kept.sql} INNER JOIN ${one} ON ${keys.sql}`
    return {
      sql,
      sources,
      merged: new Map([...left.merged, ...keys.merged(sources, left.sources.length)]),
    }
  }
  const none = other.sources.map(({ names, columns }) => ({
    names,
    columns: columns.map((one) => ({
      ...one,
      sql: (context.hasJoinNulls ? null : defaultSql(one.type)) ?? 'NULL',
    })),
  }))
  const sources = ordered(kept.sources, none)
  return { sql: `${kept.sql} ANTI JOIN ${other.sql} ON ${keys.sql}`, sources, merged: left.merged }
}

/** Each item of the arrays in a row of its own; several arrays go in step. */
function arrayJoinOf(
  { of, items, isLeft }: ArrayJoin,
  scope: Scope,
  context: Context,
): PrintedFrom {
  const from = printFrom(of, scope, context)
  const inner = new Scope(scope, from)
  const arrays = items.map((item) => {
    const printed = print(item, inner, context)
    return { name: columnName(item), array: printed }
  })
  const joined = lateral(arrays, isLeft, context)
  // The items hide an array of the same name.
  return {
    sql: `${from.sql}${joined.sql}`,
    sources: [joined.source, ...from.sources],
    merged: from.merged,
  }
}

/** `, LATERAL (SELECT unnest(…))` for arrays of one length. */
export function lateral(
  arrays: readonly { readonly name: string; readonly array: Typed }[],
  isLeft: boolean,
  context: Context,
): { readonly sql: string; readonly source: Source } {
  const alias = duckdbName(`t${context.number()}_`)
  const first = arrays[0]!.array.sql
  const list = arrays.map(({ array }, at) => {
    const checked = at === 0 ? array.sql : `sameLength(${array.sql}, ${first})`
    return `unnest(${checked}) AS ${duckdbName(`i${at}`)}`
  })
  const inner = `LATERAL (SELECT ${list.join(', ')}) AS ${alias}`
  const columns = arrays.map(({ name, array }, at) => {
    const item = { sql: `${alias}.${duckdbName(`i${at}`)}`, type: itemType(array.type) }
    return { name, ...(isLeft ? filled(item) : item) }
  })
  return {
    sql: isLeft ? ` LEFT JOIN ${inner} ON true` : ` CROSS JOIN ${inner}`,
    source: { names: [], columns, isItems: true },
  }
}

// The condition of a join and its pairs of equal columns. Pure.

export interface PrintedFrom {
  readonly sql: string
  readonly sources: readonly Source[]
  /** Columns of USING, once each. */
  readonly merged: ReadonlyMap<string, Typed>
}

/** The condition of a join, and its pairs of equal columns. */
export class JoinKeys {
  readonly sql: string
  readonly #using: readonly string[]
  readonly #pairs: readonly (readonly [left: string, right: string])[]

  constructor(join: Join, left: PrintedFrom, right: PrintedFrom, scope: Scope, context: Context) {
    this.#using = join.using ?? []
    const leftScope = new Scope(scope, left)
    const rightScope = new Scope(scope, { sources: right.sources })
    if (join.using !== null) {
      const pairs = join.using.map(
        (name) =>
          [
            context.print(columnOf(name, join.at), leftScope).sql,
            context.print(columnOf(name, join.at), rightScope).sql,
          ] as const,
      )
      this.#pairs = pairs
      const last = pairs.length - 1
      const sign = (at: number) => (join.strictness === 'ASOF' && at === last ? '>=' : '=')
      this.sql = pairs.map(([a, b], at) => `(${a} ${sign(at)} ${b})`).join(' AND ')
      return
    }
    const both = new Scope(scope, {
      sources: [...left.sources, ...right.sources],
      merged: left.merged,
    })
    this.sql = condition(context.print(join.on!, both))
    const isSimple = !['ANY', 'SEMI'].includes(join.strictness)
    if (isSimple) {
      this.#pairs = []
      return
    }
    const isOf = (expr: Expr, one: Scope): string | null => {
      try {
        return context.print(expr, one).sql
      } catch (thrown) {
        if (thrown instanceof SqlProblem) return null
        throw thrown
      }
    }
    this.#pairs = conjuncts(join.on!).flatMap((one) => {
      if (one.kind !== 'call' || one.name !== 'equals') return []
      const [a, b] = one.args as readonly [Expr, Expr]
      const direct = [isOf(a, leftScope), isOf(b, rightScope)] as const
      const swapped = [isOf(b, leftScope), isOf(a, rightScope)] as const
      // An unqualified name of both sides is the left one.
      const found = direct[0] !== null && direct[1] !== null ? direct : swapped
      return found[0] !== null && found[1] !== null ? [[found[0], found[1]] as const] : []
    })
    if (this.#pairs.length !== conjuncts(join.on!).length)
      throw new SqlProblem(
        'NOT_IMPLEMENTED',
        `${join.strictness} JOIN is answered for equalities in ON`,
      )
  }

  /** One row for each key of that side. */
  distinct({ sql, sources }: PrintedFrom, side: 'left' | 'right'): string {
    if (sources.length !== 1)
      throw new SqlProblem('NOT_IMPLEMENTED', 'this join of several tables is not answered here')
    const keys = this.#pairs.map((pair) => pair[side === 'left' ? 0 : 1])
    const alias =
      /AS ("(?:[^"]|"")*")$/.exec(sql)?.[1] ?? /AS ("(?:[^"]|"")*")\([^()]*\)$/.exec(sql)?.[1]
    if (alias === undefined)
      throw new SqlProblem('NOT_IMPLEMENTED', 'this join is not answered here')
    return `(SELECT DISTINCT ON (${keys.join(', ')}) * FROM ${sql}) AS ${alias}`
  }

  /** What the names of USING are: of the side that always has a row, or of either. */
  merged(sources: readonly Source[], leftCount: number): readonly (readonly [string, Typed])[] {
    return this.#using.map((name, at) => {
      const column = (from: readonly Source[]) =>
        from.flatMap((one) => one.columns).find((one) => one.name === name)
      const [left, right] = this.#pairs[at]!
      const type = column(sources.slice(0, leftCount))?.type ?? column(sources)?.type ?? unknown
      return [name, { sql: `coalesce(${left}, ${right})`, type }] as const
    })
  }
}

function columnOf(name: string, at: number): Expr {
  return { kind: 'column', at, path: [name] }
}

function conjuncts(expr: Expr): readonly Expr[] {
  return expr.kind === 'call' && expr.name === 'and' ? expr.args.flatMap(conjuncts) : [expr]
}
