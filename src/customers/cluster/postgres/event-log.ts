// The shared event log: frames under consecutive numbers, appended by the holder of one lease.
// An append is one statement. It is fenced by the lease's term and by the next number, so that a
// gateway whose time is over, or that repeats a number, changes nothing. Frames lie in partitions
// of 100,000 numbers, which are dropped whole.
//
// A promoted standby or a restored copy may lack the newest frames, which clients already have. It
// has another timeline (or system identifier) than the last append: unless that append waited for a
// synchronous standby, a new run begins above all numbers, whether a gateway remembers them or not.
import { Fault } from '../../../base/errors.ts'
import {
  eventsLease,
  type Lease,
  type LogFrame,
  type LogHead,
  type LogStart,
  runJump,
  type SharedLog,
} from '../../../base/shared-log.ts'
import type { PostgresConnection } from './client.ts'

const channel = 'events'

export const eventLogSql = `
CREATE TABLE IF NOT EXISTS event_head (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  run text NOT NULL DEFAULT substr(md5(gen_random_uuid()::text), 1, 16),
  next int8 NOT NULL DEFAULT 1
);
-- Where the last append was made, and whether a standby had it before anybody saw it.
ALTER TABLE event_head ADD COLUMN IF NOT EXISTS origin text NOT NULL DEFAULT '';
ALTER TABLE event_head ADD COLUMN IF NOT EXISTS is_replicated boolean NOT NULL DEFAULT false;
INSERT INTO event_head DEFAULT VALUES ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS event_frames (
  seq int8 PRIMARY KEY,
  frame bytea NOT NULL
) PARTITION BY RANGE (seq);
CREATE OR REPLACE FUNCTION holds_events(p_term int8, p_holder text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  -- Another gateway takes the lease only after this transaction.
  PERFORM 1 FROM leases
    WHERE name = '${eventsLease}' AND term = p_term AND holder = p_holder
      AND until > clock_timestamp() FOR SHARE;
  RETURN FOUND;
END $$;
CREATE OR REPLACE FUNCTION event_origin() RETURNS text LANGUAGE sql AS $$
  SELECT system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
    FROM pg_control_system()
$$;
CREATE OR REPLACE FUNCTION waits_for_standby() RETURNS boolean LANGUAGE sql AS $$
  SELECT current_setting('synchronous_standby_names') <> ''
    AND current_setting('synchronous_commit') IN ('on', 'remote_apply', 'remote_write')
$$;
CREATE OR REPLACE FUNCTION append_events(
  p_term int8, p_holder text, p_first int8, p_frames bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_last int8 := p_first + cardinality(p_frames) - 1;
  v_part int8;
  v_old text;
  v_origin text := event_origin();
BEGIN
  IF NOT holds_events(p_term, p_holder) THEN RETURN false; END IF;
  -- The first append of another origin. A dump that was restored has another system identifier.
  UPDATE event_head SET origin = v_origin, run = substr(md5(gen_random_uuid()::text), 1, 16),
      next = next + ${runJump}
    WHERE origin NOT IN ('', v_origin)
      AND NOT (is_replicated AND split_part(origin, '/', 1) = split_part(v_origin, '/', 1));
  UPDATE event_head
    SET next = v_last + 1, origin = v_origin, is_replicated = waits_for_standby()
    WHERE next = p_first;
  -- The new run stays: the next append has its number.
  IF NOT FOUND THEN RETURN false; END IF;
  FOR v_part IN SELECT generate_series(p_first / 100000, v_last / 100000) LOOP
    CONTINUE WHEN to_regclass('event_frames_' || v_part) IS NOT NULL;
    EXECUTE format('CREATE TABLE event_frames_%s PARTITION OF event_frames
      FOR VALUES FROM (%s) TO (%s)', v_part, v_part * 100000, (v_part + 1) * 100000);
    FOR v_old IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = 'event_frames'::regclass
        AND substr(c.relname, 14)::int8 < v_part - 2 LOOP
      EXECUTE format('DROP TABLE %I', v_old);
    END LOOP;
  END LOOP;
  INSERT INTO event_frames
    SELECT p_first + at - 1, frame FROM unnest(p_frames) WITH ORDINALITY AS given(frame, at);
  PERFORM pg_notify('${channel}', '');
  RETURN true;
END $$;
CREATE OR REPLACE FUNCTION renumber_events(p_run text, p_floor int8)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE event_head SET run = substr(md5(gen_random_uuid()::text), 1, 16),
    next = p_floor + ${runJump} WHERE run = p_run AND next < p_floor;
  PERFORM pg_notify('${channel}', '');
END $$;`

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
