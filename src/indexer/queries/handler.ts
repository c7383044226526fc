// Answers the requests that a gateway relays: reads SQL, settings and parameters, answers from the
// catalogue, and runs queries on the engine. Thread: main of the query program.
//
//   URL, body -> sql/: one statement, its settings, its parameters
//         -> KILL, SHOW, DESCRIBE: answered here
//         -> begin -> permit of the plan, from the gateway -> engine -> totals or error
import { isUtf8 } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { type Coding, codingNamed } from '../../base/transport/reply.ts'
import { databaseOf } from '../catalogue.ts'
import type { Checked, QueryError } from '../clickhouse/exceptions.ts'
import {
  checked,
  exception,
  exceptionBlock,
  exceptionText,
  fail,
  shownName,
  statusOf,
} from '../clickhouse/exceptions.ts'
import { documentWithException, rowWithException } from '../clickhouse/formats/exception-format.ts'
import { defaultFormat, type Format, formatOf, isWhole } from '../clickhouse/formats/formats.ts'
import { fingerprint, isWord } from '../clickhouse/sql/lexer.ts'
import { bindParameters, type Statement } from '../clickhouse/sql/parameters.ts'
import { type Reading, readKill, readStatement, type Setting } from '../clickhouse/sql/reading.ts'
import type { QueryEngine, SentQuery } from '../engine.ts'
import { type QuerySettings, readSettings } from '../settings.ts'
import type { Database } from '../tables.ts'
import { answerFromCatalogue, renderSmall, type SmallResult } from './answer-from-catalogue.ts'
import type { HeaderLines, QueryAnswer, QueryBegin, QueryRequest, QueryTotals } from './protocol.ts'
import { bodyBytesMax, commonHeaders, noTotals, plainHeaders } from './protocol.ts'

interface HandlerDeps {
  readonly engine: QueryEngine
  /** The gateway logs slow queries by their fingerprint. */
  readonly logsSlow: boolean
  begin(head: QueryBegin): void
}

/** A parsed statement with its format and settings. */
interface Ready {
  readonly reading: Reading
  readonly statement: Statement
  readonly format: Format
  readonly settings: QuerySettings
  readonly database: Database
}

type Answer = Omit<QueryAnswer, 'isCompressed' | 'isKilled'>

export class QueryHandler {
  readonly #deps: HandlerDeps
  readonly #engine: string
  /** By ticket; the gateway bounds them. */
  readonly #requests = new Map<string, Underway>()

  constructor(deps: HandlerDeps) {
    this.#deps = deps
    this.#engine = engineOf(deps.engine)
  }

  /** Rejects only for a bug. */
  async query(request: QueryRequest): Promise<QueryAnswer> {
    const underway = new Underway(request.subscription)
    this.#requests.set(request.ticket, underway)
    try {
      const url = readUrl(request)
      underway.isCompressed = url.ok && new Map(url.value.settings).get(compression) === '1'
      const answer = await this.#answer(request, url, underway)
      const { isCompressed, isKilled } = underway
      return { ...answer, isCompressed, isKilled }
    } finally {
      this.#requests.delete(request.ticket)
    }
  }

  permit(ticket: string): void {
    this.#requests.get(ticket)?.permit()
  }

  cancel(ticket: string): void {
    this.#requests.get(ticket)?.stop()
  }

  slowed({ ticket, isSlow }: { readonly ticket: string; readonly isSlow: boolean }): void {
    this.#requests.get(ticket)?.query?.slowed(isSlow)
  }

  /** Of the result so far. */
  totals(ticket: string): QueryTotals {
    return this.#requests.get(ticket)?.query?.totals() ?? noTotals
  }

  /** The refusal of a statement in the URL that changes something; null for every other. */
  refuse(request: Omit<QueryRequest, 'ticket' | 'body'>): QueryAnswer | null {
    const url = readUrl(request)
    if (!url.ok || url.value.text === '') return null
    const reading = readStatement(url.value.text)
    if (reading.ok || reading.error.name !== 'READONLY') return null
    const refused = this.#refused(reading.error, url.value.queryId || request.queryId)
    return { ...refused, isCompressed: false, isKilled: false }
  }

  async #answer(
    request: QueryRequest,
    url: Checked<QueryInput>,
    underway: Underway,
  ): Promise<Answer> {
    const input = url.ok && request.body.length > 0 ? await withBody(url.value, request) : url
    if (!input.ok) return this.#refused(input.error, request.queryId)
    underway.id = input.value.queryId || request.queryId
    const ready = this.#prepare(input.value, request)
    if (!ready.ok) return this.#failed(ready.error, underway.id)
    const { reading, format, database } = ready.value
    if (reading.kind !== 'query') {
      const small =
        reading.kind === 'kill'
          ? this.#kill(reading, request.subscription)
          : answerFromCatalogue(reading, database)
      if (!small.ok) return this.#failed(small.error, underway.id)
      if (small.value !== null) return this.#small(underway.id, small.value, format)
    }
    if (this.#queriesOf(request.subscription, [underway.id]).length > 0)
      return this.#failed(
        exception('QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING', 'a query of this query_id is running'),
        underway.id,
      )
    underway.isQuery = true
    return this.#run(request, input.value.text, ready.value, underway)
  }

  /** Queries of the subscription, waiting and running, with these ids; all of them for null. */
  #queriesOf(own: string, ids: readonly string[] | null): Underway[] {
    return [...this.#requests.values()].filter(
      ({ subscription, id, isQuery }) =>
        isQuery && subscription === own && (ids === null || ids.includes(id)),
    )
  }

  #prepare(input: QueryInput, { plan }: QueryRequest): Checked<Ready> {
    const dialect = this.#deps.engine.name
    const reading = readStatement(input.text)
    if (!reading.ok) return reading
    const name = reading.value.format ?? (input.format || defaultFormat)
    const format = formatOf(name, dialect)
    if (format === null)
      return fail('UNKNOWN_FORMAT', `Unknown format ${shownName(name)}; ${someFormats}`)
    const given = [...input.settings, ...reading.value.settings]
    const settings = readSettings(given, plan, dialect)
    if (!settings.ok) return settings
    const statement = bindParameters(reading.value, input.parameters, dialect)
    if (!statement.ok) return statement
    return checked({
      reading: reading.value,
      statement: statement.value,
      format,
      settings: settings.value,
      database: input.database,
    })
  }

  /** A query of another subscription is not found. */
  #kill(reading: Reading, own: string): Checked<SmallResult> {
    const kill = readKill(reading)
    if (!kill.ok) return kill
    const { ids, user, isTest } = kill.value
    const isOwn = user === null || user === own
    const found = isOwn ? this.#queriesOf(own, ids) : []
    if (!isTest) for (const query of found) query.kill()
    const columns = ['kill_status', 'query_id', 'user'] as const
    return checked({
      columns: columns.map((name) => ({ name, type: 'String' })),
      rows: found.map(({ id }) => ['waiting', id, own]),
    })
  }

  #small(queryId: string, result: SmallResult, format: Format): Answer {
    const body = renderSmall(result, format)
    if (body === null)
      return this.#failed(
        exception('UNKNOWN_FORMAT', `this statement gives no ${format.name}`),
        queryId,
      )
    const totals = { rows: result.rows.length, bytes: Buffer.byteLength(body), elapsedMs: 0 }
    const headers = resultHeaders(format, this.#infoOf(queryId))
    return { ...answerOf(queryId, totals), reply: { status: 200, headers, body } }
  }

  async #run(
    { ticket, subscription }: QueryRequest,
    text: string,
    ready: Ready,
    underway: Underway,
  ): Promise<Answer> {
    const { engine, logsSlow, begin } = this.#deps
    const { format, settings, database } = ready
    const info = this.#infoOf(underway.id)
    const tag = randomBytes(8).toString('hex')
    begin({
      ticket,
      queryId: underway.id,
      fingerprint: logsSlow ? fingerprint(text) : '',
      headers: resultHeaders(format, info),
      isWhole: settings.waitsForEnd || isWhole(format),
      sendsProgress: settings.sendsProgress,
      isCompressed: underway.isCompressed,
      tag,
    })
    if (!(await underway.permitted))
      return this.#failed(exception('QUERY_WAS_CANCELLED', 'the query was cancelled'), underway.id)
    const query = engine.run(
      {
        id: underway.id,
        subscription,
        statement: limited(ready),
        format: format.name,
        limits: settings.limits,
        database,
        settings: settings.passed,
        output: settings.output,
      },
      ticket,
    )
    underway.began(query)
    const { error, sent, totals, isRefused = false } = await query.ended
    const answer = { ...answerOf(underway.id, totals), error, sent, isRefused }
    if (error === null) return answer
    const isInside = settings.writesException
    const row = isInside ? rowWithException(error, format) : null
    return {
      ...answer,
      reply: isInside ? errorInFormat(error, info, format) : errorReply(error, info),
      tail: row === null ? exceptionBlock(error, tag) : Buffer.from(row),
    }
  }

  #failed(error: QueryError, queryId: string): Answer {
    const reply = errorReply(error, this.#infoOf(queryId))
    return { ...answerOf(queryId, noTotals), error, reply }
  }

  #refused(error: QueryError, queryId: string): Answer {
    return { ...this.#failed(error, queryId), isRefused: true }
  }

  #infoOf(queryId: string): ResponseInfo {
    return { queryId, engine: this.#engine }
  }
}

export function engineOf({ name, version }: Pick<QueryEngine, 'name' | 'version'>): string {
  return `${name} ${version}`
}

function answerOf(queryId: string, totals: QueryTotals): Answer {
  return { queryId, error: null, reply: null, tail: null, sent: 0, totals, isRefused: false }
}

/** As in ClickHouse it counts in the URL: the response is set up before the query is read. */
const compression = 'enable_http_compression'

/** The families, for the error of an unknown name. */
const someFormats =
  'known are the families of JSON, CSV, TSV, Pretty, RowBinary and Arrow, and Values, Vertical, ' +
  'Markdown, XML, SQLInsert, Native, Parquet, Null'

/** The statement with the settings `limit` and `offset` applied to its result. */
function limited({ statement, reading, settings: { limit, offset } }: Ready): Statement {
  const isQuery = reading.kind === 'query' && !isWord(reading.text, reading.tokens[0], 'EXPLAIN')
  if (!isQuery || (limit === 0 && offset === 0)) return statement
  const texts = [...statement.texts]
  texts[0] = `SELECT * FROM (${texts[0]}`
  texts[texts.length - 1] += `\n) LIMIT ${offset}, ${limit || Number.MAX_SAFE_INTEGER}`
  return { ...statement, texts }
}

/** A request from its arrival to its answer. */
class Underway {
  readonly subscription: string
  id = ''
  /** KILL QUERY finds it. */
  isQuery = false
  isCompressed = false
  isKilled = false
  query: SentQuery | null = null
  #isStopped = false
  #settle: (isPermitted: boolean) => void = () => {}
  readonly permitted: Promise<boolean>

  constructor(subscription: string) {
    this.subscription = subscription
    this.permitted = new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  permit(): void {
    this.#settle(true)
  }

  began(query: SentQuery): void {
    this.query = query
    if (this.#isStopped) query.cancel()
  }

  stop(): void {
    this.#isStopped = true
    this.#settle(false)
    this.query?.cancel()
  }

  kill(): void {
    this.isKilled = true
    this.stop()
  }
}

// Reads a query from a request: URL parameters, ClickHouse's headers, and the body.
// The query is in `query=`, in the body, or starts in the first and continues in the second.

interface QueryInput {
  readonly text: string
  /** Values of `{name:Type}` parameters. */
  readonly parameters: ReadonlyMap<string, string>
  readonly settings: readonly Setting[]
  /** '' when the caller sets none. */
  readonly queryId: string
  readonly format: string
  /** Of table names without one. */
  readonly database: Database
}

/** What is read of a request before its body. */
type RequestHead = Omit<QueryRequest, 'body' | 'ticket' | 'subscription' | 'plan'>

/** As ClickHouse's `max_query_size`. */
const QUERY_BYTES_MAX = 262_144
const PARAMETERS_MAX = 1_000
const PARTS_MAX = 1_000
const QUERY_ID = /^[\x21-\x7e]{1,128}$/

function readUrl(request: RequestHead): Checked<QueryInput> {
  const parameters = new Map<string, string>()
  const own = new Map<string, string>()
  const settings = new Map<string, string>()
  let count = 0
  for (const [name, value] of new URLSearchParams(request.url)) {
    if (++count > PARAMETERS_MAX) return fail('BAD_ARGUMENTS', 'the URL has too many parameters')
    const into = name.startsWith('param_') ? parameters : ownNames.has(name) ? own : settings
    const key = into === parameters ? name.slice('param_'.length) : name
    if (into.has(key)) return fail('BAD_ARGUMENTS', 'a parameter of the URL is given twice')
    into.set(key, value)
  }
  if (own.has('role')) return fail('UNKNOWN_ROLE', 'there are no roles')
  const named = own.get('database') ?? request.database
  const database = databaseOf(named)
  if (database === null)
    return fail(
      'UNKNOWN_DATABASE',
      `Database ${shownName(named)} does not exist; tables are in chain`,
    )
  const queryId = own.get('query_id') ?? ''
  if (queryId !== '' && !QUERY_ID.test(queryId))
    return fail('BAD_ARGUMENTS', 'a query_id is 1 to 128 visible ASCII characters')
  // The query id is stored in `usage` and sent to engines and back.
  if (request.isIdSecret)
    return fail('BAD_ARGUMENTS', 'a query_id may contain no token and no password; choose another')
  const format = own.get('default_format') ?? request.format
  const text = own.get('query') ?? ''
  return checked({ text, parameters, settings: [...settings], queryId, format, database })
}

const ownNames = new Set(['query', 'database', 'query_id', 'default_format', 'role'])

/** Adds the body. */
async function withBody(input: QueryInput, request: QueryRequest): Promise<Checked<QueryInput>> {
  const { body } = request
  let bytes = Buffer.from(body.buffer, body.byteOffset, body.length)
  const coding = codingNamed(request.contentEncoding)
  if (coding !== null) {
    const whole = await decompress(coding, bytes)
    if (whole === null)
      return fail('CANNOT_PARSE_TEXT', `the body is no ${coding.name}, or too long`)
    bytes = whole
  }
  if (!isUtf8(bytes)) return fail('SYNTAX_ERROR', 'the query is not UTF-8')
  const text = bytes.toString('utf8')
  const isMultipart = /^multipart\/form-data\b/i.test(request.contentType)
  if (!isMultipart) return joined(input, text, input.parameters)
  const parts = readMultipart(text, request.contentType)
  if (parts === null) return fail('BAD_ARGUMENTS', 'the multipart body cannot be read')
  const parameters = new Map(input.parameters)
  for (const [name, value] of parts)
    if (name.startsWith('param_')) parameters.set(name.slice('param_'.length), value)
  return joined(input, parts.get('query') ?? '', parameters)
}

function joined(
  input: QueryInput,
  body: string,
  parameters: ReadonlyMap<string, string>,
): Checked<QueryInput> {
  const text = input.text === '' || body === '' ? input.text + body : `${input.text}\n${body}`
  if (text.length > QUERY_BYTES_MAX)
    return fail('SYNTAX_ERROR', `a query has at most ${QUERY_BYTES_MAX} characters`)
  return checked({ ...input, text, parameters })
}

async function decompress(coding: Coding, bytes: Buffer): Promise<Buffer | null> {
  try {
    return await coding.decode(bytes, { maxOutputLength: bodyBytesMax })
  } catch {
    return null
  }
}

/**
 * Values of multipart/form-data by name, in which clients send parameters too long for a URL; null
 * when the body is not a valid form. Files and other headers in it are ignored.
 */
function readMultipart(body: string, contentType: string): ReadonlyMap<string, string> | null {
  const found = /;\s*boundary=(?:"([^"]{1,100})"|([^;\s]{1,100}))/i.exec(contentType)
  const boundary = found?.[1] ?? found?.[2]
  if (boundary === undefined) return null
  // A line break is prepended, so that the first boundary is like the others.
  const parts = `\r\n${body}`.split(`\r\n--${boundary}`)
  if (parts.length > PARTS_MAX || !parts.at(-1)?.startsWith('--')) return null
  const values = new Map<string, string>()
  for (const part of parts.slice(1, -1)) {
    const end = part.indexOf('\r\n\r\n')
    const name = /^content-disposition:[^\r\n]*;\s*name="([^"]*)"/im.exec(part.slice(0, end))?.[1]
    if (end < 0 || name === undefined || values.has(name)) return null
    values.set(name, part.slice(end + 4))
  }
  return values
}

// Heads and bodies of the query program's replies.

type WireReply = NonNullable<QueryAnswer['reply']>

interface ResponseInfo {
  readonly queryId: string
  /** Name and version. */
  readonly engine: string
}

function resultHeaders(format: Format, info: ResponseInfo): HeaderLines {
  return {
    'content-type': format.contentType,
    'x-clickhouse-format': format.name,
    ...commonHeaders,
    ...infoHeaders(info),
  }
}

function errorReply(error: QueryError, info: ResponseInfo): WireReply {
  return {
    status: statusOf(error),
    headers: {
      ...plainHeaders,
      ...infoHeaders(info),
      'x-clickhouse-exception-code': String(error.code),
    },
    body: exceptionText(error),
  }
}

/** The exception inside the format; as a text where the format has no form for it. */
function errorInFormat(error: QueryError, info: ResponseInfo, format: Format): WireReply {
  const body = documentWithException(error, format)
  if (body === null) return errorReply(error, info)
  const code = { 'x-clickhouse-exception-code': String(error.code) }
  return { status: statusOf(error), headers: { ...resultHeaders(format, info), ...code }, body }
}

function infoHeaders({ queryId, engine }: ResponseInfo): HeaderLines {
  return { 'x-clickhouse-query-id': queryId, 'x-sluice-engine': engine }
}
