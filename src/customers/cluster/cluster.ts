// The connections of this gateway to the PostgreSQL of its cluster.
// No request waits for them: ports keep their last state in memory and exchange it in between.
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/telemetry/log.ts'
import type { ClusterSection } from './config.ts'
import { PostgresConnection } from './postgres/client.ts'
import { prepareSchema } from './postgres/schema.ts'
import { type GatewayRow, listGateways, PostgresLeases, startHeartbeat } from './postgres/tables.ts'

export interface ClusterDeps {
  readonly clock: Clock
  readonly log: Log
}

/** Of one statement of the leases: those of destinations are over after that. */
const leasingMs = 2_000

export class Cluster {
  /** Name of this gateway for people. */
  readonly gateway: string
  /** Unique to this process: leases and exchange numbers belong to it. */
  readonly session: string
  /** Follows the registry, and says so: LISTEN and polls, by which a half-open one is noticed. */
  readonly reading: PostgresConnection
  /** Durable changes: registry, usage. */
  readonly writing: PostgresConnection
  readonly #config: ClusterSection
  readonly #deps: ClusterDeps
  /** The connections that were opened, by name. */
  readonly connections = new Map<string, PostgresConnection>()
  readonly #info = new Map<string, () => string | number | boolean>()
  #heartbeat: ReturnType<typeof startHeartbeat> | null = null

  constructor(config: ClusterSection, deps: ClusterDeps) {
    this.#config = config
    this.#deps = { ...deps, log: deps.log.area('cluster') }
    this.gateway = config.gateway || hostname().slice(0, 64)
    this.session = `${this.gateway}/${randomUUID()}`
    this.reading = this.connect('reading')
    this.writing = this.connect('writing')
  }

  /** Shares of budgets, many times a second: waits for rows that other gateways have locked. */
  get exchanging(): PostgresConnection {
    return this.connections.get('exchanging') ?? this.connect('exchanging')
  }

  /** Leases, and nothing that another gateway may delay: they end when they are not renewed. */
  get leasing(): PostgresConnection {
    return this.connections.get('leasing') ?? this.connect('leasing', leasingMs)
  }

  /** Adds this gateway to the table of gateways while it runs. A command does not. */
  announce(): void {
    const who = { session: this.session, name: this.gateway }
    this.#heartbeat = startHeartbeat(this.reading, who, () =>
      Object.fromEntries([...this.#info].map(([name, read]) => [name, read()])),
    )
  }

  /** A connection of its own; stopped with the cluster. */
  connect(name: string, statementMs?: number): PostgresConnection {
    const { clock, log } = this.#deps
    const connection = new PostgresConnection({
      url: this.#config.url,
      name: `${this.gateway} ${name}`,
      clock,
      log,
      onConnect: prepareSchema,
      ...(statementMs !== undefined && { statementMs }),
    }).start()
    this.connections.set(name, connection)
    return connection
  }

  /** Leases that are renewed on that connection, by the work that they guard. */
  leasesOn(connection: PostgresConnection, info = this.gateway): PostgresLeases {
    return new PostgresLeases(connection, { holder: this.session, info, clock: this.#deps.clock })
  }

  /** Gateways of the last day. */
  gateways(): Promise<GatewayRow[]> {
    return listGateways(this.reading)
  }

  /** Adds a fact to this gateway's row in the table of gateways. */
  publish(name: string, read: () => string | number | boolean): void {
    this.#info.set(name, read)
  }

  /** Writes this gateway's row now instead of within a second. */
  async beat(): Promise<void> {
    // The next one is due within a second.
    await this.#heartbeat?.write().catch(() => {})
  }

  /** Milliseconds since PostgreSQL last answered. */
  ageMs(): number {
    return this.reading.ageMs()
  }

  async stop(): Promise<void> {
    await this.#heartbeat?.stop()
    const all = [...this.connections.values()]
    await Promise.all(all.map((connection) => connection.stop()))
  }
}
