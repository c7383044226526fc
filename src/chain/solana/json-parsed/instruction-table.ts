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
//   %x,y    the accounts that hold proofs, see `proofMembers`; `%%` keeps two others after them
//   ^x,y    the same from agave 4.3 on: only proofs that are in an account have one
//   x:t=0   a field that must have this value
//   $       the end of the data: no byte may follow
import { assert } from '../../../base/errors.ts'
import { Cursor } from '../cursor.ts'
import { type UiTokenAmount, uiTokenAmount } from '../token-account.ts'
import { base64, list, type Read, readers } from './layout.ts'
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

// Names the accounts of instructions for `jsonParsed`, by the words of instruction-table.ts.

/** Adds the accounts from `index` on; returns the index of the next one. */
export type NameAccounts = (
  accounts: readonly string[],
  index: number,
  members: Map<string, unknown>,
) => number

export function accountNamer(word: string): NameAccounts {
  const name = word.replace(/^\W+|[?~]$/g, '')
  switch (word[0]) {
    case '.':
      return (accounts, index, members) => {
        members.set(name, accounts.slice(index))
        return accounts.length
      }
    case '@':
      return signerMembers(name)
    case '%':
    case '^':
      return proofMembers(name, { isRecorded: word[0] === '%', kept: word[1] === word[0] ? 2 : 1 })
    default: {
      const absent = word.endsWith('~') ? null : undefined
      return (accounts, index, members) => {
        members.set(name, accounts[index] ?? absent)
        return index + 1
      }
    }
  }
}

function signerMembers(word: string): NameAccounts {
  const [signer, alias] = word.split('=') as [string, string?]
  const multisig = alias ?? `multisig${signer[0]!.toUpperCase()}${signer.slice(1)}`
  return (accounts, index, members) => {
    if (accounts.length === index + 1) members.set(signer, accounts[index])
    else {
      members.set(multisig, accounts[index])
      members.set('signers', accounts.slice(index + 1))
    }
    return accounts.length
  }
}

/**
 * A proof is in another instruction of the transaction, at an offset that the data has, or, when
 * the offset is 0, in an account. With any offset but 0 the sysvar of instructions precedes. All
 * accounts but the `kept` ones are taken for proofs: the signers of a multisig look the same.
 */
function proofMembers(
  word: string,
  { isRecorded, kept }: { readonly isRecorded: boolean; readonly kept: number },
): NameAccounts {
  const [list, alias] = word.split('=') as [string, string?]
  const proofs = list.split(',').map((proof) => ({
    offset: `${proof}InstructionOffset`,
    context: `${proof}ContextStateAccount`,
    record: alias ?? `${proof}RecordAccount`,
  }))
  return (accounts, start, members) => {
    const end = accounts.length - kept
    let index = start
    if (index < end && proofs.some(({ offset }) => members.get(offset) !== 0))
      members.set('instructionsSysvar', accounts[index++])
    for (const { offset, context, record } of proofs) {
      if (index >= end) break
      const isInAccount = members.get(offset) === 0
      if (isInAccount || isRecorded) members.set(isInAccount ? context : record, accounts[index++])
    }
    return index
  }
}

// Reads the data fields of instructions for `jsonParsed`: what they have besides layout.ts.

export interface InstructionSource {
  readonly cursor: Cursor
  /** Without those that a field has taken off the end. */
  accounts: readonly string[]
  /** The value of the field before. */
  previous: unknown
}

export type ReadValue = (cursor: Cursor, source: InstructionSource) => unknown

/** The value does not exist: the data is malformed. */
export function refuse(cursor: Cursor): undefined {
  cursor.isShort = true
}

/** The name at the index that `read` returns; `-` is no name. */
export function oneOf(names: string, read: (cursor: Cursor) => number): Read {
  const all = names.trim().split(/\s+/)
  return (cursor) => {
    const name = all[read(cursor)]
    return name === undefined || name === '-' ? refuse(cursor) : name
  }
}

export const instructionValues: Readonly<Record<string, ReadValue>> = {
  ...readers,
  i8: (cursor) => (cursor.u8() << 24) >> 24,
  /** Omitted when all bytes are 0. */
  nonZeroKey: (cursor) => readers.keyOrNull(cursor) ?? undefined,
  keys: list(readers.key),
  /** Two ElGamal ciphertexts. */
  auditorCiphertexts: (cursor) => cursor.bytes(128),
  /** Prefixed by the length as u64. */
  bytes(cursor) {
    const length = cursor.u64()
    return length > cursor.left ? refuse(cursor) : base64(cursor.bytes(Number(length)))
  },
  text: (cursor) => cursor.text(cursor.u64()),
  /** Up to the end of the data. */
  rest: (cursor) => cursor.text(cursor.left),
  tokenAmount(cursor) {
    const amount = cursor.u64()
    return uiTokenAmount(amount, cursor.u8())
  },
  // Reason for the cast: it follows the token amount, whose decimals it has.
  tokenFee: (cursor, { previous }) =>
    uiTokenAmount(cursor.u64(), (previous as UiTokenAmount).decimals),
  /** So many accounts at the end of the list. */
  lastAccounts(cursor, source) {
    const start = source.accounts.length - cursor.u8()
    if (start < 0) return refuse(cursor)
    const last = source.accounts.slice(start)
    source.accounts = source.accounts.slice(0, start)
    return last
  },
  accountState: oneOf('uninitialized initialized frozen', readers.u8),
  /** A field of token metadata: one of the fixed ones, or a key of its own. */
  metadataField(cursor) {
    const field = cursor.choice(4)
    return ['name', 'symbol', 'uri'][field] ?? readers.shortText(cursor)
  },
  accountAuthority: oneOf('- - accountOwner closeAccount', readers.u8),
  stakeAuthority: oneOf('Staker Withdrawer', readers.u32),
}
