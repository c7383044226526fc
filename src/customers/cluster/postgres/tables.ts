// What gateways share in PostgreSQL besides the registry: usage, consumers, budgets, the event log,
// leases and the table of gateways. schema.ts makes the tables.
import type { Clock } from '../../../base/clock.ts'
import { Fault, guarded } from '../../../base/errors.ts'
import type {
  Lease,
  Leases,
  LogFrame,
  LogHead,
  LogStart,
  SharedLog,
} from '../../../base/shared-log.ts'
import {
  type ConsumerRow,
  type ConsumerTable,
  consumersMax,
  type NamedConsumer,
  unusedDays,
} from '../../subscriptions/consumers.ts'
import {
  type UsageBatch,
  type UsageDay,
  usageDaysKept,
  type WindowTotal,
} from '../../subscriptions/usage.ts'
import type { BudgetLedger, SettledRow, SpentRow } from '../ports.ts'
import type { PostgresConnection, Queries } from './client.ts'

/** Batches of a gateway from one removal of old rows to the next. */
const removeBatches = 1_000
/** By the server's clock; at most so many rows that the statement is in time. */
const removeDaysSql = `
WITH numbers AS (
  DELETE FROM usage_numbers WHERE seen < clock_timestamp() - interval '${usageDaysKept} days')
DELETE FROM usage_days WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM usage_days
  WHERE day < to_char((clock_timestamp() AT TIME ZONE 'UTC')::date - ${usageDaysKept}, 'YYYY-MM-DD')
  LIMIT 10000))`

/** A batch that is sent again under its number, because its answer was lost, counts once. */
export const postgresUsage = (queries: Queries) => ({
  /** Adds a batch, once per number, and returns the cluster's totals of its windows. */
  async use({ session, number, rows }: UsageBatch): Promise<WindowTotal[]> {
    const totals = await queries.query<WindowTotal>(
      `SELECT id, win AS window, credits FROM use_credits($1, $2, $3, '')`,
      [session, number, JSON.stringify(rows)],
    )
    // Not awaited: without an answer a later batch does it.
    if (number % removeBatches === 1) queries.query(removeDaysSql).catch(() => {})
    return totals
  },

  async credits(id: string, window: number): Promise<number> {
    const [row] = await queries.query<{ credits: number }>(
      'SELECT credits FROM usage_windows WHERE id = $1 AND win = $2',
      [id, window],
    )
    return row?.credits ?? 0
  },

  days(id: string): Promise<UsageDay[]> {
    return queries.query<UsageDay>(
      `SELECT day, credits, calls, refused, notifications, bytes
       FROM usage_days WHERE id = $1 ORDER BY day`,
      [id],
    )
  },
})

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

export const postgresConsumers = (queries: Queries): ConsumerTable => ({
  async open(id, name) {
    const [row] = await queries.query<Omit<ConsumerRow, 'atMs'>>(
      'SELECT term, position FROM open_consumer($1, $2, $3, $4)',
      [id, name, consumersMax, `${unusedDays} days`],
    )
    return row ?? 'too-many'
  },

  commit(held, batch = 0) {
    const rows = JSON.stringify(held.map((one) => ({ ...one, batch })))
    return queries.query('SELECT id, name FROM commit_consumers($1)', [rows])
  },

  list(id) {
    return queries.query(
      `SELECT name, position, (extract(epoch FROM at) * 1000)::int8 AS "atMs"
       FROM consumers WHERE id = $1 ORDER BY name`,
      [id],
    )
  },

  async remove(id, name) {
    const rows = await queries.query(
      'DELETE FROM consumers WHERE id = $1 AND ($2::text IS NULL OR name = $2) RETURNING name',
      [id, name ?? null],
    )
    return rows.length
  },
})

export interface SeededConsumer extends NamedConsumer {
  readonly id: string
}

/** Copies those of a gateway that was alone; for seeding, inside its transaction. */
export async function seedConsumers(
  queries: Queries,
  consumers: readonly SeededConsumer[],
): Promise<void> {
  await queries.query(
    `INSERT INTO consumers
     SELECT id, name, 0, position, to_timestamp("atMs" / 1000)
     FROM json_to_recordset($1) AS r(id text, name text, position text, "atMs" float8)`,
    [JSON.stringify(consumers)],
  )
}

// The budgets of subscriptions over all gateways, in PostgreSQL.
// One row per subscription, in an unlogged table: after a crash of PostgreSQL every budget is full
// once. The debt is what was spent and is not refilled yet; debt and grants together never exceed
// the burst, so gateways that spend their grants and refill at their share of the rate stay within
// burst + rate x time.
//
//   grant = max(0, min(max((B - debt) / n, wanted), B - debt - granted to others - withheld))
//
// n: gateways that exchanged in the last second. A grant is void after 2 s. Withheld is the advance
// B / N of each gateway that may not know yet that this subscription is in use: it knows after its
// second call since then. Spent is what a gateway's share has not refilled itself: see shares.ts.

export class PostgresLedger implements BudgetLedger {
  readonly #queries: Queries
  readonly #session: string

  constructor(queries: Queries, session: string) {
    this.#queries = queries
    this.#session = session
  }

  /** Settles at most once per number. Rows in the order of their ids: no deadlock. */
  settle(
    number: number,
    rows: readonly SpentRow[],
    nowMs: number | null = null,
  ): Promise<SettledRow[]> {
    const sorted = [...rows].sort((a, b) => (a.id < b.id ? -1 : 1))
    return this.#queries.query<SettledRow>(
      'SELECT * FROM settle($1, $2, $3, $4, $5, $6, $7, $8, $9)',
      [
        this.#session,
        number,
        sorted.map(({ id }) => id),
        sorted.map(({ perSecond }) => perSecond),
        sorted.map(({ burst }) => burst),
        sorted.map(({ spent }) => spent),
        sorted.map(({ left }) => left),
        sorted.map(({ wanted }) => wanted),
        nowMs,
      ],
    )
  }
}

// The shared event log: frames under consecutive numbers, appended by the holder of one lease.
// An append is one statement. It is fenced by the lease's term and by the next number, so that a
// gateway whose time is over, or that repeats a number, changes nothing. Frames lie in partitions
// of 100,000 numbers, which are dropped whole.
//
// A promoted standby or a restored copy may lack the newest frames, which clients already have. It
// has another timeline (or system identifier) than the last append: unless that append waited for a
// synchronous standby, a new run begins above all numbers, whether a gateway remembers them or not.

const channel = 'events'

export class PostgresEventLog implements SharedLog {
  readonly #connection: PostgresConnection
  readonly #holder: string

  /** On the connection that renews the lease. */
  constructor(connection: PostgresConnection, holder: string) {
    this.#connection = connection
    this.#holder = holder
  }

  async head(): Promise<LogHead> {
    const [head] = await this.#connection.poll<LogHead>('SELECT run, next FROM event_head')
    if (head === undefined) throw headless()
    return head
  }

  async start(frames: number): Promise<LogStart> {
    const [start] = await this.#connection.query<LogStart>(
      `WITH head AS (SELECT run, next FROM event_head),
       numbers AS (
         SELECT seq FROM event_frames WHERE seq >= (SELECT next FROM head) - $1
         UNION ALL SELECT next FROM head
       ),
       steps AS (SELECT seq, lag(seq) OVER (ORDER BY seq) AS before FROM numbers)
       SELECT run, next,
         (SELECT max(seq) FROM steps WHERE before IS DISTINCT FROM seq - 1) AS first FROM head`,
      [frames],
    )
    if (start === undefined) throw headless()
    return start
  }

  after(seq: number, max: number): Promise<readonly LogFrame[]> {
    return this.#connection.query<LogFrame>(
      'SELECT seq, frame FROM event_frames WHERE seq > $1 ORDER BY seq LIMIT $2',
      [seq, max],
    )
  }

  async append(lease: Lease, first: number, frames: readonly Uint8Array[]): Promise<boolean> {
    const [row] = await this.#connection.query<{ done: boolean }>(
      'SELECT append_events($1, $2, $3, $4) AS done',
      [lease.term, this.#holder, first, frames],
    )
    return row!.done
  }

  async renumber(run: string, floor: number): Promise<void> {
    await this.#connection.query('SELECT renumber_events($1, $2)', [run, floor])
  }

  onNews(notify: () => void): () => void {
    return this.#connection.listen(channel, notify)
  }
}

function headless(): Fault {
  return new Fault('cluster', 'the table event_head of the database has no row')
}

// Leases as rows with the server's clock.
// A holder that stops renewing loses its leases after their time to live; its own deadline, on its
// own monotonic clock from before the request was sent, is always earlier. Terms only grow, also
// after the database was restored from an older copy, because they start at the time.

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
  /** Of leases that it had, by name. */
  readonly #terms = new Map<string, number>()
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
      this.#terms.clear()
      // Not awaited: it follows in the queue. Without an answer the next hour does it.
      this.#connection.query(removeSql).catch(() => {})
    }
    for (const { name, term } of rows) this.#terms.set(name, term)
    return rows.map(({ name, term }) => ({ name, term, untilMs }))
  }

  /** Fenced: one that arrives late must not end the same lease of a later term. */
  async giveBack(name: string): Promise<void> {
    await this.#connection.query(
      `UPDATE leases SET until = '-infinity' WHERE name = $1 AND holder = $2 AND term = $3`,
      [name, this.#holder, this.#terms.get(name) ?? null],
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
/** The commit waits for no disk and no standby: what a crash loses is written again. */
const beatSql = `
  WITH quick AS (SELECT set_config('synchronous_commit', 'off', true)),
  gone AS (DELETE FROM gateways WHERE seen < clock_timestamp() - interval '24 hours')
  INSERT INTO gateways SELECT $1, $2, clock_timestamp(), $3::json FROM quick
  ON CONFLICT (session) DO UPDATE SET seen = excluded.seen, info = excluded.info`

/** Writes this gateway's row every second while it runs. */
export function startHeartbeat(
  connection: PostgresConnection,
  who: { readonly session: string; readonly name: string },
  info: () => GatewayInfo,
) {
  let [isWriting, isStale] = [false, false]
  const write = async () => {
    isStale = true
    if (isWriting) return
    isWriting = true
    try {
      // What changed during a write is written at once: commands wait for it.
      while (isStale && connection.isUp()) {
        isStale = false
        await connection.poll(beatSql, [who.session, who.name, JSON.stringify(info())])
      }
    } finally {
      isWriting = false
    }
  }
  // The connection itself reports that it is down.
  const tick = guarded(write, () => {})
  const timer = setInterval(tick, writeMs)
  tick()
  return {
    write,
    /** Removes the row, so that others count one gateway less at once. */
    async stop() {
      clearInterval(timer)
      const done = connection.query('DELETE FROM gateways WHERE session = $1', [who.session])
      await done.catch(() => {})
    },
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
