// Parses SPL Token and Token-2022 accounts, mints and multisigs for `jsonParsed`.
// Thread: any (pure).
import { Cursor } from '../cursor.ts'
import { keyText } from '../key-text.ts'
import { isSameKey } from '../keys.ts'
import { nativeMint } from '../programs.ts'
import {
  type Mint,
  readMint,
  readTokenAccount,
  type TokenAccount,
  tokenAccountBytes,
} from '../token-account.ts'
import { uiTokenAmount } from '../token-amount.ts'
import type { Parsed, ParsedAccount, ReadAccount } from './parsed.ts'

const multisigBytes = 355
const frozen = 2
const nativeDecimals = 9

export function parsedToken({ owner, data }: ParsedAccount, read: ReadAccount): Parsed | null {
  if (data.length === multisigBytes) return parsedMultisig(data)
  const account = readTokenAccount(owner, data)
  if (account !== null) {
    const decimals = decimalsOf(account.mint, read)
    if (decimals === null) return null
    return { info: accountInfo(account, decimals, extensionsOf(data)), type: 'account' }
  }
  const mint = readMint(owner, data)
  return mint === null ? null : { info: mintInfo(mint, extensionsOf(data)), type: 'mint' }
}

/** Decimals of a mint; null when there is no mint at this address. */
export function decimalsOf(mint: Uint8Array, read: ReadAccount): number | null {
  if (isSameKey(mint, nativeMint)) return nativeDecimals
  const account = read(mint)
  return account === null ? null : (readMint(account.owner, account.data)?.decimals ?? null)
}

function accountInfo(account: TokenAccount, decimals: number, extensions: unknown[] | undefined) {
  const { closeAuthority, delegate, nativeReserve } = account
  return {
    closeAuthority: closeAuthority === null ? undefined : keyText(closeAuthority),
    delegate: delegate === null ? undefined : keyText(delegate),
    delegatedAmount:
      delegate === null ? undefined : uiTokenAmount(account.delegatedAmount, decimals),
    extensions,
    isNative: nativeReserve !== null,
    mint: keyText(account.mint),
    owner: keyText(account.owner),
    rentExemptReserve: nativeReserve === null ? undefined : uiTokenAmount(nativeReserve, decimals),
    state: account.state === frozen ? 'frozen' : 'initialized',
    tokenAmount: uiTokenAmount(account.amount, decimals),
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

/** m u8 | n u8 | initialized u8 | signers [32] x 11 */
function parsedMultisig(data: Uint8Array): Parsed | null {
  const signersMax = 11
  const cursor = new Cursor(data)
  const numRequiredSigners = cursor.u8()
  const numValidSigners = cursor.u8()
  const isInitialized = cursor.u8() === 1
  if (!isInitialized || numValidSigners > signersMax) return null
  const signers = Array.from({ length: numValidSigners }, () => keyText(cursor.key()))
  return {
    info: { isInitialized, numRequiredSigners, numValidSigners, signers },
    type: 'multisig',
  }
}

/** Extensions that have no fields or only one. */
const plainExtensions: Readonly<Record<number, string>> = {
  7: 'immutableOwner',
  9: 'nonTransferable',
  13: 'nonTransferableAccount',
}
const keyExtensions: Readonly<Record<number, readonly [name: string, field: string]>> = {
  3: ['mintCloseAuthority', 'closeAuthority'],
  12: ['permanentDelegate', 'delegate'],
}

/** After byte 166: type u16 | length u16 | bytes, until type 0. Undefined without extensions. */
function extensionsOf(data: Uint8Array): unknown[] | undefined {
  if (data.length <= tokenAccountBytes) return undefined
  const cursor = new Cursor(data, tokenAccountBytes + 1)
  const found: unknown[] = []
  while (cursor.left >= 4) {
    const type = cursor.u16()
    const bytes = cursor.bytes(cursor.u16())
    if (type === 0 || cursor.isShort) break
    found.push(extensionOf(type, bytes))
  }
  return found.length === 0 ? undefined : found
}

function extensionOf(type: number, bytes: Uint8Array): unknown {
  const plain = plainExtensions[type]
  if (plain !== undefined) return { extension: plain }
  const keyed = keyExtensions[type]
  if (keyed !== undefined && bytes.length === 32) {
    const isSet = bytes.some((byte) => byte !== 0)
    return { extension: keyed[0], state: { [keyed[1]]: isSet ? keyText(bytes) : null } }
  }
  if (type === 8 && bytes.length === 1)
    return { extension: 'memoTransfer', state: { requireIncomingTransferMemos: bytes[0] === 1 } }
  if (type === 6 && bytes.length === 1) {
    const accountState = ['uninitialized', 'initialized', 'frozen'][bytes[0]!]
    return { extension: 'defaultAccountState', state: { accountState } }
  }
  return { extension: 'unparseableExtension' }
}
