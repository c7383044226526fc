// Reads the fixed fields of SPL Token and Token-2022 accounts and mints.
//
//   account 165: mint[32] owner[32] amount u64 | delegate option u32 + [32] | state u8
//                | native option u32 + u64 | delegated u64 | close authority option u32 + [32]
//   mint 82:     authority option u32 + [32] | supply u64 | decimals u8 | initialized u8
//                | freeze authority option u32 + [32]
//   multisig 355: see token-accounts.ts
//   Token-2022 with extensions: byte 165 is the kind (1 mint, 2 account), extensions from 166 on,
//   each type u16 | length u16 | bytes, until type 0. No account with extensions has 355 bytes.
import { Cursor } from './cursor.ts'
import { isSameKey } from './keys.ts'
import { programs } from './programs.ts'

export const tokenAccountBytes = 165
export const mintBytes = 82
export const multisigBytes = 355
const frozen = 2

export interface TokenAccount {
  readonly mint: Uint8Array
  readonly owner: Uint8Array
  readonly amount: bigint
  readonly delegate: Uint8Array | null
  /** 1 initialized, 2 frozen. */
  readonly state: number
  /** Rent-exempt reserve of wrapped SOL; null for other mints. */
  readonly nativeReserve: bigint | null
  readonly delegatedAmount: bigint
  readonly closeAuthority: Uint8Array | null
}

export interface Mint {
  readonly authority: Uint8Array | null
  readonly supply: bigint
  readonly decimals: number
  readonly isInitialized: boolean
  readonly freezeAuthority: Uint8Array | null
}

export interface TokenExtension {
  readonly type: number
  readonly bytes: Uint8Array
}

export function isTokenProgram(owner: Uint8Array): boolean {
  return isSameKey(owner, programs.token) || isSameKey(owner, programs.token2022)
}

/** Null for data that is not an initialized token account. `owner` is the account's program. */
export function readTokenAccount(owner: Uint8Array, data: Uint8Array): TokenAccount | null {
  if (data.length < tokenAccountBytes || !isTokenProgram(owner)) return null
  const state = data[108]!
  if (state === 0 || state > frozen) return null
  if (data.length !== tokenAccountBytes && !hasType(owner, data, 2)) return null
  const view = Buffer.from(data.buffer, data.byteOffset, data.length)
  const options = view.readUInt32LE(72) | view.readUInt32LE(109) | view.readUInt32LE(129)
  if (!isOption(options)) return null
  return {
    mint: data.subarray(0, 32),
    owner: data.subarray(32, 64),
    amount: view.readBigUInt64LE(64),
    delegate: optionalKey(view, 72),
    state,
    nativeReserve: view.readUInt32LE(109) === 0 ? null : view.readBigUInt64LE(113),
    delegatedAmount: view.readBigUInt64LE(121),
    closeAuthority: optionalKey(view, 129),
  }
}

/** Null for data that is not an initialized mint. */
export function readMint(owner: Uint8Array, data: Uint8Array): Mint | null {
  if (data.length < mintBytes || data[45] !== 1 || !isTokenProgram(owner)) return null
  if (data.length !== mintBytes && !isExtendedMint(owner, data)) return null
  const view = Buffer.from(data.buffer, data.byteOffset, data.length)
  if (!isOption(view.readUInt32LE(0) | view.readUInt32LE(46))) return null
  return {
    authority: optionalKey(view, 0),
    supply: view.readBigUInt64LE(36),
    decimals: data[44]!,
    isInitialized: true,
    freezeAuthority: optionalKey(view, 46),
  }
}

/** The extensions up to the end or to one that is cut off, which is no longer `isWhole`. */
export function readExtensions(data: Uint8Array): {
  readonly entries: readonly TokenExtension[]
  readonly isWhole: boolean
} {
  const entries: TokenExtension[] = []
  const cursor = new Cursor(data, tokenAccountBytes + 1)
  while (cursor.left >= 2) {
    const type = cursor.u16()
    if (type === 0) break
    const length = cursor.u16()
    if (cursor.isShort || length > cursor.left) return { entries, isWhole: false }
    entries.push({ type, bytes: cursor.bytes(length) })
  }
  return { entries, isWhole: true }
}

/** Extended Token-2022 accounts store their kind after the longer of the two layouts. */
function hasType(owner: Uint8Array, data: Uint8Array, type: number): boolean {
  return (
    data[tokenAccountBytes] === type &&
    data.length !== multisigBytes &&
    isSameKey(owner, programs.token2022)
  )
}

function isExtendedMint(owner: Uint8Array, data: Uint8Array): boolean {
  return (
    hasType(owner, data, 1) &&
    data.subarray(mintBytes, tokenAccountBytes).every((byte) => byte === 0)
  )
}

/** Options begin with 0 or 1; anything else is malformed. */
function isOption(tags: number): boolean {
  return tags >>> 1 === 0
}

function optionalKey(view: Buffer, at: number): Uint8Array | null {
  return view.readUInt32LE(at) === 0 ? null : view.subarray(at + 4, at + 36)
}
