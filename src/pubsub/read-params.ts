// Reads the params of the subscribe methods, with the errors a validator gives. Thread: any (pure).
// Unknown members are ignored, as a validator does. What has no effect on a notification
// is brought to one form, so that subscriptions to the same notifications share a feed.
import { Commitment, commitmentNamed } from '../base/commitment.ts'
import { type RpcError, rpcErrors } from '../jsonrpc/build.ts'
import { type AccountFilter, readAccountFilters } from '../solana/account-filter.ts'
import { decodeBase58, decodeKey } from '../solana/base58.ts'
import { keyOf } from '../solana/keys.ts'
import { type AccountView, accountEncodings, type DataSlice } from '../solana/ui-account.ts'
import {
  type TransactionView,
  transactionDetails,
  transactionEncodings,
} from '../solana/ui-transaction.ts'
import type { SubscriptionParams, Topic, TransactionFilter } from './subscription-params.ts'

export type ReadParams = (params: unknown) => SubscriptionParams | RpcError

/** Keys in one list of a transaction filter. */
const FILTER_KEYS_MAX = 64
const SIGNATURE_BYTES = 64
/** The newest transaction version there is; what an absent bound means on our own method. */
const VERSION_NEWEST = 0
const ENCODING_INITIAL = 'base64'
/** No account has more data. */
const ACCOUNT_BYTES_MAX = 10_485_760

/** By the name of what is subscribed to: `account` for accountSubscribe. */
export const readers: Readonly<Record<Topic, ReadParams>> = {
  account: (params) =>
    read(params, ([key, config]) => {
      const { commitment, ...rest } = configOf(config)
      return {
        kind: 'account',
        commitment: commitmentOf(commitment),
        key: keyFrom(key, 'pubkey'),
        view: accountView(rest),
      }
    }),
  program: (params) =>
    read(params, ([key, config]) => {
      const { commitment, filters, ...rest } = configOf(config)
      const program = keyFrom(key, 'pubkey')
      const taken = readAccountFilters(filters)
      if (!taken.ok) throw new Invalid(taken.refusal.message)
      const view = accountView(rest)
      return {
        kind: 'program',
        commitment: commitmentOf(commitment),
        key: program,
        view,
        filters: distinct(taken.value),
      }
    }),
  logs: (params) =>
    read(params, ([filter, config]) => {
      const commitment = commitmentOf(configOf(config).commitment)
      const withVotes = filter === 'allWithVotes'
      if (withVotes || filter === 'all')
        return { kind: 'logs', commitment, mention: null, withVotes }
      const { mentions } = configOf(filter)
      if (!Array.isArray(mentions)) throw new Invalid('Invalid params: unknown logs filter')
      if (mentions.length !== 1) throw new Invalid('Invalid Request: Only 1 address supported')
      const mention = keyFrom(mentions[0], 'mentions')
      return { kind: 'logs', commitment, mention, withVotes: true }
    }),
  signature: (params) =>
    read(params, ([signature, config]) => {
      const { commitment, enableReceivedNotification } = configOf(config)
      return {
        kind: 'signature',
        commitment: commitmentOf(commitment),
        key: signatureFrom(signature),
        withReceived: flagOf(enableReceivedNotification) ?? false,
      }
    }),
  block: (params) =>
    read(params, ([filter, config]) => {
      const { commitment: name, ...rest } = configOf(config)
      const commitment = commitmentOf(name)
      if (commitment === Commitment.processed)
        throw new Invalid('Method does not support commitment below `confirmed`')
      const view = transactionView(rest)
      if (filter === 'all') return { kind: 'block', commitment, mention: null, view }
      const { mentionsAccountOrProgram } = configOf(filter)
      const mention = keyFrom(mentionsAccountOrProgram, 'mentions_account_or_program')
      return { kind: 'block', commitment, mention, view }
    }),
  transaction: (params) =>
    read(params, ([filter, config]) => {
      const { commitment, ...rest } = configOf(config)
      const view = transactionView({ maxSupportedTransactionVersion: VERSION_NEWEST, ...rest })
      const showRewards = view.showRewards && showsContent(view)
      return {
        kind: 'transaction',
        commitment: commitmentOf(commitment),
        filter: transactionFilter(configOf(filter)),
        view: { ...view, showRewards },
      }
    }),
  slot: (params) => readNone(params, 'slot'),
  slotsUpdates: (params) => readNone(params, 'slotsUpdates'),
  root: (params) => readNone(params, 'root'),
}

/** The id of an unsubscribe; null when absent or invalid. */
export function readId(params: unknown): number | null {
  const id: unknown = Array.isArray(params) && params.length === 1 ? params[0] : null
  return typeof id === 'number' && Number.isSafeInteger(id) && id >= 0 ? id : null
}

/** Thrown and caught inside this file: the readers are deep and a refusal ends them all. */
class Invalid extends Error {}

function read(
  params: unknown,
  take: (list: readonly unknown[]) => SubscriptionParams,
): SubscriptionParams | RpcError {
  if (!Array.isArray(params) || params.length === 0 || params.length > 2)
    return rpcErrors.invalidParams
  try {
    return take(params)
  } catch (error) {
    if (error instanceof Invalid)
      return { code: rpcErrors.invalidParams.code, message: error.message }
    throw error
  }
}

function readNone(
  params: unknown,
  kind: 'slot' | 'slotsUpdates' | 'root',
): SubscriptionParams | RpcError {
  const isNone = params === undefined || (Array.isArray(params) && params.length === 0)
  if (isNone) return { kind }
  const message = 'Invalid parameters: No parameters were expected'
  return { code: rpcErrors.invalidParams.code, message }
}

type Config = Readonly<Record<string, unknown>>

function configOf(value: unknown): Config {
  if (value === undefined || value === null) return {}
  if (typeof value !== 'object' || Array.isArray(value))
    throw new Invalid('Invalid params: an object was expected')
  return value as Config
}

function commitmentOf(name: unknown): Commitment {
  if (name === undefined || name === null) return Commitment.finalized
  const commitment = commitmentNamed(name)
  if (commitment === null)
    throw new Invalid('Invalid params: commitment is `processed`, `confirmed` or `finalized`')
  return commitment
}

function keyFrom(value: unknown, thing: string): string {
  const key = typeof value === 'string' ? decodeKey(value) : null
  if (key === null) throw new Invalid(`Invalid Request: Invalid ${thing} provided`)
  return keyOf(key)
}

function signatureFrom(value: unknown): string {
  const bytes = typeof value === 'string' ? decodeBase58(value) : null
  if (bytes?.length !== SIGNATURE_BYTES)
    throw new Invalid('Invalid Request: Invalid signature provided')
  return keyOf(bytes)
}

function accountView({ encoding, dataSlice }: Config): AccountView {
  return {
    encoding: oneOf(encoding, accountEncodings, 'binary', 'encoding'),
    dataSlice: dataSlice === undefined || dataSlice === null ? null : sliceFrom(dataSlice),
  }
}

/** Cut to the data that an account can have; null for all of it. */
function sliceFrom(value: unknown): DataSlice | null {
  const slice = configOf(value)
  const offset = Math.min(countOf(slice.offset, 'offset'), ACCOUNT_BYTES_MAX)
  const length = Math.min(countOf(slice.length, 'length'), ACCOUNT_BYTES_MAX - offset)
  if (length === ACCOUNT_BYTES_MAX) return null
  return length === 0 ? { offset: 0, length } : { offset, length }
}

/** Each filter once, in a fixed order: all of them must take an account. */
function distinct(filters: readonly AccountFilter[]): AccountFilter[] {
  const byText = new Map(filters.map((filter) => [JSON.stringify(filter), filter]))
  return [...byText.keys()].sort().map((text) => byText.get(text)!)
}

function transactionView(config: Config): TransactionView {
  const { maxSupportedTransactionVersion: version, showRewards } = config
  const view: TransactionView = {
    encoding: oneOf(config.encoding, transactionEncodings, ENCODING_INITIAL, 'encoding'),
    details: oneOf(config.transactionDetails, transactionDetails, 'full', 'transactionDetails'),
    showRewards: flagOf(showRewards) ?? false,
    versionMax: version === undefined || version === null ? null : versionFrom(version),
  }
  if (view.details === 'full') return view
  const shown: TransactionView = { ...view, encoding: ENCODING_INITIAL }
  return showsContent(view) ? shown : { ...shown, versionMax: VERSION_NEWEST }
}

/** There is one version, so that every bound means the same. */
function versionFrom(value: unknown): number {
  countOf(value, 'maxSupportedTransactionVersion')
  return VERSION_NEWEST
}

/** False where a transaction is at most a signature. */
function showsContent({ details }: TransactionView): boolean {
  return details === 'full' || details === 'accounts'
}

/** Takes `accountInclude` and `accounts.include` alike: public providers write it both ways. */
function transactionFilter(filter: Config): TransactionFilter {
  const nested = configOf(filter.accounts)
  return {
    isVote: flagOf(filter.vote),
    isFailed: flagOf(filter.failed),
    signature: filter.signature == null ? null : signatureFrom(filter.signature),
    include: keysFrom(filter.accountInclude ?? nested.include),
    exclude: keysFrom(filter.accountExclude ?? nested.exclude),
    required: keysFrom(filter.accountRequired ?? nested.required),
  }
}

function keysFrom(value: unknown): string[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw new Invalid('Invalid params: a list of keys was expected')
  if (value.length > FILTER_KEYS_MAX)
    throw new Invalid(`Invalid params: a list has at most ${FILTER_KEYS_MAX} keys`)
  return [...new Set(value.map((key) => keyFrom(key, 'pubkey')))].sort()
}

function flagOf(value: unknown): boolean | null {
  if (value === undefined || value === null) return null
  if (typeof value !== 'boolean') throw new Invalid('Invalid params: true or false was expected')
  return value
}

function countOf(value: unknown, name: string): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0)
    throw new Invalid(`Invalid params: ${name} is no whole number`)
  return value
}

function oneOf<const T extends string>(
  value: unknown,
  known: readonly T[],
  initial: T,
  name: string,
): T {
  if (value === undefined || value === null) return initial
  const found = known.find((one) => one === value)
  if (found === undefined)
    throw new Invalid(`Invalid params: ${name} is one of ${known.join(', ')}`)
  return found
}
