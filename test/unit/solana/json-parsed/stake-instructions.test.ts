import {
  Authorized,
  Lockup,
  STAKE_CONFIG_ID,
  StakeAuthorizationLayout,
  StakeProgram,
  SYSVAR_CLOCK_PUBKEY,
  SYSVAR_RENT_PUBKEY,
  SYSVAR_STAKE_HISTORY_PUBKEY,
} from '@solana/web3.js'
import { describe, expect, it } from 'vitest'
import { bytes, itShows, key, raw, shownText, u32 } from '../../../testkit/instruction-json.ts'

const stake = (accounts: number, tag: number, ...data: Parameters<typeof bytes>) =>
  raw(StakeProgram.programId, accounts, u32(tag), ...data)
const [stakePubkey, authorizedPubkey] = [key(1), key(2)]
const clockSysvar = SYSVAR_CLOCK_PUBKEY.toBase58()
const stakeHistorySysvar = SYSVAR_STAKE_HISTORY_PUBKEY.toBase58()
const rentSysvar = SYSVAR_RENT_PUBKEY.toBase58()
const { Staker, Withdrawer } = StakeAuthorizationLayout

describe('jsonParsed instructions of the stake program', () => {
  itShows('stake', [
    [
      StakeProgram.initialize({
        stakePubkey,
        authorized: new Authorized(key(2), key(3)),
        lockup: new Lockup(-5, 6, key(4)),
      }),
      {
        type: 'initialize',
        info: {
          stakeAccount: 'k1',
          rentSysvar,
          authorized: { staker: 'k2', withdrawer: 'k3' },
          lockup: { unixTimestamp: -5, epoch: 6, custodian: 'k4' },
        },
      },
    ],
    [
      StakeProgram.authorize({
        stakePubkey,
        authorizedPubkey,
        newAuthorizedPubkey: key(3),
        stakeAuthorizationType: Withdrawer,
        custodianPubkey: key(4),
      }).instructions[0]!,
      {
        type: 'authorize',
        accounts: 3,
        info: {
          stakeAccount: 'k1',
          clockSysvar,
          authority: 'k2',
          newAuthority: 'k3',
          authorityType: 'Withdrawer',
          custodian: 'k4',
        },
      },
    ],
    [
      StakeProgram.authorize({
        stakePubkey,
        authorizedPubkey,
        newAuthorizedPubkey: key(3),
        stakeAuthorizationType: Staker,
      }).instructions[0]!,
      {
        type: 'authorize',
        info: {
          stakeAccount: 'k1',
          clockSysvar,
          authority: 'k2',
          newAuthority: 'k3',
          authorityType: 'Staker',
        },
      },
    ],
    [
      StakeProgram.delegate({ stakePubkey, authorizedPubkey, votePubkey: key(3) }).instructions[0]!,
      {
        type: 'delegate',
        info: {
          stakeAccount: 'k1',
          voteAccount: 'k3',
          clockSysvar,
          stakeHistorySysvar,
          stakeConfigAccount: STAKE_CONFIG_ID.toBase58(),
          stakeAuthority: 'k2',
        },
      },
    ],
    [
      StakeProgram.split(
        { stakePubkey, authorizedPubkey, splitStakePubkey: key(3), lamports: 5 },
        0,
      ).instructions[1]!,
      {
        type: 'split',
        info: { stakeAccount: 'k1', newSplitAccount: 'k3', stakeAuthority: 'k2', lamports: 5 },
      },
    ],
    [
      StakeProgram.withdraw({
        stakePubkey,
        authorizedPubkey,
        toPubkey: key(3),
        lamports: 5,
        custodianPubkey: key(4),
      }).instructions[0]!,
      {
        type: 'withdraw',
        accounts: 5,
        info: {
          stakeAccount: 'k1',
          destination: 'k3',
          clockSysvar,
          stakeHistorySysvar,
          withdrawAuthority: 'k2',
          lamports: 5,
          custodian: 'k4',
        },
      },
    ],
    [
      StakeProgram.deactivate({ stakePubkey, authorizedPubkey }).instructions[0]!,
      { type: 'deactivate', info: { stakeAccount: 'k1', clockSysvar, stakeAuthority: 'k2' } },
    ],
    [
      stake(2, 6, 1, -5n, 1, 6n, 1, key(3)),
      {
        type: 'setLockup',
        info: {
          stakeAccount: 'k1',
          custodian: 'k2',
          lockup: { unixTimestamp: -5, epoch: 6, custodian: 'k3' },
        },
      },
    ],
    [
      stake(2, 6, 0, 0, 0),
      { type: 'setLockup', info: { stakeAccount: 'k1', custodian: 'k2', lockup: {} } },
    ],
    [
      StakeProgram.merge({ stakePubkey, sourceStakePubKey: key(3), authorizedPubkey })
        .instructions[0]!,
      {
        type: 'merge',
        info: {
          destination: 'k1',
          source: 'k3',
          clockSysvar,
          stakeHistorySysvar,
          stakeAuthority: 'k2',
        },
      },
    ],
    [
      StakeProgram.authorizeWithSeed({
        stakePubkey,
        authorityBase: key(2),
        authoritySeed: 'seed',
        authorityOwner: key(3),
        newAuthorizedPubkey: key(4),
        stakeAuthorizationType: Staker,
        custodianPubkey: key(5),
      }).instructions[0]!,
      {
        type: 'authorizeWithSeed',
        accounts: 2,
        info: {
          stakeAccount: 'k1',
          authorityBase: 'k2',
          newAuthorized: 'k4',
          authorityType: 'Staker',
          authoritySeed: 'seed',
          authorityOwner: 'k3',
          clockSysvar,
          custodian: 'k5',
        },
      },
    ],
    [
      stake(4, 9),
      {
        type: 'initializeChecked',
        info: { stakeAccount: 'k1', rentSysvar: 'k2', staker: 'k3', withdrawer: 'k4' },
      },
    ],
    [
      stake(5, 10, u32(1)),
      {
        type: 'authorizeChecked',
        accounts: 4,
        info: {
          stakeAccount: 'k1',
          clockSysvar: 'k2',
          authority: 'k3',
          newAuthority: 'k4',
          authorityType: 'Withdrawer',
          custodian: 'k5',
        },
      },
    ],
    [
      stake(5, 11, u32(0), 'seed', key(6)),
      {
        type: 'authorizeCheckedWithSeed',
        accounts: 4,
        info: {
          stakeAccount: 'k1',
          authorityBase: 'k2',
          clockSysvar: 'k3',
          newAuthorized: 'k4',
          authorityType: 'Staker',
          authoritySeed: 'seed',
          authorityOwner: 'k6',
          custodian: 'k5',
        },
      },
    ],
    [
      stake(3, 12, 1, 7n, 0),
      {
        type: 'setLockupChecked',
        accounts: 2,
        info: {
          stakeAccount: 'k1',
          custodian: 'k2',
          lockup: { unixTimestamp: 7, custodian: 'k3' },
        },
      },
    ],
    [stake(1, 13), { type: 'getMinimumDelegation' }],
    [
      stake(3, 14),
      {
        type: 'deactivateDelinquent',
        info: { stakeAccount: 'k1', voteAccount: 'k2', referenceVoteAccount: 'k3' },
      },
    ],
    [
      stake(5, 15),
      {
        type: 'redelegate',
        info: {
          stakeAccount: 'k1',
          newStakeAccount: 'k2',
          voteAccount: 'k3',
          stakeConfigAccount: 'k4',
          stakeAuthority: 'k5',
        },
      },
    ],
    [
      stake(3, 16, 5n),
      {
        type: 'moveStake',
        info: { source: 'k1', destination: 'k2', stakeAuthority: 'k3', lamports: 5 },
      },
    ],
    [
      stake(3, 17, 5n),
      {
        type: 'moveLamports',
        info: { source: 'k1', destination: 'k2', stakeAuthority: 'k3', lamports: 5 },
      },
    ],
  ])

  it('leaves values raw that a type does not have', () => {
    const isRaw = (instruction: ReturnType<typeof stake>) =>
      shownText(instruction).startsWith('{"accounts"')
    expect(isRaw(stake(5, 10, u32(2)))).toBe(true)
    expect(isRaw(stake(2, 6, 2, 0, 0))).toBe(true)
    expect(isRaw(stake(3, 18))).toBe(true)
    const invalidUtf8 = bytes(u32(0), 2n, 0xc3, 0x28, key(6))
    expect(isRaw(stake(5, 11, invalidUtf8))).toBe(true)
    expect(isRaw(stake(5, 11, u32(0), 2n ** 63n, key(6)))).toBe(true)
  })
})
