// Turns the embedded chain's blocks into shreds and sends them to our own ingest port, as a
// validator would. Thread: main collects a block's entries; a worker makes and sends the shreds.

import type {
  AccountContent,
  BlockMetaContent,
  EntryContent,
  TransactionContent,
} from '../../solana/geyser-content.ts'
import { encodeEntries } from '../../solana/shred-entry.ts'
import type { SlotChange, SolanaSink } from '../../solana/updates.ts'
import { DedicatedWorker } from '../../threads/dedicated.ts'
import type { SupervisorDeps } from '../../threads/supervisor.ts'

export interface FeedOptions {
  readonly host: string
  readonly port: number
  /** Seed of the leader's key pair. */
  readonly seed: Uint8Array
  readonly version: number
}

/** A message to the feed worker: one batch of entries. */
export interface FeedBatch {
  readonly slot: number
  readonly parent: number
  readonly batch: Uint8Array
}

export class ShredFeed implements SolanaSink {
  readonly #worker: DedicatedWorker
  #slot = -1
  #entries: EntryContent[] = []
  #transactions: TransactionContent[] = []

  private constructor(worker: DedicatedWorker) {
    this.#worker = worker
  }

  static async start(options: FeedOptions, deps: SupervisorDeps): Promise<ShredFeed> {
    const worker = await DedicatedWorker.start(
      { name: 'shred feed', entry: 'shred-feed', data: { ...options } },
      { clock: deps.clock, log: deps.log, onDown: deps.onDown },
    )
    return new ShredFeed(worker)
  }

  status(_change: SlotChange): void {}

  account(_slot: number, _content: AccountContent): void {}

  transaction(
    slot: number,
    content: TransactionContent,
    _written: readonly AccountContent[],
  ): void {
    this.#begin(slot)
    this.#transactions.push(content)
  }

  entry(slot: number, content: EntryContent): void {
    this.#begin(slot)
    this.#entries.push(content)
  }

  /** The slot is complete: sends its entries as the single batch of the slot. */
  block(slot: number, { parentSlot }: BlockMetaContent): void {
    this.#begin(slot)
    const batch = encodeEntries(this.#entries, this.#transactions)
    this.#slot = -1
    this.send({ slot, parent: parentSlot, batch })
  }

  /** Sends a whole slot; it is dropped while the worker restarts, as a packet would be. */
  send(batch: FeedBatch): boolean {
    return this.#worker.post(batch)
  }

  stop(): Promise<void> {
    return this.#worker.stop()
  }

  #begin(slot: number): void {
    if (slot === this.#slot) return
    this.#slot = slot
    this.#entries = []
    this.#transactions = []
  }
}
