// Parses parts that several rules share: numbers, type names, stars.
import type { Alias, Literal, Star } from './ast.ts'
import { type Parser, SqlProblem } from './parser.ts'

/** A number with a minus before it. */
export function signed(text: string, type: string): { text: string; type: string } {
  if (type === 'Float64') return { text: `-${text}`, type }
  const value = BigInt(text)
  const bits = [8n, 16n, 32n, 64n].find((size) => value <= 1n << (size - 1n))
  return { text: `-${value}`, type: bits === undefined ? 'Float64' : `Int${bits}` }
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
  return type === undefined
    ? { kind: 'literal', at, type: 'Float64', text: String(Number(written)) }
    : { kind: 'literal', at, type, text: String(value) }
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
      except.push(...(isOpen ? p.list(() => p.name()) : [p.name()]))
      if (isOpen) p.expect(')')
    } else if (p.sees('REPLACE')) {
      p.next()
      const isOpen = p.take('(')
      const one = (): Alias => {
        const made = p.aliased()
        return made.kind === 'alias' ? made : p.fail('AS')
      }
      replace.push(...(isOpen ? p.list(one) : [one()]))
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
