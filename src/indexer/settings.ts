// Reads a query's settings: limits are clamped to the plan, settings of the endpoint, of the output
// and of the query's meaning are taken, irrelevant ones ignored, all others refused. Thread: any
// (pure). Tools send many settings on their own, and break when a server refuses them; a setting
// that would change the result must still be refused where it has no effect.
import type { Checked, ExceptionName } from './clickhouse/exceptions.ts'
import { checked, fail, shownName } from './clickhouse/exceptions.ts'
import type { OutputOptions } from './clickhouse/formats/formats.ts'
import type { Setting } from './clickhouse/sql/reading.ts'
import type { QueryEngine, QueryLimits } from './engine.ts'
import type { PlanLimits } from './queries/protocol.ts'

// Names of ClickHouse's settings that a query may send, by what becomes of them.
// Settings that name a file, a server or SQL are in none of the lists.

/** Settings of the output, with their initial value; the embedded engine knows no other yet. */
const outputSettings = `
  output_format_json_array_of_rows 0
  output_format_json_validate_utf8 0 output_format_json_pretty_print 1
  output_format_json_skip_null_value_in_named_tuples 0
  output_format_json_map_as_array_of_tuples 0 output_format_csv_crlf_end_of_line 0
  output_format_csv_serialize_tuple_into_separate_columns 1
  output_format_tsv_crlf_end_of_line 0
  output_format_write_statistics 1 output_format_decimal_trailing_zeros 0
  output_format_pretty_max_rows 1000 output_format_pretty_max_column_pad_width 250
  output_format_pretty_max_value_width 10000 output_format_pretty_color auto
  output_format_pretty_grid_charset UTF-8 output_format_pretty_row_numbers 1
  output_format_pretty_highlight_digit_groups 1
  output_format_pretty_display_footer_column_names 1
  output_format_native_encode_types_in_binary_format 0
  output_format_binary_encode_types_in_binary_format 0
  output_format_native_write_json_as_string 0 output_format_binary_write_json_as_string 0
  output_format_arrow_string_as_string 1 output_format_arrow_low_cardinality_as_dictionary 0
  output_format_arrow_compression_method lz4_frame
  output_format_parquet_string_as_string 1 output_format_parquet_compression_method zstd
  output_format_parquet_row_group_size 1000000 output_format_parquet_version 2.latest
  output_format_parquet_fixed_string_as_fixed_byte_array 1
  bool_true_representation true bool_false_representation false
`
/** Settings of the query's meaning; the embedded engine implements the values after the name. */
const meaningSettings = `
  join_use_nulls 0|1 extremes 0 group_by_use_nulls 0 transform_null_in 0 union_default_mode ALL|
  aggregate_functions_null_for_empty 0 any_join_distinct_right_table_keys 0 cast_keep_nullable 0
  data_type_default_nullable 0 decimal_check_overflow 1 empty_result_for_aggregation_by_empty_set 0
  enable_order_by_all 1 enable_positional_arguments 0|1 join_any_take_last_row 0
  asterisk_include_alias_columns 0 asterisk_include_materialized_columns 0
  prefer_column_name_to_alias 0 session_timezone UTC| totals_mode after_having_auto
  force_grouping_standard_compatibility 1 distinct_overflow_mode throw
  group_by_overflow_mode throw join_overflow_mode throw set_overflow_mode throw
  sort_overflow_mode throw count_distinct_implementation uniqExact
  joined_subquery_requires_alias 0|1
`
/** Ignored: they affect how a server works and not its result, or are fixed here. */
const harmlessSettings = `
  http_headers_progress_interval_ms
  readonly session_id session_timeout quota_key buffer_size
  cancel_http_readonly_queries_on_client_close add_http_cors_header stacktrace
  http_zlib_compression_level http_response_buffer_size http_make_head_request http_max_uri_size
  connect_timeout receive_timeout send_timeout idle_connection_timeout http_connection_timeout
  http_receive_timeout http_send_timeout poll_interval max_threads max_query_size
  max_ast_depth max_ast_elements max_rows_to_read max_bytes_to_read read_overflow_mode
  timeout_overflow_mode max_estimated_execution_time max_memory_usage_for_user
  max_network_bandwidth max_rows_to_group_by max_bytes_before_external_group_by
  use_uncompressed_cache max_bytes_before_external_sort max_concurrent_queries_for_user priority
  workload log_queries log_comment log_query_settings log_queries_probability final
  use_query_cache query_cache_ttl load_balancing skip_unavailable_shards date_time_input_format
  replace_running_query_max_wait_ms async_insert wait_for_async_insert network_compression_method
  network_zstd_compression_level max_read_buffer_size max_insert_block_size
  preferred_block_size_bytes compile_expressions compile_aggregate_expressions enable_analyzer
  send_logs_level
  interactive_delay min_bytes_to_use_direct_io low_cardinality_allow_in_native_format
  select_sequential_consistency prefer_localhost_replica distributed_product_mode
`

export interface QuerySettings {
  readonly limits: QueryLimits
  readonly output: OutputOptions
  /** Nothing is sent before the query has ended, as far as the result can be buffered. */
  readonly waitsForEnd: boolean
  /** Sends the figures of the result so far with its first byte. */
  readonly sendsProgress: boolean
  /** Writes an exception inside the formats that have a form for it. */
  readonly writesException: boolean
  /** 0: none. Applied to the result. */
  readonly limit: number
  readonly offset: number
  /** Settings of the output and of the query's meaning, for the engine. */
  readonly passed: Readonly<Record<string, string>>
}

type Writable<T> = { -readonly [K in keyof T]: T[K] }
type Draft = Writable<Omit<QuerySettings, 'limits' | 'output' | 'passed'>> & {
  readonly limits: Writable<QueryLimits>
  readonly output: Writable<OutputOptions>
  readonly passed: Record<string, string>
}

/** Later settings win, so those of the query itself follow those of the URL. */
export function readSettings(
  given: Iterable<Setting>,
  plan: PlanLimits,
  dialect: QueryEngine['name'],
): Checked<QuerySettings> {
  const { timeMs, rows, resultBytes, memoryBytes } = plan
  const draft: Draft = {
    limits: { timeMs, rows, resultBytes, memoryBytes, overflow: 'throw' },
    output: { quotes64: true },
    waitsForEnd: false,
    sendsProgress: false,
    writesException: false,
    limit: 0,
    offset: 0,
    passed: {},
  }
  for (const [name, value] of given) {
    const rule = rules.get(name)
    if (rule === undefined && harmlessPrefix.test(name)) continue
    if (rule === undefined)
      return fail(
        'UNKNOWN_SETTING',
        `Unknown setting '${shownName(name)}': neither used nor ignored`,
      )
    const problem = rule.take(value, draft, { plan, dialect, name })
    if (problem !== null) return fail(problem, `setting ${name} cannot have this value here`)
  }
  return checked(draft)
}

/** The rows of `system.settings`: what a query may set, with the value it has otherwise. */
export function settingRows() {
  return [...rules].map(([name, { initial, description }]) => ({
    name,
    value: initial,
    description,
  }))
}

interface Rule {
  /** Returns the name of the exception, or null. */
  readonly take: Take
  readonly initial: string
  readonly description: string
}
interface Taking {
  readonly plan: PlanLimits
  readonly dialect: QueryEngine['name']
  readonly name: string
}
type Take = (value: string, draft: Draft, taking: Taking) => ExceptionName | null

/** A limit may be lowered, never raised; 0 means unlimited in ClickHouse, so the plan's limit. */
function clamp(limit: 'timeMs' | 'rows' | 'resultBytes' | 'memoryBytes', unit = 1): Take {
  return (value, { limits }, { plan }) => {
    if (!/^\d{1,19}(\.\d{1,9})?$/.test(value)) return 'BAD_ARGUMENTS'
    const requested = Math.ceil(Number(value) * unit)
    limits[limit] = requested === 0 ? plan[limit] : Math.min(requested, plan[limit])
    return null
  }
}

function flag(name: 'waitsForEnd' | 'sendsProgress' | 'writesException'): Take {
  return (value, draft) => {
    if (!isFlag.test(value)) return 'BAD_ARGUMENTS'
    draft[name] = isOn.test(value)
    return null
  }
}

const isFlag = /^(0|1|true|false)$/i
const isOn = /^(1|true)$/i

type OutputFlag = Exclude<keyof OutputOptions, 'times' | 'revision'>

/** `when`: the value of the setting for which the option is set. */
function outputFlag(name: OutputFlag, when: boolean): Take {
  return (value, { output }) => {
    if (!isFlag.test(value)) return 'BAD_ARGUMENTS'
    output[name] = isOn.test(value) === when
    return null
  }
}

function count(name: 'limit' | 'offset'): Take {
  return (value, draft) => {
    if (!/^\d{1,15}$/.test(value)) return 'BAD_ARGUMENTS'
    draft[name] = Number(value)
    return null
  }
}

function mustBe(otherwise: ExceptionName, values: RegExp): Take {
  return (value) => (values.test(value) ? null : otherwise)
}

const ignored: Take = () => null
const off = /^(0|false|)$/i
/** Long enough for every number and word; a list or an expression does not pass. */
const passedValue = /^[\w.:+-]{0,64}$/

/** For the engine; `supported` are the values that the embedded engine implements. */
function passed(supported: readonly string[]): Take {
  return (value, draft, { dialect, name }) => {
    const plain = isFlag.test(value) ? String(Number(isOn.test(value))) : value
    if (!passedValue.test(plain)) return 'BAD_ARGUMENTS'
    const isSupported = supported.includes(plain) || supported.includes(value)
    if (dialect !== 'clickhouse' && !isSupported) return 'NOT_IMPLEMENTED'
    draft.passed[name] = plain
    return null
  }
}

function row(initial: string, take: Take, description: string): Rule {
  return { initial, take, description }
}

const BLOCK_ROWS_MAX = 65_536

const inJson = 'How JSON formats write it.'

const own: Readonly<Record<string, Rule>> = {
  max_execution_time: row('0', clamp('timeMs', 1000), 'Seconds; at most those of the plan.'),
  max_result_rows: row('0', clamp('rows'), 'At most those of the plan.'),
  max_result_bytes: row('0', clamp('resultBytes'), 'At most those of the plan.'),
  max_memory_usage: row('0', clamp('memoryBytes'), 'At most that of the plan.'),
  result_overflow_mode: row(
    'throw',
    (value, { limits }) => {
      if (value !== 'throw' && value !== 'break') return 'BAD_ARGUMENTS'
      limits.overflow = value
      return null
    },
    'throw, or break: truncate the result.',
  ),
  limit: row('0', count('limit'), 'Rows of the result; 0 is no limit.'),
  offset: row('0', count('offset'), 'Rows of the result to skip.'),
  output_format_json_quote_64bit_integers: row('1', outputFlag('quotes64', true), inJson),
  output_format_json_quote_denormals: row('0', outputFlag('quotesDenormals', true), inJson),
  output_format_json_quote_64bit_floats: row('0', outputFlag('quotesFloats', true), inJson),
  output_format_json_quote_decimals: row('0', outputFlag('quotesDecimals', true), inJson),
  output_format_json_escape_forward_slashes: row('1', outputFlag('keepsSlashes', false), inJson),
  output_format_json_named_tuples_as_objects: row('1', outputFlag('tuplesAsArrays', false), inJson),
  date_time_output_format: row(
    'simple',
    (value, { output }) => {
      if (value !== 'simple' && value !== 'iso' && value !== 'unix_timestamp')
        return 'BAD_ARGUMENTS'
      output.times = value
      return null
    },
    'simple, iso or unix_timestamp.',
  ),
  client_protocol_version: row(
    '0',
    (value, { output }) => {
      if (!/^\d{1,6}$/.test(value)) return 'BAD_ARGUMENTS'
      output.revision = Number(value)
      return null
    },
    'Revision of the native protocol, for blocks of the format Native.',
  ),
  wait_end_of_query: row('0', flag('waitsForEnd'), 'Holds the response until the query ended.'),
  http_wait_end_of_query: row('0', flag('waitsForEnd'), 'As wait_end_of_query.'),
  send_progress_in_http_headers: row('0', flag('sendsProgress'), 'Once, with the first byte.'),
  http_write_exception_in_output_format: row('0', flag('writesException'), 'In JSON formats.'),
  enable_http_compression: row('0', mustBe('BAD_ARGUMENTS', isFlag), 'As Accept-Encoding asks.'),
  max_block_size: row(
    '65536',
    (value, draft) => {
      if (!/^[1-9]\d{0,15}$/.test(value)) return 'BAD_ARGUMENTS'
      draft.passed.max_block_size = String(Math.min(Number(value), BLOCK_ROWS_MAX))
      return null
    },
    'Rows of a block of the server; the embedded engine has blocks of its own.',
  ),
  profile: row('default', mustBe('THERE_IS_NO_PROFILE', /^(default|readonly)$/), 'One for all.'),
  // ClickHouse's own block compression.
  compress: row('0', mustBe('NOT_IMPLEMENTED', off), 'HTTP compression is supported instead.'),
  decompress: row('0', mustBe('NOT_IMPLEMENTED', off), 'HTTP compression is supported instead.'),
  // There are no sessions: `session_check` fails, and session ids alone are ignored.
  session_check: row('0', mustBe('SESSION_NOT_FOUND', off), 'There are no sessions.'),
  // A condition in SQL that no check has seen.
  additional_table_filters: row('', mustBe('NOT_IMPLEMENTED', off), 'Use WHERE.'),
  additional_result_filter: row('', mustBe('NOT_IMPLEMENTED', off), 'Use WHERE.'),
}

const harmlessPrefix =
  /^(input_format|insert|optimize|allow_experimental|allow_suspicious|opentelemetry)_\w+$/

const rules: ReadonlyMap<string, Rule> = new Map([
  ...Object.entries(own),
  ...pairs(outputSettings + meaningSettings).map(([name, values]) => {
    const [initial = ''] = values.split('|')
    return [name, row(initial, passed(values.split('|')), '')] as const
  }),
  ...words(harmlessSettings).map((name) => [name, row('', ignored, 'No effect here.')] as const),
])

function words(text: string): string[] {
  return text.trim().split(/\s+/)
}

function pairs(text: string): (readonly [name: string, value: string])[] {
  const all = words(text)
  return all.flatMap((name, at) => (at % 2 === 0 ? [[name, all[at + 1]!] as const] : []))
}
