// Publishes the blocks that were on disk at the start, so that a geyser replay reaches back before
// it. Thread: main of the devnode. All of them are finalized: nothing forks here.
//
// The journal has the last version of each account that a block wrote; earlier writes of the same
// block, and the sysvars that each slot derives, are not replayed.
import type { AccountContent } from '../chain/solana/geyser-content.ts'
import { keyOf } from '../chain/solana/keys.ts'
import { slotStatus } from '../chain/solana/updates.ts'
import { writeLocks } from '../chain/solana/write-locks.ts'
import type { LedgerTransaction } from './ledger/ledger.ts'
import { reportBlock, type SolanaSink } from './sink.ts'
import type { RestoredBlock } from './store.ts'

/** Memory of the blocks that are published, about: their encoding delays the start. */
const blockBytesMax = 16 * 1024 * 1024

/** `blocks`: oldest first. */
export function publishRestored(blocks: readonly RestoredBlock[], sink: SolanaSink): void {
  let first = blocks.length
  for (let bytes = 0; first > 0 && bytes < blockBytesMax; first--)
    bytes += blocks[first - 1]!.block.bytes
  // Genesis was never published.
  for (const restored of blocks.slice(first)) if (restored.block.slot > 0) publish(restored, sink)
}

function publish({ block, written }: RestoredBlock, sink: SolanaSink): void {
  const { slot, parentSlot: parent, entries } = block
  const transactions = block.transactions()
  const writtenBy: AccountContent[][] = transactions.map(() => [])
  const writers = lastWriters(transactions)
  sink.status({ slot, parent, status: slotStatus.firstShredReceived })
  sink.status({ slot, parent, status: slotStatus.createdBank })
  for (const account of written()) {
    const writer = transactions[writers.get(keyOf(account.pubkey)) ?? -1]
    if (writer === undefined) sink.account(slot, { ...account, txnSignature: null })
    else writtenBy[writer.index]!.push({ ...account, txnSignature: writer.signature })
  }
  for (const { content, index } of transactions)
    sink.transaction(slot, content, writtenBy[index]!.sort(byWriteVersion))
  for (const entry of entries) sink.entry(slot, entry)
  reportBlock(sink, block, entries.length)
  sink.status({ slot, parent, status: slotStatus.confirmed })
  sink.status({ slot, parent, status: slotStatus.finalized })
}

/** Index of the last transaction that wrote each key; one that failed wrote its payer only. */
function lastWriters(transactions: readonly LedgerTransaction[]): Map<string, number> {
  const writers = new Map<string, number>()
  for (const { index, err, keys, content, meta } of transactions) {
    const locks = err === null ? writeLocks(content.message, meta) : [true]
    keys.forEach((key, at) => {
      if (locks[at] === true) writers.set(keyOf(key), index)
    })
  }
  return writers
}

function byWriteVersion(a: AccountContent, b: AccountContent): number {
  return a.writeVersion < b.writeVersion ? -1 : 1
}
