// Reads a query's settings: limits are clamped to the plan, irrelevant settings are ignored,
// everything else is refused. Thread: any (pure).
// Tools send many settings on their own, and break when a server refuses them; a setting that
// would change the result must still be refused, because ignoring it would return a wrong result.
import type { PlanValues } from '../../subscriptions/plans.ts'
import type { QueryLimits } from './engine.ts'
import { type Checked, checked, type ExceptionName, fail, shownName } from './exceptions.ts'
import type { OutputOptions } from './formats.ts'
import type { Setting } from './sql/reading.ts'

export interface QuerySettings {
  readonly limits: QueryLimits
  readonly output: OutputOptions
  /** Nothing is sent before the query has ended, as far as the result can be buffered. */
  readonly waitsForEnd: boolean
  /** The response may be compressed, if Accept-Encoding allows it. */
  readonly compresses: boolean
}

type PlanLimits = PlanValues['indexer']
type Writable<T> = { -readonly [K in keyof T]: T[K] }
type Draft = Writable<Omit<QuerySettings, 'limits' | 'output'>> & {
  readonly limits: Writable<QueryLimits>
  readonly output: Writable<OutputOptions>
}

/** Later settings win, so those of the query itself follow those of the URL. */
export function readSettings(given: Iterable<Setting>, plan: PlanLimits): Checked<QuerySettings> {
  const { timeMs, rows, resultBytes, memoryBytes } = plan
  const draft: Draft = {
    limits: { timeMs, rows, resultBytes, memoryBytes, overflow: 'throw' },
    output: { quotes64: true },
    waitsForEnd: false,
    compresses: false,
  }
  for (const [name, value] of given) {
    if (isHarmless(name)) continue
    const take = Object.hasOwn(taken, name) ? taken[name] : undefined
    if (take === undefined)
      return fail('UNKNOWN_SETTING', `setting ${shownName(name)} is neither known nor ignored here`)
    const problem = take(value, draft, plan)
    if (problem !== null) return fail(problem, `setting ${name} cannot have this value`)
  }
  return checked(draft)
}

/** Returns the name of the exception, or null. */
type Take = (value: string, draft: Draft, plan: PlanLimits) => ExceptionName | null

const taken: Readonly<Record<string, Take>> = {
  max_execution_time: clamp('timeMs', 1000),
  max_result_rows: clamp('rows'),
  max_result_bytes: clamp('resultBytes'),
  max_memory_usage: clamp('memoryBytes'),
  result_overflow_mode: (value, { limits }) => {
    if (value !== 'throw' && value !== 'break') return 'BAD_ARGUMENTS'
    limits.overflow = value
    return null
  },
  output_format_json_quote_64bit_integers: outputFlag('quotes64', true),
  output_format_json_quote_denormals: outputFlag('quotesDenormals', true),
  output_format_json_quote_64bit_floats: outputFlag('quotesFloats', true),
  output_format_json_quote_decimals: outputFlag('quotesDecimals', true),
  output_format_json_escape_forward_slashes: outputFlag('keepsSlashes', false),
  output_format_json_named_tuples_as_objects: outputFlag('tuplesAsArrays', false),
  date_time_output_format: (value, { output }) => {
    if (value !== 'simple' && value !== 'iso' && value !== 'unix_timestamp') return 'BAD_ARGUMENTS'
    output.times = value
    return null
  },
  client_protocol_version: (value, { output }) => {
    if (!/^\d{1,6}$/.test(value)) return 'BAD_ARGUMENTS'
    output.revision = Number(value)
    return null
  },
  wait_end_of_query: flag('waitsForEnd'),
  enable_http_compression: flag('compresses'),
  // ClickHouse's own block compression, which no tool but its own can read.
  compress: mustBe('NOT_IMPLEMENTED', '0', 'false'),
  decompress: mustBe('NOT_IMPLEMENTED', '0', 'false'),
  // There are no sessions: `session_check` fails, and session ids alone are ignored.
  session_check: mustBe('SESSION_NOT_FOUND', '0', 'false'),
  extremes: mustBe('NOT_IMPLEMENTED', '0', 'false'),
  limit: mustBe('NOT_IMPLEMENTED', '0'),
  offset: mustBe('NOT_IMPLEMENTED', '0'),
}

/** A limit may be lowered, never raised; 0 means unlimited in ClickHouse, so the plan's limit. */
function clamp(limit: 'timeMs' | 'rows' | 'resultBytes' | 'memoryBytes', unit = 1): Take {
  return (value, { limits }, plan) => {
    if (!/^\d{1,19}(\.\d{1,9})?$/.test(value)) return 'BAD_ARGUMENTS'
    const requested = Math.ceil(Number(value) * unit)
    limits[limit] = requested === 0 ? plan[limit] : Math.min(requested, plan[limit])
    return null
  }
}

function flag(name: 'waitsForEnd' | 'compresses'): Take {
  return (value, draft) => {
    const isSet = flags.get(value.toLowerCase())
    if (isSet === undefined) return 'BAD_ARGUMENTS'
    draft[name] = isSet
    return null
  }
}

const flags: ReadonlyMap<string, boolean> = new Map([
  ['0', false],
  ['1', true],
  ['false', false],
  ['true', true],
])

type OutputFlag = Exclude<keyof OutputOptions, 'times' | 'revision'>

/** `when`: the value of the setting for which the option is set. */
function outputFlag(name: OutputFlag, when: boolean): Take {
  return (value, { output }) => {
    const isSet = flags.get(value.toLowerCase())
    if (isSet === undefined) return 'BAD_ARGUMENTS'
    output[name] = isSet === when
    return null
  }
}

function mustBe(otherwise: ExceptionName, ...values: readonly string[]): Take {
  return (value) => (values.includes(value.toLowerCase()) ? null : otherwise)
}

/** Ignored settings: they affect how a server works and not its result, or are fixed here. */
const harmless = new Set(
  `
  readonly session_id session_timeout quota_key
  send_progress_in_http_headers http_headers_progress_interval_ms buffer_size
  cancel_http_readonly_queries_on_client_close add_http_cors_header stacktrace
  http_zlib_compression_level http_response_buffer_size http_wait_end_of_query
  http_write_exception_in_output_format http_make_head_request http_max_uri_size connect_timeout
  receive_timeout send_timeout idle_connection_timeout http_connection_timeout
  http_receive_timeout http_send_timeout poll_interval max_threads max_block_size max_query_size
  max_ast_depth max_ast_elements max_rows_to_read max_bytes_to_read read_overflow_mode
  timeout_overflow_mode max_estimated_execution_time max_memory_usage_for_user
  max_network_bandwidth max_rows_to_group_by max_bytes_before_external_group_by
  use_uncompressed_cache max_bytes_before_external_sort max_concurrent_queries_for_user priority
  workload log_queries log_comment log_query_settings log_queries_probability final
  use_query_cache query_cache_ttl load_balancing skip_unavailable_shards date_time_input_format
  replace_running_query_max_wait_ms async_insert wait_for_async_insert
  `.split(/\s+/),
)
const harmlessPrefix = /^(input_format|insert|optimize|allow_experimental|opentelemetry)_/

function isHarmless(name: string): boolean {
  return name !== '' && (harmless.has(name) || harmlessPrefix.test(name))
}
