// ClickHouse's aggregate functions in DuckDB's SQL, with the combinators -If, -Distinct, -OrNull,
// -OrDefault and -Array.
import { SqlProblem } from '../sql/parser.ts'
import { type Aggregate, type CallOf, filledTemplate, resultType, same } from './entry.ts'
import { sumType } from './functions.ts'
import type { Typed } from './typing.ts'
import {
  condition,
  duckdbTypeOf,
  filled,
  isNullable,
  itemType,
  nullable,
  opened,
  splitTypes,
  unknown,
  withoutNull,
} from './typing.ts'

export interface AggregateCall extends CallOf {
  readonly isDistinct: boolean
  readonly filter: Typed | null
  /** `` or ` OVER …`. */
  readonly over: string
}

const unsigned = { type: 'UInt64', isCast: true, nulls: 'own' } as const
const first = { type: same(0), empty: 'default' } as const
const real = { type: 'Float64', empty: 'nan', isCast: true } as const
const real32 = { ...real, type: 'Float32' } as const
const list = {
  type: ({ args }: CallOf) => `Array(${withoutNull(args[0]?.type ?? unknown)})`,
  nulls: 'own',
} as const

// Aggregate functions of ClickHouse that are formulas over several of DuckDB's.
// Moments are summed up as ClickHouse does it, so that the last digits agree.

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

const items = ({ args }: CallOf) => `Array(${withoutNull(args[0]?.type ?? unknown)})`
const sums = ({ args }: CallOf) => sumType(args[0]?.type ?? unknown)
const listed = `coalesce(list($1)$F, [])`

const levelsAt =
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

const moreAggregates: Readonly<Record<string, Aggregate>> = {
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
  quantilesexact: { type: items, sql: levelsAt('quantile_disc', upper) },
  quantilesexactinclusive: {
    type: 'Array(Float64)',
    sql: levelsAt('quantile_cont', (level) => level),
  },
  grouparraysorted: {
    type: items,
    sql: `coalesce(list($1 ORDER BY $1)$F, [])[1:$p1]`,
    nulls: 'own',
  },
  grouparraylast: { type: items, sql: `${listed}[-$p1:]`, nulls: 'own' },
  grouparraymovingsum: {
    type: (call) => `Array(${sums(call)})`,
    sql: (call) =>
      casted(
        call.params.length === 0 ? `runningSums(${listed})` : `movingSums(${listed}, $p1)`,
        (one) => `Array(${sums(one)})`,
      )(call),
  },
  grouparraymovingavg: {
    type: 'Array(Float64)',
    sql: ({ params }) =>
      params.length === 0
        ? null
        : `list_transform(movingSums(${listed}, $p1), lambda v_: CAST(v_ AS DOUBLE) / $p1)`,
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
    sql: `list_sum(list_filter(differences(CAST(${listed} AS HUGEINT[])), lambda v_: v_ > 0))`,
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

/** Where level * n is whole, ClickHouse takes the upper of two neighbours and DuckDB the lower. */
const exact = 'quantile_disc($D$1, least($p1 + 1e-12, 1))$F'
// DuckDB's own approx_top_k gives another order when its parts are merged in another order.
const mostFrequent =
  'coalesce(list_transform(list_sort(list_transform(map_entries(histogram($1)$F), ' +
  "lambda e: {'n': -CAST(e.value AS BIGINT), 'k': e.key}))[1:$p1], lambda e: e.k), [])"
const levels = ({ params }: CallOf) => {
  const nans = params.map(() => "'nan'::DOUBLE").join(', ')
  return `coalesce(quantile_cont($1, [$p*])$F, [${nans}])`
}
const uniq: Aggregate = {
  ...unsigned,
  sql: ({ args }) => (args.length === 1 ? 'count(DISTINCT $1)$F' : 'count(DISTINCT row($*))$F'),
}
const bits = (name: string): Aggregate => ({ sql: `${name}($D$1)$F`, ...first })

/** By name in lower case. */
const table: Readonly<Record<string, Aggregate>> = {
  count: {
    ...unsigned,
    sql: ({ args }) =>
      args.length === 0 ? 'count(*)$F' : args.length === 1 ? 'count($D$1)$F' : 'count($Drow($*))$F',
  },
  sum: { sql: 'sum($D$1)$F', type: sums, empty: 'default', isCast: true },
  sumwithoverflow: { sql: 'sum($D$1)$F', type: same(0), empty: 'default', isCast: true },
  sumkahan: { sql: 'kahan_sum($D$1)$F', type: 'Float64', empty: 'default' },
  avg: { sql: 'avg($D$1)$F', ...real },
  min: { sql: 'min($D$1)$F', ...first },
  max: { sql: 'max($D$1)$F', ...first },
  any: { sql: 'any_value($1)$F', ...first },
  any_value: { sql: 'any_value($1)$F', ...first },
  anylast: { sql: 'last($1)$F', ...first },
  anyheavy: { sql: 'mode($1)$F', ...first },
  argmin: { sql: 'arg_min($1, $2)$F', ...first },
  argmax: { sql: 'arg_max($1, $2)$F', ...first },
  uniq,
  uniqexact: uniq,
  uniqcombined: uniq,
  uniqcombined64: uniq,
  uniqhll12: uniq,
  uniqthetasketch: uniq,
  grouparray: { ...list, sql: arrayOfGroup('list($D$1)$F') },
  groupuniqarray: { ...list, sql: arrayOfGroup('list(DISTINCT $1)$F') },
  quantile: { sql: 'quantile_cont($D$1, $p1)$F', ...real, level: '0.5' },
  quantiletdigest: { sql: 'quantile_cont($D$1, $p1)$F', ...real32, level: '0.5' },
  quantileexact: { sql: exact, ...first, level: '0.5' },
  quantileexacthigh: { sql: exact, ...first, level: '0.5' },
  median: { sql: 'quantile_cont($D$1, $p1)$F', ...real, level: '0.5' },
  mediantdigest: { sql: 'quantile_cont($D$1, $p1)$F', ...real32, level: '0.5' },
  medianexact: { sql: exact, ...first, level: '0.5' },
  quantiles: { sql: levels, type: 'Array(Float64)' },
  quantilestdigest: { sql: levels, type: 'Array(Float64)' },
  quantilestiming: { sql: levels, type: 'Array(Float64)' },
  topk: { ...list, sql: mostFrequent, level: '10' },
  corr: { sql: 'corr($1, $2)$F', ...real },
  groupbitand: bits('bit_and'),
  groupbitor: bits('bit_or'),
  groupbitxor: bits('bit_xor'),
  ...moreAggregates,
}

export const aggregateNames: readonly string[] = Object.keys(table)

/** `groupArray(n)(x)` keeps the first n. */
function arrayOfGroup(core: string): Aggregate['sql'] {
  return ({ args: [x], params }) => {
    const notNull = x !== undefined && isNullable(x.type) ? core.replace('$F', '$N') : core
    const all = `coalesce(${notNull}, [])`
    return params.length === 0 ? all : `(${all})[1:$p1]`
  }
}

interface FoundAggregate extends Aggregate {
  readonly name: string
  readonly combinators: ReadonlySet<string>
}

const combinator = /^(.+?)(If|Distinct|OrNull|OrDefault|Array)$/
const refused = /(State|SimpleState|Merge|MergeState|ForEach|Resample|Map|ArgMin|ArgMax)$/

/** The aggregate of that name with its combinators; null when it is none. */
export function findAggregate(name: string): FoundAggregate | null {
  const combinators = new Set<string>()
  let base = name
  while (!Object.hasOwn(table, base.toLowerCase())) {
    const found = combinator.exec(base) ?? lastCombinator(base)
    if (found === null) {
      if (refused.test(base) && Object.hasOwn(table, base.replace(refused, '').toLowerCase()))
        throw new SqlProblem('NOT_IMPLEMENTED', `aggregate function ${name} is not answered here`)
      return null
    }
    combinators.add(found[2]!)
    base = found[1]!
  }
  return { ...table[base.toLowerCase()]!, name: base, combinators }
}

/** The last combinator of several, and of a name in another case. */
function lastCombinator(name: string): RegExpExecArray | null {
  return /^(.+)(If|Distinct|OrNull|OrDefault|Array)$/.exec(name)
}

export function aggregateSql(found: FoundAggregate, given: AggregateCall): Typed {
  const { combinators } = found
  const isIf = combinators.has('If')
  const wanted = isIf ? given.args.at(-1) : undefined
  if (isIf && wanted === undefined) throw wrongArguments(given.name)
  const conditions = [wanted, given.filter]
    .filter((one) => one !== undefined && one !== null)
    .map((one) => condition(one))
  const params =
    given.params.length === 0 && found.level !== undefined ? [levelOf(found.level)] : given.params
  const args = isIf ? given.args.slice(0, -1) : given.args
  const isArray = combinators.has('Array')
  const items = isArray ? args.map((one) => ({ ...one, type: itemType(one.type) })) : args
  const call: CallOf = { ...given, args: items, params }
  const isDistinct = given.isDistinct || combinators.has('Distinct')
  const written = typeof found.sql === 'string' ? found.sql : found.sql(call)
  const core = written === null ? null : isArray ? overItems(written, given.name) : written
  if (core !== null && isDistinct && !/\$D|DISTINCT/.test(core))
    throw new SqlProblem('NOT_IMPLEMENTED', `DISTINCT of ${given.name} is not answered here`)
  const marked = (all: readonly string[]) =>
    `${all.length === 0 ? '' : ` FILTER (WHERE ${all.join(' AND ')})`}${given.over}`
  const marks = {
    D: isDistinct ? 'DISTINCT ' : '',
    F: marked(conditions),
    N: marked([...conditions, `${items[0]?.sql} IS NOT NULL`]),
  }
  const sql = core === null ? null : filledTemplate(core, call, marks)
  if (sql === null) throw wrongArguments(given.name)
  return finished(found, call, sql)
}

/** Over no rows DuckDB has NULL; ClickHouse has a value unless the type is Nullable. */
function finished(found: FoundAggregate, call: CallOf, sql: string): Typed {
  const rule = { type: found.type, ...(found.nulls !== undefined && { nulls: found.nulls }) }
  const isOrNull = found.combinators.has('OrNull')
  const made = resultType(rule, call)
  const type = isOrNull ? nullable(made) : made
  const target = found.isCast ? duckdbTypeOf(type) : null
  // A count is 0 over no rows.
  const plain =
    isOrNull && made === 'UInt64' && found.empty === undefined ? `nullif(${sql}, 0)` : sql
  const value: Typed = { sql: target === null ? plain : `CAST(${plain} AS ${target})`, type }
  const isOrDefault = found.combinators.has('OrDefault')
  if (isNullable(type) || (found.empty === undefined && !isOrDefault)) return value
  return found.empty === 'nan' && !isOrDefault
    ? { sql: `coalesce(${value.sql}, 'nan'::${target})`, type }
    : filled(value)
}

/** An aggregate of one argument over the items of arrays. */
function overItems(template: string, name: string): string {
  const found = /^(\w+)\((\$D|DISTINCT )?\$1\)\$F$/.exec(template)
  if (found === null)
    throw new SqlProblem('NOT_IMPLEMENTED', `aggregate function ${name} is not answered here`)
  const items = `coalesce(flatten(list($1)$F), [])`
  const all = found[2] === 'DISTINCT ' ? `list_distinct(${items})` : items
  return `list_aggregate(${all}, '${found[1]}')`
}

function levelOf(text: string): Typed {
  return { sql: text, type: 'Float64', literal: text }
}

function wrongArguments(name: string): SqlProblem {
  return new SqlProblem(
    'NUMBER_OF_ARGUMENTS_DOESNT_MATCH',
    `the arguments of function ${name} are not what it takes`,
  )
}
