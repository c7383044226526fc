// Parses ClickHouse expressions by operator precedence.
import type { Expr, Frame, FrameBound, Literal, Order, Window } from './ast.ts'
import type { Parser } from './parser.ts'
import {
  notAlias,
  notColumn,
  numberLiteral,
  parseTypeName,
  SqlProblem,
  signed,
  star,
} from './parser.ts'

/** An expression, and an alias where one follows; without AS only where `isOpen`. */
export function parseAliased(p: Parser, isOpen = false): Expr {
  const { at } = p
  const of = parseExpression(p)
  if (p.take('AS')) return { kind: 'alias', at, of, name: p.name() }
  const isName = p.kindAt() === 'quoted' || (p.kindAt() === 'word' && !notAlias.has(p.peek()))
  return isOpen && isName ? { kind: 'alias', at, of, name: p.name() } : of
}

export function parseExpression(p: Parser, power = 0): Expr {
  return p.deeper(() => {
    let left = prefix(p)
    for (;;) {
      const next = infix(p, left, power)
      if (next === null) return left
      left = next
    }
  })
}

/** Binary operators: how tightly they bind, and the function that they are. */
const binary: Readonly<Record<string, readonly [power: number, name: string]>> = {
  OR: [3, 'or'],
  AND: [4, 'and'],
  '=': [9, 'equals'],
  '==': [9, 'equals'],
  '!=': [9, 'notEquals'],
  '<>': [9, 'notEquals'],
  '<': [9, 'less'],
  '<=': [9, 'lessOrEquals'],
  '>': [9, 'greater'],
  '>=': [9, 'greaterOrEquals'],
  LIKE: [9, 'like'],
  ILIKE: [9, 'ilike'],
  REGEXP: [9, 'match'],
  'NOT LIKE': [9, 'notLike'],
  'NOT ILIKE': [9, 'notILike'],
  IN: [9, 'in'],
  'NOT IN': [9, 'notIn'],
  '||': [10, 'concat'],
  '+': [11, 'plus'],
  '-': [11, 'minus'],
  '*': [12, 'multiply'],
  '/': [12, 'divide'],
  '%': [12, 'modulo'],
  MOD: [12, 'modulo'],
  DIV: [12, 'intDiv'],
}
/** ClickHouse writes a chain of these as one call. */
const flat = new Set(['or', 'and', 'concat'])
const [ternary, nullTest, sign, postfix] = [2, 6, 13, 14]
const between = 7

/** The expression with one more operator; null when none follows that binds tighter. */
function infix(p: Parser, left: Expr, power: number): Expr | null {
  const { at } = p
  if (p.sees('GLOBAL', 'IN') || p.sees('GLOBAL', 'NOT', 'IN')) p.next()
  const mark = p.peek()
  if (postfix > power) {
    const found = postfixAt(p, left, at)
    if (found !== null) return found
  }
  if (mark === 'IS' && nullTest > power) {
    p.next()
    const name = p.take('NOT') ? 'isNotNull' : 'isNull'
    if (!p.take('NULL')) p.fail('NULL')
    return p.call(name, [left], at)
  }
  const isNot = mark === 'NOT'
  if ((isNot ? p.peek(1) : mark) === 'BETWEEN') return betweenAt(p, left, power, isNot)
  if (mark === '?' && ternary > power) {
    p.next()
    const yes = parseExpression(p)
    p.expect(':')
    return p.call('if', [left, yes, parseExpression(p, ternary - 1)], at)
  }
  const key = isNot ? `NOT ${p.peek(1)}` : mark
  const found = Object.hasOwn(binary, key) ? binary[key]! : null
  if (found === null || found[0] <= power) return null
  p.next()
  if (isNot) p.next()
  const [strength, name] = found
  const isChain = flat.has(name) && left.kind === 'call' && left.name === name && p.chain === left
  const right = p.expression(strength)
  p.chain = isChain ? p.extended(left, right) : p.call(name, [left, right], at)
  return p.chain
}

function betweenAt(p: Parser, left: Expr, power: number, isNot: boolean): Expr | null {
  if (between <= power) return null
  const { at } = p
  p.take('NOT')
  p.expect('BETWEEN')
  const low = parseExpression(p, between)
  p.expect('AND')
  const high = parseExpression(p, between)
  const names = isNot
    ? (['less', 'greater'] as const)
    : (['greaterOrEquals', 'lessOrEquals'] as const)
  const parts = [p.call(names[0], [left, low], at), p.call(names[1], [left, high], at)]
  return p.call(isNot ? 'or' : 'and', parts, at)
}

/** `x[1]`, `x.1`, `x.name`, `x::T`. */
function postfixAt(p: Parser, left: Expr, at: number): Expr | null {
  if (p.take('[')) {
    const index = parseExpression(p)
    p.expect(']')
    return p.call('arrayElement', [left, index], at)
  }
  if (
    p.sees('.') &&
    (p.kindAt(1) === 'number' || p.kindAt(1) === 'word' || p.kindAt(1) === 'quoted')
  ) {
    p.next()
    const isNumber = p.kindAt() === 'number'
    const key: Literal = isNumber
      ? numberLiteral(p.next(), at)
      : { kind: 'literal', at, type: 'String', text: p.name() }
    return p.call('tupleElement', [left, key], at)
  }
  if (!p.take('::')) return null
  const type: Literal = { kind: 'literal', at, type: 'String', text: parseTypeName(p) }
  const isNumber = left.kind === 'literal' && /Int|Float/.test(left.type)
  return p.call('CAST', [isNumber ? { ...left, type: 'String' } : left, type], at)
}

function prefix(p: Parser): Expr {
  const { at } = p
  switch (p.kindAt()) {
    case 'number':
      return numberLiteral(p.next(), at)
    case 'string': {
      const text = p.string()
      return { kind: 'literal', at, type: 'String', text }
    }
    case 'quoted':
      return nameAt(p)
    case 'word':
      return wordAt(p)
    default:
      break
  }
  if (p.take('-')) return negative(p, at)
  if (p.take('+')) return parseExpression(p, sign)
  if (p.take('*')) return star(p, [], null, at)
  if (p.take('(')) return parenthesis(p, at)
  if (p.take('[')) {
    const items = p.sees(']') ? [] : p.list(() => parseAliased(p))
    p.expect(']')
    return p.call('array', items, at)
  }
  if (p.sees('{')) return parameter(p)
  return p.fail('expression')
}

function negative(p: Parser, at: number): Expr {
  if (p.kindAt() === 'number' && p.peek(1) !== '::') {
    const number = numberLiteral(p.next(), at)
    const { text, type } = number
    // As `-inf` is read.
    if (text === 'inf') return p.call('negate', [withPostfix(p, number)], at)
    return withPostfix(p, { kind: 'literal', at, ...signed(text, type) })
  }
  const of = parseExpression(p, sign)
  return p.call('negate', [of], at)
}

function withPostfix(p: Parser, of: Expr): Expr {
  for (let left = of; ; ) {
    const next = postfixAt(p, left, p.at)
    if (next === null) return left
    left = next
  }
}

/** `{name:Type}`; the values are bound in the order of the text. */
function parameter(p: Parser): Expr {
  const { at } = p
  p.expect('{')
  p.name()
  p.expect(':')
  parseTypeName(p)
  p.expect('}')
  return { kind: 'parameter', at, index: p.parameters++ }
}

/** A subquery, a lambda, a tuple, or an expression in parentheses. */
function parenthesis(p: Parser, at: number): Expr {
  if (!p.sees('FROM') && p.seesQuery()) {
    const query = p.query()
    p.expect(')')
    return p.subquery(at, query)
  }
  if (p.take(')')) return lambdaOr(p, [], at)
  const items = [parseAliased(p)]
  let isTuple = false
  while (p.take(',')) {
    isTuple = true
    if (p.sees(')')) break
    items.push(parseAliased(p))
  }
  p.expect(')')
  if (p.sees('->')) return lambdaOr(p, items, at)
  if (isTuple) return p.call('tuple', items, at)
  p.chain = null
  return items[0]!
}

function lambdaOr(p: Parser, items: readonly Expr[], at: number): Expr {
  if (!p.take('->')) return p.call('tuple', items, at)
  const names = items.map((item) =>
    item.kind === 'column' && item.path.length === 1 ? item.path[0]! : p.fail('lambda arguments'),
  )
  return { kind: 'lambda', at, names, body: parseExpression(p) }
}

function wordAt(p: Parser): Expr {
  const { at } = p
  const word = p.peek()
  const special = Object.hasOwn(forms, word) ? forms[word]!(p, at) : null
  if (special !== null) return special
  if (notColumn.has(word) && p.peek(1) !== '(' && p.peek(1) !== '.') p.fail('expression')
  return nameAt(p)
}

/** A column, a qualified star, a call or a lambda with one argument. */
function nameAt(p: Parser): Expr {
  const { at } = p
  const isWord = p.kindAt() === 'word'
  const path = [p.name()]
  if (p.sees('(') && isWord) return callAt(p, path[0]!, at)
  if (p.take('->')) return { kind: 'lambda', at, names: path, body: parseExpression(p) }
  while (p.sees('.') && path.length < 4) {
    if (p.peek(1) === '*') {
      p.expect('.', '*')
      return star(p, path, null, at)
    }
    if (p.kindAt(1) !== 'word' && p.kindAt(1) !== 'quoted') break
    p.next()
    path.push(p.name())
  }
  return { kind: 'column', at, path }
}

function callAt(p: Parser, name: string, at: number): Expr {
  const first = argumentsAt(p)
  const isParametric = p.sees('(')
  const { args, isDistinct } = isParametric ? argumentsAt(p) : first
  // `count(*)` is count().
  const plain =
    args.length === 1 && args[0]!.kind === 'star' && /^count/i.test(name) ? args.slice(1) : args
  const filter = p.take('FILTER', '(', 'WHERE') ? parseExpression(p) : null
  if (filter !== null) p.expect(')')
  if (p.sees('IGNORE', 'NULLS') || p.sees('RESPECT', 'NULLS'))
    throw new SqlProblem('NOT_IMPLEMENTED', `${p.peek()} NULLS is not answered here`)
  const over = p.take('OVER') ? (p.sees('(') ? parseWindow(p) : p.name('window name')) : null
  const params = isParametric ? first.args : null
  return p.call(name, plain, at, { params, isDistinct, filter, over })
}

function argumentsAt(p: Parser): { args: readonly Expr[]; isDistinct: boolean } {
  p.expect('(')
  const isDistinct = p.take('DISTINCT')
  if (p.sees('SELECT') || p.sees('WITH')) {
    const { at } = p
    const query = p.query()
    p.expect(')')
    return { args: [p.subquery(at, query)], isDistinct }
  }
  const args = p.sees(')') ? [] : p.list(() => parseAliased(p))
  p.expect(')')
  return { args, isDistinct }
}

// Parses the forms that begin with a word of their own: CASE, INTERVAL, CAST, EXTRACT.
// A form that turns out to be a plain name or call is null.

/** As in `parse-expression.ts`. */
const negation = 5

type Special = (p: Parser, at: number) => Expr | null
const literal =
  (type: string, text: string): Special =>
  (p, at) => {
    if (p.peek(1) === '(' || p.peek(1) === '.') return null
    p.next()
    return { kind: 'literal', at, type, text }
  }

const forms: Readonly<Record<string, Special>> = {
  NULL: literal('Nullable(Nothing)', 'NULL'),
  TRUE: literal('Bool', 'true'),
  FALSE: literal('Bool', 'false'),
  INF: literal('Float64', 'inf'),
  NAN: literal('Float64', 'nan'),
  NOT: (p, at) => {
    p.next()
    return p.call('not', [p.expression(negation)], at)
  },
  CASE: caseAt,
  INTERVAL: intervalAt,
  CAST: (p, at) => (p.peek(1) === '(' ? castAt(p, at) : null),
  EXISTS: (p, at) => {
    if (p.peek(1) !== '(' || !['SELECT', 'WITH'].includes(p.peek(2))) return null
    p.next()
    p.next()
    const query = p.query()
    p.expect(')')
    return p.call('exists', [p.subquery(at, query)], at)
  },
  DATE: (p, at) => typedString(p, at, 'toDate'),
  TIMESTAMP: (p, at) => typedString(p, at, 'toDateTime'),
  COLUMNS: (p, at) => {
    if (p.peek(1) !== '(' || p.kindAt(2) !== 'string') return null
    p.next()
    p.next()
    const pattern = p.string()
    p.expect(')')
    return star(p, [], pattern, at)
  },
  EXTRACT: (p, at) => {
    if (p.peek(1) !== '(' || p.peek(3) !== 'FROM') return null
    p.next()
    p.next()
    const unit = unitOf(p)
    p.expect('FROM')
    const name = unit === 'Day' ? 'toDayOfMonth' : `to${unit}`
    return closedCall(p, name, [p.expression()], at)
  },
  SUBSTRING: substringAt,
  POSITION: (p, at) => {
    if (p.peek(1) !== '(') return null
    const start = p.index
    p.next()
    p.next()
    const part = p.expression(9)
    if (p.take('IN')) return closedCall(p, 'position', [p.expression(), part], at)
    p.rewind(start)
    return null
  },
  TRIM: trimAt,
  ...Object.fromEntries(
    [
      'DATEADD',
      'DATE_ADD',
      'TIMESTAMP_ADD',
      'TIMESTAMPADD',
      'DATESUB',
      'DATE_SUB',
      'TIMESTAMP_SUB',
      'TIMESTAMPSUB',
    ].map((word) => [
      word,
      (p: Parser, at: number) => moveAt(p, at, /ADD$/.test(word) ? 'plus' : 'minus'),
    ]),
  ),
  ...Object.fromEntries(
    ['DATEDIFF', 'DATE_DIFF', 'TIMESTAMPDIFF', 'TIMESTAMP_DIFF', 'AGE'].map((word) => [
      word,
      (p: Parser, at: number) => unitFirst(p, at, word === 'AGE' ? 'age' : 'dateDiff'),
    ]),
  ),
}

function closedCall(p: Parser, name: string, args: readonly Expr[], at: number): Expr {
  p.expect(')')
  return p.call(name, args, at)
}

function typedString(p: Parser, at: number, name: string): Expr | null {
  if (p.kindAt(1) !== 'string') return null
  p.next()
  return p.call(name, [{ kind: 'literal', at, type: 'String', text: p.string() }], at)
}

function caseAt(p: Parser, at: number): Expr {
  p.expect('CASE')
  const subject = p.sees('WHEN') ? null : p.expression()
  const args: Expr[] = subject === null ? [] : [subject]
  while (p.take('WHEN')) {
    args.push(p.expression())
    p.expect('THEN')
    args.push(p.expression())
  }
  if (args.length < 2) p.fail('WHEN')
  args.push(p.take('ELSE') ? p.expression() : nullLiteral(at))
  p.expect('END')
  return p.call(subject === null ? 'multiIf' : 'caseWithExpression', args, at)
}

function nullLiteral(at: number): Literal {
  return { kind: 'literal', at, type: 'Nullable(Nothing)', text: 'NULL' }
}

const units =
  /^(NANOSECOND|MICROSECOND|MILLISECOND|SECOND|MINUTE|HOUR|DAY|WEEK|MONTH|QUARTER|YEAR)S?$/

/** `Hour` for HOUR, hours, 'hour'. */
function unitOf(p: Parser): string {
  const word = p.kindAt() === 'string' ? p.string().toUpperCase() : p.peek()
  const found = units.exec(word)?.[1]
  if (found === undefined) p.fail('interval unit')
  if (p.peek() === word) p.next()
  return found!.charAt(0) + found!.slice(1).toLowerCase()
}

/** `INTERVAL 1 HOUR`, `INTERVAL '1' HOUR`, `INTERVAL '1 hour'`. */
function intervalAt(p: Parser, at: number): Expr | null {
  if (['.', ',', ')', ''].includes(p.peek(1)) && !['number', 'string'].includes(p.kindAt(1)))
    return null
  p.expect('INTERVAL')
  if (p.kindAt() === 'string' && !units.test(p.peek(1))) {
    const parts = p.string().trim().split(/\s+/)
    const calls: Expr[] = []
    for (let index = 0; index < parts.length; index += 2) {
      const unit = units.exec(parts[index + 1]?.toUpperCase() ?? '')?.[1]
      if (unit === undefined || !/^-?\d{1,9}$/.test(parts[index]!)) p.fail('interval unit')
      const name = `toInterval${unit!.charAt(0)}${unit!.slice(1).toLowerCase()}`
      calls.push(p.call(name, [numberLiteral(parts[index]!, at)], at))
    }
    return calls.length === 1 ? calls[0]! : p.call('tuple', calls, at)
  }
  const count = p.expression(between)
  return p.call(`toInterval${unitOf(p)}`, [count], at)
}

function castAt(p: Parser, at: number): Expr {
  p.expect('CAST', '(')
  const of = p.expression()
  if (p.take(',')) return closedCall(p, 'CAST', [of, p.expression()], at)
  p.expect('AS')
  const type: Literal = { kind: 'literal', at, type: 'String', text: parseTypeName(p) }
  return closedCall(p, 'CAST', [of, type], at)
}

/** `substring(x FROM 1 FOR 2)`. */
function substringAt(p: Parser, at: number): Expr | null {
  if (p.peek(1) !== '(') return null
  const start = p.index
  p.next()
  p.next()
  const args = [p.expression()]
  if (!p.take('FROM')) {
    p.rewind(start)
    return null
  }
  args.push(p.expression())
  if (p.take('FOR')) args.push(p.expression())
  return closedCall(p, 'substring', args, at)
}

/** `trim(BOTH 'a' FROM x)`. */
function trimAt(p: Parser, at: number): Expr | null {
  const side = { BOTH: 'trimBoth', LEADING: 'trimLeft', TRAILING: 'trimRight' }[p.peek(2)]
  if (p.peek(1) !== '(' || side === undefined || p.kindAt(3) !== 'string') return null
  p.next()
  p.next()
  p.next()
  const chars = p.expression()
  p.expect('FROM')
  return closedCall(p, side, [p.expression(), chars], at)
}

/** `dateAdd(DAY, 1, t)` and `dateAdd(t, INTERVAL 1 DAY)`. */
function moveAt(p: Parser, at: number, name: string): Expr | null {
  if (p.peek(1) !== '(') return null
  p.next()
  p.next()
  if (!units.test(p.peek())) {
    const of = p.expression()
    p.expect(',')
    return closedCall(p, name, [of, p.expression()], at)
  }
  const unit = unitOf(p)
  p.expect(',')
  const count = p.expression()
  p.expect(',')
  return closedCall(p, name, [p.expression(), p.call(`toInterval${unit}`, [count], at)], at)
}

/** `dateDiff(DAY, a, b)`: the unit as a string. */
function unitFirst(p: Parser, at: number, name: string): Expr | null {
  if (p.peek(1) !== '(' || !units.test(p.peek(2)) || p.peek(3) !== ',') return null
  p.next()
  p.next()
  const unit: Literal = { kind: 'literal', at, type: 'String', text: unitOf(p).toLowerCase() }
  p.expect(',')
  return closedCall(p, name, [unit, ...p.list(() => p.expression())], at)
}

// Parses ORDER BY items and windows.

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
