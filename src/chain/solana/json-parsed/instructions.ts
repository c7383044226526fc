// Parses instructions of known programs for `jsonParsed`.
// Unknown instructions are shown with their accounts and data, as a validator does.
import { isUtf8 } from 'node:buffer'
import { encodeBase58 } from '../base58.ts'
import { Cursor } from '../cursor.ts'
import type { InstructionContent } from '../geyser-content.ts'
import { keyText } from '../key-text.ts'
import { keyOf } from '../keys.ts'
import { programs } from '../programs.ts'
import { type InstructionTable, parseInstruction } from './instruction-table.ts'
import {
  loaderInstructions,
  lookupTableInstructions,
  stakeInstructions,
  systemInstructions,
  upgradeableLoaderInstructions,
} from './native-instructions.ts'
import type { Parsed } from './parsed.ts'
import { parsedAssociatedInstruction, parsedTokenInstruction } from './token-instructions.ts'
import { voteInstructions } from './vote-instructions.ts'

/** `accounts` are texts, in the instruction's order; null for an unknown instruction. */
type ParseInstruction = (accounts: readonly string[], data: Uint8Array) => Parsed | string | null

const known: readonly (readonly [Uint8Array, program: string, ParseInstruction])[] = [
  [programs.system, 'system', byTable(systemInstructions)],
  [programs.stake, 'stake', byTable(stakeInstructions)],
  [programs.vote, 'vote', byTable(voteInstructions)],
  [programs.loaderV2, 'bpf-loader', byTable(loaderInstructions)],
  [programs.upgradeableLoader, 'bpf-upgradeable-loader', byTable(upgradeableLoaderInstructions)],
  [programs.addressLookupTable, 'address-lookup-table', byTable(lookupTableInstructions)],
  [programs.token, 'spl-token', parsedTokenInstruction],
  [programs.token2022, 'spl-token', parsedTokenInstruction],
  [programs.associatedToken, 'spl-associated-token-account', parsedAssociatedInstruction],
  [programs.memo, 'spl-memo', parsedMemo],
  [programs.memoV1, 'spl-memo', parsedMemo],
]
const parsers = new Map(known.map(([key, program, parse]) => [keyOf(key), { program, parse }]))

/** Used for an index without a key; its text is empty. */
const noKey = new Uint8Array(0)

export function parsedInstruction(
  { accounts, data, programIdIndex }: InstructionContent,
  keys: readonly Uint8Array[],
  stackHeight: number | null,
): unknown {
  const program = keys[programIdIndex] ?? noKey
  const programId = keyText(program)
  const names = Array.from(accounts, (index) => keyText(keys[index] ?? noKey))
  const parser = parsers.get(keyOf(program))
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
