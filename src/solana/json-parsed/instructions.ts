// Parses instructions of known programs for `jsonParsed`. Thread: any (pure).
// Unknown instructions are shown with their accounts and data, as a validator does.
import { isUtf8 } from 'node:buffer'
import { encodeBase58 } from '../base58.ts'
import type { InstructionContent } from '../geyser-content.ts'
import { keyText } from '../key-text.ts'
import { keyOf } from '../keys.ts'
import { programs } from '../programs.ts'
import { parsedLookupTableInstruction } from './lookup-table-instructions.ts'
import type { Parsed } from './parsed.ts'
import { parsedSystemInstruction } from './system-instructions.ts'
import { parsedAssociatedInstruction, parsedTokenInstruction } from './token-instructions.ts'

/** `accounts` are texts, in the instruction's order; null for an unknown instruction. */
type ParseInstruction = (accounts: readonly string[], data: Uint8Array) => Parsed | string | null

const parsers = new Map<string, { readonly program: string; readonly parse: ParseInstruction }>([
  [keyOf(programs.system), { program: 'system', parse: parsedSystemInstruction }],
  [keyOf(programs.token), { program: 'spl-token', parse: parsedTokenInstruction }],
  [keyOf(programs.token2022), { program: 'spl-token', parse: parsedTokenInstruction }],
  [
    keyOf(programs.associatedToken),
    { program: 'spl-associated-token-account', parse: parsedAssociatedInstruction },
  ],
  [keyOf(programs.memo), { program: 'spl-memo', parse: parsedMemo }],
  [keyOf(programs.memoV1), { program: 'spl-memo', parse: parsedMemo }],
  [
    keyOf(programs.addressLookupTable),
    { program: 'address-lookup-table', parse: parsedLookupTableInstruction },
  ],
])

export function parsedInstruction(
  { accounts, data, programIdIndex }: InstructionContent,
  keys: readonly Uint8Array[],
  stackHeight: number | null,
): unknown {
  const programId = keys[programIdIndex]!
  const names = Array.from(accounts, (index) => keyText(keys[index]!))
  const parser = parsers.get(keyOf(programId))
  const parsed = parser?.parse(names, data) ?? null
  if (parser !== undefined && parsed !== null)
    return { parsed, program: parser.program, programId: keyText(programId), stackHeight }
  return { accounts: names, data: encodeBase58(data), programId: keyText(programId), stackHeight }
}

function parsedMemo(_: readonly string[], data: Uint8Array): string | null {
  return isUtf8(data) ? Buffer.from(data).toString('utf8') : null
}
