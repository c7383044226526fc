// The embedded index as a sink of rows. Thread: main of the writer process, which alone writes.
//
//   write -> hot file (rows + marks, one commit) -> full or old? -> sealed -> merged -> dropped
//                 |
//   readers ask --+-> tails: copies of the newest rows -> readable.json
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { isBug } from '../../../base/assert.ts'
import { Fault, messageOf } from '../../../base/errors.ts'
import type { Marks, RowBatch, RowSink } from '../engine.ts'
import type { TableName } from '../tables.ts'
import { Archive, removeDelayMs } from './archive.ts'
import { joinBatches } from './chunks.ts'
import { type Elsewhere, HotFile } from './hot-file.ts'
import { openReadableDoor } from './readable-door.ts'
import {
  hotName,
  type Listing,
  listFolder,
  nothingReadable,
  type Readable,
  readReadable,
  removeFiles,
  writeReadable,
} from './store-files.ts'
import { Tails } from './tails.ts'

export interface DuckdbSinkOptions {
  readonly retentionMs: number
  readonly retentionBytes: number
  /** The hot file is sealed when its log has grown to this. */
  readonly hotBytesMax?: number
  /** Or when it is this old. */
  readonly hotMsMax?: number
  readonly mergedBytesMax?: number
}

const hotBytesMax = 64 * 1024 * 1024
const hotMsMax = 3_600_000
const mergedBytesMax = 512 * 1024 * 1024
/** A commit costs a few milliseconds: a write per block of rows, not per row. */
const lingerMs = 50
const memoryLimit = '1GB'
const upkeepMs = 10_000
/** A log longer than this would be folded into its file by DuckDB in the middle of a write. */
const autoCheckpoint = '1TB'

/** Opens the folder, repairs what a crash left, and takes rows from then on. */
export async function openDuckdbSink(
  folder: string,
  options: DuckdbSinkOptions,
): Promise<DuckdbSink> {
  const sink = new DuckdbSink(folder, options)
  try {
    await sink.open()
    return sink
  } catch (error) {
    throw faultOf(error, 'the index cannot be opened')
  }
}

export class DuckdbSink implements RowSink {
  readonly lingerMs = lingerMs
  #instance!: DuckDBInstance
  readonly #folder: string
  readonly #options: DuckdbSinkOptions
  #writer!: DuckDBConnection
  #archive!: Archive
  #tails!: Tails
  #hot!: HotFile
  #door: { close(): Promise<void> } | null = null
  #version = 0
  #writes: Promise<unknown> = Promise.resolve()
  #publishing: Promise<unknown> = Promise.resolve()
  /** A copy of the hot file's rows that is under way: the file cannot be detached meanwhile. */
  #copying: Promise<unknown> = Promise.resolve()
  #announced: Readable | null = null
  #announcing: Promise<unknown> = Promise.resolve()
  #isOpen = false
  #isBroken = false
  /** The hot file before this one, on its way to the archive. */
  #sealing: Promise<void> = Promise.resolve()
  #upkeep: NodeJS.Timeout | null = null
  readonly #removals = new Set<NodeJS.Timeout>()
  readonly #elsewhere: Elsewhere = {
    top: (table) => this.#archive.top(table),
    holding: async (table: TableName, low, high) => {
      await this.#sealed()
      return this.#archive.holding(table, low, high)
    },
  }

  constructor(folder: string, options: DuckdbSinkOptions) {
    this.#folder = folder
    this.#options = options
  }

  async open(): Promise<void> {
    await this.#openStore()
    this.#door = await openReadableDoor(this.#folder, () => this.publish())
    this.#upkeep = setInterval(() => void this.#keepUp().catch(() => {}), upkeepMs)
    this.#upkeep.unref()
  }

  async marks(): Promise<Marks> {
    return this.#hot.marks
  }

  async write(batches: readonly RowBatch[], marks: Marks): Promise<void> {
    await this.#inTurn(async () => {
      await this.#hot.write(this.#writer, joinBatches(batches), marks, this.#elsewhere)
      if ((await this.#hot.logBytes()) >= (this.#options.hotBytesMax ?? hotBytesMax))
        await this.#sealHot(this.#hot.marks)
    })
  }

  /** Rows first, the mark last: after a crash in between, the mark asks for the same cut again. */
  async cut(from: number, to: number): Promise<void> {
    await this.#inTurn(async () => {
      await this.#sealHot(this.#hot.marks)
      await this.#sealed()
      await this.#archive.cut(from, to)
      await this.#sealHot({ ...this.#hot.marks, slots: from - 1 })
      await this.#sealed()
    })
  }

  /** Makes all that is durable readable; resolves with the files that hold it. */
  publish(): Promise<Readable> {
    const published = this.#publishing.then(async () => {
      await this.#sealed()
      const copied = this.#tails.follow(this.#hot)
      this.#copying = copied.catch(() => {})
      const superseded = await copied
      this.#isOpen = true
      const readable = await this.#announce()
      this.#removeLater(superseded)
      return readable
    })
    this.#publishing = published.catch(() => {})
    return published
  }

  /** Drops what is too old or too much and merges small files; done from time to time by itself. */
  async tidy(): Promise<void> {
    await this.#archive.tidy(Date.now())
    await this.#announcing
  }

  async stop(): Promise<void> {
    if (this.#upkeep !== null) clearInterval(this.#upkeep)
    await this.#door?.close()
    await this.#writes
    await this.#sealing
    await this.publish().catch(() => {})
    await this.#archive.stop()
    // The next start then has no log to go through.
    await this.#writer.run(`CHECKPOINT ${this.#hot.catalog}`).catch(() => {})
    for (const timer of this.#removals) clearTimeout(timer)
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
    this.#tails = new Tails(await this.#instance.connect(), this.#folder)
    this.#archive = new Archive(await this.#instance.connect(), {
      folder: this.#folder,
      retentionMs: this.#options.retentionMs,
      retentionBytes: this.#options.retentionBytes,
      mergedBytesMax: this.#options.mergedBytesMax ?? mergedBytesMax,
      onChange: () => void this.#announce().catch(() => {}),
      remove: (names) => this.#removeLater(names),
    })
    this.#version = Math.max(this.#version, (await readReadable(this.#folder)).version)
    await this.#archive.open(listing.sealed)
    await this.#openHot(listing)
    await this.publish()
    this.#removeLater(listing.waste)
  }

  async #openHot(listing: Listing): Promise<void> {
    const numbers = [...listing.hot]
    const files: HotFile[] = []
    for (const number of numbers) {
      const file = await HotFile.open(this.#writer, { folder: this.#folder, number })
      if (file !== null) files.push(file)
      else await removeFiles(this.#folder, [hotName(number), `${hotName(number)}.wal`])
    }
    // A crash in the middle of sealing leaves two: the newest goes on, the others are sealed now.
    const newest = files.pop()
    for (const file of files) await this.#archive.seal(file)
    const last = Math.max(0, ...numbers, ...listing.sealed.map((file) => file.to))
    this.#hot =
      newest ?? (await HotFile.create(this.#writer, { folder: this.#folder, number: last + 1 }, {}))
  }

  /** Goes on in a new file; the old one is sealed beside the writes. */
  async #sealHot(marks: Marks): Promise<void> {
    await this.#sealed()
    const full = this.#hot
    const place = { folder: this.#folder, number: full.number + 1 }
    this.#hot = await HotFile.create(this.#writer, place, marks)
    this.#archive.expect(full.spans)
    this.#sealing = this.#copying
      .then(() => this.#archive.seal(full))
      .then(
        () => void this.#archive.tidy(Date.now()).catch(() => {}),
        (error: unknown) => {
          // Left as it is: its rows are durable, and the next start seals it.
          process.stderr.write(`index: a file could not be sealed: ${messageOf(error)}\n`)
        },
      )
  }

  async #keepUp(): Promise<void> {
    const isOld = Date.now() - this.#hot.bornAtMs > (this.#options.hotMsMax ?? hotMsMax)
    if (isOld && this.#hot.spans.totalRows > 0)
      await this.#inTurn(() => this.#sealHot(this.#hot.marks))
    await this.#archive.tidy(Date.now())
  }

  /** Waits until no file is on its way to the archive, whoever sent it there meanwhile. */
  async #sealed(): Promise<void> {
    for (let waited: unknown = null; waited !== this.#sealing; ) {
      waited = this.#sealing
      await waited
    }
  }

  /** Tells readers which files make up the whole; a sealed file takes the place of its tails. */
  async #announce(): Promise<Readable> {
    const tails = this.#archive.has(this.#tails.hot) ? [] : this.#tails.files
    const files = [...this.#archive.files, ...tails]
    // While the folder is being opened, what stood there before the crash is the better view.
    if (!this.#isOpen) return nothingReadable
    const before = this.#announced
    if (before !== null && isSame(before.files, files)) {
      // It may be on its way to the disk still, and whoever asked may read it there.
      await this.#announcing
      return before
    }
    this.#version += 1
    const readable = { version: this.#version, files }
    this.#announced = readable
    const written = this.#announcing.then(() => writeReadable(this.#folder, readable))
    this.#announcing = written.catch(() => {})
    await written
    return readable
  }

  #removeLater(names: readonly string[]): void {
    if (names.length === 0) return
    const timer = setTimeout(() => {
      this.#removals.delete(timer)
      void removeFiles(this.#folder, names).catch(() => {})
    }, removeDelayMs)
    timer.unref()
    this.#removals.add(timer)
  }

  async #inTurn(task: () => Promise<void>): Promise<void> {
    const done = this.#writes.then(async () => {
      if (this.#isBroken) await this.#reopen()
      await task()
    })
    this.#writes = done.catch(() => {})
    try {
      await done
    } catch (error) {
      // An engine that met a bug of its own refuses everything from then on.
      if (/^(FATAL|INTERNAL) Error|invalidated/i.test(messageOf(error))) this.#isBroken = true
      throw faultOf(error, 'rows could not be written')
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

/** The world's troubles may pass (a full disk); rows that are no rows stay what they are. */
function faultOf(error: unknown, what: string): Fault {
  if (error instanceof Fault) return error
  const message = messageOf(error)
  const isRows = /^(Conversion|Invalid Input|Out of Range) Error/.test(message)
  const isOurs = isBug(error) || error instanceof RangeError || error instanceof SyntaxError
  const retryable = !isRows && !isOurs
  return new Fault('index-write', `${what}: ${message}`, { cause: error, retryable })
}

function isSame(a: Readable['files'], b: Readable['files']): boolean {
  return a.length === b.length && a.every((file, index) => file.name === b[index]!.name)
}
