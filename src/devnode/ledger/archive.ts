// Keeps the history of the chain on disk: blocks, transactions, their signatures and addresses.
// Thread: main of the devnode; LMDB commits on a thread of its own, in batches.
// Recent blocks are in memory too, so no reader needs what is not committed yet. A block is here
// when its row in `blocks` is: that row is written last and removed first.
//
//   blocks         slot                    -> facts of the block
//   transactions   slot | index            -> block time | record
//   signatures     first half of signature -> slot | index
//   addresses      address | slot | index  -> nothing
//   gaps           first slot after a gap  -> last slot before it
//   marks          'bytes'                 -> estimated size of all rows
import { chmodSync, mkdirSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { type Database, open, type RootDatabase } from 'lmdb'
import { isSameKey } from '../../chain/solana/base58.ts'
import { Block, type Position, packEntries, StoredTransaction } from './ledger.ts'

type Rows = Database<Buffer, Buffer>

export interface ArchiveBounds {
  readonly slots: number
  readonly bytes: number
}

const folderMode = 0o700
const faultyCloseMs = 1_000
/** Commits are batched for this long: a commit waits for the disk. */
const commitMs = 250
/** Rows that one turn of the event loop writes. */
const transactionsPerTurn = 64
/** Blocks that one appended block may evict: two, so that a lowered bound is reached in time. */
const evictedPerBlock = 2
/** Blocks that wait for the disk before it counts as broken. */
const pendingBlocksMax = 5_000
const [empty, bytesMark] = [Buffer.alloc(0), Buffer.from('bytes')]
const options = { encoding: 'binary', keyEncoding: 'binary' } as const

export class Archive {
  readonly #root: RootDatabase<Buffer, Buffer>
  readonly #blocks: Rows
  readonly #transactions: Rows
  readonly #signatures: Rows
  readonly #addresses: Rows
  readonly #gaps: Rows
  readonly #marks: Rows
  readonly #ranges = new SlotRanges()
  readonly #bounds: ArchiveBounds
  readonly #onFault: (fault: unknown) => void
  readonly #pending: Block[] = []
  readonly #stopIgnoring = ignoreCommitRejections()
  #writing: Promise<void> | null = null
  #watched: Promise<unknown> | null = null
  #fault: unknown = null
  #first: number
  #committed: number
  #appended: number
  #count: number
  #bytes: number

  constructor(path: string, bounds: ArchiveBounds, onFault: (fault: unknown) => void) {
    this.#bounds = bounds
    this.#onFault = onFault
    mkdirSync(path, { recursive: true, mode: folderMode })
    // Earlier versions let the library make it.
    chmodSync(path, folderMode)
    this.#root = open({ path, noSubdir: false, maxDbs: 8, commitDelay: commitMs, ...options })
    const rows = (name: string): Rows => this.#root.openDB(name, options)
    this.#blocks = rows('blocks')
    this.#transactions = rows('transactions')
    this.#signatures = rows('signatures')
    this.#addresses = rows('addresses')
    this.#gaps = rows('gaps')
    this.#marks = rows('marks')
    this.#root.readerCheck()
    this.#first = this.#edge(false) ?? Number.POSITIVE_INFINITY
    this.#committed = this.#edge(true) ?? -1
    this.#appended = this.#committed
    for (const { key, value } of this.#gaps.getRange({}))
      this.#ranges.add({ slot: slotIn(key), previous: slotIn(value) })
    this.#count = entriesIn(this.#blocks)
    this.#bytes = Number(this.#marks.get(bytesMark)?.readBigUInt64BE() ?? 0n)
  }

  /** Oldest slot; Infinity when it is empty. */
  get firstSlot(): number {
    return this.#first
  }

  /** Newest slot that can be read; -1 when it is empty, Infinity once the disk has failed. */
  get readableSlot(): number {
    return this.#fault === null ? this.#committed : Number.POSITIVE_INFINITY
  }

  /** Size on disk, about. */
  get bytes(): number {
    return this.#bytes
  }

  /** Queues the newest block; returns at once. Blocks that are here already are ignored. */
  append(block: Block): void {
    const newest = this.#appended
    if (this.#fault !== null || block.slot <= newest) return
    if (newest >= 0 && block.slot !== newest + 1) this.#addGap(newest, block.slot)
    this.#appended = block.slot
    this.#pending.push(block)
    if (this.#pending.length > pendingBlocksMax) this.#fail(new Error('the disk is too slow'))
    this.#writing ??= this.#write()
  }

  has(slot: number): boolean {
    return slot >= this.#first && this.#blocks.doesExist(slotKey(slot))
  }

  block(slot: number): Block | null {
    if (slot < this.#first) return null
    const row = this.#blocks.get(slotKey(slot))
    if (row === undefined) return null
    const stored: StoredTransaction[] = []
    for (const { key, value } of this.#transactions.getRange(rangeOf(slot)))
      stored.push(transactionOf(key, value))
    return Block.unpack(row).with(stored)
  }

  /** Slots of blocks from `from` to `to`, both included; at most `limit`. */
  slots(range: { readonly from: number; readonly to: number; readonly limit: number }): number[] {
    const from = Math.max(range.from, this.#first)
    return this.#ranges.slots({ ...range, from, to: Math.min(range.to, this.#committed) })
  }

  find(signature: Uint8Array): StoredTransaction | null {
    const key = this.#signatures.get(signatureKey(signature))
    if (key === undefined || slotIn(key) < this.#first) return null
    const found = this.#transaction(key)
    return found !== null && isSameKey(found.signature, signature) ? found : null
  }

  /** Transactions of an address that are older than a position, newest first. */
  *backwards(address: Uint8Array, before: Position): IterableIterator<StoredTransaction> {
    const start = addressKey(address, positionKey(before))
    const end = Buffer.from(address)
    for (const key of this.#addresses.getKeys({ start, end, reverse: true })) {
      const position = key.subarray(32)
      if (slotIn(position) < this.#first) return
      const found = key.equals(start) ? null : this.#transaction(position)
      if (found !== null) yield found
    }
  }

  /** Removes blocks that the journal does not have: the chain will make others of these slots. */
  async truncateAfter(slot: number): Promise<void> {
    const start = slotKey(slot + 1)
    for (const rows of [this.#blocks, this.#gaps])
      for (const key of rows.getKeys({ start })) this.#watch(rows.remove(key))
    this.#ranges.dropAfter(slot)
    for (const { key, value } of this.#transactions.getRange({ start }))
      this.#removeTransaction(transactionOf(key, value))
    await this.#watched
    this.#root.resetReadTxn()
    this.#committed = Math.min(this.#committed, slot)
    this.#appended = Math.min(this.#appended, slot)
    if (this.#first > slot) this.#first = Number.POSITIVE_INFINITY
    this.#count = entriesIn(this.#blocks)
  }

  /** Writes everything that was appended, then closes. */
  async close(): Promise<void> {
    await this.#writing
    const closed = this.#root.close()
    // After a commit that failed the library may wait for another one for ever.
    await (this.#fault === null ? closed : Promise.race([closed, setTimeout(faultyCloseMs)]))
    this.#stopIgnoring()
  }

  /** Writes the queue, a few transactions in each turn of the event loop. */
  async #write(): Promise<void> {
    for (let block = this.#pending[0]; block !== undefined; block = this.#pending[0]) {
      const { slot } = block
      for (let at = 0; at < block.stored.length; at += transactionsPerTurn) {
        if (this.#fault !== null) break
        for (const transaction of block.stored.slice(at, at + transactionsPerTurn))
          this.#addTransaction(transaction)
        await nextTurn()
      }
      if (this.#fault !== null) break
      const row = block.with([], packEntries([])).pack()
      this.#count += 1
      this.#bytes += sizeOf(row.length)
      const written = this.#blocks.put(slotKey(slot), row)
      this.#watch(written)
      this.#pending.shift()
      written.then(
        () => {
          this.#committed = Math.max(this.#committed, slot)
          this.#first = Math.min(this.#first, slot)
          this.#root.resetReadTxn()
        },
        () => {},
      )
      for (let count = 0; count < evictedPerBlock && this.#isFull; count++) await this.#evict()
      this.#watch(this.#marks.put(bytesMark, u64(this.#bytes)))
      await nextTurn()
    }
    this.#writing = null
  }

  get #isFull(): boolean {
    return this.#count > this.#bounds.slots || this.#bytes > this.#bounds.bytes
  }

  /** Removes the oldest block, unless the next one is not committed yet. */
  async #evict(): Promise<void> {
    const slot = this.#first
    if (!Number.isFinite(slot)) return
    const row = this.#blocks.get(slotKey(slot))
    const [next] = this.#blocks.getKeys({ start: slotKey(slot + 1), limit: 1 })
    if (row === undefined || next === undefined) return
    this.#first = slotIn(next)
    this.#watch(this.#blocks.remove(slotKey(slot)))
    if (this.#first !== slot + 1) this.#removeGap(this.#first)
    this.#count -= 1
    this.#bytes -= sizeOf(row.length)
    const rows = [...this.#transactions.getRange(rangeOf(slot))]
    for (const [index, { key, value }] of rows.entries()) {
      this.#removeTransaction(transactionOf(key, value))
      if (index % transactionsPerTurn === 0) await nextTurn()
    }
  }

  #addGap(previous: number, slot: number): void {
    this.#ranges.add({ slot, previous })
    this.#watch(this.#gaps.put(slotKey(slot), slotKey(previous)))
  }

  /** The gap before the slot that is now the oldest. */
  #removeGap(slot: number): void {
    this.#ranges.dropBefore(slot)
    this.#watch(this.#gaps.remove(slotKey(slot)))
  }

  #addTransaction(transaction: StoredTransaction): void {
    const { record, blockTime, signature, keys } = transaction
    const position = positionKey(transaction)
    this.#watch(this.#transactions.put(position, Buffer.concat([u64(blockTime), record])))
    this.#watch(this.#signatures.put(signatureKey(signature), position))
    for (const key of keys) this.#watch(this.#addresses.put(addressKey(key, position), empty))
    this.#bytes += transactionSize(transaction, keys.length)
  }

  #removeTransaction(transaction: StoredTransaction): void {
    const { signature, keys } = transaction
    const position = positionKey(transaction)
    this.#watch(this.#transactions.remove(position))
    this.#watch(this.#signatures.remove(signatureKey(signature)))
    for (const key of keys) this.#watch(this.#addresses.remove(addressKey(key, position)))
    this.#bytes -= transactionSize(transaction, keys.length)
  }

  #transaction(position: Buffer): StoredTransaction | null {
    const value = this.#transactions.get(position)
    return value === undefined ? null : transactionOf(position, value)
  }

  /** Writes of one batch share their promise. */
  #watch(written: Promise<unknown>): void {
    if (written === this.#watched) return
    this.#watched = written
    written.catch((error: unknown) => this.#fail(error))
  }

  #fail(error: unknown): void {
    this.#pending.length = 0
    if (this.#fault === null) this.#onFault(error)
    this.#fault = error
  }

  #edge(reverse: boolean): number | null {
    const [key] = this.#blocks.getKeys({ reverse, limit: 1 })
    return key === undefined ? null : slotIn(key)
  }
}

function entriesIn(rows: Rows): number {
  // Reason for the cast: the package does not declare what it returns.
  return (rows.getStats() as { readonly entryCount: number }).entryCount
}

function transactionOf(key: Buffer, value: Buffer): StoredTransaction {
  const blockTime = slotIn(value)
  const index = key.readUInt32BE(8)
  return new StoredTransaction(value.subarray(8), { slot: slotIn(key), index, blockTime })
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

// Keys of the archive's rows, big-endian, so that they sort by slot and index, and their sizes.

/** Pages are partly empty, and rows have headers: measured. */
const fillFactor = 1.6
const rowBytes = 24

export function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(Math.max(0, Math.round(value))))
  return bytes
}

export const slotKey = u64

export function slotIn(key: Buffer): number {
  return Number(key.readBigUInt64BE())
}

export function positionKey({ slot, index }: Position): Buffer {
  const key = Buffer.alloc(12)
  key.writeBigUInt64BE(BigInt(slot))
  key.writeUInt32BE(index, 8)
  return key
}

export function addressKey(address: Uint8Array, position: Buffer): Buffer {
  return Buffer.concat([address, position])
}

/** Half of it is as unique as a hash; a reader compares the whole. */
export function signatureKey(signature: Uint8Array): Buffer {
  return Buffer.from(signature.subarray(0, 32))
}

export function rangeOf(slot: number): { start: Buffer; end: Buffer } {
  return { start: slotKey(slot), end: slotKey(slot + 1) }
}

/** Of all rows of a transaction. */
export function transactionSize(
  { record }: { readonly record: Uint8Array },
  keyCount: number,
): number {
  return sizeOf(record.length + 64) + sizeOf(44) * keyCount
}

/** Of a row on disk, about. */
export function sizeOf(bytes: number): number {
  return (bytes + rowBytes) * fillFactor
}

// Keeps the process alive when LMDB cannot commit, as on a full disk.
// Besides the promises that it returns, lmdb then rejects some of its own, out of reach; an
// unhandled rejection ends a process. The archive learns of the failure by the promises it has.

/** Ignores rejections of failed commits; every other one is thrown, as without a listener. */
export function ignoreCommitRejections(): () => void {
  process.on('unhandledRejection', onRejection)
  return () => process.off('unhandledRejection', onRejection)
}

function onRejection(error: unknown): void {
  if (!isOfCommit(error)) throw error
}

function isOfCommit(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return 'commitError' in error || (error.stack?.includes('/lmdb/write.js') ?? false)
}

// The slots of blocks as ranges without gaps: a chain skips few.

interface Gap {
  /** The first slot after the gap, and the last one before it. */
  readonly slot: number
  readonly previous: number
}

export class SlotRanges {
  /** Ascending. */
  #gaps: Gap[] = []

  add(gap: Gap): void {
    this.#gaps.push(gap)
  }

  /** Forgets the gaps that end at this slot or before. */
  dropBefore(slot: number): void {
    this.#gaps = this.#gaps.filter((gap) => gap.slot > slot)
  }

  /** Forgets the gaps that end after this slot. */
  dropAfter(slot: number): void {
    this.#gaps = this.#gaps.filter((gap) => gap.slot <= slot)
  }

  /** Slots from `from` to `to`, both included, without those in gaps; at most `limit`. */
  slots({ from, to, limit }: { from: number; to: number; limit: number }): number[] {
    const slots: number[] = []
    let at = from
    const addUpTo = (end: number) => {
      for (; at <= Math.min(end, to) && slots.length < limit; at++) slots.push(at)
    }
    for (const { slot, previous } of this.#gaps) {
      addUpTo(previous)
      at = Math.max(at, slot)
    }
    addUpTo(to)
    return slots
  }
}
