// Formats amounts of Token-2022 mints with interest or a multiplier.
//
//   interest bearing 52: authority[32] | start i64 | average rate i16 | updated i64 | rate i16
//   scaled amount 56:    authority[32] | multiplier f64 | effective i64 | next multiplier f64
//
// Rates are basis points a year, compounded continuously. The arithmetic is that of the token
// program, in doubles, so that every digit is the same.
import { Cursor } from './cursor.ts'
import { readExtensions } from './token-account.ts'
import { decimalText, type TokenUnit } from './token-amount.ts'

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
