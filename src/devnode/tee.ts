// Passes what a Solana chain does to several sinks, in their order. Thread: main.

import type {
  AccountContent,
  BlockMetaContent,
  EntryContent,
  TransactionContent,
} from '../solana/geyser-content.ts'
import type { SlotChange, SolanaSink } from '../solana/updates.ts'

export class SolanaTee implements SolanaSink {
  readonly #sinks: SolanaSink[]

  constructor(...sinks: SolanaSink[]) {
    this.#sinks = sinks
  }

  add(sink: SolanaSink): void {
    this.#sinks.push(sink)
  }

  status(change: SlotChange): void {
    for (const sink of this.#sinks) sink.status(change)
  }

  account(slot: number, content: AccountContent): void {
    for (const sink of this.#sinks) sink.account(slot, content)
  }

  transaction(slot: number, content: TransactionContent, written: readonly AccountContent[]): void {
    for (const sink of this.#sinks) sink.transaction(slot, content, written)
  }

  entry(slot: number, content: EntryContent): void {
    for (const sink of this.#sinks) sink.entry(slot, content)
  }

  block(slot: number, content: BlockMetaContent): void {
    for (const sink of this.#sinks) sink.block(slot, content)
  }
}
