// Writes rows into the embedded DuckDB index: the `RowSink` of the embedded engine.
// Thread: main of the writer process, the only process that writes the index's files.
//
// A state machine, drawn below. Tasks run one at a time, in their order; only the copy
// of a merge runs beside them. A crash in any state is repaired by `opening`: what exists follows
// from the names of the files alone.
import type { DuckDBConnection } from '@duckdb/node-api'
import { DuckDBInstance } from '@duckdb/node-api/lib/DuckDBInstance.js'
import { assert, Fault, isBug, messageOf } from '../../base/errors.ts'
import { engineBytesMax } from '../config.ts'
import type { Marks, RowBatch, RowSink } from '../engine.ts'
import { slotTables, type TableName } from '../tables.ts'
import { HotFile, SealedFiles } from './hot-file.ts'
import { serveSnapshots } from './snapshot-socket.ts'
import {
  hotName,
  listFolder,
  readSnapshot,
  removeFiles,
  type SnapshotFile,
  type StoreSnapshot,
  writeSnapshot,
} from './store-files.ts'

const defaults = {
  /** The hot file is sealed when its write-ahead log has this size, or when it is this old. */
  hotBytesMax: 64 * 1024 * 1024,
  hotMsMax: 3_600_000,
  mergedBytesMax: 512 * 1024 * 1024,
}
export interface DuckdbSinkOptions extends Partial<typeof defaults> {
  readonly retentionMs: number
  readonly retentionBytes: number
  /** Called with each state that is entered; for tests. */
  onState?(state: StoreState): void
}

const upkeepMs = 10_000
const engineOptions = {
  threads: '1',
  memory_limit: `${engineBytesMax / 1e9}GB`,
  /** Above this write-ahead log size DuckDB would checkpoint in the middle of a write. */
  wal_autocheckpoint: '1TB',
  /** What a merge took is given back after it: the allocator would keep it for the next one. */
  allocator_flush_threshold: '1MB',
  allocator_bulk_deallocation_flush_threshold: '1MB',
}

/** Opens the folder, recovers from a crash if there was one, and returns a sink ready for rows. */
export async function openDuckdbSink(folder: string, options: DuckdbSinkOptions) {
  const sink = new DuckdbSink(folder, options)
  await sink.open()
  return sink
}

export class DuckdbSink implements RowSink {
  readonly #folder: string
  readonly #options: typeof defaults & DuckdbSinkOptions
  #state: StoreState = 'broken'
  /** The last task in the queue; never rejects. */
  #last: Promise<unknown> = Promise.resolve()
  /** The copy of a merge, until its file is in the list; never rejects. */
  #merging: Promise<void> | null = null
  #isCutting = false
  #isStopped = false
  #instance: DuckDBInstance | null = null
  #writer!: DuckDBConnection
  #merger!: DuckDBConnection
  #publisher!: Publisher
  #archive!: SealedFiles
  #hot!: HotFile
  #snapshotServer: { close(): Promise<void> } | null = null
  #upkeep: NodeJS.Timeout | null = null

  constructor(folder: string, options: DuckdbSinkOptions) {
    this.#folder = folder
    this.#options = { ...defaults, ...options }
  }

  async open(): Promise<void> {
    try {
      await this.#inTurn('index open failed', () => this.#cutUnmarked())
      this.#snapshotServer = await serveSnapshots(this.#folder, () => this.publish())
    } catch (error) {
      // The next attempt opens the same files.
      this.#isStopped = true
      await this.#close()
      throw error
    }
    this.#upkeep = setInterval(() => void this.tidy().catch(() => {}), upkeepMs).unref()
  }

  async marks(): Promise<Marks> {
    return this.#hot.marks
  }

  async write(batches: readonly RowBatch[], marks: Marks): Promise<void> {
    await this.#inTurn('index write failed', async () => {
      this.#enter('writing')
      await this.#hot.write(batches, marks, this.#archive)
      this.#enter('ready')
      if ((await this.#hot.logBytes()) >= this.#options.hotBytesMax) await this.#seal()
    })
  }

  async blockhashes(from: number, to: number): Promise<ReadonlyMap<number, string>> {
    return this.#inTurn('index read failed', async () => {
      const selected = (table: TableName, columns: string) => {
        const hot = this.#hot.spans.meets(table, from, to) ? [this.#hot.catalog] : []
        return [...hot, ...this.#archive.holding(table, from, to)].map(
          (name) => `SELECT ${columns} FROM ${name}.${table} WHERE slot BETWEEN ${from} AND ${to}`,
        )
      }
      const blocks = selected('blocks', 'slot, blockhash, -tx_count::BIGINT AS surplus')
      if (blocks.length === 0) return new Map()
      const parts = [...blocks, ...selected('transactions', "slot, '', 1")]
      const found = await this.#writer.runAndReadAll(
        `SELECT slot, if(sum(surplus) < 0, '', max(blockhash)) FROM (${parts.join(' UNION ALL ')})
          GROUP BY slot HAVING max(blockhash) <> ''`,
      )
      return new Map(found.getRows().map(([slot, hash]) => [Number(slot), String(hash)]))
    })
  }

  /**
   * Deletes the rows of these slots. Rows go first, the mark last: after a crash in between, the
   * old mark makes the next start retry the cut.
   */
  async cut(from: number, to: number): Promise<void> {
    await this.#inTurn('index cut failed', () => this.#cut(from, to))
  }

  /** Makes all durable rows readable; resolves with the snapshot that contains them. */
  publish(): Promise<StoreSnapshot> {
    return this.#inTurn('index publish failed', () => this.#seal())
  }

  /** Seals an old hot file, drops files beyond the retention limits; also runs on a timer. */
  async tidy(): Promise<void> {
    await this.#inTurn('index tidy failed', async () => {
      if (Date.now() - this.#hot.bornAtMs > this.#options.hotMsMax) await this.#seal()
      const expired = this.#archive.expired(Date.now())
      if (expired.length > 0) await this.#replace(expired, null)
      this.#merge()
    })
  }

  async stop(): Promise<void> {
    if (this.#upkeep !== null) clearInterval(this.#upkeep)
    await this.#snapshotServer?.close()
    await this.publish().catch(() => {})
    await this.#last
    this.#isStopped = true
    await this.#close()
    this.#publisher.stop()
  }

  /** Runs a task after all earlier ones; recovers first when the one before broke the store. */
  async #inTurn<T>(what: string, task: () => Promise<T>): Promise<T> {
    const done = this.#last.then(async () => {
      if (this.#isStopped) throw new Fault('index-write', 'the index is stopped')
      try {
        if (this.#state === 'broken') await this.#open()
        return await task()
      } catch (error) {
        const fault = faultOf(error, what)
        // Rows that the engine rejects were rolled back; anything else is repaired by opening.
        const isRolledBack = this.#state === 'writing' && !fault.retryable
        this.#enter(isRolledBack ? 'ready' : 'broken')
        throw fault
      }
    })
    this.#last = done.catch(() => {})
    return done
  }

  /**
   * A slot beyond the mark is incomplete: the process died in between. It comes again, perhaps from
   * another node, whose write versions are other keys of `account_updates`. Only at the start: the
   * rest of a slot whose write failed follows.
   */
  async #cutUnmarked(): Promise<void> {
    const from = (this.#hot.marks.slots ?? Number.POSITIVE_INFINITY) + 1
    const last = Number.MAX_SAFE_INTEGER
    if (slotTables.some((table) => this.#archive.holding(table, from, last).length > 0))
      await this.#cut(from, last)
  }

  async #cut(from: number, to: number): Promise<void> {
    this.#isCutting = true
    try {
      await this.#seal()
      // A copy of one file has the name that a cut of that file takes.
      if (this.#merging !== null) this.#merger.interrupt()
      await this.#merging
      this.#enter('cutting')
      this.#publisher.removeLater(await this.#archive.cut(from, to))
      await this.#hot.setMarks({ ...this.#hot.marks, slots: from - 1 })
      await this.#list()
    } finally {
      this.#isCutting = false
    }
  }

  #enter(state: StoreState): void {
    assertTransition(this.#state, state)
    this.#state = state
    this.#options.onState?.(state)
  }

  async #open(): Promise<void> {
    await this.#close()
    this.#enter('opening')
    try {
      await this.#openFiles()
    } catch (error) {
      await this.#close()
      throw error
    }
  }

  async #openFiles(): Promise<void> {
    const listing = await listFolder(this.#folder)
    // The names of the files tell what is stored; the version of a list that broke was lower.
    const broken = () => ({ version: Date.now(), files: [] })
    this.#publisher ??= new Publisher(this.#folder, await readSnapshot(this.#folder).catch(broken))
    const instance = await DuckDBInstance.create(':memory:', engineOptions)
    this.#writer = await instance.connect()
    this.#merger = await instance.connect()
    this.#instance = instance
    this.#archive = new SealedFiles(this.#writer, { ...this.#options, folder: this.#folder })
    await this.#archive.open(listing.sealed)
    await this.#openHot(listing)
    await this.#seal()
    this.#publisher.removeLater(listing.obsolete)
  }

  /** A crash between rotating and sealing leaves two hot files: the older one is sealed now. */
  async #openHot({ hot, sealed }: Awaited<ReturnType<typeof listFolder>>): Promise<void> {
    const folder = this.#folder
    const files: HotFile[] = []
    for (const number of hot) {
      const file = await HotFile.open(this.#writer, { folder, number })
      if (file !== null) files.push(file)
      else await removeFiles(folder, [hotName(number), `${hotName(number)}.wal`])
    }
    const newest = files.pop()
    for (const file of files) await this.#archive.seal(file)
    const number = Math.max(0, ...hot, ...sealed.map((file) => file.to)) + 1
    this.#hot = newest ?? (await HotFile.create(this.#writer, { folder, number }, {}))
  }

  async #seal(): Promise<StoreSnapshot> {
    if (this.#hot.spans.totalRows > 0) {
      this.#enter('rotating')
      const full = this.#hot
      this.#hot = await HotFile.create(
        this.#writer,
        { folder: this.#folder, number: full.number + 1 },
        full.marks,
      )
      this.#enter('sealing')
      await this.#archive.seal(full)
    }
    const snapshot = await this.#list()
    this.#merge()
    return snapshot
  }

  async #list(): Promise<StoreSnapshot> {
    this.#enter('listing')
    const snapshot = await this.#publisher.publish(this.#archive.files)
    this.#enter('ready')
    return snapshot
  }

  async #replace(...args: Parameters<SealedFiles['replace']>): Promise<void> {
    this.#enter('replacing')
    const removed = await this.#archive.replace(...args)
    await this.#list()
    this.#publisher.removeLater(removed)
  }

  /** Starts the next merge, if there is one and none is running; else a file gets its times. */
  #merge(): void {
    const archive = this.#archive
    const isFree = this.#merging === null && !this.#isCutting
    const run = isFree ? (archive.nextRun() ?? archive.nextUntimed()) : null
    if (run === null) return
    this.#merging = archive.copy(this.#merger, run).then(
      // Queued, not awaited: an earlier task may wait for this copy to end.
      (copied) => void this.#merged(archive, run, copied).catch(() => {}),
      () => {
        // The sources stay; tried again after the next seal.
        this.#merging = null
      },
    )
  }

  #merged(archive: SealedFiles, ...made: Parameters<SealedFiles['replace']>): Promise<void> {
    return this.#inTurn('index merge failed', async () => {
      if (archive !== this.#archive) return
      await this.#replace(...made)
      this.#merging = null
      this.#merge()
    })
  }

  /** Aborts a running merge and closes all files. */
  async #close(): Promise<void> {
    if (this.#instance === null) return
    if (this.#merging !== null) this.#merger.interrupt()
    await this.#merging
    this.#merging = null
    // A database lives as long as its connections: one that is only collected later would delete
    // the log of the next one, which has the same name.
    this.#merger.closeSync()
    this.#writer.closeSync()
    this.#instance.closeSync()
    this.#instance = null
  }
}

/** System failures (a full disk) are retryable; invalid rows and our own bugs are not. */
function faultOf(error: unknown, what: string): Fault {
  if (error instanceof Fault) return error
  const message = messageOf(error)
  const isRows = /^(Conversion|Invalid Input|Out of Range) Error/.test(message)
  const isOurs = isBug(error) || error instanceof RangeError || error instanceof SyntaxError
  const retryable = !isRows && !isOurs
  return new Fault('index-write', `${what}: ${message}`, { cause: error, retryable })
}

// Publishes the list of files that readers open, and deletes files once no reader needs them.
// One call at a time.

/** Grace period before a replaced file is deleted: readers of an older snapshot may open it. */
export const removeDelayMs = 15_000

export class Publisher {
  readonly #folder: string
  #published: StoreSnapshot
  readonly #removals = new Set<NodeJS.Timeout>()

  /** Versions grow from the one on disk. */
  constructor(folder: string, published: StoreSnapshot) {
    this.#folder = folder
    this.#published = published
  }

  /** Resolves when the snapshot with these files is on disk. */
  async publish(files: readonly SnapshotFile[]): Promise<StoreSnapshot> {
    const before = this.#published
    if (isSame(before.files, files)) return before
    const snapshot = { version: before.version + 1, files }
    await writeSnapshot(this.#folder, snapshot)
    this.#published = snapshot
    return snapshot
  }

  removeLater(names: readonly string[]): void {
    if (names.length === 0) return
    const timer = setTimeout(() => {
      this.#removals.delete(timer)
      void removeFiles(this.#folder, names).catch(() => {})
    }, removeDelayMs).unref()
    this.#removals.add(timer)
  }

  stop(): void {
    for (const timer of this.#removals) clearTimeout(timer)
  }
}

function isSame(a: StoreSnapshot['files'], b: StoreSnapshot['files']): boolean {
  const isEqual = (one: SnapshotFile, other: SnapshotFile) =>
    one.name === other.name && one.rows?.length === other.rows?.length
  return a.length === b.length && a.every((file, index) => isEqual(file, b[index]!))
}

// The states of the embedded index's store, and the transitions between them.
//
//            ┌────────────────────────── ready ◄───────────────────────────┐
//            │ write      │ publish,      │ merged copy       │ cut        │
//            ▼            ▼ full, old     ▼ complete, expired ▼            │
//         writing     rotating        replacing            cutting         │
//            │            ▼               │                   │            │
//            │         sealing            ▼                   │            │
//            │            └───────────► listing ◄─────────────┘            │
//            └───────────────────────────┴─────────────────────────────────┘
//   any of these ── the disk or the engine failed ──► broken ── next task ──► opening ──► ready
//
//   writing    rows and marks into the hot file, in one commit: durable
//   rotating   creates the next hot file, with all marks
//   sealing    turns the previous hot file into an immutable one that readers may open
//   listing    writes readable.json, the list of files that readers open
//   replacing  puts a merged file in the place of its sources, or drops expired files
//   cutting    rewrites the files with rows of a chain that restarted, or of half a slot
//   opening    lists the folder, replays the hot file's log, seals it; also what follows a crash

const transitions = {
  opening: ['rotating', 'listing', 'broken'],
  ready: ['writing', 'rotating', 'listing', 'replacing', 'cutting', 'broken'],
  writing: ['ready', 'broken'],
  rotating: ['sealing', 'broken'],
  sealing: ['listing', 'broken'],
  replacing: ['listing', 'broken'],
  cutting: ['listing', 'broken'],
  listing: ['ready', 'broken'],
  broken: ['opening'],
} as const
export type StoreState = keyof typeof transitions

/** Throws when the state machine has no such transition. */
export function assertTransition(from: StoreState, to: StoreState): void {
  const allowed: readonly StoreState[] = transitions[from]
  assert(allowed.includes(to), `the store goes from ${from} to ${to}`)
}
