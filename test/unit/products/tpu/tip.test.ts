// The tip check on transactions built by kit: one reason for each kind of bad tip.
import { AccountRole, type Instruction } from '@solana/kit'
import { beforeAll, describe, expect, it } from 'vitest'
import { decodeKey } from '../../../../src/chain/solana/base58.ts'
import { TransactionLayout } from '../../../../src/chain/solana/transaction.ts'
import { minimumTipLamports, TipAccounts, TipCheck } from '../../../../src/products/tpu/tip.ts'
import {
  innerTransfer,
  newAddress,
  newPayer,
  sign,
  transfer,
  transferWithSeed,
} from '../../../testkit/tipped.ts'

const accounts = new TipAccounts(Array.from({ length: 8 }, newAddress))
const tipAccount = accounts.texts[5]!
const layout = new TransactionLayout()
const check = new TipCheck()
let payer: Awaited<ReturnType<typeof newPayer>>

beforeAll(async () => {
  payer = await newPayer()
})

async function look(...instructions: Instruction[]) {
  const bytes = await sign(payer, instructions)
  expect(layout.decode(bytes)).toBe('ok')
  const isGood = check.look(layout, bytes, accounts)
  return isGood
    ? { account: accounts.texts[check.account], lamports: check.lamports }
    : { reason: check.reason, lamports: check.lamports }
}

const tip = (lamports: bigint, more: object = {}) =>
  transfer({ from: payer, to: tipAccount, lamports, ...more })

describe('the tip', () => {
  it('is a System Program transfer of at least 1,000,000 lamports to a tip account', async () => {
    expect(minimumTipLamports).toBe(1_000_000)
    expect(await look(tip(1_000_000n))).toEqual({ account: tipAccount, lamports: 1_000_000 })
    const other = transfer({ from: payer, to: newAddress(), lamports: 9n })
    expect(await look(other, tip(2_500_000n, { extraData: 7 }), other)).toEqual({
      account: tipAccount,
      lamports: 2_500_000,
    })
  })

  it('is too low at 999,999, and two transfers are not added up', async () => {
    expect(await look(tip(999_999n))).toEqual({ reason: 'TIP_TOO_LOW', lamports: 999_999 })
    expect(await look(tip(500_000n), tip(600_000n), tip(400_000n))).toEqual({
      reason: 'TIP_TOO_LOW',
      lamports: 600_000,
    })
  })

  it('is missing without a transfer to a tip account', async () => {
    const elsewhere = transfer({ from: payer, to: newAddress(), lamports: 5_000_000n })
    expect(await look(elsewhere)).toEqual({ reason: 'TIP_MISSING', lamports: 0 })
    expect(await look()).toEqual({ reason: 'TIP_MISSING', lamports: 0 })
  })

  it('is a transfer from an address with a seed, too', async () => {
    const seeded = transferWithSeed(payer, tipAccount, 5_000_000n)
    expect(await look(seeded)).toEqual({ account: tipAccount, lamports: 5_000_000 })
    expect(await look(transferWithSeed(payer, tipAccount, 999_999n))).toEqual({
      reason: 'TIP_TOO_LOW',
      lamports: 999_999,
    })
    const none = { reason: 'TIP_MISSING', lamports: 0 }
    expect(await look(transferWithSeed(payer, newAddress(), 5_000_000n))).toEqual(none)
    const { accounts: [source, base, to] = [], data } = seeded
    expect(await look({ ...seeded, data: data!.slice(0, 51) } as never)).toEqual(none)
    expect(await look({ ...seeded, accounts: [source, to] } as never)).toEqual(none)
    const unsigned = { address: base!.address, role: AccountRole.READONLY }
    expect(
      await look({
        ...seeded,
        accounts: [source, { ...unsigned, address: newAddress() }, to],
      } as never),
    ).toEqual({
      reason: 'TIP_SOURCE_NOT_SIGNER',
      lamports: 5_000_000,
    })
  })

  it('is missing inside another call, or under another tag', async () => {
    const none = { reason: 'TIP_MISSING', lamports: 0 }
    expect(await look(innerTransfer(payer, tipAccount))).toEqual(none)
    const { data, ...rest } = tip(5_000_000n)
    for (const tag of [0, 3, 11, 258])
      expect(
        await look({
          ...rest,
          data: Uint8Array.of(tag & 255, tag >> 8, ...data!.slice(2)),
        } as never),
      ).toEqual(none)
    expect(await look({ ...rest, data: data!.slice(0, 11) } as never)).toEqual(none)
  })

  it('must go to a writable account', async () => {
    expect(await look(tip(5_000_000n, { isReadonly: true }))).toEqual({
      reason: 'TIP_ACCOUNT_NOT_WRITABLE',
      lamports: 5_000_000,
    })
  })

  it('must come from a signer', async () => {
    expect(await look(tip(5_000_000n, { from: newAddress() }))).toEqual({
      reason: 'TIP_SOURCE_NOT_SIGNER',
      lamports: 5_000_000,
    })
  })

  it('must not use an account of a lookup table', async () => {
    expect(await look(tip(5_000_000n, { table: newAddress() }))).toEqual({
      reason: 'TIP_VIA_LOOKUP_TABLE',
      lamports: 5_000_000,
    })
  })

  it('is judged by the candidate that passed most checks, and by the largest of those', async () => {
    const table = transfer({
      from: payer,
      to: newAddress(),
      lamports: 9_000_000n,
      table: newAddress(),
    })
    const to = accounts.texts[1]!
    const readonly = transfer({ from: payer, to, lamports: 8_000_000n, isReadonly: true })
    const unsigned = tip(7_000_000n, { from: newAddress() })
    expect(await look(table, readonly)).toEqual({
      reason: 'TIP_ACCOUNT_NOT_WRITABLE',
      lamports: 8_000_000,
    })
    expect(await look(unsigned, readonly, table)).toEqual({
      reason: 'TIP_SOURCE_NOT_SIGNER',
      lamports: 7_000_000,
    })
    expect(await look(tip(1n), unsigned, readonly, table, tip(2n))).toEqual({
      reason: 'TIP_TOO_LOW',
      lamports: 2,
    })
    expect(await look(tip(1n), unsigned, tip(1_000_000n), tip(3_000_000n))).toEqual({
      account: tipAccount,
      lamports: 3_000_000,
    })
  })

  it('may be as large as a u64', async () => {
    expect(await look(tip(2n ** 64n - 1n))).toEqual({ account: tipAccount, lamports: 2 ** 64 })
  })
})

describe('tip accounts', () => {
  it('are compared by all 32 bytes', () => {
    const bytes = Buffer.from([1, 2, ...decodeKey(tipAccount)!])
    expect(accounts.find(bytes, 2)).toBe(5)
    for (let at = 2; at < 34; at++) {
      const changed = Buffer.from(bytes)
      changed[at]! ^= 1
      expect(accounts.find(changed, 2)).toBe(-1)
    }
  })
})
