// A block as JSON-RPC shows it, from its BlockStart, its BlockEnd and its transactions' records.
// Thread: main. Kept by block-shelf.ts; everything but its names is built when somebody asks.
import { blockEnd, blockStart } from '../evm/event-payload.ts'
import { hexOf, quantityOf } from '../evm/hex.ts'
import { readU64, readU256 } from '../evm/words.ts'
import { hashesOf, transactionsOf } from './transactions.ts'

/** The shape of chain/ports.ts, ExecutionBlock. */
export class Block {
  readonly number: number
  readonly blockHash: string
  readonly ethHash: string
  readonly #start: Uint8Array
  readonly #end: Uint8Array
  readonly #records: Uint8Array
  #header: Readonly<Record<string, unknown>> | undefined
  #hashes: readonly string[] | undefined

  /** Keeps all three; nobody may write them any more. */
  constructor(start: Uint8Array, end: Uint8Array, records: Uint8Array) {
    this.number = readU64(start, blockStart.blockNumber)
    this.blockHash = hexOf(start, blockStart.id, 32)
    this.ethHash = hexOf(end, blockEnd.ethHash, 32)
    this.#start = start
    this.#end = end
    this.#records = records
  }

  /** What keeping it costs. */
  get bytes(): number {
    return this.#records.length + 4096
  }

  get header(): Readonly<Record<string, unknown>> {
    this.#header ??= headerOf(this.#start, this.#end)
    return this.#header
  }

  get transactionHashes(): readonly string[] {
    this.#hashes ??= hashesOf(this.#records)
    return this.#hashes
  }

  transactions(): readonly Readonly<Record<string, unknown>>[] {
    const { ethHash: blockHash, number: blockNumber } = this
    const baseFee = readU256(this.#start, blockStart.baseFee)
    return transactionsOf(this.#records, { blockHash, blockNumber, baseFee })
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
    // Blocks of before withdrawals have no root; the source writes zeros.
    ...(/^0x0*$/.test(withdrawalsRoot) ? {} : { withdrawalsRoot }),
    uncles: [],
  }
}
