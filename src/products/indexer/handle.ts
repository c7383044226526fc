// Handles an authenticated request of the indexer's endpoint and returns the reply.
//
//   quota -> input.ts: URL, body -> sql/: one statement, its settings, its parameters
//         -> KILL, SHOW, DESCRIBE: answered here
//         -> run.ts: concurrency limit of the plan -> engine -> answer.ts
import { randomUUID } from 'node:crypto'
import { codingOf, encoded } from '../../base/transport/content-encoding.ts'
import { Reply } from '../../base/transport/reply.ts'
import type { Verdict } from '../../customers/quota/budget.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import {
  type Checked,
  checked,
  exception,
  fail,
  type QueryError,
  shownName,
} from '../../indexer/clickhouse/exceptions.ts'
import { rowWithException } from '../../indexer/clickhouse/formats/exception-format.ts'
import {
  defaultFormat,
  type Format,
  formatOf,
  isWhole,
} from '../../indexer/clickhouse/formats/formats.ts'
import { isWord } from '../../indexer/clickhouse/sql/lexer.ts'
import { bindParameters, type Statement } from '../../indexer/clickhouse/sql/parameters.ts'
import { type Reading, readStatement } from '../../indexer/clickhouse/sql/reading.ts'
import { readKill } from '../../indexer/clickhouse/sql/token-cursor.ts'
import type { QueryEngine, QueryTotals } from '../../indexer/engine.ts'
import type { Freshness } from '../../indexer/ingest.ts'
import { type QuerySettings, readSettings } from '../../indexer/settings.ts'
import type { Database } from '../../indexer/tables.ts'
import { answerWith } from './answer.ts'
import { answerFromCatalogue, renderSmall, type SmallResult } from './answer-from-catalogue.ts'
import { BUSY_RETRY_MS, errorInFormat, errorReply, type ResponseInfo, resultHead } from './heads.ts'
import { type QueryInput, type RequestHead, readUrl, withBody } from './input.ts'
import { type Caller, QueryRun, type RunDeps } from './run.ts'

export interface HandleDeps extends RunDeps {
  readonly engine: QueryEngine
  readonly quotaMeters: QuotaMeters
  freshness(): Freshness
}

/** The members of transport's request that are used here. */
export interface Arrival extends RequestHead {
  readonly address: string
  readonly isGone: boolean
  onGone(cancel: () => void): void
}

/** A parsed statement with its format and settings. */
interface Ready {
  readonly reading: Reading
  readonly statement: Statement
  readonly format: Format
  readonly settings: QuerySettings
  readonly database: Database
}

export class IndexerHandler {
  readonly #deps: HandleDeps
  readonly #engine: string

  constructor(deps: HandleDeps) {
    this.#deps = deps
    this.#engine = `${deps.engine.name} ${deps.engine.version}`
  }

  /** `body` is borrowed. Rejects only for a bug. */
  async handle(request: Arrival, body: Buffer, caller: Caller): Promise<Reply> {
    const verdict = caller.budget.spend('query')
    if (!verdict.ok) return this.#exhausted(verdict)
    const url = readUrl(request, caller.password)
    const isCompressed = url.ok && new Map(url.value.settings).get(compression)
    const coding = isCompressed === '1' ? codingOf(request.header('accept-encoding')) : null
    const reply = await this.#replyTo(request, url, body, caller)
    return coding === null ? reply : encoded(reply, coding)
  }

  async #replyTo(
    request: Arrival,
    url: Checked<QueryInput>,
    body: Buffer,
    caller: Caller,
  ): Promise<Reply> {
    const input = url.ok && body.length > 0 ? await withBody(url.value, request, body) : url
    if (!input.ok) return this.#refused(input.error, randomUUID())
    const id = input.value.queryId || randomUUID()
    const run = new QueryRun(this.#deps, { caller, id, text: input.value.text })
    const ready = this.#prepare(input.value, caller)
    if (!ready.ok) return this.#failed(run, ready.error)
    try {
      return await this.#answer(run, ready.value, request)
    } catch (error) {
      run.end(exception('UNKNOWN_EXCEPTION', 'internal error'))
      throw error
    }
  }

  /** Refuses a statement in the URL that is not read-only, before a long body is read. */
  refuseEarly(request: RequestHead, { password }: Caller): Reply | null {
    const url = readUrl(request, password)
    if (!url.ok || url.value.text === '') return null
    const reading = readStatement(url.value.text)
    if (reading.ok || reading.error.name !== 'READONLY') return null
    return this.#refused(reading.error, url.value.queryId || randomUUID())
  }

  #prepare(input: QueryInput, { budget }: Caller): Checked<Ready> {
    const { dialect } = this.#deps
    const reading = readStatement(input.text)
    if (!reading.ok) return reading
    const name = reading.value.format ?? (input.format || defaultFormat)
    const format = formatOf(name, this.#deps.engine.name)
    if (format === null)
      return fail('UNKNOWN_FORMAT', `Unknown format ${shownName(name)}; ${someFormats}`)
    const given = [...input.settings, ...reading.value.settings]
    const settings = readSettings(given, budget.plan.indexer, dialect)
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

  #answer(run: QueryRun, ready: Ready, request: Arrival): Reply | Promise<Reply> {
    const { reading, format } = ready
    if (reading.kind === 'query') return this.#run(run, ready, request)
    const small =
      reading.kind === 'kill'
        ? this.#kill(reading, run.caller)
        : answerFromCatalogue(reading, ready.database)
    if (!small.ok) return this.#failed(run, small.error)
    if (small.value === null) return this.#run(run, ready, request)
    return this.#small(run, small.value, format)
  }

  /** A query of another subscription is not found. */
  #kill(reading: Reading, caller: Caller): Checked<SmallResult> {
    const kill = readKill(reading)
    if (!kill.ok) return kill
    const { ids, user, isTest } = kill.value
    const own = caller.principal.subscription.id
    const isOwn = user === null || user === own
    const found = isOwn ? this.#deps.running.find(own, ids) : []
    if (!isTest) for (const query of found) query.cancel()
    const columns = ['kill_status', 'query_id', 'user'] as const
    return checked({
      columns: columns.map((name) => ({ name, type: 'String' })),
      rows: found.map(({ id }) => ['waiting', id, own]),
    })
  }

  #small(run: QueryRun, result: SmallResult, format: Format): Reply {
    const body = renderSmall(result, format)
    if (body === null)
      return this.#failed(
        run,
        exception('UNKNOWN_FORMAT', `this statement gives no ${format.name}`),
      )
    const bytes = Buffer.byteLength(body)
    const totals: QueryTotals = { rows: result.rows.length, bytes, elapsedMs: 0 }
    run.countBy(() => totals)
    run.end(null)
    return new Reply(200, resultHead(format, this.#infoOf(run.id), totals), body)
  }

  async #run(run: QueryRun, ready: Ready, request: Arrival): Promise<Reply> {
    if (!run.register(request.address))
      return this.#failed(
        run,
        exception('QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING', 'a query of this query_id is running'),
      )
    const leave = () => {
      run.stop('client_gone')
      run.end(exception('QUERY_WAS_CANCELLED', 'the client has left'))
    }
    if (request.isGone) leave()
    else request.onGone(leave)
    const entered = await run.enter()
    if (entered === 'plan-limit') return this.#tooMany(run)
    if (entered === 'cancelled')
      return this.#failed(run, exception('QUERY_WAS_CANCELLED', 'the query was cancelled'))
    const { format, settings, database } = ready
    const query = this.#deps.engine.run({
      id: run.id,
      subscription: run.caller.principal.subscription.id,
      statement: limited(ready),
      format: format.name,
      limits: settings.limits,
      database,
      settings: settings.passed,
      output: settings.output,
    })
    run.began(query)
    const outcome = await query.started
    const failed = (error: QueryError) =>
      settings.writesException
        ? errorInFormat(error, this.#infoOf(run.id), format)
        : errorReply(error, this.#infoOf(run.id))
    if (!outcome.ok) {
      run.end(outcome.error)
      return failed(outcome.error)
    }
    run.countBy(() => outcome.result.totals())
    return answerWith(outcome.result, {
      isWhole: settings.waitsForEnd || isWhole(format),
      headOf: (totals) => resultHead(format, this.#infoOf(run.id), totals, settings.sendsProgress),
      failed,
      lastRow: (error) => (settings.writesException ? rowWithException(error, format) : null),
      isAbandoned: () => request.isGone,
      abandon: leave,
      ended: (error) => run.end(error),
    })
  }

  /** Refused after its wait: counted, but without a row in `usage`. */
  #tooMany(run: QueryRun): Reply {
    this.#deps.quotaMeters.refused.indexer.inc()
    const { queries } = run.caller.budget.plan.indexer
    const error = exception(
      'TOO_MANY_SIMULTANEOUS_QUERIES',
      `the plan allows ${queries} queries at once`,
    )
    run.abandon()
    this.#deps.meters.finished(error.name)
    return errorReply(error, this.#infoOf(run.id), BUSY_RETRY_MS)
  }

  #failed(run: QueryRun, error: QueryError): Reply {
    run.end(error)
    return errorReply(error, this.#infoOf(run.id))
  }

  /** Refused before it became a query: counted, but without a row in `usage`. */
  #refused(error: QueryError, id: string): Reply {
    this.#deps.meters.finished(error.name)
    return errorReply(error, this.#infoOf(id))
  }

  #exhausted({ reason, retryAfterMs }: Verdict): Reply {
    this.#deps.quotaMeters.refused.indexer.inc()
    const what =
      reason === 'credits' ? 'the credits of these 30 days are spent' : 'too many queries'
    const error = exception('QUOTA_EXCEEDED', what)
    this.#deps.meters.finished(error.name)
    return errorReply(error, this.#infoOf(randomUUID()), retryAfterMs || undefined)
  }

  #infoOf(queryId: string): ResponseInfo {
    return { queryId, engine: this.#engine, freshness: this.#deps.freshness() }
  }
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
