// Writes rows into the embedded DuckDB index: the `RowSink` of the embedded engine.
// Thread: main of the writer process, the only process that writes the index's files.
//
//   write -> hot file (rows + marks, one commit) -> full or old? -> sealed -> merged -> dropped
//                 |
//   snapshot -----+-> tails: copies of the newest rows -> readable.json
//   request
//
// A mark is the highest position of a feed (slot or seq) whose rows are durable.
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { isBug } from '../../../base/assert.ts'
import { Fault, messageOf } from '../../../base/errors.ts'
import type { Marks, RowBatch, RowSink } from '../engine.ts'
import type { TableName } from '../tables.ts'
import { Archive } from './archive.ts'
import { joinBatches } from './chunks.ts'
import { HotFile, type SealedRows } from './hot-file.ts'
import { Publisher } from './publisher.ts'
import { serveSnapshots } from './snapshot-socket.ts'
import {
  emptySnapshot,
  hotName,
  type Listing,
  listFolder,
  readSnapshot,
  removeFiles,
  type Snapshot,
} from './store-files.ts'
import { Tails } from './tails.ts'

const defaults = {
  /** The hot file is sealed when its write-ahead log has this size, or when it is this old. */
  hotBytesMax: 64 * 1024 * 1024,
  hotMsMax: 3_600_000,
  mergedBytesMax: 512 * 1024 * 1024,
}
export interface DuckdbSinkOptions extends Partial<typeof defaults> {
  readonly retentionMs: number
  readonly retentionBytes: number
}

/** Batching delay: a commit costs a few milliseconds, so one write covers a block of rows. */
const lingerMs = 50
const memoryLimit = '1GB'
const upkeepMs = 10_000
/** Above this write-ahead log size DuckDB would checkpoint in the middle of a write. */
const autoCheckpoint = '1TB'

/** Opens the folder, recovers from a crash if there was one, and returns a sink ready for rows. */
export async function openDuckdbSink(
  folder: string,
  options: DuckdbSinkOptions,
): Promise<DuckdbSink> {
  const sink = new DuckdbSink(folder, options)
  try {
    await sink.open()
    return sink
  } catch (error) {
    throw faultOf(error, 'index open failed')
  }
}

export class DuckdbSink implements RowSink {
  readonly lingerMs = lingerMs
  #instance!: DuckDBInstance
  readonly #folder: string
  readonly #options: Required<DuckdbSinkOptions>
  #publisher!: Publisher
  #writer!: DuckDBConnection
  #archive!: Archive
  #tails!: Tails
  #hot!: HotFile
  #snapshotServer: { close(): Promise<void> } | null = null
  #writes: Promise<unknown> = Promise.resolve()
  #publishing: Promise<unknown> = Promise.resolve()
  /** The running copy of the hot file's rows; the file cannot be detached until it is done. */
  #copying: Promise<unknown> = Promise.resolve()
  #isOpen = false
  #isBroken = false
  /** The running seal of the previous hot file. */
  #sealing: Promise<void> = Promise.resolve()
  #upkeep: NodeJS.Timeout | null = null
  readonly #sealedRows: SealedRows = {
    top: (table) => this.#archive.top(table),
    holding: async (table: TableName, low, high) => {
      await this.#sealed()
      return this.#archive.holding(table, low, high)
    },
  }

  constructor(folder: string, options: DuckdbSinkOptions) {
    this.#folder = folder
    this.#options = { ...defaults, ...options }
  }

  async open(): Promise<void> {
    await this.#openStore()
    this.#snapshotServer = await serveSnapshots(this.#folder, () => this.publish())
    this.#upkeep = setInterval(() => void this.#keepUp().catch(() => {}), upkeepMs)
    this.#upkeep.unref()
  }

  async marks(): Promise<Marks> {
    return this.#hot.marks
  }

  async write(batches: readonly RowBatch[], marks: Marks): Promise<void> {
    await this.#inTurn(async () => {
      await this.#hot.write(this.#writer, joinBatches(batches), marks, this.#sealedRows)
      if ((await this.#hot.logBytes()) >= this.#options.hotBytesMax)
        await this.#sealHot(this.#hot.marks)
    })
  }

  async blockhash(slot: number): Promise<string | null> {
    return this.#inTurn(async () => {
      const sealed = await this.#sealedRows.holding('blocks', slot, slot)
      const parts = [this.#hot.catalog, ...sealed].map(
        (catalog) => `SELECT blockhash FROM ${catalog}.blocks WHERE slot = ${slot}`,
      )
      const found = await this.#writer.runAndReadAll(parts.join(' UNION ALL '))
      const hash = found.getRows()[0]?.[0]
      return hash === undefined ? null : String(hash)
    })
  }

  /**
   * Deletes the rows of these slots. Rows go first, the mark last: after a crash in between, the
   * old mark makes the next start retry the cut.
   */
  async cut(from: number, to: number): Promise<void> {
    await this.#inTurn(async () => {
      await this.#sealHot(this.#hot.marks)
      await this.#sealed()
      await this.#archive.cut(from, to)
      await this.#sealHot({ ...this.#hot.marks, slots: from - 1 })
      await this.#sealed()
    })
  }

  /** Makes all durable rows readable; resolves with the snapshot that contains them. */
  publish(): Promise<Snapshot> {
    const published = this.#publishing.then(async () => {
      await this.#sealed()
      const copied = this.#tails.follow(this.#hot)
      this.#copying = copied.catch(() => {})
      const superseded = await copied
      this.#isOpen = true
      const snapshot = await this.#announce()
      this.#publisher.removeLater(superseded)
      return snapshot
    })
    this.#publishing = published.catch(() => {})
    return published
  }

  /** Drops files beyond the retention limits and merges small ones; also runs on a timer. */
  async tidy(): Promise<void> {
    await this.#archive.tidy(Date.now())
    await this.#publisher.idle()
  }

  async stop(): Promise<void> {
    if (this.#upkeep !== null) clearInterval(this.#upkeep)
    await this.#snapshotServer?.close()
    await this.#writes
    await this.#sealing
    await this.publish().catch(() => {})
    await this.#archive.stop()
    // The next start then has no write-ahead log to replay.
    await this.#writer.run(`CHECKPOINT ${this.#hot.catalog}`).catch(() => {})
    this.#publisher.stop()
    this.#instance.closeSync()
  }

  async #openStore(): Promise<void> {
    const listing = await listFolder(this.#folder)
    this.#instance = await DuckDBInstance.create(':memory:', {
      threads: '1',
      memory_limit: memoryLimit,
      wal_autocheckpoint: autoCheckpoint,
    })
    try {
      await this.#openFiles(listing)
      this.#isBroken = false
    } catch (error) {
      this.#instance.closeSync()
      throw error
    }
  }

  async #openFiles(listing: Listing): Promise<void> {
    this.#isOpen = false
    this.#writer = await this.#instance.connect()
    this.#tails = new Tails(await this.#instance.connect(), this.#folder, listing.lastTail)
    this.#publisher ??= new Publisher(this.#folder, (await readSnapshot(this.#folder)).version)
    this.#archive = new Archive(await this.#instance.connect(), {
      ...this.#options,
      folder: this.#folder,
      onChange: () => void this.#announce().catch(() => {}),
      remove: (names) => this.#publisher.removeLater(names),
    })
    await this.#archive.open(listing.sealed)
    await this.#openHot(listing)
    await this.publish()
    this.#publisher.removeLater(listing.obsolete)
  }

  async #openHot(listing: Listing): Promise<void> {
    const numbers = [...listing.hot]
    const files: HotFile[] = []
    for (const number of numbers) {
      const file = await HotFile.open(this.#writer, { folder: this.#folder, number })
      if (file !== null) files.push(file)
      else await removeFiles(this.#folder, [hotName(number), `${hotName(number)}.wal`])
    }
    // A crash during sealing leaves several: the newest stays hot, the others are sealed now.
    const newest = files.pop()
    for (const file of files) await this.#archive.seal(file)
    const last = Math.max(0, ...numbers, ...listing.sealed.map((file) => file.to))
    this.#hot =
      newest ?? (await HotFile.create(this.#writer, { folder: this.#folder, number: last + 1 }, {}))
  }

  /** Switches to a new hot file; the old one is sealed concurrently with further writes. */
  async #sealHot(marks: Marks): Promise<void> {
    await this.#sealed()
    const full = this.#hot
    const next = { folder: this.#folder, number: full.number + 1 }
    this.#hot = await HotFile.create(this.#writer, next, marks)
    this.#archive.expect(full.spans)
    this.#sealing = this.#copying
      .then(() => this.#archive.seal(full))
      .then(
        () => void this.#archive.tidy(Date.now()).catch(() => {}),
        (error: unknown) => {
          // The file is kept unsealed: its rows are durable, and the next start seals it.
          process.stderr.write(`index: file seal failed: ${messageOf(error)}\n`)
        },
      )
  }

  async #keepUp(): Promise<void> {
    const isOld = Date.now() - this.#hot.bornAtMs > this.#options.hotMsMax
    if (isOld && this.#hot.spans.totalRows > 0)
      await this.#inTurn(() => this.#sealHot(this.#hot.marks))
    await this.#archive.tidy(Date.now())
  }

  /** Waits until no seal is running, including seals that start while waiting. */
  async #sealed(): Promise<void> {
    for (let waited: unknown = null; waited !== this.#sealing; ) {
      waited = this.#sealing
      await waited
    }
  }

  /** Publishes the current list of files; a sealed file replaces its tails. */
  async #announce(): Promise<Snapshot> {
    const tails = this.#archive.has(this.#tails.hot) ? [] : this.#tails.files
    // While the folder is being opened, the snapshot from before the crash is more complete.
    if (!this.#isOpen) return emptySnapshot
    return this.#publisher.publish([...this.#archive.files, ...tails])
  }

  async #inTurn<T>(task: () => Promise<T>): Promise<T> {
    const done = this.#writes.then(async () => {
      if (this.#isBroken) await this.#reopen()
      return task()
    })
    this.#writes = done.catch(() => {})
    try {
      return await done
    } catch (error) {
      // After an internal error DuckDB rejects every statement: reopen before the next task.
      if (/^(FATAL|INTERNAL) Error|invalidated/i.test(messageOf(error))) this.#isBroken = true
      throw faultOf(error, 'index write failed')
    }
  }

  async #reopen(): Promise<void> {
    await this.#archive.stop()
    await this.#publishing
    await this.#sealing
    this.#instance.closeSync()
    await this.#openStore()
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
