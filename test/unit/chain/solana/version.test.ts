// The table of what differs between versions of agave, row by row with the JSON of each version.
import { describe, expect, it } from 'vitest'
import { jsonText } from '../../../../src/base/json-text.ts'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import type { RewardContent } from '../../../../src/chain/solana/geyser-decode.ts'
import { parsedAccount } from '../../../../src/chain/solana/json-parsed/accounts.ts'
import { parsedInstruction } from '../../../../src/chain/solana/json-parsed/instructions.ts'
import {
  programs,
  stakeConfig,
  sysvarOwner,
  sysvars,
} from '../../../../src/chain/solana/programs.ts'
import { rewardsText } from '../../../../src/chain/solana/ui-transaction.ts'
import {
  type AgaveVersion,
  agaveVersions,
  lowestVersion,
  newestShapes,
  type Shapes,
  shapesByVersion,
  shapesOf,
} from '../../../../src/chain/solana/version.ts'

const key = (fill: number) => new Uint8Array(32).fill(fill)
const name = (fill: number) => encodeBase58(key(fill))
const u16 = (value: number) => Buffer.of(value, value >> 8)
const u32 = (value: number) => Buffer.of(value, value >> 8, 0, 0)
const u64 = (value: number | bigint) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}
const f64 = (value: number) => {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return bytes
}

/** What is shown from a version on, up to the next one given. */
type Since = Partial<Record<AgaveVersion, unknown>>

function expectSince(show: (shapes: Shapes) => unknown, since: Since): void {
  let expected: unknown
  for (const agave of agaveVersions) {
    expected = agave in since ? since[agave] : expected
    expect([agave, show(shapesByVersion[agave])]).toEqual([agave, expected])
  }
}

function account(owner: Uint8Array, parts: readonly Uint8Array[], pubkey: Uint8Array = key(9)) {
  return (shapes: Shapes) => {
    const parsed = parsedAccount({ pubkey, owner, data: Buffer.concat(parts) }, () => null, shapes)
    return parsed === null ? null : JSON.parse(jsonText(parsed)).parsed
  }
}

/** Its accounts are the keys 1, 2, 3…; null where it is shown unparsed. */
function instruction(program: Uint8Array, accounts: number, ...parts: Uint8Array[]) {
  const keys = [program, ...Array.from({ length: accounts }, (_, at) => key(at + 1))]
  const data = Buffer.concat(parts)
  const one = { programIdIndex: 0, accounts: Uint8Array.from(keys.keys()).slice(1), data }
  return (shapes: Shapes) =>
    JSON.parse(jsonText(parsedInstruction(one, keys, null, shapes))).parsed ?? null
}

const token = (accounts: number, ...parts: Uint8Array[]) =>
  instruction(programs.token2022, accounts, ...parts)

describe('the version of a node', () => {
  it('selects the shapes of its minor version, or the newest for a newer one', () => {
    const agaveOf = (version: string) => shapesOf(version)?.agave ?? null
    expect(['4.0.0', '4.0.3', '4.1.2', '4.2.0-rc.1', '4.3.0-beta.2'].map(agaveOf)).toEqual([
      '4.0',
      '4.0',
      '4.1',
      '4.2',
      '4.3',
    ])
    expect(['4.4.0-alpha.3', '4.10.0', '5.0.0'].map(agaveOf)).toEqual(['4.3', '4.3', '4.3'])
    expect(['', '3.1.8', '0.505.20216', 'unknown', '4'].map(agaveOf)).toEqual(Array(5).fill(null))
    expect(newestShapes).toBe(shapesByVersion['4.3'])
    expect(Object.values(shapesByVersion).map(({ release }) => release)).toEqual([
      { 'solana-core': '4.0.3', 'feature-set': 1118045235 },
      { 'solana-core': '4.1.2', 'feature-set': 2220189554 },
      { 'solana-core': '4.2.1', 'feature-set': 565236538 },
      { 'solana-core': '4.3.0-beta.2', 'feature-set': 2409014235 },
    ])
  })

  it('is compared by its numbers; unknown ones do not count', () => {
    expect(lowestVersion(['4.2.1', '', '4.1.9', '4.10.0'])).toBe('4.1.9')
    expect(lowestVersion(['4.2.1', '4.2.0-rc.1'])).toBe('4.2.0-rc.1')
    expect(lowestVersion(['4.3.0', '3.1.8'])).toBe('3.1.8')
    expect(lowestVersion(['', ''])).toBe('')
  })
})

describe('accounts', () => {
  it('of votes show a commission that is rounded up since 4.1', () => {
    const vote = (bps: number) =>
      account(programs.vote, [
        ...[u32(3), key(1), key(2), key(3), key(4), u16(bps), u16(0), u64(0), Buffer.of(0)],
        ...[u64(0), Buffer.of(0), u64(0), u64(0), u64(0), u64(0)],
      ])
    const commissionOf = (bps: number) => (shapes: Shapes) => vote(bps)(shapes).info.commission
    expectSince(commissionOf(725), { '4.0': 7, '4.1': 8 })
    expectSince(commissionOf(700), { '4.0': 7 })
    expectSince(commissionOf(30_000), { '4.0': 300 - 256, '4.1': 255 })
    expect(vote(725)(newestShapes).info.inflationRewardsCommissionBps).toBe(725)
  })

  it('of stakes show no warmupCooldownRate since 4.1', () => {
    const meta = [u64(5), key(1), key(2), u64(0), u64(0), key(0)]
    const delegation = [key(3), u64(7), u64(8), u64(9), f64(0.25)]
    const parts = [u32(2), ...meta, ...delegation, u64(10), Buffer.of(0)]
    const plain = { activationEpoch: '8', deactivationEpoch: '9', stake: '7', voter: name(3) }
    const shown = account(programs.stake, parts)
    const delegationOf = (shapes: Shapes) => shown(shapes).info.stake.delegation
    expectSince(delegationOf, { '4.0': { ...plain, warmupCooldownRate: 0.25 }, '4.1': plain })
  })

  it('of the stake config are not parsed since 4.1', () => {
    const shown = account(programs.config, [Buffer.of(0), f64(0.25), Buffer.of(12)], stakeConfig)
    const info = { slashPenalty: 12, warmupCooldownRate: 0.25 }
    expectSince(shown, { '4.0': { info, type: 'stakeConfig' }, '4.1': null })
  })

  it('of rent show lamports per byte alone since 4.1', () => {
    const shown = account(sysvarOwner, [u64(3_480), f64(2), Buffer.of(50)], sysvars.rent)
    const old = { burnPercent: 50, exemptionThreshold: 2, lamportsPerByteYear: '3480' }
    expectSince(shown, {
      '4.0': { info: old, type: 'rent' },
      '4.1': { info: { lamportsPerByte: '3480' }, type: 'rent' },
    })
  })

  it('of mints show permissioned burns since 4.2', () => {
    const mint = Buffer.alloc(166)
    mint.set([2, 1], 44)
    mint[165] = 1
    const shown = account(programs.token2022, [mint, u16(28), u16(32), key(4)])
    const extensionsOf = (shapes: Shapes) => shown(shapes).info.extensions
    const extension = 'permissionedBurnConfig'
    expectSince(extensionsOf, {
      '4.0': undefined,
      '4.2': [{ extension, state: { authority: name(4) } }],
    })
  })
})

describe('instructions', () => {
  it('of the upgradeable loader that migrate are not parsed since 4.1', () => {
    const { upgradeableLoader } = programs
    const accounts = { programAccount: name(2), programDataAccount: name(1) }
    expectSince(instruction(upgradeableLoader, 3, u32(8)), {
      '4.0': { info: { authority: name(3), ...accounts }, type: 'migrate' },
      '4.1': null,
    })
    expectSince(instruction(upgradeableLoader, 3, u32(9), u32(7)), {
      '4.0': {
        info: {
          additionalBytes: 7,
          authority: name(3),
          payerAccount: null,
          ...accounts,
          systemProgram: null,
        },
        type: 'extendProgramChecked',
      },
      '4.1': null,
    })
    expectSince((shapes) => instruction(upgradeableLoader, 3, u32(7))(shapes).type, {
      '4.0': 'setAuthorityChecked',
    })
  })

  it('initializeV2 of the vote program has the collectors as accounts since 4.1', () => {
    const [bls, proof] = [Buffer.alloc(48, 7), Buffer.alloc(96, 9)]
    const head = [u32(16), key(11), key(12), bls, proof, key(13), u16(500)]
    const shown = {
      authorizedVoter: name(12),
      authorizedWithdrawer: name(13),
      inflationRewardsCommissionBps: 500,
      node: name(2),
      voteAccount: name(1),
    }
    expectSince(instruction(programs.vote, 2, ...head, key(14), u16(600), key(15)), {
      '4.0': {
        info: {
          ...shown,
          blockRevenueCollector: name(15),
          blockRevenueCommissionBps: 600,
          inflationRewardsCollector: name(14),
        },
        type: 'initializeV2',
      },
      '4.1': null,
    })
    const later = instruction(programs.vote, 4, ...head, u16(600))
    expectSince(later, {
      '4.0': null,
      '4.1': {
        info: {
          ...shown,
          authorizedVoterBlsProofOfPossession: proof.toString('base64'),
          authorizedVoterBlsPubkey: bls.toString('base64'),
          blockRevenueCollector: name(4),
          blockRevenueCommissionBps: 600,
          inflationRewardsCollector: name(3),
        },
        type: 'initializeV2',
      },
    })
  })

  it('of the memo program of version 4 are parsed since 4.2', () => {
    expectSince(instruction(programs.memoV4, 0, Buffer.from('hi')), { '4.0': null, '4.2': 'hi' })
  })

  it('unwrapLamports is parsed since 4.2', () => {
    const accounts = { destination: name(2), source: name(1) }
    const some = token(3, Buffer.of(45, 1), u64(70))
    expectSince(some, {
      '4.0': null,
      '4.2': { info: { amount: '70', authority: name(3), ...accounts }, type: 'unwrapLamports' },
    })
    const all = token(4, Buffer.of(45, 0))
    expectSince(all, {
      '4.0': null,
      '4.2': {
        info: { ...accounts, multisigAuthority: name(3), signers: [name(4)] },
        type: 'unwrapLamports',
      },
    })
    expectSince(token(3, Buffer.of(45, 1, 0)), { '4.0': null })
  })

  it('name the authority and the extension of permissioned burns since 4.2', () => {
    const set = token(2, Buffer.of(6, 17, 0))
    expectSince((shapes) => set(shapes)?.info ?? null, {
      '4.0': null,
      '4.2': {
        authority: name(2),
        authorityType: 'permissionedBurn',
        mint: name(1),
        newAuthority: null,
      },
    })
    const sized = token(1, Buffer.of(21), u16(27), u16(28))
    expectSince((shapes) => sized(shapes)?.info.extensionTypes ?? null, {
      '4.0': null,
      '4.2': ['pausableAccount', 'permissionedBurn'],
    })
  })

  it('of permissioned burns are parsed since 4.2', () => {
    const burn = (tag: number) => Buffer.of(46, tag)
    expectSince(token(1, burn(0), key(5)), {
      '4.0': null,
      '4.2': {
        info: { authority: name(5), mint: name(1) },
        type: 'initializePermissionedBurnConfig',
      },
    })
    const accounts = {
      account: name(1),
      authority: name(4),
      mint: name(2),
      permissionedBurnAuthority: name(3),
    }
    expectSince(token(4, burn(1), u64(9)), {
      '4.0': null,
      '4.2': { info: { ...accounts, amount: '9' }, type: 'permissionedBurn' },
    })
    const tokenAmount = { amount: '9', decimals: 1, uiAmount: 0.9, uiAmountString: '0.9' }
    expectSince(token(4, burn(2), u64(9), Buffer.of(1)), {
      '4.0': null,
      '4.2': { info: { ...accounts, tokenAmount }, type: 'permissionedBurnChecked' },
    })
    expectSince(token(3, burn(1), u64(9)), { '4.0': null })
  })

  it('batch of the token programs is parsed since 4.2', () => {
    const transfer = Buffer.concat([Buffer.of(3), u64(5)])
    const burned = Buffer.concat([Buffer.of(8), u64(6)])
    const part = (accounts: number, data: Uint8Array) =>
      Buffer.concat([Buffer.of(accounts, data.length), data])
    const both = [part(3, transfer), part(3, burned)]
    const instructions = [
      {
        info: { amount: '5', authority: name(3), destination: name(2), source: name(1) },
        type: 'transfer',
      },
      {
        info: { account: name(4), amount: '6', authority: name(6), mint: name(5) },
        type: 'burn',
      },
    ]
    for (const program of [programs.token, programs.token2022])
      expectSince(instruction(program, 6, Buffer.of(255), ...both), {
        '4.0': null,
        '4.2': { info: { instructions }, type: 'batch' },
      })
    const empty = { info: { instructions: [] }, type: 'batch' }
    expectSince(token(1, Buffer.of(255)), { '4.0': null, '4.2': empty })
    const refused = [
      token(5, Buffer.of(255), ...both),
      token(6, Buffer.of(255), ...both, Buffer.of(0)),
      token(6, Buffer.of(255), part(3, transfer), Buffer.of(3, 9, 8)),
      token(6, Buffer.of(255), part(3, Buffer.of(255))),
      token(6, Buffer.of(255), part(0, transfer)),
      token(6, Buffer.of(255), part(3, Buffer.of(200))),
      token(0, Buffer.of(255)),
    ]
    for (const show of refused) expectSince(show, { '4.0': null })
  })

  it('of confidential deposits and withdrawals name account and mint since 4.2', () => {
    const deposit = [Buffer.of(27, 5), u64(42), Buffer.of(9)]
    const type = 'depositConfidentialTransfer'
    const rest = { amount: 42, decimals: 9 }
    expectSince(token(4, ...deposit), {
      '4.0': {
        info: { ...rest, destination: name(2), mint: name(3), owner: name(4), source: name(1) },
        type,
      },
      '4.2': {
        info: {
          ...rest,
          account: name(1),
          mint: name(2),
          multisigOwner: name(3),
          signers: [name(4)],
        },
        type,
      },
    })
    expectSince((shapes) => token(3, ...deposit)(shapes)?.info ?? null, {
      '4.0': null,
      '4.2': { ...rest, account: name(1), mint: name(2), owner: name(3) },
    })
  })
})

describe('proof accounts of confidential instructions', () => {
  const balance = Buffer.alloc(36)
  const newBalance = balance.toString('base64')
  const offsets = (...values: number[]) => Uint8Array.from(values, (value) => value & 0xff)

  it('of one proof are the context state alone since 4.3', () => {
    const empty = (offset: number, accounts: number) => (shapes: Shapes) =>
      token(accounts, Buffer.of(27, 4), offsets(offset))(shapes).info
    const account = { account: name(1), proofInstructionOffset: 0 }
    expectSince(empty(0, 3), {
      '4.0': { ...account, owner: name(3), proofContextStateAccount: name(2) },
    })
    const offset = { account: name(1), instructionsSysvar: name(2), proofInstructionOffset: 1 }
    expectSince(empty(1, 3), { '4.0': { ...offset, owner: name(3) } })
    expectSince(empty(1, 4), {
      '4.0': { ...offset, owner: name(4), recordAccount: name(3) },
      '4.3': { ...offset, multisigOwner: name(3), signers: [name(4)] },
    })
    const rotate = token(3, Buffer.of(42, 1), Buffer.alloc(32), offsets(0))
    const shared = {
      mint: name(1),
      newSupplyElGamalPubkey: Buffer.alloc(32).toString('base64'),
      owner: name(3),
      proofInstructionOffset: 0,
    }
    expectSince((shapes) => rotate(shapes).info, {
      '4.0': { ...shared, proofAccount: name(2) },
      '4.3': { ...shared, proofContextStateAccount: name(2) },
    })
  })

  it('of withheld fees are the context state alone since 4.3', () => {
    const [sources, head] = [2, [Buffer.of(37, 2)]]
    const shown = token(7, ...head, Buffer.of(sources), offsets(1), balance)
    const shared = {
      feeRecipient: name(2),
      instructionsSysvar: name(3),
      mint: name(1),
      newDecryptableAvailableBalance: newBalance,
      proofInstructionOffset: 1,
      sourceAccounts: [name(6), name(7)],
    }
    expectSince((shapes) => shown(shapes).info, {
      '4.0': { ...shared, proofAccount: name(4), withdrawWithheldAuthority: name(5) },
      '4.3': { ...shared, multisigWithdrawWithheldAuthority: name(4), signers: [name(5)] },
    })
  })

  it('of several proofs are those that are in an account since 4.3', () => {
    const withdraw = (...proofs: [number, number]) =>
      [Buffer.of(27, 6), u64(1), Buffer.of(2), balance, offsets(...proofs)] as const
    const shared = {
      account: name(1),
      amount: 1,
      decimals: 2,
      equalityProofInstructionOffset: 1,
      mint: name(2),
      newDecryptableAvailableBalance: newBalance,
      rangeProofInstructionOffset: 0,
    }
    const show = (shapes: Shapes) => token(6, ...withdraw(1, 0))(shapes).info
    expect(show(shapesByVersion['4.2'])).toEqual({
      ...shared,
      equalityProofRecordAccount: name(4),
      instructionsSysvar: name(3),
      owner: name(6),
      rangeProofContextStateAccount: name(5),
    })
    expect(show(shapesByVersion['4.3'])).toEqual({
      ...shared,
      instructionsSysvar: name(3),
      multisigOwner: name(5),
      rangeProofContextStateAccount: name(4),
      signers: [name(6)],
    })
  })

  it('of a transfer with a fee come in another order since 4.3', () => {
    const data = [Buffer.of(27, 13), balance, Buffer.alloc(128), offsets(0, 0, 0, 0, 0)]
    const contextsOf = (shapes: Shapes) =>
      Object.entries(token(9, ...data)(shapes).info)
        .filter(([member]) => member.endsWith('ContextStateAccount'))
        .sort(([, a], [, b]) => String(a).localeCompare(String(b)))
        .map(([member]) => member.replace('ContextStateAccount', ''))
    const [sigma, validity] = ['feeSigmaProof', 'feeCiphertextValidityProof']
    const first = ['equalityProof', 'transferAmountCiphertextValidityProof']
    expectSince(contextsOf, {
      '4.0': [...first, validity, sigma, 'rangeProof'],
      '4.3': [...first, sigma, validity, 'rangeProof'],
    })
  })

  it('of a permissioned burn are before two other accounts', () => {
    const burn = (accounts: number, ...proofs: [number, number, number]) =>
      token(accounts, Buffer.of(46, 3), balance, Buffer.alloc(128), offsets(...proofs))
    const shared = {
      account: name(1),
      ciphertextValidityProofInstructionOffset: 0,
      equalityProofInstructionOffset: 0,
      mint: name(2),
      newDecryptableAvailableBalance: newBalance,
      rangeProofInstructionOffset: 0,
    }
    const type = 'permissionedConfidentialBurn'
    expectSince(burn(7, 0, 0, 0), {
      '4.0': null,
      '4.2': {
        info: {
          ...shared,
          authority: name(7),
          ciphertextValidityProofContextStateAccount: name(4),
          equalityProofContextStateAccount: name(3),
          permissionedBurnAuthority: name(6),
          rangeProofContextStateAccount: name(5),
        },
        type,
      },
    })
    expectSince((shapes) => burn(6, 1, 0, 1)(shapes)?.info.permissionedBurnAuthority ?? null, {
      '4.0': null,
      '4.2': name(5),
    })
    expectSince(burn(3, 0, 0, 0), { '4.0': null })
  })
})

describe('rewards', () => {
  const reward: RewardContent = {
    pubkey: 'x',
    lamports: 5n,
    postBalance: 7n,
    rewardType: 3,
    commission: '',
    commissionBps: '',
  }
  const shown = (changes: Partial<RewardContent>, isSorted = false) =>
    rewardsText([{ ...reward, ...changes }], { isSorted })

  it('show a type without a name by its number', () => {
    const typeOf = (rewardType: number) => JSON.parse(shown({ rewardType }))[0].rewardType
    expect([0, 1, 2, 3, 4, 5, 6, 7].map(typeOf)).toEqual([
      null,
      'Fee',
      'Rent',
      'Staking',
      'Voting',
      'DeactivatedStake',
      6,
      7,
    ])
  })

  it('show a commission in basis points where a node gives one', () => {
    expect(shown({})).toBe(
      '[{"pubkey":"x","lamports":5,"postBalance":7,"rewardType":"Staking","commission":null}]',
    )
    expect(shown({ commission: '8', commissionBps: '725' }, true)).toBe(
      '[{"commission":8,"commissionBps":725,"lamports":5,"postBalance":7,"pubkey":"x",' +
        '"rewardType":"Staking"}]',
    )
  })
})
