// Plans a change of the registry: which record, names and audit entry it writes.
// Pure, so that LMDB and PostgreSQL run the same steps inside their transactions.
import { accept, type Outcome, type Refusal, refuse } from '../../base/errors.ts'
import { type AuditEntry, type AuditHead, nextEntry, recordDigest } from './audit.ts'
import { checkKeptText } from './changes.ts'
import { type By, isOperator, isRegistered, type Registered } from './subscription.ts'
import { isoTime } from './usage.ts'
import type { Change } from './verbs.ts'

export interface PlannedChange {
  readonly record: Registered
  readonly entry: AuditEntry
  /** Unique names that it takes; each must be free or its own. */
  readonly taken: readonly string[]
}

/** Refuses who or why that must not be stored; null when both may. */
export function checkBy(by: By): { ok: false; refusal: Refusal } | null {
  return (
    checkKeptText('name of the user', by.who, null) ??
    checkKeptText('reason', by.reason ?? '', null)
  )
}

/**
 * Runs the change on the newest record, null when there is none; `freshId` is the id of a new
 * subscription.
 */
export function planChange<T>(
  change: Change<T>,
  found: { before: Registered | null; freshId: string; head: AuditHead; nowMs: number },
): Outcome<PlannedChange> {
  const { what, by } = change
  const { nowMs, head } = found
  const before = 'make' in change ? null : found.before
  const next = 'make' in change ? change.make(found.freshId, isoTime(nowMs)) : stepOf(change, found)
  if (!next.ok) return next
  const at = isoTime(nowMs)
  const subscription = { ...next.value.subscription, changedAt: at }
  const record: Registered = { ...next.value, subscription }
  const entry = nextEntry(head, {
    at,
    who: by.who,
    what,
    subject: subscription.id,
    before: before === null ? null : recordDigest(before),
    after: recordDigest(record),
    reason: by.reason ?? '',
  })
  return accept({ record, entry, taken: namesOf(record) })
}

/** The unique names that a record owns; an ended one owns none. */
export function namesOf(record: Registered | null): string[] {
  if (record === null || record.subscription.state === 'ended') return []
  const { label, destination } = record.subscription
  const addresses = [destination?.address, destination?.standing].filter((text) => text != null)
  return [`label:${label}`, ...addresses.map((address) => `destination:${address}`)]
}

export function nameTaken(name: string, owner: string): { ok: false; refusal: Refusal } {
  return name.startsWith('label:')
    ? refuse('rejected', 'label-taken', `the label belongs to ${owner}; choose another`)
    : refuse('rejected', 'destination-taken', `that destination belongs to ${owner}`)
}

function stepOf<T>(
  { step, what, by }: Extract<Change<T>, { ref: string }>,
  { before, nowMs }: { before: Registered | null; nowMs: number },
): Outcome<Registered> {
  if (before === null)
    return refuse('not-found', 'no-subscription', 'no subscription has that id or label')
  // PostgreSQL takes any JSON as a record.
  if (!isRegistered(before))
    return refuse('rejected', 'invalid-record', 'its record in the registry is invalid: restore it')
  if (isOperator(before.subscription) !== what.startsWith('operator.'))
    return refuse('rejected', 'other-kind', `${before.subscription.id} is of another kind`)
  if (before.subscription.state === 'ended' && !what.startsWith('note.'))
    return refuse('rejected', 'ended', `${before.subscription.id} has ended`)
  const next = step(before, nowMs)
  if (!next.ok) return next
  // The reason may contain the leaked password that this change replaces.
  const problem =
    checkKeptText('reason', by.reason ?? '', before) ??
    checkKeptText('reason', by.reason ?? '', next.value)
  return problem ?? next
}
