// Sends the chain's blocks as shreds by UDP, as a validator does. Thread: main of the devnode
// collects the entries of a block; a worker makes, signs and sends the shreds.

import { DedicatedWorker } from '../base/threads/dedicated.ts'
import type { SupervisorDeps } from '../base/threads/supervisor.ts'
import type {
  AccountContent,
  BlockMetaContent,
  EntryContent,
  TransactionContent,
} from '../chain/solana/geyser-content.ts'
import { encodeEntries } from './shred-entry.ts'
import type { SlotChange, SolanaSink } from './sink.ts'

/** Where shreds go. */
export interface ShredTarget {
  readonly host: string
  readonly port: number
  /** Shred version of the cluster. */
  readonly version: number
}

/** A shred has 16 bits for the distance to its parent; a jump of the chain may be longer. */
const parentOffsetMax = 0xffff
/** Of a chain whose shreds go nowhere. */
const defaultVersion = 1

/** A message to the worker: all entries of a slot. */
export interface SlotBatch {
  readonly slot: number
  readonly parent: number
  readonly batch: Uint8Array
}

/** Ignores the chain until it has a target. */
export class ShredFeed implements SolanaSink {
  readonly #deps: SupervisorDeps
  #worker: DedicatedWorker | null = null
  #version = defaultVersion
  #slot = -1
  #entries: EntryContent[] = []
  #transactions: TransactionContent[] = []

  constructor(deps: SupervisorDeps) {
    this.#deps = deps
  }

  /** Shred version of the cluster. */
  get version(): number {
    return this.#version
  }

  /** Sends to this address from now on, and to no other. `seed`: that of the chain's keys. */
  async sendTo(target: ShredTarget, seed: Uint8Array): Promise<void> {
    await this.stop()
    this.#version = target.version
    this.#worker = await DedicatedWorker.start(
      { name: 'shred feed', entry: 'shred-feed', data: { ...target, seed } },
      this.#deps,
    )
  }

  status(_change: SlotChange): void {}

  account(_slot: number, _content: AccountContent): void {}

  transaction(slot: number, content: TransactionContent): void {
    if (this.#takes(slot)) this.#transactions.push(content)
  }

  entry(slot: number, content: EntryContent): void {
    if (this.#takes(slot)) this.#entries.push(content)
  }

  /** The slot is complete. It is dropped while the worker restarts, as packets may be. */
  block(slot: number, { parentSlot }: BlockMetaContent): void {
    if (!this.#takes(slot)) return
    const batch = encodeEntries(this.#entries, this.#transactions)
    const parent = Math.max(parentSlot, slot - parentOffsetMax)
    const message: SlotBatch = { slot, parent, batch }
    this.#worker?.post(message)
  }

  async stop(): Promise<void> {
    const worker = this.#worker
    this.#worker = null
    await worker?.stop()
  }

  #takes(slot: number): boolean {
    if (this.#worker === null) return false
    if (slot === this.#slot) return true
    this.#slot = slot
    this.#entries = []
    this.#transactions = []
    return true
  }
}
