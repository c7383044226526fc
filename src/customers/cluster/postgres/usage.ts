// The usage of subscriptions over all gateways, in PostgreSQL.
// A gateway numbers its batches: one that is sent again, because its answer was lost, counts once.
import { oldestDayKept, type UsageBatch, type UsageDay } from '../../subscriptions/usage.ts'
import type { WindowTotal } from '../ports.ts'
import type { Queries } from './client.ts'

export class PostgresUsage {
  readonly #queries: Queries

  constructor(queries: Queries) {
    this.#queries = queries
  }

  /** Adds a batch, once per number, and returns the cluster's totals of its windows. */
  use({ session, number, rows }: UsageBatch, nowMs: number): Promise<WindowTotal[]> {
    return this.#queries.query<WindowTotal>(
      'SELECT id, win AS window, credits FROM use_credits($1, $2, $3, $4)',
      [session, number, JSON.stringify(rows), oldestDayKept(nowMs)],
    )
  }

  async credits(id: string, window: number): Promise<number> {
    const [row] = await this.#queries.query<{ credits: number }>(
      'SELECT credits FROM usage_windows WHERE id = $1 AND win = $2',
      [id, window],
    )
    return row?.credits ?? 0
  }

  days(id: string): Promise<UsageDay[]> {
    return this.#queries.query<UsageDay>(
      `SELECT day, credits, calls, refused, notifications, bytes
       FROM usage_days WHERE id = $1 ORDER BY day`,
      [id],
    )
  }
}

/** Copies rows of a gateway's own usage table; for seeding, inside its transaction. */
export async function seedUsage(
  queries: Queries,
  windows: readonly WindowTotal[],
  days: readonly (UsageDay & { readonly id: string })[],
): Promise<void> {
  await queries.query(
    `INSERT INTO usage_windows
     SELECT id, "window", credits
     FROM json_to_recordset($1) AS r(id text, "window" integer, credits float8)`,
    [JSON.stringify(windows)],
  )
  await queries.query(
    `INSERT INTO usage_days
     SELECT id, day, credits, calls, refused, notifications, bytes
     FROM json_to_recordset($1) AS r(id text, day text, credits float8, calls float8,
       refused float8, notifications float8, bytes float8)`,
    [JSON.stringify(days)],
  )
}
