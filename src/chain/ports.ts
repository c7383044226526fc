// What a chain can be asked, and what it tells. Thread: any (types only).
// Products know chains by these interfaces alone; chain/embedded and chain/upstream implement them.

/**
 * Takes execution events in source order. `descriptor` is the 64-byte event descriptor of the
 * Monad event ring (sequence number, type, payload size, time, flow tags), `payload` the event's
 * bytes. Both are only valid during the call: the sink copies what it keeps.
 */
export interface ExecutionSink {
  event(descriptor: Uint8Array, payload: Uint8Array): void
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

/** The header and transactions of an executed block, as the event source told them. */
export interface ExecutionBlock {
  readonly number: number
  /** The consensus id of the proposal. */
  readonly blockHash: string
  readonly ethHash: string
  /** Standard header fields under their Ethereum JSON-RPC names, values already encoded. */
  readonly header: Readonly<Record<string, unknown>>
  readonly transactionHashes: readonly string[]
  /** Transaction objects under their Ethereum JSON-RPC names. Built only when asked for. */
  transactions(): readonly Readonly<Record<string, unknown>>[]
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
