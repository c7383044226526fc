// The usage of subscriptions over all gateways, in PostgreSQL.
// A gateway numbers its batches: one that is sent again, because its answer was lost, counts once.
import { oldestDayKept, type UsageBatch, type UsageDay } from '../../subscriptions/usage.ts'
import type { WindowTotal } from '../ports.ts'
import type { Queries } from './client.ts'

export const usageSql = `
CREATE TABLE IF NOT EXISTS usage_numbers (
  session text PRIMARY KEY,
  number int8 NOT NULL,
  seen timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS usage_windows (
  id text NOT NULL,
  win integer NOT NULL,
  credits float8 NOT NULL,
  PRIMARY KEY (id, win)
);
CREATE TABLE IF NOT EXISTS usage_days (
  id text NOT NULL,
  day text NOT NULL,
  credits float8 NOT NULL,
  calls float8 NOT NULL,
  refused float8 NOT NULL,
  notifications float8 NOT NULL,
  bytes float8 NOT NULL,
  PRIMARY KEY (id, day)
);
CREATE OR REPLACE FUNCTION add_usage(p_rows json) RETURNS void LANGUAGE sql AS $$
  INSERT INTO usage_windows
    SELECT id, "window", sum(credits)
    FROM json_to_recordset(p_rows) AS r(id text, "window" integer, credits float8)
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (id, win) DO UPDATE SET credits = usage_windows.credits + excluded.credits;
  INSERT INTO usage_days
    SELECT id, day, sum(credits), sum(calls), sum(refused), sum(notifications), sum(bytes)
    FROM json_to_recordset(p_rows) AS r(id text, day text, credits float8, calls float8,
      refused float8, notifications float8, bytes float8)
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (id, day) DO UPDATE SET
      credits = usage_days.credits + excluded.credits,
      calls = usage_days.calls + excluded.calls,
      refused = usage_days.refused + excluded.refused,
      notifications = usage_days.notifications + excluded.notifications,
      bytes = usage_days.bytes + excluded.bytes;
$$;
CREATE OR REPLACE FUNCTION use_credits(
  p_session text, p_number int8, p_rows json, p_oldest text
) RETURNS TABLE (id text, win integer, credits float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_last int8;
BEGIN
  INSERT INTO usage_numbers VALUES (p_session, 0, clock_timestamp()) ON CONFLICT DO NOTHING;
  SELECT n.number INTO v_last FROM usage_numbers n WHERE n.session = p_session FOR UPDATE;
  IF p_number > v_last THEN
    UPDATE usage_numbers n SET number = p_number, seen = clock_timestamp()
      WHERE n.session = p_session;
    PERFORM add_usage(p_rows);
    IF p_number % 1000 = 1 THEN
      DELETE FROM usage_days d WHERE d.day < p_oldest;
      DELETE FROM usage_numbers n WHERE n.seen < clock_timestamp() - interval '90 days';
    END IF;
  END IF;
  RETURN QUERY SELECT w.id, w.win, w.credits
    FROM (SELECT DISTINCT r.id, r."window"
          FROM json_to_recordset(p_rows) AS r(id text, "window" integer)) AS asked
    JOIN usage_windows w ON w.id = asked.id AND w.win = asked."window";
END $$;`

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
