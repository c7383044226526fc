// Loads the accounts of a transaction as a validator does before it runs: can the payer pay, do
// the accounts fit the requested size, do the programs exist.
import { createHash } from 'node:crypto'
import { isSameKey, keyOf } from '../chain/solana/base58.ts'
import type { AccountState } from '../chain/solana/geyser-decode.ts'
import { loaderV4, programs, sysvars } from '../chain/solana/programs.ts'
import type { TransactionLayout } from '../chain/solana/transaction.ts'
import type { TransactionError } from '../chain/solana/transaction-error.ts'
import type { Fee } from './fee.ts'

/** Counted for every account that exists, besides its data. */
const accountBytes = 64
/** Counted for every lookup table, whatever its length. */
const lookupTableBytes = 8_248
/** Program account of the upgradeable loader: tag u32 2 | address of its code. */
const programStateBytes = 36
const loaders = [
  programs.nativeLoader,
  programs.loaderV1,
  programs.loaderV2,
  programs.upgradeableLoader,
  loaderV4,
]

export interface Load {
  /** Why it cannot pay: it never lands. */
  readonly refused: TransactionError | null
  /** Why it cannot run: it lands, and only pays. */
  readonly err: TransactionError | null
  /** Bytes of all accounts it loads, as limits count them. */
  readonly loadedBytes: number
}

export interface LoadFrom {
  /** Static keys, then those of lookup tables. */
  readonly keys: readonly Uint8Array[]
  readonly fee: Fee
  /** The newest state; null or 0 lamports for an account that does not exist. */
  account(pubkey: Uint8Array): AccountState | null
  rentExemptMinimum(dataBytes: number): bigint
}

export function loadOf(layout: TransactionLayout, from: LoadFrom): Load {
  const refused = payerError(existing(from, from.keys[0]!), from)
  if (refused !== null) return { refused, err: null, loadedBytes: 0 }
  const loadedBytes = loadedBytesOf(layout, from)
  const err =
    loadedBytes > from.fee.loadedBytes
      ? 'MaxLoadedAccountsDataSizeExceeded'
      : programError(layout, from)
  return { refused: null, err, loadedBytes }
}

function payerError(payer: AccountState | null, from: LoadFrom): TransactionError | null {
  if (payer === null) return 'AccountNotFound'
  const { lamports, owner, data } = payer
  const isNonce = isNonceAccount(owner, data)
  if (!isNonce && (data.length > 0 || !isSameKey(owner, programs.system)))
    return 'InvalidAccountForFee'
  const fee = from.fee.lamports
  const least = from.rentExemptMinimum(data.length)
  if (lamports < fee + (isNonce ? least : 0n)) return 'InsufficientFundsForFee'
  const after = lamports - fee
  const isRentPaying = after > 0n && after < least && lamports >= least
  return isRentPaying ? { InsufficientFundsForRent: { account_index: 0 } } : null
}

function loadedBytesOf(layout: TransactionLayout, from: LoadFrom): number {
  const names = new Set(from.keys.map(keyOf))
  let bytes = layout.lookupCount * lookupTableBytes
  for (const key of from.keys) {
    const account = isSameKey(key, sysvars.instructions) ? null : existing(from, key)
    if (account === null) continue
    bytes += accountBytes + account.data.length
    const code = codeKeyOf(account)
    // The code of a program counts once, unless it is among the keys anyway.
    if (code === null || names.has(keyOf(code))) continue
    const codeAccount = existing(from, code)
    if (codeAccount === null) continue
    names.add(keyOf(code))
    bytes += accountBytes + codeAccount.data.length
  }
  return bytes
}

/** Address of the account that has the code of an upgradeable program. */
function codeKeyOf({ owner, data }: AccountState): Uint8Array | null {
  const isProgram = data.length >= programStateBytes && data[0] === 2
  return isProgram && isSameKey(owner, programs.upgradeableLoader) ? data.subarray(4, 36) : null
}

function programError(layout: TransactionLayout, from: LoadFrom): TransactionError | null {
  for (const index of layout.programIndex.subarray(0, layout.instructionCount)) {
    const program = existing(from, from.keys[index]!)
    if (program === null) return 'ProgramAccountNotFound'
    if (!loaders.some((loader) => isSameKey(loader, program.owner)))
      return 'InvalidProgramForExecution'
  }
  return null
}

function existing(from: LoadFrom, key: Uint8Array): AccountState | null {
  const account = from.account(key)
  return account === null || account.lamports === 0n ? null : account
}

// Resolves the addresses that a v0 transaction loads from lookup tables.
//
//   table: type u32 | deactivated u64 | extended u64 | start u8 | authority option 1 + [32] | pad 2
//          | addresses [32]… from byte 56 on

const lookupTableHeadBytes = 56

/** The runtime's errors of a table that cannot be used. */
export const lookupErrors = [
  'AddressLookupTableNotFound',
  'InvalidAddressLookupTableOwner',
  'InvalidAddressLookupTableData',
  'InvalidAddressLookupTableIndex',
]

export interface LookedUp {
  readonly writable: readonly Uint8Array[]
  readonly readonly: readonly Uint8Array[]
}

/** Null when a table is missing or too short: the runtime then reports the error. */
export function lookedUp(
  layout: TransactionLayout,
  bytes: Uint8Array,
  tableOf: (pubkey: Uint8Array) => Uint8Array | null,
): LookedUp | null {
  const writable: Uint8Array[] = []
  const readonly: Uint8Array[] = []
  for (let index = 0; index < layout.lookupCount; index++) {
    const at = layout.lookupTableAt[index]!
    const table = tableOf(bytes.subarray(at, at + 32))
    if (table === null) return null
    const take = (from: number, count: number, into: Uint8Array[]): boolean => {
      for (let entry = from; entry < from + count; entry++) {
        const start = lookupTableHeadBytes + bytes[entry]! * 32
        if (start + 32 > table.length) return false
        into.push(table.subarray(start, start + 32))
      }
      return true
    }
    const isWhole =
      take(layout.lookupWritableAt[index]!, layout.lookupWritableCount[index]!, writable) &&
      take(layout.lookupReadonlyAt[index]!, layout.lookupReadonlyCount[index]!, readonly)
    if (!isWhole) return null
  }
  return { writable, readonly }
}

// Reads and checks durable nonces of the system program's nonce accounts.
//
//   nonce account 80: version u32 | state u32 (1 initialized) | authority[32] | nonce[32] | fee u64

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
