// Parses instructions for `jsonParsed` by tables of one line per instruction. Thread: any (pure).
//
//   transfer    source destination @authority    amount:string
//   name        accounts in order                data fields in order, with their types
//
// Accounts: `_` has no name in the result, `x?` may be absent, `...x` is the list of all others,
// `@x` is one signer x, or a multisig account (multisigX) with its signers. The tag of an
// instruction is its line number. Members are in alphabetical order, as a validator sends them.
import type { Cursor } from '../cursor.ts'
import { keyText } from '../key-text.ts'
import { uiTokenAmount } from '../token-amount.ts'
import type { Parsed } from './parsed.ts'

const readers = {
  u8: (cursor: Cursor) => cursor.u8(),
  u64: (cursor: Cursor) => cursor.u64(),
  string: (cursor: Cursor) => String(cursor.u64()),
  key: (cursor: Cursor) => keyText(cursor.key()),
  /** Omitted when absent. */
  optionalKey: (cursor: Cursor) => (cursor.u8() === 1 ? keyText(cursor.key()) : undefined),
  keys(cursor: Cursor) {
    const count = cursor.u64()
    // Too large a count reads past the end, which refuses the instruction.
    const length = Math.min(Number(count), Math.floor(cursor.left / 32) + 1)
    return Array.from({ length }, () => keyText(cursor.key()))
  },
  /** Prefixed by its length. */
  text: (cursor: Cursor) => cursor.text(),
  /** Up to the end of the data. */
  rest: (cursor: Cursor) => Buffer.from(cursor.bytes(cursor.left)).toString('utf8'),
  tokenAmount(cursor: Cursor) {
    const amount = cursor.u64()
    return uiTokenAmount(amount, cursor.u8())
  },
}

interface Instruction {
  readonly type: string
  readonly accounts: readonly string[]
  readonly accountsLeast: number
  readonly data: readonly (readonly [name: string, read: (cursor: Cursor) => unknown])[]
}

export type InstructionTable = readonly Instruction[]

export function instructionTable(lines: string): InstructionTable {
  return lines
    .trim()
    .split('\n')
    .map((line) => {
      const [type, ...words] = line.trim().split(/\s+/)
      const accounts = words.filter((word) => !word.includes(':'))
      const data = words.filter((word) => word.includes(':')).map((word) => word.split(':'))
      return {
        type: type!,
        accounts,
        accountsLeast: accounts.filter((name) => !name.endsWith('?')).length,
        data: data.map(([name, kind]) => [name!, readers[kind as keyof typeof readers]] as const),
      }
    })
}

/** `cursor` is after the tag. Null for an unknown tag, missing accounts or short data. */
export function parseInstruction(
  instruction: Instruction | undefined,
  accounts: readonly string[],
  cursor: Cursor,
): Parsed | null {
  if (instruction === undefined || accounts.length < instruction.accountsLeast) return null
  const members: [string, unknown][] = instruction.data.map(([name, read]) => [name, read(cursor)])
  if (cursor.isShort) return null
  for (const [index, name] of instruction.accounts.entries())
    members.push(...accountMembers(name, accounts, index))
  members.sort(([a], [b]) => (a < b ? -1 : 1))
  return { info: Object.fromEntries(members), type: instruction.type }
}

function accountMembers(
  name: string,
  accounts: readonly string[],
  index: number,
): [string, unknown][] {
  if (name === '_') return []
  if (name.startsWith('...')) return [[name.slice(3), accounts.slice(index)]]
  if (!name.startsWith('@')) return [[name.replace('?', ''), accounts[index]]]
  const signer = name.slice(1)
  if (accounts.length === index + 1) return [[signer, accounts[index]]]
  const multisig = `multisig${signer[0]!.toUpperCase()}${signer.slice(1)}`
  return [
    [multisig, accounts[index]],
    ['signers', accounts.slice(index + 1)],
  ]
}
