-- The schema, and which versions of its SQL were applied.
CREATE SCHEMA IF NOT EXISTS sluice;
SET search_path = sluice;
CREATE TABLE IF NOT EXISTS meta (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  cluster text NOT NULL DEFAULT gen_random_uuid()::text,
  format integer NOT NULL,
  version integer NOT NULL
);
ALTER TABLE meta ADD COLUMN IF NOT EXISTS hashes text[] NOT NULL DEFAULT '{}';
