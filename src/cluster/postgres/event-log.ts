// The shared event log: frames under consecutive numbers, appended by the holder of one lease.
// Thread: main.
// An append is one statement. It is fenced by the lease's term and by the next number, so that a
// gateway whose time is over, or that repeats a number, changes nothing. Frames lie in partitions
// of 100,000 numbers, which are dropped whole.
import type { Lease } from '../ports.ts'
import type { Connection, Queries } from './client.ts'

/** Name of the lease that appends are fenced by. */
export const eventsLease = 'events'
const channel = 'events'
/** Numbers that a new run leaves out: no cursor of the last run can be one of its own. */
export const runJump = 65_536

export const eventLogSql = `
CREATE TABLE IF NOT EXISTS event_head (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  run text NOT NULL DEFAULT substr(md5(gen_random_uuid()::text), 1, 16),
  next int8 NOT NULL DEFAULT 1
);
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
CREATE OR REPLACE FUNCTION append_events(
  p_term int8, p_holder text, p_first int8, p_frames bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_last int8 := p_first + cardinality(p_frames) - 1;
  v_part int8;
  v_old text;
BEGIN
  IF NOT holds_events(p_term, p_holder) THEN RETURN false; END IF;
  UPDATE event_head SET next = v_last + 1 WHERE next = p_first;
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
CREATE OR REPLACE FUNCTION renumber_events(p_term int8, p_holder text, p_floor int8)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF NOT holds_events(p_term, p_holder) THEN RETURN false; END IF;
  UPDATE event_head SET run = substr(md5(gen_random_uuid()::text), 1, 16),
    next = greatest(next, p_floor) + ${runJump};
  PERFORM pg_notify('${channel}', '');
  RETURN true;
END $$;`

export interface LogHead {
  readonly run: string
  /** Number of the next frame. */
  readonly next: number
}

export interface LogFrame {
  readonly seq: number
  readonly frame: Buffer
}

export class PostgresEventLog {
  readonly #reading: Connection
  readonly #appending: Queries
  readonly #holder: string

  /** Appends go through the connection that renews the lease. */
  constructor(reading: Connection, appending: Queries, holder: string) {
    this.#reading = reading
    this.#appending = appending
    this.#holder = holder
  }

  async head(): Promise<LogHead> {
    const [head] = await this.#reading.query<LogHead>('SELECT run, next FROM event_head')
    return head!
  }

  /** At most `max` frames after that number, in order. */
  after(seq: number, max: number): Promise<readonly LogFrame[]> {
    return this.#reading.query<LogFrame>(
      'SELECT seq, frame FROM event_frames WHERE seq > $1 ORDER BY seq LIMIT $2',
      [seq, max],
    )
  }

  /** False when the term is over or the number is taken: nothing was appended. */
  async append(lease: Lease, first: number, frames: readonly Uint8Array[]): Promise<boolean> {
    const [row] = await this.#appending.query<{ done: boolean }>(
      'SELECT append_events($1, $2, $3, $4) AS done',
      [lease.term, this.#holder, first, frames],
    )
    return row!.done
  }

  /** Starts another run above all numbers that were sent; false when the term is over. */
  async renumber(lease: Lease, floor: number): Promise<boolean> {
    const [row] = await this.#appending.query<{ done: boolean }>(
      'SELECT renumber_events($1, $2, $3) AS done',
      [lease.term, this.#holder, floor],
    )
    return row!.done
  }

  onNews(notify: () => void): () => void {
    return this.#reading.listen(channel, notify)
  }
}
