// The consumers of subscriptions over all gateways, in PostgreSQL.
import {
  type ConsumerRow,
  type ConsumerTable,
  consumersMax,
  type HeldName,
  type NamedConsumer,
  unusedDays,
} from '../../subscriptions/consumers.ts'
import type { Queries } from './client.ts'

export class PostgresConsumers implements ConsumerTable {
  readonly #queries: Queries

  constructor(queries: Queries) {
    this.#queries = queries
  }

  async open(id: string, name: string): Promise<Omit<ConsumerRow, 'atMs'> | 'too-many'> {
    const [row] = await this.#queries.query<Omit<ConsumerRow, 'atMs'>>(
      'SELECT term, position FROM open_consumer($1, $2, $3, $4)',
      [id, name, consumersMax, `${unusedDays} days`],
    )
    return row ?? 'too-many'
  }

  commit(held: readonly HeldName[]): Promise<readonly Pick<HeldName, 'id' | 'name'>[]> {
    return this.#queries.query('SELECT id, name FROM commit_consumers($1)', [JSON.stringify(held)])
  }

  list(id: string): Promise<readonly NamedConsumer[]> {
    return this.#queries.query(
      `SELECT name, position, (extract(epoch FROM at) * 1000)::int8 AS "atMs"
       FROM consumers WHERE id = $1 ORDER BY name`,
      [id],
    )
  }

  async remove(id: string, name?: string): Promise<number> {
    const rows = await this.#queries.query(
      'DELETE FROM consumers WHERE id = $1 AND ($2::text IS NULL OR name = $2) RETURNING name',
      [id, name ?? null],
    )
    return rows.length
  }
}

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
