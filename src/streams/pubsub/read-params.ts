// Reads the params of the subscribe methods, with the errors a validator gives.
// Unknown members are ignored, as a validator does. What has no effect on a notification
// is brought to one form, so that subscriptions to the same notifications share a feed.
import { Commitment, commitmentNamed } from '../../base/commitment.ts'
import { type RpcError, rpcErrors } from '../../base/jsonrpc/build.ts'
import {
  invalidType,
  readVariant,
  unknownVariant,
  type Variants,
  wholeNumberProblem,
} from '../../base/serde-text.ts'
import { type AccountFilter, readAccountFilters } from '../../chain/solana/account-filter.ts'
import { decodeBase58, decodeKey, keyOf } from '../../chain/solana/base58.ts'
import {
  dataPrefixBytesMax,
  type InstructionFilter,
  instructionsMax,
} from '../../chain/solana/instruction-filter.ts'
import {
  type AccountView,
  accountEncodings,
  type DataSlice,
} from '../../chain/solana/ui-account.ts'
import {
  type TransactionView,
  transactionDetails,
  transactionEncodings,
} from '../../chain/solana/ui-transaction.ts'
import { readCursor, windowSlots } from './cursor.ts'
import { changingLists, type KeysDelta } from './key-changes.ts'

/** Keys in one list of a transaction filter. */
const FILTER_KEYS_MAX = 64
const SIGNATURE_BYTES = 64
/** The newest transaction version there is; what an absent bound means on our own method. */
const VERSION_NEWEST = 1
const ENCODING_INITIAL = 'base64'
/** No account has more data. */
const ACCOUNT_BYTES_MAX = 10_485_760

/** `topic` is the name of what is subscribed to: `account` for accountSubscribe. */
export function readParams(topic: Topic, params: unknown): SubscriptionParams | RpcError {
  return isOfSlots(topic) ? readNone(params, topic) : read(params, readers[topic])
}

type Reader = (list: readonly unknown[]) => SubscriptionParams

const readers: Readonly<Record<Exclude<Topic, SlotParams['kind']>, Reader>> = {
  account: ([key, config]) => {
    const given = configOf(config, 'RpcAccountInfoConfig')
    return { kind: 'account', ...ofAccounts(key, given), ...everyWrite(given) }
  },
  tokenOwner: ([key, config]) => {
    return { kind: 'tokenOwner', ...ofAccounts(key, configOf(config, 'RpcAccountInfoConfig')) }
  },
  program: ([key, config]) => {
    const given = configOf(config, 'RpcProgramAccountsConfig')
    const program = keyFrom(key, 'pubkey')
    const taken = readAccountFilters(given.filters)
    if (!taken.ok) {
      const { code, message } = taken.refusal
      throw new Invalid(code === 'malformed' ? message : `Invalid params: ${message}`)
    }
    const view = accountView(given)
    const filters = distinct(taken.value)
    const at = atCommitment(given)
    return { kind: 'program', ...at, key: program, view, filters, ...everyWrite(given) }
  },
  logs: ([filter, config]) => {
    const at = atCommitment(configOf(config, 'RpcTransactionLogsConfig'))
    const { name, content } = variantOf(filter, logsFilters)
    if (name !== 'mentions')
      return { kind: 'logs', ...at, mention: null, withVotes: name === 'allWithVotes' }
    const mentions = listOf(content)
    if (mentions.length !== 1) throw new Invalid('Invalid Request: Only 1 address supported')
    const mention = keyFrom(mentions[0], 'mentions')
    return { kind: 'logs', ...at, mention, withVotes: true }
  },
  signature: ([signature, config]) => {
    const { cursor, resume, ...given } = configOf(config, 'RpcSignatureSubscribeConfig')
    const expiry = 'lastValidBlockHeight'
    return {
      kind: 'signature',
      ...atCommitment(given),
      key: signatureFrom(signature),
      withReceived: flagOf(given.enableReceivedNotification) ?? false,
      ...(resume == null ? {} : { fromSlot: slotFrom(resume) }),
      ...(given[expiry] == null ? {} : { expiresAt: countOf(given, expiry, 'u64') }),
    }
  },
  block: ([filter, config]) => {
    const { retractions, ...given } = configOf(config, 'RpcBlockSubscribeConfig')
    const at = atCommitment(given)
    if (at.commitment === Commitment.processed)
      throw new Invalid('Method does not support commitment below `confirmed`')
    const view = transactionView(given)
    const { name, content } = variantOf(filter, blockFilters)
    const mention = name === 'all' ? null : keyFrom(content, 'mentions_account_or_program')
    return { kind: 'block', ...at, mention, view }
  },
  transaction: ([filter, config]) => {
    const given = configOf(config, 'RpcTransactionSubscribeConfig')
    const version = given.maxSupportedTransactionVersion ?? VERSION_NEWEST
    const view = transactionView({ ...given, maxSupportedTransactionVersion: version })
    const showRewards = view.showRewards && showsContent(view)
    const params: TransactionParams = {
      kind: 'transaction',
      ...atCommitment(given),
      filter: transactionFilter(configOf(filter, 'RpcTransactionSubscribeFilter')),
      view: { ...view, showRewards },
      ...(flagOf(given.blockTime) === true && { blockTime: true }),
      ...(flagOf(given.accountStates) === true && { accountStates: true }),
    }
    if (params.accountStates) checkStates(params)
    return params
  },
}

/** What a subscribe resumes after; undefined for none. */
export function resumeIn(topic: Topic, params: unknown): unknown {
  const config: unknown = Array.isArray(params) ? params[isOfSlots(topic) ? 0 : 1] : null
  return (config as Config | null | undefined)?.resume ?? undefined
}

function isOfSlots(topic: Topic): topic is SlotParams['kind'] {
  return topic === 'slot' || topic === 'slotsUpdates' || topic === 'root'
}

/** The id of an unsubscribe; null when absent or invalid. */
export function readId(params: unknown): number | null {
  const id: unknown = Array.isArray(params) && params.length === 1 ? params[0] : null
  return typeof id === 'number' && Number.isSafeInteger(id) && id >= 0 ? id : null
}

/** A change of the keys of a subscription. */
export interface KeysChange {
  readonly id: number
  readonly delta: KeysDelta
  /** Further ones follow: a subscription that is resumed waits for the last of them. */
  readonly hasMore: boolean
}

export function readKeysChange(params: unknown): KeysChange | RpcError {
  const [id, config] = Array.isArray(params) ? (params as unknown[]) : []
  const known = readId([id])
  if (known === null || (params as unknown[]).length !== 2) return rpcErrors.invalidParams
  return tried(() => {
    const { add, remove, more, ...others } = configOf(config, 'RpcTransactionUpdateConfig')
    // A list that is not in `add` or `remove` would change nothing.
    const [unknown] = Object.keys(others)
    if (unknown !== undefined) throw malformed(unknownVariant(unknown, ['add', 'remove', 'more']))
    const [adds, removes] = [keysOfLists(add), keysOfLists(remove)]
    const of = (list: keyof KeysDelta) => ({ add: adds[list], remove: removes[list] })
    const delta = { include: of('include'), exclude: of('exclude'), required: of('required') }
    return { id: known, delta, hasMore: flagOf(more) ?? false }
  })
}

function keysOfLists(value: unknown): Record<keyof KeysDelta, ReadonlySet<string>> {
  const none = new Set<string>()
  const found = { include: none, exclude: none, required: none }
  for (const [name, keys] of Object.entries(configOf(value, 'RpcTransactionUpdateKeys'))) {
    if (!Object.hasOwn(changingLists, name))
      throw malformed(unknownVariant(name, Object.keys(changingLists)))
    // Reason for the cast: the name is in the table.
    const list = changingLists[name as keyof typeof changingLists]
    found[list] = new Set(listOf(keys).map((key) => keyFrom(key, 'pubkey')))
  }
  return found
}

/** Whether changes of keys follow the subscribe, before which nothing is replayed. */
export function hasMoreIn(params: unknown): boolean {
  const config: unknown = Array.isArray(params) ? params[1] : null
  return (config as Config | null | undefined)?.more === true
}

/** Thrown and caught inside this file: the readers are deep and a refusal ends them all. */
class Invalid extends Error {}

function tried<T>(take: () => T): T | RpcError {
  try {
    return take()
  } catch (error) {
    if (error instanceof Invalid) return refusal(error.message)
    throw error
  }
}

function read(params: unknown, take: Reader): SubscriptionParams | RpcError {
  const list = params ?? []
  if (!Array.isArray(list)) return refusal('`params` should be an array')
  if (list.length === 0) return refusal('`params` should have at least 1 argument(s)')
  if (list.length > 2)
    return {
      ...refusal('Invalid parameters: Expected from 1 to 2 parameters.'),
      data: JSON.stringify(`Got: ${list.length}`),
    }
  return tried(() => take(list))
}

function readNone(params: unknown, kind: SlotParams['kind']): SubscriptionParams | RpcError {
  const isNone = params === undefined || (Array.isArray(params) && params.length === 0)
  if (isNone) return { kind }
  // Our own: a validator knows no params here. A root is final.
  const config: unknown = Array.isArray(params) && params.length === 1 ? params[0] : null
  const { retractions, cursor, resume } = (config ?? {}) as Config
  if (cursor === true || typeof resume === 'string') {
    if (kind === 'slotsUpdates') return refusal('Invalid params: slotsUpdates has no cursor')
    return retractions === true ? refusal(exclusive) : { kind, cursor: true }
  }
  if (kind !== 'root' && typeof retractions === 'boolean')
    return retractions ? { kind, retractions } : { kind }
  if (typeof cursor === 'boolean') return { kind }
  return refusal('Invalid parameters: No parameters were expected')
}

function refusal(message: string): RpcError {
  return { code: rpcErrors.invalidParams.code, message }
}

/** A problem in the words of a validator's deserializer. */
function malformed(problem: string): Invalid {
  return new Invalid(`Invalid params: ${problem}.`)
}

type Config = Readonly<Record<string, unknown>>

function configOf(value: unknown, struct: string): Config {
  if (value === undefined || value === null) return {}
  if (typeof value !== 'object' || Array.isArray(value))
    throw malformed(invalidType(value, `struct ${struct}`))
  return value as Config
}

const logsFilters = { all: false, allWithVotes: false, mentions: true }
const blockFilters = { all: false, mentionsAccountOrProgram: true }

function variantOf<T extends Variants>(
  value: unknown,
  known: T,
): { readonly name: keyof T; readonly content: unknown } {
  const variant = readVariant(value, known)
  if (typeof variant === 'string') throw malformed(variant)
  return variant
}

function listOf(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw malformed(invalidType(value, 'a sequence'))
  return value
}

const exclusive = 'Invalid params: cursor and retractions exclude each other'

/** Retractions are of what is notified at processed. Who resumes goes on with cursors. */
function atCommitment(config: Config): OptIns {
  // Where it is absent or unknown, as on a validator.
  const commitment = commitmentNamed(config.commitment) ?? Commitment.finalized
  const asked = flagOf(config.retractions) ?? false
  const retractions = asked && commitment === Commitment.processed
  const cursor = (flagOf(config.cursor) ?? false) || (config.resume ?? null) !== null
  if (cursor && retractions) throw new Invalid(exclusive)
  if (cursor) return { commitment, cursor }
  return retractions ? { commitment, retractions } : { commitment }
}

function keyFrom(value: unknown, thing: string): string {
  const key = decodeKey(textOf(value))
  if (key === null) throw new Invalid(`Invalid Request: Invalid ${thing} provided`)
  return keyOf(key)
}

function textOf(value: unknown): string {
  if (typeof value !== 'string') throw malformed(invalidType(value ?? null, 'a string'))
  return value
}

function signatureFrom(value: unknown): string {
  const bytes = decodeBase58(textOf(value))
  if (bytes?.length !== SIGNATURE_BYTES)
    throw new Invalid('Invalid Request: Invalid signature provided')
  return keyOf(bytes)
}

/** Of a slot, or of a cursor of any subscription: what came before its window was seen. */
function slotFrom(value: unknown): number {
  if (typeof value === 'number') return countOf({ resume: value }, 'resume', 'u64')
  const cursor = readCursor(textOf(value))
  if (typeof cursor === 'string') throw new Invalid('Invalid params: the cursor is malformed')
  return Math.max(0, cursor.top - windowSlots)
}

function ofAccounts(key: unknown, given: Config) {
  return { ...atCommitment(given), key: keyFrom(key, 'pubkey'), view: accountView(given) }
}

function accountView({ encoding, dataSlice }: Config): AccountView {
  return {
    encoding: oneOf(encoding, accountEncodings, 'binary'),
    dataSlice: dataSlice === undefined || dataSlice === null ? null : sliceFrom(dataSlice),
  }
}

function everyWrite({ allWrites }: Config): Pick<AccountParams, 'allWrites'> {
  return flagOf(allWrites) === true ? { allWrites: true } : {}
}

/** Cut to the data that an account can have; null for all of it. */
function sliceFrom(value: unknown): DataSlice | null {
  const slice = configOf(value, 'UiDataSliceConfig')
  const offset = Math.min(countOf(slice, 'offset', 'usize'), ACCOUNT_BYTES_MAX)
  const length = Math.min(countOf(slice, 'length', 'usize'), ACCOUNT_BYTES_MAX - offset)
  if (length === ACCOUNT_BYTES_MAX) return null
  return length === 0 ? { offset: 0, length } : { offset, length }
}

/** Each filter once, in a fixed order. */
function distinct<T>(filters: readonly T[]): T[] {
  const byText = new Map(filters.map((filter) => [JSON.stringify(filter), filter]))
  return [...byText.keys()].sort().map((text) => byText.get(text)!)
}

function transactionView(config: Config): TransactionView {
  const bound = 'maxSupportedTransactionVersion'
  const isBounded = (config[bound] ?? null) !== null
  const view: TransactionView = {
    encoding: oneOf(config.encoding, transactionEncodings, ENCODING_INITIAL),
    details: oneOf(config.transactionDetails, transactionDetails, 'full'),
    showRewards: flagOf(config.showRewards) ?? false,
    // Bounds beyond the newest version mean the same.
    versionMax: isBounded ? Math.min(VERSION_NEWEST, countOf(config, bound, 'u8')) : null,
    isSorted: false,
  }
  if (view.details === 'full') return view
  const shown: TransactionView = { ...view, encoding: ENCODING_INITIAL }
  return showsContent(view) ? shown : { ...shown, versionMax: VERSION_NEWEST }
}

/** False where a transaction is at most a signature. */
function showsContent({ details }: TransactionView): boolean {
  return details === 'full' || details === 'accounts'
}

/** Takes `accountInclude` and `accounts.include` alike: public providers write it both ways. */
function transactionFilter(filter: Config): TransactionFilter {
  const nested = configOf(filter.accounts, 'RpcTransactionSubscribeAccounts')
  return {
    isVote: flagOf(filter.vote),
    isFailed: flagOf(filter.failed),
    signature: filter.signature == null ? null : signatureFrom(filter.signature),
    include: keysFrom(filter.accountInclude ?? nested.include),
    exclude: keysFrom(filter.accountExclude ?? nested.exclude),
    required: keysFrom(filter.accountRequired ?? nested.required),
    instructions: instructionsFrom(filter.instructions),
  }
}

/** States are of whole slots of the chain, and of accounts that are named. */
function checkStates({ commitment, filter }: TransactionParams): void {
  if (commitment === Commitment.processed)
    throw new Invalid('Invalid params: accountStates: only at `confirmed` and `finalized`')
  if (filter.include.length === 0)
    throw new Invalid('Invalid params: accountStates: needs keys in accountInclude')
}

/** Sorted, so that equal lists are equal texts. */
function instructionsFrom(value: unknown): InstructionFilter[] {
  if (value === undefined || value === null) return []
  const asked = listOf(value)
  if (asked.length > instructionsMax)
    throw new Invalid(`Invalid params: a filter has at most ${instructionsMax} instructions`)
  const read = asked.map((one): InstructionFilter => {
    const { program, dataPrefix } = configOf(one, 'RpcInstructionFilter')
    const bytes = dataPrefix == null ? new Uint8Array() : decodeBase58(textOf(dataPrefix))
    if (bytes === null || bytes.length > dataPrefixBytesMax)
      throw new Invalid(
        `Invalid params: dataPrefix is base58 of at most ${dataPrefixBytesMax} bytes`,
      )
    return { program: keyFrom(program, 'program'), dataPrefix: keyOf(bytes) }
  })
  return distinct(read)
}

function keysFrom(value: unknown): string[] {
  if (value === undefined || value === null) return []
  const keys = listOf(value)
  if (keys.length > FILTER_KEYS_MAX)
    throw new Invalid(`Invalid params: a list has at most ${FILTER_KEYS_MAX} keys`)
  return [...new Set(keys.map((key) => keyFrom(key, 'pubkey')))].sort()
}

function flagOf(value: unknown): boolean | null {
  if (value === undefined || value === null) return null
  if (typeof value !== 'boolean') throw malformed(invalidType(value, 'a boolean'))
  return value
}

function countOf(config: Config, name: string, type: string): number {
  const value = config[name]
  const problem =
    value === undefined ? `missing field \`${name}\`` : wholeNumberProblem(value, type)
  if (problem !== null) throw malformed(problem)
  return Number(value)
}

function oneOf<const T extends string>(value: unknown, known: readonly T[], initial: T): T {
  if (value === undefined || value === null) return initial
  if (typeof value !== 'string') throw malformed(invalidType(value, 'string or map'))
  const found = known.find((one) => one === value)
  if (found === undefined) throw malformed(unknownVariant(value, known))
  return found
}

// The params of a subscription, read and checked.
// Keys and signatures are binary strings (`keyOf`); lists are sorted, so that equal params are
// equal texts.

interface OptIns {
  readonly commitment: Commitment
  /** Whether notifications that turn out to be void are taken back. */
  readonly retractions?: true
  /** Whether each notification has the cursor after which it can be resumed. */
  readonly cursor?: true
}

export interface AccountParams extends OptIns {
  readonly kind: 'account'
  readonly key: string
  readonly view: AccountView
  /** Whether each write of a slot is notified, not the last one alone. */
  readonly allWrites?: true
}

export interface ProgramParams extends Omit<AccountParams, 'kind'> {
  readonly kind: 'program'
  readonly filters: readonly AccountFilter[]
}

/** The token accounts of a wallet, of both token programs. */
export interface TokenOwnerParams extends Omit<AccountParams, 'kind' | 'allWrites'> {
  readonly kind: 'tokenOwner'
}

export interface LogsParams extends OptIns {
  readonly kind: 'logs'
  /** Null for every transaction. */
  readonly mention: string | null
  readonly withVotes: boolean
}

export interface SignatureParams extends OptIns {
  readonly kind: 'signature'
  readonly key: string
  readonly withReceived: boolean
  /** It may have landed from this slot on, before the subscribe. */
  readonly fromSlot?: number
  /** The block height after which it cannot land any more. */
  readonly expiresAt?: number
}

export interface BlockParams extends Omit<OptIns, 'retractions'> {
  readonly kind: 'block'
  /** Null for whole blocks. */
  readonly mention: string | null
  readonly view: TransactionView
}

export interface TransactionParams extends OptIns {
  readonly kind: 'transaction'
  readonly filter: TransactionFilter
  readonly view: TransactionView
  readonly blockTime?: true
  /** Whether states of the accounts in `include` before and after are joined. */
  readonly accountStates?: true
}

/** Members are joined by and; within `include` any key will do. Null takes both. */
export interface TransactionFilter {
  readonly isVote: boolean | null
  readonly isFailed: boolean | null
  readonly signature: string | null
  readonly include: readonly string[]
  readonly exclude: readonly string[]
  readonly required: readonly string[]
  /** One of them must be run; none is no condition. */
  readonly instructions: readonly InstructionFilter[]
}

export interface SlotParams extends Omit<OptIns, 'commitment'> {
  readonly kind: 'slot' | 'slotsUpdates' | 'root'
}

export type SubscriptionParams =
  | AccountParams
  | ProgramParams
  | TokenOwnerParams
  | LogsParams
  | SignatureParams
  | BlockParams
  | TransactionParams
  | SlotParams

export const topics = [
  'account',
  'block',
  'logs',
  'program',
  'root',
  'signature',
  'slot',
  'slotsUpdates',
  'tokenOwner',
  'transaction',
] as const
export type Topic = (typeof topics)[number]

export function hasRetractions(params: SubscriptionParams): boolean {
  return 'retractions' in params
}

export function hasCursor(params: SubscriptionParams): boolean {
  return 'cursor' in params
}

/** Equal for equal params. */
export function paramsText(params: SubscriptionParams): string {
  return JSON.stringify(params)
}
