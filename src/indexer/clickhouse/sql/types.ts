// Parses ClickHouse type names, as in `{name:Type}`.
import { clickhouseString, unescaped } from './lexer.ts'

export type ScalarName =
  | 'integer'
  | 'float'
  | 'bool'
  | 'string'
  | 'fixed-string'
  | 'uuid'
  | 'date'
  | 'datetime'
  | 'datetime64'
  | 'decimal'
  | 'enum'
  | 'identifier'

export interface Scalar {
  readonly kind: ScalarName
  /** ClickHouse type name. */
  readonly name: string
  /** Integers. */
  readonly min?: bigint
  readonly max?: bigint
  /** Decimals: total digits. Fixed strings: bytes. */
  readonly precision?: number
  /** Decimals and DateTime64: fractional digits. */
  readonly scale?: number
  /** Enums: numbers by name. */
  readonly values?: ReadonlyMap<string, string>
}
export interface NestedType {
  readonly kind: 'array' | 'nullable' | 'tuple' | 'map'
  readonly name: string
  /** The types inside: of items, of each element of a tuple, of key and value of a map. */
  readonly of: readonly SqlType[]
}
export type SqlType = Scalar | NestedType

const DEPTH_MAX = 8
const TEXT_CHARS_MAX = 2_000

/** The type of that name; null when a parameter cannot have it. */
export function parseType(text: string): SqlType | null {
  return text.length > TEXT_CHARS_MAX ? null : typeOf(text.trim(), 0)
}

function typeOf(text: string, depth: number): SqlType | null {
  if (depth > DEPTH_MAX) return null
  const form = /^([A-Za-z]\w*)\s*(?:\((.*)\))?$/s.exec(text)
  if (form === null) return null
  const [, name = '', inside] = form
  if (inside === undefined) return plainOf(name)
  const args = splitOutside(inside, ',')
  if (args === null) return null
  return Object.hasOwn(nested, name) ? nestedOf(name, args, depth) : withArguments(name, args)
}

/** Types with types inside, and how many; a tuple has any number. */
const nested: Readonly<Record<string, number>> = {
  Array: 1,
  Nullable: 1,
  LowCardinality: 1,
  Map: 2,
  Tuple: 0,
}

function nestedOf(name: string, args: readonly string[], depth: number): SqlType | null {
  if (nested[name] !== 0 && nested[name] !== args.length) return null
  const of: SqlType[] = []
  for (const arg of args) {
    // An element of a tuple may have a name.
    const type = typeOf(name === 'Tuple' ? arg.replace(/^\w+\s+(?=[A-Z])/, '') : arg, depth + 1)
    if (type === null || type.kind === 'identifier') return null
    of.push(type)
  }
  const [first] = of
  // LowCardinality is about the storage of columns and does not affect values.
  if (name === 'LowCardinality') return first ?? null
  if (name === 'Nullable' && (first === undefined || 'of' in first)) return null
  const kind = name.toLowerCase() as NestedType['kind']
  return { kind, name: `${name}(${of.map((type) => type.name).join(', ')})`, of }
}

/** The parts of a list, split outside of brackets and quotes; null when those do not match. */
export function splitOutside(text: string, separator: ',' | ':'): string[] | null {
  const parts: string[] = []
  let depth = 0
  let begin = 0
  let isInString = false
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!
    if (isInString) {
      if (char === '\\') at++
      else if (char === "'") isInString = false
    } else if (char === "'") isInString = true
    else if ('([{'.includes(char)) depth++
    else if (')]}'.includes(char) && --depth < 0) return null
    else if (char === separator && depth === 0) {
      parts.push(text.slice(begin, at).trim())
      begin = at + 1
      if (parts.length > PARTS_MAX) return null
    }
  }
  if (isInString || depth !== 0) return null
  parts.push(text.slice(begin).trim())
  return parts
}

const PARTS_MAX = 100_000

function withArguments(name: string, args: readonly string[]): Scalar | null {
  const [first = '', second] = args
  const number = /^\d{1,3}$/.test(first) ? Number(first) : null
  switch (name) {
    case 'FixedString':
      return args.length === 1 && number !== null && number > 0
        ? { kind: 'fixed-string', name: `FixedString(${number})`, precision: number }
        : null
    case 'DateTime':
      return args.length === 1 && isUtc(first) ? plainOf(name) : null
    case 'DateTime64':
      if (number === null || number > 9 || args.length > 2) return null
      if (second !== undefined && !isUtc(second)) return null
      return datetime64(number)
    case 'Decimal':
      if (number === null || args.length > 2 || !/^\d{1,2}$/.test(second ?? '0')) return null
      return decimalOf(number, Number(second ?? 0))
    case 'Enum':
    case 'Enum8':
    case 'Enum16':
      return enumOf(name, args)
    default: {
      const precision = decimalDigits.get(name)
      if (precision === undefined || number === null || args.length !== 1) return null
      return decimalOf(precision, number)
    }
  }
}

/** `Enum8('a' = 1, 'b')`: without a number it is one more than the one before. */
function enumOf(name: string, args: readonly string[]): Scalar | null {
  const values = new Map<string, string>()
  let next = 1
  for (const arg of args) {
    const form = /^'((?:[^'\\]|\\.)*)'(?:\s*=\s*(-?\d{1,5}))?$/s.exec(arg)
    const text = form === null ? null : unescaped(form[1]!)
    if (text === null) return null
    next = form?.[2] === undefined ? next : Number(form[2])
    values.set(text, String(next++))
  }
  const sorted = [...values].sort(([, a], [, b]) => Number(a) - Number(b))
  const isWide = sorted.some(([, number]) => Number(number) < -128 || Number(number) > 127)
  if (isWide && name === 'Enum8') return null
  const list = sorted.map(([text, number]) => `${clickhouseString(text)} = ${number}`).join(', ')
  const plain = name === 'Enum' ? `Enum${isWide ? 16 : 8}` : name
  return { kind: 'enum', name: `${plain}(${list})`, values: new Map(sorted) }
}

const decimalDigits = new Map([
  ['Decimal32', 9],
  ['Decimal64', 18],
  ['Decimal128', 38],
])
const DECIMAL_DIGITS_MAX = 38

function decimalOf(precision: number, scale: number): Scalar | null {
  if (precision < 1 || precision > DECIMAL_DIGITS_MAX || scale > precision) return null
  return { kind: 'decimal', name: `Decimal(${precision}, ${scale})`, precision, scale }
}

/** All times are UTC; another time zone would change the moment. */
function isUtc(text: string): boolean {
  return /^'(UTC|Etc\/UTC|GMT)'$/.test(text)
}

function datetime64(scale: number): Scalar {
  return { kind: 'datetime64', name: `DateTime64(${scale})`, scale }
}

const kinds: Readonly<Record<string, ScalarName>> = {
  Float32: 'float',
  Float64: 'float',
  Bool: 'bool',
  Boolean: 'bool',
  String: 'string',
  UUID: 'uuid',
  Date: 'date',
  Date32: 'date',
  DateTime: 'datetime',
  Identifier: 'identifier',
}

/** A type without arguments. */
function plainOf(name: string): Scalar | null {
  if (name === 'DateTime64') return datetime64(3)
  const integer = /^(U?)Int(8|16|32|64|128)$/.exec(name)
  if (integer === null) {
    const kind = Object.hasOwn(kinds, name) ? kinds[name]! : null
    return kind === null ? null : { kind, name: kind === 'bool' ? 'Bool' : name }
  }
  const bits = BigInt(integer[2]!)
  const isSigned = integer[1] === ''
  const max = (1n << (isSigned ? bits - 1n : bits)) - 1n
  return { kind: 'integer', name, min: isSigned ? -max - 1n : 0n, max }
}
