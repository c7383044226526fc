// The gateway's side of its query program: starts it, restarts it, ends one that is stuck, and
// keeps its meters.
//
//   endpoint ─► QueryRelay ── calls ──► query program ─► engine: query processes, or a server
//            ◄═ ResultSocket ═════════ bytes of results ════════╝
//
// Queries of a program that ends get 503; the next program answers the next ones.
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer, type Server, type Socket } from 'node:net'
import { resolve } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import { Fault, messageOf } from '../../base/errors.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import { restartForever, SupervisedChild } from '../../base/threads/supervisor.ts'
import { listenAtPath } from '../../base/transport/unix-socket.ts'
import { exception, type QueryError } from '../clickhouse/exceptions.ts'
import { awayText, type IndexerSection, queriesMax, queryProcesses } from '../config.ts'
import { declareQueryProgramMeters, type QueryProgramMeters, type QueryReport } from '../meters.ts'
import { type QueryLogLine, type QueryProgramConfig, reportEveryMs } from './program.ts'
import type {
  QueryAnswer,
  QueryBegin,
  QueryGreeting,
  QueryRequest,
  QueryTotals,
  ResultAddress,
} from './protocol.ts'
import { noTotals } from './protocol.ts'
import { pieceHeadBytes, secretBytes, ticketBytes } from './result-connection.ts'

/** Timeout of opening: the engine starts its first process, or creates tables on a server. */
const openMsMax = 60_000
const openRetryMs = 1_000
const stopMsMax = 5_000
/** A program that misses so many reports in a row is stuck: it is killed, and its queries end. */
const missedMax = 10

interface QueryServiceDeps {
  /** Folder of DuckDB's files. */
  readonly folder: string
  /** Where results are received. */
  readonly socket: string
  /** Names this server in the writer lease of ClickHouse. */
  readonly holder: string | null
  readonly meters: Meters
  readonly clock: Clock
  readonly log: Log
}

export class QueryService {
  readonly address = null
  readonly #config: QueryProgramConfig
  readonly #results: ResultSocket
  readonly #meters: QueryProgramMeters
  readonly #log: Log
  readonly queries: QueryRelay
  readonly #watch: NodeJS.Timeout
  readonly #throttle = new LogThrottle()
  #retry: NodeJS.Timeout | undefined
  #child: SupervisedChild | null = null
  #missed = 0
  #isStopping = false

  private constructor(section: IndexerSection, results: ResultSocket, deps: QueryServiceDeps) {
    const { engine, url, queryUrl, slowQueryMs } = section
    const { folder, holder } = deps
    this.#config = {
      section: { engine, url, queryUrl, slowQueryMs },
      ...{ folder, holder, results: results.address },
    }
    this.#results = results
    this.#meters = declareQueryProgramMeters(deps.meters)
    this.#log = deps.log.area('indexer')
    this.queries = new QueryRelay(
      {
        call: (call, input) => this.#child!.call(call, input),
        steer: (call, input) => this.#child!.steer(call, input),
      },
      results,
    )
    this.#watch = setInterval(() => this.#check(), reportEveryMs)
  }

  /**
   * Resolves when queries are answered, or get 503 because the ClickHouse server is away: other
   * products start without it. Rejects with a Fault when the engine does not start.
   */
  static async start(section: IndexerSection, deps: QueryServiceDeps): Promise<QueryService> {
    const service = new QueryService(section, await ResultSocket.open(deps.socket), deps)
    try {
      service.#child = await SupervisedChild.start(
        {
          ...{ name: 'query program', entry: 'index-queries', backoff: restartForever, stopMsMax },
          // Each query is a call, and may need a second one at once.
          callsMax: 2 * queriesMax,
          onStart: () => service.#started(),
          onEvent: (event, data) => service.#receive(event, data),
        },
        {
          clock: deps.clock,
          log: service.#log,
          restarts: service.#meters.restarts,
          onDown() {},
        },
      )
      await service.#open()
      return service
    } catch (error) {
      await service.stop()
      throw error
    }
  }

  /** Process id of the program; 0 while none runs. */
  pid(): number {
    return this.#child?.pid ?? 0
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    clearInterval(this.#watch)
    clearTimeout(this.#retry)
    await this.#child?.stop()
    await this.#results.stop()
  }

  #started(): void {
    this.#missed = 0
    this.queries.closed()
    this.#meters.report({ processes: 0, busy: 0, kills: [] })
    // The first program is opened by `start`.
    if (this.#child !== null) this.#reopen()
  }

  /** A program whose engine does not start makes way for the next, after the back-off of deaths. */
  #reopen(): void {
    this.#open().catch((error: unknown) => {
      if (this.#isStopping) return
      this.#log.warn('query engine start failed', { reason: messageOf(error) })
      this.#child?.kill()
    })
  }

  async #open(): Promise<void> {
    clearTimeout(this.#retry)
    try {
      this.queries.opened(await this.#child!.call<QueryGreeting>('open', this.#config, openMsMax))
    } catch (error) {
      const reason = messageOf(error)
      if (this.#isStopping || !reason.startsWith(awayText)) throw error
      if (this.#throttle.allows('away', performance.now()))
        this.#log.warn('queries get 503 until ClickHouse answers', { reason })
      this.#retry = setTimeout(() => this.#reopen(), openRetryMs)
    }
  }

  #receive(event: string, data: unknown): void {
    // Reason for the casts: workers/index-queries.ts pushes exactly these.
    if (event === 'begin') this.queries.begin(data as QueryBegin)
    else if (event === 'report') {
      this.#missed = 0
      this.#meters.report(data as QueryReport)
    } else if (event === 'log') {
      const { level, msg, fields } = data as QueryLogLine
      this.#log[level](msg, fields)
    }
  }

  /** Counts intervals, not time: a stall of this thread is no silence of the program. */
  #check(): void {
    this.#missed += 1
    if (this.#missed < missedMax || this.#child?.isRunning !== true) return
    this.#missed = 0
    this.#log.error('query program is stuck, killing it')
    this.#child.kill()
  }
}

// Relays queries of the gateway to its query program and their results to the endpoint.
// A program that ends while it answers is an error of its queries, like every other.

/** Calls of the program; rejects with a Fault. */
interface ProgramCalls {
  call<T>(call: string, input: unknown): Promise<T>
  /** Of a query that is under way; only a program that is gone refuses it. */
  steer<T>(call: string, input: unknown): Promise<T>
}

export class QueryRelay {
  readonly #program: ProgramCalls
  readonly #results: ResultSocket
  /** Requests that are not answered yet, by ticket. */
  readonly #begins = new Map<string, (head: QueryBegin) => void>()
  /** Of the last program that answered queries. */
  greeting: QueryGreeting = { engine: '', tables: [] }
  #isOpen = false

  constructor(program: ProgramCalls, results: ResultSocket) {
    this.#program = program
    this.#results = results
  }

  /** The program answers queries from now on. */
  opened(greeting: QueryGreeting): void {
    this.greeting = greeting
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

  async #call<T>(call: string, input: unknown): Promise<T> {
    if (!this.#isOpen) throw new Fault('child-down', 'the program is starting')
    if (this.#begins.size >= queriesMax) throw new Fault('child-busy', 'too many queries')
    return this.#program.call<T>(call, input)
  }
}

function unanswered(error: unknown, queryId: string): QueryAnswer {
  const isRefused = error instanceof Fault && ['child-busy', 'child-down'].includes(error.kind)
  return {
    ...{ queryId, error: errorOf(error), reply: null, tail: null, sent: null, totals: noTotals },
    ...{ isKilled: false, isRefused, isCompressed: false },
  }
}

function errorOf(error: unknown): QueryError {
  const kind = error instanceof Fault ? error.kind : ''
  if (kind === 'child-busy')
    return exception('TOO_MANY_SIMULTANEOUS_QUERIES', 'too many queries are under way; try again')
  if (kind === 'child-gone' || kind === 'child-down')
    return exception('CANNOT_CREATE_CHILD_PROCESS', 'the query program is starting; ask again')
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

// The gateway's end of results: a Unix socket in the data folder on which query processes send
// their bytes, and the buffer of each result at the pace of its reader.
//
// A connection that sends the secret of this start may send bytes for tickets; a ticket is random,
// is issued for one query and is known only to the process that runs it. Bytes of a ticket that is
// over are dropped. While a reader is slow its connection is paused: a process sends one result at
// a time, and waits.

/** Processes of two programs, while one replaces the other; a server's results have one each. */
const connectionsMax = queriesMax + 2 * queryProcesses.processesMax

export class ResultSocket {
  readonly address: ResultAddress
  readonly #secret: Buffer
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #results = new Map<string, ResultBytes>()

  private constructor(path: string) {
    this.#secret = randomBytes(secretBytes)
    // Its processes have other working directories.
    this.address = { path: resolve(path), secret: this.#secret.toString('hex') }
    this.#server = createServer((socket) => this.#connected(socket))
    this.#server.maxConnections = connectionsMax
  }

  static async open(path: string): Promise<ResultSocket> {
    const made = new ResultSocket(path)
    await listenAtPath(made.#server, path, 'result-socket')
    // A connection that cannot be accepted (no file descriptors) is lost; the listener stays open.
    made.#server.on('error', () => {})
    return made
  }

  /** A new ticket, and what arrives under it until `forget`. */
  expect(onPace: (isSlow: boolean) => void): { ticket: string; bytes: ResultBytes } {
    const ticket = randomBytes(ticketBytes).toString('hex')
    const bytes = new ResultBytes(onPace)
    this.#results.set(ticket, bytes)
    return { ticket, bytes }
  }

  forget(ticket: string): void {
    this.#results.get(ticket)?.discard()
    this.#results.delete(ticket)
  }

  stop(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
      for (const socket of this.#sockets) socket.destroy()
    })
  }

  #connected(socket: Socket): void {
    this.#sockets.add(socket)
    const head = Buffer.alloc(Math.max(secretBytes, pieceHeadBytes))
    let wanted = secretBytes
    let filled = 0
    /** Bytes of the piece that have not arrived. */
    let left = 0
    let into: ResultBytes | null = null
    const headed = () => {
      if (wanted === secretBytes) {
        wanted = pieceHeadBytes
        if (timingSafeEqual(head.subarray(0, secretBytes), this.#secret)) socket.write('\n')
        else socket.destroy()
        return
      }
      left = head.readUInt32LE(ticketBytes)
      into = this.#results.get(head.toString('hex', 0, ticketBytes)) ?? null
    }
    socket.on('data', (chunk: Buffer) => {
      for (let at = 0; at < chunk.length && !socket.destroyed; ) {
        const length = Math.min(left > 0 ? left : wanted - filled, chunk.length - at)
        const part = chunk.subarray(at, at + length)
        at += length
        if (left > 0) {
          left -= length
          into?.take(part, socket)
        } else {
          part.copy(head, filled)
          filled = (filled + length) % wanted
          if (filled === 0) headed()
        }
      }
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      this.#sockets.delete(socket)
      into?.end()
    })
  }
}

/** Most bytes of a result that wait for its reader; what is on the way at its end comes on top. */
const bufferedBytesMax = 256 * 1024
/** A reader that blocks for less is not reported: the clock of queries ticks no faster. */
const slowMs = 20

export class ResultBytes {
  readonly #onPace: (isSlow: boolean) => void
  #source: Socket | null = null
  #chunks: Uint8Array[] = []
  #buffered = 0
  /** Bytes of this result received so far. */
  received = 0
  /** Bytes of the whole result, once known. */
  #total: number | null = null
  #isDiscarding = false
  #isOver = false
  #pace: NodeJS.Timeout | 'slow' | null = null
  #waiting: (() => void)[] = []

  constructor(onPace: (isSlow: boolean) => void) {
    this.#onPace = onPace
  }

  take(chunk: Uint8Array, source: Socket): void {
    this.received += chunk.length
    if (this.#isDiscarding) return
    this.#source = source
    this.#chunks.push(chunk)
    this.#buffered += chunk.length
    // The process of a result that is complete runs the next query: it must not wait.
    if (this.#buffered >= bufferedBytesMax && this.#total === null) this.#pause(source)
    this.#wake()
  }

  /** Sets the size of the whole result. */
  expect(total: number): void {
    this.#total = total
    this.#resume()
    this.#wake()
  }

  /** The reader is gone: what is left is dropped. */
  discard(): void {
    this.#isDiscarding = true
    this.#chunks = []
    this.#buffered = 0
    this.#resume()
    this.#wake()
  }

  /** The connection is gone: no more bytes follow. */
  end(): void {
    this.#isOver = true
    this.#wake()
  }

  /** True when all bytes of the result were received. */
  get isWhole(): boolean {
    return this.#total !== null && this.received >= this.#total
  }

  /** Resolves at the next change: bytes, the total, or the end. */
  change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** The next bytes; null when the result is at its end. */
  async next(): Promise<Uint8Array | null> {
    for (;;) {
      const chunk = this.#chunks.shift()
      if (chunk !== undefined) {
        this.#buffered -= chunk.length
        if (this.#buffered < bufferedBytesMax) this.#resume()
        return chunk
      }
      if (this.isWhole || this.#isOver || this.#isDiscarding) return null
      await this.change()
    }
  }

  #pause(source: Socket): void {
    source.pause()
    this.#pace ??= setTimeout(() => {
      this.#pace = 'slow'
      this.#onPace(true)
    }, slowMs)
  }

  #resume(): void {
    if (this.#pace === null) return
    if (this.#pace === 'slow') this.#onPace(false)
    else clearTimeout(this.#pace)
    this.#pace = null
    this.#source?.resume()
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake()
  }
}
