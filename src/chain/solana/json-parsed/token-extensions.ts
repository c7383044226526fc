// Parses the extensions of Token-2022 accounts and mints for `jsonParsed`.
//
//   metadataPointer  mint          authority:keyOrNull metadataAddress:keyOrNull
//   name             where it is   fields in order, with their types (layout.ts)
//
// The type of an extension is its line number. One without fields has no state.
import { Cursor } from '../cursor.ts'
import { readExtensions, type TokenExtension, tokenAccountBytes } from '../token-account.ts'
import { layout, type Read } from './layout.ts'

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
  pausableAccount         account`

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

/** Undefined without extensions, or when an entry is cut off or of an unknown type. */
export function parsedExtensions(
  data: Uint8Array,
  where: 'mint' | 'account',
): unknown[] | undefined {
  if (data.length <= tokenAccountBytes) return undefined
  const { entries, isWhole } = readExtensions(data)
  if (entries.length === 0 || !isWhole) return undefined
  if (entries.some(({ type }) => type >= extensions.length)) return undefined
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
