// What a chain can be asked, and what it tells. Thread: any (types only).
// Products know chains by these interfaces alone; chain/embedded and chain/upstream implement them.
import type { Outcome } from '../base/errors.ts'
import type { RpcError } from '../jsonrpc/build.ts'
import type {
  AccountContent,
  BlockMetaContent,
  EntryContent,
  TransactionContent,
} from '../solana/geyser-content.ts'
import type { TransactionError } from '../solana/transaction-error.ts'

/**
 * Takes execution events in source order. `descriptor` is the 64-byte event descriptor of the
 * Monad event ring (sequence number, type, payload size, time, flow tags), `payload` the event's
 * bytes. Both are only valid during the call: the sink copies what it keeps.
 * Sequence numbers follow one another, save after `gap` and where a source begins again (a ring
 * that was replaced): a number that is not above the last ends whatever block was open.
 */
export interface ExecutionSink {
  event(descriptor: Uint8Array, payload: Uint8Array): void
  /** True for types that are only counted: their payload may be left out. Asked before a run. */
  ignores?(type: number): boolean
  /** Source sequence numbers `from` to `to` (both included) are lost for good. */
  gap(from: number, to: number): void
  /** Everything handed in so far may be shown to readers. Sources call it once per batch. */
  flush(): void
}

/** Where execution events come from: generator, recorded snapshot or live event ring. */
export interface ExecutionSource {
  /** Runs until `stop` or the end of the recording. Faults are told by rejection. */
  run(sink: ExecutionSink): Promise<void>
  stop(): void
}

export type BlockStage = 'Proposed' | 'Voted' | 'Finalized' | 'Verified' | 'Rejected'

/** JSON text in pieces, each made when it is first asked for. */
export interface BlockText {
  /** Of the whole text; exact once all of it was made. */
  readonly estimatedBytes: number
  /** The piece at an index, null after the last one. To be asked for in order. Throws when the
   *  block is no longer kept. */
  piece(index: number): Uint8Array | null
}

/** The header and transactions of an executed block, as the event source told them. */
export interface ExecutionBlock {
  readonly number: number
  /** The consensus id of the proposal. */
  readonly blockHash: string
  readonly ethHash: string
  /** Its JSON text under Ethereum's JSON-RPC names, with whole transactions or their hashes. */
  text(full: boolean): BlockText
}

/** What the metrics product may ask of the execution road besides its event log. */
export interface ExecutionView {
  /** Monotonic milliseconds since the last source event; since the start before the first one. */
  lastEventAgeMs(): number
  /** Last sequence number consumed from the source; 0 before the first. */
  ringSeqno(): number
  /** Number of the last block that ended; 0 before the first. */
  latestBlock(): number
  /** REST lifecycle records, ascending by number, then first seen. */
  lifecycles(): readonly Readonly<Record<string, unknown>>[]
  /** By number: the finalized proposal, else the newest not rejected, else the newest. */
  lifecycle(number: number): Readonly<Record<string, unknown>> | null
  block(which: number | 'latest' | 'safe' | 'finalized' | 'earliest'): ExecutionBlock | null
  chainId(): bigint
}

/** How sure a slot is, numbered as geyser numbers it: processed, confirmed, finalized. */
export type Commitment = 0 | 1 | 2

/** What a slot went through, numbered as geyser does; the first three are the commitments. */
export const slotStatus = {
  processed: 0,
  confirmed: 1,
  finalized: 2,
  firstShredReceived: 3,
  completed: 4,
  createdBank: 5,
  dead: 6,
} as const
export type SlotStatus = (typeof slotStatus)[keyof typeof slotStatus]

/**
 * What a Solana chain tells, once, in this order within a slot: accounts, transactions and entries
 * as they happen, then the block, then its meta, then the slot's status. flows/solana-update.ts
 * builds these: plain fields for whoever filters, and `body`, the geyser message encoded once.
 * Nobody changes the bytes afterwards; many queues share them.
 */
export type SolanaUpdate =
  | AccountUpdate
  | TransactionUpdate
  | EntryUpdate
  | BlockUpdate
  | BlockMetaUpdate
  | SlotUpdate

interface UpdateBase {
  readonly slot: number
  /** Wall time in milliseconds, with a fraction. */
  readonly createdAtMs: number
}

export interface AccountUpdate extends UpdateBase {
  readonly kind: 'account'
  readonly pubkey: Uint8Array
  readonly lamports: bigint
  readonly owner: Uint8Array
  readonly executable: boolean
  readonly rentEpoch: bigint
  readonly data: Uint8Array
  readonly writeVersion: bigint
  /** Null when no transaction wrote it. */
  readonly txnSignature: Uint8Array | null
  readonly isStartup: boolean
  /** SubscribeUpdateAccount; `info` is the SubscribeUpdateAccountInfo inside it. */
  readonly body: Uint8Array
  readonly info: Uint8Array
}

export interface TransactionUpdate extends UpdateBase {
  readonly kind: 'transaction'
  readonly signature: Uint8Array
  readonly isVote: boolean
  /** The runtime's error in bincode; null when it succeeded. */
  readonly err: Uint8Array | null
  readonly index: number
  /** Static keys, then the loaded ones. */
  readonly keys: readonly Uint8Array[]
  /** Owners of token balances before or after; and of those that changed. */
  readonly tokenOwners: readonly Uint8Array[]
  readonly changedTokenOwners: readonly Uint8Array[]
  readonly logs: readonly string[]
  /** SubscribeUpdateTransaction; `info` is the SubscribeUpdateTransactionInfo inside it. */
  readonly body: Uint8Array
  readonly info: Uint8Array
  /** SubscribeUpdateTransactionStatus. */
  readonly statusBody: Uint8Array
}

export interface EntryUpdate extends UpdateBase {
  readonly kind: 'entry'
  readonly index: number
  readonly body: Uint8Array
}

export interface BlockMetaUpdate extends UpdateBase {
  readonly kind: 'blockMeta'
  readonly blockhash: string
  readonly parentSlot: number
  readonly parentBlockhash: string
  readonly blockHeight: number | null
  /** Seconds since 1970. */
  readonly blockTime: number | null
  readonly executedTransactionCount: number
  readonly entriesCount: number
  /** solana.storage.ConfirmedBlock.Rewards, encoded. */
  readonly rewards: Uint8Array
  readonly body: Uint8Array
}

/** A whole block: each filter takes another selection of it, so it has parts and no body. */
export interface BlockUpdate extends UpdateBase {
  readonly kind: 'block'
  readonly meta: BlockMetaUpdate
  readonly transactions: readonly TransactionUpdate[]
  readonly accounts: readonly AccountUpdate[]
  readonly entries: readonly EntryUpdate[]
}

export interface SlotUpdate extends UpdateBase {
  readonly kind: 'slot'
  readonly parent: number | null
  readonly status: SlotStatus
  readonly body: Uint8Array
}

/** A slot's change of status, as a chain tells it. */
export interface SlotChange {
  readonly slot: number
  readonly parent: number | null
  readonly status: SlotStatus
}

/**
 * Takes what a Solana chain does, as plain values and in the order of `SolanaUpdate`. The chain
 * knows no hub: flows/solana-feed.ts encodes what comes in here and publishes it.
 */
export interface SolanaSink {
  status(change: SlotChange): void
  /** An account that was written outside of any transaction (a sysvar). */
  account(slot: number, content: AccountContent): void
  /** A transaction that landed, and what it wrote, in the order of its keys. */
  transaction(slot: number, content: TransactionContent, written: readonly AccountContent[]): void
  entry(slot: number, content: EntryContent): void
  /** The slot is complete; everything told about it since its start is the block. */
  block(slot: number, content: BlockMetaContent): void
}

/**
 * Takes what a node's geyser stream tells, message by message, over any number of connections.
 * The chain's side knows no hub: flows/solana-upstream.ts takes the messages apart and publishes.
 */
export interface GeyserSink {
  /** The slot from which a new connection must tell everything again; null takes what comes. */
  resumeFrom(): number | null
  /** A connection is there. `fromSlot` is where it begins; null: with what happens next. */
  opened(fromSlot: number | null): void
  /** One SubscribeUpdate. Nobody changes or reuses the bytes afterwards. */
  message(bytes: Uint8Array): void
  /** The newest slot that any message told of; null before the first. */
  newestSlot(): number | null
}

/** A transaction that landed in a block: also one that failed and paid its fee. */
export interface Submitted {
  readonly signature: Uint8Array
  /** Where it landed; null where that is not known yet (upstream). */
  readonly slot: number | null
  readonly err: TransactionError | null
}

export interface LatestBlockhash {
  readonly blockhash: string
  /** The slot at which the answer was read (the context). */
  readonly slot: number
  readonly lastValidBlockHeight: number
}

export interface SignatureStatus {
  readonly slot: number
  /** Blocks on top of it; null when it is finalized. */
  readonly confirmations: number | null
  readonly err: TransactionError | null
  readonly commitment: Commitment
}

/** What products may ask of a Solana chain, embedded or upstream. */
export interface SolanaChain {
  readonly source: 'embedded' | 'upstream'
  /**
   * Hands in a transaction's bytes. `isVerified` says that the caller has decoded it strictly and
   * verified its signatures. Refusals: `invalid` (bytes, signatures), `rejected` (the chain will
   * not take it; `data.err` is the TransactionError), `unavailable` (no chain right now).
   */
  submit(
    transaction: Uint8Array,
    options: { readonly isVerified: boolean },
  ): Promise<Outcome<Submitted>>
  slot(commitment: Commitment): number
  blockHeight(commitment: Commitment): number
  latestBlockhash(commitment: Commitment): LatestBlockhash
  isBlockhashValid(blockhash: Uint8Array, commitment: Commitment): boolean
  /** Null for a signature that never landed or is older than the history. */
  signatureStatus(signature: Uint8Array): SignatureStatus | null
  /** Slots behind the cluster; 0 is healthy, null when it cannot be known. */
  slotsBehind(): number | null
}

/** Blocks after which a transaction that names a blockhash is refused by the chain. */
export const blockhashBlocks = 150

export interface Head {
  readonly slot: number
  readonly blockhash: string
  readonly blockHeight: number
}

/** The newest blocks of a chain, as its updates tell them. */
export interface SolanaHeads {
  /** The newest block that is at least so sure; null before the first. */
  at(commitment: Commitment): Head | null
  /** Whether a transaction with this blockhash could still land on the chain as it is so surely. */
  isBlockhashValid(blockhash: string, commitment: Commitment): boolean
}

/** What became of a transaction, as somebody who looks at blocks tells it. */
export interface Fate {
  readonly slot: number
  /** True when it ran without an error. */
  readonly isSuccess: boolean
}

/** A way into a chain for transactions that are decoded and verified: a node, or our own chain. */
export interface TransactionSender {
  readonly name: string
  /** False while it makes no sense to send. */
  isUp(): boolean
  /**
   * Hands the bytes over once and brings back the other side's word. Refusals: `rejected` (it will
   * never take them), `unavailable` (not reached, or not now). Never rejects.
   */
  send(transaction: Uint8Array): Promise<Outcome<null>>
  /** What became of them, in order; null where nothing is known. Never rejects. */
  fates(signatures: readonly Uint8Array[]): Promise<readonly (Fate | null)[]>
  stop(): Promise<void>
}

/** What a caller hears when no node can serve it. */
export const nodeUnhealthy: RpcError = {
  code: -32005,
  message: 'Node is unhealthy',
  data: { numSlotsBehind: null },
}

/** A subscription to be held at a node of an upstream set. */
export interface PubsubWish {
  readonly set: string
  /** `account` for accountSubscribe and accountNotification. */
  readonly topic: string
  /** JSON of the params of the subscribe call. */
  readonly params: string
}

/** Hears what becomes of a wish. Nothing is told before `subscribe` has returned. */
export interface PubsubListener {
  /** A node has taken it; told once, before any notice. */
  opened(): void
  /** Told instead of `opened`, and the end: the node's own error, or that none is healthy. */
  refused(error: RpcError): void
  /** A result, as the node wrote it. `isLast` when the subscription ends with it. */
  notice(result: string, isLast: boolean): void
}

export interface PubsubSubscription {
  /** Nothing is told from now on; the node is told too. */
  close(): void
}

/**
 * Holds subscriptions at the nodes of upstream sets, through the loss of any node. Each wish is one
 * subscription at one node: that equal wishes come once is the caller's business.
 */
export interface PubsubRelay {
  /** Why a new subscription would find no node; null when it would find one. */
  problem(wish: Pick<PubsubWish, 'set' | 'topic'>): RpcError | null
  subscribe(wish: PubsubWish, listener: PubsubListener): PubsubSubscription
}
