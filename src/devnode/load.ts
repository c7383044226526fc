// Loads the accounts of a transaction as a validator does before it runs: can the payer pay, do
// the accounts fit the requested size, do the programs exist.
import type { AccountState } from '../chain/solana/geyser-content.ts'
import { isSameKey, keyOf } from '../chain/solana/keys.ts'
import { loaderV4, programs, sysvars } from '../chain/solana/programs.ts'
import type { TransactionLayout } from '../chain/solana/transaction.ts'
import type { TransactionError } from '../chain/solana/transaction-error.ts'
import type { Fee } from './fee.ts'
import { isNonceAccount } from './nonce.ts'

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
