// Decodes geyser messages into plain values.
// For the few updates that a client requests in full: an update carries only its encoded bytes,
// whatever its source. Field numbers are those of proto/geyser.proto and
// proto/solana-storage.proto.
import { ProtoReader } from '../../base/protobuf.ts'

// Types of the contents of geyser updates, as plain values.
// Field names follow proto/geyser.proto and proto/solana-storage.proto in camelCase.

/** One state of an account. */
export interface AccountState {
  readonly pubkey: Uint8Array
  readonly lamports: bigint
  readonly owner: Uint8Array
  readonly executable: boolean
  readonly rentEpoch: bigint
  readonly data: Uint8Array
}

export interface AccountContent extends AccountState {
  readonly writeVersion: bigint
  /** Null when no transaction wrote it. */
  readonly txnSignature: Uint8Array | null
}

export interface InstructionContent {
  readonly programIdIndex: number
  readonly accounts: Uint8Array
  readonly data: Uint8Array
}

export interface TokenBalanceContent {
  readonly accountIndex: number
  readonly mint: string
  readonly owner: string
  readonly programId: string
  readonly amount: string
  readonly decimals: number
}

export interface RewardContent {
  readonly pubkey: string
  readonly lamports: bigint
  readonly postBalance: bigint
  /** 0 unspecified, 1 fee, 2 rent, 3 staking, 4 voting, 5 deactivated stake; later ones follow. */
  readonly rewardType: number
  readonly commission: string
  /** '' where the node gives none. */
  readonly commissionBps: string
}

/** Limits and bid that a message of version 1 carries itself; null where it gives none. */
export interface TransactionConfigContent {
  /** Lamports. */
  readonly priorityFee: bigint | null
  readonly computeUnitLimit: number | null
  readonly loadedAccountsDataSizeLimit: number | null
  readonly heapSize: number | null
}

export interface MessageContent {
  readonly numRequiredSignatures: number
  readonly numReadonlySignedAccounts: number
  readonly numReadonlyUnsignedAccounts: number
  readonly accountKeys: readonly Uint8Array[]
  readonly recentBlockhash: Uint8Array
  readonly instructions: readonly InstructionContent[]
  readonly versioned: boolean
  /** Null unless the message is of version 1. */
  readonly config: TransactionConfigContent | null
  readonly addressTableLookups: readonly {
    readonly accountKey: Uint8Array
    readonly writableIndexes: Uint8Array
    readonly readonlyIndexes: Uint8Array
  }[]
}

export interface MetaContent {
  /** The runtime's error in bincode; null for success. */
  readonly err: Uint8Array | null
  readonly fee: bigint
  readonly preBalances: readonly bigint[]
  readonly postBalances: readonly bigint[]
  /** Null when they were not recorded. */
  readonly innerInstructions:
    | readonly {
        readonly index: number
        readonly instructions: readonly (InstructionContent & { readonly stackHeight?: number })[]
      }[]
    | null
  readonly logMessages: readonly string[] | null
  readonly preTokenBalances: readonly TokenBalanceContent[]
  readonly postTokenBalances: readonly TokenBalanceContent[]
  readonly rewards: readonly RewardContent[]
  readonly loadedWritableAddresses: readonly Uint8Array[]
  readonly loadedReadonlyAddresses: readonly Uint8Array[]
  readonly returnData: { readonly programId: Uint8Array; readonly data: Uint8Array } | null
  readonly computeUnitsConsumed: bigint | null
  /** What it cost its block; null where the node does not report it. */
  readonly costUnits: bigint | null
}

export interface TransactionContent {
  readonly signatures: readonly Uint8Array[]
  readonly isVote: boolean
  readonly index: number
  readonly message: MessageContent
  readonly meta: MetaContent
}

export interface EntryContent {
  readonly index: number
  readonly numHashes: number
  readonly hash: Uint8Array
  readonly executedTransactionCount: number
  readonly startingTransactionIndex: number
}

export interface BlockMetaContent {
  readonly blockhash: string
  readonly parentSlot: number
  readonly parentBlockhash: string
  readonly blockHeight: number | null
  /** Seconds since 1970. */
  readonly blockTime: number | null
  readonly executedTransactionCount: number
  readonly entriesCount: number
  readonly rewards: readonly RewardContent[]
}

const NONE: Uint8Array = new Uint8Array(0)
const rewardFieldMax = 6
/** A mint has a byte for them. */
const decimalsMax = 255
type Open<T> = { -readonly [K in keyof T]: T[K] }

/** From a SubscribeUpdateAccountInfo. The byte fields are views of it. */
export function decodeAccountInfo(info: Uint8Array): AccountState {
  const account = { pubkey: NONE, lamports: 0n, owner: NONE, data: NONE, rentEpoch: 0n }
  let executable = false
  for (const reader = new ProtoReader(info); reader.next(); )
    if (reader.field === 1) account.pubkey = reader.bytes
    else if (reader.field === 2) account.lamports = reader.big
    else if (reader.field === 3) account.owner = reader.bytes
    else if (reader.field === 4) executable = reader.flag
    else if (reader.field === 5) account.rentEpoch = reader.big
    else if (reader.field === 6) account.data = reader.bytes
  return { ...account, executable }
}

/** From a SubscribeUpdateTransactionInfo. The byte fields are views of it. */
export function decodeTransactionInfo(info: Uint8Array): TransactionContent {
  let signatures: Uint8Array[] = []
  let message = decodeMessage(NONE)
  let meta = decodeMeta(NONE)
  let isVote = false
  let index = 0
  const reader = new ProtoReader(info)
  while (reader.next()) {
    if (reader.field === 2) isVote = reader.flag
    else if (reader.field === 3) {
      const { bytes } = reader
      signatures = allBytes(bytes, 1)
      message = decodeMessage(allBytes(bytes, 2)[0] ?? NONE)
    } else if (reader.field === 4) meta = decodeMeta(reader.bytes)
    else if (reader.field === 5) index = reader.number
  }
  return { signatures, isVote, index, message, meta }
}

/** The message and the loaded keys alone, from a SubscribeUpdateTransactionInfo. */
export function decodeMessageOf(info: Uint8Array): {
  readonly message: MessageContent
  readonly loaded: Pick<MetaContent, 'loadedReadonlyAddresses' | 'loadedWritableAddresses'>
} {
  const transaction = allBytes(info, 3)[0] ?? NONE
  const meta = allBytes(info, 4)[0] ?? NONE
  return {
    message: decodeMessage(allBytes(transaction, 2)[0] ?? NONE),
    loaded: {
      loadedWritableAddresses: allBytes(meta, 12),
      loadedReadonlyAddresses: allBytes(meta, 13),
    },
  }
}

/** The number of transactions in an entry, from a SubscribeUpdateEntry. */
export function decodeEntryTransactions(body: Uint8Array): number {
  const reader = new ProtoReader(body)
  while (reader.next()) if (reader.field === 5) return reader.number
  return 0
}

/** Why a slot is dead, from a SubscribeUpdateSlot. */
export function decodeDeadError(body: Uint8Array): string {
  const reader = new ProtoReader(body)
  while (reader.next()) if (reader.field === 4) return reader.text
  return ''
}

/** From a solana.storage.ConfirmedBlock.Rewards. */
export function decodeRewards(bytes: Uint8Array): RewardContent[] {
  return allBytes(bytes, 1).map(decodeReward)
}

/** Decodes the same message; null when it has a field that `RewardContent` lacks, as at the start
 *  of an epoch. */
export function decodePlainRewards(bytes: Uint8Array): RewardContent[] | null {
  const reader = new ProtoReader(bytes)
  while (reader.next()) {
    if (reader.field !== 1) return null
    const inner = reader.inside()
    while (inner.next()) if (inner.field > rewardFieldMax) return null
  }
  return decodeRewards(bytes)
}

function decodeMessage(bytes: Uint8Array): MessageContent {
  const header = [0, 0, 0, 0]
  const accountKeys: Uint8Array[] = []
  const instructions: InstructionContent[] = []
  const addressTableLookups: Open<MessageContent['addressTableLookups'][number]>[] = []
  let recentBlockhash = NONE
  let versioned = false
  let config: TransactionConfigContent | null = null
  const reader = new ProtoReader(bytes)
  while (reader.next()) {
    if (reader.field === 1) {
      const inner = new ProtoReader(reader.bytes)
      while (inner.next()) header[inner.field] = inner.number
    } else if (reader.field === 2) accountKeys.push(reader.bytes)
    else if (reader.field === 3) recentBlockhash = reader.bytes
    else if (reader.field === 4) instructions.push(decodeInstruction(reader.bytes))
    else if (reader.field === 5) versioned = reader.flag
    else if (reader.field === 6) addressTableLookups.push(decodeLookup(reader.bytes))
    else if (reader.field === 7) config = decodeConfig(reader.bytes)
  }
  return {
    numRequiredSignatures: header[1]!,
    numReadonlySignedAccounts: header[2]!,
    numReadonlyUnsignedAccounts: header[3]!,
    accountKeys,
    recentBlockhash,
    instructions,
    versioned,
    config,
    addressTableLookups,
  }
}

function decodeConfig(bytes: Uint8Array): TransactionConfigContent {
  const config: Open<TransactionConfigContent> = {
    priorityFee: null,
    computeUnitLimit: null,
    loadedAccountsDataSizeLimit: null,
    heapSize: null,
  }
  const reader = new ProtoReader(bytes)
  while (reader.next()) {
    if (reader.field === 1) config.priorityFee = reader.big
    else if (reader.field === 2) config.computeUnitLimit = reader.number
    else if (reader.field === 3) config.loadedAccountsDataSizeLimit = reader.number
    else if (reader.field === 4) config.heapSize = reader.number
  }
  return config
}

function decodeLookup(bytes: Uint8Array): MessageContent['addressTableLookups'][number] {
  return {
    accountKey: allBytes(bytes, 1)[0] ?? NONE,
    writableIndexes: allBytes(bytes, 2)[0] ?? NONE,
    readonlyIndexes: allBytes(bytes, 3)[0] ?? NONE,
  }
}

function decodeInstruction(bytes: Uint8Array): InstructionContent & { stackHeight?: number } {
  const instruction: Open<InstructionContent> & { stackHeight?: number } = {
    programIdIndex: 0,
    accounts: NONE,
    data: NONE,
  }
  const reader = new ProtoReader(bytes)
  while (reader.next()) {
    if (reader.field === 1) instruction.programIdIndex = reader.number
    else if (reader.field === 2) instruction.accounts = reader.bytes
    else if (reader.field === 3) instruction.data = reader.bytes
    else if (reader.field === 4) instruction.stackHeight = reader.number
  }
  return instruction
}

type Inner = NonNullable<MetaContent['innerInstructions']>[number]

function decodeMeta(bytes: Uint8Array): MetaContent {
  const inner: Inner[] = []
  const logs: string[] = []
  let hasInner = true
  let hasLogs = true
  const meta: Open<MetaContent> = {
    err: null,
    fee: 0n,
    preBalances: [],
    postBalances: [],
    innerInstructions: inner,
    logMessages: logs,
    preTokenBalances: allBytes(bytes, 7).map(decodeTokenBalance),
    postTokenBalances: allBytes(bytes, 8).map(decodeTokenBalance),
    rewards: allBytes(bytes, 9).map(decodeReward),
    loadedWritableAddresses: allBytes(bytes, 12),
    loadedReadonlyAddresses: allBytes(bytes, 13),
    returnData: null,
    computeUnitsConsumed: null,
    costUnits: null,
  }
  const reader = new ProtoReader(bytes)
  while (reader.next()) {
    if (reader.field === 1) meta.err = allBytes(reader.bytes, 1)[0] ?? NONE
    else if (reader.field === 2) meta.fee = reader.big
    else if (reader.field === 3) meta.preBalances = reader.packed()
    else if (reader.field === 4) meta.postBalances = reader.packed()
    else if (reader.field === 5) inner.push(decodeInner(reader.bytes))
    else if (reader.field === 6) logs.push(reader.text)
    else if (reader.field === 10) hasInner = !reader.flag
    else if (reader.field === 11) hasLogs = !reader.flag
    else if (reader.field === 14) meta.returnData = decodeReturnData(reader.bytes)
    else if (reader.field === 16) meta.computeUnitsConsumed = reader.big
    else if (reader.field === 17) meta.costUnits = reader.big
  }
  if (!hasInner) meta.innerInstructions = null
  if (!hasLogs) meta.logMessages = null
  return meta
}

function decodeInner(bytes: Uint8Array): Inner {
  const instructions = allBytes(bytes, 2).map(decodeInstruction)
  const reader = new ProtoReader(bytes)
  let index = 0
  while (reader.next()) if (reader.field === 1) index = reader.number
  return { index, instructions }
}

function decodeReturnData(bytes: Uint8Array): NonNullable<MetaContent['returnData']> {
  return { programId: allBytes(bytes, 1)[0] ?? NONE, data: allBytes(bytes, 2)[0] ?? NONE }
}

/** From a solana.storage.ConfirmedBlock.TokenBalance. */
export function decodeTokenBalance(bytes: Uint8Array): TokenBalanceContent {
  const balance: Open<TokenBalanceContent> = {
    accountIndex: 0,
    mint: '',
    owner: '',
    programId: '',
    amount: '0',
    decimals: 0,
  }
  const reader = new ProtoReader(bytes)
  while (reader.next()) {
    if (reader.field === 1) balance.accountIndex = reader.number
    else if (reader.field === 2) balance.mint = reader.text
    else if (reader.field === 4) balance.owner = reader.text
    else if (reader.field === 5) balance.programId = reader.text
    else if (reader.field === 3) {
      const amount = new ProtoReader(reader.bytes)
      while (amount.next()) {
        if (amount.field === 2) balance.decimals = Math.min(amount.number, decimalsMax)
        else if (amount.field === 3) balance.amount = digitsOf(amount.text, '0')
      }
    }
  }
  return balance
}

function decodeReward(bytes: Uint8Array): RewardContent {
  const reward: Open<RewardContent> = {
    pubkey: '',
    lamports: 0n,
    postBalance: 0n,
    rewardType: 0,
    commission: '',
    commissionBps: '',
  }
  const reader = new ProtoReader(bytes)
  while (reader.next()) {
    if (reader.field === 1) reward.pubkey = reader.text
    else if (reader.field === 2) reward.lamports = BigInt.asIntN(64, reader.big)
    else if (reader.field === 3) reward.postBalance = reader.big
    else if (reader.field === 4) reward.rewardType = reader.number
    else if (reader.field === 5) reward.commission = digitsOf(reader.text, '')
    else if (reader.field === 6) reward.commissionBps = digitsOf(reader.text, '')
  }
  return reward
}

/** A whole number as text; other texts, which no JSON may contain as they are, are `otherwise`. */
function digitsOf(text: string, otherwise: string): string {
  return /^(?:0|[1-9]\d{0,19})$/.test(text) ? text : otherwise
}

function allBytes(message: Uint8Array, field: number): Uint8Array[] {
  const found: Uint8Array[] = []
  const reader = new ProtoReader(message)
  while (reader.next()) if (reader.field === field) found.push(reader.bytes)
  return found
}
