// Opens the registry's tables in LMDB and checks their format.
// Thread: main, of the server and of the operator's command concurrently; LMDB isolates them.
//
//   records   id -> Registered
//   names     label:<label>, destination:<ip:port> -> id
//   audit     seq -> AuditEntry
//   usage     [id, 'window'] -> WindowUse, [id, day] -> UsageCounts
//   consumers [id, name] -> ConsumerRow
//   unsent    [id, window, day] -> UsageCounts that the cluster has not confirmed
//   unpushed  [id, window, day] -> UsageCounts that the billing system has not confirmed
//   notices   id -> StoredNotice, those that were sent too: none is sent for the same reason again
//   answers   [caller, SHA-256 of an idempotency key] -> StoredAnswer of the operator API
//   marks     'head' -> AuditHead, 'format' -> version of these tables,
//             ['seq', name] -> first number not reserved yet, 'usage batch' -> UsageBatch,
//             'push batch' -> PushBatch, 'push lost' -> LostUse
import { type Database, open, type RootDatabase } from 'lmdb'
import { Packr } from 'msgpackr'
import { Fault } from '../../base/errors.ts'
import type { AuditEntry } from './audit.ts'
import type { ConsumerRow } from './consumers.ts'
import type { StoredNotice } from './notice.ts'
import { OpenLock } from './open-lock.ts'
import type { Registered } from './subscription.ts'
import type { UsageCounts } from './usage.ts'

/** What a request under an idempotency key was answered. */
export interface StoredAnswer {
  readonly atMs: number
  /** SHA-256 of the request: another one under the same key is refused. */
  readonly request: string
  /** JSON; null while the outcome is unknown. */
  readonly answer: string | null
}

/** Address space, not memory; fixed, so that no process has to remap when another grows it. */
const mapBytes = 1 << 30
/** Item 0 converts the tables of format 1 to format 2; each runs in a transaction. */
const converters: readonly ((tables: Tables) => void)[] = []
/** Raised by a change that an older version cannot read, and only with a converter. */
const formatHere = converters.length + 1

export class Tables {
  readonly root: RootDatabase
  readonly records: Database<Registered, string>
  readonly names: Database<string, string>
  readonly audit: Database<AuditEntry, number>
  readonly usage: Database<unknown, [string, string]>
  readonly consumers: Database<ConsumerRow, [string, string]>
  readonly unsent: Database<UsageCounts, [string, number, string]>
  readonly unpushed: Database<UsageCounts, [string, number, string]>
  readonly notices: Database<StoredNotice, string>
  readonly answers: Database<StoredAnswer, [string, string]>
  readonly marks: Database<unknown, string | [string, string]>

  readonly #lock: OpenLock
  #closing: Promise<void> | null = null

  /** Called while it has the lock alone. */
  private constructor(path: string, lock: OpenLock) {
    this.#lock = lock
    // Pages are zeroed before use (noMemInit off): otherwise stale memory of this process, such as
    // a token just issued, could reach the disk.
    this.root = open({
      path,
      noSubdir: false,
      mapSize: mapBytes,
      maxDbs: 16,
      noMemInit: false,
      overlappingSync: false,
      ...packed(),
    })
    this.records = this.root.openDB('records', packed())
    this.names = this.root.openDB('names', packed())
    this.audit = this.root.openDB('audit', packed())
    this.usage = this.root.openDB('usage', packed())
    this.consumers = this.root.openDB('consumers', packed())
    this.unsent = this.root.openDB('unsent', packed())
    this.unpushed = this.root.openDB('unpushed', packed())
    this.notices = this.root.openDB('notices', packed())
    this.answers = this.root.openDB('answers', packed())
    this.marks = this.root.openDB('marks', packed())
    // Killed processes leave entries in the reader table, which would fill up and pin pages.
    this.root.readerCheck()
    this.#prepareFormat(path)
  }

  static open(path: string): Tables {
    const lock = OpenLock.of(path)
    try {
      return lock.whileAlone(() => new Tables(path, lock))
    } catch (error) {
      lock.close()
      throw error
    }
  }

  /** A write that is durable when it resolves. */
  transaction<T>(write: () => T): Promise<T> {
    return this.#lock.whileWriting(() => this.root.transaction(write))
  }

  transactionSync<T>(write: () => T): T {
    return this.#lock.whileWritingSync(() => this.root.transactionSync(write))
  }

  /** Calls after the first share its outcome. */
  close(): Promise<void> {
    this.#closing ??= this.root.close().then(() => this.#lock.close())
    return this.#closing
  }

  /** A later version may store fields that this one would silently drop. */
  #prepareFormat(path: string): void {
    const format = (this.marks.get('format') as number | undefined) ?? null
    if (format === formatHere) return
    if (format !== null && format > formatHere)
      throw new Fault(
        'registry',
        `the registry in ${path} has format ${format}, written by a later release; this release ` +
          `reads up to format ${formatHere}: use a release that is at least as new`,
      )
    this.root.transactionSync(() => {
      // A new registry has nothing to convert.
      if (format !== null) for (const convert of converters.slice(format - 1)) convert(this)
      this.marks.putSync('format', formatHere)
    })
  }
}

/** Encodes values with our msgpackr: the one bundled with lmdb is older. */
function packed() {
  return { encoder: new Packr({ useRecords: false }) } as object
}
