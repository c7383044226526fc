// Checks DuckDB's syntax tree of a statement: the tables and functions it names, and the bounds
// of its arguments. Thread: main of a query process. Pure.
// The tree comes from `json_serialize_sql`, so from the parser that also runs the statement.
import { nearest } from '../../../base/nearest.ts'
import { type Checked, checked, fail } from '../exceptions.ts'

export interface TreeRules {
  /** Table names by schema: '' for unqualified names. In lower case. */
  readonly tables: Readonly<Record<string, ReadonlySet<string>>>
  /** Our own macros, in addition to DuckDB's functions. In lower case. */
  readonly macros: ReadonlySet<string>
  /** Names of DuckDB's internal tables and views, which WITH may not define either. */
  readonly reserved: ReadonlySet<string>
}

export type TreeNode = { readonly [key: string]: unknown }

/** The tables that the statement reads, as `schema.name` or `name`; or an error. */
export function checkTree(tree: unknown, rules: TreeRules): Checked<ReadonlySet<string>> {
  const nodes = nodesOf(tree)
  const withNames = new Set<string>()
  for (const name of nodes.flatMap(withNamesOf)) {
    // A WITH name is valid only in its own query, but is accepted everywhere here: so it must not
    // give access to anything that has the same name outside.
    if (rules.reserved.has(name) || !/^[a-z_]\w*$/i.test(name))
      return fail('BAD_ARGUMENTS', `WITH cannot define ${quoted(name)}: take another name`)
    withNames.add(name)
  }
  const tables = new Set<string>()
  for (const node of nodes) {
    const problem =
      node.type === 'BASE_TABLE'
        ? tableProblem(node, { rules, withNames, tables })
        : node.type === 'TABLE_FUNCTION'
          ? tableFunctionProblem(node)
          : node.type === 'SHOW_REF'
            ? showProblem(node)
            : (functionProblem(node, rules) ?? parameterProblem(node))
    if (problem !== null) return problem
  }
  return checked(tables)
}

/** Longest prefix of an unknown name in a message and in the search for the nearest name. */
const nameCharsMax = 64

type Problem = ReturnType<typeof fail> | null

/** Every object of the tree, iteratively: a deep tree must not overflow the stack. */
function nodesOf(tree: unknown): readonly TreeNode[] {
  const found: TreeNode[] = []
  const left: unknown[] = [tree]
  while (left.length > 0) {
    const value = left.pop()
    if (typeof value !== 'object' || value === null) continue
    if (!Array.isArray(value)) found.push(value as TreeNode)
    for (const inner of Object.values(value)) left.push(inner)
  }
  return found
}

function withNamesOf(node: TreeNode): string[] {
  const map = (node.cte_map as { map?: readonly { key: string }[] } | undefined)?.map ?? []
  return map.map((entry) => entry.key.toLowerCase())
}

function tableProblem(
  node: TreeNode,
  known: { rules: TreeRules; withNames: ReadonlySet<string>; tables: Set<string> },
): Problem {
  const name = String(node.table_name).toLowerCase()
  const schema = String(node.schema_name).toLowerCase()
  const { rules, withNames, tables } = known
  if (node.catalog_name === '' && schema === '' && withNames.has(name)) {
    // It may also be one of our tables, outside the query that has the WITH.
    if (rules.tables['']?.has(name) === true) tables.add(name)
    return null
  }
  const names = Object.hasOwn(rules.tables, schema) ? rules.tables[schema]! : new Set<string>()
  if (node.catalog_name === '' && names.has(name)) {
    tables.add(schema === '' ? name : `${schema}.${name}`)
    return null
  }
  const near = nearest(name.slice(0, nameCharsMax), rules.tables['']!)
  const hint = near === null ? '' : `; the nearest is ${near}`
  return fail('UNKNOWN_TABLE', `there is no table ${quoted(String(node.table_name))}${hint}`)
}

function tableFunctionProblem(node: TreeNode): Problem {
  const { function_name: name } = node.function as TreeNode
  if (allowedTableFunctions.has(String(name).toLowerCase())) return null
  return unknownFunction(String(name), allowedTableFunctions)
}

/** DESCRIBE and SUMMARIZE contain a query, which is checked like any other. */
function showProblem(node: TreeNode): Problem {
  return node.query === null ? fail('READONLY', 'SHOW is answered for TABLES and COLUMNS') : null
}

function functionProblem(node: TreeNode, rules: TreeRules): Problem {
  const isCall = node.class === 'FUNCTION' || node.class === 'WINDOW'
  if (!isCall || typeof node.function_name !== 'string') return null
  const name = node.function_name.toLowerCase()
  const isPlain = node.catalog === '' && ['', 'main', 'pg_catalog'].includes(String(node.schema))
  const isKnown = allowedFunctions.has(name) || rules.macros.has(name)
  if (!isPlain || !isKnown)
    return unknownFunction(node.function_name, [...allowedFunctions, ...rules.macros])
  const problem = boundsProblem(name, (node.children ?? []) as readonly TreeNode[])
  return problem === null ? null : fail('BAD_ARGUMENTS', problem)
}

/** `?` and `$1` are refused: there is no way to pass their values. */
function parameterProblem(node: TreeNode): Problem {
  if (node.class !== 'PARAMETER') return null
  return fail('SYNTAX_ERROR', 'values are asked for as {name:Type} and given as param_name')
}

function unknownFunction(name: string, known: Iterable<string>) {
  const near = nearest(
    name.slice(0, nameCharsMax),
    [...known].filter((one) => /^\w+$/.test(one)),
  )
  const hint = near === null ? '' : `; the nearest is ${near}`
  const message = `there is no function ${quoted(name)}${hint}`
  const error = { code: 46, name: 'UNKNOWN_FUNCTION', message }
  return { ok: false, error } as const
}

/** A name for a message: without line breaks, truncated. */
function quoted(name: string): string {
  return `'${name.replaceAll(/[^\w.$ -]/g, '?').slice(0, nameCharsMax)}'`
}

// Bounds functions whose arguments amplify memory: a number in the query's text decides how much
// they allocate before an engine limit applies. Pure.
// Calls that slip through are caught by the memory limit of the process.

interface Node {
  readonly [key: string]: unknown
}

/** Most list items that a call may generate. */
const itemsMax = 1_000_000
/** Most characters that a call may repeat or pad to. */
const charsMax = 100_000

/** An error message when a bound is exceeded, else null. */
export function boundsProblem(name: string, args: readonly Node[]): string | null {
  switch (name) {
    case 'repeat':
    case 'lpad':
    case 'rpad':
      return countProblem(name, args[1], charsMax)
    case 'bar':
      return args.length < 4 ? null : countProblem(name, args[3], charsMax)
    case 'list_resize':
    case 'array_resize':
      return countProblem(name, args[1], itemsMax)
    case 'range':
    case 'generate_series':
      return seriesProblem(name, args)
    case 'format':
    case 'printf':
      return formatProblem(name, args[0])
    default:
      return null
  }
}

function countProblem(name: string, arg: Node | undefined, max: number): string | null {
  const count = arg === undefined ? 0 : numberOf(arg)
  if (count === null) return `${name} takes a plain number as its length, at most ${max}`
  return count <= max ? null : `${name} makes at most ${max}`
}

/** Series of times are streamed, so they are not bounded; series of numbers are. */
function seriesProblem(name: string, args: readonly Node[]): string | null {
  if (args.length === 3 && isTime(args[0]!) && isTime(args[1]!)) return null
  const numbers = args.map(numberOf)
  if (numbers.some((number) => number === null)) return `${name} takes plain numbers`
  const [first = 0, second, third = 1] = numbers as number[]
  const [from, to] = second === undefined ? [0, first] : [first, second]
  const items = third === 0 ? Number.POSITIVE_INFINITY : (to - from) / third
  return items <= itemsMax ? null : `${name} makes at most ${itemsMax} items`
}

/** A width in a format string allocates memory just as `repeat` does. */
function formatProblem(name: string, arg: Node | undefined): string | null {
  const text = arg?.class === 'CONSTANT' ? (arg.value as Node).value : null
  if (typeof text !== 'string') return `${name} takes a plain text as its format`
  return /\d{4,}|\*|\{[^}]*\{/.test(text) ? `the widths of ${name} have at most 3 digits` : null
}

/** A literal number, with a sign or a cast; null for every computed expression. */
function numberOf(node: Node): number | null {
  if (node.class === 'CAST') return numberOf(node.child as Node)
  if (node.class === 'FUNCTION' && node.function_name === '-' && isUnary(node)) {
    const inner = numberOf((node.children as readonly Node[])[0]!)
    return inner === null ? null : -inner
  }
  if (node.class !== 'CONSTANT') return null
  const { value, type } = node.value as {
    value?: unknown
    type?: { id?: string; type_info?: Node }
  }
  if (typeof value !== 'number') return null
  const scale = type?.id === 'DECIMAL' ? Number(type.type_info?.scale ?? 0) : 0
  return value / 10 ** scale
}

function isUnary(node: Node): boolean {
  return (node.children as readonly Node[]).length === 1
}

function isTime(node: Node): boolean {
  const { cast_type: type } = node as { cast_type?: { id?: string } }
  return node.class === 'CAST' && /^(TIMESTAMP|DATE)/.test(type?.id ?? '')
}

// The functions of DuckDB that a customer's query may call. Data only.
// An allowlist, so that a function added by a later DuckDB version is refused until it was
// reviewed. Our own macros are added by the gate.

/** By group: operators, numbers, texts, times, lists, JSON, aggregates, the rest. */
const names = `
  !__postfix !~~ !~~* % & && * ** + - -> ->> / // <-> << <=> <@ >> @ @> ^ ^@ | || ~ ~~ ~~* ~~~
  like_escape not_like_escape ilike_escape not_ilike_escape add subtract multiply divide mod xor
  power pow factorial prefix suffix constant_or_null

  abs acos acosh asin asinh atan atan2 atanh bin bit_count cbrt ceil ceiling cos cosh cot degrees
  even exp fdiv floor fmod gamma gcd greatest greatest_common_divisor isfinite isinf isnan lcm
  least least_common_multiple lgamma ln log log10 log2 nextafter pi radians random round
  round_even roundbankers sign signbit sin sinh sqrt tan tanh trunc get_bit set_bit to_base
  to_binary from_binary unbin hash format_bytes formatReadableSize formatReadableDecimalSize
  parse_formatted_bytes pg_size_pretty

  ascii bar base64 bit_length char_length character_length chr concat concat_ws contains
  damerau_levenshtein decode editdist3 encode ends_with format from_base64 from_hex hamming hex
  instr jaccard jaro_similarity jaro_winkler_similarity lcase left left_grapheme len length
  length_grapheme levenshtein lower lpad ltrim md5 md5_number md5_number_lower md5_number_upper
  mismatches nfc_normalize octet_length ord position printf regexp_escape regexp_extract
  regexp_extract_all regexp_full_match regexp_matches regexp_replace regexp_split_to_array
  regexp_split_to_table repeat replace reverse right right_grapheme rpad rtrim sha1 sha256 split
  split_part starts_with str_split str_split_regex string_split string_split_regex string_to_array
  strip_accents strlen strpos substr substring substring_grapheme to_base64 to_hex translate trim
  ucase unhex unicode upper url_decode url_encode uuid gen_random_uuid uuidv4 uuidv7
  uuid_extract_timestamp uuid_extract_version

  age ago century current_date current_localtime current_localtimestamp date_add date_diff
  date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth
  dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us era get_current_time
  get_current_timestamp hour isodow isoyear julian last_day make_date make_time make_timestamp
  make_timestamp_ms make_timestamp_ns make_timestamptz microsecond millennium millisecond minute
  month monthname nanosecond normalized_interval now quarter second strftime strptime time_bucket
  timezone timezone_hour timezone_minute to_centuries to_days to_decades to_hours to_microseconds
  to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks
  to_years today transaction_timestamp try_strptime week weekday weekofyear year yearweek

  aggregate apply array_aggr array_aggregate array_append array_apply array_cat array_concat
  array_contains array_cosine_distance array_cosine_similarity array_cross_product array_distance
  array_distinct array_dot_product array_extract array_filter array_grade_up array_has
  array_has_all array_has_any array_indexof array_inner_product array_intersect array_length
  array_pop_back array_pop_front array_position array_prepend array_push_back array_push_front
  array_reduce array_resize array_reverse array_reverse_sort array_select array_slice array_sort
  array_to_json array_to_string array_to_string_comma_default array_transform array_unique
  array_value array_where array_zip cardinality element_at filter flatten generate_series
  generate_subscripts grade_up list_aggr list_aggregate list_any_value list_append list_apply
  list_approx_count_distinct list_avg list_bit_and list_bit_or list_bit_xor list_bool_and
  list_bool_or list_cat list_concat list_contains list_cosine_distance list_cosine_similarity
  list_count list_distance list_distinct list_dot_product list_element list_entropy list_extract
  list_filter list_first list_grade_up list_has list_has_all list_has_any list_histogram
  list_indexof list_inner_product list_intersect list_kurtosis list_kurtosis_pop list_last
  list_mad list_max list_median list_min list_mode list_pack list_position list_prepend
  list_product list_reduce list_resize list_reverse list_reverse_sort list_select list_sem
  list_skewness list_slice list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum
  list_transform list_unique list_value list_var_pop list_var_samp list_where list_zip map
  map_concat map_contains map_contains_entry map_contains_value map_entries map_extract
  map_extract_value map_from_entries map_keys map_values range reduce row struct_concat
  struct_contains struct_extract struct_extract_at struct_has struct_indexof struct_insert
  struct_keys struct_pack struct_position struct_update struct_values union_extract union_tag
  union_value unnest unpivot_list

  from_json from_json_strict json json_array json_array_length json_contains json_each json_exists
  json_extract json_extract_path json_extract_path_text json_extract_string json_group_array
  json_group_object json_keys json_merge_patch json_object json_pretty json_quote json_structure
  json_transform json_transform_strict json_tree json_type json_valid json_value row_to_json
  to_json

  any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null
  arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax argmin array_agg avg bit_and
  bit_or bit_xor bool_and bool_or corr count count_if count_star countif covar_pop covar_samp
  cume_dist dense_rank entropy favg fill first first_value fsum geomean geometric_mean
  group_concat histogram histogram_exact histogram_values kahan_sum kurtosis kurtosis_pop lag last
  last_value lead list listagg mad max max_by mean median min min_by mode nth_value ntile
  percent_rank product quantile quantile_cont quantile_disc rank rank_dense regr_avgx regr_avgy
  regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy reservoir_quantile
  row_number sem skewness stddev stddev_pop stddev_samp string_agg sum sum_no_overflow sumkahan
  var_pop var_samp variance wavg weighted_avg grouping grouping_id

  coalesce error ifnull nullif if typeof pg_typeof can_cast_implicitly enum_code enum_first
  enum_last
  enum_range equi_width_bins version database alias
`

export const allowedFunctions: ReadonlySet<string> = new Set(
  names.trim().toLowerCase().split(/\s+/),
)

/** Table functions, allowed in FROM; all others are refused there. */
export const allowedTableFunctions: ReadonlySet<string> = new Set(
  'range generate_series unnest json_each json_tree numbers zeros'.split(' '),
)
