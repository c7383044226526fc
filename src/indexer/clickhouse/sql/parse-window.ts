// Parses ORDER BY items and windows.
import type { Frame, FrameBound, Order, Window } from './ast.ts'
import { type Parser, SqlProblem } from './parser.ts'

export function parseOrder(p: Parser): Order {
  const by = p.expression()
  const isDescending = p.takeOne('ASC', 'ASCENDING', 'DESC', 'DESCENDING').startsWith('DESC')
  let nulls: Order['nulls'] = null
  if (p.take('NULLS'))
    nulls = (p.takeOne('FIRST', 'LAST') || p.fail('FIRST', 'LAST')) as 'FIRST' | 'LAST'
  for (const clause of [['COLLATE'], ['WITH', 'FILL']])
    if (p.sees(...clause))
      throw new SqlProblem('NOT_IMPLEMENTED', `${clause.join(' ')} is not answered here`)
  return { by, isDescending, nulls }
}

export function parseWindow(p: Parser): Window {
  p.expect('(')
  const starts = new Set(['PARTITION', 'ORDER', 'ROWS', 'RANGE', 'GROUPS', ')'])
  const base = p.kindAt() === 'word' && !starts.has(p.peek()) ? p.name() : null
  const partition = p.take('PARTITION', 'BY') ? p.list(() => p.expression()) : []
  const order = p.take('ORDER', 'BY') ? p.list(() => parseOrder(p)) : []
  const unit = p.takeOne('ROWS', 'RANGE', 'GROUPS') as Frame['unit'] | ''
  const frame = unit === '' ? null : frameAt(p, unit)
  p.expect(')')
  return { base, partition, order, frame }
}

function frameAt(p: Parser, unit: Frame['unit']): Frame {
  const isPair = p.take('BETWEEN')
  const begin = boundAt(p)
  if (!isPair) return { unit, begin, end: null }
  p.expect('AND')
  return { unit, begin, end: boundAt(p) }
}

function boundAt(p: Parser): FrameBound {
  if (p.take('CURRENT', 'ROW')) return { side: 'CURRENT ROW', count: null }
  const count = p.take('UNBOUNDED') ? null : p.expression(10)
  const side = p.takeOne('PRECEDING', 'FOLLOWING')
  if (side === '') p.fail('PRECEDING', 'FOLLOWING')
  return { side: side as FrameBound['side'], count }
}
