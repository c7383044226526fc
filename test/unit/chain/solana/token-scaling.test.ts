// Amounts with interest and with a multiplier, digit by digit as the token program shows them.
import { describe, expect, it } from 'vitest'
import { scalingOf, uiTokenAmount } from '../../../../src/chain/solana/token-account.ts'

const year = 31_556_736n
const max = 2n ** 63n - 1n

function mint(type: number, value: Uint8Array): Buffer {
  const data = Buffer.alloc(170 + value.length)
  data[165] = 1
  data.writeUInt16LE(type, 166)
  data.writeUInt16LE(value.length, 168)
  data.set(value, 170)
  return data
}

/** Rates in basis points, times in seconds. */
function interest(fields: { start: bigint; average: number; updated: bigint; rate: number }) {
  const value = Buffer.alloc(52)
  value.writeBigInt64LE(fields.start, 32)
  value.writeInt16LE(fields.average, 40)
  value.writeBigInt64LE(fields.updated, 42)
  value.writeInt16LE(fields.rate, 50)
  return mint(10, value)
}

function scaled(multiplier: number, effective: bigint, next: number) {
  const value = Buffer.alloc(56)
  value.writeDoubleLE(multiplier, 32)
  value.writeBigInt64LE(effective, 40)
  value.writeDoubleLE(next, 48)
  return mint(25, value)
}

function shown(data: Buffer, { amount = 0n, decimals = 0, now = 0n }) {
  const { uiAmount, uiAmountString } = uiTokenAmount(
    amount,
    decimals,
    scalingOf(data, decimals, () => now),
  )
  return [uiAmountString, uiAmount]
}

describe('interest', () => {
  const constant = (rate: number) => interest({ start: 0n, average: rate, updated: year, rate })

  it.each([
    // 5 % a year, compounded continuously, is e^0.05.
    [500, 10n ** 18n, 18, year, '1.051271096376024117', 1.0512710963760241],
    [500, 10n ** 18n, 19, year, '0.1051271096376024117', 0.10512710963760241],
    [500, 10n ** 10n, 10, year, '1.0512710964', 1.0512710964],
    [500, 10n ** 10n, 10, 2n * year, '1.1051709181', 1.1051709181],
    [-500, 10n ** 10n, 10, year, '0.9512294245', 0.9512294245],
    [0, 1_500n, 3, year, '1.5', 1.5],
    [32_767, 0n, 9, 10n * year, '0', 0],
    [500, 2n ** 64n - 1n, 0, year, '19392528866936565760', 1.9392528866936566e19],
  ])('of %i basis points shows %s of %i decimals at %s', (rate, amount, decimals, now, ...want) => {
    expect(shown(constant(rate), { amount, decimals, now })).toEqual(want)
  })

  it('is that of both rates when the rate was changed', () => {
    const data = interest({ start: 0n, average: 1_000, updated: year, rate: -500 })
    const now = 3n * year
    // 10 % for one year, then -5 % for two: nothing remains.
    expect(shown(data, { amount: 10n ** 9n, decimals: 9, now })).toEqual(['1', 1])
  })

  it('beyond the range of a double is infinite, and null as a number', () => {
    const data = interest({ start: 0n, average: 30_000, updated: 1_000n * year, rate: 30_000 })
    expect(shown(data, { amount: 1n, decimals: 2, now: 2_000n * year })).toEqual(['inf', null])
  })

  it('over a span that a validator cannot compute is empty', () => {
    const data = interest({ start: -max, average: 1, updated: max, rate: 1 })
    expect(shown(data, { amount: 1n, now: max })).toEqual(['', null])
  })
})

describe('a multiplier', () => {
  it('is the next one from its time on', () => {
    const data = scaled(5, 100n, 10)
    expect(shown(data, { amount: 3n, now: 99n })).toEqual(['15', 15])
    expect(shown(data, { amount: 3n, now: 100n })).toEqual(['30', 30])
  })

  it.each([
    [5, 10n ** 10n, 10, '5', 5],
    [1.1, 10n ** 9n, 9, '1.1', 1.1],
    // Truncated to a whole unit: 0.99 of the smallest one is none.
    [0.99, 1n, 2, '0', 0],
    [0.5, 3n, 2, '0.01', 0.01],
    [1e-300, 2n ** 64n - 1n, 9, '0', 0],
    [1e30, 10n ** 9n, 9, '1000000000000000160622113193984', 1.0000000000000002e30],
    [Number.MAX_VALUE, 2n ** 64n - 1n, 0, 'inf', null],
    [2, 5n, 200, `0.${'0'.repeat(198)}1`, 1e-199],
  ])('of %d shows %s of %i decimals', (multiplier, amount, decimals, ...want) => {
    expect(shown(scaled(multiplier, 0n, multiplier), { amount, decimals })).toEqual(want)
  })
})

describe('a mint', () => {
  const now = () => 0n

  it('without either extension, with one that is cut off, or without a clock is not scaled', () => {
    expect(scalingOf(mint(3, Buffer.alloc(32)), 0, now)).toBeNull()
    expect(scalingOf(mint(10, Buffer.alloc(51)), 0, now)).toBeNull()
    expect(scalingOf(mint(25, Buffer.alloc(56)).subarray(0, 200), 0, now)).toBeNull()
    expect(scalingOf(scaled(2, 0n, 2), 0, () => null)).toBeNull()
  })

  it('with more than 19 decimals has no amount as a number', () => {
    expect(uiTokenAmount(1n, 19).uiAmount).toBe(1e-19)
    expect(uiTokenAmount(1n, 20)).toMatchObject({
      uiAmount: null,
      uiAmountString: `0.${'0'.repeat(19)}1`,
    })
  })
})
