-- Where the consumers of subscriptions are; a term grows with each stream that takes a name over.
CREATE TABLE IF NOT EXISTS consumers (
  id text NOT NULL,
  name text NOT NULL,
  term int8 NOT NULL,
  position text,
  at timestamptz NOT NULL,
  PRIMARY KEY (id, name)
);
ALTER TABLE consumers ADD COLUMN IF NOT EXISTS batch int8 NOT NULL DEFAULT 0;
CREATE OR REPLACE FUNCTION open_consumer(p_id text, p_name text, p_max integer, p_unused interval)
RETURNS TABLE (term int8, "position" text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  -- One at a time for a subscription: they are counted.
  PERFORM pg_advisory_xact_lock(hashtextextended('consumers ' || p_id, 0));
  DELETE FROM consumers c WHERE c.id = p_id AND c.name <> p_name AND c.at < v_now - p_unused;
  IF NOT EXISTS (SELECT 1 FROM consumers c WHERE c.id = p_id AND c.name = p_name)
    AND (SELECT count(*) FROM consumers c WHERE c.id = p_id) >= p_max THEN
    RETURN;
  END IF;
  RETURN QUERY INSERT INTO consumers AS c
    VALUES (p_id, p_name, (extract(epoch FROM v_now) * 1000)::int8, NULL, v_now)
    ON CONFLICT (id, name) DO UPDATE
      SET term = greatest(c.term + 1, excluded.term), at = v_now, batch = 0
    RETURNING c.term, c.position;
END $$;
CREATE OR REPLACE FUNCTION commit_consumers(p_rows json)
RETURNS TABLE (id text, name text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  -- One whose answer was given up may come after the next one, which has a later position.
  UPDATE consumers c SET position = r.position, at = clock_timestamp(),
      batch = greatest(c.batch, r.batch)
    FROM json_to_recordset(p_rows) AS r(id text, name text, term int8, position text, batch int8)
    WHERE c.id = r.id AND c.name = r.name AND c.term = r.term AND r.position IS NOT NULL
      AND c.batch <= coalesce(r.batch, c.batch);
  RETURN QUERY SELECT r.id, r.name
    FROM json_to_recordset(p_rows) AS r(id text, name text, term int8)
    WHERE NOT EXISTS (SELECT 1 FROM consumers c
      WHERE c.id = r.id AND c.name = r.name AND c.term = r.term);
END $$;
