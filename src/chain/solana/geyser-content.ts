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
