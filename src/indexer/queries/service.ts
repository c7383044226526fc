// The gateway's side of its query program: starts it, restarts it, ends one that is stuck, and
// keeps its meters.
//
//   endpoint ─► QueryRelay ── calls ──► query program ─► engine: query processes, or a server
//            ◄═ ResultSocket ═════════ bytes of results ════════╝
//
// Queries of a program that ends get 503; the next program answers the next ones.
import type { Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import { restartForever, SupervisedChild } from '../../base/threads/supervisor.ts'
import { type IndexerSection, queriesMax } from '../config.ts'
import { declareQueryProgramMeters, type QueryProgramMeters } from '../meters.ts'
import {
  type QueryLogLine,
  type QueryProgramConfig,
  type QueryReport,
  reportEveryMs,
} from './program.ts'
import type { QueryBegin, QueryGreeting } from './protocol.ts'
import { QueryRelay } from './relay.ts'
import { ResultSocket } from './results.ts'

/** Timeout of opening: the engine starts its first process, or creates tables on a server. */
const openMsMax = 60_000
const stopMsMax = 5_000
/** A program that misses so many reports in a row is stuck: it is killed, and its queries end. */
const missedMax = 10

export interface QueryServiceDeps {
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

  /** Resolves when queries are answered; rejects with a Fault when the engine does not start. */
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
    await this.#child?.stop()
    await this.#results.stop()
  }

  #started(): void {
    this.#missed = 0
    this.queries.closed()
    this.#meters.report({ processes: 0, busy: 0, kills: [] })
    // The first program is opened by `start`. One whose engine does not start makes way for the
    // next, after the back-off of deaths.
    if (this.#child === null) return
    this.#open().catch((error: unknown) => {
      if (this.#isStopping) return
      this.#log.warn('query engine start failed', { reason: messageOf(error) })
      this.#child?.kill()
    })
  }

  async #open(): Promise<void> {
    this.queries.opened(await this.#child!.call<QueryGreeting>('open', this.#config, openMsMax))
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
