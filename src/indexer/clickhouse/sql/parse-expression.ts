// Parses ClickHouse expressions by operator precedence.
import type { Expr, Literal } from './ast.ts'
import { forms } from './parse-forms.ts'
import { parseWindow } from './parse-window.ts'
import {
  notAlias,
  notColumn,
  numberLiteral,
  type Parser,
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
