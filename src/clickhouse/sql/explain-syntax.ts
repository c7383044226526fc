// Writes a parsed query as ClickHouse's EXPLAIN SYNTAX does, clause by clause. Thread: any (pure).
import type { Expr, From, Limit, Query, Select } from './ast.ts'
import { columnName, orderName, windowName } from './naming.ts'

const indent = (lines: readonly string[]) => lines.map((line) => `    ${line}`)

export function explainSyntax({ with: withs, body }: Query): string[] {
  const head = withs.flatMap(({ name, of }, at) => {
    const word = at === 0 ? ['WITH'] : []
    if ('kind' in of) return [...word, `    ${columnName(of)} AS ${name}`]
    return [...word, `    ${name} AS`, '    (', ...indent(indent(explainSyntax(of))), '    )']
  })
  if (body.kind === 'select') return [...head, ...selectLines(body)]
  return [...head, ...explainSyntax(body.left), body.operator, ...explainSyntax(body.right)]
}

const list = (all: readonly Expr[]) => all.map(written).join(', ')

function written(expr: Expr): string {
  return expr.kind === 'alias' ? `${columnName(expr.of)} AS ${expr.name}` : columnName(expr)
}

function selectLines(select: Select): string[] {
  const { group, order, limit, limitBy } = select
  const distinct = select.isDistinct ? 'DISTINCT ' : ''
  const items =
    select.items.length === 1
      ? [`SELECT ${distinct}${list(select.items)}`]
      : [
          `SELECT${distinct === '' ? '' : ' DISTINCT'}`,
          ...indent(
            select.items.map(
              (item, at) => `${written(item)}${at === select.items.length - 1 ? '' : ','}`,
            ),
          ),
        ]
  const one = (word: string, expr: Expr | null) =>
    expr === null ? [] : [`${word} ${written(expr)}`]
  return [
    ...items,
    ...(select.from === null ? [] : fromLines(select.from)),
    ...one('PREWHERE', select.prewhere),
    ...one('WHERE', select.where),
    ...(group === null ? [] : [`GROUP BY ${group.items === 'ALL' ? 'ALL' : list(group.items)}`]),
    ...(group?.modifier ? [`WITH ${group.modifier}`] : []),
    ...one('HAVING', select.having),
    ...select.windows.map(({ name, window }) => `WINDOW ${name} AS ${windowName(window)}`),
    ...one('QUALIFY', select.qualify),
    ...(order.length === 0
      ? []
      : [`ORDER BY ${order === 'ALL' ? 'ALL' : order.map(orderName).join(', ')}`]),
    ...(limitBy === null ? [] : [`LIMIT ${written(limitBy.count)} BY ${list(limitBy.by)}`]),
    ...(limit?.count ? [limitLine(limit.count, limit)] : []),
  ]
}

function limitLine(count: Expr, { offset, hasTies }: Limit): string {
  const skipped = offset === null ? '' : `${written(offset)}, `
  return `LIMIT ${skipped}${written(count)}${hasTies ? ' WITH TIES' : ''}`
}

function fromLines(from: From): string[] {
  if (from.kind !== 'derived') return [`FROM ${fromText(from)}`]
  return ['FROM', '(', ...indent(explainSyntax(from.query)), `)${aliasOf(from.alias)}`]
}

function fromText(from: From): string {
  switch (from.kind) {
    case 'table':
      return `${from.path.map(String).join('.')}${aliasOf(from.alias)}`
    case 'function':
      return `${from.name}(${list(from.args)})${aliasOf(from.alias)}`
    case 'derived':
      return `(${explainSyntax(from.query).join(' ')})${aliasOf(from.alias)}`
    case 'array-join':
      return `${fromText(from.of)} ${from.isLeft ? 'LEFT ' : ''}ARRAY JOIN ${list(from.items)}`
    default: {
      const kind = from.side === 'CROSS' ? 'CROSS' : `${from.strictness} ${from.side}`
      const on = from.on === null ? '' : ` ON ${written(from.on)}`
      const using = from.using === null ? '' : ` USING (${from.using.join(', ')})`
      return `${fromText(from.left)} ${kind} JOIN ${fromText(from.right)}${on}${using}`
    }
  }
}

function aliasOf(alias: string | null): string {
  return alias === null ? '' : ` AS ${alias}`
}
