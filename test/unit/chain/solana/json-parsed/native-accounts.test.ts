// Accounts of native programs and sysvars: exact bytes in, the validator's JSON out.
import { describe, expect, it } from 'vitest'
import { jsonText } from '../../../../../src/base/json-text.ts'
import { encodeBase58 } from '../../../../../src/chain/solana/base58.ts'
import { parsedAccount } from '../../../../../src/chain/solana/json-parsed/accounts.ts'
import {
  programs,
  stakeConfig,
  sysvarOwner,
  sysvars,
  validatorInfo,
} from '../../../../../src/chain/solana/programs.ts'
import { oldestShapes } from '../../../../../src/chain/solana/version.ts'

const key = (fill: number) => Buffer.alloc(32, fill)
const [a, b, c, d] = [1, 2, 3, 4].map((fill) => encodeBase58(key(fill)))
const u32 = (value: number) => Buffer.of(value, value >> 8, value >> 16, value >> 24)
const u64 = (value: number | bigint) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64LE(BigInt.asIntN(64, BigInt(value)))
  return bytes
}
const f64 = (value: number) => {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return bytes
}

function shown(owner: Uint8Array, parts: Uint8Array[], pubkey: Uint8Array = key(9)) {
  const parsed = parsedAccount(
    { pubkey, owner, data: Buffer.concat(parts) },
    () => null,
    oldestShapes,
  )
  return parsed === null ? null : JSON.parse(jsonText(parsed)).parsed
}

/** The account is shown, and no longer when a byte is missing. */
function expectExactly(owner: Uint8Array, parts: Uint8Array[], want: unknown, pubkey?: Uint8Array) {
  expect(shown(owner, parts, pubkey)).toEqual(want)
  expect(shown(owner, [Buffer.concat(parts).subarray(0, -1)], pubkey)).toBeNull()
}

describe('a vote account', () => {
  const head = [key(1), key(2)]
  const middle = [Buffer.of(1), u64(77), u64(1), u64(5), key(3)]
  const end = [u64(1), u64(5), u64(900), u64(800), u64(78), u64(-9)]
  const prior = Buffer.alloc(32 * 48 + 9)
  const common = {
    nodePubkey: a,
    authorizedWithdrawer: b,
    rootSlot: 77,
    authorizedVoters: [{ epoch: 5, authorizedVoter: c }],
    priorVoters: [],
    epochCredits: [{ epoch: 5, credits: '900', previousCredits: '800' }],
    lastTimestamp: { slot: 78, timestamp: -9 },
  }
  const asNewest = {
    commission: 7,
    inflationRewardsCommissionBps: 700,
    inflationRewardsCollector: encodeBase58(key(9)),
    blockRevenueCollector: a,
    blockRevenueCommissionBps: 10_000,
    pendingDelegatorRewards: '0',
    blsPubkeyCompressed: null,
  }

  it('of version 1 has votes without latency', () => {
    const votes = [u64(1), u64(80), u32(31)]
    const parts = [u32(1), ...head, Buffer.of(7), ...votes, ...middle, prior, ...end]
    const info = {
      ...common,
      ...asNewest,
      votes: [{ latency: 0, slot: 80, confirmationCount: 31 }],
    }
    expectExactly(programs.vote, parts, { type: 'vote', info })
  })

  it('of version 3 has votes with latency', () => {
    const votes = [u64(2), Buffer.of(1), u64(80), u32(2), Buffer.of(3), u64(81), u32(1)]
    const parts = [u32(2), ...head, Buffer.of(7), ...votes, ...middle, prior, ...end]
    const info = {
      ...common,
      ...asNewest,
      votes: [
        { latency: 1, slot: 80, confirmationCount: 2 },
        { latency: 3, slot: 81, confirmationCount: 1 },
      ],
    }
    expectExactly(programs.vote, parts, { type: 'vote', info })
  })

  it('of version 4 has collectors and commissions of its own', () => {
    const bls = Buffer.alloc(48, 6)
    const own = [key(3), key(4), Buffer.of(0xf4, 0x01, 0x10, 0x27), u64(2n ** 64n - 1n)]
    const option = Buffer.of(0)
    const voters = [u64(0)]
    const parts = [u32(3), ...head, ...own, Buffer.of(1), bls, u64(0), option, ...voters, ...end]
    const info = {
      ...common,
      commission: 5,
      inflationRewardsCollector: c,
      blockRevenueCollector: d,
      inflationRewardsCommissionBps: 500,
      blockRevenueCommissionBps: 10_000,
      pendingDelegatorRewards: '18446744073709551615',
      blsPubkeyCompressed: encodeBase58(bls),
      votes: [],
      rootSlot: null,
      authorizedVoters: [],
    }
    expectExactly(programs.vote, parts, { type: 'vote', info })
  })

  it('of an unknown version, or with more votes than bytes, is not shown', () => {
    const rest = [...head, Buffer.of(7), u64(2n ** 63n), ...middle, prior, ...end]
    for (const version of [0, 1, 2, 4])
      expect(shown(programs.vote, [u32(version), ...rest])).toBeNull()
  })
})

describe('an account of the config program', () => {
  it('is the stake config at its address', () => {
    const parts = [Buffer.of(0), f64(0.25), Buffer.of(12)]
    const info = { warmupCooldownRate: 0.25, slashPenalty: 12 }
    expectExactly(programs.config, parts, { type: 'stakeConfig', info }, stakeConfig)
    expect(shown(programs.config, parts)).toBeNull()
  })

  it('is the info of a validator when its first key says so', () => {
    const json = Buffer.from('{"name":"a","details":[1,null]}')
    const keys = [Buffer.of(2), validatorInfo, Buffer.of(0), key(1), Buffer.of(1)]
    const parts = [...keys, u64(json.length), json]
    const info = {
      keys: [
        { pubkey: encodeBase58(validatorInfo), signer: false },
        { pubkey: a, signer: true },
      ],
      configData: { name: 'a', details: [1, null] },
    }
    expectExactly(programs.config, parts, { type: 'validatorInfo', info })
    expect(shown(programs.config, [...parts, Buffer.alloc(50)])).not.toBeNull()
    expect(shown(programs.config, [...keys, u64(4), Buffer.from('{"a"')])).toBeNull()
    expect(
      shown(programs.config, [Buffer.of(1), key(1), Buffer.of(0), u64(2), Buffer.from('{}')]),
    ).toBeNull()
    expect(shown(programs.config, [Buffer.of(0), u64(2), Buffer.from('{}')])).toBeNull()
  })

  it('may have more than 127 keys', () => {
    const keys = Array.from({ length: 130 }, () => Buffer.concat([validatorInfo, Buffer.of(0)]))
    const parsed = shown(programs.config, [Buffer.of(0x82, 1), ...keys, u64(2), Buffer.from('[]')])
    expect([parsed.info.keys.length, parsed.info.configData]).toEqual([130, []])
  })
})

describe('a sysvar', () => {
  it.each<[keyof typeof sysvars, Uint8Array[], unknown]>([
    ['fees', [u64(5_000)], { feeCalculator: { lamportsPerSignature: '5000' } }],
    ['rewards', [f64(0.5), f64(9)], { validatorPointValue: 0.5 }],
    [
      'rent',
      [u64(3_480), f64(2), Buffer.of(50)],
      { lamportsPerByteYear: '3480', exemptionThreshold: 2, burnPercent: 50 },
    ],
    [
      'epochSchedule',
      [u64(432_000), u64(4), Buffer.of(1), u64(14), u64(524_256)],
      {
        slotsPerEpoch: 432_000,
        leaderScheduleSlotOffset: 4,
        warmup: true,
        firstNormalEpoch: 14,
        firstNormalSlot: 524_256,
      },
    ],
    ['lastRestartSlot', [u64(6)], { lastRestartSlot: 6 }],
    ['slotHashes', [u64(1), u64(8), key(1)], [{ slot: 8, hash: a }]],
    [
      'recentBlockhashes',
      [u64(1), key(2), u64(10)],
      [{ blockhash: b, feeCalculator: { lamportsPerSignature: '10' } }],
    ],
    [
      'stakeHistory',
      [u64(2), u64(3), u64(30), u64(20), u64(10), u64(2), u64(0), u64(0), u64(0)],
      [
        { epoch: 3, stakeHistory: { effective: 30, activating: 20, deactivating: 10 } },
        { epoch: 2, stakeHistory: { effective: 0, activating: 0, deactivating: 0 } },
      ],
    ],
    [
      'epochRewards',
      [u64(42), u64(2), key(1), u64(5), u64(1), u64(100), u64(20), Buffer.of(1)],
      {
        distributionStartingBlockHeight: 42,
        numPartitions: 2,
        parentBlockhash: a,
        totalPoints: '18446744073709551621',
        totalRewards: '100',
        distributedRewards: '20',
        active: true,
      },
    ],
  ])('%s is shown', (type, parts, info) => {
    expectExactly(sysvarOwner, parts, { type, info }, sysvars[type])
  })

  it('slotHistory is shown with one character per slot', () => {
    const words = Buffer.alloc(131_072)
    words[0] = 0b101
    words[131_071] = 0x80
    const parts = [Buffer.of(1), u64(16_384), words, u64(1_048_576), u64(1_048_577)]
    const bits = `101${'0'.repeat(1_048_572)}1`
    const want = { type: 'slotHistory', info: { bits, nextSlot: 1_048_577 } }
    expectExactly(sysvarOwner, parts, want, sysvars.slotHistory)
    const short = [Buffer.of(1), u64(1), u64(1), u64(64), u64(1)]
    expect(shown(sysvarOwner, short, sysvars.slotHistory)).toBeNull()
    const endless = [Buffer.of(1), u64(2n ** 61n), words, u64(1_048_576), u64(1)]
    expect(shown(sysvarOwner, endless, sysvars.slotHistory)).toBeNull()
  })

  it('with a flag that is neither 0 nor 1, or at another address, is not shown', () => {
    const schedule = [u64(1), u64(1), Buffer.of(2), u64(0), u64(0)]
    expect(shown(sysvarOwner, schedule, sysvars.epochSchedule)).toBeNull()
    expect(shown(sysvarOwner, [u64(6)], sysvars.instructions)).toBeNull()
  })
})

describe('an account of another native program', () => {
  it('has no info in a state without members', () => {
    expect(shown(programs.stake, [u32(0)])).toEqual({ type: 'uninitialized' })
    expect(shown(programs.stake, [u32(3)])).toEqual({ type: 'rewardsPool' })
    expect(shown(programs.upgradeableLoader, [u32(0)])).toEqual({ type: 'uninitialized' })
    expect(shown(programs.addressLookupTable, [u32(0)])).toEqual({ type: 'uninitialized' })
    for (const owner of [programs.stake, programs.upgradeableLoader]) {
      expect(shown(owner, [u32(4)])).toBeNull()
      expect(shown(owner, [u32(0).subarray(0, 3)])).toBeNull()
    }
  })

  it('is a delegated stake with its flags', () => {
    const meta = [u64(9), key(1), key(2), u64(-1), u64(4), key(3)]
    const stake = [key(4), u64(20), u64(2), u64(2n ** 64n - 1n), f64(0.25), u64(10)]
    const want = {
      type: 'delegated',
      info: {
        meta: {
          authorized: { staker: a, withdrawer: b },
          lockup: { unixTimestamp: -1, epoch: 4, custodian: c },
          rentExemptReserve: '9',
        },
        stake: {
          creditsObserved: 10,
          delegation: {
            voter: d,
            stake: '20',
            activationEpoch: '2',
            deactivationEpoch: '18446744073709551615',
            warmupCooldownRate: 0.25,
          },
        },
      },
    }
    expectExactly(programs.stake, [u32(2), ...meta, ...stake, Buffer.of(0)], want)
  })

  it('is a program, its data or a buffer; the data follows an absent authority at once', () => {
    const loader = programs.upgradeableLoader
    const code = Buffer.from('code')
    const data = [code.toString('base64'), 'base64']
    expectExactly(loader, [u32(2), key(1)], { type: 'program', info: { programData: a } })
    expect(shown(loader, [u32(1), Buffer.of(1), key(1), code])).toEqual({
      type: 'buffer',
      info: { authority: a, data },
    })
    expect(shown(loader, [u32(1), Buffer.of(0), code]).info).toEqual({ authority: null, data })
    expect(shown(loader, [u32(3), u64(8), Buffer.of(1), key(1), code])).toEqual({
      type: 'programData',
      info: { authority: a, data, slot: 8 },
    })
    const info = { authority: null, data, slot: 8 }
    expect(shown(loader, [u32(3), u64(8), Buffer.of(0), code]).info).toEqual(info)
    expect(shown(loader, [u32(3), u64(8), Buffer.of(2), code])).toBeNull()
    expect(shown(loader, [u32(1), Buffer.of(1), key(1).subarray(1)])).toBeNull()
  })

  it('is a nonce also with bytes after it, but only an initialized one', () => {
    const nonce = [u32(0), u32(1), key(1), key(2), u64(5_000)]
    const info = { authority: a, blockhash: b, feeCalculator: { lamportsPerSignature: '5000' } }
    expectExactly(programs.system, nonce, { type: 'initialized', info })
    expect(shown(programs.system, [...nonce, key(0)])?.type).toBe('initialized')
    expect(shown(programs.system, [u32(1), u32(0), Buffer.alloc(72)])).toBeNull()
    expect(shown(programs.system, [])).toBeNull()
  })

  it('is a lookup table without authority, which is left out', () => {
    const head = [u32(1), u64(-1), u64(7), Buffer.of(2, 0), Buffer.alloc(34)]
    const info = {
      addresses: [c],
      deactivationSlot: '18446744073709551615',
      lastExtendedSlot: '7',
      lastExtendedSlotStartIndex: 2,
    }
    const want = { type: 'lookupTable', info }
    expectExactly(programs.addressLookupTable, [...head, key(3)], want)
  })
})
