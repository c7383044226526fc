-- The event log. 'events' (lease, channel) and 65536 (runJump) are those of base/shared-log.ts.
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
    WHERE name = 'events' AND term = p_term AND holder = p_holder
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
      next = next + 65536
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
  PERFORM pg_notify('events', '');
  RETURN true;
END $$;
CREATE OR REPLACE FUNCTION renumber_events(p_run text, p_floor int8)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE event_head SET run = substr(md5(gen_random_uuid()::text), 1, 16),
    next = p_floor + 65536 WHERE run = p_run AND next < p_floor;
  PERFORM pg_notify('events', '');
END $$;
