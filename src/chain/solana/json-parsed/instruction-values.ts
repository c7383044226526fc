// Reads the data fields of instructions for `jsonParsed`: what they have besides layout.ts.
import type { Cursor } from '../cursor.ts'
import { type UiTokenAmount, uiTokenAmount } from '../token-amount.ts'
import { base64, list, listOf, type Read, readers } from './layout.ts'

export interface InstructionSource {
  readonly cursor: Cursor
  /** Without those that a field has taken off the end. */
  accounts: readonly string[]
  /** The value of the field before. */
  previous: unknown
}

export type ReadValue = (cursor: Cursor, source: InstructionSource) => unknown

/** The value does not exist: the data is malformed. */
export function refuse(cursor: Cursor): undefined {
  cursor.isShort = true
}

/** The name at the index that `read` returns; `-` is no name. */
export function oneOf(names: string, read: (cursor: Cursor) => number): Read {
  const all = names.trim().split(/\s+/)
  return (cursor) => {
    const name = all[read(cursor)]
    return name === undefined || name === '-' ? refuse(cursor) : name
  }
}

const extensionType = oneOf(
  `uninitialized transferFeeConfig transferFeeAmount mintCloseAuthority confidentialTransferMint
  confidentialTransferAccount defaultAccountState immutableOwner memoTransfer nonTransferable
  interestBearingConfig cpiGuard permanentDelegate nonTransferableAccount transferHook
  transferHookAccount confidentialTransferFeeConfig confidentialTransferFeeAmount metadataPointer
  tokenMetadata groupPointer tokenGroup groupMemberPointer tokenGroupMember confidentialMintBurn
  scaledUiAmount pausable pausableAccount`,
  readers.u16,
)
const extensions: Read = (cursor) =>
  listOf(cursor, Math.ceil(cursor.left / 2), () => extensionType(cursor))

export const instructionValues: Readonly<Record<string, ReadValue>> = {
  ...readers,
  i8: (cursor) => (cursor.u8() << 24) >> 24,
  /** Omitted when all bytes are 0. */
  nonZeroKey: (cursor) => readers.keyOrNull(cursor) ?? undefined,
  keys: list(readers.key),
  /** Two ElGamal ciphertexts. */
  auditorCiphertexts: (cursor) => cursor.bytes(128),
  /** Prefixed by the length as u64. */
  bytes(cursor) {
    const length = cursor.u64()
    return length > cursor.left ? refuse(cursor) : base64(cursor.bytes(Number(length)))
  },
  text: (cursor) => cursor.text(cursor.u64()),
  /** Up to the end of the data. */
  rest: (cursor) => cursor.text(cursor.left),
  tokenAmount(cursor) {
    const amount = cursor.u64()
    return uiTokenAmount(amount, cursor.u8())
  },
  // Reason for the cast: it follows the token amount, whose decimals it has.
  tokenFee: (cursor, { previous }) =>
    uiTokenAmount(cursor.u64(), (previous as UiTokenAmount).decimals),
  /** So many accounts at the end of the list. */
  lastAccounts(cursor, source) {
    const start = source.accounts.length - cursor.u8()
    if (start < 0) return refuse(cursor)
    const last = source.accounts.slice(start)
    source.accounts = source.accounts.slice(0, start)
    return last
  },
  accountState: oneOf('uninitialized initialized frozen', readers.u8),
  extensions,
  /** Omitted when there are none. */
  anyExtensions: (cursor) => (cursor.left === 0 ? undefined : extensions(cursor)),
  /** A field of token metadata: one of the fixed ones, or a key of its own. */
  metadataField(cursor) {
    const field = cursor.choice(4)
    return ['name', 'symbol', 'uri'][field] ?? readers.shortText(cursor)
  },
  accountAuthority: oneOf('- - accountOwner closeAccount', readers.u8),
  mintAuthority: oneOf(
    `mintTokens freezeAccount - - transferFeeConfig withheldWithdraw closeMint interestRate
    permanentDelegate confidentialTransferMint transferHookProgramId confidentialTransferFeeConfig
    metadataPointer groupPointer groupMemberPointer scaledUiAmount pause`,
    readers.u8,
  ),
  stakeAuthority: oneOf('Staker Withdrawer', readers.u32),
}
