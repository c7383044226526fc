// Builds and verifies the audit table: a hash chain with one entry per provisioning change.
// Pure: the store writes each entry in the same transaction as its change.
//
//   entry n: SHA-256 of [n, at, who, what, subject, before, after, reason, hash of n-1]
//
// before and after are digests of the stored record, so an entry proves a state without showing it.
// A removed, altered or reordered entry breaks the chain; the separate head detects truncation.
import { hash } from 'node:crypto'
import { isCount, isText, nullOr, objectOf } from '../../base/shape.ts'

export interface AuditEntry {
  /** 1, 2, 3, … without a gap. */
  readonly seq: number
  readonly at: string
  readonly who: string
  /** `subscription.add`, `token.rotate`, `note.refund`, … */
  readonly what: string
  /** The subscription's id. */
  readonly subject: string
  readonly before: string | null
  readonly after: string
  readonly reason: string
  readonly previous: string
  readonly hash: string
}

export interface AuditHead {
  readonly seq: number
  readonly hash: string
}

const isEntry = objectOf({
  seq: isCount,
  at: isText,
  who: isText,
  what: isText,
  subject: isText,
  before: nullOr(isText),
  after: isText,
  reason: isText,
  previous: isText,
  hash: isText,
})

/** Whether a value from outside is an entry; its hash is checked by `problemOfEntry`. */
export function isAuditEntry(value: unknown): value is AuditEntry {
  return isEntry(value)
}

export const emptyHead: AuditHead = { seq: 0, hash: '0'.repeat(64) }

export type AuditReport =
  | { readonly ok: true; readonly entries: number; readonly head: string }
  | { readonly ok: false; readonly entries: number; readonly problem: string }

export function nextEntry(
  head: AuditHead,
  facts: Omit<AuditEntry, 'seq' | 'previous' | 'hash'>,
): AuditEntry {
  const open = { ...facts, seq: head.seq + 1, previous: head.hash }
  return { ...open, hash: entryHash(open) }
}

/** The digest of a stored record, with its fields in alphabetical order. */
export function recordDigest(record: unknown): string {
  return hash('sha256', canonical(record), 'hex')
}

/**
 * Checks the whole chain, its head, and that each subject's stored record has the digest in its
 * newest entry.
 */
export function verifyAudit(
  entries: Iterable<AuditEntry>,
  head: AuditHead,
  subjects: Iterable<readonly [id: string, record: unknown]>,
): AuditReport {
  let last = emptyHead
  const newest = new Map<string, AuditEntry>()
  const broken = (problem: string): AuditReport => ({ ok: false, entries: last.seq, problem })
  for (const entry of entries) {
    const problem = problemOfEntry(last, entry, null)
    if (problem !== null) return broken(problem)
    const before = newest.get(entry.subject)?.after ?? null
    if (entry.before !== before) return broken(`entry ${entry.seq} starts from an unknown state`)
    newest.set(entry.subject, entry)
    last = entry
  }
  if (last.seq !== head.seq || last.hash !== head.hash)
    return broken(`the table ends at entry ${last.seq}, its head is ${head.seq}`)
  for (const [id, record] of subjects) {
    const entry = newest.get(id)
    if (entry === undefined) return broken(`${id} has a record and no entry`)
    if (entry.after !== recordDigest(record))
      return broken(`the record of ${id} does not match entry ${entry.seq}`)
    newest.delete(id)
  }
  const [lost] = newest.keys()
  if (lost !== undefined) return broken(`${lost} has entries and no record`)
  return { ok: true, entries: last.seq, head: last.hash }
}

/** Why an entry, or the record stored by it, does not follow `last`; null when it does. */
export function problemOfEntry(last: AuditHead, entry: AuditEntry, record: unknown): string | null {
  if (entry.seq !== last.seq + 1) return `entry ${last.seq + 1} is missing`
  if (entry.previous !== last.hash) return `entry ${entry.seq} does not follow the one before`
  if (entry.hash !== entryHash(entry)) return `entry ${entry.seq} was altered`
  if (record !== null && entry.after !== recordDigest(record))
    return `the record of ${entry.subject} does not match entry ${entry.seq}`
  return null
}

function entryHash(entry: Omit<AuditEntry, 'hash'>): string {
  const { seq, at, who, what, subject, before, after, reason, previous } = entry
  const fields = [seq, at, who, what, subject, before, after, reason, previous]
  return hash('sha256', JSON.stringify(fields), 'hex')
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )
}
