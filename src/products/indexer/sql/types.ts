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
export interface ArrayType {
  readonly kind: 'array'
  readonly name: string
  readonly of: SqlType
}
export interface NullableType {
  readonly kind: 'nullable'
  readonly name: string
  readonly of: SqlType
}
export type SqlType = Scalar | ArrayType | NullableType

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
  if (inside === undefined) return plain.get(name) ?? null
  if (name === 'Array' || name === 'Nullable' || name === 'LowCardinality')
    return nestedOf(name, inside.trim(), depth)
  const args = inside.split(',').map((part) => part.trim())
  return withArguments(name, args)
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
      return args.length === 1 && isUtc(first) ? datetime : null
    case 'DateTime64':
      if (number === null || number > 9 || args.length > 2) return null
      if (second !== undefined && !isUtc(second)) return null
      return { kind: 'datetime64', name: `DateTime64(${number})`, scale: number }
    case 'Decimal': {
      const scale = second === undefined ? '0' : second
      if (number === null || args.length > 2 || !/^\d{1,2}$/.test(scale)) return null
      return decimalOf(number, Number(scale))
    }
    default: {
      const precision = decimalDigits.get(name)
      return precision === undefined || number === null || args.length !== 1
        ? null
        : decimalOf(precision, number)
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

const datetime: Scalar = { kind: 'datetime', name: 'DateTime' }
const plain: ReadonlyMap<string, Scalar> = new Map(
  [
    ...[8, 16, 32, 64, 128].flatMap((bits) => [
      {
        kind: 'integer' as const,
        name: `UInt${bits}`,
        min: 0n,
        max: (1n << BigInt(bits)) - 1n,
      },
      {
        kind: 'integer' as const,
        name: `Int${bits}`,
        min: -(1n << BigInt(bits - 1)),
        max: (1n << BigInt(bits - 1)) - 1n,
      },
    ]),
    { kind: 'float' as const, name: 'Float32' },
    { kind: 'float' as const, name: 'Float64' },
    { kind: 'bool' as const, name: 'Bool' },
    { kind: 'string' as const, name: 'String' },
    { kind: 'uuid' as const, name: 'UUID' },
    { kind: 'date' as const, name: 'Date' },
    { kind: 'date' as const, name: 'Date32' },
    datetime,
    { kind: 'datetime64' as const, name: 'DateTime64(3)', scale: 3 },
    { kind: 'identifier' as const, name: 'Identifier' },
  ].map((type: Scalar) => [type.name.replace('(3)', ''), type]),
)
