// Parses account data of known programs for `jsonParsed`.
// Null for data that no parser knows; the caller then returns base64, as a validator does.
import { Cursor } from '../cursor.ts'
import { keyText } from '../key-text.ts'
import { keyOf } from '../keys.ts'
import { programs, sysvarOwner } from '../programs.ts'
import { parsedConfig } from './config-account.ts'
import { layout, type Read } from './layout.ts'
import type { Parsed, ParsedAccount, ReadAccount } from './parsed.ts'
import { parsedSysvar } from './sysvars.ts'
import { parsedToken } from './token-accounts.ts'
import { parsedVote } from './vote-account.ts'

interface ParsedData {
  readonly parsed: Parsed
  readonly program: string
  readonly space: number
}

type Parse = (account: ParsedAccount, read: ReadAccount) => Parsed | null

const feeCalculator = layout('lamportsPerSignature:string')
const nonce = layout('authority:key blockhash:hash feeCalculator:feeCalculator', { feeCalculator })

const authorized = layout('staker:key withdrawer:key')
const lockup = layout('unixTimestamp:i64 epoch:u64 custodian:key')
const meta = layout('rentExemptReserve:string authorized:authorized lockup:lockup', {
  authorized,
  lockup,
})
const delegation = layout(`voter:key stake:string activationEpoch:string deactivationEpoch:string
  warmupCooldownRate:f64`)
const stake = layout('delegation:delegation creditsObserved:u64', { delegation })
const parsedStake = byTag([
  ['uninitialized', null],
  ['initialized', layout('meta:meta stake:none', { meta, none: () => null })],
  ['delegated', layout('meta:meta stake:stake _:u8', { meta, stake })],
  ['rewardsPool', null],
])

/** All that follows; an authority that is absent takes one byte only. */
const rest = (cursor: Cursor) => [
  Buffer.from(cursor.bytes(cursor.left)).toString('base64'),
  'base64',
]
const parsedProgram = byTag([
  ['uninitialized', null],
  ['buffer', layout('authority:optionalKey data:rest', { rest })],
  ['program', layout('programData:key')],
  ['programData', layout('slot:u64 authority:optionalKey data:rest', { rest })],
])

const lookupTable = layout(`deactivationSlot:string lastExtendedSlot:string
  lastExtendedSlotStartIndex:u8 authority:optionalKey`)

const parsers = new Map<string, { readonly program: string; readonly parse: Parse }>([
  [keyOf(programs.token), { program: 'spl-token', parse: parsedToken }],
  [keyOf(programs.token2022), { program: 'spl-token-2022', parse: parsedToken }],
  [keyOf(programs.system), { program: 'nonce', parse: parsedNonce }],
  [
    keyOf(programs.addressLookupTable),
    { program: 'address-lookup-table', parse: parsedLookupTable },
  ],
  [keyOf(programs.stake), { program: 'stake', parse: parsedStake }],
  [keyOf(programs.vote), { program: 'vote', parse: parsedVote }],
  [keyOf(programs.config), { program: 'config', parse: parsedConfig }],
  [keyOf(programs.upgradeableLoader), { program: 'bpf-upgradeable-loader', parse: parsedProgram }],
  [keyOf(sysvarOwner), { program: 'sysvar', parse: parsedSysvar }],
])

export function parsedAccount(account: ParsedAccount, read: ReadAccount): ParsedData | null {
  const parser = parsers.get(keyOf(account.owner))
  const parsed = parser?.parse(account, read) ?? null
  if (parser === undefined || parsed === null) return null
  return { parsed, program: parser.program, space: account.data.length }
}

/** A parser of accounts that begin with the number of their state, a u32; null has no members. */
function byTag(states: readonly (readonly [type: string, read: Read | null])[]): Parse {
  return ({ data }) => {
    const cursor = new Cursor(data)
    const [type, read] = states[cursor.u32()] ?? [null, null]
    const info = read?.(cursor)
    return type === null || cursor.isShort ? null : { info, type }
  }
}

/** version u32 | state u32 | authority[32] | nonce[32] | lamports per signature u64 */
function parsedNonce({ data }: ParsedAccount): Parsed | null {
  const cursor = new Cursor(data)
  const version = cursor.u32()
  const state = cursor.u32()
  // Only initialized nonces of a known version are shown.
  if (version > 1 || state !== 1) return null
  const info = nonce(cursor)
  return cursor.isShort ? null : { info, type: 'initialized' }
}

/** type u32 | deactivated u64 | extended u64 | start u8 | authority option 1 + [32] | pad 2 */
function parsedLookupTable({ data }: ParsedAccount): Parsed | null {
  const headBytes = 56
  const cursor = new Cursor(data)
  const type = cursor.u32()
  if (cursor.isShort) return null
  if (type === 0) return { info: undefined, type: 'uninitialized' }
  if (type !== 1 || data.length < headBytes || (data.length - headBytes) % 32 !== 0) return null
  const head = lookupTable(cursor)
  if (cursor.isShort) return null
  const list = new Cursor(data, headBytes)
  const addresses = Array.from({ length: list.left / 32 }, () => keyText(list.key()))
  // An absent authority is left out.
  const authority = head.authority ?? undefined
  return { info: { addresses, ...head, authority }, type: 'lookupTable' }
}
