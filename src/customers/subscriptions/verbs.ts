// The provisioning operations: add, set, suspend, resume, end, rotate and destinations.
// Each takes an id or a label and who makes the change and why, and returns an
// outcome. store.ts writes a change together with its audit entry, at once; in a cluster PostgreSQL
// does, later. changes.ts validates it.
import { accept, type Outcome, type Refusal, refuse } from '../../base/errors.ts'
import { type AuditEntry, type AuditHead, nextEntry, recordDigest } from './audit.ts'
import {
  changedRecord,
  checkKeptText,
  enrolledRecord,
  type Known,
  moveState,
  needsPassword,
  newRecord,
  operatorRecord,
} from './changes.ts'
import { digestOf, issuePassword, issueToken } from './issue.ts'
import {
  type AddRequest,
  type By,
  confirmDestination,
  type Destination,
  failDestination,
  type IndexerCredentials,
  type Issued,
  isEnrolled,
  isOperator,
  isRegistered,
  type NoteKind,
  pauseDestination,
  type Registered,
  resumeDestination,
  type SetRequest,
  type Subscription,
} from './subscription.ts'
import { isoTime } from './usage.ts'

/** A longer grace period would amount to a second token. */
const graceMsMax = 30 * 86_400_000

/** Computes the changed record; runs inside the transaction, on the newest record. */
export type Step = (record: Registered, nowMs: number) => Outcome<Registered>

/** A change of the registry; whoever stores it runs its parts inside one transaction. */
export type Change<T> = {
  /** Name of the operation in the audit table. */
  readonly what: string
  readonly by: By
  /** The result for the caller, after the subscription was saved. */
  finish(saved: Subscription): T
} & (
  | { readonly make: (id: string, at: string) => Outcome<Registered> }
  /** `ref` is an id or a label. */
  | { readonly ref: string; readonly step: Step }
)

/**
 * Code of the refusal of a change that may be stored or not. Its `data` is the result of a change
 * of the registry, so that no secret is lost that may be valid.
 */
export const outcomeUnknown = 'outcome-unknown'

export type IssuedToken = Pick<Issued, 'subscription' | 'token'>

/** LMDB answers at once, PostgreSQL later. */
export type Mode = 'now' | 'later'
export type Answer<M extends Mode, T> = M extends 'now' ? Outcome<T> : Promise<Outcome<T>>

export abstract class Verbs<M extends Mode> {
  protected readonly known: Known

  constructor(known: Known) {
    this.known = known
  }

  /** Saves the changed record with its audit entry, or nothing. */
  abstract run<T>(change: Change<T>): Answer<M, T>

  add(request: AddRequest, by: By): Answer<M, Issued> {
    const token = issueToken()
    const password = request.products.includes('indexer') ? issuePassword() : null
    const secrets = {
      tokenDigest: digestOf(token),
      tokenLast4: token.slice(-4),
      passwordDigest: password === null ? null : digestOf(password),
    }
    return this.run({
      what: 'subscription.add',
      by,
      make: (id, at) => newRecord(request, this.known, { id, at, secrets }),
      finish: (subscription): Issued => ({
        subscription,
        token,
        indexer: credentialsOf(subscription, password),
      }),
    })
  }

  /** Issues a credential that opens the feeds of the index and nothing else. */
  enroll(label: string, cidrs: readonly string[], by: By): Answer<M, IssuedToken> {
    return this.#issue('indexer.enroll', by, (made) =>
      enrolledRecord({ label, cidrs }, this.known, made),
    )
  }

  /** Ends a credential of `enroll`, and frees its name. */
  revoke(name: string, by: By): Answer<M, Subscription> {
    return this.#change(name, 'indexer.revoke', by, (record) =>
      isEnrolled(record.subscription) ? moveState(record, 'end') : notEnrolled(name),
    )
  }

  /** `indexer` is set when the change issued the first password. */
  set(
    ref: string,
    request: SetRequest,
    by: By,
  ): Answer<M, { subscription: Subscription; indexer: IndexerCredentials | null }> {
    let password: string | null = null
    return this.run({
      what: 'subscription.set',
      by,
      ref,
      step: (record) => {
        password = null
        const next = changedRecord(record, request, this.known)
        if (!next.ok || !needsPassword(next.value)) return next
        password = issuePassword()
        return accept({ ...next.value, passwordDigest: digestOf(password) })
      },
      finish: (subscription) => ({ subscription, indexer: credentialsOf(subscription, password) }),
    })
  }

  suspend(ref: string, by: By): Answer<M, Subscription> {
    return this.#change(ref, 'subscription.suspend', by, (record) => moveState(record, 'suspend'))
  }

  resume(ref: string, by: By): Answer<M, Subscription> {
    return this.#change(ref, 'subscription.resume', by, (record) => moveState(record, 'resume'))
  }

  /** Irreversible: revokes the token and frees label and destination; the record stays. */
  end(ref: string, by: By): Answer<M, Subscription> {
    return this.#change(ref, 'subscription.end', by, (record) => moveState(record, 'end'))
  }

  /** Issues a new token. The old one is revoked after `graceMs`; an older one in grace, now. */
  rotate(ref: string, { graceMs }: { graceMs: number }, by: By): Answer<M, IssuedToken> {
    const token = issueToken()
    return this.run({
      what: 'token.rotate',
      by,
      ref,
      step: (record, nowMs) => {
        if (!(graceMs >= 0 && graceMs <= graceMsMax))
          return refuse('invalid', 'bad-grace', 'a grace period is at most 30d')
        return accept({
          ...record,
          tokenDigest: digestOf(token),
          retiring: graceMs > 0 ? { digest: record.tokenDigest, untilMs: nowMs + graceMs } : null,
          subscription: { ...record.subscription, tokenLast4: token.slice(-4) },
        })
      },
      finish: (subscription) => ({ subscription, token }),
    })
  }

  rotateIndexer(
    ref: string,
    by: By,
  ): Answer<M, { subscription: Subscription; indexer: IndexerCredentials }> {
    const password = issuePassword()
    return this.run({
      what: 'indexer.rotate',
      by,
      ref,
      step: (record) => {
        if (!record.subscription.products.includes('indexer'))
          return refuse(
            'rejected',
            'no-indexer',
            `${record.subscription.id} does not have the product indexer`,
          )
        return accept({ ...record, passwordDigest: digestOf(password) })
      },
      finish: (subscription) => ({ subscription, indexer: { user: subscription.id, password } }),
    })
  }

  setDestination(ref: string, address: string, by: By): Answer<M, Subscription> {
    return this.#change(ref, 'destination.set', by, (record) =>
      changedRecord(record, { destination: address }, this.known),
    )
  }

  /** With `address`, the challenged one: refused where it was changed meanwhile. */
  confirmDestination(ref: string, by: By, address?: string): Answer<M, Subscription> {
    return this.#moveDestination(ref, 'destination.confirm', by, confirmDestination, address)
  }

  failDestination(ref: string, by: By, address?: string): Answer<M, Subscription> {
    return this.#moveDestination(ref, 'destination.fail', by, failDestination, address)
  }

  pauseDestination(ref: string, by: By): Answer<M, Subscription> {
    return this.#moveDestination(ref, 'destination.pause', by, pauseDestination)
  }

  resumeDestination(ref: string, by: By): Answer<M, Subscription> {
    return this.#moveDestination(ref, 'destination.resume', by, resumeDestination)
  }

  clearDestination(ref: string, by: By): Answer<M, Subscription> {
    return this.#moveDestination(ref, 'destination.clear', by, () => accept(null))
  }

  /** Issues a credential of the operator API. */
  addOperator(label: string, by: By): Answer<M, IssuedToken> {
    return this.#issue('operator.add', by, (made) => operatorRecord(label, made))
  }

  revokeOperator(ref: string, by: By): Answer<M, Subscription> {
    return this.#change(ref, 'operator.revoke', by, (record) => moveState(record, 'end'))
  }

  /** Stores the text as the subscription's note and, with its kind, in the audit table. */
  addNote(ref: string, note: { kind: NoteKind; text: string }, by: By): Answer<M, Subscription> {
    const why = { who: by.who, reason: note.text }
    return this.#change(ref, `note.${note.kind}`, why, (record) =>
      accept({ ...record, subscription: { ...record.subscription, note: note.text } }),
    )
  }

  /** Issues a token that is no customer's. */
  #issue(
    what: string,
    by: By,
    make: (made: Parameters<typeof operatorRecord>[1]) => Outcome<Registered>,
  ): Answer<M, IssuedToken> {
    const token = issueToken()
    const tokenDigest = digestOf(token)
    const secrets = { tokenDigest, tokenLast4: token.slice(-4), passwordDigest: null }
    return this.run({
      ...{ what, by },
      make: (id, at) => make({ id, at, secrets }),
      finish: (subscription) => ({ subscription, token }),
    })
  }

  #change(ref: string, what: string, by: By, step: Step): Answer<M, Subscription> {
    return this.run({ what, by, ref, step, finish: (saved) => saved })
  }

  #moveDestination(
    ref: string,
    what: string,
    by: By,
    move: (current: Destination) => Outcome<Destination | null>,
    address?: string,
  ): Answer<M, Subscription> {
    return this.#change(ref, what, by, (record) => {
      const { subscription } = record
      const { id, destination } = subscription
      if (destination === null)
        return refuse('not-found', 'no-destination', `${id} has no destination`)
      if (address !== undefined && address !== destination.address)
        return refuse('rejected', 'destination-state', `${id} has another destination now`)
      const moved = move(destination)
      if (!moved.ok) return moved
      return accept({ ...record, subscription: { ...subscription, destination: moved.value } })
    })
  }
}

/** For a name that no indexer has. */
export function notEnrolled(name: string) {
  const list = 'npx --no -- sluice indexer list shows them'
  return refuse('not-found', 'not-enrolled', `no indexer is enrolled as "${name}": ${list}`)
}

function credentialsOf({ id }: Subscription, password: string | null): IndexerCredentials | null {
  return password === null ? null : { user: id, password }
}

// Plans a change of the registry: which record, names and audit entry it writes.
// Pure, so that LMDB and PostgreSQL run the same steps inside their transactions.

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
