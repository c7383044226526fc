// Parses account data of known programs for `jsonParsed`. Thread: any (pure).
// Null for data that no parser knows; the caller then returns base64, as a validator does.
import { Cursor } from '../cursor.ts'
import { keyText } from '../key-text.ts'
import { keyOf } from '../keys.ts'
import { programs, sysvarOwner } from '../programs.ts'
import type { Parsed, ParsedAccount, ReadAccount } from './parsed.ts'
import { parsedStake } from './stake-account.ts'
import { parsedSysvar } from './sysvars.ts'
import { parsedToken } from './token-accounts.ts'

interface ParsedData {
  readonly parsed: Parsed
  readonly program: string
  readonly space: number
}

type Parse = (account: ParsedAccount, read: ReadAccount) => Parsed | null

const parsers = new Map<string, { readonly program: string; readonly parse: Parse }>([
  [keyOf(programs.token), { program: 'spl-token', parse: parsedToken }],
  [keyOf(programs.token2022), { program: 'spl-token-2022', parse: parsedToken }],
  [keyOf(programs.system), { program: 'nonce', parse: parsedNonce }],
  [
    keyOf(programs.addressLookupTable),
    { program: 'address-lookup-table', parse: parsedLookupTable },
  ],
  [keyOf(programs.stake), { program: 'stake', parse: parsedStake }],
  [keyOf(programs.upgradeableLoader), { program: 'bpf-upgradeable-loader', parse: parsedProgram }],
  [keyOf(sysvarOwner), { program: 'sysvar', parse: parsedSysvar }],
])

export function parsedAccount(account: ParsedAccount, read: ReadAccount): ParsedData | null {
  const parser = parsers.get(keyOf(account.owner))
  const parsed = parser?.parse(account, read) ?? null
  if (parser === undefined || parsed === null) return null
  return { parsed, program: parser.program, space: account.data.length }
}

/** version u32 | state u32 | authority[32] | nonce[32] | lamports per signature u64 */
function parsedNonce({ data }: ParsedAccount): Parsed | null {
  const nonceBytes = 80
  if (data.length !== nonceBytes) return null
  const cursor = new Cursor(data)
  const version = cursor.u32()
  const state = cursor.u32()
  // Only initialized nonces of a known version are shown.
  if (version > 1 || state !== 1) return null
  return {
    info: {
      authority: keyText(cursor.key()),
      blockhash: keyText(cursor.key()),
      feeCalculator: { lamportsPerSignature: String(cursor.u64()) },
    },
    type: 'initialized',
  }
}

/** type u32 | deactivated u64 | extended u64 | start u8 | authority option 1 + [32] | pad 2 */
function parsedLookupTable({ data }: ParsedAccount): Parsed | null {
  const headBytes = 56
  const cursor = new Cursor(data)
  const type = cursor.u32()
  if (data.length < headBytes) return null
  if (type === 0) return { info: null, type: 'uninitialized' }
  if (type !== 1 || (data.length - headBytes) % 32 !== 0) return null
  const deactivationSlot = String(cursor.u64())
  const lastExtendedSlot = String(cursor.u64())
  const lastExtendedSlotStartIndex = cursor.u8()
  const authority = cursor.u8() === 1 ? keyText(cursor.key()) : undefined
  const list = new Cursor(data, headBytes)
  const addresses = Array.from({ length: list.left / 32 }, () => keyText(list.key()))
  return {
    info: {
      addresses,
      authority,
      deactivationSlot,
      lastExtendedSlot,
      lastExtendedSlotStartIndex,
    },
    type: 'lookupTable',
  }
}

/** Tag u32: 0 nothing, 1 buffer (authority), 2 program (its data), 3 program data (slot, …). */
function parsedProgram({ data }: ParsedAccount): Parsed | null {
  const programDataHeadBytes = 45
  const bufferHeadBytes = 37
  const cursor = new Cursor(data)
  const tag = cursor.u32()
  if (cursor.isShort) return null
  const rest = (at: number) => [Buffer.from(data.subarray(at)).toString('base64'), 'base64']
  switch (tag) {
    case 0:
      return { info: null, type: 'uninitialized' }
    case 1: {
      const authority = cursor.u8() === 1 ? keyText(cursor.key()) : null
      return { info: { authority, data: rest(bufferHeadBytes) }, type: 'buffer' }
    }
    case 2:
      return { info: { programData: keyText(cursor.key()) }, type: 'program' }
    case 3: {
      const slot = cursor.u64()
      const authority = cursor.u8() === 1 ? keyText(cursor.key()) : null
      return { info: { authority, data: rest(programDataHeadBytes), slot }, type: 'programData' }
    }
    default:
      return null
  }
}
