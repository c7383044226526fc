import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../../../../src/chain/solana/base58.ts'
import { parsedAccount } from '../../../../../src/chain/solana/json-parsed/accounts.ts'
import type {
  ParsedAccount,
  ReadAccount,
} from '../../../../../src/chain/solana/json-parsed/parsed.ts'
import { programs, sysvarOwner, sysvars } from '../../../../../src/chain/solana/programs.ts'
import { oldestShapes } from '../../../../../src/chain/solana/version.ts'

const pubkey = randomBytes(32)
const [a, b, c] = [randomBytes(32), randomBytes(32), randomBytes(32)]
const text = encodeBase58
const nothing = () => null
const shown = (account: ParsedAccount, read: ReadAccount) =>
  parsedAccount(account, read, oldestShapes)

function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

const option = (key: Uint8Array | null) =>
  Buffer.concat([u32(key === null ? 0 : 1), key ?? Buffer.alloc(32)])

const mintData = Buffer.concat([option(a), u64(5_000n), Uint8Array.of(2, 1), option(null)])
const mint = { owner: programs.token, data: mintData }

function tokenData(amount: bigint): Buffer {
  return Buffer.concat([
    b,
    c,
    u64(amount),
    option(a),
    Uint8Array.of(2),
    u32(0),
    u64(0n),
    u64(9n),
    option(null),
  ])
}

describe('jsonParsed accounts', () => {
  it('shows a mint', () => {
    expect(shown({ pubkey, ...mint }, nothing)).toEqual({
      program: 'spl-token',
      space: 82,
      parsed: {
        type: 'mint',
        info: {
          decimals: 2,
          extensions: undefined,
          freezeAuthority: null,
          isInitialized: true,
          mintAuthority: text(a),
          supply: '5000',
        },
      },
    })
  })

  it('shows a token account with the decimals of its mint', () => {
    const account = { pubkey, owner: programs.token, data: tokenData(250n) }
    const parsed = shown(account, () => mint)
    expect(parsed).toMatchObject({
      parsed: {
        type: 'account',
        info: {
          delegate: text(a),
          delegatedAmount: { amount: '9' },
          isNative: false,
          mint: text(b),
          owner: text(c),
          state: 'frozen',
          tokenAmount: { amount: '250', uiAmountString: '2.5' },
        },
      },
    })
    expect(shown(account, nothing)).toBeNull()
  })

  it.each([
    ['a state above frozen', 108, 3],
    ['an option that is neither 0 nor 1', 72, 2],
  ])('does not show a token account with %s', (_, at, byte) => {
    const data = tokenData(1n)
    data[at] = byte
    expect(shown({ pubkey, owner: programs.token, data }, () => mint)).toBeNull()
  })

  it('shows a mint of Token-2022 only when all bytes up to its kind are 0', () => {
    const data = Buffer.concat([mintData, Buffer.alloc(83), Uint8Array.of(1)])
    const account = { pubkey, owner: programs.token2022, data }
    expect(shown(account, nothing)?.parsed.type).toBe('mint')
    data[100] = 1
    expect(shown(account, nothing)).toBeNull()
  })

  it('shows the signers of a multisig that are set, however many are valid', () => {
    const data = Buffer.alloc(355)
    data.set([1, 9, 1])
    data.set(a, 3)
    data.set(c, 3 + 32 * 10)
    expect(shown({ pubkey, owner: programs.token, data }, nothing)?.parsed).toEqual({
      type: 'multisig',
      info: {
        isInitialized: true,
        numRequiredSigners: 1,
        numValidSigners: 9,
        signers: [text(a), text(c)],
      },
    })
  })

  it('shows amounts with the interest of the mint up to the time of the clock', () => {
    const clock = Buffer.alloc(40)
    clock.writeBigInt64LE(31_556_736n, 32)
    const extended = Buffer.alloc(170 + 52)
    extended.set(mintData)
    extended.set([1, 10, 0, 52, 0], 165)
    extended.writeInt16LE(500, 170 + 50)
    const read = (key: Uint8Array) =>
      key === sysvars.clock
        ? { owner: sysvarOwner, data: clock }
        : { owner: programs.token2022, data: extended }
    const account = { pubkey, owner: programs.token2022, data: tokenData(10_000n) }
    expect(shown(account, read)?.parsed.info).toMatchObject({
      delegatedAmount: { amount: '9', uiAmount: 0.09, uiAmountString: '0.09' },
      tokenAmount: { amount: '10000', decimals: 2, uiAmount: 105.13, uiAmountString: '105.13' },
    })
  })

  it('shows a nonce, a lookup table, a stake and the clock', () => {
    const nonce = Buffer.concat([u32(1), u32(1), a, b, u64(5000n)])
    expect(shown({ pubkey, owner: programs.system, data: nonce }, nothing)?.parsed).toEqual({
      type: 'initialized',
      info: {
        authority: text(a),
        blockhash: text(b),
        feeCalculator: { lamportsPerSignature: '5000' },
      },
    })
    const head = [u32(1), u64(2n ** 64n - 1n), u64(7n), Uint8Array.of(0, 1), a, Buffer.alloc(2)]
    const table = Buffer.concat([...head, b, c])
    expect(
      shown({ pubkey, owner: programs.addressLookupTable, data: table }, nothing)?.parsed,
    ).toEqual({
      type: 'lookupTable',
      info: {
        addresses: [text(b), text(c)],
        authority: text(a),
        deactivationSlot: '18446744073709551615',
        lastExtendedSlot: '7',
        lastExtendedSlotStartIndex: 0,
      },
    })
    const stake = Buffer.concat([u32(1), u64(9n), a, b, u64(0n), u64(3n), c, Buffer.alloc(80)])
    expect(shown({ pubkey, owner: programs.stake, data: stake }, nothing)?.parsed).toEqual({
      type: 'initialized',
      info: {
        meta: {
          authorized: { staker: text(a), withdrawer: text(b) },
          lockup: { custodian: text(c), epoch: 3n, unixTimestamp: 0n },
          rentExemptReserve: '9',
        },
        stake: null,
      },
    })
    const clock = Buffer.concat([u64(4n), u64(5n), u64(6n), u64(7n), u64(8n)])
    const account = { pubkey: sysvars.clock, owner: sysvarOwner, data: clock }
    expect(shown(account, nothing)?.parsed.info).toEqual({
      epoch: 6n,
      epochStartTimestamp: 5n,
      leaderScheduleEpoch: 7n,
      slot: 4n,
      unixTimestamp: 8n,
    })
  })

  it('returns null for unknown data, and never throws on noise', () => {
    expect(shown({ pubkey, owner: randomBytes(32), data: mintData }, nothing)).toBeNull()
    const owners = [...Object.values(programs), sysvarOwner]
    for (let round = 0; round < 2_000; round++) {
      const owner = owners[round % owners.length]!
      const data = randomBytes(round % 400)
      const known = Object.values(sysvars)
      const key = known[round % known.length]!
      expect(() => shown({ pubkey: key, owner, data }, () => mint)).not.toThrow()
    }
  })
})
