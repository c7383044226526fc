// Parses FROM: tables, subqueries, table functions, joins and ARRAY JOIN.
import type { Expr, From, Join, Parameter } from './ast.ts'
import { PARTS_MAX, type Parser, SqlProblem, tooMany } from './parser.ts'
import { notTableAlias } from './reserved.ts'

export function parseFrom(p: Parser): From {
  let left = tableAt(p)
  for (let joins = 1; ; joins++) {
    const next = arrayJoinAt(p, left) ?? joinAt(p, left)
    if (next === null) return left
    if (joins > PARTS_MAX) throw tooMany('joins')
    left = next
  }
}

function arrayJoinAt(p: Parser, of: From): From | null {
  const { at } = p
  const isLeft = p.sees('LEFT', 'ARRAY', 'JOIN')
  if (isLeft || p.sees('INNER', 'ARRAY', 'JOIN')) p.next()
  if (!p.take('ARRAY', 'JOIN')) return null
  return { kind: 'array-join', at, of, isLeft, items: p.list(() => p.aliased(true)) }
}

const sides = ['INNER', 'LEFT', 'RIGHT', 'FULL', 'CROSS']
const kinds = ['ALL', 'ANY', 'SEMI', 'ANTI', 'ASOF']

function joinAt(p: Parser, left: From): From | null {
  const { at } = p
  if (p.take(',')) return cross(left, tableAt(p), at)
  const begin = p.index
  p.takeOne('GLOBAL', 'LOCAL')
  let side = ''
  let strictness = ''
  // Both orders: LEFT ANY JOIN and ANY LEFT JOIN.
  for (;;) {
    const word = p.takeOne(...sides, ...kinds, 'OUTER')
    if (word === '') break
    if (sides.includes(word)) side = word
    else if (word !== 'OUTER') strictness = word
  }
  if (p.sees('PASTE') || p.sees('NATURAL'))
    throw new SqlProblem('NOT_IMPLEMENTED', `${p.peek()} JOIN is not answered here`)
  if (!p.take('JOIN')) {
    p.rewind(begin)
    return null
  }
  const right = tableAt(p)
  if (side === 'CROSS') return cross(left, right, at)
  const isOneSided = strictness === 'SEMI' || strictness === 'ANTI'
  const made = {
    kind: 'join',
    at,
    left,
    right,
    side: (side || (isOneSided ? 'LEFT' : 'INNER')) as Join['side'],
    strictness: (strictness || 'ALL') as Join['strictness'],
  } as const
  if (p.take('ON')) return { ...made, on: p.expression(), using: null }
  if (!p.take('USING')) return p.fail('USING', 'ON')
  const isOpen = p.take('(')
  const using = p.list(() => p.name())
  if (isOpen) p.expect(')')
  return { ...made, on: null, using }
}

function cross(left: From, right: From, at: number): Join {
  return { kind: 'join', at, left, right, side: 'CROSS', strictness: 'ALL', on: null, using: null }
}

function tableAt(p: Parser): From {
  const { at } = p
  if (p.sees('(')) return parenthesis(p)
  const path: (string | Parameter)[] = [nameAt(p)]
  if (p.sees('(') && typeof path[0] === 'string') return functionAt(p, path[0], at)
  while (p.take('.')) path.push(nameAt(p))
  let alias = aliasAt(p)
  if (p.take('FINAL')) alias ??= aliasAt(p)
  if (p.sees('SAMPLE'))
    throw new SqlProblem(
      'NOT_IMPLEMENTED',
      'SAMPLE is not answered here: tables have no sampling key',
    )
  return { kind: 'table', at, path, alias }
}

function nameAt(p: Parser): string | Parameter {
  if (!p.sees('{')) return p.name('table, table function, subquery or list of joined tables')
  const made = p.expression(100)
  return made.kind === 'parameter' ? made : p.fail('identifier')
}

/** A subquery, or joined tables in parentheses. */
function parenthesis(p: Parser): From {
  const { at } = p
  p.expect('(')
  if (!p.seesQuery()) {
    const inner = p.deeper(() => parseFrom(p))
    p.expect(')')
    return inner
  }
  const query = p.query()
  p.expect(')')
  p.take('FINAL')
  return { kind: 'derived', at, query, alias: aliasAt(p) }
}

function functionAt(p: Parser, name: string, at: number): From {
  p.expect('(')
  const args: readonly Expr[] = p.sees(')') ? [] : p.list(() => p.expression())
  p.expect(')')
  const alias = aliasAt(p)
  const columns: string[] = []
  if (alias !== null && p.take('(')) {
    columns.push(...p.list(() => p.name()))
    p.expect(')')
  }
  return { kind: 'function', at, name, args, alias, columns }
}

function aliasAt(p: Parser): string | null {
  if (p.take('AS')) return p.name()
  const isName = p.kindAt() === 'quoted' || (p.kindAt() === 'word' && !notTableAlias.has(p.peek()))
  return isName ? p.name() : null
}
