// Leases as rows with the server's clock.
// A holder that stops renewing loses its leases after their time to live; its own deadline, on its
// own monotonic clock from before the request was sent, is always earlier. Terms only grow, also
// after the database was restored from an older copy, because they start at the time.

import type { Clock } from '../../../base/clock.ts'
import type { Lease, Leases } from '../../../base/shared-log.ts'
import type { PostgresConnection } from './client.ts'

/** The holder stops this long before the server would give the lease to another. */
const marginMs = 100
/** Rows of gateways and subscriptions that are gone are removed this often. */
const removeMs = 3_600_000
/** A term is the time at which it began, or a little more: the next holder of the name has more. */
const removeSql = `
DELETE FROM leases WHERE name = ANY(ARRAY(
  SELECT l.name FROM leases l
  WHERE l.until < clock_timestamp() - interval '1 hour'
    AND l.term < extract(epoch FROM clock_timestamp() - interval '1 hour') * 1000
  FOR UPDATE SKIP LOCKED))`

export class PostgresLeases implements Leases {
  readonly #connection: PostgresConnection
  readonly #holder: string
  readonly #info: string
  readonly #clock: Clock
  #removedMs = Number.NEGATIVE_INFINITY

  /** `info` is shown to others with the lease: an address, or the gateway's name. */
  constructor(
    connection: PostgresConnection,
    { holder, info, clock }: { holder: string; info: string; clock: Clock },
  ) {
    this.#connection = connection
    this.#holder = holder
    this.#info = info
    this.#clock = clock
  }

  async hold(names: readonly string[], ttlMs: number, max: number): Promise<readonly Lease[]> {
    if (names.length === 0) return []
    const nowMs = this.#clock.monotonicMs()
    const untilMs = nowMs + ttlMs - marginMs
    const rows = await this.#connection.query<{ name: string; term: number }>(
      'SELECT name, term FROM hold_leases($1, $2, $3, $4, $5)',
      [names, this.#holder, this.#info, ttlMs, max],
    )
    if (nowMs - this.#removedMs > removeMs) {
      this.#removedMs = nowMs
      // Not awaited: it follows in the queue. Without an answer the next hour does it.
      this.#connection.query(removeSql).catch(() => {})
    }
    return rows.map(({ name, term }) => ({ name, term, untilMs }))
  }

  async giveBack(name: string): Promise<void> {
    await this.#connection.query(
      `UPDATE leases SET until = '-infinity' WHERE name = $1 AND holder = $2`,
      [name, this.#holder],
    )
  }

  /** How many leases with names that start so are held now, and how many of them before `name`. */
  async rankOf(prefix: string, name: string): Promise<{ live: number; before: number }> {
    const [row] = await this.#connection.query<{ live: number; before: number }>(
      `SELECT count(*) AS live, count(*) FILTER (WHERE name < $2) AS before FROM leases
       WHERE starts_with(name, $1) AND until > clock_timestamp()`,
      [prefix, name],
    )
    return row ?? { live: 0, before: 0 }
  }
}
