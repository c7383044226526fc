// Parses instructions of known programs for `jsonParsed`.
// Unknown instructions are shown with their accounts and data, as a validator does.
import { isUtf8 } from 'node:buffer'
import { encodeBase58, keyOf, keyText } from '../base58.ts'
import { Cursor } from '../cursor.ts'
import type { InstructionContent } from '../geyser-decode.ts'
import { programs } from '../programs.ts'
import { perVersion, type Shapes } from '../version.ts'
import type { InstructionTable, ReadValue } from './instruction-table.ts'
import { instructionTable, oneOf, parseInstruction, refuse } from './instruction-table.ts'
import { base64, layout, list, listOf, readers } from './layout.ts'
import type { Parsed } from './parsed.ts'
import { parsedAssociatedInstruction, parsedTokenInstruction } from './token-instructions.ts'

const nonceSysvars = 'recentBlockhashesSysvar rentSysvar'
const newAccount = 'space:u64 owner:key'
const systemInstructions = instructionTable(`
  createAccount          source newAccount  lamports:u64 ${newAccount}
  assign                 account  owner:key
  transfer               source destination  lamports:u64
  createAccountWithSeed  source newAccount  base:key seed:text lamports:u64 ${newAccount}
  advanceNonce           nonceAccount recentBlockhashesSysvar nonceAuthority
  withdrawFromNonce      nonceAccount destination ${nonceSysvars} nonceAuthority  lamports:u64
  initializeNonce        nonceAccount ${nonceSysvars}  nonceAuthority:key
  authorizeNonce         nonceAccount nonceAuthority  newAuthorized:key
  allocate               account  space:u64
  allocateWithSeed       account _  base:key seed:text ${newAccount}
  assignWithSeed         account _  base:key seed:text owner:key
  transferWithSeed       source sourceBase destination  lamports:u64 sourceSeed:text sourceOwner:key
  upgradeNonce           nonceAccount
  createAccountAllowPrefund    newAccount  _:u64=0 ${newAccount}
  | createAccountAllowPrefund  newAccount source  lamports:u64 ${newAccount}`)

const history = 'clockSysvar stakeHistorySysvar'
const authorized = 'authorized.staker:key authorized.withdrawer:key'
const lockup = 'lockup.unixTimestamp:i64 lockup.epoch:u64 lockup.custodian:key'
const newLockup = 'lockup.unixTimestamp:i64? lockup.epoch:u64?'
const seededAuthority = 'authorityType:stakeAuthority authoritySeed:text authorityOwner:key'
const moved = 'source destination stakeAuthority  lamports:u64'
const stakeInstructions = instructionTable(`
  initialize            stakeAccount rentSysvar  ${authorized} ${lockup}
  authorize             stakeAccount clockSysvar authority custodian? \
                        newAuthority:key authorityType:stakeAuthority
  delegate              stakeAccount voteAccount ${history} stakeConfigAccount stakeAuthority
  split                 stakeAccount newSplitAccount stakeAuthority  lamports:u64
  withdraw              stakeAccount destination ${history} withdrawAuthority custodian? \
                        lamports:u64
  deactivate            stakeAccount clockSysvar stakeAuthority
  setLockup             stakeAccount custodian  ${newLockup} lockup.custodian:key?
  merge                 destination source ${history} stakeAuthority
  authorizeWithSeed     stakeAccount authorityBase clockSysvar? custodian? \
                        newAuthorized:key ${seededAuthority}
  initializeChecked     stakeAccount rentSysvar staker withdrawer
  authorizeChecked      stakeAccount clockSysvar authority newAuthority custodian? \
                        authorityType:stakeAuthority
  authorizeCheckedWithSeed \
                        stakeAccount authorityBase clockSysvar newAuthorized custodian? \
                        ${seededAuthority}
  setLockupChecked      stakeAccount custodian lockup.custodian?  ${newLockup}
  getMinimumDelegation
  deactivateDelinquent  stakeAccount voteAccount referenceVoteAccount
  redelegate            stakeAccount newStakeAccount voteAccount stakeConfigAccount stakeAuthority
  moveStake             ${moved}
  moveLamports          ${moved}`)

const loaderInstructions = instructionTable(`
  write     account  offset:u32 bytes:bytes
  finalize  account _`)

const program = 'programDataAccount programAccount'
const sysvars = 'rentSysvar clockSysvar'
const migration = `
  migrate               ${program} authority
  extendProgramChecked  ${program} authority systemProgram~ payerAccount~  additionalBytes:u32`
const upgradeableLoaderInstructions = perVersion(({ loaderWithoutMigration }) =>
  instructionTable(`
  initializeBuffer      account authority?
  write                 account authority  offset:u32 bytes:bytes
  deployWithMaxDataLen  payerAccount ${program} bufferAccount ${sysvars} systemProgram authority \
                        maxDataLen:u64
  upgrade               ${program} bufferAccount spillAccount ${sysvars} authority
  setAuthority          account authority newAuthority~
  close                 account recipient authority programAccount~
  extendProgram         ${program} systemProgram~ payerAccount~  additionalBytes:u32
  setAuthorityChecked   account authority newAuthority${loaderWithoutMigration ? '' : migration}`),
)

const table = 'lookupTableAccount lookupTableAuthority'
const lookupTableInstructions = instructionTable(`
  createLookupTable      ${table} payerAccount systemProgram  recentSlot:u64 bumpSeed:u8
  freezeLookupTable      ${table}
  extendLookupTable      ${table} payerAccount systemProgram  newAddresses:keys
  | extendLookupTable    ${table}  newAddresses:keys
  deactivateLookupTable  ${table}
  closeLookupTable       ${table} recipient`)

/** `accounts` are texts, in the instruction's order; null for an unknown instruction. */
type ParseInstruction = (accounts: readonly string[], data: Uint8Array) => Parsed | string | null

type Known = readonly [key: Uint8Array, program: string, ParseInstruction]

const parsersOf = perVersion((shapes) => {
  const parsedToken: ParseInstruction = (accounts, data) =>
    parsedTokenInstruction(accounts, data, shapes)
  const upgradeable = byTable(upgradeableLoaderInstructions(shapes))
  const known: readonly Known[] = [
    [programs.system, 'system', byTable(systemInstructions)],
    [programs.stake, 'stake', byTable(stakeInstructions)],
    [programs.vote, 'vote', byTable(voteInstructions(shapes))],
    [programs.loaderV2, 'bpf-loader', byTable(loaderInstructions)],
    [programs.upgradeableLoader, 'bpf-upgradeable-loader', upgradeable],
    [programs.addressLookupTable, 'address-lookup-table', byTable(lookupTableInstructions)],
    [programs.token, 'spl-token', parsedToken],
    [programs.token2022, 'spl-token', parsedToken],
    [programs.associatedToken, 'spl-associated-token-account', parsedAssociatedInstruction],
    ...memoPrograms(shapes).map((key): Known => [key, 'spl-memo', parsedMemo]),
  ]
  return new Map(known.map(([key, program, parse]) => [keyOf(key), { program, parse }]))
})

/** The memo programs that a validator knows. */
export function memoPrograms({ memoV4 }: Shapes): readonly Uint8Array[] {
  return memoV4
    ? [programs.memo, programs.memoV1, programs.memoV4]
    : [programs.memo, programs.memoV1]
}

/** Used for an index without a key; its text is empty. */
const noKey = new Uint8Array(0)

export function parsedInstruction(
  { accounts, data, programIdIndex }: InstructionContent,
  keys: readonly Uint8Array[],
  stackHeight: number | null,
  shapes: Shapes,
): unknown {
  const program = keys[programIdIndex] ?? noKey
  const programId = keyText(program)
  const names = Array.from(accounts, (index) => keyText(keys[index] ?? noKey))
  const parser = parsersOf(shapes).get(keyOf(program))
  const parsed = parser?.parse(names, data) ?? null
  if (parser !== undefined && parsed !== null)
    return { parsed, program: parser.program, programId, stackHeight }
  return { accounts: names, data: encodeBase58(data), programId, stackHeight }
}

/** Native programs count their instructions with a u32. */
function byTable(table: InstructionTable): ParseInstruction {
  return (accounts, data) => {
    const cursor = new Cursor(data)
    const tag = cursor.u32()
    return cursor.isShort ? null : parseInstruction(table[tag], accounts, data, 4)
  }
}

function parsedMemo(_: readonly string[], data: Uint8Array): string | null {
  return isUtf8(data) ? Buffer.from(data).toString('utf8') : null
}

// Instructions of the vote program for `jsonParsed`.

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

const voteInstructions = perVersion((shapes) =>
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
