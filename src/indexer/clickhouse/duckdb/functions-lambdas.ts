// ClickHouse's functions that take a lambda, or an array in its place.
// Keys are in lower case. print-expression.ts gives a lambda of several arguments the tuples of
// its arrays.
import type { CallOf, Entries, Entry } from './entry.ts'
import { cast, sumType } from './functions-arrays.ts'
import {
  condition,
  defaultSql,
  integerName,
  integerOf,
  itemType,
  nullable,
  opened,
  splitTypes,
  type Typed,
  unknown,
} from './typing.ts'

type Rules = Exclude<Entry, string>

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

export const lambdaFunctions: Entries = {
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
