-- Leases: terms only grow, times are those of the server.
CREATE TABLE IF NOT EXISTS leases (
  name text PRIMARY KEY,
  term int8 NOT NULL,
  holder text NOT NULL,
  info text NOT NULL,
  until timestamptz NOT NULL
);
CREATE OR REPLACE FUNCTION hold_leases(
  p_names text[], p_holder text, p_info text, p_ttl_ms integer, p_max integer
) RETURNS TABLE (name text, term int8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_until timestamptz := v_now + p_ttl_ms * interval '1 millisecond';
  v_held integer;
BEGIN
  INSERT INTO leases
    SELECT wanted, 0, '', '', '-infinity' FROM unnest(p_names) AS wanted
    WHERE NOT EXISTS (SELECT 1 FROM leases l WHERE l.name = wanted)
    ON CONFLICT DO NOTHING;
  UPDATE leases l SET until = v_until, info = p_info
    WHERE l.name = ANY(p_names) AND l.holder = p_holder AND l.until > v_now;
  GET DIAGNOSTICS v_held = ROW_COUNT;
  -- A subquery in IN would be evaluated more than once and take more than its LIMIT.
  UPDATE leases l
    SET term = greatest(l.term + 1, (extract(epoch FROM v_now) * 1000)::int8),
        holder = p_holder, info = p_info, until = v_until
    WHERE l.name = ANY(ARRAY(
      SELECT f.name FROM leases f
      WHERE f.name = ANY(p_names) AND f.until <= v_now
      ORDER BY f.name LIMIT greatest(0, p_max - v_held) FOR UPDATE SKIP LOCKED));
  RETURN QUERY SELECT l.name, l.term FROM leases l
    WHERE l.name = ANY(p_names) AND l.holder = p_holder AND l.until > v_now
    ORDER BY l.name;
END $$;
