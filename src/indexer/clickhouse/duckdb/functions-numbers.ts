// ClickHouse's functions of numbers whose SQL depends on the types of arguments.
// Keys are in lower case.
import {
  type CallOf,
  type Entries,
  type Entry,
  notAnswered,
  type SqlRule as Sql,
  same,
} from './entry.ts'
import { converted } from './functions-conversions.ts'
import { typedOperators } from './operators.ts'
import {
  castTo,
  duckdbTypeOf,
  integerName,
  integerOf,
  isFloat,
  isText,
  nullable,
  superType,
  type Typed,
  unknown,
  withoutNull,
} from './typing.ts'

/** `f(x, n)` of a whole number changes only digits before the point. */
function rounding(whole: string, core: (x: string) => string): Entry {
  return {
    type: same(0),
    sql: ({ args: [x, digits] }) => {
      if (x === undefined) return null
      const n = Number(
        digits?.sql === undefined
          ? 0
          : (digits.literal ?? digits.sql.replace(/::\w+$/, '').replaceAll(/[()]/g, '')),
      )
      if (!Number.isInteger(n) || Math.abs(n) > 18) return null
      const target = duckdbTypeOf(withoutNull(x.type))
      const power = `1e${Math.abs(n)}`
      if (integerOf(x.type) !== null) {
        const marks = { $: `CAST(${x.sql} AS HUGEINT)`, '#': String(10 ** -n) }
        const value = whole.replaceAll(/[$#]/g, (mark) => marks[mark as keyof typeof marks])
        return n >= 0 ? x.sql : `CAST(${value} AS ${target})`
      }
      if (!isFloat(x.type) && x.type !== unknown) return n === 0 ? core(x.sql) : null
      const value = `CAST(${x.sql} AS DOUBLE)`
      const made =
        n === 0
          ? core(value)
          : n > 0
            ? `(${core(`(${value} * ${power})`)} / ${power})`
            : `(${core(`(${value} / ${power})`)} * ${power})`
      return target === 'FLOAT' ? `CAST(${made} AS FLOAT)` : made
    },
  }
}

/** The type of several whole numbers together. */
function widest({ args }: CallOf): string {
  const all = args.map((one) => integerOf(one.type))
  if (all.some((one) => one === null)) return unknown
  return integerName({
    bits: Math.max(...all.map((one) => one!.bits)),
    isSigned: all.some((one) => one!.isSigned),
  })
}

const bits =
  (sign: string): Sql =>
  (call) => {
    const type = widest(call)
    const [a, b] = call.args
    if (type === unknown || a === undefined || b === undefined) return null
    const [x, y] = [castTo(a, type), castTo(b, type)]
    return sign === 'xor' ? `xor(${x}, ${y})` : `(${x} ${sign} ${y})`
  }
const shift =
  (sign: string): Sql =>
  ({ args: [x, n] }) =>
    x === undefined || n === undefined || integerOf(x.type) === null
      ? null
      : `(${x.sql} ${sign} CAST(${n.sql} AS ${duckdbTypeOf(withoutNull(x.type))}))`

function rotated(left: string, right: string): Sql {
  return ({ args: [x, n] }) => {
    const integer = integerOf(x?.type ?? unknown)
    if (x === undefined || n === undefined || integer === null || integer.isSigned) return null
    const wide = `CAST(${x.sql} AS UHUGEINT)`
    const turned = `((${wide} ${left} ${n.sql}) | (${wide} ${right} (${integer.bits} - ${n.sql})))`
    const mask = `${(1n << BigInt(integer.bits)) - 1n}::UHUGEINT`
    return `CAST((${turned} & ${mask}) AS ${duckdbTypeOf(x.type)})`
  }
}

/** A whole number without its sign, in the same bits. */
function unsigned(x: Typed): string | null {
  const integer = integerOf(x.type)
  return integer === null ? null : converted(x, integerName({ ...integer, isSigned: false }))
}

const hex: Sql = ({ args: [x] }) => {
  if (x === undefined) return null
  if (isText(x.type)) return `hex(${x.sql})`
  const value = unsigned(x)
  if (value === null) throw notAnswered(`hex of ${x.type}`)
  return `evenHex(hex(${value}))`
}

const binary: Sql = ({ args: [x] }) => {
  if (x === undefined) return null
  if (isText(x.type)) return `bin(${x.sql})`
  const value = unsigned(x)
  if (value === null) throw notAnswered(`bin of ${x.type}`)
  return `wholeBytes(bin(${value}))`
}

const common = ({ args }: CallOf) => superType(args.map((one) => one.type))
const greatestOf =
  (name: string): Sql =>
  (call) => {
    const type = common(call)
    const args = call.args.map((one) => (type === unknown ? one.sql : castTo(one, type)))
    return `${name}(${args.join(', ')})`
  }

const wholeType = ({ args: [a, b] }: CallOf) =>
  a === undefined || b === undefined
    ? unknown
    : (typedOperators.plus!({ name: '', args: [a, b], params: [], nodes: [] })?.type ?? unknown)
const dividing =
  (name: string): Sql =>
  (call) => {
    const args = call.args.map((one) => `CAST(${one.sql} AS HUGEINT)`)
    return `CAST(${name}(${args.join(', ')}) AS ${duckdbTypeOf(wholeType(call)) ?? 'BIGINT'})`
  }

/** Division that never fails. */
function careful(operator: 'intdiv' | 'modulo' | 'divide', isNull: boolean): Entry {
  const make = (call: CallOf): Typed | null => {
    const [a, b] = call.args
    if (a === undefined || b === undefined) return null
    const made = typedOperators[operator]!({
      ...call,
      args: [a, { sql: `nullif(${b.sql}, 0)`, type: b.type }],
    })
    if (made === null) return null
    return isNull
      ? { sql: made.sql, type: nullable(made.type) }
      : { sql: `coalesce(${made.sql}, 0)`, type: made.type }
  }
  return {
    type: (call) => make(call)?.type ?? unknown,
    sql: (call) => make(call)?.sql ?? null,
    nulls: 'own',
  }
}

export const numberFunctions: Entries = {
  round: rounding('round($ / #) * #', (x) => `round_even(${x}, 0)`),
  floor: rounding('floor($ / #) * #', (x) => `floor(${x})`),
  ceil: rounding('ceil($ / #) * #', (x) => `ceil(${x})`),
  ceiling: rounding('ceil($ / #) * #', (x) => `ceil(${x})`),
  trunc: rounding('trunc($ / #) * #', (x) => `trunc(${x})`),
  truncate: rounding('trunc($ / #) * #', (x) => `trunc(${x})`),
  greatest: { type: common, sql: greatestOf('greatest') },
  least: { type: common, sql: greatestOf('least') },
  gcd: { type: wholeType, sql: dividing('gcd') },
  lcm: { type: wholeType, sql: dividing('lcm') },
  intdivorzero: careful('intdiv', false),
  intdivornull: careful('intdiv', true),
  moduloorzero: careful('modulo', false),
  moduloornull: careful('modulo', true),
  divideornull: careful('divide', true),
  positivemodulo: {
    type: ({ args }) => (args[1]?.type ?? unknown).replace(/^Int/, 'UInt'),
    sql: ({ args: [a, b] }) => {
      if (a === undefined || b === undefined) return null
      const target = duckdbTypeOf(b.type.replace(/^Int/, 'UInt')) ?? 'HUGEINT'
      const rest = `(CAST(${a.sql} AS HUGEINT) % ${b.sql})`
      return `CAST(((${rest} + abs(${b.sql})) % ${b.sql}) AS ${target})`
    },
  },
  bitand: { type: widest, sql: bits('&') },
  bitor: { type: widest, sql: bits('|') },
  bitxor: { type: widest, sql: bits('xor') },
  bitnot: { type: same(0), sql: '(~$1)' },
  bitshiftleft: { type: same(0), sql: shift('<<') },
  bitshiftright: { type: same(0), sql: shift('>>') },
  bitrotateleft: { type: same(0), sql: rotated('<<', '>>') },
  bitrotateright: { type: same(0), sql: rotated('>>', '<<') },
  hex: { type: 'String', sql: hex },
  bin: { type: 'String', sql: binary },
}
