// Creates and upgrades the tables that gateways share, in the schema `sluice`.
// One transaction under an advisory lock, so that gateways that start at once do it once. Gateways
// of different versions share the tables: columns are only added, functions keep their arguments,
// and a database of a later format is refused.
import { Fault } from '../../base/errors.ts'
import type { Queries } from './client.ts'
import { eventLogSql } from './event-log.ts'
import { gatewaysSql } from './gateways.ts'
import { leasesSql } from './leases.ts'
import { ledgerSql } from './ledger.ts'
import { registrySql } from './registry-rows.ts'
import { usageSql } from './usage.ts'

/** Raised by a change that an older version cannot work with. */
const formatHere = 1
/** Raised by every change of `parts`. */
const versionHere = 7
/** Any number that no other program uses for its advisory locks. */
const lockNumber = 7_205_759_403

/** Idempotent SQL, one part per port. */
const parts: readonly string[] = [
  gatewaysSql,
  leasesSql,
  registrySql,
  usageSql,
  ledgerSql,
  eventLogSql,
]

const metaSql = `
CREATE SCHEMA IF NOT EXISTS sluice;
SET search_path = sluice;
CREATE TABLE IF NOT EXISTS meta (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  cluster text NOT NULL DEFAULT gen_random_uuid()::text,
  format integer NOT NULL,
  version integer NOT NULL
);`

interface Meta {
  readonly format: number
  readonly version: number
}

/** Brings the schema to this version. Throws a `Fault` when the database is of a later format. */
export async function prepareSchema(queries: Queries): Promise<void> {
  if ((await versionOf(queries)) >= versionHere) return
  await queries.query('BEGIN')
  try {
    await queries.query('SELECT pg_advisory_xact_lock($1)', [lockNumber])
    if ((await versionOf(queries)) < versionHere) {
      await queries.query(metaSql)
      for (const part of parts) await queries.query(part)
      await queries.query(
        `INSERT INTO meta (format, version) VALUES ($1, $2)
         ON CONFLICT (one) DO UPDATE SET format = $1, version = $2`,
        [formatHere, versionHere],
      )
    }
    await queries.query('COMMIT')
  } catch (error) {
    await queries.query('ROLLBACK').catch(() => {})
    throw error
  }
}

/** Version of the tables; 0 when there are none. */
async function versionOf(queries: Queries): Promise<number> {
  const [found] = await queries.query<{ isThere: boolean }>(
    `SELECT to_regclass('sluice.meta') IS NOT NULL AS "isThere"`,
  )
  if (found?.isThere !== true) return 0
  const [meta] = await queries.query<Meta>('SELECT format, version FROM sluice.meta')
  if (meta === undefined) return 0
  if (meta.format > formatHere)
    throw new Fault('cluster-format', `the cluster has the later format ${meta.format}: upgrade`)
  return meta.version
}
