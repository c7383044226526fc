// Stores the registry in LMDB: subscriptions, their audit table, their usage.
// Thread: main, of the server and of the operator's command concurrently; LMDB isolates them.
// A change and its audit entry are one transaction, flushed to disk before the call returns, so
// an acknowledged change survives a kill. Reads see other processes' changes in the next event
// loop turn.
import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import { accept, assert, Fault, isBug, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import {
  type AuditEntry,
  type AuditHead,
  type AuditReport,
  emptyHead,
  problemOfEntry,
  verifyAudit,
} from './audit.ts'
import type { Known } from './changes.ts'
import type { ConsumerTable } from './consumers.ts'
import { issueId } from './issue.ts'
import { makeFolder } from './lock.ts'
import { builtInPlans } from './plans.ts'
import {
  type CredentialState,
  isEnrolled,
  isOperator,
  type Registered,
  type Subscription,
  strictRules,
} from './subscription.ts'
import {
  type AnswerTable,
  addUnsent,
  addUsage,
  answerTable,
  endBatch,
  endPush,
  localConsumers,
  lostUse,
  NoticeTable,
  openWindow,
  Tables,
  takeBatch,
  takePush,
  unpushedCount,
  unsentCount,
  unsentCredits,
  usageReport,
} from './tables.ts'
import {
  isoTime,
  type OpenWindow,
  type UsageBatch,
  type UsageCounts,
  type UsageDay,
  type UsageDelta,
  type UsageReport,
  type WindowTotal,
  type WindowUse,
} from './usage.ts'
import { type Change, checkBy, namesOf, nameTaken, planChange, Verbs } from './verbs.ts'

export interface StoreOptions {
  readonly clock: Clock
  /** Requests are checked against it; the built-in plans and strict destinations when absent. */
  readonly known?: Known
  /** Rows of usage kept for a billing system; 0, where there is none, when absent. */
  readonly pushRowsMax?: number
}

const inCluster = refuse(
  'rejected',
  'in-cluster',
  'this registry follows a cluster: set cluster.url, and the change is made there',
)
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

/** Of an id or a label. */
const nameCharsMax = 64

export class Store extends Verbs<'now'> {
  readonly #tables: Tables
  readonly #clock: Clock
  readonly #pushRowsMax: number
  #notices: NoticeTable | null = null

  constructor(path: string, { clock, known = unknownHere, pushRowsMax = 0 }: StoreOptions) {
    super(known)
    this.#pushRowsMax = pushRowsMax
    this.#tables = Tables.open(path)
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

  /** False when it lacks that change, as an older copy does, or has another with its number. */
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
    return this.#all().filter((one) => !isOperator(one) && !isEnrolled(one))
  }

  /** The credentials of the operator API, in the same order. */
  operators(): Subscription[] {
    return this.#all().filter(isOperator)
  }

  /** The credentials of indexers, in the same order. */
  enrolled(): Subscription[] {
    return this.#all().filter(isEnrolled)
  }

  find(ref: string): Subscription | null {
    const found = this.#find(ref)?.subscription ?? null
    return found !== null && isOperator(found) ? null : found
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

  // Cluster.

  /** Id of the cluster that this registry follows; null when it is its own. */
  cluster(): string | null {
    return (this.#tables.marks.get('cluster') as string | undefined) ?? null
  }

  /** From now on changes come from that cluster only. */
  joinCluster(id: string): void {
    this.#tables.transactionSync(() => this.#tables.marks.putSync('cluster', id))
  }

  /**
   * Adds entries that another registry made, each with its record where it is the subject's newest.
   * Returns why they do not continue this chain, and adds none then; null when they were added.
   */
  follow(news: readonly { entry: AuditEntry; record: Registered | null }[]): string | null {
    return this.#tables.transactionSync(() => {
      // Another process of this folder may have added some of them.
      const fresh = news.filter(({ entry }) => !this.holds(entry))
      let last = this.head()
      for (const { entry, record } of fresh) {
        const problem = problemOfEntry(last, entry, record)
        if (problem !== null) return problem
        last = entry
      }
      for (const { entry, record } of fresh) this.#put(entry, record)
      return null
    })
  }

  /** The usage that the cluster has not confirmed. */
  readonly unsent = {
    add: (deltas: readonly UsageDelta[]) => addUnsent(this.#tables, deltas, this.#counting()),
    take: (max: number, fresh: Omit<UsageBatch, 'rows'>) => takeBatch(this.#tables, max, fresh),
    confirm: (totals: readonly WindowTotal[]) =>
      endBatch(this.#tables, totals, this.#clock.nowMs()),
    credits: (id: string, window: number) => unsentCredits(this.#tables, id, window),
    count: () => unsentCount(this.#tables),
  }

  /** The usage that a billing system has not confirmed. */
  readonly unpushed = {
    take: (max: number) => takePush(this.#tables, max, this.#clock.nowMs()),
    confirm: () => endPush(this.#tables),
    count: () => unpushedCount(this.#tables),
    lost: () => lostUse(this.#tables.marks),
  }

  /** Notices to the operator's receiver. */
  get notices(): NoticeTable {
    this.#notices ??= new NoticeTable(this.#tables, this.#clock)
    return this.#notices
  }

  /** Answers of the operator API by idempotency key. */
  get answers(): AnswerTable {
    return answerTable(this.#tables, this.#clock)
  }

  /** Where the consumers of subscriptions are, without a cluster. */
  get consumers(): ConsumerTable {
    return localConsumers(this.#tables, this.#clock)
  }

  /** The credits of every subscription's newest window, for the copy into a cluster. */
  allWindows(): WindowTotal[] {
    return [...this.#tables.usage.getRange()].flatMap(({ key: [id, name], value }) =>
      name === 'window' ? [{ id, ...(value as WindowUse) }] : [],
    )
  }

  /** The usage of every subscription by day, for the copy into a cluster. */
  allDays(): (UsageDay & { id: string })[] {
    return [...this.#tables.usage.getRange()].flatMap(({ key: [id, day], value }) =>
      day === 'window' ? [] : [{ id, day, ...(value as UsageCounts) }],
    )
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
    await addUsage(this.#tables, deltas, this.#counting())
  }

  /**
   * Reserves `count` numbers under a name and returns the first. No number is ever returned twice,
   * even after a crash; numbers reserved and not used are skipped. Starts at 1.
   */
  reserveSeq(name: string, count: number): number {
    assert(Number.isSafeInteger(count) && count > 0, 'count must be a positive integer')
    return this.#tables.transactionSync(() => {
      const first = (this.#tables.marks.get(['seq', name]) as number | undefined) ?? 1
      this.#tables.marks.putSync(['seq', name], first + count)
      return first
    })
  }

  /** One snapshot into a folder that exists, while other processes read and write. */
  copyTo(folder: string): Promise<void> {
    return this.#tables.root.backup(folder, true)
  }

  close(): Promise<void> {
    return this.#tables.close()
  }

  #counting() {
    return { nowMs: this.#clock.nowMs(), pushRowsMax: this.#pushRowsMax }
  }

  #all(): Subscription[] {
    const all = [...this.#tables.records.getRange()].map(({ value }) => value.subscription)
    return all.sort((a, b) => (a.createdAt + a.id < b.createdAt + b.id ? -1 : 1))
  }

  #find(ref: string): Registered | null {
    // No id or label is longer, and LMDB throws for a key of two kilobytes.
    if (ref.length > nameCharsMax) return null
    const byId = this.#tables.records.get(ref)
    if (byId !== undefined) return byId
    const id = this.#tables.names.get(`label:${ref}`)
    if (id !== undefined) return this.#tables.records.get(id) ?? null
    // Ended subscriptions free their label; the newest with that label is used.
    const ended = this.#all().findLast(({ label }) => label === ref)
    return ended === undefined ? null : (this.#tables.records.get(ended.id) ?? null)
  }

  override run<T>(change: Change<T>): Outcome<T> {
    const problem = checkBy(change.by)
    if (problem !== null) return problem
    // Get and put outside one transaction could lose other processes' writes.
    return this.#tables.transactionSync(() => {
      if (this.cluster() !== null) return inCluster
      const planned = planChange(change, {
        before: 'ref' in change ? this.#find(change.ref) : null,
        freshId: this.#freshId(),
        head: this.head(),
        nowMs: this.#clock.nowMs(),
      })
      if (!planned.ok) return planned
      const { record, entry, taken } = planned.value
      const { subscription } = record
      for (const name of taken) {
        const owner = this.#tables.names.get(name)
        if (owner !== undefined && owner !== subscription.id) return nameTaken(name, owner)
      }
      this.#put(entry, record)
      return accept(change.finish(subscription))
    })
  }

  #freshId(): string {
    let id = issueId()
    while (this.#tables.records.doesExist(id)) id = issueId()
    return id
  }

  /** Writes record, names, audit entry and head. Runs inside a transaction. */
  #put(entry: AuditEntry, record: Registered | null): void {
    const { records, names, audit, marks } = this.#tables
    if (record !== null) {
      const taken = namesOf(record)
      for (const name of namesOf(records.get(entry.subject) ?? null))
        if (!taken.includes(name) && names.get(name) === entry.subject) names.removeSync(name)
      for (const name of taken) names.putSync(name, entry.subject)
      records.putSync(entry.subject, record)
    }
    audit.putSync(entry.seq, entry)
    marks.putSync('head', { seq: entry.seq, hash: entry.hash } satisfies AuditHead)
  }
}

// The first two pages each: 24 bytes of header, then 0xBEEFC0DE; the page size 24 bytes after it.
const magic = 0xbeefc0de
const magicOffset = 24
const pageBytesOffset = 48
const pageBytesMax = 65_536

/**
 * Makes the folder, accessible to its owner only. Throws when it contains something else: a file
 * that is not of LMDB would crash the process with SIGSEGV in native code.
 */
function prepareRegistryFolder(path: string): void {
  makeFolder(path)
  for (const name of ['data.mdb', 'lock.mdb']) {
    const found = statSync(join(path, name), { throwIfNoEntry: false })
    if (found !== undefined && !found.isFile())
      throw new Fault('registry', `${join(path, name)} is not a file; move it away`)
  }
  const file = join(path, 'data.mdb')
  if (existsSync(file) && !isRegistryFile(file))
    throw new Fault('registry', `${file} is damaged or not a registry; restore a backup`)
}

/** True for an LMDB file, and for the empty file that a killed first start may leave. */
function isRegistryFile(file: string): boolean {
  const bytes = Buffer.alloc(pageBytesMax + pageBytesOffset)
  const descriptor = openSync(file, 'r')
  try {
    const length = readSync(descriptor, bytes, 0, bytes.length, 0)
    if (length === 0) return true
    const pageBytes = bytes.readUInt32LE(pageBytesOffset)
    return (
      bytes.readUInt32LE(magicOffset) === magic &&
      pageBytes <= pageBytesMax &&
      bytes.readUInt32LE(pageBytes + magicOffset) === magic
    )
  } finally {
    closeSync(descriptor)
  }
}
