// Parses account data of known programs for `jsonParsed`.
// Null for data that no parser knows; the caller then returns base64, as a validator does.
import { jsonText, sortedMembers } from '../../../base/json-text.ts'
import { encodeBase58, isSameKey, keyOf, keyText } from '../base58.ts'
import { Cursor } from '../cursor.ts'
import { programs, stakeConfig, sysvarOwner, sysvars, validatorInfo } from '../programs.ts'
import type { AccountParser } from '../ui-account.ts'
import { perVersion, type Shapes } from '../version.ts'
import { inOrder, layout, list, optional, type Read } from './layout.ts'
import type { Parsed, ParsedAccount, ReadAccount } from './parsed.ts'
import { parsedToken } from './token-accounts.ts'

interface ParsedData {
  readonly parsed: Parsed
  readonly program: string
  readonly space: number
}

type Parse = (account: ParsedAccount, read: ReadAccount, shapes: Shapes) => Parsed | null

const feeCalculator = layout('lamportsPerSignature:string')
const nonce = layout('authority:key blockhash:hash feeCalculator:feeCalculator', { feeCalculator })

const authorized = layout('staker:key withdrawer:key')
const lockup = layout('unixTimestamp:i64 epoch:u64 custodian:key')
const meta = layout('rentExemptReserve:string authorized:authorized lockup:lockup', {
  authorized,
  lockup,
})
const stakeParser = perVersion(({ stakeWithoutRate }) => {
  const delegation = layout(`voter:key stake:string activationEpoch:string deactivationEpoch:string
    ${stakeWithoutRate ? '_' : 'warmupCooldownRate'}:f64`)
  const stake = layout('delegation:delegation creditsObserved:u64', { delegation })
  return byTag([
    ['uninitialized', null],
    ['initialized', layout('meta:meta stake:none', { meta, none: () => null })],
    ['delegated', layout('meta:meta stake:stake _:u8', { meta, stake })],
    ['rewardsPool', null],
  ])
})

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
  [
    keyOf(programs.stake),
    { program: 'stake', parse: (account, _, shapes) => stakeParser(shapes)(account) },
  ],
  [
    keyOf(programs.vote),
    { program: 'vote', parse: (account, _, shapes) => parsedVote(account, shapes) },
  ],
  [keyOf(programs.config), { program: 'config', parse: parsedConfig }],
  [keyOf(programs.upgradeableLoader), { program: 'bpf-upgradeable-loader', parse: parsedProgram }],
  [keyOf(sysvarOwner), { program: 'sysvar', parse: parsedSysvar }],
])

export function parsedAccount(
  account: ParsedAccount,
  read: ReadAccount,
  shapes: Shapes,
): ParsedData | null {
  const parser = parsers.get(keyOf(account.owner))
  const parsed = parser?.parse(account, read, shapes) ?? null
  if (parser === undefined || parsed === null) return null
  return { parsed, program: parser.program, space: account.data.length }
}

/** A parser of accounts that begin with the number of their state, a u32; null has no members. */
function byTag(states: readonly (readonly [type: string, read: Read | null])[]) {
  return ({ data }: ParsedAccount): Parsed | null => {
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

// Parses accounts of the config program for `jsonParsed`.
//
//   count u8 (7 bits each, more bytes above 127) | { key[32], signer u8 }… | data
//   stake config:   rate f64 | penalty u8
//   validator info: JSON, prefixed by its length as u64

const readStakeConfig = layout('warmupCooldownRate:f64 slashPenalty:u8')
const readKey = layout('pubkey:key signer:bool')

function parsedConfig(
  { pubkey, data }: ParsedAccount,
  _: ReadAccount,
  shapes: Shapes,
): Parsed | null {
  const cursor = new Cursor(data)
  const count = compactCount(cursor)
  const first = data.subarray(data.length - cursor.left)
  const keys: unknown[] = []
  while (keys.length < count && !cursor.isShort) keys.push(readKey(cursor))
  if (!shapes.stakeConfigUnparsed && isSameKey(pubkey, stakeConfig)) {
    const info = readStakeConfig(cursor)
    return cursor.isShort ? null : { info, type: 'stakeConfig' }
  }
  if (count === 0 || !isSameKey(first.subarray(0, 32), validatorInfo)) return null
  const text = cursor.text(cursor.u64())
  const configData = cursor.isShort ? undefined : jsonValue(text)
  return configData === undefined ? null : { info: { configData, keys }, type: 'validatorInfo' }
}

function compactCount(cursor: Cursor): number {
  let count = 0
  for (let shift = 0; shift < 21; shift += 7) {
    const byte = cursor.u8()
    count |= (byte & 0x7f) << shift
    if (byte < 0x80) break
  }
  return count
}

/** Undefined when the text is not JSON. */
function jsonValue(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

// Parses sysvar accounts for `jsonParsed`.

const kinds = {
  feeCalculator: layout('lamportsPerSignature:string'),
  stake: layout('effective:u64 activating:u64 deactivating:u64'),
}

const readers: Readonly<Partial<Record<keyof typeof sysvars, Read>>> = {
  clock: layout(`slot:u64 epochStartTimestamp:i64 epoch:u64 leaderScheduleEpoch:u64
    unixTimestamp:i64`),
  epochRewards: layout(`distributionStartingBlockHeight:u64 numPartitions:u64 parentBlockhash:hash
    totalPoints:string128 totalRewards:string distributedRewards:string active:bool`),
  epochSchedule: layout(`slotsPerEpoch:u64 leaderScheduleSlotOffset:u64 warmup:bool
    firstNormalEpoch:u64 firstNormalSlot:u64`),
  fees: layout('feeCalculator:feeCalculator', kinds),
  lastRestartSlot: layout('lastRestartSlot:u64'),
  recentBlockhashes: list(layout('blockhash:hash feeCalculator:feeCalculator', kinds)),
  rent: layout('lamportsPerByteYear:string exemptionThreshold:f64 burnPercent:u8'),
  rewards: layout('validatorPointValue:f64 _:f64'),
  slotHashes: list(layout('slot:u64 hash:hash')),
  slotHistory: layout('bits:bits nextSlot:u64', { bits: readBits }),
  stakeHistory: list(layout('epoch:u64 stakeHistory:stake', kinds)),
}

const known = new Map(
  Object.entries(readers).map(([type, read]) => [
    // Reason for the cast: the table's type admits no other names.
    keyOf(sysvars[type as keyof typeof sysvars]),
    { type, read },
  ]),
)

const rentPerByte = layout('lamportsPerByte:string _:f64 _:u8')

function parsedSysvar(
  { pubkey, data }: ParsedAccount,
  _: ReadAccount,
  shapes: Shapes,
): Parsed | null {
  const sysvar = known.get(keyOf(pubkey))
  if (sysvar === undefined) return null
  const cursor = new Cursor(data)
  const read = sysvar.type === 'rent' && shapes.rentPerByte ? rentPerByte : sysvar.read
  const info = read(cursor)
  return cursor.isShort ? null : { info, type: sysvar.type }
}

/** Every slot history has as many bits: one for each of its last slots. */
const historyBits = 1024 * 1024
const zeroCharacter = 48

/** present u8 | words u64 | u64… | bits u64: one character per bit, slot 0 first. */
function readBits(cursor: Cursor): string {
  const isPresent = cursor.choice(2) === 1
  const words = isPresent ? cursor.u64() : 0n
  const bytes = words * 8n > cursor.left ? null : cursor.bytes(Number(words) * 8)
  if (bytes === null || cursor.u64() < historyBits || bytes.length * 8 < historyBits) {
    cursor.isShort = true
    return ''
  }
  const text = Buffer.alloc(historyBits)
  for (let slot = 0; slot < historyBits; slot++)
    text[slot] = zeroCharacter + ((bytes[slot >> 3]! >> (slot & 7)) & 1)
  return text.toString('latin1')
}

// Makes the parser of `jsonParsed` accounts for ui-account.ts.

/** `read` finds the mint of a token account, whose decimals are not in the account itself. */
export function accountParser(read: ReadAccount, shapes: Shapes): AccountParser {
  return (account) => {
    const parsed = parsedAccount(account, read, shapes)
    return parsed === null ? null : jsonText(sortedMembers(parsed))
  }
}

// Parses vote accounts for `jsonParsed`.
// Versions 1 and 2 are shown as version 4 (tag 3), with what its new members mean for them.
//
//   tag u32 | node[32] withdrawer[32]
//   tag 1, 2: commission u8
//   tag 3:    collectors [32] x 2 | commissions u16 x 2, in basis points | pending u64 | BLS option
//   votes: latency u8 (not tag 1), slot u64, confirmations u32 | root option | voters
//   tag 1, 2: 32 prior voters, not shown
//   epoch credits | last timestamp

const priorVotersBytes = 32 * 48 + 9
const blsKeyBytes = 48
/** In basis points. */
const percent = 100

const voteKinds = {
  blsKey: optional((cursor) => encodeBase58(cursor.bytes(blsKeyBytes))),
  votes: list(layout('latency:u8 slot:u64 confirmationCount:u32')),
  oldVotes: list(layout('latency:none slot:u64 confirmationCount:u32', { none: () => 0 })),
  voters: list(layout('epoch:u64 authorizedVoter:key')),
  priorVoters: (cursor: Cursor) => cursor.bytes(priorVotersBytes),
  credits: list(layout('epoch:u64 credits:string previousCredits:string')),
  timestamp: layout('slot:u64 timestamp:i64'),
}

const head = 'nodePubkey:key authorizedWithdrawer:key'
const middle = 'rootSlot:optionalU64 authorizedVoters:voters'
const end = 'epochCredits:credits lastTimestamp:timestamp'
const older = (votes: string) =>
  layout(`${head} commission:u8 votes:${votes} ${middle} _:priorVoters ${end}`, voteKinds)

/** By the tag; the first version is no longer parsed. */
const versions = [
  null,
  older('oldVotes'),
  older('votes'),
  layout(
    `${head} inflationRewardsCollector:key blockRevenueCollector:key
    inflationRewardsCommissionBps:u16 blockRevenueCommissionBps:u16
    pendingDelegatorRewards:string blsPubkeyCompressed:blsKey votes:votes ${middle} ${end}`,
    voteKinds,
  ),
]

export function parsedVote({ pubkey, data }: ParsedAccount, shapes: Shapes): Parsed | null {
  const cursor = new Cursor(data)
  const state = versions[cursor.u32()]?.(cursor)
  if (state === undefined || cursor.isShort) return null
  const { commission, inflationRewardsCommissionBps, nodePubkey } = state
  const added =
    commission === undefined
      ? { commission: percentOf(Number(inflationRewardsCommissionBps), shapes) }
      : {
          blockRevenueCollector: nodePubkey,
          blockRevenueCommissionBps: 100 * percent,
          blsPubkeyCompressed: null,
          inflationRewardsCollector: keyText(pubkey),
          inflationRewardsCommissionBps: Number(commission) * percent,
          pendingDelegatorRewards: '0',
        }
  return { info: inOrder({ ...state, ...added, priorVoters: [] }), type: 'vote' }
}

/** A byte, as in the older versions. */
function percentOf(bps: number, shapes: Shapes): number {
  return shapes.commissionBps
    ? Math.min(0xff, Math.ceil(bps / percent))
    : Math.floor(bps / percent) & 0xff
}
