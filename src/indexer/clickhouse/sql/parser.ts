// Walks over the tokens of a query and reports syntax errors in ClickHouse's words.
// Problems are thrown as `SqlProblem` inside the parser and the printer, and
// become values at their entries (`parseQuery`, `translate`).
import { type ExceptionName, exception, type QueryError } from '../exceptions.ts'
import type { Alias, Call, Expr, Literal, Query, Star, Subquery } from './ast.ts'
import { lex, nameOf, readQuoted, type Token } from './lexer.ts'

export class SqlProblem extends Error {
  readonly error: QueryError

  constructor(name: ExceptionName, message: string) {
    super(message)
    this.error = exception(name, message)
  }
}

/** Deeper than any real query; parser and printer recurse once for each level. */
const DEPTH_MAX = 200
/** Parts of UNION, and joins of one FROM. */
export const PARTS_MAX = 300
/** Levels of calls: a chain such as `a + b + c` has one for each operator. */
const CALLS_MAX = 500
/** Characters of the query that a message shows. */
const SHOWN_MAX = 100

/** The rules that contain each other: the files of the parser reach them through this. */
export interface Grammar {
  /** An expression whose operators bind tighter than `power`. */
  expression(p: Parser, power?: number): Expr
  /** An expression, and an alias where one follows; without AS only where `isOpen`. */
  aliased(p: Parser, isOpen?: boolean): Expr
  query(p: Parser): Query
}

export class Parser {
  readonly text: string
  readonly #grammar: Grammar
  readonly #tokens: readonly Token[]
  /** Upper-case words and symbols by token, computed once. */
  readonly #marks: readonly string[]
  /** Where each opening bracket closes. */
  readonly #closing = new Map<number, number>()
  #at = 0
  #depth = 0
  parameters = 0
  #subqueries = 0
  /** The last chain of one operator, while it is not closed by a parenthesis. */
  chain: Expr | null = null

  constructor(text: string, grammar: Grammar) {
    this.text = text
    this.#grammar = grammar
    this.#tokens = lex(text).filter(({ kind }) => kind !== 'comment')
    const last = this.#tokens.at(-1)
    if (last?.kind === 'broken' || last?.kind === 'unknown') {
      const what =
        last.kind === 'broken' ? 'a quote or a comment is not closed' : 'Unrecognized token'
      throw new SqlProblem('SYNTAX_ERROR', this.#message(last, 'Syntax error', what))
    }
    this.#marks = this.#tokens.map(({ kind, start, end }) =>
      kind === 'word' || kind === 'symbol' ? text.slice(start, end).toUpperCase() : '',
    )
    this.#checkBrackets()
  }

  expression(power = 0): Expr {
    return this.#grammar.expression(this, power)
  }

  aliased(isOpen = false): Expr {
    return this.#grammar.aliased(this, isOpen)
  }

  query(): Query {
    return this.#grammar.query(this)
  }

  /** The next token; past the end an empty one. */
  get token(): Token {
    return this.#tokens[this.#at] ?? this.#end
  }

  get at(): number {
    return this.token.start
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#tokens.length
  }

  get index(): number {
    return this.#at
  }

  /** Goes back to an earlier index. */
  rewind(index: number): void {
    this.#at = index
  }

  /** The word (in upper case) or symbol `ahead` tokens from here; '' for any other token. */
  peek(ahead = 0): string {
    return this.#marks[this.#at + ahead] ?? ''
  }

  kindAt(ahead = 0): Token['kind'] | 'end' {
    return this.#tokens[this.#at + ahead]?.kind ?? 'end'
  }

  /** `SELECT …`, `(SELECT …)`, `(SELECT …) UNION ALL …`; not `(SELECT …) + 1`. */
  seesQuery(): boolean {
    let ahead = 0
    for (; this.peek(ahead) === '('; ahead++) {
      const after = this.#marks[(this.#closing.get(this.#at + ahead) ?? 0) + 1] ?? ''
      if (![')', 'UNION', 'INTERSECT', 'EXCEPT'].includes(after)) return false
    }
    return ['SELECT', 'WITH', 'FROM'].includes(this.peek(ahead))
  }

  /** True when these words or symbols follow. */
  sees(...marks: readonly string[]): boolean {
    return marks.every((mark, ahead) => this.peek(ahead) === mark)
  }

  /** Consumes these words or symbols when they follow. */
  take(...marks: readonly string[]): boolean {
    if (!this.sees(...marks)) return false
    this.#at += marks.length
    return true
  }

  /** Consumes one of these words; '' when another token follows. */
  takeOne(...marks: readonly string[]): string {
    const mark = this.peek()
    if (mark === '' || !marks.includes(mark)) return ''
    this.#at++
    return mark
  }

  expect(...marks: readonly string[]): void {
    for (const mark of marks) if (!this.take(mark)) this.fail(mark)
  }

  /** Consumes a token and returns its text. */
  next(): string {
    const { start, end } = this.token
    this.#at++
    return this.text.slice(start, end)
  }

  /** A name, quoted or not. */
  name(what = 'identifier'): string {
    const { kind } = this.token
    if (kind !== 'word' && kind !== 'quoted') this.fail(what)
    const name = nameOf(this.text, this.token)
    this.#at++
    return name
  }

  /** The content of a string literal. */
  string(): string {
    if (this.token.kind !== 'string') this.fail('string literal')
    const plain = readQuoted(this.next())
    if (plain === null)
      throw new SqlProblem('SYNTAX_ERROR', 'a string is no UTF-8 text: take unhex()')
    return plain
  }

  list<T>(one: () => T): T[] {
    const all = [one()]
    while (this.take(',')) all.push(one())
    return all
  }

  /** Runs `inner` one level deeper. */
  deeper<T>(inner: () => T): T {
    if (++this.#depth > DEPTH_MAX)
      throw new SqlProblem('SYNTAX_ERROR', `the query is nested deeper than ${DEPTH_MAX} levels`)
    const made = inner()
    this.#depth--
    return made
  }

  call(name: string, args: readonly Expr[], at: number, rest: Partial<Call> = {}): Call {
    let depth = 1
    for (const arg of args) depth = Math.max(depth, depthOf(arg) + 1)
    if (depth > CALLS_MAX)
      throw new SqlProblem('SYNTAX_ERROR', `an expression has more than ${CALLS_MAX} levels`)
    const plain = { params: null, isDistinct: false, filter: null, over: null }
    return { kind: 'call', at, name, args, ...plain, ...rest, depth }
  }

  /** Adds an argument to a call that nothing else refers to yet, in place: chains may be long. */
  extended(call: Call, arg: Expr): Call {
    ;(call.args as Expr[]).push(arg)
    return { ...call, depth: Math.max(call.depth, depthOf(arg) + 1) }
  }

  subquery(at: number, query: Query): Subquery {
    return { kind: 'subquery', at, query, number: ++this.#subqueries }
  }

  fail(...expected: readonly string[]): never {
    const wanted =
      expected.length === 1 ? `Expected ${expected[0]}` : `Expected one of: ${expected.join(', ')}`
    throw new SqlProblem('SYNTAX_ERROR', this.#message(this.token, 'Syntax error', wanted))
  }

  get #end(): Token {
    return { kind: 'symbol', start: this.text.trimEnd().length, end: this.text.length }
  }

  #message({ start, end }: Token, what: string, wanted: string): string {
    const shown = start >= this.text.trimEnd().length ? 'end of query' : this.text.slice(start, end)
    const before = this.text.slice(0, start).split('\n')
    const line =
      before.length > 1 ? ` (line ${before.length}, col ${before.at(-1)!.length + 1})` : ''
    const rest = this.text.slice(start, start + SHOWN_MAX).trimEnd()
    const token = shown.length > SHOWN_MAX ? `${shown.slice(0, SHOWN_MAX)}…` : shown
    return `${what}: failed at position ${start + 1} (${token})${line}: ${rest}. ${wanted}`
  }

  /** As ClickHouse, reports an unmatched bracket before anything else. */
  #checkBrackets(): void {
    const open: number[] = []
    const closing: Readonly<Record<string, string>> = { ')': '(', ']': '[', '}': '{' }
    const refuse = (at: number) => {
      const token = this.#tokens[at]!
      const wanted = `Unmatched parentheses: ${this.#marks[at]}`
      throw new SqlProblem('SYNTAX_ERROR', this.#message(token, 'Syntax error', wanted))
    }
    for (const [at, mark] of this.#marks.entries()) {
      if (mark === '(' || mark === '[' || mark === '{') open.push(at)
      else if (closing[mark] !== undefined) {
        const begin = open.pop()
        if (begin === undefined || this.#marks[begin] !== closing[mark]) refuse(begin ?? at)
        else this.#closing.set(begin, at)
      }
    }
    if (open.length > 0) refuse(open[0]!)
  }
}

export function depthOf(expr: Expr): number {
  switch (expr.kind) {
    case 'call':
      return expr.depth
    case 'alias':
      return depthOf(expr.of)
    case 'lambda':
      return depthOf(expr.body) + 1
    default:
      return 0
  }
}

export function tooMany(what: string): SqlProblem {
  return new SqlProblem('SYNTAX_ERROR', `a query has at most ${PARTS_MAX} ${what}`)
}

// Parses parts that several rules share: numbers, type names, stars.

/** A number with a minus before it. */
export function signed(text: string, type: string): { text: string; type: string } {
  if (type === 'Float64') return { text: `-${text}`, type }
  const value = BigInt(text)
  const bits = [8n, 16n, 32n, 64n].find((size) => value <= 1n << (size - 1n))
  if (bits === undefined) return { text: String(-Number(value)), type: 'Float64' }
  return { text: `-${value}`, type: `Int${bits}` }
}

const uintMax = [
  [0xffn, 'UInt8'],
  [0xffffn, 'UInt16'],
  [0xffff_ffffn, 'UInt32'],
  [0xffff_ffff_ffff_ffffn, 'UInt64'],
] as const

export function numberLiteral(written: string, at: number): Literal {
  const isWhole = /^(\d+|0x[\da-f]+|0b[01]+)$/i.test(written)
  // A leading zero is decimal, as in ClickHouse.
  const value = isWhole ? BigInt(written.replace(/^0+(?=\d)/, '')) : 0n
  const type = isWhole ? uintMax.find(([max]) => value <= max)?.[1] : undefined
  if (type !== undefined) return { kind: 'literal', at, type, text: String(value) }
  // As the word `inf` is read, where a number is too large.
  const text = String(Number(written)).replace('Infinity', 'inf')
  return { kind: 'literal', at, type: 'Float64', text }
}

/** A type, with spaces as ClickHouse writes them: `Array(Tuple(UInt8, String))`. */
export function parseTypeName(p: Parser): string {
  return p.deeper(() => {
    let name = p.name('data type')
    if (name.toUpperCase() === 'DOUBLE' && p.take('PRECISION')) name = 'Float64'
    if (!p.take('(')) return name
    const inner = p.sees(')') ? [] : p.list(() => typeArgument(p))
    p.expect(')')
    return `${name}(${inner.join(', ')})`
  })
}

function typeArgument(p: Parser): string {
  if (p.kindAt() === 'number') return p.next()
  if (p.kindAt() === 'string') {
    const text = p.next()
    if (!p.take('=')) return text
    const minus = p.take('-') ? '-' : ''
    return `${text} = ${minus}${p.next()}`
  }
  const first = parseTypeName(p)
  return p.kindAt() === 'word' ? `${first} ${parseTypeName(p)}` : first
}

export function star(p: Parser, of: readonly string[], pattern: string | null, at: number): Star {
  const except: string[] = []
  const replace: Alias[] = []
  for (;;) {
    if (p.sees('EXCEPT') && (p.peek(1) === '(' || p.kindAt(1) === 'word') && !isQueryAhead(p)) {
      p.next()
      const isOpen = p.take('(')
      for (const name of isOpen ? p.list(() => p.name()) : [p.name()]) except.push(name)
      if (isOpen) p.expect(')')
    } else if (p.sees('REPLACE')) {
      p.next()
      const isOpen = p.take('(')
      const one = (): Alias => {
        const made = p.aliased()
        return made.kind === 'alias' ? made : p.fail('AS')
      }
      for (const alias of isOpen ? p.list(one) : [one()]) replace.push(alias)
      if (isOpen) p.expect(')')
    } else if (p.sees('APPLY'))
      throw new SqlProblem('NOT_IMPLEMENTED', 'APPLY is not answered here: name the columns')
    else return { kind: 'star', at, of, pattern, except, replace }
  }
}

/** `* EXCEPT SELECT …` is the set operation. */
function isQueryAhead(p: Parser): boolean {
  let ahead = 1
  while (p.peek(ahead) === '(') ahead++
  return ['SELECT', 'WITH', 'ALL', 'DISTINCT', 'FROM'].includes(p.peek(ahead))
}

// Words of ClickHouse's grammar that are no names in certain places. Data only.

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/))

const clauses = `
  FINAL SAMPLE PREWHERE WHERE GROUP HAVING WINDOW QUALIFY ORDER LIMIT OFFSET FETCH SETTINGS UNION
  EXCEPT INTERSECT INTO FORMAT WITH AS ON USING GLOBAL LOCAL ARRAY LEFT RIGHT INNER FULL CROSS
  JOIN ANY ALL ASOF SEMI ANTI PASTE NATURAL SELECT OUTER
`

/** No alias of a table without AS. */
export const notTableAlias = words(clauses)

/** No alias of an expression without AS. */
export const notAlias = words(`${clauses}
  FROM AND OR NOT IN IS LIKE ILIKE BETWEEN THEN ELSE WHEN END DIV MOD ASC DESC ASCENDING DESCENDING
  NULLS COLLATE OVER FILTER REPLACE APPLY BY REGEXP
`)

/** Never a column. */
export const notColumn = words(`
  FROM WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT WITH AS AND OR IN IS LIKE THEN ELSE
  WHEN END JOIN ON USING BY SELECT BETWEEN
`)

/** What may follow a complete query, as ClickHouse lists it. */
export const following = `Comma|FROM|PREWHERE|WHERE|GROUP BY|WITH|HAVING|WINDOW|QUALIFY|ORDER BY|
  LIMIT|OFFSET|SETTINGS|UNION|EXCEPT|INTERSECT|FORMAT|end of query`
  .split('|')
  .map((word) => word.trim())
