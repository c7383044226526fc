// Aggregate functions of ClickHouse that are formulas over several of DuckDB's.
// Moments are summed up as ClickHouse does it, so that the last digits agree.
import { type Aggregate, type CallOf, same } from './entry.ts'
import { sumType } from './functions-arrays.ts'
import { duckdbTypeOf, itemType, opened, splitTypes, unknown, withoutNull } from './typing.ts'

const x = 'CAST($1 AS DOUBLE)'
const y = 'CAST($2 AS DOUBLE)'
const n = 'count($1)$F'
const sum = (power: number) => `sum(${power === 1 ? x : Array(power).fill(x).join(' * ')})$F`
const squares = `(${sum(2)} - ${sum(1)} * ${sum(1)} / ${n})`
const mixed = `(sum(${x} * ${y})$F - sum(${x})$F * sum(${y})$F / ${n})`
const slope = `(${mixed} / ${squares})`
const mean = (power: number) => `(${sum(power)} / ${n})`
/** Central moments by means of powers. */
const third = `(${mean(3)} - 3 * ${mean(2)} * ${mean(1)} + 2 * pow(${mean(1)}, 3))`
const fourth =
  `(${mean(4)} - 4 * ${mean(3)} * ${mean(1)} + 6 * ${mean(2)} * pow(${mean(1)}, 2)` +
  ` - 3 * pow(${mean(1)}, 4))`
const population = `CASE WHEN ${n} > 0 THEN greatest(0, ${squares} / ${n}) END`
const sample = `CASE WHEN ${n} > 1 THEN greatest(0, ${squares} / (${n} - 1)) END`

const real = { type: 'Float64', empty: 'nan', isCast: true } as const
const first = { type: same(0), empty: 'default' } as const
const items = ({ args }: CallOf) => `Array(${withoutNull(args[0]?.type ?? unknown)})`
const sums = ({ args }: CallOf) => sumType(args[0]?.type ?? unknown)
const unsigned = { type: 'UInt64', isCast: true, nulls: 'own' } as const
const list = `coalesce(list($1)$F, [])`

const levels =
  (name: string, at: (level: string) => string) =>
  ({ params }: CallOf) =>
    `${name}($1, [${params.map((_, index) => at(`$p${index + 1}`)).join(', ')}])$F`
const upper = (level: string) => `least(${level} + 1e-12, 1)`

const casted = (sql: string, type: (call: CallOf) => string) => (call: CallOf) => {
  const target = duckdbTypeOf(type(call))
  return target === null ? sql : `CAST(${sql} AS ${target})`
}

/** The types of keys and values of `sumMap(keys, values)` and `sumMap(map)`. */
function mapTypes({ args: [a, b] }: CallOf, how: string): readonly [string, string] {
  const [key, value] =
    b === undefined
      ? [splitTypes(opened(a?.type ?? '')?.[1] ?? '')[0] ?? unknown, itemType(a?.type ?? '')]
      : [itemType(a?.type ?? ''), itemType(b.type)]
  return [key, how === 'sum' ? sumType(value) : value]
}

/** Folds the values of each key; a sum of 0 is left out of arrays. */
function byKey(how: 'sum' | 'min' | 'max'): Aggregate {
  const type = (call: CallOf) => {
    const [key, value] = mapTypes(call, how)
    return call.args.length === 1
      ? `Map(${key}, ${value})`
      : `Tuple(Array(${key}), Array(${value}))`
  }
  const sql = (call: CallOf) => {
    const [key, value] = mapTypes(call, how).map(duckdbTypeOf)
    if (!key || !value || call.args.length > 2) return null
    const entries = call.args.length === 1 ? 'map_entries($1)' : 'pairsOf($1, $2)'
    const all = `folded(coalesce(flatten(list(${entries})$F), []), '${how}')`
    if (call.args.length === 1) return `CAST(map_from_entries(${all}) AS MAP(${key}, ${value}))`
    const kept = how === 'sum' ? `list_filter(${all}, lambda p_: p_.value <> 0)` : all
    const part = (of: string, target: string) =>
      `CAST(list_transform(${kept}, lambda q_: q_.${of}) AS ${target}[])`
    return `row(${part('key', key)}, ${part('value', value)})`
  }
  return { type, sql, nulls: 'own' }
}

export const moreAggregates: Readonly<Record<string, Aggregate>> = {
  summap: byKey('sum'),
  minmap: byKey('min'),
  maxmap: byKey('max'),
  countdistinct: { ...unsigned, sql: 'count(DISTINCT $1)$F' },
  uniqupto: { ...unsigned, sql: 'least(count(DISTINCT $1)$F, $p1 + 1)' },
  groupbitmap: { ...unsigned, sql: 'count(DISTINCT $1)$F' },
  avgweighted: { ...real, sql: `sum(${x} * ${y})$F / sum(${y})$F` },
  sumcount: {
    type: (call) => `Tuple(${sums(call)}, UInt64)`,
    sql: (call) => {
      const target = duckdbTypeOf(sums(call)) ?? 'DOUBLE'
      return `row(CAST(coalesce(sum($1)$F, 0) AS ${target}), CAST(${n} AS UBIGINT))`
    },
  },
  varpop: { ...real, sql: population },
  varsamp: { ...real, sql: sample },
  stddevpop: { ...real, sql: `sqrt(${population})` },
  stddevsamp: { ...real, sql: `sqrt(${sample})` },
  covarpop: { ...real, sql: `${mixed} / ${n}` },
  covarsamp: { ...real, sql: `CASE WHEN ${n} > 1 THEN ${mixed} / (${n} - 1) END` },
  skewpop: { ...real, sql: `${third} / pow(${population}, 1.5)` },
  skewsamp: { ...real, sql: `${third} / pow(${sample}, 1.5)` },
  kurtpop: { ...real, sql: `${fourth} / pow(${population}, 2)` },
  kurtsamp: { ...real, sql: `${fourth} / pow(${sample}, 2)` },
  entropy: { ...real, sql: 'entropy($1)$F' },
  boundingratio: {
    ...real,
    sql: `(arg_max(${y}, ${x})$F - arg_min(${y}, ${x})$F) / (max(${x})$F - min(${x})$F)`,
  },
  simplelinearregression: {
    type: 'Tuple(k Float64, b Float64)',
    sql: `struct_pack(k := ${slope}, b := (sum(${y})$F - ${slope} * sum(${x})$F) / ${n})`,
  },
  first_value: { sql: 'first($1)$F', ...first },
  last_value: { sql: 'last($1)$F', ...first },
  singlevalueornull: {
    type: ({ args }) => `Nullable(${withoutNull(args[0]?.type ?? unknown)})`,
    sql: 'CASE WHEN count(DISTINCT $1)$F = 1 THEN any_value($1)$F END',
    nulls: 'own',
  },
  quantileexactlow: { sql: lowMedian, ...first, level: '0.5' },
  quantileexactinclusive: { sql: 'quantile_cont($1, $p1)$F', ...real, level: '0.5' },
  quantiletiming: {
    sql: `quantile_disc($1, ${upper('$p1')})$F`,
    type: 'Float32',
    empty: 'nan',
    isCast: true,
    level: '0.5',
  },
  quantilesexact: { type: items, sql: levels('quantile_disc', upper) },
  quantilesexactinclusive: {
    type: 'Array(Float64)',
    sql: levels('quantile_cont', (level) => level),
  },
  grouparraysorted: {
    type: items,
    sql: `coalesce(list($1 ORDER BY $1)$F, [])[1:$p1]`,
    nulls: 'own',
  },
  grouparraylast: { type: items, sql: `${list}[-$p1:]`, nulls: 'own' },
  grouparraymovingsum: {
    type: (call) => `Array(${sums(call)})`,
    sql: (call) =>
      casted(
        call.params.length === 0 ? `runningSums(${list})` : `movingSums(${list}, $p1)`,
        (one) => `Array(${sums(one)})`,
      )(call),
  },
  grouparraymovingavg: {
    type: 'Array(Float64)',
    sql: ({ params }) =>
      params.length === 0
        ? null
        : `list_transform(movingSums(${list}, $p1), lambda v_: CAST(v_ AS DOUBLE) / $p1)`,
  },
  groupconcat: {
    type: 'String',
    empty: 'default',
    sql: ({ params }) =>
      `string_agg($DCAST($1 AS VARCHAR), ${params.length === 0 ? "''" : '$p1'})$F`,
  },
  deltasum: {
    type: same(0),
    empty: 'default',
    isCast: true,
    sql: `list_sum(list_filter(differences(CAST(${list} AS HUGEINT[])), lambda v_: v_ > 0))`,
  },
  retention: {
    type: 'Array(UInt8)',
    nulls: 'own',
    sql: ({ args }) => {
      const met = args.map((_, at) => `bool_or(CAST($${at + 1} AS BOOLEAN))$F`)
      const each = met.map((one, at) => (at === 0 ? one : `${met[0]} AND ${one}`))
      return `[${each.map((one) => `CAST(coalesce(${one}, false) AS UTINYINT)`).join(', ')}]`
    },
  },
}

/** Of two middle values the lower one; other levels are not equal to ClickHouse's. */
function lowMedian({ params }: CallOf): string | null {
  return params[0]?.literal === undefined || Number(params[0].literal) === 0.5
    ? 'quantile_disc($1, 0.5)$F'
    : null
}
