// Parses ClickHouse type names, as in `{name:Type}`. Thread: any (pure).

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
}
export interface NestedType {
  readonly kind: 'array' | 'nullable'
  readonly name: string
  readonly of: SqlType
}
export type SqlType = Scalar | NestedType

const DEPTH_MAX = 8
const TEXT_CHARS_MAX = 200

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
  if (name === 'Array' || name === 'Nullable' || name === 'LowCardinality')
    return nestedOf(name, inside.trim(), depth)
  return withArguments(
    name,
    inside.split(',').map((argument) => argument.trim()),
  )
}

function nestedOf(name: string, inside: string, depth: number): SqlType | null {
  const of = typeOf(inside, depth + 1)
  if (of === null || of.kind === 'identifier') return null
  // LowCardinality is about the storage of columns and does not affect values.
  if (name === 'LowCardinality') return of
  if (name === 'Array') return { kind: 'array', name: `Array(${of.name})`, of }
  if (of.kind === 'array' || of.kind === 'nullable') return null
  return { kind: 'nullable', name: `Nullable(${of.name})`, of }
}

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
    default: {
      const precision = decimalDigits.get(name)
      if (precision === undefined || number === null || args.length !== 1) return null
      return decimalOf(precision, number)
    }
  }
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
  if (integer === null) return Object.hasOwn(kinds, name) ? { kind: kinds[name]!, name } : null
  const bits = BigInt(integer[2]!)
  const isSigned = integer[1] === ''
  const max = (1n << (isSigned ? bits - 1n : bits)) - 1n
  return { kind: 'integer', name, min: isSigned ? -max - 1n : 0n, max }
}
