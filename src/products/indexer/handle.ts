// Handles an authenticated request of the indexer's endpoint: charges it unless it is refused,
// relays it to the query program, and returns the reply. No SQL is read and no result is built in
// this process.
//
//   quota -> query program: URL, body, SQL -> reply
//         -> run.ts: concurrency limit of the plan -> engine -> bytes of the result
import { randomUUID } from 'node:crypto'
import type { ResponseHead } from '../../base/transport/reply.ts'
import { codingOf, encoded, Reply, withReturn } from '../../base/transport/reply.ts'
import type { Request } from '../../base/transport/request.ts'
import type { Verdict } from '../../customers/quota/budget.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import { holdsToken } from '../../customers/subscriptions/issue.ts'
import { exception, exceptionBlock, type QueryError } from '../../indexer/clickhouse/exceptions.ts'
import type { Freshness } from '../../indexer/ingest.ts'
import { noTotals, type QueryAnswer, type QueryRequest } from '../../indexer/queries/protocol.ts'
import type { QueryRelay, RelayedQuery } from '../../indexer/queries/service.ts'
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
    const settle = caller.budget.defer('query')
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
    settle(run.isOverPlan || started?.isRefused === true)
    const reply =
      started === null || (started.error === null && started.reply === null)
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
    run.totals = () => {
      const totals = query.answered?.totals ?? noTotals
      return { ...totals, bytes: Math.max(totals.bytes, query.received()) }
    }
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
      run.totals = () => totals
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
    return { queryId, engine: queries.greeting.engine, freshness: freshness() }
  }
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

// Turns a result into an HTTP response.
//
//   chunks -> buffered while short -> ended: complete response with its status and summary
//                                  -> too long or too slow: streamed with backpressure
//                                     -> failed meanwhile: exception block, then the end
//
// Most results end while they are buffered, so that their errors get an error status.

/** What is used of a query whose bytes arrive. */
export type Result = Pick<RelayedQuery, 'chunks' | 'failed'>

export interface AnswerShape {
  /** Nothing is sent before the end, as far as the result can be buffered. */
  readonly isWhole: boolean
  /** With the figures of the result so far. */
  head(): Promise<ResponseHead>
  failed(error: QueryError): Reply
  /** Marks the exception at the end of a streamed result. */
  readonly tag: string
  /** The end of a result that failed after its first bytes. */
  tail(error: QueryError): Uint8Array
  /** True when the client is gone. */
  isAbandoned(): boolean
  /** The rest will not be read: stops the query and releases its resources. Idempotent. */
  abandon(): void
  /** The response is sent or abandoned; called at least once. */
  ended(error: QueryError | null): void
}

const HELD_BYTES_MAX = 65_536
const HELD_MS_MAX = 250
const HELD_WHOLE_BYTES_MAX = 4_194_304

type Next = IteratorResult<Uint8Array>

export async function answerWith(result: Result, shape: AnswerShape): Promise<Reply> {
  const source = result.chunks[Symbol.asyncIterator]()
  const held: Uint8Array[] = []
  const bytesMax = shape.isWhole ? HELD_WHOLE_BYTES_MAX : HELD_BYTES_MAX
  const late = shape.isWhole ? null : after(HELD_MS_MAX)
  let pending = source.next()
  for (let bytes = 0; bytes < bytesMax; ) {
    const next = await (late === null ? pending : Promise.race([pending, late.passed]))
    if (next === null) break
    if (next.done === true) {
      late?.stop()
      return wholeAnswer(result, held, shape)
    }
    held.push(next.value)
    bytes += next.value.length
    pending = source.next()
  }
  late?.stop()
  pending.catch(() => {})
  if (shape.isAbandoned()) {
    source.return?.().catch(() => {})
    return shape.failed(exception('QUERY_WAS_CANCELLED', 'the client has left'))
  }
  const head = (await shape.head()).and('x-clickhouse-exception-tag', shape.tag)
  const chunks = streamed({ held, pending, source, result, shape })
  const body = withReturn(chunks, () => {
    shape.abandon()
    source.return?.().catch(() => {})
  })
  return new Reply(200, head, body)
}

async function wholeAnswer(
  result: Result,
  held: readonly Uint8Array[],
  shape: AnswerShape,
): Promise<Reply> {
  const error = result.failed()
  shape.ended(error)
  if (error !== null) return shape.failed(error)
  return new Reply(200, await shape.head(), Buffer.concat(held))
}

interface Streaming {
  readonly held: readonly Uint8Array[]
  readonly pending: Promise<Next>
  readonly source: AsyncIterator<Uint8Array>
  readonly result: Result
  readonly shape: AnswerShape
}

async function* streamed(streaming: Streaming): AsyncGenerator<Uint8Array> {
  const { held, pending, source, result, shape } = streaming
  let error: QueryError | null = null
  try {
    yield* held
    let next = await pending
    while (next.done !== true) {
      yield next.value
      next = await source.next()
    }
    error = result.failed()
    // Clients expect the block in one chunk.
    if (error !== null) yield shape.tail(error)
  } finally {
    shape.ended(error)
  }
}

function after(ms: number): { readonly passed: Promise<null>; stop(): void } {
  let timer: NodeJS.Timeout | undefined
  const passed = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), ms)
  })
  return { passed, stop: () => clearTimeout(timer) }
}
