// Writes a parsed query as ClickHouse's EXPLAIN SYNTAX does, clause by clause.
// The text parses back to the same tree.

import type { Call, Expr, From, Group, Limit, Order, Query, Select, Star, Window } from './ast.ts'
import { clickhouseName, clickhouseString } from './lexer.ts'
import { parseStatement } from './parse-select.ts'
import { notAlias, notColumn, notTableAlias } from './parser.ts'

const indent = (lines: readonly string[]) => lines.map((line) => `    ${line}`)

export function explainSyntax({ with: withs, body }: Query): string[] {
  const head = withs.flatMap(({ name, of, isRecursive }, at) => {
    const word = at === 0 ? [`WITH${isRecursive ? ' RECURSIVE' : ''}`] : []
    const comma = at === withs.length - 1 ? '' : ','
    if ('kind' in of) return [...word, `    ${inner(of)} AS ${quoted(name)}${comma}`]
    const lines = indent(indent(explainSyntax(of)))
    return [...word, `    ${quoted(name)} AS`, '    (', ...lines, `    )${comma}`]
  })
  if (body.kind === 'select') return [...head, ...selectLines(body)]
  return [...head, ...part(body.left), body.operator, ...part(body.right)]
}

/** A part of a set operation. */
function part(query: Query): string[] {
  const lines = explainSyntax(query)
  const isPlain = query.body.kind === 'select' && query.with.length === 0
  return isPlain ? lines : ['(', ...indent(lines), ')']
}

const oneLine = (query: Query): string => `(${explainSyntax(query).map(trimmed).join(' ')})`
const trimmed = (line: string): string => line.trimStart()

const list = (all: readonly Expr[]) => all.map(inner).join(', ')

/** An item of SELECT. */
function item(expr: Expr): string {
  return expr.kind === 'alias' ? `${inner(expr.of)} AS ${quoted(expr.name)}` : inner(expr)
}

/** An expression inside another. */
function inner(expr: Expr): string {
  switch (expr.kind) {
    case 'literal':
      return expr.type === 'String' ? clickhouseString(expr.text) : numberName(expr.text, expr.type)
    case 'column':
      return expr.path.map(quoted).join('.')
    case 'star':
      return starText(expr)
    case 'lambda': {
      const names = expr.names.map(quoted).join(', ')
      return `(${names}) -> ${inner(expr.body)}`
    }
    case 'subquery':
      return oneLine(expr.query)
    case 'parameter':
      return `{_parameter_${expr.index}:String}`
    case 'alias':
      return `(${item(expr)})`
    default:
      return callText(expr)
  }
}

function callText({ name, args, params, isDistinct, filter, over }: Call): string {
  const isPlain = params === null && !isDistinct && filter === null && over === null
  if (isPlain && name === 'tuple' && args.length > 1) return `(${list(args)})`
  if (isPlain && name === 'array') return `[${list(args)}]`
  const parameters = params === null ? '' : `(${list(params)})`
  const where = filter === null ? '' : ` FILTER (WHERE ${inner(filter)})`
  const window =
    over === null ? '' : ` OVER ${typeof over === 'string' ? quoted(over) : windowText(over)}`
  return `${name}${parameters}(${isDistinct ? 'DISTINCT ' : ''}${list(args)})${where}${window}`
}

function starText({ of, pattern, except, replace }: Star): string {
  const base =
    pattern === null ? [...of.map(quoted), '*'].join('.') : `COLUMNS(${clickhouseString(pattern)})`
  const without = except.length === 0 ? '' : ` EXCEPT (${except.map(quoted).join(', ')})`
  const others = replace.length === 0 ? '' : ` REPLACE (${replace.map(item).join(', ')})`
  return base + without + others
}

/** A name that would be read as something else is quoted. */
function quoted(name: string): string {
  const upper = name.toUpperCase()
  const isPlain = /^[A-Za-z_]\w*$/.test(name) && !words.has(upper)
  return isPlain ? name : clickhouseName(name)
}

const words: ReadonlySet<string> = new Set([
  ...notAlias,
  ...notColumn,
  ...notTableAlias,
  ...`ALL ROLLUP CUBE GROUPING PARTITION ORDER ROWS RANGE GROUPS NULL TRUE FALSE INF NAN NOT CASE
    INTERVAL CAST EXISTS DATE TIMESTAMP COLUMNS FINAL DISTINCT DIV MOD IS FROM SELECT WITH`.split(
    /\s+/,
  ),
])

function windowText(window: Window): string {
  const base = window.base === null ? null : quoted(window.base)
  return windowName({ ...window, base }, inner)
}

const orderText = (order: Order): string => orderName(order, inner)

function selectLines(select: Select): string[] {
  const { group, order, limit, limitBy, windows } = select
  const named = windows.map(({ name, window }) => `${quoted(name)} AS ${windowText(window)}`)
  const one = (word: string, expr: Expr | null) => (expr === null ? [] : [`${word} ${inner(expr)}`])
  return [
    ...itemLines(select),
    ...(select.from === null ? [] : fromLines(select.from)),
    ...one('PREWHERE', select.prewhere),
    ...one('WHERE', select.where),
    ...(group === null ? [] : groupLines(group)),
    ...one('HAVING', select.having),
    ...(windows.length === 0 ? [] : [`WINDOW ${named.join(', ')}`]),
    ...one('QUALIFY', select.qualify),
    ...(order.length === 0
      ? []
      : [`ORDER BY ${order === 'ALL' ? 'ALL' : order.map(orderText).join(', ')}`]),
    ...(limitBy === null
      ? []
      : [`LIMIT ${counted(limitBy.count, limitBy.offset)} BY ${list(limitBy.by)}`]),
    ...(limit === null ? [] : [limitLine(limit)]),
  ]
}

function itemLines({ isDistinct, distinctOn, items }: Select): string[] {
  const on = distinctOn.length === 0 ? '' : ` ON (${list(distinctOn)})`
  const head = `SELECT${isDistinct ? ` DISTINCT${on}` : ''}`
  if (items.length === 1) return [`${head} ${item(items[0]!)}`]
  const last = items.length - 1
  return [head, ...indent(items.map((one, at) => `${item(one)}${at === last ? '' : ','}`))]
}

function groupLines({ items, sets, modifier, hasTotals }: Group): string[] {
  const groupings = sets?.map((one) => `(${list(one)})`).join(', ')
  const by =
    groupings !== undefined
      ? [`GROUP BY GROUPING SETS (${groupings})`]
      : items === 'ALL'
        ? ['GROUP BY ALL']
        : items.length === 0
          ? []
          : [`GROUP BY ${list(items)}`]
  return [
    ...by,
    ...(modifier === null ? [] : [`WITH ${modifier}`]),
    ...(hasTotals ? ['WITH TOTALS'] : []),
  ]
}

const counted = (count: Expr, offset: Expr | null): string =>
  `${offset === null ? '' : `${inner(offset)}, `}${inner(count)}`

function limitLine({ count, offset, hasTies }: Limit): string {
  if (count === null) return `OFFSET ${offset === null ? '0' : inner(offset)}`
  return `LIMIT ${counted(count, offset)}${hasTies ? ' WITH TIES' : ''}`
}

function fromLines(from: From): string[] {
  if (from.kind !== 'derived') return [`FROM ${fromText(from)}`]
  return ['FROM', '(', ...indent(explainSyntax(from.query)), `)${aliasOf(from.alias)}`]
}

function fromText(from: From): string {
  switch (from.kind) {
    case 'table': {
      const path = from.path.map((one) => (typeof one === 'string' ? quoted(one) : inner(one)))
      return `${path.join('.')}${aliasOf(from.alias)}`
    }
    case 'function': {
      const columns = from.columns.length === 0 ? '' : `(${from.columns.map(quoted).join(', ')})`
      return `${from.name}(${list(from.args)})${aliasOf(from.alias)}${columns}`
    }
    case 'derived':
      return `${oneLine(from.query)}${aliasOf(from.alias)}`
    case 'array-join': {
      const items = from.items.map(item).join(', ')
      return `${fromText(from.of)} ${from.isLeft ? 'LEFT ' : ''}ARRAY JOIN ${items}`
    }
    default: {
      const kind = from.side === 'CROSS' ? 'CROSS' : `${from.strictness} ${from.side}`
      const isPlain = from.right.kind !== 'join' && from.right.kind !== 'array-join'
      const right = isPlain ? fromText(from.right) : `(${fromText(from.right)})`
      const on = from.on === null ? '' : ` ON ${inner(from.on)}`
      const using = from.using === null ? '' : ` USING (${from.using.map(quoted).join(', ')})`
      return `${fromText(from.left)} ${kind} JOIN ${right}${on}${using}`
    }
  }
}

function aliasOf(alias: string | null): string {
  return alias === null ? '' : ` AS ${quoted(alias)}`
}

// Names result columns as ClickHouse does: `plus(a, 1)`, `count()`, `quantile(0.9)(fee)`.

/** Longer names are cut: an alias gives a better one. */
const CHARS_MAX = 500

/** `columnOf` names a column; without it as it was written. */
export function columnName(expr: Expr, columnOf: NameOf = written): string {
  const name = named(expr, columnOf)
  return name.length > CHARS_MAX ? `${name.slice(0, CHARS_MAX)}…` : name
}

type NameOf = (path: readonly string[]) => string
const written: NameOf = (path) => path.join('.')

function named(expr: Expr, columnOf: NameOf): string {
  const list = (all: readonly Expr[]) => all.map((one) => named(one, columnOf)).join(', ')
  switch (expr.kind) {
    case 'alias':
      return expr.name
    case 'column':
      return columnOf(expr.path)
    case 'literal':
      return expr.type === 'String' ? clickhouseString(expr.text) : numberName(expr.text, expr.type)
    case 'parameter':
      return `_parameter_${expr.index}`
    case 'subquery':
      return `_subquery_${expr.number}`
    case 'star':
      return '*'
    case 'lambda':
      return `lambda(tuple(${expr.names.join(', ')}), ${named(expr.body, columnOf)})`
    default:
      break
  }
  const { name, args, params, over } = expr
  const inner = list(args)
  if (name === 'tuple') return `(${inner})`
  if (name === 'array') return `[${inner}]`
  const plain = expr.isDistinct ? `${name}Distinct` : name
  const suffix = expr.filter === null ? '' : 'If'
  const all = expr.filter === null ? inner : list([...args, expr.filter])
  const parameters = params === null ? '' : `(${list(params)})`
  const window = over === null ? '' : ` OVER ${typeof over === 'string' ? over : windowName(over)}`
  return `${plain}${suffix}${parameters}(${all})${window}`
}

function numberName(text: string, type: string): string {
  if (type !== 'Float64' || /[^\d-]/.test(text)) return text
  return `${text}.`
}

/** `nameOf` writes the expressions in it. */
function windowName(
  { base, partition, order, frame }: Window,
  nameOf: (expr: Expr) => string = (expr) => columnName(expr),
): string {
  const parts = base === null ? [] : [base]
  if (partition.length > 0) parts.push(`PARTITION BY ${partition.map(nameOf).join(', ')}`)
  if (order.length > 0)
    parts.push(`ORDER BY ${order.map((one) => orderName(one, nameOf)).join(', ')}`)
  if (frame !== null) {
    const bound = ({ side, count }: NonNullable<typeof frame.end>) =>
      side === 'CURRENT ROW' ? side : `${count === null ? 'UNBOUNDED' : nameOf(count)} ${side}`
    const { begin, end } = frame
    const rows = end === null ? bound(begin) : `BETWEEN ${bound(begin)} AND ${bound(end)}`
    parts.push(`${frame.unit} ${rows}`)
  }
  return `(${parts.join(' ')})`
}

function orderName({ by, isDescending, nulls }: Order, nameOf: (expr: Expr) => string): string {
  const placed = nulls === null ? '' : ` NULLS ${nulls}`
  return `${nameOf(by)} ${isDescending ? 'DESC' : 'ASC'}${placed}`
}

const SCOPE_CHARS_MAX = 200

/** The query of an unknown name in its error: one line, in ClickHouse's form if it is parsed. */
export function scopeText(text: string): string {
  const parsed = parseStatement(text)
  const lines = parsed.ok ? explainSyntax(parsed.value.query) : [text]
  return lines.join(' ').replaceAll(/\s+/g, ' ').trim().slice(0, SCOPE_CHARS_MAX)
}
