// A complete block, as the ledger and the journal keep it. Thread: main of the devnode.
import { encodeBase58 } from '../../chain/solana/base58.ts'
import type { EntryContent } from '../../chain/solana/geyser-decode.ts'
import { ByteReader, ByteWriter } from './bytes.ts'
import type { LedgerBlock, LedgerTransaction } from './ledger.ts'
import { StoredTransaction } from './stored-transaction.ts'

export interface BlockFacts {
  readonly slot: number
  readonly parentSlot: number
  readonly hash: Uint8Array
  readonly parentHash: Uint8Array
  readonly blockHeight: number
  readonly blockTime: number
  /** Transactions since genesis, and all lamports there are, after this block. */
  readonly transactionsTotal: number
  readonly supply: bigint
}

const writer = new ByteWriter()

export class Block implements LedgerBlock {
  readonly facts: BlockFacts
  readonly stored: readonly StoredTransaction[]
  /** Packed: a block has 64 entries or more, and they are rarely read. */
  readonly #entries: Buffer
  readonly blockhash: string
  readonly previousBlockhash: string
  /** Fees are burned here, so no block pays a reward. */
  readonly rewards = []

  constructor(facts: BlockFacts, stored: readonly StoredTransaction[], entries: Buffer) {
    this.facts = facts
    this.stored = stored
    this.#entries = entries
    this.blockhash = encodeBase58(facts.hash)
    this.previousBlockhash = encodeBase58(facts.parentHash)
  }

  get slot(): number {
    return this.facts.slot
  }

  get parentSlot(): number {
    return this.facts.parentSlot
  }

  get blockHeight(): number {
    return this.facts.blockHeight
  }

  get blockTime(): number {
    return this.facts.blockTime
  }

  get transactionCount(): number {
    return this.stored.length
  }

  get entries(): readonly EntryContent[] {
    return unpackEntries(this.#entries)
  }

  /** Memory that it takes, about. */
  get bytes(): number {
    let bytes = this.#entries.length + 512
    for (const { record } of this.stored) bytes += record.length + 256
    return bytes
  }

  transactions(): LedgerTransaction[] {
    return this.stored.map((transaction) => transaction.read())
  }

  signatures(): readonly Uint8Array[] {
    return this.stored.map((transaction) => transaction.signature)
  }

  /** The same block with other transactions, and other entries where given. */
  with(stored: readonly StoredTransaction[], entries = this.#entries): Block {
    return new Block(this.facts, stored, entries)
  }

  pack(): Buffer {
    const { facts } = this
    writer.number(facts.slot).number(facts.parentSlot).raw(facts.hash).raw(facts.parentHash)
    writer.number(facts.blockHeight).number(facts.blockTime).number(facts.transactionsTotal)
    writer.u64(facts.supply).bytes(this.#entries)
    writer.each(this.stored, ({ record }) => writer.bytes(record))
    return writer.take()
  }

  static unpack(bytes: Uint8Array): Block {
    const reader = new ByteReader(bytes)
    const facts: BlockFacts = {
      slot: reader.number(),
      parentSlot: reader.number(),
      hash: Buffer.from(reader.raw(32)),
      parentHash: Buffer.from(reader.raw(32)),
      blockHeight: reader.number(),
      blockTime: reader.number(),
      transactionsTotal: reader.number(),
      supply: reader.u64(),
    }
    const entries = Buffer.from(reader.bytes())
    const { slot, blockTime } = facts
    // Copied one by one: a view would keep the whole file in memory.
    const records = reader.each(() => Buffer.from(reader.bytes()))
    const stored = records.map(
      (record, index) => new StoredTransaction(record, { slot, index, blockTime }),
    )
    return new Block(facts, stored, entries)
  }
}

export function packEntries(entries: readonly EntryContent[]): Buffer {
  writer.each(entries, (entry) => {
    writer.raw(entry.hash).u32(entry.numHashes)
    writer.u32(entry.executedTransactionCount).u32(entry.startingTransactionIndex)
  })
  return writer.take()
}

function unpackEntries(packed: Buffer): EntryContent[] {
  const reader = new ByteReader(packed)
  let index = 0
  return reader.each(() => ({
    index: index++,
    hash: reader.raw(32),
    numHashes: reader.u32(),
    executedTransactionCount: reader.u32(),
    startingTransactionIndex: reader.u32(),
  }))
}
