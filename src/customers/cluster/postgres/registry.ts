// The shared registry in PostgreSQL: subscriptions and their audit chain.
// A change locks the head row, so that all operators together make one chain: step, audit entry,
// record, names, head and notification are one transaction. Every gateway holds the whole chain
// (shared-registry.ts), so a database that went back is healed from there, or reported as a fork.
import { accept, assert, Fault, messageOf, type Outcome, refuse } from '../../../base/errors.ts'
import { type AuditEntry, type AuditHead, recordDigest } from '../../subscriptions/audit.ts'
import type { Known } from '../../subscriptions/changes.ts'
import { issueId } from '../../subscriptions/issue.ts'
import type { Store } from '../../subscriptions/store.ts'
import type { Registered } from '../../subscriptions/subscription.ts'
import {
  type Change,
  checkBy,
  namesOf,
  nameTaken,
  outcomeUnknown,
  type PlannedChange,
  planChange,
  Verbs,
} from '../../subscriptions/verbs.ts'
import type { RegistryEntry, RegistryNews, RegistryWriter } from '../ports.ts'
import type { PostgresConnection, Queries } from './client.ts'

const behind = new Fault('cluster', 'the database is behind and is being healed', {
  retryable: true,
})
/** After a lost answer to COMMIT: how long to wait for a connection to ask what happened. */
const outcomeMs = 5_000
/** Entries of a read that is answered at once where the connection works. */
const fewEntries = 50

interface PostgresRegistryDeps {
  readonly reading: PostgresConnection
  readonly writing: PostgresConnection
  /** This gateway's copy of the chain. */
  readonly replica: Pick<Store, 'head' | 'holds' | 'audit' | 'registered'>
  readonly known: Known
  /** Called after each change, before its outcome is returned. */
  onChanged(): Promise<unknown>
}

export class PostgresRegistry extends Verbs<'later'> implements RegistryWriter, RegistryNews {
  readonly #deps: PostgresRegistryDeps

  constructor(deps: PostgresRegistryDeps) {
    super(deps.known)
    this.#deps = deps
  }

  // Following.

  /** Throws a `Fault` when the database has no registry. */
  async head(): Promise<AuditHead> {
    return seeded(await this.#deps.reading.poll<AuditHead>(headSql))
  }

  after(seq: number, count: number): Promise<RegistryEntry[]> {
    // A record that is the JSON null is invalid, not absent. Not cut after `count`: an entry whose
    // record has changed since is stored with that change, or a failover could take it away.
    const text = `SELECT a.entry,
         CASE json_typeof(r.record) WHEN 'null' THEN '{}' ELSE r.record END AS record
       FROM audit a LEFT JOIN records r ON r.seq = a.seq AND r.id = a.entry->>'subject'
       WHERE a.seq > $1 ORDER BY a.seq LIMIT $2`
    // Few are there at once; a gateway that was away for long may wait for its many.
    const isShort = count <= fewEntries
    return this.#deps.reading[isShort ? 'poll' : 'query']<RegistryEntry>(text, [seq, entriesMax])
  }

  onNews(notify: () => void): () => void {
    return this.#deps.reading.listen(newsChannel, notify)
  }

  /** Id of the cluster. */
  async identity(): Promise<string> {
    const { reading, writing } = this.#deps
    // Both may be half-open: asked in turn, each would be late by itself.
    const [rows] = await Promise.all([
      reading.poll<{ cluster: string }>('SELECT cluster FROM meta'),
      writing.poll('SELECT 1'),
    ])
    return seeded(rows).cluster
  }

  // Changing.

  override async run<T>(change: Change<T>): Promise<Outcome<T>> {
    const problem = checkBy(change.by)
    if (problem !== null) return problem
    const attempt: { planned?: PlannedChange } = {}
    try {
      await this.heal()
      await this.#deps.writing.transaction(async (queries) => {
        const made = await this.#make(queries, change)
        if (!made.ok) throw new RefusedChange(made)
        attempt.planned = made.value
      })
    } catch (error) {
      if (error instanceof RefusedChange) return error.refused
      if (!(error instanceof Fault)) throw error
      const { planned } = attempt
      const isStored = planned === undefined ? false : await this.#isStored(planned)
      if (isStored === null) return inDoubt(error, change, planned!)
      if (!isStored) return unchanged(error)
    }
    assert(attempt.planned !== undefined, 'a stored change was planned')
    await this.#deps.onChanged()
    return accept(change.finish(attempt.planned.record.subscription))
  }

  /** Plans the change on the newest state and writes it. Runs inside a transaction. */
  async #make<T>(queries: Queries, change: Change<T>): Promise<Outcome<PlannedChange>> {
    const head = await lockedHead(queries)
    await this.#checkContinues(queries, head)
    const before = 'ref' in change ? await findRecord(queries, change.ref) : null
    const planned = planChange(change, {
      before,
      freshId: 'make' in change ? await freshId(queries) : '',
      head,
      nowMs: head.nowMs,
    })
    if (!planned.ok) return planned
    const { entry, record, taken } = planned.value
    // Most changes keep the names: what a change asks of the database is most of its time.
    const isRenamed = String(namesOf(before)) !== String(taken)
    if (isRenamed) {
      const [other] = await queries.query<{ name: string; owner: string }>(
        'SELECT name, owner FROM names WHERE name = ANY($1) AND owner <> $2 LIMIT 1',
        [taken, record.subscription.id],
      )
      if (other !== undefined) return nameTaken(other.name, other.owner)
    }
    await writeChanges(queries, [entry], [record], isRenamed ? [record] : [])
    return planned
  }

  /** Another chain than the one that this gateway holds must not grow. */
  async #checkContinues(queries: Queries, head: AuditHead): Promise<void> {
    const mine = this.#deps.replica.head()
    if (head.seq < mine.seq) throw behind
    if (mine.seq === 0) return
    const [entry] = await queries.query<{ hash: string }>(
      `SELECT entry->>'hash' AS hash FROM audit WHERE seq = $1`,
      [mine.seq],
    )
    if (entry?.hash !== mine.hash) throw forked(mine.seq)
  }

  /**
   * Whether a planned change is in the database; null when that cannot be found out in time. Its
   * COMMIT may still wait, for a standby, long after its connection ended: it holds the lock of the
   * head until it is decided, and whoever reads under that lock reads the outcome.
   */
  async #isStored({ entry }: PlannedChange): Promise<boolean | null> {
    if (!(await this.#deps.writing.ready(outcomeMs))) return null
    try {
      return await this.#deps.writing.transaction(async (queries) => {
        await lockedHead(queries)
        const found = await queries.query(
          `SELECT 1 FROM audit WHERE seq = $1 AND entry->>'hash' = $2`,
          [entry.seq, entry.hash],
        )
        // A primary that restarted shows what its standby lacks: this commit waits for both.
        await queries.query('UPDATE head SET seq = seq')
        // A gateway that has what a failover lost adds it again.
        return found.length > 0 || (this.#deps.replica.holds(entry) ? null : false)
      })
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      return null
    }
  }

  // Healing and seeding.

  /**
   * Appends the entries that the database lost, when its chain is a strict prefix of this
   * gateway's; returns how many. Throws a `Fault` when the two chains differ.
   */
  async heal(): Promise<number> {
    // A poll: a connection that was kept may be half-open, and no transaction has begun on it.
    const theirs = seeded(await this.#deps.writing.poll<AuditHead>(headSql))
    if (theirs.seq >= this.#deps.replica.head().seq) return 0
    return await this.#deps.writing.transaction(async (queries) => {
      const head = await lockedHead(queries)
      // One turn of the event loop: entries and records are of one LMDB snapshot.
      if (head.seq >= this.#deps.replica.head().seq) return 0
      if (!this.#deps.replica.holds(head)) throw forked(head.seq)
      const lost = [...this.#deps.replica.audit({ after: head.seq })]
      const newest = new Map(lost.map(({ subject, after }) => [subject, after]))
      // A record that was invalid is not here: it stays lost.
      const records = [...newest].flatMap(([id, after]) => {
        const record = this.#deps.replica.registered(id)
        return record !== null && recordDigest(record) === after ? [record] : []
      })
      await writeChanges(queries, lost, records)
      return lost.length
    })
  }

  /** Copies a registry into a database that has none. False when it has one. */
  seed(
    entries: readonly AuditEntry[],
    records: readonly Registered[],
    head: AuditHead,
    more: (queries: Queries) => Promise<void>,
  ): Promise<boolean> {
    return this.#deps.writing.transaction(async (queries) => {
      const fresh = await queries.query(
        `INSERT INTO head (seq, hash) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING 1`,
        [head.seq, head.hash],
      )
      if (fresh.length === 0) return false
      await writeChanges(queries, entries, records)
      await more(queries)
      return true
    })
  }
}

function unchanged(fault: Fault) {
  const reason = messageOf(fault)
  if (fault.kind === 'cluster-fork') return refuse('rejected', fault.kind, reason)
  return refuse('unavailable', fault.kind, `the registry was not changed: ${reason}`)
}

/** The secrets of the change are valid if it is stored: the refusal contains its result. */
function inDoubt<T>(fault: Fault, change: Change<T>, { record }: PlannedChange) {
  const { subscription } = record
  const message =
    `the registry may have been changed or not: ${messageOf(fault)}; ` +
    'once PostgreSQL commits again, ' +
    `npx --no -- sluice subscription show ${subscription.id} shows which`
  return refuse('unavailable', outcomeUnknown, message, { data: change.finish(subscription) })
}

/** Rolls the transaction back and carries the refusal out of it. */
class RefusedChange extends Error {
  readonly refused: Extract<Outcome<never>, { ok: false }>

  constructor(refused: Extract<Outcome<never>, { ok: false }>) {
    super('refused')
    this.refused = refused
  }
}

/** Notified with the number of each new change. */
export const newsChannel = 'registry'
/** Entries that one statement sends or reads. */
export const entriesMax = 1_000

const headSql = 'SELECT seq, hash FROM head'

/** The one row of a table; throws a `Fault` when the database has no registry. */
function seeded<T>([row]: readonly T[]): T {
  if (row !== undefined) return row
  throw new Fault(
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

async function lockedHead(queries: Queries) {
  const rows = await queries.query<AuditHead & { readonly nowMs: number }>(
    `SELECT seq, hash, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 AS "nowMs"
     FROM head FOR UPDATE`,
  )
  return seeded(rows)
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

/**
 * Writes entries, the newest records of their subjects, the names of those that may have others
 * than before, the head; notifies.
 */
export async function writeChanges(
  queries: Queries,
  entries: readonly AuditEntry[],
  records: readonly Registered[],
  renamed = records,
): Promise<void> {
  for (let at = 0; at < entries.length; at += entriesMax) {
    const some = entries.slice(at, at + entriesMax)
    await queries.query(
      'INSERT INTO audit (seq, entry) SELECT * FROM unnest($1::int8[], $2::json[])',
      [some.map(({ seq }) => seq), some.map((entry) => JSON.stringify(entry))],
    )
  }
  const newest = new Map(entries.map(({ subject, seq }) => [subject, seq]))
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
  }
  const owners = renamed.map(({ subscription }) => subscription.id)
  if (owners.length > 0) await queries.query('DELETE FROM names WHERE owner = ANY($1)', [owners])
  for (let at = 0; at < renamed.length; at += entriesMax) {
    const names = renamed
      .slice(at, at + entriesMax)
      .flatMap((record) => namesOf(record).map((name) => [name, record.subscription.id] as const))
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
