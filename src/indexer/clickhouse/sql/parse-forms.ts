// Parses the forms that begin with a word of their own: CASE, INTERVAL, CAST, EXTRACT.
// A form that turns out to be a plain name or call is null.
import type { Expr, Literal } from './ast.ts'
import { numberLiteral, type Parser, parseTypeName, star } from './parser.ts'

/** As in `parse-expression.ts`. */
const [negation, between] = [5, 7]

type Special = (p: Parser, at: number) => Expr | null
const literal =
  (type: string, text: string): Special =>
  (p, at) => {
    if (p.peek(1) === '(' || p.peek(1) === '.') return null
    p.next()
    return { kind: 'literal', at, type, text }
  }

export const forms: Readonly<Record<string, Special>> = {
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
