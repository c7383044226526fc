-- Usage per billing window and per day, and the last batch of each gateway.
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
-- p_oldest is of gateways before, whose batches also removed old days.
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
  END IF;
  RETURN QUERY SELECT w.id, w.win, w.credits
    FROM (SELECT DISTINCT r.id, r."window"
          FROM json_to_recordset(p_rows) AS r(id text, "window" integer)) AS asked
    JOIN usage_windows w ON w.id = asked.id AND w.win = asked."window";
END $$;
