// The table of ClickHouse's functions, and those of arrays, maps and lambdas. Keys are in lower
// case.
import { definitions, refusals, writtenNames } from './definitions.ts'
import { type CallOf, type Entries, type Entry, itemOf, same } from './entry.ts'
import { conversionFunctions, timeFunctions } from './functions-conversions.ts'
import { numberFunctions, textFunctions } from './functions-values.ts'
import { operators } from './operators.ts'
import type { Typed } from './typing.ts'
import {
  castTo,
  condition,
  defaultSql,
  duckdbTypeOf,
  integerName,
  integerOf,
  isFloat,
  itemType,
  nullable,
  opened,
  splitTypes,
  superType,
  unknown,
} from './typing.ts'

type Rules = Exclude<Entry, string>

export function sumType(item: string): string {
  const integer = integerOf(item)
  if (integer !== null) return integer.isSigned ? 'Int64' : 'UInt64'
  return isFloat(item) ? 'Float64' : unknown
}

export function cast(sql: string, type: string): string {
  const target = duckdbTypeOf(type)
  return target === null ? sql : `CAST(${sql} AS ${target})`
}

/** An array with one more item, in the type of both. */
const extended =
  (write: (array: string, item: string) => string): NonNullable<Rules['sql']> =>
  (call) => {
    const [array, item] = call.args
    const type = extendedType(call)
    if (array === undefined || item === undefined) return null
    return write(cast(array.sql, type), castTo(item, itemType(type)))
  }
const extendedType = ({ args: [array, item] }: CallOf) =>
  `Array(${superType([itemType(array?.type ?? unknown), item?.type ?? unknown])})`
const commonArray = ({ args }: CallOf) =>
  `Array(${superType(args.map((one) => itemType(one.type)))})`

/** `map('a', 1, 'b', 2)`. */
const pairs = (args: readonly Typed[], odd: number) => args.filter((_, at) => at % 2 === odd)

const arrayFunctions: Entries = {
  arrayzip: {
    type: ({ args }) => `Array(Tuple(${args.map((one) => itemType(one.type)).join(', ')}))`,
    sql: ({ args: [first, ...rest] }) => {
      if (first === undefined) return null
      const same = rest.map(({ sql }) => `sameLength(${sql}, ${first.sql})`)
      return `list_zip(${[first.sql, ...same].join(', ')})`
    },
    nulls: 'own',
  },
  arrayconcat: {
    type: commonArray,
    sql: (call) =>
      call.args
        .map((one) => cast(one.sql, commonArray(call)))
        .reduce((a, b) => `list_concat(${a}, ${b})`),
  },
  arraypushback: { type: extendedType, sql: extended((a, x) => `list_append(${a}, ${x})`) },
  arraypushfront: { type: extendedType, sql: extended((a, x) => `list_prepend(${x}, ${a})`) },
  arrayresize: {
    type: same(0),
    sql: ({ args: [array, size, other] }) => {
      if (array === undefined || size === undefined) return null
      const item = itemType(array.type)
      const fill = other === undefined ? defaultSql(item) : castTo(other, item)
      return fill === null ? null : `list_resize(${array.sql}, ${size.sql}, ${fill})`
    },
  },
  arraywithconstant: {
    type: ({ args }) => `Array(${args[1]?.type ?? unknown})`,
    sql: ({ args: [size, x] }) =>
      size === undefined || x === undefined || duckdbTypeOf(x.type) === null
        ? null
        : `list_resize(CAST([] AS ${duckdbTypeOf(x.type)}[]), ${size.sql}, ${x.sql})`,
  },
  arrayshiftleft: {
    type: same(0),
    sql: shifted(
      (a, n, fill) =>
        `list_concat(${a}[${n} + 1:], list_transform(${a}[:${n}], lambda v_: ${fill}))`,
    ),
  },
  arrayshiftright: {
    type: same(0),
    sql: shifted(
      (a, n, fill) =>
        `list_concat(list_transform(${a}[:${n}], lambda v_: ${fill}), ${a}[:len(${a}) - ${n}])`,
    ),
  },
  arrayflatten: { type: flattenedType, sql: flattened },
  flatten: { type: flattenedType, sql: flattened },
  arrayjoin: { type: itemOf(0), sql: 'unnest($1)' },
  arraydotproduct: {
    type: productType,
    sql: (call) =>
      cast(
        'list_dot_product($1::DOUBLE[], $2::DOUBLE[])'.replace(
          /\$(\d)/g,
          (_, at) => call.args[at - 1]?.sql ?? '',
        ),
        productType(call),
      ),
  },
  map: {
    type: ({ args }) => {
      const type = (odd: number) => superType(pairs(args, odd).map((one) => one.type))
      return `Map(${type(0)}, ${type(1)})`
    },
    sql: ({ args }) => {
      if (args.length === 0 || args.length % 2 === 1) return null
      const list = (odd: number) =>
        pairs(args, odd)
          .map((one) => one.sql)
          .join(', ')
      return `map([${list(0)}], [${list(1)}])`
    },
    nulls: 'own',
  },
  range: {
    type: ({ args }) => `Array(${superType(args.map((one) => one.type))})`,
    sql: (call) =>
      cast(
        'range('.concat(call.args.map((one) => one.sql).join(', '), ')'),
        `Array(${superType(call.args.map((one) => one.type))})`,
      ),
  },
}

function shifted(write: (array: string, n: string, fill: string) => string) {
  return ({ args: [array, n, other] }: CallOf): string | null => {
    const item = itemType(array?.type ?? unknown)
    const fill = other === undefined ? defaultSql(item) : castTo(other, item)
    return array === undefined || n === undefined || fill === null
      ? null
      : write(array.sql, n.sql, fill)
  }
}

function depthOf(type: string): number {
  return type.startsWith('Array(') ? 1 + depthOf(itemType(type)) : 0
}

function flattenedType({ args: [array] }: CallOf): string {
  let type = array?.type ?? unknown
  while (depthOf(type) > 1) type = itemType(type)
  return type
}

function flattened({ args: [array] }: CallOf): string | null {
  if (array === undefined || depthOf(array.type) === 0 || array.type.includes(unknown)) return null
  const levels = depthOf(array.type) - 1
  return `${'flatten('.repeat(levels)}${array.sql}${')'.repeat(levels)}`
}

/** The type of a product of two arrays' items. */
function productType({ args }: CallOf): string {
  const [x, y] = args.map((one) => integerOf(itemType(one.type)))
  if (!x || !y) return 'Float64'
  const bits = Math.min(64, 2 * Math.max(x.bits, y.bits))
  return integerName({ bits, isSigned: x.isSigned || y.isSigned })
}

// ClickHouse's functions that take a lambda, or an array in its place.
// print-expression.ts gives a lambda of several arguments the tuples of its arrays.

/** The array that a function reduces: the lambda's results, or the array itself. */
function mapped({ args: [first, second], nodes }: CallOf): Typed | null {
  if (first === undefined || nodes[0]?.kind !== 'lambda') return first ?? null
  if (second === undefined) return null
  return { sql: `list_transform(${second.sql}, ${first.sql})`, type: `Array(${first.type})` }
}

/** One value of an array, by what a function computes from its items. */
function reduced(write: (array: Typed) => string | null, type: (item: string) => string): Entry {
  return {
    type: (call) => type(itemType(mapped(call)?.type ?? unknown)),
    sql: (call) => {
      const array = mapped(call)
      return array === null ? null : write(array)
    },
    nulls: 'own',
  }
}

/** The value, or the default of the array's items. */
function orDefault(sql: string, item: string): string | null {
  const other = defaultSql(item)
  return other === null ? sql : `coalesce(${sql}, ${other})`
}

/** A lambda that is a condition, and the array with what it selects from. */
function selection({ args: [lambda, array], nodes: [node] }: CallOf) {
  if (lambda === undefined || array === undefined || node?.kind !== 'lambda') return null
  const test = lambda.flag ?? lambda.sql.replace(/^(lambda \w+: )(.*)$/s, '$1CAST($2 AS BOOLEAN)')
  const isZip = node.names.length > 1
  /** Of the first array, where several are tested together. */
  const first = (items: string) =>
    isZip ? `list_transform(${items}, lambda t_: struct_extract(t_, 1))` : items
  const type = isZip
    ? `Array(${splitTypes(opened(itemType(array.type))?.[1] ?? '')[0] ?? unknown})`
    : array.type
  return { test, array: array.sql, first, type }
}

function selecting(
  write: (found: NonNullable<ReturnType<typeof selection>>) => string | null,
  type: (array: string) => string,
): Rules {
  return {
    type: (call) => type(selection(call)?.type ?? unknown),
    sql: (call) => {
      const found = selection(call)
      return found === null ? null : write(found)
    },
    nulls: 'own',
  }
}

const filtered = ({ array, test, first }: NonNullable<ReturnType<typeof selection>>) =>
  first(`list_filter(${array}, ${test})`)
const flags = ({ array, test }: { array: string; test: string }) =>
  `list_transform(${array}, ${test})`

const sorted =
  (name: string, sign: string) =>
  ({ args: [first, second], nodes: [node] }: CallOf): string | null => {
    if (first === undefined) return null
    if (node?.kind !== 'lambda') return `${name}(${first.sql})`
    if (second === undefined) return null
    const order = `list_transform(${second.sql}, lambda v_, i_: ${sign}i_)`
    const keys = `list_zip(list_transform(${second.sql}, ${first.sql}), ${order})`
    const at = `list_extract(${second.sql}, ${sign}struct_extract(t_, 2))`
    const value = node.names.length > 1 ? `struct_extract(${at}, 1)` : at
    return `list_transform(${name}(${keys}), lambda t_: ${value})`
  }

const sortedType = ({ args: [first, second], nodes: [node] }: CallOf): string => {
  if (node?.kind !== 'lambda') return first?.type ?? unknown
  if (node.names.length === 1) return second?.type ?? unknown
  return `Array(${splitTypes(opened(itemType(second?.type ?? unknown))?.[1] ?? '')[0] ?? unknown})`
}

/** Differences of UInt8 are Int16, as by minus. */
function differenceType(item: string): string {
  const integer = integerOf(item)
  return integer === null
    ? 'Float64'
    : integerName({ bits: Math.min(64, integer.bits * 2), isSigned: true })
}

const reducers: Readonly<Record<string, string>> = {
  sum: 'arraysum',
  avg: 'arrayavg',
  min: 'arraymin',
  max: 'arraymax',
}

const lambdaFunctions: Entries = {
  arraymap: {
    type: ({ args }) => `Array(${args[0]?.type ?? unknown})`,
    sql: 'list_transform($2, $1)',
    nulls: 'own',
  },
  arrayfilter: selecting(filtered, (type) => type),
  arrayexists: {
    ...selecting(
      (one) => `(len(${filtered(one)}) > 0)`,
      () => '',
    ),
    type: 'flag',
  },
  arrayall: {
    ...selecting(
      (one) => `(len(${filtered(one)}) = len(${one.array}))`,
      () => '',
    ),
    type: 'flag',
  },
  arraycount: {
    type: 'UInt32',
    sql: (call) => {
      const found = selection(call)
      const [first] = call.args
      if (first === undefined) return null
      const items =
        found === null ? `list_filter(${first.sql}, lambda v_: v_ <> 0)` : filtered(found)
      return `CAST(len(${items}) AS UINTEGER)`
    },
    nulls: 'own',
  },
  arrayfirst: selecting((one) => orDefault(`${filtered(one)}[1]`, itemType(one.type)), itemType),
  arraylast: selecting((one) => orDefault(`${filtered(one)}[-1]`, itemType(one.type)), itemType),
  arrayfirstornull: selecting(
    (one) => `${filtered(one)}[1]`,
    (type) => nullable(itemType(type)),
  ),
  arraylastornull: selecting(
    (one) => `${filtered(one)}[-1]`,
    (type) => nullable(itemType(type)),
  ),
  arrayfirstindex: selecting(
    (one) => `CAST(coalesce(list_position(${flags(one)}, true), 0) AS UINTEGER)`,
    () => 'UInt32',
  ),
  arraylastindex: selecting(
    (one) => `lastTrue(${flags(one)})`,
    () => 'UInt32',
  ),
  arrayfill: selecting(
    (one) => `filledFrom(${one.array}, ${flags(one)})`,
    (type) => type,
  ),
  arrayreversefill: selecting(
    (one) => `list_reverse(filledFrom(list_reverse(${one.array}), list_reverse(${flags(one)})))`,
    (type) => type,
  ),
  arraysplit: selecting(
    (one) => `splitWhere(${one.array}, ${flags(one)})`,
    (type) => `Array(${type})`,
  ),
  arraysort: { type: sortedType, sql: sorted('list_sort', ''), nulls: 'own' },
  arrayreversesort: { type: sortedType, sql: sorted('list_reverse_sort', '-'), nulls: 'own' },
  arraysum: reduced(({ sql, type }) => {
    const sum = sumType(itemType(type))
    return cast(`coalesce(list_sum(${sql}), 0)`, sum)
  }, sumType),
  arrayavg: reduced(
    ({ sql }) => `coalesce(list_avg(${sql}), 'nan'::DOUBLE)`,
    () => 'Float64',
  ),
  arrayproduct: reduced(
    ({ sql }) => `CAST(coalesce(list_product(${sql}), 1) AS DOUBLE)`,
    () => 'Float64',
  ),
  arraymin: reduced(
    ({ sql, type }) => orDefault(`list_min(${sql})`, itemType(type)),
    (item) => item,
  ),
  arraymax: reduced(
    ({ sql, type }) => orDefault(`list_max(${sql})`, itemType(type)),
    (item) => item,
  ),
  arraycumsum: reduced(
    ({ sql, type }) => cast(`runningSums(${sql})`, `Array(${sumType(itemType(type))})`),
    (item) => `Array(${sumType(item)})`,
  ),
  arraycumsumnonnegative: reduced(
    ({ sql, type }) => cast(`runningSumsAbove(${sql})`, `Array(${sumType(itemType(type))})`),
    (item) => `Array(${sumType(item)})`,
  ),
  arraydifference: reduced(
    ({ sql, type }) => {
      const made = `Array(${differenceType(itemType(type))})`
      return `differences(${cast(sql, made)})`
    },
    (item) => `Array(${differenceType(item)})`,
  ),
  arrayreduce: {
    type: (call) => reducing(call)?.type ?? unknown,
    sql: (call) => reducing(call)?.sql ?? null,
    nulls: 'own',
  },
  mapfilter: overPairs((f, entries) => `map_from_entries(list_filter(${entries}, ${f}))`),
  mapexists: {
    ...overPairs((f, entries) => `(len(list_filter(${entries}, ${f})) > 0)`),
    type: 'flag',
  },
}

function reducing({ args: [name, array], nodes }: CallOf): Typed | null {
  const reducer = name?.literal?.toLowerCase() ?? ''
  if (array === undefined) return null
  if (/^uniq(exact)?$/.test(reducer))
    return { sql: `CAST(list_unique(${array.sql}) AS UBIGINT)`, type: 'UInt64' }
  const entry = lambdaFunctions[reducers[reducer] ?? '']
  if (typeof entry !== 'object' || typeof entry.sql !== 'function') return null
  const call = { name: '', args: [array], params: [], nodes: nodes.slice(1) }
  const sql = entry.sql(call)
  const type = typeof entry.type === 'function' ? entry.type(call) : (entry.type ?? unknown)
  return sql === null ? null : { sql, type }
}

/** A lambda over the keys and values of a map. */
function overPairs(write: (lambda: string, entries: string) => string): Rules {
  return {
    type: ({ args }) => args[1]?.type ?? unknown,
    sql: ({ args: [lambda, map] }) =>
      lambda === undefined || map === undefined
        ? null
        : write(condition(lambda), `map_entries(${map.sql})`),
    nulls: 'own',
  }
}

/** DuckDB's own functions of that name, by result type. */
const named: Readonly<Record<string, string>> = {
  Float64: 'sin cos tan atan atan2 sinh cosh tanh degrees radians pi pow lgamma gamma',
  String: 'version translate printf overlay',
}

/** Other names, the first of each line is the one that is defined. */
const synonyms = `toyear year, toquarter quarter, tomonth month, todayofmonth day dayofmonth,
  todayofweek dayofweek, todayofyear dayofyear, tohour hour, tominute minute, tosecond second,
  toisoweek week, trimleft ltrim, trimright rtrim, trimboth trim, leftpad lpad, rightpad rpad,
  lower lcase, upper ucase, replaceall replace, substring substr mid,
  simplejsonhas visitparamhas, simplejsonextractint visitparamextractint,
  simplejsonextractuint visitparamextractuint, simplejsonextractfloat visitparamextractfloat,
  simplejsonextractbool visitparamextractbool, simplejsonextractraw visitparamextractraw,
  simplejsonextractstring visitparamextractstring, arraydotproduct dotproduct,
  tolastdayofmonth last_day, timezone servertimezone, hostname fqdn, base64encode to_base64,
  base64decode from_base64, tounixtimestamp unix_timestamp, todate date,
  concat concatassumeinjective, concatwithseparator concat_ws`

function absolute({ args: [x] }: CallOf): string | null {
  if (x === undefined) return null
  const target = duckdbTypeOf(x.type.replace(/^Int/, 'UInt'))
  return /^Int/.test(x.type) && target !== null
    ? `CAST(abs(CAST(${x.sql} AS HUGEINT)) AS ${target})`
    : `abs(${x.sql})`
}

const defined: Entries = {
  ...Object.fromEntries(
    Object.entries(named).flatMap(([type, names]) => names.split(' ').map((name) => [name, type])),
  ),
  ...refusals,
  ...definitions,
  ...arrayFunctions,
  ...lambdaFunctions,
  ...conversionFunctions,
  ...timeFunctions,
  ...operators,
  ...numberFunctions,
  ...textFunctions,
  abs: { type: ({ args }) => (args[0]?.type ?? '?').replace(/^Int/, 'UInt'), sql: absolute },
}

export const functions: Entries = {
  ...Object.fromEntries(
    synonyms.split(/,\s+/).flatMap((line) => {
      const [own = '', ...others] = line.split(' ')
      return others.map((name) => [name, defined[own]!])
    }),
  ),
  ...defined,
}

/** As ClickHouse writes them, where that is known. */
export const functionNames: readonly string[] = Object.keys(functions)
  .filter((name) => !Object.hasOwn(refusals, name))
  .map((name) => writtenNames.get(name) ?? name)
