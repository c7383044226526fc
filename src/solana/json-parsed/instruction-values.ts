// Reads the data fields of instructions for `jsonParsed`, by type. Thread: any (pure).
// A value that its type does not have counts as data that is too short: both refuse the
// instruction.
import { isUtf8 } from 'node:buffer'
import { encodeBase58 } from '../base58.ts'
import type { Cursor } from '../cursor.ts'
import { floatText } from '../float-text.ts'
import { keyText } from '../key-text.ts'
import { type UiTokenAmount, uiTokenAmount } from '../token-amount.ts'

export interface InstructionSource {
  readonly cursor: Cursor
  /** Without those that a field has taken off the end. */
  accounts: readonly string[]
  /** The value of the field before. */
  previous: unknown
}

export type ReadValue = (source: InstructionSource) => unknown

export function refuse({ cursor }: InstructionSource): undefined {
  cursor.isShort = true
}

/** The name at the index that `read` returns; `-` is no name. */
export function oneOf(names: string, read: (cursor: Cursor) => number): ReadValue {
  const list = names.trim().split(/\s+/)
  return (source) => {
    const name = list[read(source.cursor)]
    return name === undefined || name === '-' ? refuse(source) : name
  }
}

/** `count` values; as many as the data can hold at most. */
export function listOf<T>({ cursor }: InstructionSource, count: bigint | number, read: () => T) {
  const found: T[] = []
  while (found.length < count && !cursor.isShort) found.push(read())
  return found
}

const extensionTypes = `uninitialized transferFeeConfig transferFeeAmount mintCloseAuthority
  confidentialTransferMint confidentialTransferAccount defaultAccountState immutableOwner
  memoTransfer nonTransferable interestBearingConfig cpiGuard permanentDelegate
  nonTransferableAccount transferHook transferHookAccount confidentialTransferFeeConfig
  confidentialTransferFeeAmount metadataPointer tokenMetadata groupPointer tokenGroup
  groupMemberPointer tokenGroupMember confidentialMintBurn scaledUiAmount pausable pausableAccount`
const extensionType = oneOf(extensionTypes, (cursor) => cursor.u16())

const extensions: ReadValue = (source) =>
  listOf(source, Math.ceil(source.cursor.left / 2), () => extensionType(source))

const isZero = (bytes: Uint8Array) => bytes.every((byte) => byte === 0)
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
const zeroableKey: ReadValue = ({ cursor }) => {
  const key = cursor.key()
  return isZero(key) ? undefined : keyText(key)
}

export const instructionValues: Readonly<Record<string, ReadValue>> = {
  u8: ({ cursor }) => cursor.u8(),
  u16: ({ cursor }) => cursor.u16(),
  u32: ({ cursor }) => cursor.u32(),
  u64: ({ cursor }) => cursor.u64(),
  i8: ({ cursor }) => (cursor.u8() << 24) >> 24,
  i16: ({ cursor }) => (cursor.u16() << 16) >> 16,
  i64: ({ cursor }) => cursor.i64(),
  /** A u64 as text. */
  amount: ({ cursor }) => String(cursor.u64()),
  float: ({ cursor }) => floatText(cursor.f64()),
  bool: (source) => [false, true][source.cursor.u8()] ?? refuse(source),
  /** Every byte but 0 is true. */
  flag: ({ cursor }) => cursor.u8() !== 0,
  key: ({ cursor }) => keyText(cursor.key()),
  /** Omitted when it is all zeros. */
  zeroableKey,
  zeroableKeyOrNull: (source) => zeroableKey(source) ?? null,
  hash: ({ cursor }) => encodeBase58(cursor.key()),
  keys: (source) => listOf(source, source.cursor.u64(), () => keyText(source.cursor.key())),
  elGamalKey: ({ cursor }) => base64(cursor.bytes(32)),
  elGamalKeyOrNull({ cursor }) {
    const bytes = cursor.bytes(32)
    return isZero(bytes) ? null : base64(bytes)
  },
  aeCiphertext: ({ cursor }) => base64(cursor.bytes(36)),
  /** Two ElGamal ciphertexts for the auditor, which are not shown. */
  auditorCiphertexts: ({ cursor }) => cursor.bytes(128),
  /** Prefixed by the length as u64. */
  bytes: (source) => base64(bytesOf(source, source.cursor.u64())),
  text: (source) => textOf(source, source.cursor.u64()),
  /** Prefixed by the length as u32. */
  shortText: (source) => textOf(source, BigInt(source.cursor.u32())),
  /** Up to the end of the data. */
  rest: (source) => textOf(source, BigInt(source.cursor.left)),
  tokenAmount({ cursor }) {
    const amount = cursor.u64()
    return uiTokenAmount(amount, cursor.u8())
  },
  // Reason for the cast: it follows the token amount, whose decimals it has.
  tokenFee: ({ cursor, previous }) =>
    uiTokenAmount(cursor.u64(), (previous as UiTokenAmount).decimals),
  /** So many accounts at the end of the list. */
  lastAccounts(source) {
    const start = source.accounts.length - source.cursor.u8()
    if (start < 0) return refuse(source)
    const last = source.accounts.slice(start)
    source.accounts = source.accounts.slice(0, start)
    return last
  },
  accountState: oneOf('uninitialized initialized frozen', (cursor) => cursor.u8()),
  extensions,
  /** Omitted when there are none. */
  anyExtensions: (source) => (source.cursor.left === 0 ? undefined : extensions(source)),
  /** A field of token metadata: one of the fixed ones, or a key of its own. */
  metadataField(source) {
    const field = source.cursor.u8()
    if (field === 3) return textOf(source, BigInt(source.cursor.u32()))
    return ['name', 'symbol', 'uri'][field] ?? refuse(source)
  },
  accountAuthority: oneOf('- - accountOwner closeAccount', (cursor) => cursor.u8()),
  mintAuthority: oneOf(
    `mintTokens freezeAccount - - transferFeeConfig withheldWithdraw closeMint interestRate
    permanentDelegate confidentialTransferMint transferHookProgramId confidentialTransferFeeConfig
    metadataPointer groupPointer groupMemberPointer scaledUiAmount pause`,
    (cursor) => cursor.u8(),
  ),
  stakeAuthority: oneOf('Staker Withdrawer', (cursor) => cursor.u32()),
}

function bytesOf(source: InstructionSource, length: bigint): Uint8Array {
  const { cursor } = source
  if (length <= cursor.left) return cursor.bytes(Number(length))
  refuse(source)
  return new Uint8Array(0)
}

function textOf(source: InstructionSource, length: bigint): string | undefined {
  const bytes = bytesOf(source, length)
  return isUtf8(bytes) ? Buffer.from(bytes).toString('utf8') : refuse(source)
}
