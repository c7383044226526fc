// The table of running gateways: each writes its row every second.
import { guarded } from '../../../base/guard.ts'
import type { PostgresConnection } from './client.ts'

/** Facts about a gateway for `sluice status` and fair shares. */
export type GatewayInfo = Readonly<Record<string, string | number | boolean>>

export interface GatewayRow {
  readonly session: string
  readonly name: string
  /** Milliseconds since it last wrote its row, by the server's clock. */
  readonly ageMs: number
  readonly info: GatewayInfo
}

const writeMs = 1_000
/** Rows of gateways that are gone are removed after this. */
const keptHours = 24

/** Writes this gateway's row every second while it runs. */
export class GatewayHeartbeat {
  readonly #connection: PostgresConnection
  readonly #who: { readonly session: string; readonly name: string }
  readonly #info: () => GatewayInfo
  readonly #timer: NodeJS.Timeout
  #isWriting = false

  constructor(
    connection: PostgresConnection,
    who: { readonly session: string; readonly name: string },
    info: () => GatewayInfo,
  ) {
    this.#connection = connection
    this.#who = who
    this.#info = info
    // The connection itself reports that it is down.
    const write = guarded(
      () => this.write(),
      () => {},
    )
    this.#timer = setInterval(write, writeMs)
    write()
  }

  async write(): Promise<void> {
    if (this.#isWriting || !this.#connection.isUp()) return
    this.#isWriting = true
    try {
      await this.#connection.query(
        `WITH gone AS (
           DELETE FROM gateways WHERE seen < clock_timestamp() - interval '${keptHours} hours'
         )
         INSERT INTO gateways VALUES ($1, $2, clock_timestamp(), $3)
         ON CONFLICT (session) DO UPDATE SET seen = excluded.seen, info = excluded.info`,
        [this.#who.session, this.#who.name, JSON.stringify(this.#info())],
      )
    } finally {
      this.#isWriting = false
    }
  }

  /** Removes the row, so that others count one gateway less at once. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#connection
      .query('DELETE FROM gateways WHERE session = $1', [this.#who.session])
      .catch(() => {})
  }
}

/** Gateways of the last day, in the order of their names. */
export function listGateways(connection: PostgresConnection): Promise<GatewayRow[]> {
  return connection.query<GatewayRow>(
    `SELECT session, name, info,
            greatest(0, extract(epoch FROM clock_timestamp() - seen) * 1000)::float8 AS "ageMs"
     FROM gateways ORDER BY name, session`,
  )
}
