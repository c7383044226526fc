// Compiles a SubscribeRequest into a FilterSet, or reports the invalid field.
// Pure; refuses, never throws. Limits are yellowstone's.
import { createHash, randomUUID } from 'node:crypto'
import { Commitment, isCommitment } from '../../base/commitment.ts'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { decodeBase58, decodeKey, encodeBase58, keyOf } from '../../chain/solana/base58.ts'
import {
  dataPrefixBytesMax,
  type InstructionFilter,
  instructionsMax,
} from '../../chain/solana/instruction-filter.ts'
import { KeyList, type KeyText, settledSlots } from '../hub/key-list.ts'
import {
  type AccountsRequest,
  type BlocksRequest,
  bigintOf,
  type CuckooRequest,
  given,
  type InstructionRequest,
  type KeyChangeRequest,
  type KeysRequest,
  numberOf,
  type SlotsRequest,
  type StateFilterRequest,
  type SubscribeRequest,
  type TransactionsRequest,
} from './codec.ts'
import {
  type AccountFilter,
  type BlockFilter,
  Cuckoo,
  type DataSlice,
  type FilterSet,
  fingerprintBits,
  fingerprintsPerBucket,
  type KeyChange,
  keysAt,
  type ListAt,
  type NamedFilter,
  type SlotFilter,
  type StateFilter,
  type TransactionFilter,
} from './filter-set.ts'
import { namePrefix } from './frame.ts'
import { StreamStates, watchedMax } from './joined-states.ts'

export interface FilterLimits {
  /** Named filters of one kind. */
  readonly filtersMax: number
  /** Keys in one list of one filter. */
  readonly accountsMax: number
  readonly ownersMax: number
  readonly dataSlicesMax: number
  readonly cuckooBytesMax: number
  /** Whether a filter without conditions is allowed. */
  readonly any: boolean
  readonly accountReject: ReadonlySet<string>
  readonly ownerReject: ReadonlySet<string>
}

const nameBytesMax = 128
/** Of one request: each is asked for every key of every update. */
const cuckoosMax = 10

export function compileFilters(
  request: SubscribeRequest,
  limits: FilterLimits,
): Outcome<FilterSet> {
  return tried('failed to create filter', () => compile(request, limits))
}

/** Compiles changes of keys for the filters of a stream; all of them are valid, or none is made. */
export function compileKeyChanges(
  request: KeysRequest,
  filters: FilterSet,
  limits: FilterLimits,
): Outcome<readonly KeyChange[]> {
  return tried('failed to change keys', () => {
    const seen = new Set<KeyList>()
    return request.changes.map((change) => {
      const compiled = keyChange(change, filters, limits)
      const keys = keysAt(filters, compiled)
      if (seen.has(keys)) throw new Problem(`${quote(change.filter)}: a list is changed twice`)
      seen.add(keys)
      return compiled
    })
  })
}

function tried<T>(what: string, run: () => T): Outcome<T> {
  try {
    return accept(run())
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    return refuse('invalid', 'bad-filter', `${what}: ${error.message}`)
  }
}

/** Number of keys in all lists of the request: the cost of compiling it. */
export function countKeys(request: SubscribeRequest): number {
  let keys = 0
  for (const { account, owner } of Object.values(request.accounts))
    keys += account.length + owner.length
  for (const { accountInclude } of Object.values(request.blocks)) keys += accountInclude.length
  for (const filters of [request.transactions, request.transactionsStatus])
    for (const filter of Object.values(filters)) {
      const { accountInclude, accountExclude, accountRequired, instructions } = filter
      keys += accountInclude.length + accountExclude.length + accountRequired.length
      keys += instructions.length
    }
  for (const { add, remove } of request.keys?.changes ?? []) keys += add.length + remove.length
  return keys
}

/** Where a filter is in the request, what all kinds of filters have, and the caller's limits. */
interface FilterAt {
  readonly at: string
  readonly base: NamedFilter
  readonly limits: FilterLimits
}

function compile(request: SubscribeRequest, limits: FilterLimits): FilterSet {
  const each = <R, F>(
    field: string,
    named: Readonly<Record<string, R>>,
    build: (filter: R, at: FilterAt) => F,
  ): F[] => {
    const names = Object.keys(named).sort()
    if (names.length > limits.filtersMax)
      throw new Problem(`${field}: at most ${limits.filtersMax} filters are allowed`)
    return names.map((name, ordinal) => {
      const at = `${field}[${JSON.stringify(name)}]`
      if (Buffer.byteLength(name) > nameBytesMax)
        throw new Problem(`${field}: a filter's name is at most ${nameBytesMax} bytes long`)
      return build(named[name]!, { at, base: { ordinal, prefix: namePrefix(name) }, limits })
    })
  }
  const slices = dataSlices(request, limits)
  checkStates(request)
  checkCuckoos(request)
  const accounts = each('accounts', request.accounts, accountFilter)
  const transactions = each('transactions', request.transactions, transactionFilter)
  const statuses = each('transactions_status', request.transactionsStatus, transactionFilter)
  const isComparing =
    accounts.some(({ diffOnly }) => diffOnly) || transactions.some(({ withStates }) => withStates)
  const states = isComparing ? new StreamStates() : null
  return {
    key: states === null ? digestOf(request) : randomUUID(),
    commitment: commitmentOf(request),
    accounts,
    slots: each('slots', request.slots, slotFilter),
    transactions,
    statuses,
    blocks: each('blocks', request.blocks, blockFilter),
    blocksMeta: each('blocks_meta', request.blocksMeta, (_filter, { base }) => base),
    entries: each('entry', request.entry, (_filter, { base }) => base),
    slices,
    sliceKey: slices.map(({ offset, length }) => `${offset}+${length}`).join(),
    hasExtras: [...transactions, ...statuses].some((one) => one.withBlockTime || one.withStates),
    states,
    retractions: null,
  }
}

function checkCuckoos({ accounts, transactions, transactionsStatus, blocks }: SubscribeRequest) {
  const sets = Object.values(accounts).map((filter) => filter.cuckooAccountsFilter)
  for (const named of [transactions, transactionsStatus, blocks])
    sets.push(...Object.values(named).map((filter) => filter.cuckooAccountInclude))
  if (sets.filter(Boolean).length > cuckoosMax)
    throw new Problem(`at most ${cuckoosMax} cuckoo filters are allowed in a request`)
}

/** States are of whole slots of the chain, and of few accounts. */
function checkStates(request: SubscribeRequest): void {
  for (const [name, filter] of Object.entries(request.transactionsStatus))
    if (given(filter, 'accountStates') === true)
      throw new Problem(`transactions_status[${quote(name)}].account_states: has no states`)
  for (const [name, filter] of Object.entries(request.transactions)) {
    if (given(filter, 'accountStates') !== true) continue
    const at = `transactions[${quote(name)}].account_states`
    const { length } = filter.accountInclude
    if (commitmentOf(request) === Commitment.processed)
      throw new Problem(`${at}: only at CONFIRMED and FINALIZED, where the chain is known`)
    if (length === 0 || length > watchedMax)
      throw new Problem(`${at}: needs 1 to ${watchedMax} keys in account_include`)
  }
}

function accountFilter(filter: AccountsRequest, { at, base, limits }: FilterAt): AccountFilter {
  const { accountsMax, ownersMax, accountReject, ownerReject } = limits
  const hasKeys = filter.account.length + filter.owner.length > 0
  requireSome(at, limits, hasKeys || Boolean(filter.cuckooAccountsFilter))
  return {
    ...base,
    accounts: readList(`${at}.account`, filter.account, accountsMax, accountReject),
    cuckoo: cuckooOf(`${at}.cuckoo_accounts_filter`, filter.cuckooAccountsFilter, limits),
    owners: readList(`${at}.owner`, filter.owner, ownersMax, ownerReject),
    states: readState(`${at}.filters`, filter.filters),
    hasSignature: given(filter, 'nonemptyTxnSignature'),
    diffOnly: given(filter, 'diffOnly') ?? false,
  }
}

function slotFilter(filter: SlotsRequest, { base }: FilterAt): SlotFilter {
  const byCommitment = given(filter, 'filterByCommitment') ?? false
  return { ...base, byCommitment, interslot: given(filter, 'interslotUpdates') ?? false }
}

function transactionFilter(
  filter: TransactionsRequest,
  { at, base, limits }: FilterAt,
): TransactionFilter {
  const max = limits.accountsMax
  const isVote = given(filter, 'vote')
  const isFailed = given(filter, 'failed')
  const mode = given(filter, 'tokenAccounts')
  const named = filter.accountInclude.length + filter.accountExclude.length
  const listed = named + filter.instructions.length
  // A signature alone does not count as a condition, as in yellowstone.
  const isSome =
    isVote !== undefined ||
    isFailed !== undefined ||
    mode !== undefined ||
    listed + filter.accountRequired.length > 0
  requireSome(at, limits, isSome || Boolean(filter.cuckooAccountInclude))
  if (mode !== undefined && mode !== 0 && mode !== 1)
    throw new Problem(`${at}.token_accounts: ${mode} is neither ALL (0) nor BALANCE_CHANGED (1)`)
  const signature = given(filter, 'signature')
  const none = new Set<string>()
  return {
    ...base,
    isVote,
    isFailed,
    signature: signature === undefined ? null : readSignature(`${at}.signature`, signature),
    include: readList(`${at}.account_include`, filter.accountInclude, max, limits.accountReject),
    cuckoo: cuckooOf(`${at}.cuckoo_account_include`, filter.cuckooAccountInclude, limits),
    exclude: readList(`${at}.account_exclude`, filter.accountExclude, max, none),
    required: [...readKeys(`${at}.account_required`, filter.accountRequired, max, none)],
    tokenOwners: mode === undefined ? 'none' : mode === 0 ? 'all' : 'changed',
    instructions: readInstructions(`${at}.instructions`, filter.instructions),
    withBlockTime: given(filter, 'blockTime') ?? false,
    withStates: given(filter, 'accountStates') ?? false,
  }
}

function blockFilter(filter: BlocksRequest, { at, base, limits }: FilterAt): BlockFilter {
  const include = filter.accountInclude
  requireSome(at, limits, include.length > 0 || Boolean(filter.cuckooAccountInclude))
  const withTransactions = given(filter, 'includeTransactions') ?? true
  const withAccounts = given(filter, 'includeAccounts') ?? false
  const withEntries = given(filter, 'includeEntries') ?? false
  const selection = [[...include].sort(), cuckooText(filter.cuckooAccountInclude)]
  return {
    ...base,
    include: readList(`${at}.account_include`, include, limits.accountsMax, limits.accountReject),
    cuckoo: cuckooOf(`${at}.cuckoo_account_include`, filter.cuckooAccountInclude, limits),
    withTransactions,
    withAccounts,
    withEntries,
    shape: digest([withTransactions, withAccounts, withEntries, ...selection]),
  }
}

/** Lists by their number on the wire: SubscribeRequestKeyList. */
const keyLists = [
  { field: 'accounts', member: 'account', kind: 'accounts', list: 'accounts' },
  { field: 'accounts', member: 'owner', kind: 'accounts', list: 'owners' },
  { field: 'transactions', member: 'account_include', kind: 'transactions', list: 'include' },
  { field: 'transactions', member: 'account_exclude', kind: 'transactions', list: 'exclude' },
  { field: 'transactions_status', member: 'account_include', kind: 'statuses', list: 'include' },
  { field: 'transactions_status', member: 'account_exclude', kind: 'statuses', list: 'exclude' },
  { field: 'blocks', member: 'account_include', kind: 'blocks', list: 'include' },
] as const

function keyChange(change: KeyChangeRequest, filters: FilterSet, limits: FilterLimits): KeyChange {
  const named = keyLists[change.list]
  if (named === undefined) throw new Problem(`list: ${change.list} is no list of keys`)
  const { field, member, kind, list } = named
  const at = `${field}[${quote(change.filter)}].${member}`
  const prefix = namePrefix(change.filter)
  const ordinal = filters[kind].findIndex((one) => one.prefix.equals(prefix))
  if (ordinal === -1) throw new Problem(`${at}: the stream has no such filter`)
  // Reason for the cast: each row of `keyLists` has a list of the filters of its kind.
  const listAt = { kind, list, ordinal } as ListAt
  const keys = keysAt(filters, listAt)
  if (list !== 'exclude' && !keys.isCondition)
    throw new Problem(`${at}: the filter was sent without this list, so it is no condition`)
  const { accountsMax, accountReject, ownersMax, ownerReject } = limits
  const isOwners = list === 'owners'
  const rejected = isOwners ? ownerReject : list === 'exclude' ? new Set<string>() : accountReject
  const delta = { add: keysOf(at, change.add, rejected), remove: keysOf(at, change.remove) }
  const isWatched = kind === 'transactions' && list === 'include'
  const hasStates = isWatched && filters.transactions[ordinal]!.withStates
  const max = hasStates ? watchedMax : isOwners ? ownersMax : accountsMax
  if (keys.sizeAfter(delta) > max) throw new Problem(`${at}: at most ${max} keys are allowed`)
  if (keys.changedKeys + delta.add.size + delta.remove.size > max)
    throw new Problem(`${at}: at most ${max} keys are changed within ${settledSlots} slots`)
  return { ...listAt, delta }
}

function keysOf(at: string, keys: readonly Uint8Array[], rejected?: ReadonlySet<string>) {
  const texts = new Set<KeyText>()
  for (const key of keys) {
    if (key.length !== keyBytes) throw new Problem(`${at}: a key has ${keyBytes} bytes`)
    if (rejected !== undefined && rejected.size > 0 && rejected.has(encodeBase58(key)))
      throw new Problem(`${at}: ${quote(encodeBase58(key))} is not allowed in filters`)
    texts.add(keyOf(key))
  }
  return texts
}

function requireSome(at: string, limits: FilterLimits, isSome: boolean): void {
  if (!isSome && !limits.any)
    throw new Problem(`${at}: a filter without conditions is not allowed, name at least one`)
}

function commitmentOf(request: SubscribeRequest): Commitment {
  const commitment = given(request, 'commitment') ?? Commitment.processed
  if (!isCommitment(commitment))
    throw new Problem(`commitment: ${commitment} is no commitment level`)
  return commitment
}

function dataSlices(request: SubscribeRequest, limits: FilterLimits): DataSlice[] {
  const field = 'accounts_data_slice'
  if (request.accountsDataSlice.length > limits.dataSlicesMax)
    throw new Problem(`${field}: at most ${limits.dataSlicesMax} slices are allowed`)
  let end = -1
  let start = -1
  return request.accountsDataSlice.map((slice) => {
    // No account has data beyond the safe integers.
    const offset = numberOf(slice.offset) ?? Number.MAX_SAFE_INTEGER
    const length = numberOf(slice.length) ?? Number.MAX_SAFE_INTEGER
    if (offset < start) throw new Problem(`${field}: slices must be in ascending order`)
    if (offset < end) throw new Problem(`${field}: slices must not overlap`)
    start = offset
    end = offset + length
    return { offset, length }
  })
}

function cuckooOf(
  at: string,
  filter: CuckooRequest | null | undefined,
  limits: FilterLimits,
): Cuckoo | null {
  if (!filter) return null
  const { data, hashSeed } = filter
  if (data.length > limits.cuckooBytesMax)
    throw new Problem(`${at}.data: at most ${limits.cuckooBytesMax} bytes are allowed`)
  if (filter.hashAlgorithm !== 0) throw new Problem(`${at}.hash_algorithm: only SIP_HASH is known`)
  const perBucket = filter.entriesPerBucket || fingerprintsPerBucket
  const bits = filter.fingerprintBits || fingerprintBits
  if (perBucket !== fingerprintsPerBucket || bits !== fingerprintBits)
    throw new Problem(`${at}: only buckets of 4 fingerprints of 16 bits are known`)
  const buckets = data.length / (fingerprintsPerBucket * 2)
  if (data.length > 0 && (!Number.isInteger(buckets) || (buckets & (buckets - 1)) !== 0))
    throw new Problem(`${at}.data: the number of buckets must be a power of two`)
  return new Cuckoo(data.length > 0 ? data : Buffer.alloc(8), hashSeed)
}

/** Digest of the request, independent of the order of names and lists. */
function digestOf(request: SubscribeRequest): string {
  const ordered = (value: unknown): unknown => {
    if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
    if (Array.isArray(value)) return value.map(ordered)
    if (typeof value !== 'object' || value === null) return value
    const entries = Object.entries(value).map(([name, inner]) => [name, sorted(ordered(inner))])
    return Object.fromEntries(entries.sort(([a], [b]) => (a! < b! ? -1 : 1)))
  }
  const { ping: _ping, fromSlot: _fromSlot, ...rest } = request
  return digest([ordered(rest)])
}

/** Lists of keys are sets; other lists keep their order. */
function sorted(value: unknown): unknown {
  const isKeys = Array.isArray(value) && value.every((item) => typeof item === 'string')
  return isKeys ? [...value].sort() : value
}

function cuckooText(filter: CuckooRequest | null | undefined): string {
  if (!filter) return ''
  const { low, high } = filter.hashSeed
  return `${low}:${high}:${Buffer.from(filter.data).toString('base64')}`
}

function digest(parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64')
}

// Reads single fields of a filter: keys, signatures, conditions on an account's state.

/** An invalid field; filter-compile.ts turns it into a refusal. */
class Problem extends Error {}

const statesMax = 4
const memcmpBytesMax = 128
const memcmpBase58Max = 175
const memcmpBase64Max = 172
const signatureBytes = 64
const keyBytes = 32
const base64Text = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

export function readKeys(
  at: string,
  texts: readonly string[],
  max: number,
  rejected: ReadonlySet<string>,
): Set<KeyText> {
  if (texts.length > max) throw new Problem(`${at}: at most ${max} keys are allowed`)
  const keys = new Set<KeyText>()
  for (const text of texts) {
    const key = decodeKey(text)
    if (key === null) throw new Problem(`${at}: ${quote(text)} is not a base58 key of 32 bytes`)
    if (rejected.has(text)) throw new Problem(`${at}: ${quote(text)} is not allowed in filters`)
    keys.add(keyOf(key))
  }
  return keys
}

function readList(...read: Parameters<typeof readKeys>): KeyList {
  return new KeyList(readKeys(...read))
}

function readInstructions(
  at: string,
  requests: readonly InstructionRequest[],
): readonly InstructionFilter[] {
  if (requests.length > instructionsMax)
    throw new Problem(`${at}: at most ${instructionsMax} are allowed`)
  return requests.map(({ program, dataPrefix }) => {
    const [key] = readKeys(`${at}.program`, [program], 1, new Set())
    if (dataPrefix.length > dataPrefixBytesMax)
      throw new Problem(`${at}.data_prefix: at most ${dataPrefixBytesMax} bytes are compared`)
    // protobufjs gives absent bytes as an array.
    return { program: key!, dataPrefix: keyOf(Uint8Array.from(dataPrefix)) }
  })
}

export function readSignature(at: string, text: string): KeyText {
  const bytes = decodeBase58(text)
  if (bytes?.length !== signatureBytes)
    throw new Problem(`${at}: ${quote(text)} is not a base58 signature of 64 bytes`)
  return keyOf(bytes)
}

export function readState(at: string, filters: readonly StateFilterRequest[]): StateFilter[] {
  if (filters.length > statesMax) throw new Problem(`${at}: at most ${statesMax} are allowed`)
  if (filters.filter(({ filter }) => filter === 'datasize').length > 1)
    throw new Problem(`${at}.datasize: may be used once`)
  return filters.map((request): StateFilter => {
    switch (request.filter) {
      case 'memcmp':
        return readMemcmp(`${at}.memcmp`, request)
      case 'datasize':
        return { kind: 'datasize', bytes: bigintOf(request.datasize) }
      case 'tokenAccountState':
        if (!request.tokenAccountState)
          throw new Problem(`${at}.token_account_state: may only be true`)
        return { kind: 'tokenAccount' }
      case 'lamports': {
        const { lamports } = request
        if (!lamports?.cmp) throw new Problem(`${at}.lamports: one of eq, ne, lt, gt must be set`)
        return { kind: 'lamports', cmp: lamports.cmp, value: bigintOf(lamports[lamports.cmp]) }
      }
      default:
        throw new Problem(`${at}: a filter must be set`)
    }
  })
}

function readMemcmp(at: string, request: StateFilterRequest): StateFilter {
  const memcmp = request.memcmp!
  // No account has data beyond the safe integers: nothing matches.
  const offset = numberOf(memcmp.offset) ?? Number.MAX_SAFE_INTEGER
  const bytes = memcmpBytes(at, memcmp)
  if (bytes.length > memcmpBytesMax)
    throw new Problem(`${at}: at most ${memcmpBytesMax} bytes are compared`)
  return { kind: 'memcmp', offset, bytes }
}

function memcmpBytes(at: string, memcmp: NonNullable<StateFilterRequest['memcmp']>): Uint8Array {
  switch (memcmp.data) {
    case 'bytes':
      return Uint8Array.from(memcmp.bytes)
    case 'base58': {
      const bytes = memcmp.base58.length > memcmpBase58Max ? null : decodeBase58(memcmp.base58)
      if (bytes === null) throw new Problem(`${at}.base58: not base58, or too long`)
      return Uint8Array.from(bytes)
    }
    case 'base64': {
      const text = memcmp.base64
      if (text.length > memcmpBase64Max || !base64Text.test(text))
        throw new Problem(`${at}.base64: not base64, or too long`)
      return Buffer.from(text, 'base64')
    }
    default:
      throw new Problem(`${at}: one of bytes, base58, base64 must be set`)
  }
}

/** Text from a request, truncated for an error message. */
function quote(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)
}
