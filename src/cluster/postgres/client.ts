// A connection to PostgreSQL that reconnects for ever. The only importer of pg.
// One queue per connection: one statement or one transaction at a time, so that a transaction never
// contains another caller's statement. Nothing waits longer than its bound: a statement that has no
// answer in time ends the connection, because its outcome is unknown.
//
// Of several hosts the one that takes writes is used: after a failover the promoted standby.
//
//   query ─► queue ─► client ─► answer          silence: SELECT 1 every second, 500 ms bound
//                       └─ error, timeout, end ─► reconnect with exponential back-off
import { Socket } from 'node:net'
import { Client, types } from 'pg'
import type { Backoff } from '../../base/backoff.ts'
import type { Clock } from '../../base/clock.ts'
import { Fault, messageOf } from '../../base/errors.ts'
import { type Log, LogThrottle } from '../../telemetry/log.ts'
import { Hosts } from './hosts.ts'

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

const backoff: Backoff = { firstMs: 50, lastMs: 1_000 }
const connectMs = 3_000
const statementMsInitial = 5_000
/** A half-open connection reports nothing by itself: after this long a question is sent. */
const silenceMs = 1_000
const answerMs = 500
/** Statements and transactions that wait for the connection. */
export const queueMax = 1_000
/** SQLSTATE classes of a server that cannot answer now: retrying helps. */
const retryableStates = /^(08|40|53|57|25006|55P03)/

export class Connection implements Queries {
  readonly #options: ConnectionOptions
  readonly #hosts: Hosts
  readonly #throttle = new LogThrottle()
  readonly #channels = new Map<string, Set<() => void>>()
  #client: Client | null = null
  #destroy: () => void = () => {}
  #tail: Promise<unknown> = Promise.resolve()
  #waiting = 0
  #failures = 0
  #answeredMs: number
  #problem = 'not connected yet'
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
    return this.#client !== null
  }

  /** Milliseconds since PostgreSQL last answered here. */
  ageMs(): number {
    return this.#options.clock.monotonicMs() - this.#answeredMs
  }

  /** Why it is not connected; never contains the password. */
  problem(): string {
    return this.#problem
  }

  /** True as soon as it is connected, false after `timeoutMs`. */
  ready(timeoutMs: number): Promise<boolean> {
    if (this.isUp()) return Promise.resolve(true)
    return new Promise((resolve) => {
      const finish = (isReady: boolean) => {
        clearTimeout(timer)
        this.#upWaiters.delete(onUp)
        resolve(isReady)
      }
      const onUp = () => finish(true)
      const timer = setTimeout(() => finish(false), timeoutMs)
      this.#upWaiters.add(onUp)
    })
  }

  query<Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.#enqueue((client) => this.#ask<Row>(client, text, values))
  }

  /** A statement that is answered at once, or the connection is half-open and ends. */
  poll<Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.#enqueue((client) => this.#ask<Row>(client, text, values, answerMs))
  }

  /**
   * Commits what `work` did, or rolls it back when it throws. A rejected promise after the COMMIT
   * was sent leaves the outcome unknown.
   */
  transaction<T>(work: (queries: Queries) => Promise<T>): Promise<T> {
    return this.#enqueue(async (client) => {
      await this.#ask(client, 'BEGIN', [])
      let result: T
      try {
        result = await work({ query: (text, values = []) => this.#ask(client, text, values) })
      } catch (error) {
        if (this.#client === client) await this.#ask(client, 'ROLLBACK', []).catch(() => {})
        throw error
      }
      await this.#ask(client, 'COMMIT', [])
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
    const client = this.#client
    this.#client = null
    this.#problem = 'stopped'
    // An answer that never comes must not keep the process from stopping.
    const hurry = setTimeout(() => this.#destroy(), answerMs)
    await client?.end().catch(() => {})
    clearTimeout(hurry)
    this.#destroy()
  }

  async #connect(): Promise<void> {
    this.#timer = null
    const { name, statementMs = statementMsInitial } = this.#options
    const socket = new Socket()
    this.#destroy = () => socket.destroy()
    try {
      const client = new Client({
        connectionString: this.#hosts.url,
        application_name: `sluice ${name}`.slice(0, 63),
        connectionTimeoutMillis: connectMs,
        statement_timeout: statementMs,
        idle_in_transaction_session_timeout: statementMs,
        keepAlive: true,
        stream: () => socket,
        types: { getTypeParser: parserOf },
      })
      client.on('error', (error) => this.#drop(client, messageOf(error)))
      client.on('end', () => this.#drop(client, 'the connection ended'))
      client.on('notification', ({ channel }) => this.#notify(channel))
      await client.connect()
      await client.query('SET search_path = sluice')
      const { rows } = await client.query('SHOW transaction_read_only')
      if (rows[0].transaction_read_only === 'on') throw new Error('the server is a standby')
      const { onConnect } = this.#options
      await onConnect?.({ query: (text, given = []) => this.#ask(client, text, given) })
      for (const channel of this.#channels.keys()) await client.query(`LISTEN ${channel}`)
      if (this.#isStopped) return void client.end().catch(() => {})
      this.#up(client)
    } catch (error) {
      socket.destroy()
      this.#hosts.next()
      this.#retry(messageOf(error))
    }
  }

  #up(client: Client): void {
    if (this.#failures > 0)
      this.#options.log.info('PostgreSQL is connected again', { connection: this.#options.name })
    this.#client = client
    this.#failures = 0
    this.#problem = ''
    this.#answered()
    this.#timer = setTimeout(() => this.#check(client), silenceMs)
    for (const waiter of [...this.#upWaiters]) waiter()
    for (const channel of this.#channels.keys()) this.#notify(channel)
  }

  /** Asks something after a second of silence; `#ask` ends the connection without an answer. */
  #check(client: Client): void {
    if (this.#client !== client) return
    this.#timer = setTimeout(() => this.#check(client), silenceMs)
    if (this.ageMs() < silenceMs || this.#waiting > 0) return
    this.#enqueue((current) => this.#ask(current, 'SELECT 1', [], answerMs)).catch(() => {})
  }

  #drop(client: Client, problem: string): void {
    if (this.#client !== client) return
    this.#client = null
    this.#destroy()
    this.#retry(problem)
  }

  #retry(problem: string): void {
    this.#problem = problem
    if (this.#timer !== null) clearTimeout(this.#timer)
    if (this.#isStopped) return
    this.#failures++
    const { log, name, clock } = this.#options
    if (this.#throttle.allows('down', clock.monotonicMs()))
      log.warn('PostgreSQL is not connected', { connection: name, reason: problem })
    const waitMs = this.#hosts.waitMs(this.#failures, backoff)
    this.#timer = setTimeout(() => void this.#connect(), waitMs)
  }

  #enqueue<T>(work: (client: Client) => Promise<T>): Promise<T> {
    if (this.#client === null) return Promise.reject(this.#unavailable(this.#problem))
    if (this.#waiting >= queueMax) return Promise.reject(this.#unavailable('its queue is full'))
    this.#waiting++
    const done = this.#tail.then(async () => {
      this.#waiting--
      if (this.#client === null) throw this.#unavailable(this.#problem)
      return await work(this.#client)
    })
    this.#tail = done.catch(() => {})
    return done
  }

  async #ask<Row>(
    client: Client,
    text: string,
    values: readonly unknown[],
    boundMs = (this.#options.statementMs ?? statementMsInitial) + answerMs,
  ): Promise<Row[]> {
    let isAnswered = false
    // After the bound one more turn of the event loop: when this process stalled, the answer is
    // already in the socket and PostgreSQL was not silent.
    const timer = setTimeout(
      () =>
        setImmediate(() => {
          if (!isAnswered) this.#drop(client, 'no answer in time')
        }),
      boundMs,
    )
    try {
      const { rows } = await client.query({ text, values: [...values] })
      this.#answered()
      return rows as Row[]
    } catch (error) {
      throw this.#faultOf(error)
    } finally {
      isAnswered = true
      clearTimeout(timer)
    }
  }

  #answered(): void {
    this.#answeredMs = this.#options.clock.monotonicMs()
  }

  #notify(channel: string): void {
    for (const listener of this.#channels.get(channel) ?? []) listener()
  }

  #faultOf(error: unknown): Fault {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const isState = /^[0-9A-Z]{5}$/.test(code)
    if (isState && !retryableStates.test(code))
      return new Fault('database', messageOf(error), { cause: error })
    return this.#unavailable(messageOf(error), error)
  }

  #unavailable(reason: string, cause?: unknown): Fault {
    const message = `PostgreSQL is unavailable: ${reason}`
    return new Fault('cluster', message, { cause, retryable: true })
  }
}

const int8 = 20

/** Sums and sequence numbers stay far below 2^53. */
function parserOf(type: number, format?: string): (value: string) => unknown {
  if (type === int8) return Number
  // Reason for the cast: pg declares one overload per format.
  return types.getTypeParser(type, format as 'text')
}
