import { Authorized, Lockup, StakeAuthorizationLayout, StakeProgram } from '@solana/web3.js'
import { describe, expect, it } from 'vitest'
import { bytes, itShows, key, raw, shownText, u32 } from '../../../../testkit/instruction-json.ts'

const stake = (accounts: number, tag: number, ...data: Parameters<typeof bytes>) =>
  raw(StakeProgram.programId, accounts, u32(tag), ...data)
const [stakePubkey, authorizedPubkey] = [key(1), key(2)]
const { Staker, Withdrawer } = StakeAuthorizationLayout

describe('jsonParsed instructions of the stake program', () => {
  itShows('stake', [
    [
      StakeProgram.initialize({
        stakePubkey,
        authorized: new Authorized(key(2), key(3)),
        lockup: new Lockup(-5, 6, key(4)),
      }),
      'initialize',
      `{authorized:{staker:k2,withdrawer:k3},lockup:{custodian:k4,epoch:6,
        unixTimestamp:-5},rentSysvar:rent,stakeAccount:k1}`,
    ],
    [
      StakeProgram.authorize({
        stakePubkey,
        authorizedPubkey,
        newAuthorizedPubkey: key(3),
        stakeAuthorizationType: Withdrawer,
        custodianPubkey: key(4),
      }).instructions[0]!,
      'authorize',
      `{authority:k2,authorityType:Withdrawer,clockSysvar:clock,custodian:k4,
        newAuthority:k3,stakeAccount:k1}`,
      { accounts: 3 },
    ],
    [
      StakeProgram.authorize({
        stakePubkey,
        authorizedPubkey,
        newAuthorizedPubkey: key(3),
        stakeAuthorizationType: Staker,
      }).instructions[0]!,
      'authorize',
      '{authority:k2,authorityType:Staker,clockSysvar:clock,newAuthority:k3,stakeAccount:k1}',
    ],
    [
      StakeProgram.delegate({ stakePubkey, authorizedPubkey, votePubkey: key(3) }).instructions[0]!,
      'delegate',
      `{clockSysvar:clock,stakeAccount:k1,stakeAuthority:k2,stakeConfigAccount:stakeConfig,
        stakeHistorySysvar:stakeHistory,voteAccount:k3}`,
    ],
    [
      StakeProgram.split(
        { stakePubkey, authorizedPubkey, splitStakePubkey: key(3), lamports: 5 },
        0,
      ).instructions[1]!,
      'split',
      '{lamports:5,newSplitAccount:k3,stakeAccount:k1,stakeAuthority:k2}',
    ],
    [
      StakeProgram.withdraw({
        stakePubkey,
        authorizedPubkey,
        toPubkey: key(3),
        lamports: 5,
        custodianPubkey: key(4),
      }).instructions[0]!,
      'withdraw',
      `{clockSysvar:clock,custodian:k4,destination:k3,lamports:5,stakeAccount:k1,
        stakeHistorySysvar:stakeHistory,withdrawAuthority:k2}`,
      { accounts: 5 },
    ],
    [
      StakeProgram.deactivate({ stakePubkey, authorizedPubkey }).instructions[0]!,
      'deactivate',
      '{clockSysvar:clock,stakeAccount:k1,stakeAuthority:k2}',
    ],
    [
      stake(2, 6, 1, -5n, 1, 6n, 1, key(3)),
      'setLockup',
      '{custodian:k2,lockup:{custodian:k3,epoch:6,unixTimestamp:-5},stakeAccount:k1}',
    ],
    [stake(2, 6, 0, 0, 0), 'setLockup', '{custodian:k2,lockup:{},stakeAccount:k1}'],
    [
      StakeProgram.merge({ stakePubkey, sourceStakePubKey: key(3), authorizedPubkey })
        .instructions[0]!,
      'merge',
      `{clockSysvar:clock,destination:k1,source:k3,stakeAuthority:k2,
        stakeHistorySysvar:stakeHistory}`,
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
      'authorizeWithSeed',
      `{authorityBase:k2,authorityOwner:k3,authoritySeed:seed,authorityType:Staker,
        clockSysvar:clock,custodian:k5,newAuthorized:k4,stakeAccount:k1}`,
      { accounts: 2 },
    ],
    [stake(4, 9), 'initializeChecked', '{rentSysvar:k2,stakeAccount:k1,staker:k3,withdrawer:k4}'],
    [
      stake(5, 10, u32(1)),
      'authorizeChecked',
      `{authority:k3,authorityType:Withdrawer,clockSysvar:k2,custodian:k5,newAuthority:k4,
        stakeAccount:k1}`,
      { accounts: 4 },
    ],
    [
      stake(5, 11, u32(0), 'seed', key(6)),
      'authorizeCheckedWithSeed',
      `{authorityBase:k2,authorityOwner:k6,authoritySeed:seed,authorityType:Staker,
        clockSysvar:k3,custodian:k5,newAuthorized:k4,stakeAccount:k1}`,
      { accounts: 4 },
    ],
    [
      stake(3, 12, 1, 7n, 0),
      'setLockupChecked',
      '{custodian:k2,lockup:{custodian:k3,unixTimestamp:7},stakeAccount:k1}',
      { accounts: 2 },
    ],
    [stake(1, 13), 'getMinimumDelegation', null],
    [
      stake(3, 14),
      'deactivateDelinquent',
      '{referenceVoteAccount:k3,stakeAccount:k1,voteAccount:k2}',
    ],
    [
      stake(5, 15),
      'redelegate',
      `{newStakeAccount:k2,stakeAccount:k1,stakeAuthority:k5,stakeConfigAccount:k4,
        voteAccount:k3}`,
    ],
    [stake(3, 16, 5n), 'moveStake', '{destination:k2,lamports:5,source:k1,stakeAuthority:k3}'],
    [stake(3, 17, 5n), 'moveLamports', '{destination:k2,lamports:5,source:k1,stakeAuthority:k3}'],
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
