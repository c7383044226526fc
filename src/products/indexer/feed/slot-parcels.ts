// Splits a slot into parcels of bounded size, to keep messages and event-loop turns short.
// Thread: main. A generator: each parcel is built when it is requested.

import { keyOf } from '../../../solana/keys.ts'
import type { AccountUpdate, BlockMetaUpdate, TransactionUpdate } from '../../../solana/updates.ts'
import {
  type AccountFact,
  accountRecordBytes,
  type BlockFacts,
  type Cut,
  noTransaction,
  type Parcel,
  packAccounts,
} from '../parcels.ts'

/** A parcel is full when it has reached this size. */
export const parcelBytesMax = 256 * 1024
/** Approximate overhead of a transaction in addition to its bytes. */
const overheadBytes = 64

/** Updates of a slot received so far. */
export interface OpenSlot {
  readonly transactions: TransactionUpdate[]
  readonly accounts: AccountUpdate[]
  meta: BlockMetaUpdate | null
  isConfirmed: boolean
}

/** Fields shared by all parcels of a slot. */
export interface SlotHead {
  readonly slot: number
  readonly blockTime: number
  readonly cut: Cut | null
  readonly mark: number | null
  readonly sinceMs: number
}

/** Transactions first, then accounts; the last parcel has the block and the mark. */
export function* parcelsOf(
  open: OpenSlot,
  { slot, blockTime, cut, mark, sinceMs }: SlotHead,
): Generator<Parcel, undefined> {
  const { transactions, accounts, meta } = open
  const indexOf = new Map(transactions.map((one) => [keyOf(one.signature), one.index]))
  for (let tx = 0, account = 0, isLast = false, isFirst = true; !isLast; isFirst = false) {
    const infos: Uint8Array[] = []
    let bytes = overheadBytes
    for (; tx < transactions.length && bytes < parcelBytesMax; tx++) {
      const { info } = transactions[tx]!
      infos.push(info)
      bytes += info.length + overheadBytes
    }
    const space = Math.max(0, Math.ceil((parcelBytesMax - bytes) / accountRecordBytes))
    const facts = accounts.slice(account, account + space).map((one) => factOf(one, indexOf))
    account += facts.length
    bytes += facts.length * accountRecordBytes
    isLast = tx === transactions.length && account === accounts.length
    const block = isLast && meta !== null ? blockOf(meta) : null
    const content = { slot, blockTime, block, transactions: infos, accounts: packAccounts(facts) }
    const about = { cut: isFirst ? cut : null, mark: isLast ? mark : null, bytes, sinceMs }
    yield { feed: 'slots', content, ...about }
  }
}

function factOf(update: AccountUpdate, indexOf: ReadonlyMap<string, number>): AccountFact {
  const { pubkey, owner, lamports, writeVersion, data, txnSignature } = update
  const index = txnSignature === null ? undefined : indexOf.get(keyOf(txnSignature))
  const dataBytes = data.length
  return { pubkey, owner, lamports, writeVersion, dataBytes, index: index ?? noTransaction }
}

function blockOf(meta: BlockMetaUpdate): BlockFacts {
  const { parentSlot, blockhash, blockHeight, executedTransactionCount: txCount } = meta
  return { parentSlot, blockhash, height: blockHeight ?? 0, txCount }
}
