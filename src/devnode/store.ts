// Keeps the chain on disk. Thread: main of the devnode.
// Every complete block is appended to a journal with the accounts it wrote, before anyone learns of
// it: kill -9 loses none. Every so many slots all accounts go into a snapshot. It is written while
// the chain runs: it may contain newer versions than its slot's, and replaying the journal from
// that slot on corrects them.
//
//   snapshot-4500   journal-3000   journal-4500        accounts: the snapshot, then what
//                   history only   blocks after 4500   the blocks after it wrote
//
// Once the disk has refused the journal nothing is kept until a snapshot begins another one: it is
// tried again every second, and when the chain stops.
import { randomBytes } from 'node:crypto'
import { appendFileSync, closeSync, openSync, readSync, writeSync } from 'node:fs'
import {
  copyFile,
  type FileHandle,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
} from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { Clock } from '../base/clock.ts'
import { Fault, messageOf } from '../base/errors.ts'
import { type Converter, prepareFormat } from '../base/format-file.ts'
import { type Log, LogThrottle } from '../base/telemetry/log.ts'
import type { HistogramChild } from '../base/telemetry/meters.ts'
import { yellowstoneBounds } from '../streams/geyser/hub.ts'
import { readAccounts, writeAccount } from './ledger/accounts.ts'
import { ByteReader, ByteWriter } from './ledger/bytes.ts'
import { Block, type LedgerAccount } from './ledger/ledger.ts'
import type { LedgerState } from './ledger/state.ts'

const chunkBytes = 256 * 1024
/** From a refused write to the next try. */
const retryMs = 1_000
const seedBytes = 32
const slotsBetweenJournals = 64
/** As many as the hub keeps for replay. */
const replaySlotsMax = yellowstoneBounds.replaySlots
const empty = new Uint8Array(0)
/** Of journal, snapshot and history. */
const converters: readonly Converter[] = []

interface StoreDeps {
  readonly isFresh: boolean
  /** The version of the package. */
  readonly release: string
  readonly log: Log
  readonly clock: Clock
  /** Of the keys of a new chain; random by default. */
  readonly seed?: Uint8Array | null
}

/** A block that was read from disk. */
export interface RestoredBlock {
  readonly block: Block
  /** The last version of every account that it wrote, as far as the journal has them. */
  written(): Iterable<LedgerAccount>
}

export class ChainStore {
  readonly seed: Uint8Array
  readonly #path: string
  readonly #deps: StoreDeps
  readonly #mark: SlotMark
  readonly #throttle = new LogThrottle()
  readonly #writer = new ByteWriter()
  /** Null from a refused write to the next snapshot. */
  #journal: RecordFileWriter | null = null
  #retryAtMs = 0
  #snapshotSlot = 0
  #newestSlot = 0
  #isSnapshotting: Promise<void> | null = null
  /** The journal given up last, while it is being closed. */
  #closing: Promise<unknown> = Promise.resolve()
  #isKept: (account: LedgerAccount) => boolean = () => true

  private constructor(path: string, seed: Uint8Array, deps: StoreDeps) {
    this.#path = path
    this.seed = seed
    this.#deps = deps
    this.#mark = SlotMark.open(join(path, 'newest-slot'))
  }

  static async open(path: string, deps: StoreDeps): Promise<ChainStore> {
    if (deps.isFresh) await rm(path, { recursive: true, force: true })
    await mkdir(path, { recursive: true, mode: 0o700 })
    await prepareFormat(path, deps.release, converters)
    return new ChainStore(path, await seedIn(path, deps.seed), deps)
  }

  /** Whether the folder has a chain. */
  static async exists(path: string): Promise<boolean> {
    const names = await readdir(path).catch(() => [])
    return names.some((name) => name.startsWith('snapshot-'))
  }

  /** The newest slot that was ever complete, whether its block was kept or not. */
  get seenSlot(): number {
    return this.#mark.slot
  }

  isSnapshotDue(everySlots: number): boolean {
    if (this.#journal === null) return this.#deps.clock.monotonicMs() >= this.#retryAtMs
    return this.#newestSlot - this.#snapshotSlot >= everySlots
  }

  /**
   * Fills the ledger from disk; returns the newest blocks, oldest first, or none when the disk has
   * none. `isKept`: whether an account belongs on disk at all.
   */
  async restore(
    ledger: LedgerState,
    isKept: (account: LedgerAccount) => boolean,
  ): Promise<readonly RestoredBlock[]> {
    this.#isKept = isKept
    const snapshot = (await this.#slotsOf('snapshot')).at(-1)
    if (snapshot === undefined) return []
    await this.#readSnapshot(snapshot, ledger)
    let slot = snapshot
    const restored: RestoredBlock[] = []
    let wholeBytes = 0
    const journals = await this.#slotsOf('journal')
    for (const start of journals) {
      wholeBytes = 0
      for await (const record of readRecords(this.#file('journal', start))) {
        const reader = new ByteReader(record)
        const block = Block.unpack(reader.bytes())
        // A hole: what comes after it cannot be trusted.
        if (restored.length > 0 && block.parentSlot !== slot) break
        slot = block.slot
        wholeBytes += headBytes + record.length
        ledger.restore(block)
        const accounts = reader.rest()
        if (slot > snapshot) {
          for (const account of readAccounts(accounts)) ledger.write(account)
          // Block by block, so that no account collects a version of each.
          ledger.settle()
        }
        restored.push({ block, written: () => readAccounts(accounts) })
        if (restored.length > replaySlotsMax) restored.shift()
      }
    }
    if (restored.length === 0 || slot < snapshot)
      throw broken('its journal ends before its snapshot')
    this.#snapshotSlot = snapshot
    this.#newestSlot = slot
    // The last one may have the newest block alone.
    const keptBytes = journals.at(-1) === slot ? wholeBytes : 0
    this.#journal = await RecordFileWriter.create(this.#file('journal', slot), keptBytes)
    return restored
  }

  /** The accounts of the first block, besides those of a new VM. */
  async genesisAccounts(): Promise<LedgerAccount[]> {
    const accounts: LedgerAccount[] = []
    for await (const record of readRecords(this.#genesis)) accounts.push(...readAccounts(record))
    return accounts
  }

  /** Writes a complete block and the accounts it wrote: they outlive the process. */
  append(block: Block, written: Iterable<LedgerAccount>): void {
    this.#newestSlot = block.slot
    this.#mark.set(block.slot)
    const journal = this.#journal
    if (journal === null) return
    this.#writer.bytes(block.pack())
    for (const account of written) if (this.#isKept(account)) writeAccount(this.#writer, account)
    journal.append(this.#writer.take())
    if (journal.fault === null) return
    this.#warn('chain journal write failed, retried', journal.fault)
    this.#giveUp(journal)
  }

  /** A journal with a gap is useless: the next snapshot begins another one. */
  #giveUp(journal: RecordFileWriter): void {
    if (this.#journal === journal) this.#journal = null
    this.#retryAtMs = this.#deps.clock.monotonicMs() + retryMs
    // Its fault is reported already; only the descriptor must not be left open.
    this.#closing = Promise.all([this.#closing, journal.close().catch(() => {})])
  }

  /** Writes all accounts while the chain runs. One at a time; never throws. */
  snapshot(ledger: LedgerState, seconds?: HistogramChild): Promise<void> {
    this.#isSnapshotting ??= this.#snapshot(ledger, seconds)
      .catch((error: unknown) => this.#warn('chain snapshot failed', error))
      .finally(() => {
        this.#isSnapshotting = null
      })
    return this.#isSnapshotting
  }

  /** What the journal lacks of `ledger` goes into a snapshot, if the disk takes it. */
  async close(ledger: LedgerState | null = null): Promise<void> {
    await this.#isSnapshotting
    const isKept = await this.#closeJournal()
    if (!isKept && ledger !== null) {
      await this.snapshot(ledger)
      await this.#closeJournal()
    }
    this.#mark.close()
  }

  /** Whether it was whole. */
  async #closeJournal(): Promise<boolean> {
    await this.#closing
    const journal = this.#journal
    this.#journal = null
    try {
      await journal?.close()
      return journal !== null
    } catch (error) {
      this.#warn('chain journal close failed', error)
      return false
    }
  }

  async #snapshot(ledger: LedgerState, seconds?: HistogramChild): Promise<void> {
    const { clock } = this.#deps
    const beganMs = clock.monotonicMs()
    const { newest } = ledger
    const { slot } = newest
    // Set first, so that a snapshot that fails is not retried with every slot.
    this.#snapshotSlot = slot
    this.#retryAtMs = beganMs + retryMs
    const file = this.#file('journal', slot)
    const journal = await RecordFileWriter.create(file)
    const before = this.#journal
    this.#journal = journal
    // The first journal, or the first after a gap, begins with the block of the snapshot; others
    // may have come while the file was made.
    if (before === null) this.#appendFrom(slot, ledger)
    const fresh = this.#file('unfinished', slot)
    try {
      await before?.close()
      await this.#writeAccounts(fresh, ledger.accountsAt(slot))
      await rename(fresh, this.#file('snapshot', slot))
    } catch (error) {
      // Its space may be the last of a full disk.
      await rm(fresh, { force: true })
      if (before === null || before.fault !== null) {
        this.#giveUp(journal)
        await rm(file, { force: true })
      }
      throw error
    }
    if (slot === 0) await copyFile(this.#file('snapshot', 0), this.#genesis)
    await syncFolder(this.#path)
    await this.#prune(slot, before === null ? slot : ledger.recentSlot)
    seconds?.observe((clock.monotonicMs() - beganMs) / 1000)
  }

  #appendFrom(slot: number, ledger: LedgerState): void {
    for (let at = slot; at <= ledger.newest.slot; at++) {
      const block = ledger.block(at)
      if (block !== null) this.append(block, at === slot ? [] : ledger.writtenIn(at))
    }
  }

  async #writeAccounts(path: string, accounts: Iterable<LedgerAccount>): Promise<void> {
    const file = await open(path, 'w', 0o600)
    const writer = new ByteWriter()
    let bytes = 0
    try {
      for (const account of accounts) {
        if (!this.#isKept(account)) continue
        writeAccount(writer, account)
        bytes += account.data.length + 128
        if (bytes < chunkBytes) continue
        bytes = 0
        await file.appendFile(recordOf(writer.take()))
      }
      if (bytes > 0) await file.appendFile(recordOf(writer.take()))
      // An empty record marks the end: nothing is missing.
      await file.appendFile(recordOf(empty))
      await file.datasync()
    } finally {
      await file.close()
    }
  }

  async #readSnapshot(slot: number, ledger: LedgerState): Promise<void> {
    let isWhole = false
    for await (const record of readRecords(this.#file('snapshot', slot))) {
      isWhole = record.length === 0
      for (const account of readAccounts(record)) ledger.write(account)
    }
    if (!isWhole) throw broken('its snapshot is damaged')
  }

  /** Removes older snapshots, and journals whose blocks are no longer in memory. */
  async #prune(snapshot: number, firstSlot: number): Promise<void> {
    for (const slot of await this.#slotsOf('snapshot'))
      if (slot < snapshot) await rm(this.#file('snapshot', slot), { force: true })
    const journals = await this.#slotsOf('journal')
    for (const [index, slot] of journals.entries()) {
      const end = journals[index + 1] ?? Number.POSITIVE_INFINITY
      // Blocks of a few more slots may have come in while the next journal was opened.
      if (end + slotsBetweenJournals < firstSlot || (firstSlot === snapshot && slot < snapshot))
        await rm(this.#file('journal', slot), { force: true })
    }
  }

  /** Slots of the files of a kind, ascending. */
  async #slotsOf(kind: FileKind): Promise<number[]> {
    const names = await readdir(this.#path)
    return names
      .filter((name) => name.startsWith(`${kind}-`))
      .map((name) => Number(name.slice(kind.length + 1)))
      .filter(Number.isSafeInteger)
      .sort((a, b) => a - b)
  }

  get #genesis(): string {
    return join(this.#path, 'genesis')
  }

  #file(kind: FileKind, slot: number): string {
    return join(this.#path, `${kind}-${slot}`)
  }

  #warn(msg: string, error: unknown): void {
    if (this.#throttle.allows(msg, this.#deps.clock.monotonicMs()))
      this.#deps.log.warn(msg, { reason: messageOf(error) })
  }
}

type FileKind = 'snapshot' | 'journal' | 'unfinished'

/** The seed of the chain's keys; made at the first start, unless it is given. */
async function seedIn(path: string, given?: Uint8Array | null): Promise<Uint8Array> {
  const file = join(path, 'seed')
  try {
    const seed = Buffer.from((await readFile(file, 'utf8')).trim(), 'hex')
    if (seed.length === seedBytes) return seed
    throw broken('its seed is damaged')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const seed = given ?? randomBytes(seedBytes)
  const handle = await open(file, 'w', 0o600)
  try {
    await handle.writeFile(`${Buffer.from(seed).toString('hex')}\n`)
    await handle.datasync()
  } finally {
    await handle.close()
  }
  return seed
}

/** A rename is safe from a power cut only when its folder is on the disk too. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

function broken(why: string): Fault {
  const advice = 'start with --fresh (sluice devnode: --reset) for a new chain'
  return new Fault('chain-state', `the embedded chain cannot be read: ${why}; ${advice}`)
}

// Writes and reads files of checksummed records.
// Reading a file ends at the first record that is truncated or corrupt.
//
//   +--------------+--------------+-----------------+
//   | length u32   | crc32 u32    | payload         |  …
//   +--------------+--------------+-----------------+

const headBytes = 8

export class RecordFileWriter {
  readonly #file: FileHandle
  #fault: unknown = null

  private constructor(file: FileHandle) {
    this.#file = file
  }

  /** Creates the file, or truncates it to the whole records at its beginning. */
  static async create(path: string, keptBytes = 0): Promise<RecordFileWriter> {
    const file = await open(path, keptBytes === 0 ? 'w' : 'a', 0o600)
    if (keptBytes > 0) await file.truncate(keptBytes)
    return new RecordFileWriter(file)
  }

  /** The error of the first write that failed; nothing is written after it. */
  get fault(): unknown {
    return this.#fault
  }

  /** The kernel has the record when this returns: the end of the process does not lose it. */
  append(payload: Uint8Array): void {
    if (this.#fault !== null) return
    try {
      // Unlike `write`, this writes all of it or throws: a nearly full disk takes a piece.
      appendFileSync(this.#file.fd, recordOf(payload))
    } catch (error) {
      this.#fault = error
    }
  }

  /** Flushes to the disk itself. Throws the error of an earlier write. */
  async close(): Promise<void> {
    try {
      await this.#file.datasync()
    } finally {
      await this.#file.close()
    }
    if (this.#fault !== null) throw this.#fault
  }
}

function recordOf(payload: Uint8Array): Buffer {
  const head = Buffer.alloc(headBytes)
  head.writeUInt32LE(payload.length, 0)
  head.writeUInt32LE(crc32(payload), 4)
  return Buffer.concat([head, payload])
}

/** The records of a file, up to the first that is not whole. */
export async function* readRecords(path: string): AsyncIterableIterator<Buffer> {
  const bytes = await readFile(path)
  let at = 0
  while (at + headBytes <= bytes.length) {
    const length = bytes.readUInt32LE(at)
    const end = at + headBytes + length
    if (end > bytes.length) return
    const payload = bytes.subarray(at + headBytes, end)
    if (crc32(payload) !== bytes.readUInt32LE(at + 4)) return
    yield payload
    at = end
  }
}

// Remembers the newest complete slot, also while the journal is not written. Thread: main of the
// devnode. The file is overwritten in place, which a full disk allows: a chain that lost blocks
// goes on after the slots that were seen, so that none of them comes again with another content.
//
//   slot u64 | crc32 u32

const markBytes = 12

export class SlotMark {
  /** As the file had it at the start; -1 for none. */
  readonly slot: number
  readonly #fd: number
  readonly #bytes = Buffer.alloc(markBytes)

  private constructor(fd: number) {
    this.#fd = fd
    const bytes = this.#bytes
    const isWhole =
      readSync(fd, bytes, 0, markBytes, 0) === markBytes && bytes.readUInt32LE(8) === sumOf(bytes)
    this.slot = isWhole ? Number(bytes.readBigUInt64LE(0)) : -1
  }

  static open(path: string): SlotMark {
    try {
      return new SlotMark(openSync(path, 'r+'))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
    return new SlotMark(openSync(path, 'wx+', 0o600))
  }

  /** Never throws: a disk that refuses even this is reported by the journal. */
  set(slot: number): void {
    this.#bytes.writeBigUInt64LE(BigInt(slot), 0)
    this.#bytes.writeUInt32LE(sumOf(this.#bytes), 8)
    try {
      writeSync(this.#fd, this.#bytes, 0, markBytes, 0)
    } catch {}
  }

  close(): void {
    closeSync(this.#fd)
  }
}

function sumOf(bytes: Buffer): number {
  return crc32(bytes.subarray(0, 8))
}
