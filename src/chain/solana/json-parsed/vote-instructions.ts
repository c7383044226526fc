// Instructions of the vote program for `jsonParsed`.
import type { Cursor } from '../cursor.ts'
import { perVersion } from '../version.ts'
import { instructionTable, oneOf, type ReadValue, refuse } from './instruction-table.ts'
import { base64, layout, list, listOf, readers } from './layout.ts'

const u64Max = 2n ** 64n - 1n
const blsKeyBytes = 48
const blsProofBytes = 96

const values: Readonly<Record<string, ReadValue>> = {
  slots: list(readers.u64),
  lockouts: list(layout('slot:u64 confirmation_count:u32')),
  /** The largest number means that there is none. */
  compactRoot(cursor) {
    const root = cursor.u64()
    return root === u64Max ? null : root
  },
  /** Each slot is the distance to the one before; the first to the root, which precedes. */
  compactLockouts(cursor, { previous }) {
    // Reason for the cast: the field before is the root.
    let slot = (previous as bigint | null) ?? 0n
    return listOf(cursor, varint(cursor, 16), () => {
      slot += varint(cursor, 64)
      if (slot > u64Max) refuse(cursor)
      return { confirmation_count: cursor.u8(), slot }
    })
  },
  voteAuthority(cursor) {
    const kind = cursor.u32()
    if (kind !== 2) return ['Voter', 'Withdrawer'][kind] ?? refuse(cursor)
    const bls_pubkey = [...cursor.bytes(blsKeyBytes)]
    return {
      VoterWithBLS: { bls_proof_of_possession: [...cursor.bytes(blsProofBytes)], bls_pubkey },
    }
  },
  blsKey: (cursor) => base64(cursor.bytes(blsKeyBytes)),
  blsProof: (cursor) => base64(cursor.bytes(blsProofBytes)),
  commissionKind: oneOf('InflationRewards BlockRevenue', readers.u32),
}

/** An integer of so many bits, 7 in a byte, the low ones first; it has exactly one encoding. */
function varint(cursor: Cursor, bits: number): bigint {
  let value = 0n
  for (let shift = 0; shift < bits; shift += 7) {
    const byte = cursor.u8()
    value |= BigInt(byte & 0x7f) << BigInt(shift)
    if (byte >= 0x80) continue
    if ((byte === 0 && shift > 0) || value >> BigInt(bits) > 0n) refuse(cursor)
    return value
  }
  refuse(cursor)
  return 0n
}

const voted = 'voteAccount slotHashesSysvar clockSysvar voteAuthority'
const vote = 'vote.slots:slots vote.hash:hash vote.timestamp:i64~'
const seeded = 'authorityType:voteAuthority authorityOwner:key authoritySeed:text'
const synced = 'voteAccount voteAuthority'
const update = `voteStateUpdate.lockouts:lockouts voteStateUpdate.root:u64~ \
  voteStateUpdate.hash:hash voteStateUpdate.timestamp:i64~`
const compact = (name: string) => `${name}.root:compactRoot ${name}.lockouts:compactLockouts \
  ${name}.hash:hash ${name}.timestamp:i64~`
const towerSync = `${compact('towerSync')} towerSync.blockId:hash`

/** With the collectors as accounts, or in the data. */
const initialize = (hasCollectorAccounts: boolean) =>
  hasCollectorAccounts
    ? `voteAccount node inflationRewardsCollector blockRevenueCollector _:key authorizedVoter:key \
      authorizedVoterBlsPubkey:blsKey authorizedVoterBlsProofOfPossession:blsProof \
      authorizedWithdrawer:key inflationRewardsCommissionBps:u16 blockRevenueCommissionBps:u16`
    : `voteAccount node _:key authorizedVoter:key _:blsKey _:blsProof authorizedWithdrawer:key \
      inflationRewardsCommissionBps:u16 inflationRewardsCollector:key \
      blockRevenueCommissionBps:u16 blockRevenueCollector:key`

export const voteInstructions = perVersion((shapes) =>
  instructionTable(
    `
  initialize                    voteAccount rentSysvar clockSysvar node \
                                _:key authorizedVoter:key authorizedWithdrawer:key commission:u8
  authorize                     voteAccount clockSysvar authority \
                                newAuthority:key authorityType:voteAuthority
  vote                          ${voted}  ${vote}
  withdraw                      voteAccount destination withdrawAuthority  lamports:u64
  updateValidatorIdentity       voteAccount newValidatorIdentity withdrawAuthority
  updateCommission              voteAccount withdrawAuthority  commission:u8
  voteSwitch                    ${voted}  ${vote} hash:hash
  authorizeChecked              voteAccount clockSysvar authority newAuthority \
                                authorityType:voteAuthority
  updatevotestate               ${synced}  ${update}
  updatevotestateswitch         ${synced}  ${update} hash:hash
  authorizeWithSeed             voteAccount clockSysvar authorityBaseKey  ${seeded} newAuthority:key
  authorizeCheckedWithSeed      voteAccount clockSysvar authorityBaseKey newAuthority  ${seeded}
  compactupdatevotestate        ${synced}  ${compact('voteStateUpdate')}
  compactupdatevotestateswitch  ${synced}  ${compact('voteStateUpdate')} hash:hash
  towersync                     ${synced}  ${towerSync}
  towersyncswitch               ${synced}  ${towerSync} hash:hash
  initializeV2                  ${initialize(shapes.voteCollectorAccounts)}
  updateCommissionCollector     voteAccount newCollector withdrawAuthority \
                                commissionKind:commissionKind
  updateCommissionBps           voteAccount withdrawAuthority \
                                commissionBps:u16 commissionKind:commissionKind
  depositDelegatorRewards       voteAccount source  deposit:u64`,
    values,
  ),
)
