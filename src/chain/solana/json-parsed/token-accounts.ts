// Parses SPL Token and Token-2022 accounts, mints and multisigs for `jsonParsed`.
import { Cursor } from '../cursor.ts'
import { keyText } from '../key-text.ts'
import { isSameKey } from '../keys.ts'
import { nativeMint, sysvars } from '../programs.ts'
import {
  type Mint,
  mintBytes,
  multisigBytes,
  readMint,
  readTokenAccount,
  type TokenAccount,
} from '../token-account.ts'
import { type TokenUnit, uiTokenAmount } from '../token-amount.ts'
import { scalingOf } from '../token-scaling.ts'
import type { AccountData, Parsed, ParsedAccount, ReadAccount } from './parsed.ts'
import { parsedExtensions } from './token-extensions.ts'

const frozen = 2
const nativeUnit: TokenUnit = { decimals: 9, scaled: null }
const clockTimeOffset = 32

export function parsedToken({ owner, data }: ParsedAccount, read: ReadAccount): Parsed | null {
  if (data.length === multisigBytes) return parsedMultisig(data)
  const account = readTokenAccount(owner, data)
  if (account !== null) {
    const unit = tokenUnit(account.mint, read)
    if (unit === null) return null
    return { info: accountInfo(account, unit, parsedExtensions(data, 'account')), type: 'account' }
  }
  const mint = readMint(owner, data)
  return mint === null
    ? null
    : { info: mintInfo(mint, parsedExtensions(data, 'mint')), type: 'mint' }
}

/** How amounts of a mint are shown; null when there is no mint at this address. */
export function tokenUnit(mint: Uint8Array, read: ReadAccount): TokenUnit | null {
  if (isSameKey(mint, nativeMint)) return nativeUnit
  const account = read(mint)
  return account === null ? null : mintUnit(account, read)
}

/** The same for an account that should be a mint; null when it is none. */
export function mintUnit({ owner, data }: AccountData, read: ReadAccount): TokenUnit | null {
  const mint = readMint(owner, data)
  if (mint === null) return null
  const { decimals } = mint
  if (data.length === mintBytes) return { decimals, scaled: null }
  return { decimals, scaled: scalingOf(data, decimals, () => unixTime(read)) }
}

function unixTime(read: ReadAccount): bigint | null {
  const clock = read(sysvars.clock)
  return clock === null ? null : new Cursor(clock.data, clockTimeOffset).i64()
}

function accountInfo(account: TokenAccount, unit: TokenUnit, extensions: unknown[] | undefined) {
  const { closeAuthority, delegate, nativeReserve } = account
  const shown = (amount: bigint) => uiTokenAmount(amount, unit.decimals, unit.scaled)
  return {
    closeAuthority: closeAuthority === null ? undefined : keyText(closeAuthority),
    delegate: delegate === null ? undefined : keyText(delegate),
    delegatedAmount: delegate === null ? undefined : shown(account.delegatedAmount),
    extensions,
    isNative: nativeReserve !== null,
    mint: keyText(account.mint),
    owner: keyText(account.owner),
    rentExemptReserve: nativeReserve === null ? undefined : shown(nativeReserve),
    state: account.state === frozen ? 'frozen' : 'initialized',
    tokenAmount: shown(account.amount),
  }
}

function mintInfo(mint: Mint, extensions: unknown[] | undefined) {
  const { authority, freezeAuthority } = mint
  return {
    decimals: mint.decimals,
    extensions,
    freezeAuthority: freezeAuthority === null ? null : keyText(freezeAuthority),
    isInitialized: mint.isInitialized,
    mintAuthority: authority === null ? null : keyText(authority),
    supply: String(mint.supply),
  }
}

/** m u8 | n u8 | initialized u8 | signers [32] x 11, of which unused ones are 0 */
function parsedMultisig(data: Uint8Array): Parsed | null {
  const signersMax = 11
  const cursor = new Cursor(data)
  const numRequiredSigners = cursor.u8()
  const numValidSigners = cursor.u8()
  const isInitialized = cursor.u8() === 1
  if (!isInitialized) return null
  const signers = Array.from({ length: signersMax }, () => cursor.key())
    .filter((key) => key.some((byte) => byte !== 0))
    .map(keyText)
  return {
    info: { isInitialized, numRequiredSigners, numValidSigners, signers },
    type: 'multisig',
  }
}
