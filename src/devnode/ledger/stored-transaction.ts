// A transaction in the history: its bytes and outcome packed into one buffer. Thread: main of the
// devnode. The journal keeps the same buffer, so a transaction is packed once.
//
//   record: transaction bytes | err option | fee | balances | inner | logs | tokens | loaded
//           | return data option | units option | cost option | has run (absent: no cost, has run)
import { assert } from '../../base/errors.ts'
import type {
  InstructionContent,
  MetaContent,
  TokenBalanceContent,
  TransactionContent,
} from '../../chain/solana/geyser-decode.ts'
import { TransactionLayout } from '../../chain/solana/transaction.ts'
import {
  decodeTransactionError,
  type TransactionError,
} from '../../chain/solana/transaction-error.ts'
import { messageContent, signaturesOf, staticKeys } from '../message-content.ts'
import { ByteReader, ByteWriter } from './bytes.ts'
import type { LedgerTransaction } from './ledger.ts'

const writer = new ByteWriter()
const layout = new TransactionLayout({ v1: true })

/** Where a transaction is in the chain. */
export interface Position {
  readonly slot: number
  readonly index: number
}

export interface Place extends Position {
  /** Seconds since 1970. */
  readonly blockTime: number
}

export class StoredTransaction {
  readonly record: Buffer
  readonly slot: number
  readonly index: number
  readonly err: TransactionError | null
  readonly blockTime: number

  constructor(record: Buffer, place: Place) {
    this.record = record
    this.slot = place.slot
    this.index = place.index
    this.blockTime = place.blockTime
    const reader = new ByteReader(record)
    reader.bytes()
    const err = reader.bytes()
    this.err = err.length === 0 ? null : decodeTransactionError(err)
  }

  /** As it came over the wire; a view of the record. */
  get bytes(): Buffer {
    return new ByteReader(this.record).bytes()
  }

  get signature(): Uint8Array {
    const { bytes } = this
    layout.decode(bytes)
    return bytes.subarray(layout.signaturesAt, layout.signaturesAt + 64)
  }

  /** Static keys, then loaded ones. */
  get keys(): Uint8Array[] {
    const { bytes } = this
    layout.decode(bytes)
    const own = staticKeys(layout, bytes)
    if (layout.lookupCount === 0) return own
    const { meta } = this.read()
    return [...own, ...meta.loadedWritableAddresses, ...meta.loadedReadonlyAddresses]
  }

  read(): LedgerTransaction {
    const reader = new ByteReader(this.record)
    const bytes = reader.bytes()
    const meta = readMeta(reader)
    const problem = layout.decode(bytes)
    assert(problem === 'ok', 'a stored transaction is whole')
    const signatures = signaturesOf(layout, bytes)
    const message = messageContent(layout, bytes)
    const { index, slot, err, blockTime } = this
    return {
      signature: signatures[0]!,
      bytes,
      slot,
      index,
      version: layout.version,
      err,
      content: { signatures, isVote: false, index, message, meta },
      meta,
      keys: [
        ...message.accountKeys,
        ...meta.loadedWritableAddresses,
        ...meta.loadedReadonlyAddresses,
      ],
      blockTime,
    }
  }
}

/** Packs a transaction that landed. */
export function packTransaction(bytes: Uint8Array, { meta }: TransactionContent): Buffer {
  writer.bytes(bytes)
  writer.bytes(meta.err ?? new Uint8Array(0))
  writer.u64(meta.fee)
  writer.each(meta.preBalances, (value) => writer.u64(value))
  writer.each(meta.postBalances, (value) => writer.u64(value))
  writer.each(meta.innerInstructions ?? [], (group) => {
    writer.u8(group.index).each(group.instructions, (instruction) => {
      writer.u8(instruction.programIdIndex).bytes(instruction.accounts).bytes(instruction.data)
      writer.u8(instruction.stackHeight ?? 0)
    })
  })
  writer.each(meta.logMessages ?? [], (line) => writer.text(line))
  writer.each(meta.preTokenBalances, writeToken)
  writer.each(meta.postTokenBalances, writeToken)
  writer.each(meta.loadedWritableAddresses, (key) => writer.raw(key))
  writer.each(meta.loadedReadonlyAddresses, (key) => writer.raw(key))
  const { returnData, computeUnitsConsumed, costUnits } = meta
  writer.u8(returnData === null ? 0 : 1)
  if (returnData !== null) writer.raw(returnData.programId).bytes(returnData.data)
  writer.u8(computeUnitsConsumed === null ? 0 : 1)
  if (computeUnitsConsumed !== null) writer.u64(computeUnitsConsumed)
  writer.u8(costUnits === null ? 0 : 1)
  if (costUnits !== null) writer.u64(costUnits)
  writer.u8(meta.logMessages === null ? 0 : 1)
  return writer.take()
}

function readMeta(reader: ByteReader): MetaContent {
  const err = reader.bytes()
  const u64 = () => reader.u64()
  const key = () => reader.raw(32)
  const meta: MetaContent = {
    err: err.length === 0 ? null : err,
    fee: reader.u64(),
    preBalances: reader.each(u64),
    postBalances: reader.each(u64),
    innerInstructions: reader.each(() => ({
      index: reader.u8(),
      instructions: reader.each(() => readInstruction(reader)),
    })),
    logMessages: reader.each(() => reader.text()),
    preTokenBalances: reader.each(() => readToken(reader)),
    postTokenBalances: reader.each(() => readToken(reader)),
    rewards: [],
    loadedWritableAddresses: reader.each(key),
    loadedReadonlyAddresses: reader.each(key),
    returnData: reader.u8() === 0 ? null : { programId: reader.raw(32), data: reader.bytes() },
    computeUnitsConsumed: reader.u8() === 0 ? null : reader.u64(),
    costUnits: reader.isAtEnd || reader.u8() === 0 ? null : reader.u64(),
  }
  const hasRun = reader.isAtEnd || reader.u8() === 1
  return hasRun ? meta : { ...meta, innerInstructions: null, logMessages: null }
}

function readInstruction(reader: ByteReader): InstructionContent & { stackHeight?: number } {
  const instruction = {
    programIdIndex: reader.u8(),
    accounts: reader.bytes(),
    data: reader.bytes(),
  }
  const stackHeight = reader.u8()
  return stackHeight === 0 ? instruction : { ...instruction, stackHeight }
}

function writeToken(balance: TokenBalanceContent): void {
  writer.u8(balance.accountIndex).text(balance.mint).text(balance.owner).text(balance.programId)
  writer.text(balance.amount).u8(balance.decimals)
}

function readToken(reader: ByteReader): TokenBalanceContent {
  return {
    accountIndex: reader.u8(),
    mint: reader.text(),
    owner: reader.text(),
    programId: reader.text(),
    amount: reader.text(),
    decimals: reader.u8(),
  }
}

export function isOlder(a: Position, b: Position): boolean {
  return a.slot < b.slot || (a.slot === b.slot && a.index < b.index)
}
