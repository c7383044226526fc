// Checks a transaction before it is executed: locks, limits, blockhash, durable nonce. Thread: main
// of the devnode. The runtime checks the rest: balances, programs, lookup tables.
import { Commitment } from '../base/commitment.ts'
import { isSameKey, keyOf } from '../chain/solana/keys.ts'
import type { TransactionLayout } from '../chain/solana/transaction.ts'
import type { TransactionError } from '../chain/solana/transaction-error.ts'
import type { Fee } from './fee.ts'
import type { Ledger } from './ledger/ledger.ts'
import { durableNonce, nonceAuthorityOf, nonceDataOf, nonceIndexOf, nonceOf } from './nonce.ts'

/** Accounts that one transaction may lock. */
const locksMax = 128

export interface Check {
  readonly err: TransactionError | null
  /** Index of the durable nonce account that replaces the blockhash; -1 without one. */
  readonly nonceIndex: number
}

/** `newestHash`: of the last complete block, from which the next nonces are made. */
export function checkTransaction(
  layout: TransactionLayout,
  bytes: Uint8Array,
  on: {
    readonly ledger: Ledger
    readonly fee: Fee
    readonly newestHash: Uint8Array
    readonly isBlockhashReplaced?: boolean
  },
): Check {
  const locks = lockError(layout, bytes)
  const refused = locks ?? on.fee.err
  if (refused !== null) return { err: refused, nonceIndex: -1 }
  const blockhash = bytes.subarray(layout.blockhashAt, layout.blockhashAt + 32)
  if (
    on.isBlockhashReplaced === true ||
    on.ledger.isBlockhashValid(blockhash, Commitment.processed)
  )
    return { err: null, nonceIndex: -1 }
  const nonceIndex = usableNonce(layout, bytes, on)
  return { err: nonceIndex < 0 ? 'BlockhashNotFound' : null, nonceIndex }
}

function lockError(layout: TransactionLayout, bytes: Uint8Array): TransactionError | null {
  const { keyCount, keysAt, loadedWritable, loadedReadonly } = layout
  if (keyCount + loadedWritable + loadedReadonly > locksMax) return 'TooManyAccountLocks'
  const seen = new Set<string>()
  for (let index = 0; index < keyCount; index++)
    seen.add(keyOf(bytes.subarray(keysAt + index * 32, keysAt + index * 32 + 32)))
  return seen.size === keyCount ? null : 'AccountLoadedTwice'
}

function usableNonce(
  layout: TransactionLayout,
  bytes: Uint8Array,
  { ledger, newestHash }: { ledger: Ledger; newestHash: Uint8Array },
): number {
  const index = nonceIndexOf(layout, bytes)
  const data = nonceDataOf(layout, bytes, (pubkey) => ledger.account(pubkey, Commitment.processed))
  // A nonce that was set in this slot would advance to itself, and the transaction could run twice.
  if (data === null || isSameKey(nonceOf(data), durableNonce(newestHash))) return -1
  const authority = nonceAuthorityOf(data)
  // It signs as an account of the instruction that advances the nonce.
  const accounts = bytes.subarray(
    layout.accountsAt[0]!,
    layout.accountsAt[0]! + layout.accountsCount[0]!,
  )
  const isSigned = accounts.some((signer) => {
    const at = layout.keysAt + signer * 32
    return layout.isSigner(signer) && isSameKey(bytes.subarray(at, at + 32), authority)
  })
  return isSigned ? index : -1
}
