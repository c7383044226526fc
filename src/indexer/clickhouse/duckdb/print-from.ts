// Prints FROM: tables, subqueries, joins, ARRAY JOIN. Thread: main of a query process. Pure.
// Columns without a match in an outer join have their type's default, as in ClickHouse, unless
// join_use_nulls is set: every reference to such a column is filled.
import type { ArrayJoin, From, Join, TableFunction, TableRef } from '../sql/ast.ts'
import { columnName } from '../sql/naming.ts'
import { SqlProblem } from '../sql/parser.ts'
import { duckdbName } from '../sql/quoting.ts'
import type { Context } from './context.ts'
import { JoinKeys, type PrintedFrom } from './join-keys.ts'
import { print } from './print-expression.ts'
import { nearName, Scope, type ScopeColumn, type Source, shown } from './scope.ts'
import { defaultSql, filled, itemType, nullable, type Typed, unknown } from './typing.ts'

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
  const columns = Object.entries(table.columns).map(([column, type]) => ({
    name: column,
    sql: duckdbName(column),
    type,
    ...(table.database === 'information_schema' && { otherName: column.toUpperCase() }),
  }))
  const qualified = [`${written}.${name}`, `${table.database}.${name}`]
  return named(table.sql, alias ?? name, [...names, ...qualified], columns, context)
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
