// Relays queries of the gateway to its query program and their results to the endpoint.
// A program that ends while it answers is an error of its queries, like every other.
import { Fault } from '../../base/errors.ts'
import { exception, type QueryError } from '../clickhouse/exceptions.ts'
import { queriesMax } from '../config.ts'
import {
  noTotals,
  type QueryAnswer,
  type QueryBegin,
  type QueryGreeting,
  type QueryRequest,
  type QueryTotals,
} from './protocol.ts'
import type { ResultBytes, ResultSocket } from './results.ts'

/** Calls of the program; rejects with a Fault. */
export interface ProgramCalls {
  call<T>(call: string, input: unknown): Promise<T>
  /** Of a query that is under way; only a program that is gone refuses it. */
  steer<T>(call: string, input: unknown): Promise<T>
}

export class QueryRelay implements QueryGreeting {
  readonly #program: ProgramCalls
  readonly #results: ResultSocket
  /** Requests that are not answered yet, by ticket. */
  readonly #begins = new Map<string, (head: QueryBegin) => void>()
  #greeting: QueryGreeting = { engine: '', tables: [] }
  #isOpen = false

  constructor(program: ProgramCalls, results: ResultSocket) {
    this.#program = program
    this.#results = results
  }

  get engine(): string {
    return this.#greeting.engine
  }

  get tables(): QueryGreeting['tables'] {
    return this.#greeting.tables
  }

  /** The program answers queries from now on. */
  opened(greeting: QueryGreeting): void {
    this.#greeting = greeting
    this.#isOpen = true
  }

  /** It is a new one that does not answer yet. */
  closed(): void {
    this.#isOpen = false
  }

  begin(head: QueryBegin): void {
    this.#begins.get(head.ticket)?.(head)
  }

  /** `begin` is called when the query needs a permit. The body is copied before this returns. */
  run(request: Omit<QueryRequest, 'ticket'>, begin: (head: QueryBegin) => void): RelayedQuery {
    const tell = (call: string, input: unknown) => {
      // A program that is gone has ended the query.
      this.#program.steer(call, input).catch(() => {})
    }
    const { ticket, bytes } = this.#results.expect((isSlow) => tell('slowed', { ticket, isSlow }))
    let lose: (error: unknown) => void = () => {}
    const lost = new Promise<never>((_, reject) => {
      lose = reject
    })
    const answer = Promise.race([this.#call<QueryAnswer>('query', { ...request, ticket }), lost])
      .catch((error: unknown) => unanswered(error, request.queryId))
      .finally(() => this.#begins.delete(ticket))
    this.#begins.set(ticket, begin)
    return new RelayedQuery(bytes, answer, {
      permit: () => void this.#program.steer('permit', ticket).catch(lose),
      totals: () => this.#program.steer<QueryTotals>('totals', ticket),
      cancel: () => tell('cancel', ticket),
      forget: () => this.#results.forget(ticket),
    })
  }

  /** The refusal of a statement in the URL that changes something; null for every other. */
  refuse(request: Omit<QueryRequest, 'ticket' | 'body'>): Promise<QueryAnswer | null> {
    return this.#call<QueryAnswer | null>('refuse', request).catch((error: unknown) =>
      unanswered(error, request.queryId),
    )
  }

  #call<T>(call: string, input: unknown): Promise<T> {
    if (!this.#isOpen) return Promise.reject(new Fault('child-gone', 'the program is starting'))
    if (this.#begins.size >= queriesMax)
      return Promise.reject(new Fault('child-busy', 'too many queries'))
    return this.#program.call<T>(call, input)
  }
}

function unanswered(error: unknown, queryId: string): QueryAnswer {
  return {
    ...{ queryId, error: errorOf(error), reply: null, tail: null, sent: null, totals: noTotals },
    ...{ isKilled: false, isRefused: false, isCompressed: false },
  }
}

function errorOf(error: unknown): QueryError {
  const kind = error instanceof Fault ? error.kind : ''
  if (kind === 'child-busy')
    return exception('TOO_MANY_SIMULTANEOUS_QUERIES', 'too many queries are under way; try again')
  if (kind === 'child-gone')
    return exception(
      'CANNOT_CREATE_CHILD_PROCESS',
      'the program that runs queries is starting again; send the query again',
    )
  return exception('UNKNOWN_EXCEPTION', 'internal error')
}

const cancelled = exception('QUERY_WAS_CANCELLED', 'the query was cancelled')
const brokenOff = exception('NETWORK_ERROR', 'the result broke off')

interface RelayedCalls {
  permit(): void
  totals(): Promise<QueryTotals>
  cancel(): void
  forget(): void
}

export class RelayedQuery {
  /** Never rejects: a program that is gone is an error. */
  readonly answer: Promise<QueryAnswer>
  /** Null when bytes came before the answer. */
  readonly started: Promise<QueryAnswer | null>
  /** The result with backpressure; early at its end when the query failed. */
  readonly chunks: AsyncIterable<Uint8Array>
  readonly permit: () => void
  readonly #calls: RelayedCalls
  readonly #bytes: ResultBytes
  /** Null before the answer. */
  answered: QueryAnswer | null = null
  /** Why the rest of a complete result is not sent. */
  #cut: QueryError | null = null
  #isRead = false

  constructor(bytes: ResultBytes, answer: Promise<QueryAnswer>, calls: RelayedCalls) {
    this.#bytes = bytes
    this.#calls = calls
    this.permit = calls.permit
    this.answer = answer.then((answered) => this.#settle(answered))
    this.started = this.#start()
    this.chunks = this.#chunks()
  }

  /** Of the result so far; of the whole of it once there is an answer. */
  async totals(): Promise<QueryTotals> {
    const sofar = await (this.answered === null ? this.#calls.totals().catch(() => null) : null)
    return this.answered?.totals ?? { ...(sofar ?? noTotals), bytes: this.#bytes.received }
  }

  /** Bytes so far. */
  received(): number {
    return this.#bytes.received
  }

  /** Valid once `chunks` ended. */
  failed(): QueryError | null {
    const error = this.#cut ?? this.answered?.error ?? null
    const { sent = 0 } = this.answered ?? {}
    return error ?? (sent !== null && this.#bytes.received < sent ? brokenOff : null)
  }

  /** The query ends, and what is not read of its result is dropped. */
  cancel(): void {
    if (this.answered === null) this.#calls.cancel()
    else if (this.answered.error === null) this.#cut ??= cancelled
    this.#bytes.discard()
  }

  async #start(): Promise<QueryAnswer | null> {
    while (this.answered === null && this.#bytes.received === 0) await this.#bytes.change()
    return this.answered
  }

  #settle(answered: QueryAnswer): QueryAnswer {
    this.answered = answered
    const { error, reply, sent } = answered
    if (sent === null) this.#bytes.discard()
    else this.#bytes.expect(sent)
    const hasResult = error === null && reply === null
    if (!hasResult && !this.#isRead) this.#calls.forget()
    return answered
  }

  async *#chunks(): AsyncGenerator<Uint8Array> {
    this.#isRead = true
    try {
      for (;;) {
        const chunk = await this.#bytes.next()
        if (chunk === null) break
        yield chunk
      }
      await this.answer
    } finally {
      // A reader that stops early cancels the query.
      if (this.answered === null) this.cancel()
      this.#calls.forget()
    }
  }
}
