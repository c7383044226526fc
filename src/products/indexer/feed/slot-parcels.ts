// Splits a slot into parcels of bounded size, to keep messages and event-loop turns short.
// Thread: main. A generator: each parcel is built when it is requested.

import { keyOf } from '../../../solana/keys.ts'
import type { AccountUpdate, BlockMetaUpdate, TransactionUpdate } from '../../../solana/updates.ts'
import {
  type AccountFact,
  accountRecordBytes,
  noTransaction,
  packAccounts,
  type SlotRange,
} from '../parcels.ts'
import type { Parcel } from './source.ts'

/** A parcel is full when it has reached this size. */
export const partBytesMax = 256 * 1024
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
  readonly cut: SlotRange | null
  readonly mark: number | null
  readonly sinceMs: number
}

/** Transactions first, then accounts; the last parcel has the block and the mark. */
export function* parcelsOf(
  open: OpenSlot,
  { slot, blockTime, cut, mark, sinceMs }: SlotHead,
): Generator<Parcel, undefined> {
  const { transactions, accounts, meta } = open
  const indexOf = indexes(transactions)
  for (let tx = 0, account = 0, isLast = false, isFirst = true; !isLast; isFirst = false) {
    const infos: Uint8Array[] = []
    let bytes = overheadBytes
    for (; tx < transactions.length && bytes < partBytesMax; tx++) {
      const { info } = transactions[tx]!
      infos.push(info)
      bytes += info.length + overheadBytes
    }
    const space = Math.max(0, Math.ceil((partBytesMax - bytes) / accountRecordBytes))
    const facts = accounts.slice(account, account + space).map((one) => factOf(one, indexOf))
    account += facts.length
    bytes += facts.length * accountRecordBytes
    isLast = tx === transactions.length && account === accounts.length
    const block = isLast && meta !== null ? blockOf(meta) : null
    const content = { slot, blockTime, block, transactions: infos, accounts: packAccounts(facts) }
    const parcel: Parcel = {
      feed: 'slots',
      content,
      cut: isFirst ? cut : null,
      mark: isLast ? mark : null,
      bytes,
      sinceMs,
    }
    yield parcel
  }
}

function indexes(transactions: readonly TransactionUpdate[]): ReadonlyMap<string, number> {
  return new Map(transactions.map(({ signature, index }) => [keyOf(signature), index]))
}

function factOf(update: AccountUpdate, indexOf: ReadonlyMap<string, number>): AccountFact {
  const { pubkey, owner, lamports, writeVersion, data, txnSignature } = update
  const index = txnSignature === null ? undefined : indexOf.get(keyOf(txnSignature))
  const dataBytes = data.length
  return { pubkey, owner, lamports, writeVersion, dataBytes, index: index ?? noTransaction }
}

function blockOf({
  parentSlot,
  blockhash,
  blockHeight,
  executedTransactionCount,
}: BlockMetaUpdate) {
  const txCount = executedTransactionCount
  return { parentSlot, blockhash, height: blockHeight ?? 0, txCount }
}
