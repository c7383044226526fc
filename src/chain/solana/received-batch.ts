// Updates of a node's stream, made from a batch of its messages.
// An account, transaction or entry is made again for each commitment and replay; its bytes are
// views of the batch: subscribers receive the node's own bytes, and nothing is encoded again.
import { ProtoReader } from '../../base/protobuf.ts'
import { decodeKey } from './base58.ts'
import { batchColumn, batchColumns, type GeyserBatch, unreadable } from './geyser-batch.ts'
import type {
  AccountContent,
  BlockMetaContent,
  EntryContent,
  TokenBalanceContent,
  TransactionContent,
} from './geyser-decode.ts'
import {
  encodeAccountUpdate,
  encodeBlockMeta,
  encodeEntry,
  encodeRetraction,
  encodeRewards,
  encodeSlot,
} from './geyser-encode.ts'
import {
  readError,
  readKeys,
  readLogs,
  readTokenBalances,
  readWrapped,
  updateField,
} from './geyser-parts.ts'
import { encodeTransaction, encodeTransactionStatus } from './geyser-transaction.ts'
import type {
  AccountUpdate,
  BlockMetaUpdate,
  BlockUpdate,
  EntryUpdate,
  RetractionUpdate,
  SlotStatus,
  SlotUpdate,
  SolanaUpdate,
  TransactionUpdate,
} from './updates.ts'

/** All updates of a node's stream; blocks and retractions are made here. */
export type ReceivedUpdate = Exclude<SolanaUpdate, BlockUpdate | RetractionUpdate>

const NONE: Uint8Array = new Uint8Array(0)
const slotStatusMax = 6
/** Texts that are the same in JSON. */
const plainText = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/

export class ReceivedBatch implements BatchSource {
  readonly bytes: Buffer
  readonly messageBytes: number
  readonly table: GeyserBatch['table']
  /** Messages in it. */
  readonly length: number
  /** Of its bytes. */
  readonly view: DataView

  constructor({ bytes, messageBytes, table }: GeyserBatch) {
    this.bytes = bytes
    this.messageBytes = messageBytes
    this.table = table
    this.length = table.length / batchColumns
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  }

  slotAt(position: number): number {
    return this.table[position * batchColumns + batchColumn.slot]!
  }

  /**
   * The update in a message; 'other' for a message without one (a ping, a pong, an unrequested
   * kind), null for malformed bytes.
   */
  update(position: number): ReceivedUpdate | 'other' | null {
    switch (this.table[position * batchColumns + batchColumn.field]) {
      case updateField.account:
        return new ReceivedAccount(this, position)
      case updateField.transaction:
        return new ReceivedTransaction(this, position)
      case updateField.entry:
        return new ReceivedEntry(this, position)
      case updateField.slot:
        return receiveSlot(new ReceivedItem(this, position))
      case updateField.blockMeta:
        return receiveBlockMeta(new ReceivedItem(this, position))
      case unreadable:
        return null
      default:
        return 'other'
    }
  }
}

function receiveSlot({ body, createdAtMs }: ReceivedItem): SlotUpdate | null {
  let slot = 0
  let parent: number | null = null
  let status = 0
  const reader = new ProtoReader(body)
  while (reader.next()) {
    if (reader.field === 1) slot = reader.number
    else if (reader.field === 2) parent = reader.number
    else if (reader.field === 3) status = reader.number
  }
  // Unknown statuses are discarded.
  if (reader.isBroken || status > slotStatusMax) return null
  return { kind: 'slot', slot, createdAtMs, parent, status: status as SlotStatus, body }
}

function receiveBlockMeta({ body, createdAtMs }: ReceivedItem): BlockMetaUpdate | null {
  const meta = {
    slot: 0,
    blockhash: '',
    parentSlot: 0,
    parentBlockhash: '',
    blockHeight: null as number | null,
    blockTime: null as number | null,
    executedTransactionCount: 0,
    entriesCount: 0,
    rewards: NONE,
  }
  const reader = new ProtoReader(body)
  while (reader.next()) {
    if (reader.field === 1) meta.slot = reader.number
    else if (reader.field === 2) meta.blockhash = reader.text
    else if (reader.field === 3) meta.rewards = reader.bytes
    else if (reader.field === 4) meta.blockTime = Number(BigInt.asIntN(64, readWrapped(reader)))
    else if (reader.field === 5) meta.blockHeight = Number(readWrapped(reader))
    else if (reader.field === 6) meta.parentSlot = reader.number
    else if (reader.field === 7) meta.parentBlockhash = reader.text
    else if (reader.field === 8) meta.executedTransactionCount = reader.number
    else if (reader.field === 9) meta.entriesCount = reader.number
  }
  // Answers and notifications show the hashes as they are.
  const isShowable = plainText.test(meta.blockhash) && plainText.test(meta.parentBlockhash)
  if (reader.isBroken || !isShowable) return null
  return { kind: 'blockMeta', createdAtMs, ...meta, body }
}

/** A batch that makes its updates again. */
interface BatchSource extends GeyserBatch {
  update(position: number): unknown
}

/** The columns of a message's row in the table, and views of its bytes, made on access. */
class ReceivedItem {
  readonly source: BatchSource
  readonly position: number
  #body: Uint8Array | null = null

  constructor(source: BatchSource, position: number) {
    this.source = source
    this.position = position
  }

  get slot(): number {
    return this.column(batchColumn.slot)
  }

  get createdAtMs(): number {
    return this.column(batchColumn.createdAtMs)
  }

  get bodyBytes(): number {
    return this.column(batchColumn.bodyEnd) - this.column(batchColumn.bodyStart)
  }

  get body(): Uint8Array {
    this.#body ??= this.#view(batchColumn.bodyStart, batchColumn.bodyEnd)
    return this.#body
  }

  get info(): Uint8Array {
    return this.#view(batchColumn.infoStart, batchColumn.infoEnd)
  }

  protected column(column: number): number {
    return this.source.table[this.position * batchColumns + column]!
  }

  #view(start: number, end: number): Uint8Array {
    return this.source.bytes.subarray(this.column(start), this.column(end))
  }
}

/** Fields of a SubscribeUpdateAccountInfo as views or offsets; numbers are read later. */
interface AccountFields {
  pubkey: Uint8Array
  owner: Uint8Array
  dataStart: number
  dataEnd: number
  txnSignature: Uint8Array | null
  executable: boolean
}

const accountField = { lamports: 2, rentEpoch: 5, writeVersion: 7 } as const

/**
 * The fields that filters read are located in one pass over the message, on first access; each
 * other field is located when it is read.
 */
class ReceivedAccount extends ReceivedItem implements AccountUpdate {
  readonly kind = 'account'
  #fields: AccountFields | null = null
  #lamports: bigint | null = null

  get isStartup(): boolean {
    return this.column(batchColumn.extra) !== 0
  }

  get pubkey(): Uint8Array {
    return this.#read().pubkey
  }

  get owner(): Uint8Array {
    return this.#read().owner
  }

  get data(): Uint8Array {
    const { dataStart, dataEnd } = this.#read()
    return this.source.bytes.subarray(dataStart, dataEnd)
  }

  get txnSignature(): Uint8Array | null {
    return this.#read().txnSignature
  }

  get executable(): boolean {
    return this.#read().executable
  }

  get lamports(): bigint {
    this.#lamports ??= this.#number(accountField.lamports)
    return this.#lamports
  }

  get rentEpoch(): bigint {
    return this.#number(accountField.rentEpoch)
  }

  get writeVersion(): bigint {
    return this.#number(accountField.writeVersion)
  }

  #read(): AccountFields {
    if (this.#fields !== null) return this.#fields
    const fields: AccountFields = {
      pubkey: NONE,
      owner: NONE,
      dataStart: 0,
      dataEnd: 0,
      txnSignature: null,
      executable: false,
    }
    const reader = this.#reader()
    while (reader.next()) {
      if (reader.field === 1) fields.pubkey = reader.bytes
      else if (reader.field === 3) fields.owner = reader.bytes
      else if (reader.field === 4) fields.executable = reader.flag
      else if (reader.field === 6) {
        fields.dataStart = reader.start
        fields.dataEnd = reader.end
      } else if (reader.field === 8) fields.txnSignature = reader.bytes
    }
    this.#fields = fields
    return fields
  }

  #number(which: number): bigint {
    const reader = this.#reader()
    let value = 0n
    while (reader.next()) if (reader.field === which) value = reader.big
    return value
  }

  #reader(): ProtoReader {
    const { infoStart, infoEnd } = batchColumn
    return new ProtoReader(this.source.bytes, this.column(infoStart), this.column(infoEnd))
  }
}

/** Fields of a SubscribeUpdateTransactionInfo. */
interface TransactionFields {
  signature: Uint8Array
  isVote: boolean
  index: number
  transaction: Uint8Array
  meta: Uint8Array
}

/** Fields are located on the first access to one; keys, error, logs and owners are cached. */
class ReceivedTransaction extends ReceivedItem implements TransactionUpdate {
  readonly kind = 'transaction'
  #fields: TransactionFields | null = null
  #keys: readonly Uint8Array[] | null = null
  #err: Uint8Array | null | undefined = undefined
  #logs: readonly string[] | null | undefined = undefined
  #tokenOwners: readonly Uint8Array[] | null = null
  #changedTokenOwners: readonly Uint8Array[] | null = null
  #statusBody: Uint8Array | null = null

  get signature(): Uint8Array {
    return this.#read().signature
  }

  get isVote(): boolean {
    return this.#read().isVote
  }

  get index(): number {
    return this.#read().index
  }

  get keys(): readonly Uint8Array[] {
    this.#keys ??= readKeys(this.#read().transaction, this.#read().meta)
    return this.#keys
  }

  get err(): Uint8Array | null {
    if (this.#err === undefined) this.#err = readError(this.#read().meta)
    return this.#err
  }

  get logs(): readonly string[] | null {
    if (this.#logs === undefined) this.#logs = readLogs(this.#read().meta)
    return this.#logs
  }

  get tokenOwners(): readonly Uint8Array[] {
    if (this.#tokenOwners === null) this.#readOwners()
    return this.#tokenOwners!
  }

  get changedTokenOwners(): readonly Uint8Array[] {
    if (this.#changedTokenOwners === null) this.#readOwners()
    return this.#changedTokenOwners!
  }

  get statusBody(): Uint8Array {
    this.#statusBody ??= encodeTransactionStatus(this)
    return this.#statusBody
  }

  #read(): TransactionFields {
    if (this.#fields !== null) return this.#fields
    const fields: TransactionFields = {
      signature: NONE,
      isVote: false,
      index: 0,
      transaction: NONE,
      meta: NONE,
    }
    const reader = new ProtoReader(this.info)
    while (reader.next()) {
      if (reader.field === 1) fields.signature = reader.bytes
      else if (reader.field === 2) fields.isVote = reader.flag
      else if (reader.field === 3) fields.transaction = reader.bytes
      else if (reader.field === 4) fields.meta = reader.bytes
      else if (reader.field === 5) fields.index = reader.number
    }
    this.#fields = fields
    return fields
  }

  #readOwners(): void {
    const { before, after } = readTokenBalances(this.#read().meta)
    this.#tokenOwners = tokenOwnersOf(before, after)
    this.#changedTokenOwners = changedTokenOwnersOf(before, after)
  }
}

class ReceivedEntry extends ReceivedItem implements EntryUpdate {
  readonly kind = 'entry'

  get index(): number {
    return this.column(batchColumn.extra)
  }
}

// Builds Solana updates: plain fields, and bytes that are encoded here, once.

/** Where and when something happened. */
export interface Moment {
  readonly slot: number
  readonly createdAtMs: number
}

export function accountUpdate(
  moment: Moment,
  content: AccountContent,
  isStartup = false,
): AccountUpdate {
  // Its data is the body's: an update that is kept for a replay has it once.
  const encoded = encodeAccountUpdate(content, { slot: moment.slot, isStartup })
  return { kind: 'account', ...moment, ...content, isStartup, ...encoded }
}

export function transactionUpdate(moment: Moment, content: TransactionContent): TransactionUpdate {
  const { meta, message, isVote, index } = content
  const signature = content.signatures[0]!
  return {
    kind: 'transaction',
    ...moment,
    signature,
    isVote,
    err: meta.err,
    index,
    keys: [
      ...message.accountKeys,
      ...meta.loadedWritableAddresses,
      ...meta.loadedReadonlyAddresses,
    ],
    tokenOwners: tokenOwnersOf(meta.preTokenBalances, meta.postTokenBalances),
    changedTokenOwners: changedTokenOwnersOf(meta.preTokenBalances, meta.postTokenBalances),
    logs: meta.logMessages,
    ...encodeTransaction(moment.slot, content),
    statusBody: encodeTransactionStatus({
      slot: moment.slot,
      signature,
      isVote,
      index,
      err: meta.err,
    }),
  }
}

export function entryUpdate(moment: Moment, content: EntryContent): EntryUpdate {
  const body = encodeEntry(moment.slot, content)
  return { kind: 'entry', ...moment, index: content.index, body }
}

export function blockMetaUpdate(moment: Moment, content: BlockMetaContent): BlockMetaUpdate {
  const rewards = encodeRewards(content.rewards)
  const body = encodeBlockMeta(moment.slot, content, rewards)
  return { kind: 'blockMeta', ...moment, ...content, rewards, body }
}

export function slotUpdate(
  moment: Moment,
  slot: { parent: number | null; status: SlotStatus; deadError?: string },
): SlotUpdate {
  const { parent, status } = slot
  const deadError = slot.deadError ?? null
  const body = encodeSlot({ slot: moment.slot, parent, status, deadError })
  return { kind: 'slot', ...moment, parent, status, body }
}

export function retractionUpdate(
  moment: Moment,
  retracted: Pick<RetractionUpdate, 'bank' | 'reason' | 'restated'>,
): RetractionUpdate {
  const body = encodeRetraction({ slot: moment.slot, ...retracted })
  return { kind: 'retraction', ...moment, ...retracted, body }
}

/** Owners of the token balances before or after a transaction. */
function tokenOwnersOf(
  before: readonly TokenBalanceContent[],
  after: readonly TokenBalanceContent[],
): Uint8Array[] {
  return ownersOf([...before, ...after])
}

/** Owners of those whose amount differs between before and after, or that exist on one side. */
function changedTokenOwnersOf(
  before: readonly TokenBalanceContent[],
  after: readonly TokenBalanceContent[],
): Uint8Array[] {
  const differs = (from: readonly TokenBalanceContent[]) => {
    const amounts = new Map(from.map((balance) => [balance.accountIndex, balance.amount]))
    return (balance: TokenBalanceContent) => amounts.get(balance.accountIndex) !== balance.amount
  }
  return ownersOf([...before.filter(differs(after)), ...after.filter(differs(before))])
}

function ownersOf(balances: readonly TokenBalanceContent[]): Uint8Array[] {
  const owners = new Set(balances.map((balance) => balance.owner))
  return [...owners].map(decodeKey).filter((key) => key !== null)
}
