// What the chain reports to: the hub's feed and the shred feed. Thread: main of the devnode.
import type {
  AccountContent,
  BlockMetaContent,
  EntryContent,
  TransactionContent,
} from '../chain/solana/geyser-decode.ts'
import { type SlotStatus, slotStatus } from '../chain/solana/updates.ts'
import type { Block } from './ledger/ledger.ts'

/** A slot's change of status. */
export interface SlotChange {
  readonly slot: number
  readonly parent: number | null
  readonly status: SlotStatus
}

/**
 * Receives what the chain does, as plain values, once and in this order within a slot: accounts,
 * transactions and entries as they happen, then the block, then the slot's status.
 */
export interface SolanaSink {
  status(change: SlotChange): void
  /** An account that was written outside of any transaction (a sysvar). */
  account(slot: number, content: AccountContent): void
  /** A transaction that landed, and what it wrote, in the order of its keys. */
  transaction(slot: number, content: TransactionContent, written: readonly AccountContent[]): void
  entry(slot: number, content: EntryContent): void
  /** The slot is complete; everything reported since its start is the block. */
  block(slot: number, content: BlockMetaContent): void
}

/** Reports that a slot is complete, and its block. */
export function reportBlock(sink: SolanaSink, block: Block, entriesCount: number): void {
  const { slot, parentSlot: parent } = block
  sink.status({ slot, parent, status: slotStatus.completed })
  sink.block(slot, {
    blockhash: block.blockhash,
    parentSlot: parent,
    parentBlockhash: block.previousBlockhash,
    blockHeight: block.blockHeight,
    blockTime: block.blockTime,
    executedTransactionCount: block.transactionCount,
    entriesCount,
    rewards: [],
  })
  sink.status({ slot, parent, status: slotStatus.processed })
}

/** Passes everything to both, in this order. */
export function bothSinks(first: SolanaSink, second: SolanaSink): SolanaSink {
  const both = (report: (sink: SolanaSink) => void) => {
    report(first)
    report(second)
  }
  return {
    status: (...given) => both((sink) => sink.status(...given)),
    account: (...given) => both((sink) => sink.account(...given)),
    transaction: (...given) => both((sink) => sink.transaction(...given)),
    entry: (...given) => both((sink) => sink.entry(...given)),
    block: (...given) => both((sink) => sink.block(...given)),
  }
}
