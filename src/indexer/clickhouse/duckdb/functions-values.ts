// ClickHouse's functions of numbers, texts and JSON whose SQL depends on literals or on the types
// of arguments. Keys are in lower case.
import { duckdbString } from '../sql/lexer.ts'
import { definitions } from './definitions.ts'
import type { CallOf, Entries, Entry, SqlRule as Sql, SqlRule } from './entry.ts'
import { notAnswered, same } from './entry.ts'
import { converted, textOf } from './functions-conversions.ts'
import { typedOperators } from './operators.ts'
import type { Typed } from './typing.ts'
import {
  castTo,
  condition,
  defaultSql,
  duckdbTypeOf,
  hasZone,
  integerName,
  integerOf,
  isFloat,
  isText,
  itemType,
  nullable,
  superType,
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

const char: SqlRule = ({ args }) => {
  const codes = args.map((one) => Number(one.literal ?? Number.NaN))
  if (!codes.every((code) => code >= 0 && code < 128))
    throw notAnswered('char of a code that is not ASCII')
  return `(${codes.map((code) => `chr(${code})`).join(' || ') || "''"})`
}

/** The pattern's first group, or all of what matches where it has none. */
const groups = (pattern: Typed | undefined): number => {
  if (pattern?.literal === undefined)
    throw notAnswered('a regular expression that is not a literal')
  return new RegExp(`${pattern.literal.replaceAll(/\(\?[a-z]+\)/g, '')}|`).exec('')!.length - 1
}
const group = (pattern: Typed | undefined): number => Math.min(1, safeGroups(pattern))
function safeGroups(pattern: Typed | undefined): number {
  try {
    return groups(pattern)
  } catch (error) {
    if (error instanceof SyntaxError) throw notAnswered('this regular expression')
    throw error
  }
}

/** Arrays of a pattern's groups, from one array per group. */
const allGroups =
  (isHorizontal: boolean): SqlRule =>
  ({ args: [x, pattern] }) => {
    const count = safeGroups(pattern)
    if (x === undefined || count === 0) return null
    const lists = Array.from(
      { length: count },
      (_, at) => `regexp_extract_all(${x.sql}, ${pattern!.sql}, ${at + 1}, 's')`,
    )
    if (isHorizontal) return `[${lists.join(', ')}]`
    const items = lists.map((_, at) => `struct_extract(t_, ${at + 1})`)
    return count === 1
      ? `list_transform(${lists[0]}, lambda t_: [t_])`
      : `list_transform(list_zip(${lists.join(', ')}), lambda t_: [${items.join(', ')}])`
  }

/** The path of keys and indexes in DuckDB's form, as SQL. */
function pathOf(keys: readonly Typed[]): string {
  const parts = keys.map((key) => {
    if (isText(key.type)) {
      if (key.literal === undefined) return `' || '."' || ${key.sql} || '"' || '`
      if (/["\\]/.test(key.literal)) throw notAnswered('a JSON key with quotes')
      return `."${duckdbString(key.literal).replaceAll(/^\(?'|'\)?$/g, '')}"`
    }
    const at = Number(key.literal ?? key.sql.replaceAll(/::\w+|[()]/g, ''))
    if (!Number.isInteger(at) || at === 0) throw notAnswered('a JSON index that is not a literal')
    return at > 0 ? `[${at - 1}]` : `[#${at}]`
  })
  return `('$${parts.join('')}')`
}

/** `JSONExtract(x, keys…, 'Type')`. */
function jsonValue({ args }: CallOf): Typed | null {
  const [x, ...keys] = args.slice(0, -1)
  const type = args.at(-1)?.literal
  if (x === undefined || type === undefined) return null
  const path = pathOf(keys)
  const target = duckdbTypeOf(type)
  const base = withoutNull(type)
  const other = defaultSql(type)
  if (target === null || other === null) return null
  if (hasZone(type)) throw notAnswered(`JSONExtract of ${type}`)
  const text = `jsonText(${x.sql}, ${path})`
  const read =
    base !== 'Bool' && integerOf(base) !== null
      ? `TRY_CAST(jsonWhole(${text}) AS ${target})`
      : base.startsWith('Array(')
        ? `TRY_CAST(jsonAt(${x.sql}, ${path}) AS ${target})`
        : base === 'Bool'
          ? `(${text} = 'true')`
          : `TRY_CAST(${text} AS ${target})`
  return { sql: `coalesce(${read}, ${other})`, type }
}

const transformed = ({ args: [x, from, to, other] }: CallOf): Typed | null => {
  if (x === undefined || from === undefined || to === undefined) return null
  const type = superType([itemType(to.type), (other ?? x).type])
  const found = `list_extract(${to.sql}, list_position(${from.sql}, ${x.sql}))`
  return { sql: `coalesce(${found}, ${castTo(other ?? x, type)})`, type }
}

/** Functions of functions.sql that take keys and indexes where it has a path. */
const withPath = `JSONExtractString JSONExtractInt JSONExtractUInt JSONExtractFloat JSONExtractBool
  JSONExtractRaw JSONExtractArrayRaw JSONExtractKeys JSONHas JSONLength JSONType`

/** Those that take the number of a pattern's group, as the last argument. */
const withGroup = 'extract extractAll'

function adapted(names: string, adapt: (args: readonly Typed[]) => readonly Typed[]): Entries {
  const keys = names.toLowerCase().split(/\s+/)
  return Object.fromEntries(
    keys.map((key) => {
      const entry = definitions[key] as Exclude<Entry, string> & { sql: SqlRule }
      return [
        key,
        { ...entry, sql: (call: CallOf) => entry.sql({ ...call, args: adapt(call.args) }) },
      ]
    }),
  )
}

export const textFunctions: Entries = {
  ...adapted(withPath, ([x, ...keys]) => [x!, { sql: pathOf(keys), type: 'String' }]),
  ...adapted(withGroup, ([x, pattern]) => [
    x!,
    pattern!,
    { sql: String(group(pattern)), type: 'UInt8' },
  ]),
  char: { type: 'String', sql: char },
  concat: { type: 'String', sql: ({ args }) => `(${args.map(textOf).join(' || ')})` },
  concatwithseparator: {
    type: 'String',
    sql: ({ args: [sep, ...rest] }) =>
      sep === undefined || rest.length === 0
        ? null
        : `(${rest.map(textOf).join(` || ${sep.sql} || `)})`,
  },
  arraystringconcat: {
    type: 'String',
    sql: ({ args: [array, sep] }) => {
      if (array === undefined) return null
      const item = itemType(array.type)
      const texts = isText(item)
        ? array.sql
        : `list_transform(${array.sql}, lambda e_: ${textOf({ sql: 'e_', type: item })})`
      return `array_to_string(${texts}, ${sep?.sql ?? "''"})`
    },
  },
  regexpextract: {
    type: 'String',
    sql: ({ args: [x, pattern, at] }) => {
      if (x === undefined || pattern === undefined) return null
      if (at !== undefined && !/^\d{1,2}$/.test(at.literal ?? '')) return null
      return `regexp_extract(${x.sql}, ${pattern.sql}, ${at?.literal ?? group(pattern)}, 's')`
    },
  },
  extractgroups: {
    type: 'Array(String)',
    sql: ({ args: [x, pattern] }) => {
      if (x === undefined || pattern === undefined) return null
      const one = (_: unknown, at: number) =>
        `regexp_extract(${x.sql}, ${pattern.sql}, ${at + 1}, 's')`
      return `[${Array.from({ length: safeGroups(pattern) }, one).join(', ')}]`
    },
  },
  extractallgroups: { type: 'Array(Array(String))', sql: allGroups(false) },
  extractallgroupsvertical: { type: 'Array(Array(String))', sql: allGroups(false) },
  extractallgroupshorizontal: { type: 'Array(Array(String))', sql: allGroups(true) },
  transform: {
    type: (call) => transformed(call)?.type ?? unknown,
    sql: (call) => transformed(call)?.sql ?? null,
    nulls: 'own',
  },
  throwif: {
    type: 'UInt8',
    sql: ({ args: [x, message] }) =>
      x === undefined
        ? null
        : `throwWhere(${condition(x)}, ${message?.sql ?? "'the value is not zero'"})`,
  },
  ignore: { type: 'UInt8', sql: '0::UTINYINT', nulls: 'own' },
  iszeroornull: { type: 'flag', sql: '(coalesce($1, 0) = 0)', nulls: 'own' },
  bar: { type: 'String', sql: 'rtrim(bar($*))' },
  format: {
    type: 'String',
    sql: ({ args: [form, ...rest] }) => `format(${[form?.sql, ...rest.map(textOf)].join(', ')})`,
  },
  tojsonstring: {
    type: 'String',
    sql: ({ args: [x] }) => {
      if (x === undefined) return null
      if (/Tuple|DateTime|\?/.test(x.type)) throw notAnswered(`toJSONString of ${x.type}`)
      return `CAST(to_json(${x.sql}) AS VARCHAR)`
    },
  },
  jsonextract: {
    type: (call) => jsonValue(call)?.type ?? unknown,
    sql: (call) => jsonValue(call)?.sql ?? null,
    nulls: 'own',
  },
}
