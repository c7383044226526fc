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
// second call since then. Spent is what a gateway's share has not refilled itself: see share.ts.
import type { BudgetLedger, SettledRow, SpentRow } from '../ports.ts'
import type { Queries } from './client.ts'

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
