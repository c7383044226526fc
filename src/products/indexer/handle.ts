// Handles an authenticated request of the indexer's endpoint: charges it, relays it to the query
// program, and returns the reply. No SQL is read and no result is built in this process.
//
//   quota -> query program: URL, body, SQL -> reply
//         -> run.ts: concurrency limit of the plan -> engine -> answer.ts: bytes of the result
import { randomUUID } from 'node:crypto'
import { codingOf, encoded } from '../../base/transport/content-encoding.ts'
import type { Reply } from '../../base/transport/reply.ts'
import type { Request } from '../../base/transport/request.ts'
import type { Verdict } from '../../customers/quota/budget.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import { holdsToken } from '../../customers/subscriptions/issue.ts'
import { exception, exceptionBlock } from '../../indexer/clickhouse/exceptions.ts'
import type { Freshness } from '../../indexer/ingest.ts'
import { noTotals, type QueryAnswer, type QueryRequest } from '../../indexer/queries/protocol.ts'
import type { QueryRelay, RelayedQuery } from '../../indexer/queries/relay.ts'
import { answerWith } from './answer.ts'
import { BUSY_RETRY_MS, errorReply, programReply, type ResponseInfo, resultHead } from './heads.ts'
import { type Caller, QueryRun, type RunDeps } from './run.ts'

export interface HandleDeps extends RunDeps {
  readonly queries: QueryRelay
  readonly quotaMeters: QuotaMeters
  freshness(): Freshness
}

export class IndexerHandler {
  readonly #deps: HandleDeps

  constructor(deps: HandleDeps) {
    this.#deps = deps
  }

  /** `body` is borrowed. Rejects only for a bug. */
  async handle(request: Request, body: Buffer, caller: Caller): Promise<Reply> {
    const verdict = caller.budget.spend('query')
    if (!verdict.ok) return this.#exhausted(verdict)
    const input = { ...inputOf(request, caller), body }
    const query: RelayedQuery = this.#deps.queries.run(input, (head) => void run.enter(head))
    const { address } = request
    const run = new QueryRun(this.#deps, {
      ...{ caller, id: input.queryId, address, query: () => query },
    })
    void query.answer.then(({ isKilled }) => {
      if (isKilled) run.stop('killed')
    })
    const leave = () => {
      run.stop('client_gone')
      run.end(exception('QUERY_WAS_CANCELLED', 'the client has left'))
    }
    if (request.isGone) leave()
    else request.onGone(leave)
    const started = await query.started
    const reply =
      started === null || isResult(started)
        ? await this.#stream(run, query, { isGone: () => request.isGone, leave })
        : this.#replyTo(run, started)
    const isCompressed = started?.isCompressed ?? run.head?.isCompressed
    const coding = isCompressed ? codingOf(request.header('accept-encoding')) : null
    return coding === null ? reply : encoded(reply, coding)
  }

  /** The same for a request whose statement may be in the URL. */
  async handlePost(request: Request, body: Buffer, caller: Caller): Promise<Reply> {
    if (!request.parameter('query')) return this.handle(request, body, caller)
    const own = Buffer.from(body)
    return (await this.refuse(request, caller)) ?? this.handle(request, own, caller)
  }

  /** Refuses a statement in the URL that changes something: it is not charged. */
  async refuse(request: Request, caller: Caller): Promise<Reply | null> {
    if (!request.parameter('query')) return null
    const refused = await this.#deps.queries.refuse(inputOf(request, caller))
    if (refused === null) return null
    this.#deps.meters.finished(refused.error!.name)
    return this.#rendered(refused)
  }

  async #stream(
    run: QueryRun,
    query: RelayedQuery,
    client: { isGone(): boolean; leave(): void },
  ): Promise<Reply> {
    const { freshness } = this.#deps
    // Reason for the assertion: bytes follow a permit.
    const head = run.head!
    // A process that was killed reports nothing of what it sent.
    run.countBy(() => {
      const totals = query.answered?.totals ?? noTotals
      return { ...totals, bytes: Math.max(totals.bytes, query.received()) }
    })
    return answerWith(query, {
      isWhole: head.isWhole,
      tag: head.tag,
      head: async () => resultHead(head, freshness(), await query.totals()),
      failed: (error) =>
        query.answered?.error === error
          ? this.#rendered(query.answered)
          : errorReply(error, this.#infoOf(run.id)),
      tail: (error) =>
        (query.answered?.error === error ? query.answered.tail : null) ??
        exceptionBlock(error, head.tag),
      isAbandoned: client.isGone,
      abandon: client.leave,
      ended: (error) => run.end(error),
    })
  }

  /** Of a request without a result. */
  #replyTo(run: QueryRun, answer: QueryAnswer): Reply {
    const { error, isRefused, totals } = answer
    // A program that died knows no other id than ours.
    const queryId = run.head?.queryId ?? answer.queryId
    run.id = queryId
    if (run.isOverPlan) return this.#tooMany(run)
    if (isRefused) {
      if (run.abandon()) this.#deps.meters.finished(error!.name)
    } else {
      run.countBy(() => totals)
      run.end(error)
    }
    return this.#rendered({ ...answer, queryId })
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

  #exhausted({ reason, retryAfterMs }: Verdict): Reply {
    this.#deps.quotaMeters.refused.indexer.inc()
    const what =
      reason === 'credits' ? 'the credits of these 30 days are spent' : 'too many queries'
    const error = exception('QUOTA_EXCEEDED', what)
    this.#deps.meters.finished(error.name)
    return errorReply(error, this.#infoOf(randomUUID()), retryAfterMs || undefined)
  }

  #rendered(answer: QueryAnswer): Reply {
    const { reply, error, queryId } = answer
    return reply === null
      ? errorReply(error!, this.#infoOf(queryId), BUSY_RETRY_MS)
      : programReply(answer, this.#deps.freshness())
  }

  #infoOf(queryId: string): ResponseInfo {
    const { queries, freshness } = this.#deps
    return { queryId, engine: queries.engine, freshness: freshness() }
  }
}

function isResult({ error, reply }: QueryAnswer): boolean {
  return error === null && reply === null
}

/** What the program is sent: no credentials, and whether the caller wrote one into its query_id. */
function inputOf(
  request: Request,
  { principal, budget, password }: Caller,
): Omit<QueryRequest, 'ticket' | 'body'> {
  const { timeMs, rows, resultBytes, memoryBytes } = budget.plan.indexer
  const queryId = request.parameter('query_id') ?? ''
  return {
    subscription: principal.subscription.id,
    plan: { timeMs, rows, resultBytes, memoryBytes },
    queryId: randomUUID(),
    isIdSecret: holdsToken(queryId) || queryId.includes(password),
    url: request.query,
    database: request.header('x-clickhouse-database'),
    format: request.header('x-clickhouse-format'),
    contentType: request.contentType,
    contentEncoding: request.header('content-encoding').toLowerCase(),
  }
}
