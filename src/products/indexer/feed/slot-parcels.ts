// Makes parcels of a slot: one, or several of a large one, so that no message is long and no turn
// of the main thread is. Thread: main. Called by slot-source.ts; each is made when it is asked for.

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

/** A part is full when it has reached this. */
export const partBytesMax = 256 * 1024
/** What a transaction costs on its way besides its bytes. */
const overheadBytes = 64

/** What was said of a slot so far. */
export interface OpenSlot {
  readonly transactions: TransactionUpdate[]
  readonly accounts: AccountUpdate[]
  meta: BlockMetaUpdate | null
  isConfirmed: boolean
}

/** What all parts of a slot have in common. */
export interface SlotHead {
  readonly slot: number
  readonly blockTime: number
  readonly cut: SlotRange | null
  readonly mark: number | null
  readonly sinceMs: number
}

/** Transactions first, then accounts; the last one brings the block and the mark. */
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
    const room = Math.max(0, Math.ceil((partBytesMax - bytes) / accountRecordBytes))
    const facts = accounts.slice(account, account + room).map((one) => factOf(one, indexOf))
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
