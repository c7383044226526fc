-- Budgets: what is owed and granted of each subscription.
CREATE UNLOGGED TABLE IF NOT EXISTS settlers (
  session text PRIMARY KEY,
  number int8 NOT NULL,
  called float8 NOT NULL,
  before float8 NOT NULL
);
CREATE UNLOGGED TABLE IF NOT EXISTS budgets (
  id text PRIMARY KEY,
  debt float8 NOT NULL,
  rate float8 NOT NULL,
  at float8 NOT NULL,
  hot_since float8 NOT NULL,
  announced float8 NOT NULL,
  sessions text[] NOT NULL,
  granted float8[] NOT NULL,
  seen float8[] NOT NULL
);
CREATE INDEX IF NOT EXISTS budgets_announced ON budgets (announced);
CREATE OR REPLACE FUNCTION settle(
  p_session text, p_number int8, p_ids text[], p_rates float8[], p_bursts float8[],
  p_spent float8[], p_left float8[], p_wanted float8[], p_now float8
) RETURNS TABLE (id text, kind text, granted float8, sharers integer, debt float8)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_now float8 := coalesce(p_now, extract(epoch FROM clock_timestamp()) * 1000);
  v_number int8;
  v_called float8;
  v_last float8;
  v_live integer;
  v_row budgets;
  v_burst float8;
  v_debt float8;
  v_others float8;
  v_withheld float8;
  v_sharers integer;
  v_grant float8;
  v_is_new boolean;
  v_sessions text[];
  v_granted float8[];
  v_seen float8[];
BEGIN
  INSERT INTO settlers VALUES (p_session, 0, '-Infinity', '-Infinity') ON CONFLICT DO NOTHING;
  SELECT s.number, s.called INTO v_number, v_called
    FROM settlers s WHERE s.session = p_session FOR UPDATE;
  -- Nobody called for 2 s: PostgreSQL was away. Who called last will be back, and has a part.
  SELECT max(s.called) INTO v_last FROM settlers s;
  IF v_last < v_now - 2000 THEN
    UPDATE settlers s SET called = v_now WHERE s.session IN (
      SELECT k.session FROM settlers k
        WHERE k.called > v_last - 2000 AND k.session <> p_session FOR UPDATE SKIP LOCKED);
  END IF;
  UPDATE settlers s
    SET number = greatest(s.number, p_number), before = s.called, called = v_now
    WHERE s.session = p_session;
  IF p_number % 600 = 0 THEN
    DELETE FROM settlers s WHERE s.called < v_now - 60000;
    DELETE FROM budgets b
      WHERE b.at < v_now - 60000 AND b.debt < b.rate * (v_now - b.at) / 1000;
  END IF;
  SELECT count(*) INTO v_live FROM settlers s WHERE s.called > v_now - 2000;
  RETURN QUERY SELECT ''::text, 'live'::text, 0::float8, v_live, 0::float8;
  FOR i IN 1 .. coalesce(array_length(p_ids, 1), 0) LOOP
    INSERT INTO budgets VALUES (p_ids[i], 0, p_rates[i], v_now, v_now, v_now, '{}', '{}', '{}')
      ON CONFLICT DO NOTHING;
    SELECT * INTO v_row FROM budgets b WHERE b.id = p_ids[i] FOR UPDATE;
    -- A row that no exchange can have left, or of a clock that was set back, would stay as it is.
    IF (v_row.debt BETWEEN 0 AND 1e300 AND v_row.rate BETWEEN 0 AND 1e300
        AND v_now + 2000 >= ALL (v_row.seen || ARRAY[v_row.at, v_row.hot_since, v_row.announced])
        AND 0 <= ALL (v_row.granted) AND 1e300 >= ALL (v_row.granted)
        AND cardinality(v_row.granted) = cardinality(v_row.sessions)
        AND cardinality(v_row.seen) = cardinality(v_row.sessions)) IS NOT TRUE THEN
      v_row := ROW(p_ids[i], 0, p_rates[i], v_now, v_now, v_now, '{}', '{}', '{}');
    END IF;
    v_burst := p_bursts[i];
    v_debt := greatest(0, v_row.debt - v_row.rate * greatest(0, v_now - v_row.at) / 1000);
    IF p_number > v_number THEN
      v_debt := least(v_debt + p_spent[i], 2 * v_burst);
    END IF;
    v_is_new := true;
    v_sessions := '{}'; v_granted := '{}'; v_seen := '{}';
    v_others := 0; v_sharers := 1;
    FOR k IN 1 .. coalesce(array_length(v_row.sessions, 1), 0) LOOP
      CONTINUE WHEN v_row.seen[k] <= v_now - 2000;
      IF v_row.sessions[k] = p_session THEN
        v_is_new := false;
        CONTINUE;
      END IF;
      v_sessions := v_sessions || v_row.sessions[k];
      v_granted := v_granted || v_row.granted[k];
      v_seen := v_seen || v_row.seen[k];
      v_others := v_others + v_row.granted[k];
      IF v_row.seen[k] > v_now - 1000 THEN v_sharers := v_sharers + 1; END IF;
    END LOOP;
    IF v_is_new AND array_length(v_sessions, 1) IS NULL THEN
      v_row.hot_since := v_now;
      v_row.announced := v_now;
    ELSIF v_row.announced < v_now - 1000 THEN
      v_row.announced := v_now;
    END IF;
    SELECT coalesce(sum(v_burst / v_live), 0) INTO v_withheld FROM settlers s
      WHERE s.called > v_now - 2000 AND s.session <> p_session
        AND NOT s.session = ANY(v_sessions) AND s.before <= v_row.hot_since + 20;
    v_grant := greatest(0, least(
      greatest((v_burst - v_debt) / v_sharers, p_wanted[i]),
      v_burst - v_debt - v_others - v_withheld));
    -- What it has left it may spend until it has the answer.
    UPDATE budgets b SET
      debt = v_debt, rate = p_rates[i], at = greatest(v_row.at, v_now),
      hot_since = v_row.hot_since, announced = v_row.announced,
      sessions = v_sessions || p_session, granted = v_granted || greatest(v_grant, p_left[i]),
      seen = v_seen || v_now
      WHERE b.id = p_ids[i];
    -- The others refill at their old shares until their next exchange.
    IF v_is_new AND v_sharers > 1 THEN v_sharers := 0; END IF;
    RETURN QUERY SELECT p_ids[i], 'mine'::text, v_grant, v_sharers, v_debt;
  END LOOP;
  RETURN QUERY
    SELECT b.id, 'other'::text, 0::float8,
      (SELECT count(*)::integer FROM unnest(b.seen) AS at WHERE at > v_now - 2000),
      greatest(0, b.debt - b.rate * (v_now - b.at) / 1000)
    FROM budgets b
    WHERE b.announced > v_called - 1000 AND NOT b.id = ANY(p_ids)
    ORDER BY b.announced DESC LIMIT 10000;
END $$;
