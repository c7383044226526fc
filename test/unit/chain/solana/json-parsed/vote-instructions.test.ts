import { VoteAuthorizationLayout, VoteInit, VoteProgram } from '@solana/web3.js'
import { describe, expect, it } from 'vitest'
import { bytes, itShows, key, raw, shownText, u32 } from '../../../../testkit/instruction-json.ts'

const vote = (accounts: number, tag: number, ...data: Parameters<typeof bytes>) =>
  raw(VoteProgram.programId, accounts, u32(tag), ...data)
const [votePubkey, authorizedPubkey] = [key(1), key(2)]
const update = bytes(2n, 100n, u32(2), 300n, u32(1), 1, 40n, key(9), 1, -7n)
// Slots are distances: 60 from the root, then 200 in two bytes of 7 bits.
const compact = bytes(40n, 2, 60, 2, 200, 1, 1, key(9), 0)
const rootless = bytes(2n ** 64n - 1n, 1, 100, 2, key(9), 0)
const blsKey = Buffer.alloc(48, 3)
const blsProof = Buffer.alloc(96, 4)

describe('jsonParsed instructions of the vote program', () => {
  itShows('vote', [
    [
      VoteProgram.initializeAccount({
        votePubkey,
        nodePubkey: key(2),
        voteInit: new VoteInit(key(2), key(3), key(4), 10),
      }),
      'initialize',
      `{authorizedVoter:k3,authorizedWithdrawer:k4,clockSysvar:clock,commission:10,node:k2,
        rentSysvar:rent,voteAccount:k1}`,
    ],
    [
      VoteProgram.authorize({
        votePubkey,
        authorizedPubkey,
        newAuthorizedPubkey: key(3),
        voteAuthorizationType: VoteAuthorizationLayout.Withdrawer,
      }).instructions[0]!,
      'authorize',
      '{authority:k2,authorityType:Withdrawer,clockSysvar:clock,newAuthority:k3,voteAccount:k1}',
    ],
    [
      vote(4, 2, 2n, 5n, 6n, key(9), 0),
      'vote',
      `{clockSysvar:k3,slotHashesSysvar:k2,vote:{hash:k9,slots:[5,6],timestamp:null},
        voteAccount:k1,voteAuthority:k4}`,
    ],
    [
      VoteProgram.withdraw({
        votePubkey,
        authorizedWithdrawerPubkey: key(3),
        lamports: 5,
        toPubkey: key(2),
      }).instructions[0]!,
      'withdraw',
      '{destination:k2,lamports:5,voteAccount:k1,withdrawAuthority:k3}',
    ],
    [
      VoteProgram.updateValidatorIdentity({
        votePubkey,
        authorizedWithdrawerPubkey: key(3),
        nodePubkey: key(2),
      }).instructions[0]!,
      'updateValidatorIdentity',
      '{newValidatorIdentity:k2,voteAccount:k1,withdrawAuthority:k3}',
    ],
    [vote(2, 5, 7), 'updateCommission', '{commission:7,voteAccount:k1,withdrawAuthority:k2}'],
    [
      vote(4, 6, 1n, 5n, key(9), 1, 8n, key(8)),
      'voteSwitch',
      `{clockSysvar:k3,hash:k8,slotHashesSysvar:k2,vote:{hash:k9,slots:[5],timestamp:8},
        voteAccount:k1,voteAuthority:k4}`,
    ],
    [
      vote(4, 7, u32(0)),
      'authorizeChecked',
      '{authority:k3,authorityType:Voter,clockSysvar:k2,newAuthority:k4,voteAccount:k1}',
    ],
    [
      vote(4, 7, u32(2), blsKey, blsProof),
      'authorizeChecked',
      `{authority:k3,authorityType:{VoterWithBLS:{bls_proof_of_possession:[${[...blsProof]}],
        bls_pubkey:[${[...blsKey]}]}},clockSysvar:k2,newAuthority:k4,voteAccount:k1}`,
    ],
    [
      vote(2, 8, update),
      'updatevotestate',
      `{voteAccount:k1,voteAuthority:k2,voteStateUpdate:{hash:k9,
        lockouts:[{confirmation_count:2,slot:100},{confirmation_count:1,slot:300}],root:40,
        timestamp:-7}}`,
    ],
    [
      vote(2, 9, update, key(8)),
      'updatevotestateswitch',
      `{hash:k8,voteAccount:k1,voteAuthority:k2,voteStateUpdate:{hash:k9,
        lockouts:[{confirmation_count:2,slot:100},{confirmation_count:1,slot:300}],root:40,
        timestamp:-7}}`,
    ],
    [
      VoteProgram.authorizeWithSeed({
        votePubkey,
        currentAuthorityDerivedKeyBasePubkey: key(2),
        currentAuthorityDerivedKeyOwnerPubkey: key(3),
        currentAuthorityDerivedKeySeed: 'seed',
        newAuthorizedPubkey: key(4),
        voteAuthorizationType: VoteAuthorizationLayout.Voter,
      }).instructions[0]!,
      'authorizeWithSeed',
      `{authorityBaseKey:k2,authorityOwner:k3,authoritySeed:seed,authorityType:Voter,
        clockSysvar:clock,newAuthority:k4,voteAccount:k1}`,
    ],
    [
      vote(4, 11, u32(1), key(5), 'seed'),
      'authorizeCheckedWithSeed',
      `{authorityBaseKey:k3,authorityOwner:k5,authoritySeed:seed,authorityType:Withdrawer,
        clockSysvar:k2,newAuthority:k4,voteAccount:k1}`,
    ],
    [
      vote(2, 12, compact),
      'compactupdatevotestate',
      `{voteAccount:k1,voteAuthority:k2,voteStateUpdate:{hash:k9,
        lockouts:[{confirmation_count:2,slot:100},{confirmation_count:1,slot:300}],root:40,
        timestamp:null}}`,
    ],
    [
      vote(2, 13, compact, key(8)),
      'compactupdatevotestateswitch',
      `{hash:k8,voteAccount:k1,voteAuthority:k2,voteStateUpdate:{hash:k9,
        lockouts:[{confirmation_count:2,slot:100},{confirmation_count:1,slot:300}],root:40,
        timestamp:null}}`,
    ],
    [
      vote(2, 14, compact, key(7)),
      'towersync',
      `{towerSync:{blockId:k7,hash:k9,lockouts:[{confirmation_count:2,slot:100},
        {confirmation_count:1,slot:300}],root:40,timestamp:null},voteAccount:k1,
        voteAuthority:k2}`,
    ],
    [
      vote(2, 15, rootless, key(7), key(8)),
      'towersyncswitch',
      `{hash:k8,towerSync:{blockId:k7,hash:k9,lockouts:[{confirmation_count:2,slot:100}],
        root:null,timestamp:null},voteAccount:k1,voteAuthority:k2}`,
    ],
    [
      vote(
        2,
        16,
        key(2),
        key(3),
        blsKey,
        blsProof,
        key(4),
        Buffer.of(0xf4, 1),
        key(5),
        Buffer.of(9, 0),
        key(6),
      ),
      'initializeV2',
      `{authorizedVoter:k3,authorizedWithdrawer:k4,blockRevenueCollector:k6,
        blockRevenueCommissionBps:9,inflationRewardsCollector:k5,
        inflationRewardsCommissionBps:500,node:k2,voteAccount:k1}`,
    ],
    [
      vote(3, 17, u32(1)),
      'updateCommissionCollector',
      '{commissionKind:BlockRevenue,newCollector:k2,voteAccount:k1,withdrawAuthority:k3}',
    ],
    [
      vote(2, 18, Buffer.of(0xf4, 1), u32(0)),
      'updateCommissionBps',
      '{commissionBps:500,commissionKind:InflationRewards,voteAccount:k1,withdrawAuthority:k2}',
    ],
    [vote(2, 19, 5n), 'depositDelegatorRewards', '{deposit:5,source:k2,voteAccount:k1}'],
  ])

  it('leaves a compact vote raw whose numbers are not encoded the one way there is', () => {
    const shown = (lockouts: Buffer, root = 40n) =>
      shownText(vote(2, 12, root, lockouts, key(9), 0)).startsWith('{"parsed"')
    expect(shown(Buffer.of(1, 60, 2))).toBe(true)
    // A length or a distance in one byte too many.
    expect(shown(Buffer.of(0x81, 0, 60, 2))).toBe(false)
    expect(shown(Buffer.of(1, 0xbc, 0, 2))).toBe(false)
    // Beyond 16 and 64 bits, and a slot beyond 64 bits.
    expect(shown(Buffer.of(0xff, 0xff, 4, 60, 2))).toBe(false)
    const most = [...new Array(9).fill(0xff)]
    expect(shown(Buffer.of(1, ...most, 1, 2), 0n)).toBe(true)
    expect(shown(Buffer.of(1, ...most, 2, 2), 0n)).toBe(false)
    expect(shown(Buffer.of(1, ...most, 1, 2))).toBe(false)
    expect(shown(Buffer.of(1, ...most, 0xff, 1, 2), 0n)).toBe(false)
  })
})
