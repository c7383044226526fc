// Reads and checks durable nonces of the system program's nonce accounts.
//
//   nonce account 80: version u32 | state u32 (1 initialized) | authority[32] | nonce[32] | fee u64
import { createHash } from 'node:crypto'
import type { AccountState } from '../chain/solana/geyser-content.ts'
import { isSameKey } from '../chain/solana/keys.ts'
import { programs } from '../chain/solana/programs.ts'
import type { TransactionLayout } from '../chain/solana/transaction.ts'

const nonceAccountBytes = 80
const nonceAt = 40
const prefix = Buffer.from('DURABLE_NONCE')
const advanceNonceTag = 4

/** The nonce that the runtime derives from a blockhash. */
export function durableNonce(blockhash: Uint8Array): Uint8Array {
  return createHash('sha256').update(prefix).update(blockhash).digest()
}

/** True for an initialized nonce account. */
export function isNonceAccount(owner: Uint8Array, data: Uint8Array): boolean {
  return data.length === nonceAccountBytes && data[4] === 1 && isSameKey(owner, programs.system)
}

export function nonceOf(data: Uint8Array): Uint8Array {
  return data.subarray(nonceAt, nonceAt + 32)
}

export function nonceAuthorityOf(data: Uint8Array): Uint8Array {
  return data.subarray(8, 40)
}

export function withNonce<A extends { readonly data: Uint8Array }>(
  account: A,
  nonce: Uint8Array,
): A {
  const data = new Uint8Array(account.data)
  data.set(nonce, nonceAt)
  return { ...account, data }
}

/**
 * Index in the keys of the nonce account that a transaction advances in its first instruction,
 * as one with a durable nonce must; -1 for every other transaction.
 */
export function nonceIndexOf(layout: TransactionLayout, bytes: Uint8Array): number {
  if (layout.instructionCount === 0 || layout.accountsCount[0]! < 3) return -1
  const program = layout.keysAt + layout.programIndex[0]! * 32
  if (!isSameKey(bytes.subarray(program, program + 32), programs.system)) return -1
  const at = layout.dataAt[0]!
  const isAdvance =
    layout.dataLength[0]! >= 4 &&
    (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) ===
      advanceNonceTag
  const index = bytes[layout.accountsAt[0]!]!
  return isAdvance && index < layout.keyCount && layout.isWritable(index) ? index : -1
}

/** Data of the nonce account whose nonce is the blockhash of a message; null without one. */
export function nonceDataOf(
  layout: TransactionLayout,
  bytes: Uint8Array,
  account: (pubkey: Uint8Array) => AccountState | null,
): Uint8Array | null {
  const index = nonceIndexOf(layout, bytes)
  if (index < 0) return null
  const at = layout.keysAt + index * 32
  const found = account(bytes.subarray(at, at + 32))
  if (found === null || !isNonceAccount(found.owner, found.data)) return null
  const blockhash = bytes.subarray(layout.blockhashAt, layout.blockhashAt + 32)
  return isSameKey(nonceOf(found.data), blockhash) ? found.data : null
}
