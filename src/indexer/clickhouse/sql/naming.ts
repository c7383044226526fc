// Names result columns as ClickHouse does: `plus(a, 1)`, `count()`, `quantile(0.9)(fee)`.
import type { Expr, Order, Window } from './ast.ts'
import { clickhouseString } from './quoting.ts'

/** Longer names are cut: an alias gives a better one. */
const CHARS_MAX = 500

/** `columnOf` names a column; without it as it was written. */
export function columnName(expr: Expr, columnOf: NameOf = written): string {
  const name = named(expr, columnOf)
  return name.length > CHARS_MAX ? `${name.slice(0, CHARS_MAX)}…` : name
}

export type NameOf = (path: readonly string[]) => string
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

export function numberName(text: string, type: string): string {
  if (type !== 'Float64' || /[^\d-]/.test(text)) return text
  return `${text}.`
}

/** `nameOf` writes the expressions in it. */
export function windowName(
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

export function orderName(
  { by, isDescending, nulls }: Order,
  nameOf: (expr: Expr) => string,
): string {
  const placed = nulls === null ? '' : ` NULLS ${nulls}`
  return `${nameOf(by)} ${isDescending ? 'DESC' : 'ASC'}${placed}`
}
