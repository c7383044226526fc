// The tables of the shared registry and the statements that read and write them.
import { Fault } from '../../../base/errors.ts'
import type { AuditEntry, AuditHead } from '../../subscriptions/audit.ts'
import { issueId } from '../../subscriptions/issue.ts'
import { namesOf } from '../../subscriptions/planned-change.ts'
import type { Registered } from '../../subscriptions/subscription.ts'
import type { Queries } from './client.ts'

/** Notified with the number of each new change. */
export const newsChannel = 'registry'
/** Entries that one statement sends or reads. */
export const entriesMax = 1_000

export function notSeeded(): Fault {
  return new Fault(
    'cluster-empty',
    'the database of cluster.url has no registry: run npx --no -- sluice cluster seed once',
  )
}

export function forked(seq: number): Fault {
  return new Fault(
    'cluster-fork',
    `the database has another change ${seq} than this gateway: see Several gateways in ` +
      'docs/OPERATING.md',
  )
}

export async function lockedHead(
  queries: Queries,
): Promise<AuditHead & { readonly nowMs: number }> {
  const [head] = await queries.query<AuditHead & { nowMs: number }>(
    `SELECT seq, hash, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 AS "nowMs"
     FROM head FOR UPDATE`,
  )
  if (head === undefined) throw notSeeded()
  return head
}

/** By id, by the label in use, else the newest ended one with that label. */
export async function findRecord(queries: Queries, ref: string): Promise<Registered | null> {
  const [row] = await queries.query<{ record: Registered }>(
    `SELECT record FROM (
       SELECT 0 AS rank, '' AS at, record FROM records WHERE id = $1
       UNION ALL
       SELECT 1, '', record FROM records
         WHERE id = (SELECT owner FROM names WHERE name = 'label:' || $1)
       UNION ALL
       SELECT 2, (record->'subscription'->>'createdAt') || id, record FROM records
         WHERE record->'subscription'->>'label' = $1
     ) AS found ORDER BY rank, at COLLATE "C" DESC LIMIT 1`,
    [ref],
  )
  return row?.record ?? null
}

export async function freshId(queries: Queries): Promise<string> {
  for (;;) {
    const id = issueId()
    const taken = await queries.query('SELECT 1 FROM records WHERE id = $1', [id])
    if (taken.length === 0) return id
  }
}

/** Writes entries, the newest records of their subjects, their names, the head; notifies. */
export async function writeChanges(
  queries: Queries,
  entries: readonly AuditEntry[],
  records: readonly Registered[],
): Promise<void> {
  for (let at = 0; at < entries.length; at += entriesMax) {
    const some = entries.slice(at, at + entriesMax)
    await queries.query(
      'INSERT INTO audit (seq, entry) SELECT * FROM unnest($1::int8[], $2::json[])',
      [some.map(({ seq }) => seq), some.map((entry) => JSON.stringify(entry))],
    )
  }
  const newest = new Map(entries.map(({ subject, seq }) => [subject, seq]))
  const ids = records.map(({ subscription }) => subscription.id)
  await queries.query('DELETE FROM names WHERE owner = ANY($1)', [ids])
  for (let at = 0; at < records.length; at += entriesMax) {
    const some = records.slice(at, at + entriesMax)
    await queries.query(
      `INSERT INTO records (id, seq, record)
       SELECT * FROM unnest($1::text[], $2::int8[], $3::json[])
       ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, record = excluded.record`,
      [
        some.map(({ subscription }) => subscription.id),
        some.map(({ subscription }) => newest.get(subscription.id)),
        some.map((record) => JSON.stringify(record)),
      ],
    )
    const names = some.flatMap((record) =>
      namesOf(record).map((name) => [name, record.subscription.id] as const),
    )
    await queries.query(
      'INSERT INTO names (name, owner) SELECT * FROM unnest($1::text[], $2::text[])',
      [names.map(([name]) => name), names.map(([, owner]) => owner)],
    )
  }
  const last = entries.at(-1)
  if (last === undefined) return
  await queries.query(
    `WITH moved AS (UPDATE head SET seq = $1, hash = $2)
     SELECT pg_notify('${newsChannel}', $1::text)`,
    [last.seq, last.hash],
  )
}
