// An executed block in its JSON-RPC form, from its BlockStart, BlockEnd and transaction records.
// Everything except its number and hashes is built on request.
import { Fault } from '../../base/errors.ts'
import { blockEnd, blockStart } from '../../chain/evm/event-payload.ts'
import { hexOf, quantityOf } from '../../chain/evm/hex.ts'
import { readU64, readU256 } from '../../chain/evm/words.ts'
import { LazyBlockText, TextCache, type TextSource, TransactionText } from './block-text.ts'

/** Bytes of text per byte of records, at most: with full objects, and with hashes. */
const fullFactor = 2.7
const hashesFactor = 0.2
/** Upper bound for the header, in text and in memory. */
const headerBytes = 4096
const nothing = new Uint8Array(0)

/** Implements ExecutionBlock of upstream/ports.ts. */
export class ExecutedBlock {
  readonly number: number
  readonly blockHash: string
  readonly ethHash: string
  readonly #memory: TextCache
  #start: Uint8Array
  #end: Uint8Array
  #records: Uint8Array
  #isKept = true
  #transactions: TransactionText | null = null
  #full: LazyBlockText | null = null
  #hashes: LazyBlockText | null = null

  /** Keeps references to all three arrays; they must not be written any more. */
  constructor(start: Uint8Array, end: Uint8Array, records: Uint8Array, memory: TextCache) {
    this.number = readU64(start, blockStart.blockNumber)
    this.blockHash = hexOf(start, blockStart.id, 32)
    this.ethHash = hexOf(end, blockEnd.ethHash, 32)
    this.#start = start
    this.#end = end
    this.#records = records
    this.#memory = memory
  }

  /** Memory cost of the block, without its texts. */
  get bytes(): number {
    return this.#records.length + headerBytes
  }

  /** Its JSON text, with whole transactions or with their hashes. */
  text(full: boolean): LazyBlockText {
    if (full) {
      this.#full ??= this.#made((out, at) => this.#indexed().writeObject(out, at), fullFactor)
      return this.#full
    }
    this.#hashes ??= this.#made((out, at) => this.#indexed().writeHash(out, at), hashesFactor)
    return this.#hashes
  }

  /** Releases everything on eviction; reading an unfinished text throws from then on. */
  drop(): void {
    this.#isKept = false
    this.#start = this.#end = this.#records = nothing
    this.#transactions = null
    for (const text of [this.#full, this.#hashes]) if (text !== null) this.#memory.remove(text)
  }

  #made(write: TextSource['write'], factor: number): LazyBlockText {
    const opening = (): string => {
      const header = JSON.stringify(headerOf(this.#start, this.#end))
      return `${header.slice(0, -1)},"transactions":[`
    }
    const source = { opening, count: () => this.#indexed().count, write }
    return new LazyBlockText(source, headerBytes + this.#records.length * factor, this.#memory)
  }

  #indexed(): TransactionText {
    if (this.#transactions !== null) return this.#transactions
    if (!this.#isKept) throw new Fault('block-gone', 'the block is no longer kept')
    const { ethHash: blockHash, number: blockNumber } = this
    const baseFee = readU256(this.#start, blockStart.baseFee)
    this.#transactions = new TransactionText(this.#records, { blockHash, blockNumber, baseFee })
    return this.#transactions
  }
}

function headerOf(start: Uint8Array, end: Uint8Array): Record<string, unknown> {
  const hash = (bytes: Uint8Array, at: number): string => hexOf(bytes, at, 32)
  const number = (at: number): string => quantityOf(readU64(start, at))
  const extraBytes = Math.min(32, readU64(start, blockStart.extraDataLength))
  const withdrawalsRoot = hash(start, blockStart.withdrawalsRoot)
  return {
    number: quantityOf(readU64(start, blockStart.blockNumber)),
    hash: hash(end, blockEnd.ethHash),
    parentHash: hash(start, blockStart.parentHash),
    nonce: hexOf(start, blockStart.nonce, 8),
    sha3Uncles: hash(start, blockStart.ommersHash),
    logsBloom: hexOf(end, blockEnd.logsBloom, blockEnd.logsBloomBytes),
    transactionsRoot: hash(start, blockStart.transactionsRoot),
    stateRoot: hash(end, blockEnd.stateRoot),
    receiptsRoot: hash(end, blockEnd.receiptsRoot),
    miner: hexOf(start, blockStart.beneficiary, 20),
    difficulty: number(blockStart.difficulty),
    extraData: hexOf(start, blockStart.extraData, extraBytes),
    gasLimit: number(blockStart.gasLimit),
    gasUsed: quantityOf(readU64(end, blockEnd.gasUsed)),
    timestamp: number(blockStart.timestamp),
    mixHash: hash(start, blockStart.prevRandao),
    baseFeePerGas: quantityOf(readU256(start, blockStart.baseFee)),
    // Blocks from before withdrawals have no root; the source writes zeros.
    ...(/^0x0*$/.test(withdrawalsRoot) ? {} : { withdrawalsRoot }),
    uncles: [],
  }
}

// Caches the last executed blocks, for lookup by hash, number or tag.
// Bounded by count, 128 blocks, and by bytes, because a block of ten
// thousand transactions keeps megabytes. Eviction is oldest first. Texts have a bound of their own:
// requests for many of them must not evict blocks.

const blocksMax = 128
const cacheBytesMax = 192 * 1024 * 1024
const textBytesMax = 64 * 1024 * 1024

export class BlockCache {
  /** In the order in which they ended. */
  readonly #blocks = new Map<string, ExecutedBlock>()
  /** Cache for the texts of the blocks that are added here. */
  readonly texts = new TextCache(textBytesMax)
  #bytes = 0
  /** The block that ended last. */
  last: ExecutedBlock | null = null

  add(block: ExecutedBlock): void {
    this.#remove(block.blockHash)
    this.#blocks.set(block.blockHash, block)
    this.last = block
    this.#bytes += block.bytes
    for (const hash of this.#blocks.keys()) {
      if (this.#blocks.size <= blocksMax && this.#bytes <= cacheBytesMax) break
      if (hash !== block.blockHash) this.#remove(hash)
    }
  }

  get(blockHash: string): ExecutedBlock | null {
    return this.#blocks.get(blockHash) ?? null
  }

  /** Every cached proposal of a number, the newest first. */
  ofNumber(number: number): ExecutedBlock[] {
    return [...this.#blocks.values()].filter((block) => block.number === number).reverse()
  }

  /** The matching block of the highest number; of several proposals the last that ended. */
  newest(fits: (block: ExecutedBlock) => boolean): ExecutedBlock | null {
    let found: ExecutedBlock | null = null
    for (const block of this.#blocks.values())
      if (fits(block) && (found === null || block.number >= found.number)) found = block
    return found
  }

  earliest(): ExecutedBlock | null {
    let found: ExecutedBlock | null = null
    for (const block of this.#blocks.values())
      if (found === null || block.number < found.number) found = block
    return found
  }

  #remove(hash: string): void {
    const block = this.#blocks.get(hash)
    if (block === undefined) return
    this.#blocks.delete(hash)
    this.#bytes -= block.bytes
    block.drop()
  }
}
