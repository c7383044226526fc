// A connection to PostgreSQL that reconnects for ever. The only importer of pg.
// One queue per connection: one statement or one transaction at a time, so that a transaction never
// contains another caller's statement. Every statement has a bound, those that set up a session
// too: without an answer in time the session ends, because the outcome is unknown. What waits in
// the queue waits for the statements before it as well.
//
// A poll is answered at once where the session works. When its answer is late, a second session is
// opened beside the first, and the first of the two that answers is used: a half-open session is
// replaced within a second, and a server that stalls ends no session.
//
// Of several hosts the one that takes writes is used: after a failover the promoted standby.
//
//   query ─► queue ─► session ─► answer         silence: SELECT 1 every second, a poll
//                        └─ error, timeout, end ─► reconnect with exponential back-off
import { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { Client, DatabaseError, types } from 'pg'
import { type Backoff, backoffMs, type Clock } from '../../../base/clock.ts'
import { Fault, messageOf } from '../../../base/errors.ts'
import { type Log, LogThrottle } from '../../../base/telemetry/log.ts'
import { queueMax } from '../config.ts'

export interface Queries {
  /** Rows of one statement; 64-bit integers are numbers, bytea is a Buffer. */
  query<Row>(text: string, values?: readonly unknown[]): Promise<Row[]>
}

export interface ConnectionOptions {
  /** With one host or several, separated by commas. */
  readonly url: string
  /** Shown in pg_stat_activity and in the log. */
  readonly name: string
  readonly clock: Clock
  readonly log: Log
  /** Longest time of one statement. */
  readonly statementMs?: number
  /** Runs on each new connection before it is used; it is not used when this throws. */
  onConnect?(queries: Queries): Promise<void>
}

/** A connection of the pg library with its socket. */
interface Session {
  readonly client: Client
  readonly destroy: () => void
  /** It failed or was closed, perhaps before it was used. */
  isEnded: boolean
}

const backoff: Backoff = { firstMs: 50, lastMs: 500 }
/** To connect, and then for each statement before the session is used. */
const connectMs = 3_000
const statementMsInitial = 5_000
/** A half-open connection reports nothing by itself: after this long a question is sent. */
const silenceMs = 1_000
/** The answer to a poll is late after this, or after twice the time of the slowest recent one. */
const answerMs = 500
/** How long an answer may follow a second session and still keep the first one. */
const preferredMs = 100
/** The slowest answer is forgotten by this factor a poll. */
const decay = 0.9
/** SQLSTATE classes of a server that cannot answer now: retrying helps. */
const retryableStates = /^(08|40|53|57|25006|55P03)/

export class PostgresConnection implements Queries {
  readonly #options: ConnectionOptions
  readonly #hosts: Hosts
  readonly #throttle = new LogThrottle()
  readonly #channels = new Map<string, Set<() => void>>()
  #session: Session | null = null
  /** Sessions that are being set up. */
  readonly #opening = new Set<Session>()
  #tail: Promise<unknown> = Promise.resolve()
  #waiting = 0
  #failures = 0
  #answeredMs: number
  #slowestMs = 0
  /** Why it is not connected; never contains the password. */
  problem = 'not connected yet'
  #timer: NodeJS.Timeout | null = null
  #isStopped = false
  readonly #upWaiters = new Set<() => void>()

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.#hosts = new Hosts(options.url)
    this.#answeredMs = options.clock.monotonicMs()
  }

  /** Connects, and reconnects from then on. */
  start(): this {
    void this.#connect()
    return this
  }

  isUp(): boolean {
    return this.#session !== null
  }

  /** Milliseconds since PostgreSQL last answered here. */
  ageMs(): number {
    return this.#options.clock.monotonicMs() - this.#answeredMs
  }

  /** True as soon as it is connected, false after `timeoutMs`. */
  ready(timeoutMs: number): Promise<boolean> {
    if (this.isUp()) return Promise.resolve(true)
    return new Promise((resolve) => {
      const finish = () => {
        clearTimeout(timer)
        this.#upWaiters.delete(finish)
        resolve(this.isUp())
      }
      const timer = setTimeout(finish, timeoutMs)
      this.#upWaiters.add(finish)
    })
  }

  query<Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.#enqueue((session) => this.#ask<Row>(session, text, values))
  }

  /** Short, and may run twice: when its answer is late, a half-open session is replaced. */
  poll<Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.#enqueue(async (session) => {
      const sentMs = this.#options.clock.monotonicMs()
      const answered = new AbortController()
      const lateMs = Math.min(connectMs, Math.max(answerMs, 2 * this.#slowestMs))
      const timer = afterStall(() => void this.#replace(session, answered.signal), lateMs)
      try {
        const rows = await this.#ask<Row>(session, text, values)
        const tookMs = this.#options.clock.monotonicMs() - sentMs
        this.#slowestMs = Math.max(tookMs, this.#slowestMs * decay)
        return rows
      } finally {
        clearTimeout(timer)
        answered.abort()
      }
    })
  }

  /**
   * Commits what `work` did, or rolls it back when it throws. A rejected promise after the COMMIT
   * was sent leaves the outcome unknown.
   */
  transaction<T>(work: (queries: Queries) => Promise<T>): Promise<T> {
    return this.#enqueue(async (session) => {
      await this.#ask(session, 'BEGIN', [])
      let result: T
      try {
        result = await work({ query: (text, values = []) => this.#ask(session, text, values) })
      } catch (error) {
        if (this.#session === session) await this.#ask(session, 'ROLLBACK', []).catch(() => {})
        throw error
      }
      await this.#ask(session, 'COMMIT', [])
      return result
    })
  }

  /** Calls `onNotify` for each notification, and after each reconnect, when some may be lost. */
  listen(channel: string, onNotify: () => void): () => void {
    const listeners = this.#channels.get(channel) ?? new Set()
    listeners.add(onNotify)
    this.#channels.set(channel, listeners)
    if (listeners.size === 1 && this.isUp()) this.query(`LISTEN ${channel}`).catch(() => {})
    return () => listeners.delete(onNotify)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    for (const session of this.#opening) session.destroy()
    const session = this.#session
    this.#session = null
    this.problem = 'stopped'
    if (session === null) return
    // An answer that never comes must not keep the process from stopping.
    const hurry = setTimeout(() => session.destroy(), answerMs)
    await session.client.end().catch(() => {})
    clearTimeout(hurry)
    session.destroy()
  }

  async #connect(): Promise<void> {
    this.#timer = null
    try {
      this.#up(await this.#openAny())
    } catch (error) {
      this.#hosts.next()
      this.#retry(messageOf(error))
    }
  }

  /**
   * Until a server answers an attempt is made each second: what was sent may be lost. Rejects when
   * the first one fails.
   */
  #openAny(needless?: AbortSignal): Promise<Session> {
    const over = new AbortController()
    needless?.addEventListener('abort', () => over.abort())
    return new Promise((resolve, reject) => {
      const use = (session: Session) => {
        if (over.signal.aborted) session.destroy()
        over.abort()
        resolve(session)
      }
      const open = () => this.#open(over.signal, () => clearInterval(timer)).then(use)
      const timer = setInterval(() => open().catch(() => {}), silenceMs)
      over.signal.addEventListener('abort', () => clearInterval(timer))
      open().catch((error: unknown) => {
        over.abort()
        reject(error)
      })
    })
  }

  /** Rejects when a step of the set-up fails or has no answer in time. */
  async #open(needless: AbortSignal, onAnswer: () => void): Promise<Session> {
    const socket = new Socket()
    const client = this.#newClient(socket)
    const session: Session = { client, destroy: () => socket.destroy(), isEnded: false }
    client.on('error', (error) => this.#drop(session, messageOf(error)))
    client.on('end', () => this.#drop(session, 'the connection ended'))
    client.on('notification', ({ channel }) => this.#notify(channel))
    this.#opening.add(session)
    needless.addEventListener('abort', session.destroy)
    const ask = <Row>(text: string) => this.#ask<Row>(session, text, [], connectMs)
    try {
      await client.connect()
      onAnswer()
      await ask('SET search_path = sluice')
      const [server] = await ask<{ transaction_read_only: string }>('SHOW transaction_read_only')
      if (server!.transaction_read_only === 'on') throw new Error('the server is a standby')
      const { onConnect } = this.#options
      await onConnect?.({ query: (text, given = []) => this.#ask(session, text, given) })
      for (const channel of this.#channels.keys()) await ask(`LISTEN ${channel}`)
      if (this.#isStopped) throw new Error('stopped')
      return session
    } catch (error) {
      session.destroy()
      throw error
    } finally {
      needless.removeEventListener('abort', session.destroy)
      this.#opening.delete(session)
    }
  }

  #newClient(socket: Socket): Client {
    const { name, statementMs = statementMsInitial } = this.#options
    return new Client({
      connectionString: this.#hosts.url,
      application_name: `sluice ${name}`.slice(0, 63),
      connectionTimeoutMillis: connectMs,
      statement_timeout: statementMs,
      idle_in_transaction_session_timeout: statementMs,
      keepAlive: true,
      stream: () => socket,
      types: { getTypeParser: parserOf },
    })
  }

  /**
   * Opens a session beside one that has not answered a poll. It is used when it is ready before
   * that answer; when it cannot be opened either, the host is given up.
   */
  async #replace(silent: Session, answered: AbortSignal): Promise<void> {
    const isOver = () => answered.aborted || this.#session !== silent
    if (isOver()) return
    try {
      const spare = await this.#openAny(answered)
      // A server that stalled answers both at once: the session that exists is preferred.
      await delay(preferredMs, undefined, { signal: answered }).catch(() => {})
      if (isOver()) return spare.destroy()
      this.#session = null
      silent.destroy()
      this.#up(spare)
    } catch (error) {
      // A server that refuses another session is not silent.
      const cause = error instanceof Fault ? error.cause : error
      if (isOver() || cause instanceof DatabaseError) return
      this.#hosts.next()
      this.#drop(silent, messageOf(error))
    }
  }

  #up(session: Session): void {
    // Nothing more is heard of one that ended while the one before was waited for.
    if (session.isEnded) return void this.#retry('the connection ended')
    if (this.#failures > 0)
      this.#options.log.info('PostgreSQL is connected again', { connection: this.#options.name })
    this.#session = session
    this.#failures = 0
    this.problem = ''
    this.#answeredMs = this.#options.clock.monotonicMs()
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#check(session), silenceMs)
    for (const waiter of [...this.#upWaiters]) waiter()
    for (const channel of this.#channels.keys()) this.#notify(channel)
  }

  /** Asks something after a second of silence. */
  #check(session: Session): void {
    if (this.#session !== session) return
    this.#timer = setTimeout(() => this.#check(session), silenceMs)
    if (this.ageMs() < silenceMs || this.#waiting > 0) return
    this.poll('SELECT 1').catch(() => {})
  }

  #drop(session: Session, problem: string): void {
    session.isEnded = true
    if (this.#session !== session) return
    this.#session = null
    session.destroy()
    this.#retry(problem)
  }

  #retry(problem: string): void {
    this.problem = problem
    if (this.#timer !== null) clearTimeout(this.#timer)
    if (this.#isStopped) return
    this.#failures++
    const { log, name, clock } = this.#options
    if (this.#throttle.allows('down', clock.monotonicMs()))
      log.warn('PostgreSQL is not connected', { connection: name, reason: problem })
    this.#timer = setTimeout(() => this.#connect(), this.#hosts.waitMs(this.#failures, backoff))
  }

  #enqueue<T>(work: (session: Session) => Promise<T>): Promise<T> {
    if (this.#session === null) return Promise.reject(this.#unavailable(this.problem))
    if (this.#waiting >= queueMax) return Promise.reject(this.#unavailable('its queue is full'))
    this.#waiting++
    const done = this.#tail.then(async () => {
      this.#waiting--
      if (this.#session === null) throw this.#unavailable(this.problem)
      return await work(this.#session)
    })
    this.#tail = done.catch(() => {})
    return done
  }

  async #ask<Row>(
    session: Session,
    text: string,
    values: readonly unknown[],
    boundMs = (this.#options.statementMs ?? statementMsInitial) + answerMs,
  ): Promise<Row[]> {
    let isAnswered = false
    const timer = afterStall(() => {
      if (isAnswered) return
      this.#drop(session, 'no answer in time')
      // It may not be the one in use yet.
      session.destroy()
    }, boundMs)
    try {
      const { rows } = await session.client.query({ text, values: [...values] })
      this.#answeredMs = this.#options.clock.monotonicMs()
      return rows as Row[]
    } catch (error) {
      throw this.#faultOf(error)
    } finally {
      isAnswered = true
      clearTimeout(timer)
    }
  }

  #notify(channel: string): void {
    for (const listener of this.#channels.get(channel) ?? []) listener()
  }

  #faultOf(error: unknown): Fault {
    // What the system reports has codes as well: EPIPE looks like an SQLSTATE.
    if (error instanceof DatabaseError && !retryableStates.test(error.code ?? ''))
      return new Fault('database', messageOf(error), { cause: error })
    return this.#unavailable(messageOf(error), error)
  }

  #unavailable(reason: string, cause?: unknown): Fault {
    return new Fault('cluster', `PostgreSQL is unavailable: ${reason}`, { cause, retryable: true })
  }
}

/**
 * Calls `late` after that long and one more turn of the event loop: when this process stalled, the
 * answer is already in the socket and PostgreSQL was not silent.
 */
function afterStall(late: () => void, ms: number): NodeJS.Timeout {
  return setTimeout(() => setImmediate(late), ms)
}

const int8 = 20

/** Sums and sequence numbers stay far below 2^53. */
function parserOf(type: number, format?: string): (value: string) => unknown {
  if (type === int8) return Number
  // Reason for the cast: pg declares one overload per format.
  return types.getTypeParser(type, format as 'text')
}

// The hosts of a connection string, which are tried in turn: postgres://user@one:5432,two/database.

const form = /^(\w+:\/\/(?:[^@/]*@)?)([^/?]*)(.*)$/

export class Hosts {
  readonly #urls: readonly string[]
  #at = 0

  constructor(url: string) {
    const [, before = '', hosts = '', after = ''] = form.exec(url) ?? []
    this.#urls = hosts === '' ? [url] : hosts.split(',').map((host) => before + host + after)
  }

  /** Connection string of the host that is used, or tried next. */
  get url(): string {
    return this.#urls[this.#at]!
  }

  /** The host cannot be used now. */
  next(): void {
    this.#at = (this.#at + 1) % this.#urls.length
  }

  /** Delay before the next attempt after that many failures in a row: one per round of hosts. */
  waitMs(failures: number, backoff: Backoff): number {
    const count = this.#urls.length
    return (failures - 1) % count === 0 ? backoffMs(Math.ceil(failures / count), backoff) : 0
  }
}
