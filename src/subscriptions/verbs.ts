// The provisioning operations: add, set, suspend, resume, end, rotate and destinations.
// Thread: main. Each takes an id or a label and who makes the change and why, and returns an
// outcome. store.ts writes a change together with its audit entry; changes.ts validates it.
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { changedRecord, type Known, moveState, needsPassword, newRecord } from './changes.ts'
import {
  confirmDestination,
  type Destination,
  failDestination,
  pauseDestination,
  resumeDestination,
} from './destination.ts'
import { digestOf, issuePassword, issueToken } from './issue.ts'
import type {
  AddRequest,
  By,
  IndexerCredentials,
  Issued,
  NoteKind,
  Registered,
  SetRequest,
  Subscription,
} from './subscription.ts'

/** A longer grace period would amount to a second token. */
const graceMsMax = 30 * 86_400_000

/** Computes the changed record; runs inside the transaction, on the newest record. */
export type Step = (record: Registered, nowMs: number) => Outcome<Registered>

export abstract class Verbs {
  protected readonly known: Known

  constructor(known: Known) {
    this.known = known
  }

  /** Saves a new record under a fresh id. */
  protected abstract create(
    by: By,
    make: (id: string, at: string) => Outcome<Registered>,
  ): Outcome<Subscription>

  /** Applies the step to the record with this id or label and saves the result. */
  protected abstract change(ref: string, what: string, by: By, step: Step): Outcome<Subscription>

  add(request: AddRequest, by: By): Outcome<Issued> {
    const token = issueToken()
    const password = request.products.includes('indexer') ? issuePassword() : null
    const secrets = {
      tokenDigest: digestOf(token),
      tokenLast4: token.slice(-4),
      passwordDigest: password === null ? null : digestOf(password),
    }
    const made = this.create(by, (id, at) => newRecord(request, this.known, { id, at, secrets }))
    if (!made.ok) return made
    const indexer = password === null ? null : { user: made.value.id, password }
    return accept({ subscription: made.value, token, indexer })
  }

  /** `indexer` is set when the change issued the first password. */
  set(
    ref: string,
    request: SetRequest,
    by: By,
  ): Outcome<{ subscription: Subscription; indexer: IndexerCredentials | null }> {
    let password: string | null = null
    const changed = this.change(ref, 'subscription.set', by, (record) => {
      const next = changedRecord(record, request, this.known)
      if (!next.ok || !needsPassword(next.value)) return next
      password = issuePassword()
      return accept({ ...next.value, passwordDigest: digestOf(password) })
    })
    if (!changed.ok) return changed
    const indexer = password === null ? null : { user: changed.value.id, password }
    return accept({ subscription: changed.value, indexer })
  }

  suspend(ref: string, by: By): Outcome<Subscription> {
    return this.change(ref, 'subscription.suspend', by, (record) => moveState(record, 'suspend'))
  }

  resume(ref: string, by: By): Outcome<Subscription> {
    return this.change(ref, 'subscription.resume', by, (record) => moveState(record, 'resume'))
  }

  /** Irreversible: revokes the token and frees label and destination; the record stays. */
  end(ref: string, by: By): Outcome<Subscription> {
    return this.change(ref, 'subscription.end', by, (record) => moveState(record, 'end'))
  }

  /** Issues a new token. The old one is revoked after `graceMs`; an older one in grace, now. */
  rotate(
    ref: string,
    { graceMs }: { graceMs: number },
    by: By,
  ): Outcome<{ subscription: Subscription; token: string }> {
    if (!(graceMs >= 0 && graceMs <= graceMsMax))
      return refuse('invalid', 'bad-grace', 'a grace period is at most 30d')
    const token = issueToken()
    const changed = this.change(ref, 'token.rotate', by, (record, nowMs) =>
      accept({
        ...record,
        tokenDigest: digestOf(token),
        retiring: graceMs > 0 ? { digest: record.tokenDigest, untilMs: nowMs + graceMs } : null,
        subscription: { ...record.subscription, tokenLast4: token.slice(-4) },
      }),
    )
    return changed.ok ? accept({ subscription: changed.value, token }) : changed
  }

  rotateIndexer(
    ref: string,
    by: By,
  ): Outcome<{ subscription: Subscription; indexer: IndexerCredentials }> {
    const password = issuePassword()
    const changed = this.change(ref, 'indexer.rotate', by, (record) => {
      if (!record.subscription.products.includes('indexer'))
        return refuse(
          'rejected',
          'no-indexer',
          `${record.subscription.id} does not have the product indexer`,
        )
      return accept({ ...record, passwordDigest: digestOf(password) })
    })
    if (!changed.ok) return changed
    return accept({
      subscription: changed.value,
      indexer: { user: changed.value.id, password },
    })
  }

  setDestination(ref: string, address: string, by: By): Outcome<Subscription> {
    return this.change(ref, 'destination.set', by, (record) =>
      changedRecord(record, { destination: address }, this.known),
    )
  }

  confirmDestination(ref: string, by: By): Outcome<Subscription> {
    return this.#moveDestination(ref, 'destination.confirm', by, confirmDestination)
  }

  failDestination(ref: string, by: By): Outcome<Subscription> {
    return this.#moveDestination(ref, 'destination.fail', by, failDestination)
  }

  pauseDestination(ref: string, by: By): Outcome<Subscription> {
    return this.#moveDestination(ref, 'destination.pause', by, pauseDestination)
  }

  resumeDestination(ref: string, by: By): Outcome<Subscription> {
    return this.#moveDestination(ref, 'destination.resume', by, resumeDestination)
  }

  clearDestination(ref: string, by: By): Outcome<Subscription> {
    return this.#moveDestination(ref, 'destination.clear', by, () => accept(null))
  }

  /** Stores the text as the subscription's note and, with its kind, in the audit table. */
  addNote(ref: string, note: { kind: NoteKind; text: string }, by: By): Outcome<Subscription> {
    const why = { who: by.who, reason: note.text }
    return this.change(ref, `note.${note.kind}`, why, (record) =>
      accept({ ...record, subscription: { ...record.subscription, note: note.text } }),
    )
  }

  #moveDestination(
    ref: string,
    what: string,
    by: By,
    move: (current: Destination) => Outcome<Destination | null>,
  ): Outcome<Subscription> {
    return this.change(ref, what, by, (record) => {
      const { id, destination } = record.subscription
      if (destination === null)
        return refuse('not-found', 'no-destination', `${id} has no destination`)
      const moved = move(destination)
      if (!moved.ok) return moved
      return accept({
        ...record,
        subscription: { ...record.subscription, destination: moved.value },
      })
    })
  }
}
