// Digests of the transactions that gateways sent, in an unlogged table.
// A digest has one row: that of the gateway that published it first. All digests of one batch have
// the number of the batch: microseconds since 1970, always larger than the last, so that a reader's
// position stays valid when a crash of PostgreSQL has emptied the table. Batches are numbered under
// a lock until they are committed: a reader that saw a number sees no smaller one later. After a
// failover to a server whose clock is behind, nothing is learned until it has caught up.
import type { DigestBatch, Digests } from '../ports.ts'
import type { Connection } from './client.ts'

/** Any number that no other program uses for its advisory locks. */
const lockNumber = 7_205_759_404
/** As long as the TPU Sender remembers a duplicate. */
const keptMsUsual = 120_000

export const digestsSql = `
CREATE UNLOGGED TABLE IF NOT EXISTS sent_digests (
  digest bytea PRIMARY KEY,
  number int8 NOT NULL,
  session text NOT NULL
);
CREATE INDEX IF NOT EXISTS sent_digests_number ON sent_digests (number);
CREATE OR REPLACE FUNCTION send_digests(p_session text, p_digests bytea[], p_kept_ms integer)
RETURNS SETOF bytea LANGUAGE plpgsql AS $$
DECLARE
  v_now int8;
  v_number int8;
BEGIN
  -- The rows do not survive a crash: the commit need not wait for a disk or a standby.
  PERFORM set_config('synchronous_commit', 'off', true);
  PERFORM pg_advisory_xact_lock(${lockNumber});
  v_now := (extract(epoch FROM clock_timestamp()) * 1000000)::int8;
  SELECT greatest(v_now, max(number) + 1) INTO v_number FROM sent_digests;
  DELETE FROM sent_digests WHERE number < v_now - p_kept_ms::int8 * 1000;
  INSERT INTO sent_digests SELECT given, v_number, p_session FROM unnest(p_digests) AS given
    ON CONFLICT DO NOTHING;
  PERFORM pg_notify('digests', '');
  RETURN QUERY SELECT s.digest FROM sent_digests s
    WHERE s.digest = ANY(p_digests) AND s.session <> p_session;
END $$;`

interface Row {
  readonly number: number
  readonly age_ms: number
  readonly digests: Buffer[] | null
}

export class PostgresDigests implements Digests {
  readonly #connection: Pick<Connection, 'query' | 'listen'>
  readonly #session: string
  readonly #keptMs: number

  /** Rows are removed after `keptMs`. */
  constructor(
    connection: Pick<Connection, 'query' | 'listen'>,
    session: string,
    keptMs = keptMsUsual,
  ) {
    this.#connection = connection
    this.#session = session
    this.#keptMs = keptMs
  }

  async send(digests: readonly Uint8Array[]): Promise<readonly Uint8Array[]> {
    const rows = await this.#connection.query<{ digest: Buffer }>(
      'SELECT send_digests($1, $2, $3) AS digest',
      [this.#session, digests, this.#keptMs],
    )
    return rows.map(({ digest }) => digest)
  }

  listen(onNotify: () => void): () => void {
    return this.#connection.listen('digests', onNotify)
  }

  async after(number: number, max: number): Promise<readonly DigestBatch[]> {
    // Batches of this gateway come without digests: they only move the reader's position.
    const rows = await this.#connection.query<Row>(
      `SELECT number, extract(epoch FROM clock_timestamp())::float8 * 1000 - number / 1000.0::float8
         AS age_ms, array_agg(digest) FILTER (WHERE session <> $2) AS digests
       FROM sent_digests WHERE number > $1 GROUP BY number ORDER BY number LIMIT $3`,
      [number, this.#session, max],
    )
    return rows.map((row) => ({
      number: row.number,
      ageMs: row.age_ms,
      digests: row.digests ?? [],
    }))
  }
}
