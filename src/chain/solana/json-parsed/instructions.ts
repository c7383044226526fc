// Parses instructions of known programs for `jsonParsed`.
// Unknown instructions are shown with their accounts and data, as a validator does.
import { isUtf8 } from 'node:buffer'
import { encodeBase58 } from '../base58.ts'
import { Cursor } from '../cursor.ts'
import type { InstructionContent } from '../geyser-content.ts'
import { keyText } from '../key-text.ts'
import { keyOf } from '../keys.ts'
import { programs } from '../programs.ts'
import { perVersion, type Shapes } from '../version.ts'
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
