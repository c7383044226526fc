// ClickHouse's functions of arrays and maps whose SQL depends on types.
// Keys are in lower case; those with lambdas are in functions-lambdas.ts.
import { type CallOf, type Entries, type Entry, itemOf, same } from './entry.ts'
import {
  castTo,
  defaultSql,
  duckdbTypeOf,
  integerName,
  integerOf,
  isFloat,
  itemType,
  superType,
  type Typed,
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

export const arrayFunctions: Entries = {
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
