// The program that answers queries beside the gateway: its engine, its handler, and what it reports.
// Thread: main of its own process (workers/index-queries.ts).
import type { Log, LogFields } from '../../base/telemetry/log.ts'
import { DATABASE, visibleTables } from '../catalogue.ts'
import type { IndexerSection } from '../config.ts'
import type { SendingEngine } from '../engine.ts'
import { startEngine } from '../engines.ts'
import type { KillReason } from '../meters.ts'
import { engineOf, QueryHandler } from './handler.ts'
import type { QueryBegin, QueryGreeting, ResultAddress } from './protocol.ts'

/** The gateway ends a program that reports nothing for several of these. */
export const reportEveryMs = 1_000
/** After a change. */
const reportSoonMs = 20

export interface QueryProgramConfig {
  readonly section: Pick<IndexerSection, 'engine' | 'url' | 'queryUrl' | 'slowQueryMs'>
  /** Folder of DuckDB's files. */
  readonly folder: string
  /** Names this server in the writer lease of ClickHouse. */
  readonly holder: string
  readonly results: ResultAddress
}

/** Query processes now, and those that were killed since the last report. */
export interface QueryReport {
  readonly processes: number
  readonly busy: number
  readonly kills: readonly KillReason[]
}

export interface QueryLogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly msg: string
  readonly fields: LogFields
}

export interface QueryProgramEvents {
  begin(head: QueryBegin): void
  report(report: QueryReport): void
  log(line: QueryLogLine): void
}

export class QueryProgram {
  readonly #events: QueryProgramEvents
  readonly #every: NodeJS.Timeout
  #soon: NodeJS.Timeout | null = null
  #processes = 0
  #busy = 0
  #kills: KillReason[] = []
  #opening: Promise<QueryGreeting> | null = null
  #engine: SendingEngine | null = null
  #handler: QueryHandler | null = null

  constructor(events: QueryProgramEvents) {
    this.#events = events
    this.#every = setInterval(() => this.#report(), reportEveryMs)
  }

  /** Starts the engine; may be repeated when it failed. */
  open(config: QueryProgramConfig): Promise<QueryGreeting> {
    this.#opening ??= this.#open(config).catch((error: unknown) => {
      this.#opening = null
      throw error
    })
    return this.#opening
  }

  /** Throws before `open`. */
  get handler(): QueryHandler {
    if (this.#handler === null) throw new Error('the program is not open')
    return this.#handler
  }

  async stop(): Promise<void> {
    clearInterval(this.#every)
    await this.#opening?.catch(() => {})
    await this.#engine?.stop()
  }

  async #open({ section, ...places }: QueryProgramConfig): Promise<QueryGreeting> {
    const engine = await startEngine(section, {
      ...places,
      meters: {
        processes: { set: (count) => this.#count({ processes: count }) },
        busy: { set: (count) => this.#count({ busy: count }) },
        killed: (reason) => {
          this.#kills.push(reason)
          this.#reportSoon()
        },
      },
      log: this.#log(),
    })
    this.#engine = engine
    const { begin } = this.#events
    this.#handler = new QueryHandler({ engine, logsSlow: section.slowQueryMs > 0, begin })
    return greetingOf(engine)
  }

  #count({ processes = this.#processes, busy = this.#busy }): void {
    if (processes === this.#processes && busy === this.#busy) return
    this.#processes = processes
    this.#busy = busy
    this.#reportSoon()
  }

  #reportSoon(): void {
    this.#soon ??= setTimeout(() => this.#report(), reportSoonMs)
  }

  #report(): void {
    if (this.#soon !== null) clearTimeout(this.#soon)
    this.#soon = null
    this.#events.report({ processes: this.#processes, busy: this.#busy, kills: this.#kills })
    this.#kills = []
  }

  #log(): Log {
    const line =
      (level: QueryLogLine['level']) =>
      (msg: string, fields: LogFields = {}) =>
        this.#events.log({ level, msg, fields })
    const log: Log = {
      ...{ debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') },
      area: () => log,
    }
    return log
  }
}

export function greetingOf(engine: SendingEngine): QueryGreeting {
  const shown = visibleTables.filter(({ database }) => database === DATABASE)
  const tables = shown.map(({ name, columns, key }) => ({ name, columns, key }))
  return { engine: engineOf(engine), tables }
}
