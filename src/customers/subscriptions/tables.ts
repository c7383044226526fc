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

import { randomUUID } from 'node:crypto'
import { type Database, open, type RootDatabase } from 'lmdb'
import { Packr } from 'msgpackr'
import type { Clock } from '../../base/clock.ts'
import { Fault } from '../../base/errors.ts'
import type { AuditEntry } from './audit.ts'
import {
  type ConsumerRow,
  type ConsumerTable,
  consumersMax,
  type HeldName,
  unusedDays,
} from './consumers.ts'
import { digestOf } from './issue.ts'
import { OpenLock } from './lock.ts'
import type { Registered } from './subscription.ts'
import {
  addToDay,
  addToWindow,
  creditsIn,
  type DayUse,
  dayOf,
  isoTime,
  type LostUse,
  type OpenWindow,
  oldestDayKept,
  type PushBatch,
  type PushRow,
  type UsageBatch,
  type UsageCounts,
  type UsageDay,
  type UsageDelta,
  type UsageReport,
  type WindowTotal,
  type WindowUse,
  windowBounds,
  windowOf,
} from './usage.ts'

/** What a request under an idempotency key was answered. */
export interface StoredAnswer {
  readonly atMs: number
  /** SHA-256 of the request: another one under the same key is refused. */
  readonly request: string
  /** JSON; null while the outcome is unknown. */
  readonly answer: string | null
}

/** Address space, not memory: so much that no process has to grow it, and others to remap. */
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
  readonly #writes = new Set<Promise<unknown>>()
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
    const written = this.#lock.whileWriting(() => this.root.transaction(write))
    const settled: Promise<unknown> = written
      .catch(() => {})
      .finally(() => this.#writes.delete(settled))
    this.#writes.add(settled)
    return written
  }

  transactionSync<T>(write: () => T): T {
    return this.#lock.whileWritingSync(() => this.root.transactionSync(write))
  }

  /** After the writes that have begun, also those that wait for the lock. Later calls share it. */
  close(): Promise<void> {
    this.#closing ??= Promise.all(this.#writes)
      .then(() => this.root.close())
      .then(() => this.#lock.close())
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

/** The current 30-day window of a subscription and the credits used in it so far. */
export function openWindow({ records, usage }: Tables, id: string, nowMs: number): OpenWindow {
  const createdAt = records.get(id)?.subscription.createdAt
  const createdAtMs = createdAt === undefined ? nowMs : Date.parse(createdAt)
  const window = windowOf(createdAtMs, nowMs)
  const stored = usage.get([id, 'window']) as WindowUse | undefined
  return { window, credits: creditsIn(stored, window), ...windowBounds(createdAtMs, window) }
}

export function usageReport(tables: Tables, id: string, nowMs: number): UsageReport {
  const { startsAtMs, endsAtMs, credits } = openWindow(tables, id, nowMs)
  const days = [...tables.usage.getRange({ start: [id, '0'], end: [id, 'a'] })].map(
    ({ key, value }): UsageDay => ({ day: key[1], ...(value as UsageCounts) }),
  )
  return { id, window: { from: isoTime(startsAtMs), to: isoTime(endsAtMs), credits }, days }
}

/** When deltas were counted, and how many rows are kept for a billing system; 0 without one. */
interface Counting {
  readonly nowMs: number
  readonly pushRowsMax: number
}

/** Resolves when it is on disk. */
export async function addUsage(
  tables: Tables,
  deltas: readonly UsageDelta[],
  { nowMs, pushRowsMax }: Counting,
): Promise<void> {
  const { usage } = tables
  const day = dayOf(nowMs)
  await tables.transaction(() => {
    if (pushRowsMax > 0) addUnpushed(tables, deltas, day, pushRowsMax)
    for (const delta of deltas) {
      const { id, window, ...counts } = delta
      const stored = usage.get([id, 'window']) as WindowUse | undefined
      const running = openWindow(tables, id, nowMs).window
      usage.put([id, 'window'], addToWindow(stored, delta, running))
      const today = usage.get([id, day]) as UsageCounts | undefined
      if (today === undefined) dropOldDays(tables, id, nowMs)
      usage.put([id, day], addToDay(today, counts))
    }
  })
}

/** Older than 90 days also by the newest one: the clock may be far ahead for a moment. */
function dropOldDays({ usage }: Tables, id: string, nowMs: number): void {
  const days = [...usage.getKeys({ start: [id, '0'], end: [id, 'a'] })].map(([, day]) => day)
  const oldest = oldestDayKept(Math.min(nowMs, Date.parse(days.at(-1) ?? dayOf(nowMs))))
  for (const day of days) if (day < oldest) usage.remove([id, day])
}

// Keeps the usage on disk that PostgreSQL has not confirmed, so that a crash or a restart while it
// is away loses none of it. One row per subscription, window and day; what is being sent is a batch
// that keeps its number until it is confirmed, by a later process if need be, and so counts once.
//
//   deltas ─► rows ─► batch (session, number) ─► confirmed: removed, with the new totals

const batchMark = 'usage batch'

/** Resolves when it is on disk. */
export function addUnsent(
  tables: Tables,
  deltas: readonly UsageDelta[],
  { nowMs, pushRowsMax }: Counting,
): Promise<unknown> {
  const { unsent } = tables
  const day = dayOf(nowMs)
  return tables.transaction(() => {
    if (pushRowsMax > 0) addUnpushed(tables, deltas, day, pushRowsMax)
    for (const { id, window, ...counts } of deltas) {
      const key: [string, number, string] = [id, window, day]
      unsent.put(key, addToDay(unsent.get(key), counts))
    }
  })
}

/**
 * The batch to send: the one that is not confirmed, else one of at most `max` rows under `fresh`.
 * Null when there is nothing to send.
 */
export function takeBatch(
  tables: Tables,
  max: number,
  fresh: Omit<UsageBatch, 'rows'>,
): Promise<UsageBatch | null> {
  const { unsent, marks } = tables
  return tables.transaction(() => {
    const open = marks.get(batchMark) as UsageBatch | undefined
    if (open !== undefined) return open
    const stored = [...unsent.getRange({ limit: max })]
    if (stored.length === 0) return null
    const rows = stored.map(
      ({ key: [id, window, day], value }): DayUse => ({ ...value, id, window, day }),
    )
    const batch: UsageBatch = { ...fresh, rows }
    marks.put(batchMark, batch)
    for (const { key } of stored) unsent.remove(key)
    return batch
  })
}

/** The batch is confirmed: stores the credits that all gateways used, for a start without them. */
export function endBatch(
  tables: Tables,
  totals: readonly WindowTotal[],
  nowMs: number,
): Promise<unknown> {
  const { usage, marks } = tables
  return tables.transaction(() => {
    marks.remove(batchMark)
    for (const total of totals.toSorted((a, b) => a.window - b.window)) {
      const { id, window } = total
      const stored = usage.get([id, 'window']) as WindowUse | undefined
      // Of its own window a total is all there is.
      const others = stored?.window === window ? { ...stored, credits: 0 } : stored
      const running = openWindow(tables, id, nowMs).window
      usage.put([id, 'window'], addToWindow(others, total, running))
    }
  })
}

/** Credits of a window that are not confirmed. */
export function unsentCredits({ unsent, marks }: Tables, id: string, window: number): number {
  const batch = marks.get(batchMark) as UsageBatch | undefined
  const sent = (batch?.rows ?? []).filter((row) => row.id === id && row.window === window)
  const rows = unsent.getRange({ start: [id, window, ''], end: [id, window, 'a'] })
  return [...sent, ...rows.map(({ value }) => value)].reduce((sum, row) => sum + row.credits, 0)
}

/** Rows that are not confirmed. */
export function unsentCount({ unsent, marks }: Tables): number {
  const batch = marks.get(batchMark) as UsageBatch | undefined
  return unsent.getCount() + (batch?.rows.length ?? 0)
}

// Keeps the usage on disk that the billing system has not confirmed, as above: rows, and one batch
// that keeps its ids. A row that waits grows instead of adding others, so that an outage of the
// receiver costs one row per subscription, window and day; what exceeds the bound is counted.

const pushMark = 'push batch'
const lostMark = 'push lost'

/** Runs inside the transaction that counts the deltas, so that both or neither are on disk. */
function addUnpushed(
  { unpushed, marks }: Tables,
  deltas: readonly UsageDelta[],
  day: string,
  rowsMax: number,
): void {
  let count = rowCount(unpushed)
  for (const { id, window, ...counts } of deltas) {
    const key: [string, number, string] = [id, window, day]
    const stored = unpushed.get(key)
    if (stored !== undefined || count < rowsMax) {
      if (stored === undefined) count++
      unpushed.put(key, addToDay(stored, counts))
      continue
    }
    const { rows, credits } = lostUse(marks)
    marks.put(lostMark, { rows: rows + 1, credits: credits + counts.credits } satisfies LostUse)
  }
}

/** The batch that is not confirmed, else a new one of at most `max` rows; null without any. */
export function takePush(tables: Tables, max: number, nowMs: number): Promise<PushBatch | null> {
  const { records, unpushed, marks } = tables
  return tables.transaction(() => {
    const open = marks.get(pushMark) as PushBatch | undefined
    if (open !== undefined) return open
    const stored = [...unpushed.getRange({ limit: max })]
    if (stored.length === 0) return null
    const rows = stored.map(({ key: [id, window, day], value }): PushRow => {
      const createdAt = records.get(id)?.subscription.createdAt
      if (createdAt === undefined) return { id, day, ...value }
      const { startsAtMs } = windowBounds(Date.parse(createdAt), window)
      return { id, windowFrom: isoTime(startsAtMs), day, ...value }
    })
    const batch: PushBatch = { id: randomUUID(), at: isoTime(nowMs), rows }
    marks.put(pushMark, batch)
    for (const { key } of stored) unpushed.remove(key)
    return batch
  })
}

export function endPush(tables: Tables): Promise<unknown> {
  return tables.transaction(() => tables.marks.remove(pushMark))
}

/** Rows that the billing system has not confirmed. */
export function unpushedCount({ unpushed, marks }: Tables): number {
  const batch = marks.get(pushMark) as PushBatch | undefined
  return rowCount(unpushed) + (batch?.rows.length ?? 0)
}

export function lostUse(marks: Tables['marks']): LostUse {
  return (marks.get(lostMark) as LostUse | undefined) ?? { rows: 0, credits: 0 }
}

/** Without reading the rows. */
export function rowCount(table: { getStats(): object }): number {
  // Reason for the cast: the package types its statistics as an object.
  return (table.getStats() as { readonly entryCount: number }).entryCount
}

const dayMs = 86_400_000

/** In the registry of a gateway that is alone; commands change it beside the server. */
export function localConsumers(tables: Tables, clock: Clock): ConsumerTable {
  const { consumers } = tables
  const rowsOf = (id: string) => [...consumers.getRange({ start: [id, ''], end: [id, '\uffff'] })]
  return {
    open(id, name) {
      const nowMs = clock.nowMs()
      return tables.transaction(() => {
        const known = consumers.get([id, name])
        for (const { key, value } of rowsOf(id))
          if (key[1] !== name && value.atMs < nowMs - unusedDays * dayMs) consumers.remove(key)
        if (known === undefined && rowsOf(id).length >= consumersMax) return 'too-many'
        const term = Math.max((known?.term ?? 0) + 1, nowMs)
        const opened = { term, position: known?.position ?? null, atMs: nowMs }
        consumers.put([id, name], opened)
        return opened
      })
    },

    async commit(held) {
      const atMs = clock.nowMs()
      const isLost = ({ id, name, term }: HeldName) => consumers.get([id, name])?.term !== term
      if (held.every(({ position }) => position === null)) return held.filter(isLost)
      const lost: HeldName[] = []
      await tables.transaction(() => {
        for (const one of held)
          if (isLost(one)) lost.push(one)
          else if (one.position !== null)
            consumers.put([one.id, one.name], { term: one.term, position: one.position, atMs })
      })
      return lost
    },

    async list(id) {
      return rowsOf(id).map(({ key: [, name], value: { position, atMs } }) => {
        return { name, position, atMs }
      })
    },

    async remove(id, name) {
      const found = rowsOf(id).filter(({ key }) => name === undefined || key[1] === name)
      await tables.transaction(() => {
        for (const { key } of found) consumers.remove(key)
      })
      return found.length
    },
  }
}

// Reads and writes the notices of the registry: those that wait for their receiver, and those that
// it has, so that none is sent again for the same reason.

/** Longer than what a notice says is true. */
const noticeKeptMs = 120 * 86_400_000
const noticeCleanMs = 86_400_000

export class NoticeTable {
  readonly #tables: Tables
  readonly #clock: Clock
  /** Those that were not sent, oldest first: read once, as only this process writes them. */
  readonly #waiting: Map<string, StoredNotice>
  #cleanedMs = Number.NEGATIVE_INFINITY

  constructor(tables: Tables, clock: Clock) {
    this.#tables = tables
    this.#clock = clock
    const stored = [...tables.notices.getRange()].filter(({ value }) => value.sentMs === null)
    stored.sort((a, b) => a.value.atMs - b.value.atMs)
    this.#waiting = new Map(stored.map(({ key, value }) => [key, value]))
  }

  /** Stores those that were not noticed before, and once a day removes what is long past. */
  async add(due: readonly Notice[]): Promise<void> {
    const { notices } = this.#tables
    const atMs = this.#clock.nowMs()
    const space = Math.max(0, waitingMax - this.count())
    const fresh = due.filter(({ id }) => notices.get(id) === undefined).slice(0, space)
    const isDue = atMs - this.#cleanedMs > noticeCleanMs
    const stored = isDue ? [...notices.getRange()] : []
    const old = stored.filter(({ value }) => value.atMs < atMs - noticeKeptMs)
    if (isDue) this.#cleanedMs = atMs
    if (fresh.length + old.length === 0) return
    await this.#tables.transaction(() => {
      for (const { key } of old) notices.remove(key)
      for (const notice of fresh) notices.put(notice.id, { notice, atMs, sentMs: null })
    })
    for (const { key } of old) this.#waiting.delete(key)
    for (const notice of fresh) this.#waiting.set(notice.id, { notice, atMs, sentMs: null })
  }

  /** The oldest that waits; null without one. */
  next(): StoredNotice | null {
    const [oldest = null] = this.#waiting.values()
    return oldest
  }

  async sent(id: string): Promise<void> {
    const { notices } = this.#tables
    await this.#tables.transaction(() => {
      const stored = notices.get(id)
      if (stored !== undefined) notices.put(id, { ...stored, sentMs: this.#clock.nowMs() })
    })
    this.#waiting.delete(id)
  }

  count(): number {
    return this.#waiting.size
  }
}

/** What the operator's receiver gets, as JSON. */
export interface Notice {
  /** Made of what it says: the same at every gateway and in every attempt. */
  readonly id: string
  readonly type: 'quota' | 'ends-soon' | 'ended'
  readonly subscription: string
  readonly label: string
  readonly [fact: string]: string | number
}

export interface StoredNotice {
  readonly notice: Notice
  readonly atMs: number
  /** Null while it waits. */
  readonly sentMs: number | null
}

/** Waiting at once; while more are due, the newest are not stored, and are due again later. */
export const waitingMax = 1_000

// Keeps the answers to changes that were made under an idempotency key, so that a request that is
// sent again, also after a restart, changes nothing and gets the first answer.
// An answer is stored without its secrets. A row is written before its change begins: one without
// an answer is a change that was cut off, or whose outcome is unknown.

/** Longer than a client retries. */
const answerKeptMs = 24 * 3_600_000
export const answersMax = 10_000

export type AnswerTable = ReturnType<typeof answerTable>

export const answerTable = (tables: Tables, clock: Clock) => ({
  /** Begins a change under a key. Returns what the key has already, or why it cannot begin. */
  begin(caller: string, key: string, request: string): StoredAnswer | 'begun' | 'full' {
    const { answers } = tables
    const nowMs = clock.nowMs()
    const at: [string, string] = [caller, digestOf(key)]
    return tables.transactionSync(() => {
      const known = answers.get(at)
      if (known !== undefined && nowMs - known.atMs < answerKeptMs) return known
      if (rowCount(answers) >= answersMax) {
        for (const { key: old, value } of [...answers.getRange()])
          if (nowMs - value.atMs >= answerKeptMs) answers.removeSync(old)
        if (rowCount(answers) >= answersMax) return 'full'
      }
      answers.putSync(at, { atMs: nowMs, request: digestOf(request), answer: null })
      return 'begun'
    })
  },

  /** Stores the answer; null removes the row, as nothing was changed. */
  end(caller: string, key: string, answer: string | null): void {
    const { answers } = tables
    const at: [string, string] = [caller, digestOf(key)]
    tables.transactionSync(() => {
      const begun = answers.get(at)
      if (answer === null) answers.removeSync(at)
      else if (begun !== undefined) answers.putSync(at, { ...begun, answer })
    })
  },
})
