// Creates and upgrades the tables that gateways share, in the schema `sluice`.
// One transaction under an advisory lock, so that gateways that start at once do it once. Gateways
// of different versions share the tables: columns are only added, functions keep their arguments,
// and a database of a later format is refused.
//
// A version is the hash of its SQL. The database has those that were applied, and each is applied
// once: a gateway of the version before, which reconnects beside later ones, takes nothing back.
import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Fault } from '../../../base/errors.ts'
import type { Queries } from './client.ts'

/** Raised by a change that an older version cannot work with. */
const formatHere = 1
/** Versions had numbers before they were hashes: those gateways apply their own SQL below this. */
const lastNumber = 7
/** Any number that no other program uses for its advisory locks. */
const lockNumber = 7_205_759_403

/** Idempotent SQL, one file per port; the first creates the schema that the others are in. */
const parts: readonly string[] = [
  'meta',
  'gateways',
  'leases',
  'registry',
  'usage',
  'consumers',
  'ledger',
  'event-log',
].map((name) => readFileSync(new URL(`${name}.sql`, import.meta.url), 'utf8'))

const hashHere = hash('sha256', parts.join('\n'), 'hex').slice(0, 16)

interface Meta {
  readonly format: number
  readonly hashes: readonly string[]
}

/** Brings the schema to this version. Throws a `Fault` when the database is of a later format. */
export async function prepareSchema(queries: Queries): Promise<void> {
  if (await isApplied(queries)) return
  await queries.query('BEGIN')
  try {
    await queries.query('SELECT pg_advisory_xact_lock($1)', [lockNumber])
    if (!(await isApplied(queries))) {
      for (const part of parts) await queries.query(part)
      await queries.query(
        `INSERT INTO meta (format, version, hashes) VALUES ($1, $2, ARRAY[$3])
         ON CONFLICT (one) DO UPDATE
         SET format = $1, version = $2, hashes = meta.hashes || $3::text`,
        [formatHere, lastNumber, hashHere],
      )
    }
    await queries.query('COMMIT')
  } catch (error) {
    await queries.query('ROLLBACK').catch(() => {})
    throw error
  }
}

/** Whether the SQL of this version has been applied. */
async function isApplied(queries: Queries): Promise<boolean> {
  const [found] = await queries.query<{ isThere: boolean }>(
    `SELECT to_regclass('sluice.meta') IS NOT NULL AS "isThere"`,
  )
  if (found?.isThere !== true) return false
  // Through JSON: the table of a version with a number has no such column.
  const [meta] = await queries.query<Meta>(
    `SELECT format, coalesce(to_json(m)->'hashes', '[]') AS hashes FROM sluice.meta m`,
  )
  if (meta === undefined) return false
  if (meta.format > formatHere)
    throw new Fault(
      'cluster-format',
      `the database of cluster.url has format ${meta.format}, written by a later release; this ` +
        `release reads up to format ${formatHere}: use a release that is at least as new`,
    )
  return meta.hashes.includes(hashHere)
}
