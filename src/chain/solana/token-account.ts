// Reads the fixed fields of SPL Token and Token-2022 accounts and mints, and formats their amounts.
//
//   account 165: mint[32] owner[32] amount u64 | delegate option u32 + [32] | state u8
//                | native option u32 + u64 | delegated u64 | close authority option u32 + [32]
//   mint 82:     authority option u32 + [32] | supply u64 | decimals u8 | initialized u8
//                | freeze authority option u32 + [32]
//   multisig 355: see token-accounts.ts
//   Token-2022 with extensions: byte 165 is the kind (1 mint, 2 account), extensions from 166 on,
//   each type u16 | length u16 | bytes, until type 0. No account with extensions has 355 bytes.
import { isSameKey } from './base58.ts'
import { Cursor } from './cursor.ts'
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

// Formats token amounts as Solana's RPC does.

export interface UiTokenAmount {
  readonly amount: string
  readonly decimals: number
  readonly uiAmount: number | null
  readonly uiAmountString: string
}

/** How amounts of a mint are shown. */
export interface TokenUnit {
  readonly decimals: number
  /** Formats an amount with interest or a multiplier; null when the mint has neither. */
  readonly scaled: ((amount: bigint) => string) | null
}

/** Above this a validator computes no `uiAmount`: 10^20 exceeds its integers. */
const floatDecimalsMax = 19

export function uiTokenAmount(
  amount: bigint,
  decimals: number,
  scaled: TokenUnit['scaled'] = null,
): UiTokenAmount {
  const text = scaled === null ? decimalText(String(amount), decimals) : scaled(amount)
  const uiAmount = scaled === null ? Number(amount) / 10 ** decimals : Number.parseFloat(text)
  const isFloat = Number.isFinite(uiAmount) && (scaled !== null || decimals <= floatDecimalsMax)
  return {
    amount: String(amount),
    decimals,
    uiAmount: isFloat ? uiAmount : null,
    uiAmountString: text,
  }
}

/** Exact, without trailing zeros: 1500000 of 6 decimals is `1.5`. */
export function decimalText(amount: string, decimals: number): string {
  if (decimals === 0) return amount
  const digits = amount.padStart(decimals + 1, '0')
  const whole = digits.slice(0, -decimals)
  const fraction = digits.slice(-decimals).replace(/0+$/, '')
  return fraction === '' ? whole : `${whole}.${fraction}`
}

// Formats amounts of Token-2022 mints with interest or a multiplier.
//
//   interest bearing 52: authority[32] | start i64 | average rate i16 | updated i64 | rate i16
//   scaled amount 56:    authority[32] | multiplier f64 | effective i64 | next multiplier f64
//
// Rates are basis points a year, compounded continuously. The arithmetic is that of the token
// program, in doubles, so that every digit is the same.

const interestBearing = { type: 10, bytes: 52 }
const scaledAmount = { type: 25, bytes: 56 }
const secondsPerYear = 60 * 60 * 24 * 365.24
const basisPoints = 10_000
const authorityBytes = 32

/** For a mint with extensions; null when it has neither. `unixTime` reads the cluster's time. */
export function scalingOf(
  data: Uint8Array,
  decimals: number,
  unixTime: () => bigint | null,
): TokenUnit['scaled'] {
  const { entries } = readExtensions(data)
  const find = ({ type, bytes: length }: typeof scaledAmount) => {
    const found = entries.find((entry) => entry.type === type)
    return found?.bytes.length === length ? new Cursor(found.bytes, authorityBytes) : null
  }
  const [interest, scaled] = [find(interestBearing), find(scaledAmount)]
  const now = interest === null && scaled === null ? null : unixTime()
  if (now === null) return null
  if (interest !== null) return withInterest(interest, decimals, now)
  return scaled === null ? null : withMultiplier(scaled, decimals, now)
}

function withInterest(cursor: Cursor, decimals: number, now: bigint): TokenUnit['scaled'] {
  const start = cursor.i64()
  const averageRate = cursor.i16()
  const updated = cursor.i64()
  const rate = cursor.i16()
  const before = updated - start
  const since = now - updated
  // The program gives up on a span that its integers do not hold.
  if (before !== BigInt.asIntN(64, before) || since !== BigInt.asIntN(64, since)) return () => ''
  const scale = (growth(averageRate, before) * growth(rate, since)) / 10 ** decimals
  return (amount) => fixedText(Number(amount) * scale, decimals)
}

function growth(rate: number, seconds: bigint): number {
  return Math.exp(Number(BigInt(rate) * seconds) / secondsPerYear / basisPoints)
}

function withMultiplier(cursor: Cursor, decimals: number, now: bigint): TokenUnit['scaled'] {
  const current = cursor.f64()
  const effective = cursor.i64()
  const next = cursor.f64()
  const multiplier = now >= effective ? next : current
  return (amount) => fixedText(Math.trunc(Number(amount) * multiplier) / 10 ** decimals, decimals)
}

const mantissaBits = 52n
const exponentBias = 1075

/** The exact value of the double rounded to `decimals` digits, half to even, no trailing zeros. */
function fixedText(value: number, decimals: number): string {
  const sign = value < 0 || Object.is(value, -0) ? '-' : ''
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : `${sign}inf`
  const view = new DataView(new ArrayBuffer(8))
  view.setFloat64(0, Math.abs(value))
  const bits = view.getBigUint64(0)
  const exponent = Number(bits >> mantissaBits)
  const fraction = BigInt.asUintN(52, bits)
  const mantissa = exponent === 0 ? fraction : fraction | (1n << mantissaBits)
  const shift = BigInt(exponentBias - Math.max(exponent, 1))
  const digits = mantissa * 10n ** BigInt(decimals)
  return sign + decimalText(String(halved(digits, shift)), decimals)
}

/** `value` / 2^`shift`, rounded half to even; a negative shift multiplies. */
function halved(value: bigint, shift: bigint): bigint {
  if (shift <= 0n) return value << -shift
  const whole = value >> shift
  const rest = value - (whole << shift)
  const half = 1n << (shift - 1n)
  const isUp = rest > half || (rest === half && (whole & 1n) === 1n)
  return isUp ? whole + 1n : whole
}
