// Parses instructions of the address lookup table program for `jsonParsed`. Thread: any (pure).
import { Cursor } from '../cursor.ts'
import { instructionTable, parseInstruction } from './instruction-table.ts'
import type { Parsed } from './parsed.ts'

const table = 'lookupTableAccount lookupTableAuthority'
const instructions = instructionTable(`
  createLookupTable      ${table} payerAccount systemProgram  recentSlot:u64 bumpSeed:u8
  freezeLookupTable      ${table}
  extendLookupTable      ${table} payerAccount? systemProgram?  newAddresses:keys
  deactivateLookupTable  ${table}
  closeLookupTable       ${table} recipient`)

export function parsedLookupTableInstruction(
  accounts: readonly string[],
  data: Uint8Array,
): Parsed | null {
  const cursor = new Cursor(data)
  const tag = cursor.u32()
  return cursor.isShort ? null : parseInstruction(instructions[tag], accounts, cursor)
}
