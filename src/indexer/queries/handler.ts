// Answers the requests that a gateway relays: reads SQL, settings and parameters, answers from the
// catalogue, and runs queries on the engine. Thread: main of the query program.
//
//   input.ts: URL, body -> sql/: one statement, its settings, its parameters
//         -> KILL, SHOW, DESCRIBE: answered here
//         -> begin -> permit of the plan, from the gateway -> engine -> totals or error
import { randomBytes } from 'node:crypto'
import {
  type Checked,
  checked,
  exception,
  exceptionBlock,
  fail,
  type QueryError,
  shownName,
} from '../clickhouse/exceptions.ts'
import { rowWithException } from '../clickhouse/formats/exception-format.ts'
import { defaultFormat, type Format, formatOf, isWhole } from '../clickhouse/formats/formats.ts'
import { fingerprint } from '../clickhouse/sql/fingerprint.ts'
import { isWord } from '../clickhouse/sql/lexer.ts'
import { bindParameters, type Statement } from '../clickhouse/sql/parameters.ts'
import { type Reading, readStatement } from '../clickhouse/sql/reading.ts'
import { readKill } from '../clickhouse/sql/token-cursor.ts'
import type { QueryEngine, SentQuery } from '../engine.ts'
import { type QuerySettings, readSettings } from '../settings.ts'
import type { Database } from '../tables.ts'
import { answerFromCatalogue, renderSmall, type SmallResult } from './answer-from-catalogue.ts'
import { errorInFormat, errorReply, type ResponseInfo, resultHeaders } from './heads.ts'
import { type QueryInput, readUrl, withBody } from './input.ts'
import {
  noTotals,
  type QueryAnswer,
  type QueryBegin,
  type QueryRequest,
  type QueryTotals,
} from './protocol.ts'

export interface HandlerDeps {
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
    const { error, sent, totals } = await query.ended
    const answer = { ...answerOf(underway.id, totals), error, sent }
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
