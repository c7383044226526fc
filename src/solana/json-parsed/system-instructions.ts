// Parses instructions of the system program for `jsonParsed`. Thread: any (pure).
import { encodeBase58 } from '../base58.ts'
import { Cursor } from '../cursor.ts'
import { keyText } from '../key-text.ts'
import type { Parsed } from './parsed.ts'

type Read = (accounts: readonly string[], cursor: Cursor) => unknown

/** By tag (u32): name, accounts it must have, and how to read it. */
const instructions: readonly (readonly [type: string, accounts: number, read: Read])[] = [
  [
    'createAccount',
    2,
    ([source, newAccount], cursor) => {
      const lamports = cursor.u64()
      const space = cursor.u64()
      return { lamports, newAccount, owner: keyText(cursor.key()), source, space }
    },
  ],
  ['assign', 1, ([account], cursor) => ({ account, owner: keyText(cursor.key()) })],
  [
    'transfer',
    2,
    ([source, destination], cursor) => ({ destination, lamports: cursor.u64(), source }),
  ],
  [
    'createAccountWithSeed',
    2,
    ([source, newAccount], cursor) => {
      const base = keyText(cursor.key())
      const seed = cursor.text()
      const lamports = cursor.u64()
      const space = cursor.u64()
      return { base, lamports, newAccount, owner: keyText(cursor.key()), seed, source, space }
    },
  ],
  [
    'advanceNonce',
    3,
    ([nonceAccount, recentBlockhashesSysvar, nonceAuthority]) => ({
      nonceAccount,
      nonceAuthority,
      recentBlockhashesSysvar,
    }),
  ],
  [
    'withdrawFromNonce',
    5,
    ([nonceAccount, destination, recentBlockhashesSysvar, rentSysvar, nonceAuthority], cursor) => ({
      destination,
      lamports: cursor.u64(),
      nonceAccount,
      nonceAuthority,
      recentBlockhashesSysvar,
      rentSysvar,
    }),
  ],
  [
    'initializeNonce',
    3,
    ([nonceAccount, recentBlockhashesSysvar, rentSysvar], cursor) => ({
      nonceAccount,
      nonceAuthority: keyText(cursor.key()),
      recentBlockhashesSysvar,
      rentSysvar,
    }),
  ],
  [
    'authorizeNonce',
    2,
    ([nonceAccount, nonceAuthority], cursor) => ({
      newAuthorized: encodeBase58(cursor.key()),
      nonceAccount,
      nonceAuthority,
    }),
  ],
  ['allocate', 1, ([account], cursor) => ({ account, space: cursor.u64() })],
  [
    'allocateWithSeed',
    2,
    ([account], cursor) => {
      const base = keyText(cursor.key())
      const seed = cursor.text()
      const space = cursor.u64()
      return { account, base, owner: keyText(cursor.key()), seed, space }
    },
  ],
  [
    'assignWithSeed',
    2,
    ([account], cursor) => {
      const base = keyText(cursor.key())
      const seed = cursor.text()
      return { account, base, owner: keyText(cursor.key()), seed }
    },
  ],
  [
    'transferWithSeed',
    3,
    ([source, sourceBase, destination], cursor) => {
      const lamports = cursor.u64()
      const sourceSeed = cursor.text()
      const sourceOwner = keyText(cursor.key())
      return { destination, lamports, source, sourceBase, sourceOwner, sourceSeed }
    },
  ],
  ['upgradeNonce', 1, ([nonceAccount]) => ({ nonceAccount })],
]

export function parsedSystemInstruction(
  accounts: readonly string[],
  data: Uint8Array,
): Parsed | null {
  const cursor = new Cursor(data)
  const found = instructions[cursor.u32()]
  if (found === undefined || cursor.isShort) return null
  const [type, accountsLeast, read] = found
  if (accounts.length < accountsLeast) return null
  const info = read(accounts, cursor)
  return cursor.isShort ? null : { info, type }
}
