import {
  SYSVAR_CLOCK_PUBKEY,
  SYSVAR_RENT_PUBKEY,
  VoteAuthorizationLayout,
  VoteInit,
  VoteProgram,
} from '@solana/web3.js'
import { describe, expect, it } from 'vitest'
import { bytes, itShows, key, raw, shownText, u32 } from '../../../testkit/instruction-json.ts'

const vote = (accounts: number, tag: number, ...data: Parameters<typeof bytes>) =>
  raw(VoteProgram.programId, accounts, u32(tag), ...data)
const [votePubkey, authorizedPubkey] = [key(1), key(2)]
const clockSysvar = SYSVAR_CLOCK_PUBKEY.toBase58()
const synced = { voteAccount: 'k1', voteAuthority: 'k2' }
const voted = {
  voteAccount: 'k1',
  slotHashesSysvar: 'k2',
  clockSysvar: 'k3',
  voteAuthority: 'k4',
}
const lockouts = [
  { slot: 100, confirmation_count: 2 },
  { slot: 300, confirmation_count: 1 },
]
const update = bytes(2n, 100n, u32(2), 300n, u32(1), 1, 40n, key(9), 1, -7n)
const updated = { lockouts, root: 40, hash: 'k9', timestamp: -7 }
// Slots are distances: 60 from the root, then 200 in two bytes of 7 bits.
const compact = bytes(40n, 2, 60, 2, 200, 1, 1, key(9), 0)
const compacted = { lockouts, root: 40, hash: 'k9', timestamp: null }
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
      {
        type: 'initialize',
        info: {
          voteAccount: 'k1',
          rentSysvar: SYSVAR_RENT_PUBKEY.toBase58(),
          clockSysvar,
          node: 'k2',
          authorizedVoter: 'k3',
          authorizedWithdrawer: 'k4',
          commission: 10,
        },
      },
    ],
    [
      VoteProgram.authorize({
        votePubkey,
        authorizedPubkey,
        newAuthorizedPubkey: key(3),
        voteAuthorizationType: VoteAuthorizationLayout.Withdrawer,
      }).instructions[0]!,
      {
        type: 'authorize',
        info: {
          voteAccount: 'k1',
          clockSysvar,
          authority: 'k2',
          newAuthority: 'k3',
          authorityType: 'Withdrawer',
        },
      },
    ],
    [
      vote(4, 2, 2n, 5n, 6n, key(9), 0),
      {
        type: 'vote',
        info: { ...voted, vote: { slots: [5, 6], hash: 'k9', timestamp: null } },
      },
    ],
    [
      VoteProgram.withdraw({
        votePubkey,
        authorizedWithdrawerPubkey: key(3),
        lamports: 5,
        toPubkey: key(2),
      }).instructions[0]!,
      {
        type: 'withdraw',
        info: { voteAccount: 'k1', destination: 'k2', withdrawAuthority: 'k3', lamports: 5 },
      },
    ],
    [
      VoteProgram.updateValidatorIdentity({
        votePubkey,
        authorizedWithdrawerPubkey: key(3),
        nodePubkey: key(2),
      }).instructions[0]!,
      {
        type: 'updateValidatorIdentity',
        info: { voteAccount: 'k1', newValidatorIdentity: 'k2', withdrawAuthority: 'k3' },
      },
    ],
    [
      vote(2, 5, 7),
      {
        type: 'updateCommission',
        info: { voteAccount: 'k1', withdrawAuthority: 'k2', commission: 7 },
      },
    ],
    [
      vote(4, 6, 1n, 5n, key(9), 1, 8n, key(8)),
      {
        type: 'voteSwitch',
        info: { ...voted, vote: { slots: [5], hash: 'k9', timestamp: 8 }, hash: 'k8' },
      },
    ],
    [
      vote(4, 7, u32(0)),
      {
        type: 'authorizeChecked',
        info: {
          voteAccount: 'k1',
          clockSysvar: 'k2',
          authority: 'k3',
          newAuthority: 'k4',
          authorityType: 'Voter',
        },
      },
    ],
    [
      vote(4, 7, u32(2), blsKey, blsProof),
      {
        type: 'authorizeChecked',
        info: {
          voteAccount: 'k1',
          clockSysvar: 'k2',
          authority: 'k3',
          newAuthority: 'k4',
          authorityType: {
            VoterWithBLS: { bls_pubkey: [...blsKey], bls_proof_of_possession: [...blsProof] },
          },
        },
      },
    ],
    [
      vote(2, 8, update),
      { type: 'updatevotestate', info: { ...synced, voteStateUpdate: updated } },
    ],
    [
      vote(2, 9, update, key(8)),
      {
        type: 'updatevotestateswitch',
        info: { ...synced, voteStateUpdate: updated, hash: 'k8' },
      },
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
      {
        type: 'authorizeWithSeed',
        info: {
          voteAccount: 'k1',
          clockSysvar,
          authorityBaseKey: 'k2',
          authorityOwner: 'k3',
          authoritySeed: 'seed',
          newAuthority: 'k4',
          authorityType: 'Voter',
        },
      },
    ],
    [
      vote(4, 11, u32(1), key(5), 'seed'),
      {
        type: 'authorizeCheckedWithSeed',
        info: {
          voteAccount: 'k1',
          clockSysvar: 'k2',
          authorityBaseKey: 'k3',
          authorityOwner: 'k5',
          authoritySeed: 'seed',
          newAuthority: 'k4',
          authorityType: 'Withdrawer',
        },
      },
    ],
    [
      vote(2, 12, compact),
      { type: 'compactupdatevotestate', info: { ...synced, voteStateUpdate: compacted } },
    ],
    [
      vote(2, 13, compact, key(8)),
      {
        type: 'compactupdatevotestateswitch',
        info: { ...synced, voteStateUpdate: compacted, hash: 'k8' },
      },
    ],
    [
      vote(2, 14, compact, key(7)),
      { type: 'towersync', info: { ...synced, towerSync: { ...compacted, blockId: 'k7' } } },
    ],
    [
      vote(2, 15, rootless, key(7), key(8)),
      {
        type: 'towersyncswitch',
        info: {
          ...synced,
          towerSync: {
            lockouts: lockouts.slice(0, 1),
            root: null,
            hash: 'k9',
            timestamp: null,
            blockId: 'k7',
          },
          hash: 'k8',
        },
      },
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
      {
        type: 'initializeV2',
        info: {
          voteAccount: 'k1',
          node: 'k2',
          authorizedVoter: 'k3',
          authorizedWithdrawer: 'k4',
          inflationRewardsCommissionBps: 500,
          inflationRewardsCollector: 'k5',
          blockRevenueCommissionBps: 9,
          blockRevenueCollector: 'k6',
        },
      },
    ],
    [
      vote(3, 17, u32(1)),
      {
        type: 'updateCommissionCollector',
        info: {
          voteAccount: 'k1',
          newCollector: 'k2',
          withdrawAuthority: 'k3',
          commissionKind: 'BlockRevenue',
        },
      },
    ],
    [
      vote(2, 18, Buffer.of(0xf4, 1), u32(0)),
      {
        type: 'updateCommissionBps',
        info: {
          voteAccount: 'k1',
          withdrawAuthority: 'k2',
          commissionBps: 500,
          commissionKind: 'InflationRewards',
        },
      },
    ],
    [
      vote(2, 19, 5n),
      {
        type: 'depositDelegatorRewards',
        info: { voteAccount: 'k1', source: 'k2', deposit: 5 },
      },
    ],
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
