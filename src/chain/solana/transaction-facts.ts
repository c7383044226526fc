// Decodes the fields of a geyser transaction that rows need, and skips the rest (logs, balances,
// rewards). Runs in the writer process.
// Bytes are read in place, without views. Invalid bytes give empty facts and never throw. Field
// numbers are those of proto/solana-storage.proto.
import { ProtoReader } from '../../base/protobuf.ts'
import { encodeBase58, keyTextIn } from './base58.ts'

/** Value of `inner_ix` for a top-level instruction. */
const topLevel = -1

/** Ranges point into `TransactionFacts.bytes`. */
export interface InstructionFacts {
  readonly ix: number
  readonly innerIx: number
  programAt: number
  accountsStart: number
  accountsEnd: number
  dataStart: number
  dataEnd: number
}

export class TransactionFacts {
  readonly bytes: Buffer
  signature = ''
  index = 0
  /** -1 for a legacy transaction. */
  version = -1
  /** The runtime's error in bincode; null for success. */
  err: Uint8Array | null = null
  fee: number | bigint = 0
  computeUnits: number | bigint = 0
  /** Static keys, then those loaded from lookup tables. */
  readonly keys: string[] = []
  /** Top-level instructions in their order, then the inner ones in theirs. */
  readonly instructions: InstructionFacts[] = []
  readonly #writable: string[] = []
  readonly #readonly: string[] = []
  /** Encoded token balances, before and after; decoded on demand. */
  readonly #balancesAt: ProtoReader[] = []
  #balances: readonly TokenBalance[] | null = null

  /** `info` is an encoded SubscribeUpdateTransactionInfo. */
  constructor(info: Uint8Array) {
    this.bytes = Buffer.from(info.buffer, info.byteOffset, info.length)
    const reader = new ProtoReader(this.bytes)
    while (reader.next()) {
      if (reader.field === 3) this.#transaction(reader.inside())
      else if (reader.field === 4) this.#meta(reader.inside())
      else if (reader.field === 5) this.index = reader.number
    }
    for (const key of [...this.#writable, ...this.#readonly]) this.keys.push(key)
  }

  /** The token of the first of these accounts that has a token balance; null when none has. */
  tokenOf(...accounts: readonly number[]): { mint: string; decimals: number } | null {
    this.#balances ??= this.#balancesAt.map(balanceOf)
    for (const index of accounts) {
      const found = this.#balances.find(({ accountIndex }) => accountIndex === index)
      if (found !== undefined) return found
    }
    return null
  }

  #transaction(reader: ProtoReader): void {
    while (reader.next()) {
      if (reader.field === 1 && this.signature === '')
        this.signature = encodeBase58(this.bytes, reader.start, reader.end)
      else if (reader.field === 2) this.#message(reader.inside())
    }
  }

  #message(reader: ProtoReader): void {
    let ix = 0
    while (reader.next()) {
      if (reader.field === 2) this.keys.push(this.#key(reader))
      else if (reader.field === 4) this.#instruction(reader.inside(), ix++, topLevel)
      else if (reader.field === 5 && reader.flag) this.version = Math.max(this.version, 0)
      // Only version 1 has a config.
      else if (reader.field === 7) this.version = 1
    }
  }

  #meta(reader: ProtoReader): void {
    while (reader.next()) {
      switch (reader.field) {
        case 1:
          this.err = errorIn(reader.inside())
          break
        case 2:
          this.fee = u64(reader)
          break
        case 5:
          this.#inner(reader.inside())
          break
        case 7:
        case 8:
          this.#balancesAt.push(reader.inside())
          break
        case 12:
          this.#writable.push(this.#key(reader))
          break
        case 13:
          this.#readonly.push(this.#key(reader))
          break
        case 16:
          this.computeUnits = u64(reader)
      }
    }
  }

  /** The index of the outer instruction precedes the inner ones; protobuf omits 0. */
  #inner(reader: ProtoReader): void {
    let ix = 0
    let innerIx = 0
    while (reader.next()) {
      if (reader.field === 1) ix = reader.number
      else if (reader.field === 2) this.#instruction(reader.inside(), ix, innerIx++)
    }
  }

  #instruction(reader: ProtoReader, ix: number, innerIx: number): void {
    const none = { accountsStart: 0, accountsEnd: 0, dataStart: 0, dataEnd: 0 }
    const found: InstructionFacts = { ix, innerIx, programAt: 0, ...none }
    while (reader.next()) {
      if (reader.field === 1) found.programAt = reader.number
      else if (reader.field === 2) {
        found.accountsStart = reader.start
        found.accountsEnd = reader.end
      } else if (reader.field === 3) {
        found.dataStart = reader.start
        found.dataEnd = reader.end
      }
    }
    this.instructions.push(found)
  }

  #key({ start, end }: ProtoReader): string {
    return keyTextIn(this.bytes, start, end)
  }
}

function errorIn(reader: ProtoReader): Uint8Array {
  while (reader.next()) if (reader.field === 1) return reader.bytes
  return new Uint8Array(0)
}

/** A number when it is a safe integer, else a bigint. */
function u64(reader: ProtoReader): number | bigint {
  const { number } = reader
  return Number.isSafeInteger(number) ? number : reader.big
}

interface TokenBalance {
  accountIndex: number
  mint: string
  decimals: number
}

function balanceOf(reader: ProtoReader): TokenBalance {
  const balance: TokenBalance = { accountIndex: 0, mint: '', decimals: 0 }
  while (reader.next()) {
    if (reader.field === 1) balance.accountIndex = reader.number
    else if (reader.field === 2) balance.mint = reader.text
    else if (reader.field === 3) {
      const amount = reader.inside()
      while (amount.next()) if (amount.field === 2) balance.decimals = amount.number
    }
  }
  return balance
}
