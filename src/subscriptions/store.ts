// Stores the registry in LMDB: subscriptions, their audit table, their usage.
// Thread: main, of the server and of the operator's command concurrently; LMDB isolates them.
// A change and its audit entry are one transaction, flushed to disk before the call returns, so
// an acknowledged change survives a kill. Reads see other processes' changes in the next event
// loop turn.
import { assert, isBug } from '../base/assert.ts'
import type { Clock } from '../base/clock.ts'
import { accept, Fault, messageOf, type Outcome, type Refusal, refuse } from '../base/errors.ts'
import {
  type AuditEntry,
  type AuditHead,
  type AuditReport,
  emptyHead,
  nextEntry,
  recordDigest,
  verifyAudit,
} from './audit.ts'
import { checkKeptText, type Known } from './changes.ts'
import { strictRules } from './destination.ts'
import { issueId } from './issue.ts'
import { builtInPlans } from './plans.ts'
import { prepareRegistryFolder } from './registry-file.ts'
import type { By, CredentialState, Registered, Subscription } from './subscription.ts'
import { Tables } from './tables.ts'
import { isoTime, type OpenWindow, type UsageDelta, type UsageReport } from './usage.ts'
import { addUsage, openWindow, usageReport } from './usage-table.ts'
import { type Step, Verbs } from './verbs.ts'

export interface StoreOptions {
  readonly clock: Clock
  /** Requests are checked against it; the built-in plans and strict destinations when absent. */
  readonly known?: Known
}

const unknownHere: Known = { plans: Object.keys(builtInPlans), destinationRules: strictRules }

/**
 * Opens the registry in the folder `path` (usually `<data>/registry`), making it when absent.
 * Throws a `Fault` when it contains something else, or a registry of a later version.
 */
export function openStore(path: string, options: StoreOptions): Store {
  prepareRegistryFolder(path)
  try {
    return new Store(path, options)
  } catch (error) {
    // LMDB's own message names neither the file nor what to do.
    if (error instanceof Fault || isBug(error)) throw error
    const message = `the registry in ${path} does not open: ${messageOf(error)}`
    throw new Fault('registry', message, { cause: error })
  }
}

export class Store extends Verbs {
  readonly #tables: Tables
  readonly #clock: Clock

  constructor(path: string, { clock, known = unknownHere }: StoreOptions) {
    super(known)
    this.#tables = new Tables(path)
    this.#clock = clock
  }

  // Reading.

  /** Grows with every change, so that a poll can compare it. */
  version(): number {
    return this.head().seq
  }

  /** The newest change. */
  head(): AuditHead {
    return (this.#tables.marks.get('head') as AuditHead | undefined) ?? emptyHead
  }

  /** True when this registry contains that change; an older copy lacks the newest ones. */
  holds({ seq, hash }: AuditHead): boolean {
    return seq === 0 || this.#tables.audit.get(seq)?.hash === hash
  }

  /** Ids changed after that version, each once; null when there are more than `max` entries. */
  changedSince(version: number, max: number): ReadonlySet<string> | null {
    const ids = new Set<string>()
    if (this.version() - version > max) return null
    for (const { value } of this.#tables.audit.getRange({ start: version + 1 }))
      ids.add(value.subject)
    return ids
  }

  /** All subscriptions, including ended ones, in order of creation. */
  list(): Subscription[] {
    const all = [...this.#tables.records.getRange()].map(({ value }) => value.subscription)
    return all.sort((a, b) => (a.createdAt + a.id < b.createdAt + b.id ? -1 : 1))
  }

  find(ref: string): Subscription | null {
    return this.#find(ref)?.subscription ?? null
  }

  /** The stored record with its digests. */
  registered(id: string): Registered | null {
    return this.#tables.records.get(id) ?? null
  }

  *allRegistered(): Iterable<Registered> {
    for (const { value } of this.#tables.records.getRange()) yield value
  }

  credentials(ref: string): CredentialState | null {
    const record = this.#find(ref)
    if (record === null) return null
    const grace = record.retiring !== null && record.retiring.untilMs > this.#clock.nowMs()
    return {
      tokenLast4: record.subscription.tokenLast4,
      graceUntil: grace ? isoTime(record.retiring!.untilMs) : null,
      hasIndexerPassword: record.passwordDigest !== null,
    }
  }

  // Audit.

  /** Entries in order, from `after` on, of one subject or all. */
  *audit(which: { after?: number; subject?: string } = {}): Iterable<AuditEntry> {
    for (const { value } of this.#tables.audit.getRange({ start: (which.after ?? 0) + 1 }))
      if (which.subject === undefined || value.subject === which.subject) yield value
  }

  verifyAudit(): AuditReport {
    // One snapshot of all three tables, isolated from changes by other processes.
    const transaction = this.#tables.root.useReadTransaction()
    try {
      const entries = this.#tables.audit.getRange({ transaction }).map(({ value }) => value)
      const head = this.#tables.marks.get('head', { transaction }) as AuditHead | undefined
      const subjects = this.#tables.records
        .getRange({ transaction })
        .map(({ key, value }) => [key, value] as const)
      return verifyAudit(entries, head ?? emptyHead, subjects)
    } finally {
      transaction.done()
    }
  }

  // Usage.

  openWindow(id: string): OpenWindow {
    return openWindow(this.#tables, id, this.#clock.nowMs())
  }

  usage(ref: string): UsageReport | null {
    const subscription = this.find(ref)
    return subscription && usageReport(this.#tables, subscription.id, this.#clock.nowMs())
  }

  /** Adds the usage since the last call. Resolves when it is on disk. */
  async addUsage(deltas: readonly UsageDelta[]): Promise<void> {
    await addUsage(this.#tables, deltas, this.#clock.nowMs())
  }

  /**
   * Reserves `count` numbers under a name and returns the first. No number is ever returned twice,
   * even after a crash; numbers reserved and not used are skipped. Starts at 1.
   */
  reserveSeq(name: string, count: number): number {
    assert(Number.isSafeInteger(count) && count > 0, 'count must be a positive integer')
    return this.#tables.root.transactionSync(() => {
      const first = (this.#tables.marks.get(['seq', name]) as number | undefined) ?? 1
      this.#tables.marks.putSync(['seq', name], first + count)
      return first
    })
  }

  close(): Promise<void> {
    return this.#tables.root.close()
  }

  #find(ref: string): Registered | null {
    const byId = this.#tables.records.get(ref)
    if (byId !== undefined) return byId
    const id = this.#tables.names.get(`label:${ref}`)
    if (id !== undefined) return this.#tables.records.get(id) ?? null
    // Ended subscriptions free their label; the newest with that label is used.
    const ended = this.list().findLast(({ label }) => label === ref)
    return ended === undefined ? null : (this.#tables.records.get(ended.id) ?? null)
  }

  protected override create(
    by: By,
    make: (id: string, at: string) => Outcome<Registered>,
  ): Outcome<Subscription> {
    return this.#transaction(by, (nowMs) => {
      let id = issueId()
      while (this.#tables.records.doesExist(id)) id = issueId()
      const record = make(id, isoTime(nowMs))
      if (!record.ok) return record
      return this.#save({ what: 'subscription.add', before: null, by, nowMs }, record.value)
    })
  }

  protected override change(ref: string, what: string, by: By, step: Step): Outcome<Subscription> {
    return this.#transaction(by, (nowMs) => {
      const before = this.#find(ref)
      if (before === null)
        return refuse('not-found', 'no-subscription', 'no subscription has that id or label')
      if (before.subscription.state === 'ended' && !what.startsWith('note.'))
        return refuse('rejected', 'ended', `${before.subscription.id} has ended`)
      const next = step(before, nowMs)
      if (!next.ok) return next
      // The reason may contain the leaked password that this change replaces.
      const problem =
        checkKeptText('reason', by.reason ?? '', before) ??
        checkKeptText('reason', by.reason ?? '', next.value)
      return problem ?? this.#save({ what, before, by, nowMs }, next.value)
    })
  }

  /** Writes record, names, audit entry and head. Runs inside a transaction. */
  #save(
    change: { what: string; before: Registered | null; by: By; nowMs: number },
    record: Registered,
  ): Outcome<Subscription> {
    const { what, before, by, nowMs } = change
    const at = isoTime(nowMs)
    const subscription = { ...record.subscription, changedAt: at }
    const after: Registered = { ...record, subscription }
    const freed = namesOf(before)
    const taken = namesOf(after)
    for (const name of taken) {
      const owner = this.#tables.names.get(name)
      if (owner !== undefined && owner !== subscription.id) return nameTaken(name, owner)
    }
    for (const name of freed) if (!taken.includes(name)) this.#tables.names.removeSync(name)
    for (const name of taken) this.#tables.names.putSync(name, subscription.id)
    this.#tables.records.putSync(subscription.id, after)
    const entry = nextEntry(this.head(), {
      at,
      who: by.who,
      what,
      subject: subscription.id,
      before: before === null ? null : recordDigest(before),
      after: recordDigest(after),
      reason: by.reason ?? '',
    })
    this.#tables.audit.putSync(entry.seq, entry)
    this.#tables.marks.putSync('head', { seq: entry.seq, hash: entry.hash } satisfies AuditHead)
    return accept(subscription)
  }

  /** Get and put outside one transaction could lose other processes' writes. */
  #transaction<T>(by: By, action: (nowMs: number) => Outcome<T>): Outcome<T> {
    const problem =
      checkKeptText('name of the user', by.who, null) ??
      checkKeptText('reason', by.reason ?? '', null)
    if (problem !== null) return problem
    return this.#tables.root.transactionSync(() => action(this.#clock.nowMs()))
  }
}

/** The unique names that a record owns; an ended one owns none. */
function namesOf(record: Registered | null): string[] {
  if (record === null || record.subscription.state === 'ended') return []
  const { label, destination } = record.subscription
  const addresses = [destination?.address, destination?.standing].filter((text) => text != null)
  return [`label:${label}`, ...addresses.map((address) => `destination:${address}`)]
}

function nameTaken(name: string, owner: string): { ok: false; refusal: Refusal } {
  return name.startsWith('label:')
    ? refuse('rejected', 'label-taken', `the label belongs to ${owner}; choose another`)
    : refuse('rejected', 'destination-taken', `that destination belongs to ${owner}`)
}
