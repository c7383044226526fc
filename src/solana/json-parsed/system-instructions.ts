// Parses instructions of the system program for `jsonParsed`. Thread: any (pure).
import { Cursor } from '../cursor.ts'
import { instructionTable, parseInstruction } from './instruction-table.ts'
import type { Parsed } from './parsed.ts'

const sysvars = 'recentBlockhashesSysvar rentSysvar'
const instructions = instructionTable(`
  createAccount          source newAccount  lamports:u64 space:u64 owner:key
  assign                 account  owner:key
  transfer               source destination  lamports:u64
  createAccountWithSeed  source newAccount  base:key seed:text lamports:u64 space:u64 owner:key
  advanceNonce           nonceAccount recentBlockhashesSysvar nonceAuthority
  withdrawFromNonce      nonceAccount destination ${sysvars} nonceAuthority  lamports:u64
  initializeNonce        nonceAccount ${sysvars}  nonceAuthority:key
  authorizeNonce         nonceAccount nonceAuthority  newAuthorized:key
  allocate               account  space:u64
  allocateWithSeed       account _  base:key seed:text space:u64 owner:key
  assignWithSeed         account _  base:key seed:text owner:key
  transferWithSeed       source sourceBase destination  lamports:u64 sourceSeed:text sourceOwner:key
  upgradeNonce           nonceAccount`)

export function parsedSystemInstruction(
  accounts: readonly string[],
  data: Uint8Array,
): Parsed | null {
  const cursor = new Cursor(data)
  const tag = cursor.u32()
  return cursor.isShort ? null : parseInstruction(instructions[tag], accounts, cursor)
}
