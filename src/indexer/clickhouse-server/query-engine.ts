// Runs customers' queries on a ClickHouse server.
//
//   statement -> literals -> gate -> POST, read-only, with limits -> rows, at the gateway's pace
//                                    cancel, timeout: abort + KILL QUERY
//
// Every query gets a unique id of ours, so that killing one never affects another customer's.
import { randomBytes } from 'node:crypto'
import type { Readable } from 'node:stream'
import { Fault, messageOf } from '../../base/errors.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'
import type { TableSizes } from '../catalogue.ts'
import { codeOf, exception, type QueryError, statusOf } from '../clickhouse/exceptions.ts'
import {
  type Format,
  formatOf,
  isTextFormat,
  type OutputOptions,
} from '../clickhouse/formats/formats.ts'
import { withLiterals } from '../clickhouse/server/rebuild.ts'
import { trailingException } from '../clickhouse/server/server-exception.ts'
import { clickhouseString } from '../clickhouse/sql/lexer.ts'
import type { Query, QueryEnd, QueryEngine, SentQuery } from '../engine.ts'
import { noTotals, type QueryTotals, type ResultAddress } from '../queries/protocol.ts'
import { type ByteSink, ResultConnection } from '../queries/result-connection.ts'
import { admit } from './gate.ts'
import type { ServerFacts } from './schema.ts'
import {
  ClickhouseClient,
  ensureTables,
  known,
  readServerFacts,
  readSizes,
  reportRights,
} from './schema.ts'

export interface ClickhouseEngineDeps {
  readonly log: Log
  readonly results: ResultAddress
  /** Address and credentials for customers' queries; absent or '': those of the writer. */
  readonly queryUrl?: string
}

const connections = 64
/** ClickHouse enforces its limit in whole seconds; our timeout is exact and fires after it. */
const graceMs = 300
const stopMsMax = 2_000
/** Sizes of tables are that old at most, and asked for only by queries that may show them. */
const sizesMs = 5_000

export async function startClickhouseEngine(
  url: string,
  deps: ClickhouseEngineDeps,
): Promise<QueryEngine> {
  const writer = new ClickhouseClient(url, { connections })
  const query = deps.queryUrl ? new ClickhouseClient(deps.queryUrl, { connections }) : writer
  try {
    const facts = await readServerFacts(writer)
    // Queries may arrive before the writer has created the tables.
    await ensureTables(writer, facts)
    await reportRights({ writer, query }, deps.log)
    if (query !== writer) await writer.stop()
    return new ClickhouseEngine(query, facts, deps)
  } catch (error) {
    await Promise.all([writer.stop(), query.stop()])
    throw error
  }
}

class ClickhouseEngine implements QueryEngine {
  readonly name = 'clickhouse'
  readonly version: string
  readonly #client: ClickhouseClient
  readonly #facts: ServerFacts
  readonly #deps: ClickhouseEngineDeps
  readonly #throttle = new LogThrottle()
  readonly #run = randomBytes(6).toString('hex')
  readonly #running = new Set<Run>()
  readonly #kills = new Set<Promise<void>>()
  #sizes: Promise<TableSizes> = Promise.resolve({})
  #sizedMs = Number.NEGATIVE_INFINITY
  #count = 0

  constructor(client: ClickhouseClient, facts: ServerFacts, deps: ClickhouseEngineDeps) {
    this.#client = client
    this.#facts = facts
    this.#deps = deps
    this.version = facts.version
  }

  run(query: Query, ticket: string): SentQuery {
    // Row policies can read the subscription in it, and SQL cannot set it.
    const owner = /^[\w-]{1,64}$/.test(query.subscription) ? `-${query.subscription}` : ''
    const id = `sluice-${this.#run}-${++this.#count}${owner}`
    const run: Run = new Run(query, {
      id,
      ticket,
      results: this.#deps.results,
      client: this.#client,
      facts: this.#facts,
      sizes: () => this.#sizesOf(),
      kill: () => {
        const kill = this.#kill(id).finally(() => this.#kills.delete(kill))
        this.#kills.add(kill)
      },
      onEnd: () => this.#running.delete(run),
    })
    this.#running.add(run)
    return run
  }

  async stop(): Promise<void> {
    for (const run of [...this.#running]) run.cancel()
    // Wait for KILL QUERY: an old server keeps running a query whose connection was closed.
    const bound = new Promise((resolve) => setTimeout(resolve, stopMsMax).unref())
    await Promise.race([Promise.allSettled(this.#kills), bound])
    await this.#client.stop()
  }

  /** Empty where the user of queries may not read `system.parts`. */
  #sizesOf(): Promise<TableSizes> {
    if (performance.now() - this.#sizedMs < sizesMs) return this.#sizes
    this.#sizedMs = performance.now()
    this.#sizes = readSizes(this.#client).catch(() => ({}))
    return this.#sizes
  }

  async #kill(id: string): Promise<void> {
    try {
      await this.#client.run({ sql: `KILL QUERY WHERE query_id = ${clickhouseString(id)} ASYNC` })
    } catch (error) {
      // The query's own time limit ends it in any case.
      if (this.#throttle.allows('kill', performance.now()))
        this.#deps.log.warn('KILL QUERY failed', { error: messageOf(error) })
    }
  }
}

interface RunDeps {
  readonly id: string
  readonly ticket: string
  readonly results: ResultAddress
  readonly client: ClickhouseClient
  readonly facts: ServerFacts
  sizes(): Promise<TableSizes>
  kill(): void
  onEnd(): void
}

class Run implements SentQuery {
  readonly ended: Promise<QueryEnd>
  readonly #query: Query
  readonly #deps: RunDeps
  readonly #abort = new AbortController()
  readonly #beganMs = performance.now()
  readonly #timer: NodeJS.Timeout
  /** Why we ended the query ourselves. */
  #cause: QueryError | null = null
  #reader: ResultReader | null = null
  #sink: ByteSink | null = null
  #isEnded = false

  constructor(query: Query, deps: RunDeps) {
    this.#query = query
    this.#deps = deps
    const { timeMs } = query.limits
    const timeout = exception('TIMEOUT_EXCEEDED', `the query took longer than ${timeMs} ms`)
    this.#timer = setTimeout(() => this.#stop(timeout), timeMs + graceMs)
    this.ended = Promise.resolve()
      .then(() => this.#start())
      .catch((error) => {
        this.#abort.abort()
        return this.#fail(this.#errorOf(error))
      })
  }

  cancel(): void {
    this.#stop(exception('QUERY_WAS_CANCELLED', 'the query was cancelled'))
  }

  slowed(): void {}

  totals(): QueryTotals {
    const { rows, bytes } = this.#reader ?? noTotals
    return { rows, bytes, elapsedMs: performance.now() - this.#beganMs }
  }

  async #start(): Promise<QueryEnd> {
    const { format, statement, subscription, database = 'chain' } = this.#query
    const { facts, client } = this.#deps
    const text = withLiterals(statement, facts.hasBool)
    const sizes = /\btables\b/i.test(text) ? await this.#deps.sizes() : {}
    const admitted = admit(text, { subscription, facts, database, sizes })
    if (!admitted.ok) return this.#fail(admitted.error)
    const answer = await client.stream({
      sql: `${admitted.value}\nFORMAT ${format}`,
      params: this.#params(),
      signal: this.#abort.signal,
    })
    if (!answer.ok) return this.#fail(this.#cause ?? answer.exception, true)
    const written = formatOf(format, 'clickhouse')
    const reader = new ResultReader(answer.body, written, answer.tag)
    this.#reader = reader
    const first = await reader.next()
    if (this.#cause !== null) return this.#fail(this.#cause)
    // Nothing was sent yet: the error can still replace the result.
    if (reader.error !== null) return this.#fail(reader.error)
    return this.#send(reader, first)
  }

  async #send(reader: ResultReader, first: Buffer | null): Promise<QueryEnd> {
    const { resultBytes, overflow } = this.#query.limits
    // With `break` ClickHouse truncates by its own byte count, which differs from the text's.
    const bytesMax = overflow === 'break' ? resultBytes * 4 : resultBytes
    const message = `the result is larger than ${resultBytes} bytes`
    const tooLarge = exception('TOO_MANY_ROWS_OR_BYTES', message)
    const { results, ticket } = this.#deps
    const connection = await ResultConnection.open(results, () => this.cancel())
    this.#sink = connection.sinkOf(ticket)
    let sent = 0
    let error: QueryError | null
    try {
      for (let chunk = first; chunk !== null; chunk = await reader.next()) {
        if (reader.bytes > bytesMax) this.#stop(tooLarge)
        if (this.#cause !== null) break
        sent += chunk.length
        await this.#sink.write(chunk)
      }
      error = this.#cause ?? reader.error
    } catch (thrown) {
      error = this.#cause ?? reader.breakOff() ?? this.#errorOf(thrown)
    }
    this.#end()
    connection.end()
    const isCut = error?.code === codeOf.QUERY_WAS_CANCELLED
    return { error, sent: isCut ? null : sent, totals: this.totals() }
  }

  #params(): Record<string, string> {
    const { limits, output, settings: given } = this.#query
    const { facts, id } = this.#deps
    const isBreak = limits.overflow === 'break'
    const settings = {
      // Those of the customer first: ours win.
      ...given,
      max_execution_time: Math.max(1, Math.ceil(limits.timeMs / 1000)),
      timeout_overflow_mode: 'throw',
      // A newer server truncates the result exactly; an older one at the end of a block.
      ...(isBreak && { limit: limits.rows, max_block_size: Math.min(limits.rows, 65_536) }),
      max_result_rows: limits.rows,
      max_result_bytes: limits.resultBytes,
      result_overflow_mode: limits.overflow,
      max_memory_usage: limits.memoryBytes,
      ...outputSettings(output),
      enable_optimize_predicate_expression: 1,
      // Scope of common tables of WITH, as gate.ts assumes.
      enable_global_with_statement: 1,
      join_default_strictness: 'ALL',
      cancel_http_readonly_queries_on_client_close: 1,
      // What the server refuses is not charged: no query may choose the code of its exception.
      allow_custom_error_code_in_throwif: 0,
      allow_ddl: 0,
      allow_introspection_functions: 0,
      http_write_exception_in_output_format: 0,
      log_queries: 0,
      readonly: 1,
    }
    // 0 is the revision of a server that is not asked for one, also of one that knows none.
    const revision = output.revision ? { client_protocol_version: `${output.revision}` } : {}
    return { database: 'chain', query_id: id, ...revision, ...known(facts, settings) }
  }

  #stop(cause: QueryError): void {
    if (this.#isEnded || this.#cause !== null) return
    this.#cause = cause
    this.#abort.abort()
    this.#sink?.wake()
    this.#deps.kill()
  }

  #fail(error: QueryError, isAnswer = false): QueryEnd {
    this.#end()
    return { error, sent: 0, totals: noTotals, isRefused: isAnswer && statusOf(error) === 429 }
  }

  #end(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    clearTimeout(this.#timer)
    this.#deps.onEnd()
  }

  #errorOf(error: unknown): QueryError {
    const message = error instanceof Fault ? error.message : 'the result broke off'
    return this.#cause ?? exception('NETWORK_ERROR', message)
  }
}

/** The server's settings for the options of a result, its defaults included. */
function outputSettings(output: OutputOptions): Record<string, string | number> {
  const flag = (isSet: boolean | undefined) => (isSet === true ? 1 : 0)
  return {
    output_format_json_quote_64bit_integers: flag(output.quotes64),
    output_format_json_quote_denormals: flag(output.quotesDenormals),
    output_format_json_quote_64bit_floats: flag(output.quotesFloats),
    output_format_json_quote_decimals: flag(output.quotesDecimals),
    output_format_json_escape_forward_slashes: flag(output.keepsSlashes !== true),
    output_format_json_named_tuples_as_objects: flag(output.tuplesAsArrays !== true),
    date_time_output_format: output.times ?? 'simple',
  }
}

// Reads a streamed answer of a ClickHouse server: passes on its rows, buffers the end until it is
// clear that it is not an exception, and counts rows and bytes.

/** Longer than the text of an exception, including the query that it may quote. */
const keptBytes = 16 * 1024

export class ResultReader {
  readonly #body: AsyncIterator<Buffer>
  readonly #format: Format | null
  readonly #tag: string | null
  readonly #counter: RowCounter
  #kept: Buffer[] = []
  #keptBytes = 0
  #isDone = false
  /** The exception at the end of the answer, if any. */
  error: QueryError | null = null
  bytes = 0

  constructor(body: Readable, format: Format | null, tag: string | null) {
    this.#body = (body as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
    this.#format = format
    this.#tag = tag
    this.#counter = rowCounter(format)
  }

  get rows(): number {
    return this.#counter.rows()
  }

  /** The next bytes that belong to the result; null at its end. Rejects when the server is gone. */
  async next(): Promise<Buffer | null> {
    while (!this.#isDone) {
      const { value, done } = await this.#body.next()
      if (done === true) return this.#end()
      this.#kept.push(value)
      this.#keptBytes += value.length
      if (this.#keptBytes > keptBytes) return this.#giveAllBut(keptBytes)
    }
    return null
  }

  /** The connection broke; the received end may still be an exception. */
  breakOff(): QueryError | null {
    this.#end()
    return this.error
  }

  #end(): Buffer | null {
    this.#isDone = true
    const end = Buffer.concat(this.#kept)
    this.#kept = []
    const found = trailingException(end, kindOf(this.#format), this.#tag)
    if (found === null) return end.length === 0 ? null : this.#give(end)
    this.error = found.exception
    return found.at === 0 ? null : this.#give(end.subarray(0, found.at))
  }

  #giveAllBut(rest: number): Buffer {
    const all = Buffer.concat(this.#kept)
    const cut = all.length - rest
    this.#kept = [all.subarray(cut)]
    this.#keptBytes = rest
    return this.#give(all.subarray(0, cut))
  }

  #give(bytes: Buffer): Buffer {
    this.bytes += bytes.length
    this.#counter.see(bytes)
    return bytes
  }
}

function kindOf(format: Format | null): 'json' | 'text' | 'binary' {
  if (format === null || !isTextFormat(format)) return 'binary'
  return format.name.startsWith('JSON') ? 'json' : 'text'
}

interface RowCounter {
  see(bytes: Uint8Array): void
  rows(): number
}

/** Counts the rows of a streamed result from its bytes, for formats in which they can be seen. */
function rowCounter(format: Format | null): RowCounter {
  const name = format?.name ?? ''
  if (/^JSON(Compact)?(Strings)?$|^JSONColumnsWithMetadata$/.test(name)) return writtenCount()
  if (/^(CSV|TabSeparated)|^JSON.*EachRow(With|$)/.test(name) && !/Object|Progress/.test(name))
    return countLines(name.startsWith('CSV'), format?.heads ?? 0)
  return { see() {}, rows: () => 0 }
}

/** Each line break ends a row, except between the quotes of CSV; others escape it in values. */
function countLines(hasQuotes: boolean, heads: number): RowCounter {
  let lines = -heads
  let isQuoted = false
  return {
    see(bytes) {
      if (!hasQuotes)
        for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, at + 1)) lines++
      else
        for (const byte of bytes)
          if (byte === quote) isQuoted = !isQuoted
          else if (byte === newline && !isQuoted) lines++
    },
    rows: () => Math.max(0, lines),
  }
}

const newline = 0x0a
const quote = 0x22
const endChars = 4_096

/** `"rows": n` follows the data; a value that contains it distorts only the caller's own count. */
function writtenCount(): RowCounter {
  let end = ''
  return {
    see(bytes) {
      const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
      end = (end + text.subarray(-endChars).toString('latin1')).slice(-endChars)
    },
    rows: () => Number([...end.matchAll(/\n\t"rows": (\d+)/g)].at(-1)?.[1] ?? 0),
  }
}
