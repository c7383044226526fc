// Translates ClickHouse syntax that no macro can express into DuckDB's. Thread: any (pure).
// Works on tokens, never inside strings or quoted names; unknown syntax is left unchanged.
//
//   quantile(0.9)(fee)         quantile_cont(fee, 0.9)
//   any(x)                     any_value(x)
//   multiIf(a, 1, b, 2, 3)     CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END
//   arrayMap(x -> x + 1, a)    list_transform(a, x -> x + 1)
//   LIMIT 20, 10               LIMIT 10 OFFSET 20
import { lex, symbolOf, type Token, wordOf } from '../sql/lexer.ts'
import { timeType } from './types.ts'

/** The query in DuckDB's syntax; relies on the macros of `macros.ts`. */
export function toDuckdb(text: string): string {
  const tokens = lex(text, 'duckdb-native')
  if (tokens.at(-1)?.kind === 'broken' || depthOf(text, tokens) > depthMax) return text
  return new Rewriter(text, tokens).all()
}

/** Deeper than any real query; the cost grows with depth times length. */
const depthMax = 100

/** Receives the arguments as already translated SQL. */
type Call = (args: readonly string[]) => string | null
type Parametric = (params: readonly string[], args: readonly string[]) => string | null

const one =
  (write: (x: string) => string): Call =>
  (args) =>
    args.length === 1 ? write(args[0]!) : null
const two =
  (write: (a: string, b: string) => string): Call =>
  (args) =>
    args.length === 2 ? write(args[0]!, args[1]!) : null

const calls: Readonly<Record<string, Call>> = {
  any: one((x) => `any_value(${x})`),
  isnull: one((x) => `((${x}) IS NULL)`),
  isnotnull: one((x) => `((${x}) IS NOT NULL)`),
  position: two((text, part) => `instr(${text}, ${part})`),
  extract: two((text, pattern) => `regexp_extract(${text}, ${pattern})`),
  multiif: cases,
  arraymap: two((f, a) => `list_transform(${a}, ${f})`),
  arrayfilter: two((f, a) => `list_filter(${a}, ${f})`),
  arrayexists: two((f, a) => `(len(list_filter(${a}, ${f})) > 0)`),
  arraycount: two((f, a) => `len(list_filter(${a}, ${f}))`),
  arraysum: two((f, a) => `coalesce(list_sum(list_transform(${a}, ${f})), 0)`),
  todatetime64: (args) => {
    const digits = Number(args[1])
    const isKnown = Number.isInteger(digits) && digits >= 0 && digits <= 9
    return isKnown ? `CAST(${args[0]} AS ${timeType(digits)})` : null
  },
}

const level: Parametric = (params, args) =>
  params.length === 1 && args.length === 1 ? `quantile_cont(${args[0]}, ${params[0]})` : null
const levels: Parametric = (params, args) =>
  args.length === 1 ? `quantile_cont(${args[0]}, [${params.join(', ')}])` : null
const first =
  (name: string): Parametric =>
  (params, args) =>
    params.length === 1 && args.length === 1 ? `${name}(${args[0]})[1:${params[0]}]` : null

const parametric: Readonly<Record<string, Parametric>> = {
  quantile: level,
  quantiletdigest: level,
  quantiletiming: level,
  quantiles: levels,
  quantilestdigest: levels,
  quantilestiming: levels,
  quantileexact: ([at], [x]) => `quantileExact(${x}, ${at})`,
  quantileif: ([at], [x, condition]) => `quantileIf(${x}, ${condition}, ${at})`,
  topk: ([count], [x]) => `topK(${x}, ${count})`,
  grouparray: first('groupArray'),
  groupuniqarray: first('groupUniqArray'),
}

function cases(args: readonly string[]): string | null {
  if (args.length < 3 || args.length % 2 === 0) return null
  let text = 'CASE'
  for (let at = 0; at + 1 < args.length; at += 2) text += ` WHEN ${args[at]} THEN ${args[at + 1]}`
  return `${text} ELSE ${args.at(-1)} END`
}

class Rewriter {
  readonly #text: string
  readonly #tokens: readonly Token[]
  /** Maps each opening parenthesis to the index of its closing one. */
  readonly #closing: ReadonlyMap<number, number>

  constructor(text: string, tokens: readonly Token[]) {
    this.#text = text
    this.#tokens = tokens
    this.#closing = pairs(text, tokens)
  }

  all(): string {
    return this.#range(0, this.#tokens.length) + this.#text.slice(this.#tokens.at(-1)?.end ?? 0)
  }

  /** The tokens from `begin` up to `end`, with the whitespace before each but the first. */
  #range(begin: number, end: number): string {
    let made = ''
    for (let at = begin; at < end; ) {
      if (at > begin || begin === 0) made += this.#gapBefore(at)
      const found = this.#callAt(at) ?? this.#limitAt(at)
      made += found?.text ?? this.#text.slice(this.#tokens[at]!.start, this.#tokens[at]!.end)
      at = found?.next ?? at + 1
    }
    return made
  }

  #gapBefore(at: number): string {
    return this.#text.slice(this.#tokens[at - 1]?.end ?? 0, this.#tokens[at]!.start)
  }

  #callAt(at: number): { readonly text: string; readonly next: number } | null {
    const name = wordOf(this.#text, this.#tokens[at]).toLowerCase()
    const close = this.#closing.get(at + 1)
    if (name === '' || close === undefined) return null
    const isKnown = Object.hasOwn(calls, name) && !this.#isQuantifier(name, at)
    const closeArgs = Object.hasOwn(parametric, name) ? this.#closing.get(close + 1) : undefined
    if (closeArgs === undefined && !isKnown) return null
    const { start, end } = this.#tokens[at]!
    const inner = this.#args(at + 1, close)
    const plain = `${this.#text.slice(start, end)}(${inner.join(', ')})`
    if (closeArgs === undefined) return { text: calls[name]!(inner) ?? plain, next: close + 1 }
    const args = this.#args(close + 1, closeArgs)
    const text = parametric[name]!(inner, args) ?? `${plain}(${args.join(', ')})`
    return { text, next: closeArgs + 1 }
  }

  /** `x = ANY (…)` compares with each item of a list; it is not the aggregate. */
  #isQuantifier(name: string, at: number): boolean {
    return name === 'any' && ['=', '<', '>'].includes(symbolOf(this.#text, this.#tokens[at - 1]))
  }

  #args(open: number, close: number): string[] {
    const args: string[] = []
    let begin = open + 1
    let depth = 0
    for (let at = begin; at < close; at++) {
      const symbol = symbolOf(this.#text, this.#tokens[at])
      if ('([{'.includes(symbol) && symbol !== '') depth++
      else if (')]}'.includes(symbol) && symbol !== '') depth--
      else if (symbol === ',' && depth === 0) {
        args.push(this.#range(begin, at))
        begin = at + 1
      }
    }
    if (begin < close) args.push(this.#range(begin, close))
    return args
  }

  /** `LIMIT offset, count`. */
  #limitAt(at: number): { readonly text: string; readonly next: number } | null {
    const [word, offset, comma, count] = this.#tokens.slice(at, at + 4)
    if (wordOf(this.#text, word) !== 'LIMIT' || symbolOf(this.#text, comma) !== ',') return null
    if (offset?.kind !== 'number' || count?.kind !== 'number') return null
    const written = (token: Token) => this.#text.slice(token.start, token.end)
    return { text: `LIMIT ${written(count)} OFFSET ${written(offset)}`, next: at + 4 }
  }
}

function depthOf(text: string, tokens: readonly Token[]): number {
  let depth = 0
  let deepest = 0
  for (const token of tokens) {
    const symbol = symbolOf(text, token)
    if (symbol === '(') deepest = Math.max(deepest, ++depth)
    else if (symbol === ')') depth--
  }
  return deepest
}

function pairs(text: string, tokens: readonly Token[]): Map<number, number> {
  const open: number[] = []
  const found = new Map<number, number>()
  for (const [at, token] of tokens.entries()) {
    const symbol = symbolOf(text, token)
    if (symbol === '(') open.push(at)
    else if (symbol === ')') {
      const begin = open.pop()
      if (begin !== undefined) found.set(begin, at)
    }
  }
  return found
}
