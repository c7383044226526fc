-- Subscriptions, their audit chain and the names that they own.
CREATE TABLE IF NOT EXISTS head (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  seq int8 NOT NULL,
  hash text NOT NULL
);
CREATE TABLE IF NOT EXISTS audit (seq int8 PRIMARY KEY, entry json NOT NULL);
CREATE TABLE IF NOT EXISTS records (
  id text PRIMARY KEY,
  seq int8 NOT NULL,
  record json NOT NULL
);
CREATE TABLE IF NOT EXISTS names (name text PRIMARY KEY, owner text NOT NULL);
CREATE INDEX IF NOT EXISTS names_owner ON names (owner);
