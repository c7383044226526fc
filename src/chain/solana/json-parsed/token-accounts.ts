// Parses SPL Token and Token-2022 accounts, mints and multisigs for `jsonParsed`.
import { isSameKey, keyText } from '../base58.ts'
import { Cursor } from '../cursor.ts'
import { nativeMint, sysvars } from '../programs.ts'
import type { Mint, TokenAccount, TokenExtension, TokenUnit } from '../token-account.ts'
import {
  mintBytes,
  multisigBytes,
  readExtensions,
  readMint,
  readTokenAccount,
  scalingOf,
  tokenAccountBytes,
  uiTokenAmount,
} from '../token-account.ts'
import type { Shapes } from '../version.ts'
import { layout, type Read } from './layout.ts'
import type { AccountData, Parsed, ParsedAccount, ReadAccount } from './parsed.ts'

const frozen = 2
const nativeUnit: TokenUnit = { decimals: 9, scaled: null }
const clockTimeOffset = 32

export function parsedToken(
  { owner, data }: ParsedAccount,
  read: ReadAccount,
  shapes: Shapes,
): Parsed | null {
  if (data.length === multisigBytes) return parsedMultisig(data)
  const extensionsIn = (where: 'mint' | 'account') => parsedExtensions(data, where, shapes)
  const account = readTokenAccount(owner, data)
  if (account !== null) {
    const unit = tokenUnit(account.mint, read)
    if (unit === null) return null
    return { info: accountInfo(account, unit, extensionsIn('account')), type: 'account' }
  }
  const mint = readMint(owner, data)
  return mint === null ? null : { info: mintInfo(mint, extensionsIn('mint')), type: 'mint' }
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

// Parses the extensions of Token-2022 accounts and mints for `jsonParsed`.
//
//   metadataPointer  mint          authority:keyOrNull metadataAddress:keyOrNull
//   name             where it is   fields in order, with their types (layout.ts)
//
// The type of an extension is its line number. One without fields has no state.

const kinds = {
  fee: layout('epoch:u64 maximumFee:u64 transferFeeBasisPoints:u16'),
  accountState: (cursor: Cursor) =>
    ['uninitialized', 'initialized', 'frozen'][cursor.u8()] ?? 'uninitialized',
}

const table = `
  uninitialized           mint
  transferFeeConfig       mint     transferFeeConfigAuthority:keyOrNull
    withdrawWithheldAuthority:keyOrNull withheldAmount:u64 olderTransferFee:fee newerTransferFee:fee
  transferFeeAmount       account  withheldAmount:u64
  mintCloseAuthority      mint     closeAuthority:keyOrNull
  confidentialTransferMint  mint   authority:keyOrNull autoApproveNewAccounts:flag
    auditorElgamalPubkey:elgamalKeyOrNull
  confidentialTransferAccount  account  approved:flag elgamalPubkey:elgamalKey
    pendingBalanceLo:elgamalCiphertext pendingBalanceHi:elgamalCiphertext
    availableBalance:elgamalCiphertext decryptableAvailableBalance:aeCiphertext
    allowConfidentialCredits:flag allowNonConfidentialCredits:flag
    pendingBalanceCreditCounter:u64 maximumPendingBalanceCreditCounter:u64
    expectedPendingBalanceCreditCounter:u64 actualPendingBalanceCreditCounter:u64
  defaultAccountState     mint     accountState:accountState
  immutableOwner          account
  memoTransfer            account  requireIncomingTransferMemos:flag
  nonTransferable         mint
  interestBearingConfig   mint     rateAuthority:keyOrNull initializationTimestamp:i64
    preUpdateAverageRate:i16 lastUpdateTimestamp:i64 currentRate:i16
  cpiGuard                account  lockCpi:flag
  permanentDelegate       mint     delegate:keyOrNull
  nonTransferableAccount  account
  transferHook            mint     authority:keyOrNull programId:keyOrNull
  transferHookAccount     account  transferring:flag
  confidentialTransferFeeConfig  mint  authority:keyOrNull
    withdrawWithheldAuthorityElgamalPubkey:elgamalKey harvestToMintEnabled:flag
    withheldAmount:elgamalCiphertext
  confidentialTransferFeeAmount  account  withheldAmount:elgamalCiphertext
  metadataPointer         mint     authority:keyOrNull metadataAddress:keyOrNull
  tokenMetadata           mint     updateAuthority:keyOrNull mint:key name:shortText
    symbol:shortText uri:shortText additionalMetadata:textPairs
  groupPointer            mint     authority:keyOrNull groupAddress:keyOrNull
  tokenGroup              mint     updateAuthority:keyOrNull mint:key size:u64 maxSize:u64
  groupMemberPointer      mint     authority:keyOrNull memberAddress:keyOrNull
  tokenGroupMember        mint     mint:key group:key memberNumber:u64
  confidentialMintBurn    mint     confidentialSupply:elgamalCiphertext
    decryptableSupply:aeCiphertext supplyElgamalPubkey:elgamalKey pendingBurn:elgamalCiphertext
  scaledUiAmountConfig    mint     authority:keyOrNull multiplier:floatText
    newMultiplierEffectiveTimestamp:i64 newMultiplier:floatText
  pausableConfig          mint     authority:keyOrNull paused:flag
  pausableAccount         account
  permissionedBurnConfig  mint     authority:keyOrNull`

interface Extension {
  readonly name: string
  readonly where: string
  readonly read: Read | null
}

const extensions: readonly Extension[] = table
  // A line that is indented further continues the one before it.
  .replace(/\n {4}/g, ' ')
  .trim()
  .split('\n')
  .map((line) => {
    const [name, where, ...fields] = line.trim().split(/\s+/)
    const read = fields.length === 0 ? null : layout(fields.join(' '), kinds)
    return { name: name!, where: where!, read }
  })

/** The type of the newest extension. */
const permissionedBurn = extensions.length - 1

/** Undefined without extensions, or when an entry is cut off or of an unknown type. */
export function parsedExtensions(
  data: Uint8Array,
  where: 'mint' | 'account',
  shapes: Shapes,
): unknown[] | undefined {
  if (data.length <= tokenAccountBytes) return undefined
  const { entries, isWhole } = readExtensions(data)
  if (entries.length === 0 || !isWhole) return undefined
  const known = shapes.tokenBatch ? extensions.length : permissionedBurn
  if (entries.some(({ type }) => type >= known)) return undefined
  return entries.map((entry) => parsedExtension(entry, where))
}

function parsedExtension({ type, bytes }: TokenExtension, where: string): unknown {
  const { name, read, where: place } = extensions[type]!
  if (read === null) return { extension: name }
  const cursor = new Cursor(bytes)
  const state = read(cursor)
  // Only metadata varies in length; a validator ignores what is after it.
  const isRight = !cursor.isShort && (cursor.left === 0 || name === 'tokenMetadata')
  if (place !== where || !isRight) return { extension: 'unparseableExtension' }
  return { extension: name, state }
}
