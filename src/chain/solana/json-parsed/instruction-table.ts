// Parses instructions for `jsonParsed` by tables of one line per instruction.
//
//   transfer    source destination @authority    amount:string
//   name        accounts in order                data fields in order, with their types
//
// The tag of an instruction is its line number; a line that starts with `|` is an alternative of
// the one before, for when that does not parse. Members are in alphabetical order, as a validator
// sends them; `_` is not sent, and `a.b` is the member b of the object a.
//   x?      an account that is omitted when absent; of a field's type: a byte before the value is 0
//           when it is absent, and the field is omitted then
//   x~      the same, but null when absent
//   ...x    the list of all other accounts
//   @x      one signer x, or a multisig account (multisigX, or y of `@x=y`) with its signers
//   %x,y    the accounts that hold proofs, see `proofMembers`
//   x:t=0   a field that must have this value
//   $       the end of the data: no byte may follow
import { assert } from '../../../base/assert.ts'
import { Cursor } from '../cursor.ts'
import { accountNamer, type NameAccounts } from './instruction-accounts.ts'
import {
  type InstructionSource,
  instructionValues,
  type ReadValue,
  refuse,
} from './instruction-values.ts'
import { readers } from './layout.ts'
import type { Parsed } from './parsed.ts'

interface Instruction {
  readonly type: string
  readonly accounts: readonly NameAccounts[]
  readonly accountsLeast: number
  readonly data: readonly (readonly [name: string, read: ReadValue])[]
  readonly isExact: boolean
}

/** The alternatives of each tag. */
export type InstructionTable = readonly (readonly Instruction[])[]

type Values = Readonly<Record<string, ReadValue>>

/** `values` are the types of fields that only this table has. */
export function instructionTable(lines: string, values: Values = {}): InstructionTable {
  const table: Instruction[][] = []
  for (const line of lines.trim().split('\n')) {
    const words = line.trim().split(/\s+/)
    if (words[0] === '|') table.at(-1)!.push(instructionOf(words.slice(1), values))
    else table.push([instructionOf(words, values)])
  }
  return table
}

function instructionOf([type, ...words]: string[], values: Values): Instruction {
  const accounts = words.filter((word) => !word.includes(':') && word !== '$')
  const data = words.filter((word) => word.includes(':')).map((word) => word.split(':'))
  return {
    type: type!,
    accounts: accounts.map(accountNamer),
    accountsLeast: accounts.filter((word) => !/[?~]$/.test(word)).length,
    data: data.map(([name, kind]) => [name!, readerOf(kind!, values)] as const),
    isExact: words.includes('$'),
  }
}

function readerOf(kind: string, values: Values): ReadValue {
  const [, name, mark, expected] = /^(\w+)([?~=]?)(.*)$/.exec(kind)!
  const read = values[name!] ?? instructionValues[name!]
  assert(read !== undefined, `no reader for ${kind}`)
  switch (mark) {
    case '=':
      return (cursor, source) => {
        const value = read(cursor, source)
        return String(value) === expected ? value : refuse(cursor)
      }
    case '?':
    case '~': {
      const absent = mark === '~' ? null : undefined
      return (cursor, source) => (readers.bool(cursor) ? read(cursor, source) : absent)
    }
    default:
      return read
  }
}

/**
 * Null for an unknown tag, malformed data, missing accounts, or none at all, even where none is
 * needed. The fields start at `at`.
 */
export function parseInstruction(
  alternatives: readonly Instruction[] | undefined,
  accounts: readonly string[],
  data: Uint8Array,
  at: number,
): Parsed | null {
  if (accounts.length === 0 || accounts.includes('')) return null
  for (const instruction of alternatives ?? []) {
    const source = { cursor: new Cursor(data, at), accounts, previous: undefined }
    const members = membersOf(instruction, source)
    if (members === null) continue
    return { info: members.size === 0 ? undefined : nested(members), type: instruction.type }
  }
  return null
}

function membersOf(instruction: Instruction, source: InstructionSource) {
  const members = new Map<string, unknown>()
  for (const [name, read] of instruction.data) {
    source.previous = read(source.cursor, source)
    members.set(name, source.previous)
  }
  const { cursor, accounts } = source
  if (cursor.isShort || (instruction.isExact && cursor.left > 0)) return null
  if (accounts.length < instruction.accountsLeast) return null
  let index = 0
  for (const nameAccounts of instruction.accounts) index = nameAccounts(accounts, index, members)
  members.delete('_')
  return members
}

/** The members in order, with those of `a.b` in an object `a`. */
function nested(members: ReadonlyMap<string, unknown>): Record<string, unknown> {
  const info: Record<string, unknown> = {}
  for (const name of [...members.keys()].sort()) {
    const dot = name.indexOf('.')
    if (dot < 0) info[name] = members.get(name)
    else {
      info[name.slice(0, dot)] ??= {}
      Object.assign(info[name.slice(0, dot)]!, { [name.slice(dot + 1)]: members.get(name) })
    }
  }
  return info
}
