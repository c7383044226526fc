// Blocks, transactions and epochs of the embedded chain, and the read interface of its ledger for
// the JSON-RPC methods. Thread: main of the devnode. Every read is synchronous and consistent.
// Returned bytes are shared, not copied: they must not be changed.
//
// Keys of maps and parameters named `key` are binary strings (`keyOf(bytes)`), not base58.
import type { Commitment } from '../../base/commitment.ts'
import { assert } from '../../base/errors.ts'
import { encodeBase58, isSameKey } from '../../chain/solana/base58.ts'
import type {
  AccountState,
  EntryContent,
  InstructionContent,
  MetaContent,
  TokenBalanceContent,
  TransactionContent,
} from '../../chain/solana/geyser-decode.ts'
import { TransactionLayout } from '../../chain/solana/transaction.ts'
import type { TransactionError } from '../../chain/solana/transaction-error.ts'
import { decodeTransactionError } from '../../chain/solana/transaction-error.ts'
import type { SignatureStatus } from '../../chain/solana/updates.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import type { FeeReads, LandedBlock, SlotReads } from '../../chain/solana-rpc/chain-reads.ts'
import { messageContent, signaturesOf, staticKeys } from '../message-content.ts'
import { ByteReader, ByteWriter } from './bytes.ts'

// A complete block, as the ledger and the journal keep it.

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
  readonly slot: number
  readonly parentSlot: number
  readonly blockHeight: number
  readonly blockTime: number
  readonly transactionCount: number
  readonly blockhash: string
  readonly previousBlockhash: string
  /** Fees are burned here, so no block pays a reward. */
  readonly rewards = []

  constructor(facts: BlockFacts, stored: readonly StoredTransaction[], entries: Buffer) {
    this.facts = facts
    this.stored = stored
    this.#entries = entries
    this.slot = facts.slot
    this.parentSlot = facts.parentSlot
    this.blockHeight = facts.blockHeight
    this.blockTime = facts.blockTime
    this.transactionCount = stored.length
    this.blockhash = encodeBase58(facts.hash)
    this.previousBlockhash = encodeBase58(facts.parentHash)
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

// A transaction in the history: its bytes and outcome packed into one buffer.
// The journal keeps the same buffer, so a transaction is packed once.
//
//   record: transaction bytes | err option | fee | balances | inner | logs | tokens | loaded
//           | return data option | units option | cost option | has run (absent: no cost, has run)

const recordWriter = new ByteWriter()
const layout = new TransactionLayout({ v1: true })

/** Where a transaction is in the chain. */
export interface Position {
  readonly slot: number
  readonly index: number
}

interface Place extends Position {
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
  recordWriter.bytes(bytes)
  recordWriter.bytes(meta.err ?? new Uint8Array(0))
  recordWriter.u64(meta.fee)
  recordWriter.each(meta.preBalances, (value) => recordWriter.u64(value))
  recordWriter.each(meta.postBalances, (value) => recordWriter.u64(value))
  recordWriter.each(meta.innerInstructions ?? [], (group) => {
    recordWriter.u8(group.index).each(group.instructions, (instruction) => {
      recordWriter
        .u8(instruction.programIdIndex)
        .bytes(instruction.accounts)
        .bytes(instruction.data)
      recordWriter.u8(instruction.stackHeight ?? 0)
    })
  })
  recordWriter.each(meta.logMessages ?? [], (line) => recordWriter.text(line))
  recordWriter.each(meta.preTokenBalances, writeToken)
  recordWriter.each(meta.postTokenBalances, writeToken)
  recordWriter.each(meta.loadedWritableAddresses, (key) => recordWriter.raw(key))
  recordWriter.each(meta.loadedReadonlyAddresses, (key) => recordWriter.raw(key))
  const { returnData, computeUnitsConsumed, costUnits } = meta
  recordWriter.u8(returnData === null ? 0 : 1)
  if (returnData !== null) recordWriter.raw(returnData.programId).bytes(returnData.data)
  recordWriter.u8(computeUnitsConsumed === null ? 0 : 1)
  if (computeUnitsConsumed !== null) recordWriter.u64(computeUnitsConsumed)
  recordWriter.u8(costUnits === null ? 0 : 1)
  if (costUnits !== null) recordWriter.u64(costUnits)
  recordWriter.u8(meta.logMessages === null ? 0 : 1)
  return recordWriter.take()
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
  recordWriter
    .u8(balance.accountIndex)
    .text(balance.mint)
    .text(balance.owner)
    .text(balance.programId)
  recordWriter.text(balance.amount).u8(balance.decimals)
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

export interface SignatureRange {
  readonly limit: number
  readonly before: Uint8Array | null
  readonly until: Uint8Array | null
  readonly commitment: Commitment
  /** Decide which memo programs are known. */
  readonly shapes: Shapes
}

/** One version of an account. An account of 0 lamports does not exist and is never returned. */
export interface LedgerAccount extends AccountState {
  /** The slot that wrote this version. */
  readonly slot: number
  readonly writeVersion: bigint
}

type State = Pick<AccountState, 'lamports' | 'owner' | 'executable' | 'data'>

/** Whether both are absent, or all that an account holds is the same. */
export function isSameState(a: State | null, b: State | null): boolean {
  if (a === null || b === null) return a === b
  if (a.lamports !== b.lamports || a.executable !== b.executable) return false
  return isSameKey(a.owner, b.owner) && isSameKey(a.data, b.data)
}

/** A transaction in the history. `content` is decoded from its stored form at each read. */
export interface LedgerTransaction {
  readonly signature: Uint8Array
  /** As it came over the wire. */
  readonly bytes: Uint8Array
  readonly slot: number
  readonly index: number
  /** -1 for legacy, else 0 or 1. */
  readonly version: number
  readonly err: TransactionError | null
  /** Message and meta as plain values: err, fee, balances, inner instructions, logs, units… */
  readonly content: TransactionContent
  /** `content.meta`; `err` inside it is bincode, the JSON form is `err` above. */
  readonly meta: MetaContent
  /** Static keys, then loaded writable, then loaded readonly ones. */
  readonly keys: readonly Uint8Array[]
  readonly blockTime: number
}

/** A complete block. */
export interface LedgerBlock extends LandedBlock {
  readonly slot: number
  readonly entries: readonly EntryContent[]
  readonly transactionCount: number
  transactions(): LedgerTransaction[]
}

export interface SignatureInfo {
  readonly signature: Uint8Array
  readonly slot: number
  /** Its position in the block. */
  readonly index: number
  readonly err: TransactionError | null
  /** Seconds since 1970. */
  readonly blockTime: number
  readonly commitment: Commitment
  /** Memo program texts as RPC shows them (`[5] hello; [2] hi`); null without any. */
  readonly memo: string | null
}

export interface PerformanceSample {
  readonly slot: number
  readonly numTransactions: number
  readonly numNonVoteTransactions: number
  readonly numSlots: number
  readonly samplePeriodSecs: number
}

/** Which token accounts: all of an owner, of a mint, or those a delegate may spend from. */
export type TokenIndex = 'owner' | 'mint' | 'delegate'

/** Processed reads of state see the open slot. */
export interface Ledger extends SlotReads, FeeReads {
  /** Base58 of the genesis hash; the same for the life of the data folder. */
  readonly genesisHash: string
  /** Base58 of this node's identity. */
  readonly identity: string
  /** Base58 of the faucet's key: the funder of airdrops. */
  readonly faucet: string
  readonly epochSchedule: EpochSchedule

  /** Transactions since genesis, votes included (there are none). */
  transactionCount(commitment: Commitment): number
  /** All lamports there are. */
  supply(commitment: Commitment): bigint
  /** Least balance that exempts an account of so many bytes from rent. */
  rentExemptMinimum(dataBytes: number): bigint

  account(pubkey: Uint8Array, commitment: Commitment): LedgerAccount | null
  accountsByOwner(owner: Uint8Array, commitment: Commitment): IterableIterator<LedgerAccount>
  /** SPL Token and Token-2022 accounts (not mints). */
  tokenAccounts(
    index: TokenIndex,
    key: Uint8Array,
    commitment: Commitment,
  ): IterableIterator<LedgerAccount>
  /** Every account. Slow: for getLargestAccounts. */
  accounts(commitment: Commitment): IterableIterator<LedgerAccount>

  /** Null: skipped, not complete yet, or evicted from the history. */
  block(slot: number): LedgerBlock | null
  /** Oldest slot whose block is kept. */
  readonly firstAvailableSlot: number
  /** Slots of complete blocks from `from` to `to`, both included; at most `limit`. */
  blockSlots(
    range: { readonly from: number; readonly to: number; readonly limit: number },
    commitment: Commitment,
  ): number[]
  /** Whether the slot's block is finalized, confirmed or only processed; null when not complete. */
  blockCommitment(slot: number): Commitment | null

  transaction(signature: Uint8Array): LedgerTransaction | null
  /** Also of the open slot; callers look at `commitment` or `confirmations`. */
  signatureStatus(signature: Uint8Array): SignatureStatus | null
  /**
   * Newest first, at most `limit`, of blocks with at least that commitment. `before` and `until`
   * are signatures, both excluded; an unknown `before` gives none.
   */
  signaturesForAddress(address: Uint8Array, options: SignatureRange): SignatureInfo[]

  /** Newest first, one a minute, at most 720. */
  performanceSamples(limit: number): PerformanceSample[]
}

// Divides the slots of the chain into epochs.

export interface EpochSchedule {
  readonly slotsPerEpoch: number
  readonly leaderScheduleSlotOffset: number
  readonly warmup: boolean
  readonly firstNormalEpoch: number
  readonly firstNormalSlot: number
}

/** Epochs of equal length from slot 0 on, as a test validator's. */
export function epochScheduleOf(slotsPerEpoch: number): EpochSchedule {
  return {
    slotsPerEpoch,
    leaderScheduleSlotOffset: slotsPerEpoch,
    warmup: false,
    firstNormalEpoch: 0,
    firstNormalSlot: 0,
  }
}

export function epochOf(slot: number, { slotsPerEpoch }: EpochSchedule): number {
  return Math.floor(slot / slotsPerEpoch)
}
