// Instructions of the system, stake, loader and address lookup table programs for `jsonParsed`.
import { perVersion } from '../version.ts'
import { instructionTable } from './instruction-table.ts'

const nonceSysvars = 'recentBlockhashesSysvar rentSysvar'
const newAccount = 'space:u64 owner:key'
export const systemInstructions = instructionTable(`
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
export const stakeInstructions = instructionTable(`
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

export const loaderInstructions = instructionTable(`
  write     account  offset:u32 bytes:bytes
  finalize  account _`)

const program = 'programDataAccount programAccount'
const sysvars = 'rentSysvar clockSysvar'
const migration = `
  migrate               ${program} authority
  extendProgramChecked  ${program} authority systemProgram~ payerAccount~  additionalBytes:u32`
export const upgradeableLoaderInstructions = perVersion(({ loaderWithoutMigration }) =>
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
export const lookupTableInstructions = instructionTable(`
  createLookupTable      ${table} payerAccount systemProgram  recentSlot:u64 bumpSeed:u8
  freezeLookupTable      ${table}
  extendLookupTable      ${table} payerAccount systemProgram  newAddresses:keys
  | extendLookupTable    ${table}  newAddresses:keys
  deactivateLookupTable  ${table}
  closeLookupTable       ${table} recipient`)
