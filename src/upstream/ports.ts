// Interfaces of nodes, of their streams and of execution event sources for other modules.
import type { Commitment } from '../base/commitment.ts'
import type { Outcome } from '../base/errors.ts'
import type { Answer } from '../base/jsonrpc/build.ts'
import type { Call } from '../base/jsonrpc/parse.ts'
import type { GeyserBatch } from '../chain/solana/geyser-batch.ts'

/** Answers to calls from the geyser stream of a set. */
export interface AnswerSource {
  /** Null when a node has to answer. */
  answer(call: Call): StreamAnswer | null
}

export interface StreamAnswer {
  readonly answer: Answer
  /** Where the chain was read. */
  readonly commitment: Commitment
  readonly slot: number
}

/**
 * Takes execution events in source order. `descriptor` is the 64-byte event descriptor of the
 * Monad event ring (sequence number, type, payload size, time, flow tags), `payload` the event's
 * bytes: the whole array, or `length` bytes of it from `at` on. Both are only valid during the
 * call: the sink copies what it needs later.
 * Sequence numbers are consecutive, except after `gap` and where a source restarts (a ring
 * that was replaced): a number that is not above the last ends whatever block was open.
 */
export interface ExecutionSink {
  event(descriptor: Uint8Array, payload: Uint8Array, at?: number, length?: number): void
  /**
   * True for types that are only counted: the payload may be left out, and of the descriptor all
   * but number, type and size. Called before a run.
   */
  ignores?(type: number): boolean
  /** Source sequence numbers `from` to `to` (both included) are lost for good. */
  gap(from: number, to: number): void
  /** Everything handed in so far may be shown to readers. Sources call it once per batch. */
  flush(): void
}

/** Where execution events come from: generator, recorded snapshot or live event ring. */
export interface ExecutionSource {
  /** Runs until `stop` or the end of the recording. Faults reject. */
  run(sink: ExecutionSink): Promise<void>
  stop(): void
}

export type BlockStage = 'Proposed' | 'Voted' | 'Finalized' | 'Verified' | 'Rejected'

/** JSON text in pieces, each made when it is first read. */
export interface BlockText {
  /** Of the whole text; exact once all of it was made. */
  readonly estimatedBytes: number
  /** The piece at an index, null after the last one. To be read in order. Throws when the
   *  block was evicted. */
  piece(index: number): Uint8Array | null
}

/** The header and transactions of an executed block, as the event source reported them. */
export interface ExecutionBlock {
  readonly number: number
  /** The consensus id of the proposal. */
  readonly blockHash: string
  readonly ethHash: string
  /** Its JSON text under Ethereum's JSON-RPC names, with whole transactions or their hashes. */
  text(full: boolean): BlockText
}

/** What the metrics product reads from the execution pipeline besides its event log. */
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

/** Streams of one set that can be merged; they are numbered from 0. */
export const mergedStreamsMax = 4

/**
 * Receives the messages of a set's merged geyser streams, over any number of connections.
 * flows/solana-upstream.ts publishes them to the hub.
 */
export interface GeyserSink {
  /** The slot that a new connection replays from; null for no replay. */
  resumeFrom(): number | null
  /** A connection is open. `fromSlot` is its first slot; null for no replay. */
  opened(fromSlot: number | null, stream: number, node: string): void
  /** The connection is gone. */
  closed(stream: number): void
  /**
   * SubscribeUpdates in the order of arrival. The bytes are not changed or reused afterwards.
   * Returns false when a slot was dropped because it is above what the set can have reached.
   */
  batch(batch: GeyserBatch, stream: number): boolean
  /** What was published is of a chain that no node is on any more: the next slot is the first. */
  beginAnew(): void
  /** The newest slot of any message; null before the first. */
  newestSlot(): number | null
}

/** The confirmed block in which a transaction landed. */
export interface Fate {
  readonly slot: number
  /** True when it ran without an error. */
  readonly isSuccess: boolean
}

/** Sends transactions that are decoded and verified to a chain. */
export interface TransactionSender {
  readonly name: string
  /** False while it makes no sense to send. */
  isUp(): boolean
  /**
   * Sends the bytes once. Refusals: `rejected` (the chain will never accept them), `unavailable`
   * (not reached, or not now). Never rejects.
   */
  send(transaction: Uint8Array): Promise<Outcome<null>>
  /** Where they landed, in order; null where it is unknown or not confirmed. Never rejects. */
  fates(signatures: readonly Uint8Array[]): Promise<readonly (Fate | null)[]>
  stop(): Promise<void>
}
