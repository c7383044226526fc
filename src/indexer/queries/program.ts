// The program that answers queries beside the gateway: engine, handler, reports.
// Thread: main of its own process (workers/index-queries.ts).
import type { Log, LogFields } from '../../base/telemetry/log.ts'
import { DATABASE, visibleTables } from '../catalogue.ts'
import type { IndexerSection } from '../config.ts'
import type { QueryEngine } from '../engine.ts'
import { startEngine } from '../engines.ts'
import type { QueryReport } from '../meters.ts'
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
  readonly holder: string | null
  readonly results: ResultAddress
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
  #counts: QueryReport = { processes: 0, busy: 0, kills: [] }
  #opening: Promise<QueryGreeting> | null = null
  #engine: QueryEngine | null = null
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
        sizes: (processes, busy) => this.#changed({ ...this.#counts, processes, busy }),
        killed: (reason) =>
          this.#changed({ ...this.#counts, kills: [...this.#counts.kills, reason] }),
      },
      log: this.#log(),
    })
    this.#engine = engine
    const { begin } = this.#events
    this.#handler = new QueryHandler({ engine, logsSlow: section.slowQueryMs > 0, begin })
    return greetingOf(engine)
  }

  #changed(counts: QueryReport): void {
    this.#counts = counts
    this.#soon ??= setTimeout(() => this.#report(), reportSoonMs)
  }

  #report(): void {
    if (this.#soon !== null) clearTimeout(this.#soon)
    this.#soon = null
    this.#events.report(this.#counts)
    this.#counts = { ...this.#counts, kills: [] }
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

export function greetingOf(engine: QueryEngine): QueryGreeting {
  const shown = visibleTables.filter(({ database }) => database === DATABASE)
  const tables = shown.map(({ name, columns, key }) => ({ name, columns, key }))
  return { engine: engineOf(engine), tables }
}
