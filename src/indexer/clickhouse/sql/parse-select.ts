// Parses ClickHouse queries: SELECT with its clauses, and set operations.
import { type Checked, checked } from '../exceptions.ts'
import type {
  Body,
  Expr,
  From,
  Group,
  Join,
  Limit,
  LimitBy,
  Parameter,
  Query,
  Select,
  Statement,
  With,
} from './ast.ts'
import { parseAliased, parseExpression, parseOrder, parseWindow } from './parse-expression.ts'
import { following, notTableAlias, PARTS_MAX, Parser, SqlProblem, tooMany } from './parser.ts'
import { changing } from './reading.ts'

/** A query, with EXPLAIN before it or not; nothing may follow. */
export function parseStatement(text: string): Checked<Statement> {
  try {
    const p = new Parser(text, {
      expression: parseExpression,
      aliased: parseAliased,
      query: parseQuery,
    })
    const explain = explainAt(p)
    if (changing.has(p.peek()))
      throw new SqlProblem('READONLY', `cannot execute ${p.peek()}: this database is read-only`)
    const query = parseQuery(p)
    while (p.take(';'));
    if (!p.isAtEnd) p.fail(...after(query))
    return checked({ query, explain })
  } catch (thrown) {
    if (thrown instanceof SqlProblem) return { ok: false, error: thrown.error }
    throw thrown
  }
}

/** What could follow a complete query: the clauses after its last one. */
function after({ body }: Query): readonly string[] {
  const last = body.kind === 'set' ? null : body
  const first = [
    [last?.limit, 'SETTINGS'],
    [last?.order.length, 'LIMIT'],
    [last?.group, 'WITH'],
    [last?.where, 'GROUP BY'],
    [last?.from, 'PREWHERE'],
  ].find(([has]) => Boolean(has))?.[1]
  return first === undefined ? following : following.slice(following.indexOf(String(first)))
}

function explainAt(p: Parser): Statement['explain'] {
  if (!p.take('EXPLAIN')) return null
  if (p.take('ANALYZE')) return 'analyze'
  const kind = p.takeOne('SYNTAX', 'PLAN', 'AST', 'PIPELINE', 'ESTIMATE', 'QUERY')
  if (kind === 'QUERY') p.expect('TREE')
  // Options such as `indexes = 1` say how a server shows its plan.
  while (p.kindAt() === 'word' && p.peek(1) === '=') {
    p.next()
    p.next()
    p.next()
    p.take(',')
  }
  return kind === 'SYNTAX' ? 'syntax' : 'plan'
}

export function parseQuery(p: Parser): Query {
  return p.deeper(() => {
    const outer = p.sees('WITH') ? withAt(p) : []
    let left = intersection(p)
    for (let parts = 1; ; parts++) {
      const operator = operatorAt(p, 'UNION', 'EXCEPT')
      if (operator === '') break
      if (parts > PARTS_MAX) throw tooMany('parts')
      left = joined(operator, left, intersection(p))
    }
    return { with: [...outer, ...left.with], body: left.body }
  })
}

function intersection(p: Parser): Query {
  let left = single(p)
  for (let parts = 1; ; parts++) {
    const operator = operatorAt(p, 'INTERSECT')
    if (operator === '') return left
    if (parts > PARTS_MAX) throw tooMany('parts')
    left = joined(operator, left, single(p))
  }
}

function operatorAt(p: Parser, ...words: readonly string[]): string {
  const word = p.takeOne(...words)
  if (word === '') return ''
  const quantity = p.takeOne('ALL', 'DISTINCT')
  if (word === 'UNION' && quantity === '')
    throw new SqlProblem(
      'EXPECTED_ALL_OR_DISTINCT',
      'Expected ALL or DISTINCT in SelectWithUnion query',
    )
  return quantity === '' || (quantity === 'DISTINCT' && word !== 'UNION')
    ? word
    : `${word} ${quantity}`
}

function joined(operator: string, left: Query, right: Query): Query {
  return { with: [], body: { kind: 'set', operator, left, right } }
}

function single(p: Parser): Query {
  if (!p.take('(')) return { with: p.sees('WITH') ? withAt(p) : [], body: selectAt(p) }
  const query = parseQuery(p)
  p.expect(')')
  return query
}

/** `WITH name AS (SELECT …)`, `WITH expr AS name`. */
function withAt(p: Parser): With[] {
  p.expect('WITH')
  const isRecursive = p.take('RECURSIVE')
  return p.list(() => {
    const isName = p.kindAt() === 'word' || p.kindAt() === 'quoted'
    if (isName && p.peek(1) === 'AS' && p.peek(2) === '(' && isQueryAt(p, 3)) {
      const name = p.name()
      p.expect('AS', '(')
      const of = parseQuery(p)
      p.expect(')')
      return { name, of, isRecursive }
    }
    const made = p.aliased()
    if (made.kind !== 'alias') return p.fail('AS')
    return { name: made.name, of: made.of, isRecursive }
  })
}

function isQueryAt(p: Parser, ahead: number): boolean {
  let at = ahead
  while (p.peek(at) === '(') at++
  return ['SELECT', 'WITH', 'FROM'].includes(p.peek(at))
}

function selectAt(p: Parser): Body {
  const { at } = p
  const early = p.take('FROM') ? parseFrom(p) : null
  if (!p.take('SELECT')) p.fail('SELECT query, possibly with UNION')
  const isDistinct = p.take('DISTINCT')
  const distinctOn = isDistinct && p.take('ON') ? inParentheses(p) : []
  if (!isDistinct) p.take('ALL')
  if (p.sees('TOP') && p.kindAt(1) === 'number')
    throw new SqlProblem('NOT_IMPLEMENTED', 'TOP is not answered here: take LIMIT')
  const items = itemsAt(p)
  const from = early ?? (p.take('FROM') ? parseFrom(p) : null)
  const prewhere = p.take('PREWHERE') ? p.expression() : null
  const where = p.take('WHERE') ? p.expression() : null
  const group = groupAt(p)
  const having = p.take('HAVING') ? p.expression() : null
  const windows = p.take('WINDOW')
    ? p.list(() => {
        const name = p.name()
        p.expect('AS')
        return { name, window: parseWindow(p) }
      })
    : []
  const qualify = p.take('QUALIFY') ? p.expression() : null
  const order = orderAt(p)
  const { limit, limitBy } = limitsAt(p)
  refuseRest(p)
  const clauses = { prewhere, where, group, having, windows, qualify, order, limitBy, limit }
  return { kind: 'select', at, isDistinct, distinctOn, items, from, ...clauses } satisfies Select
}

function itemsAt(p: Parser): readonly Expr[] {
  const items = [p.aliased(true)]
  // ClickHouse takes one comma too many before FROM.
  while (p.take(',')) {
    if (p.sees('FROM')) break
    items.push(p.aliased(true))
  }
  return items
}

function inParentheses(p: Parser): readonly Expr[] {
  p.expect('(')
  const all = p.list(() => p.expression())
  p.expect(')')
  return all
}

function groupAt(p: Parser): Group | null {
  if (!p.sees('GROUP')) return withTotalsOnly(p)
  p.expect('GROUP', 'BY')
  let group: Group = { items: [], sets: null, modifier: null, hasTotals: false }
  const modifier = p.peek(1) === '(' ? p.takeOne('ROLLUP', 'CUBE') : ''
  if (p.take('ALL')) group = { ...group, items: 'ALL' }
  else if (p.take('GROUPING', 'SETS')) {
    p.expect('(')
    const sets = p.list(() => {
      if (!p.take('(')) return [p.expression()]
      const one = p.sees(')') ? [] : p.list(() => p.expression())
      p.expect(')')
      return one
    })
    p.expect(')')
    group = { ...group, sets }
  } else
    group = {
      ...group,
      items: modifier === '' ? p.list(() => p.aliased()) : inParentheses(p),
      modifier: modifier === '' ? null : (modifier as 'ROLLUP' | 'CUBE'),
    }
  for (;;) {
    if (p.take('WITH', 'TOTALS')) group = { ...group, hasTotals: true }
    else if (p.take('WITH', 'ROLLUP')) group = { ...group, modifier: 'ROLLUP' }
    else if (p.take('WITH', 'CUBE')) group = { ...group, modifier: 'CUBE' }
    else return group
  }
}

/** WITH TOTALS without GROUP BY: one group of all rows. */
function withTotalsOnly(p: Parser): Group | null {
  if (!p.take('WITH', 'TOTALS')) return null
  return { items: [], sets: null, modifier: null, hasTotals: true }
}

function orderAt(p: Parser): Select['order'] {
  if (!p.take('ORDER')) return []
  p.expect('BY')
  if (p.sees('ALL') && p.peek(1) !== '.' && p.peek(1) !== '(') {
    p.next()
    if (p.take('DESC'))
      throw new SqlProblem('NOT_IMPLEMENTED', 'ORDER BY ALL DESC is not answered here')
    p.take('ASC')
    return 'ALL'
  }
  const order = p.list(() => parseOrder(p))
  if (p.sees('INTERPOLATE'))
    throw new SqlProblem('NOT_IMPLEMENTED', 'INTERPOLATE is not answered here')
  return order
}

/** `LIMIT [m,] n [OFFSET m] [BY …]`, twice at most, `OFFSET m`, `FETCH FIRST n ROWS ONLY`. */
function limitsAt(p: Parser): { limit: Limit | null; limitBy: LimitBy | null } {
  let limit: Limit | null = null
  let limitBy: LimitBy | null = null
  while (limit === null && p.take('LIMIT')) {
    let count = p.expression()
    let offset: Expr | null = null
    if (p.take(',')) {
      offset = count
      count = p.expression()
    } else if (p.take('OFFSET')) offset = p.expression()
    if (limitBy === null && p.take('BY'))
      limitBy = { count, offset, by: p.list(() => p.expression()) }
    else limit = { count, offset, hasTies: p.take('WITH', 'TIES') }
  }
  if (limit === null && p.take('OFFSET')) {
    const offset = p.expression()
    p.takeOne('ROW', 'ROWS')
    limit = { count: null, offset, hasTies: false }
  }
  if (p.take('FETCH')) {
    if (p.takeOne('FIRST', 'NEXT') === '') p.fail('FIRST', 'NEXT')
    const count = p.expression()
    p.takeOne('ROW', 'ROWS')
    const hasTies = p.take('WITH', 'TIES')
    if (!hasTies) p.expect('ONLY')
    limit = { count, offset: limit?.offset ?? null, hasTies }
  }
  return { limit, limitBy }
}

function refuseRest(p: Parser): void {
  if (p.sees('INTO', 'OUTFILE'))
    throw new SqlProblem('READONLY', 'INTO OUTFILE writes files: take the result from the answer')
  if (p.sees('SETTINGS') && p.peek(2) === '=')
    throw new SqlProblem('SYNTAX_ERROR', 'SETTINGS are taken at the end of the query only')
}

// Parses FROM: tables, subqueries, table functions, joins and ARRAY JOIN.

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
    for (const name of p.list(() => p.name())) columns.push(name)
    p.expect(')')
  }
  return { kind: 'function', at, name, args, alias, columns }
}

function aliasAt(p: Parser): string | null {
  if (p.take('AS')) return p.name()
  const isName = p.kindAt() === 'quoted' || (p.kindAt() === 'word' && !notTableAlias.has(p.peek()))
  return isName ? p.name() : null
}
