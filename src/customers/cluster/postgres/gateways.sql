-- Gateways that run, or ran within a day.
CREATE TABLE IF NOT EXISTS gateways (
  session text PRIMARY KEY,
  name text NOT NULL,
  seen timestamptz NOT NULL,
  info json NOT NULL
);
