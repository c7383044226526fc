// Parses the filters of getProgramAccounts and programSubscribe, and applies them to account data.
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import {
  invalidType,
  readVariant,
  unknownVariant,
  wholeNumberProblem,
} from '../../base/serde-text.ts'
import { base58Problem, decodeBase58, isSameKey } from './base58.ts'
import { base64Problem, decodeBase64 } from './base64.ts'
import { programs } from './programs.ts'
import { isTokenProgram, readTokenAccount } from './token-account.ts'

export type AccountFilter =
  | { readonly kind: 'dataSize'; readonly size: number }
  | { readonly kind: 'memcmp'; readonly offset: number; readonly bytes: Uint8Array }
  | { readonly kind: 'tokenAccountState' }

const accountFiltersMax = 4
const MEMCMP_BYTES_MAX = 128
/** Characters that 128 bytes take. */
const TEXT_MAX = { 58: 175, 64: 172 } as const
const KEY_BYTES = 32
/** Of a token account. */
const MINT_AT = 0
const OWNER_AT = 32
const TOKEN_ACCOUNT_BYTES = 165
/** Of Token-2022: what follows the account's 165 bytes. */
const ACCOUNT_TYPE = 2

/**
 * Parses the `filters` member; absent means no filters. Refusals are of kind `invalid`, in the
 * words of a validator: code `malformed` for what cannot be read, `bad-filter` for the rest.
 */
export function readAccountFilters(value: unknown): Outcome<readonly AccountFilter[]> {
  if (value === undefined || value === null) return accept([])
  if (!Array.isArray(value)) return malformed(invalidType(value, 'a sequence'))
  const read: Written[] = []
  for (const item of value) {
    const filter = readFilter(item)
    if (typeof filter === 'string') return malformed(filter)
    read.push(filter)
  }
  if (read.length > accountFiltersMax)
    return notAllowed(`Too many filters provided; max ${accountFiltersMax}`)
  const filters: AccountFilter[] = []
  for (const written of read) {
    const filter = written.kind === 'memcmp' ? decoded(written) : written
    if (typeof filter === 'string') return notAllowed(`Invalid param: ${filter}`)
    filters.push(filter)
  }
  return accept(filters)
}

/** Why a validator does not search a token program by these filters; null when it does. */
export function tokenFilterProblem(
  program: Uint8Array,
  filters: readonly AccountFilter[],
): string | null {
  if (!isTokenProgram(program)) return null
  const isToken2022 = isSameKey(program, programs.token2022)
  const bytesAt = (at: number) =>
    filters.flatMap((filter) =>
      filter.kind === 'memcmp' && filter.offset === at ? [filter.bytes] : [],
    )
  const isOfAccounts = filters.some(
    (filter) =>
      filter.kind === 'tokenAccountState' ||
      (filter.kind === 'dataSize' && filter.size === TOKEN_ACCOUNT_BYTES),
  )
  const types = isToken2022 ? bytesAt(TOKEN_ACCOUNT_BYTES) : []
  const isTyped = types.some((bytes) => bytes.length === 1 && bytes[0] === ACCOUNT_TYPE)
  const owners = bytesAt(OWNER_AT)
  const wrongOwner = owners.find(({ length }) => length !== KEY_BYTES)
  if (wrongOwner !== undefined) return wrongLength(wrongOwner, 'owner')
  // Accounts are then found by their owner, and no mint is looked at.
  if (owners.length > 0 && (isOfAccounts || isTyped)) return null
  const wrongMint = bytesAt(MINT_AT).find(({ length }) => length !== KEY_BYTES)
  return wrongMint === undefined ? null : wrongLength(wrongMint, 'mint')
}

function wrongLength({ length }: Uint8Array, field: string): string {
  return `Incorrect byte length ${length} for SPL token ${field} filter, expected ${KEY_BYTES}`
}

/** True when the account matches every filter; data that is too short does not match. */
export function filtersTake(
  filters: readonly AccountFilter[],
  account: { readonly owner: Uint8Array; readonly data: Uint8Array },
): boolean {
  for (const filter of filters) if (!matches(filter, account)) return false
  return true
}

function matches(
  filter: AccountFilter,
  { owner, data }: { readonly owner: Uint8Array; readonly data: Uint8Array },
): boolean {
  switch (filter.kind) {
    case 'dataSize':
      return data.length === filter.size
    case 'memcmp':
      return hasBytesAt(data, filter.offset, filter.bytes)
    case 'tokenAccountState':
      return readTokenAccount(owner, data) !== null
  }
}

function hasBytesAt(data: Uint8Array, offset: number, bytes: Uint8Array): boolean {
  if (offset + bytes.length > data.length) return false
  for (let at = 0; at < bytes.length; at++) if (data[offset + at] !== bytes[at]) return false
  return true
}

/** A filter whose bytes are not decoded yet. */
type Written = Exclude<AccountFilter, { kind: 'memcmp' }> | WrittenMemcmp

interface WrittenMemcmp {
  readonly kind: 'memcmp'
  readonly offset: number
  readonly bytes: string | readonly number[]
  readonly encoding: (typeof memcmpEncodings)[number] | null
}

const filterKinds = { dataSize: true, memcmp: true, tokenAccountState: false }
const memcmpEncodings = ['base58', 'base64', 'bytes'] as const

function readFilter(item: unknown): Written | string {
  const variant = readVariant(item, filterKinds)
  if (typeof variant === 'string') return variant
  const { name, content } = variant
  if (name === 'tokenAccountState') return { kind: name }
  if (name === 'memcmp') return readMemcmp(content)
  return wholeNumberProblem(content, 'u64') ?? { kind: name, size: Number(content) }
}

function readMemcmp(value: unknown): WrittenMemcmp | string {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return invalidType(value, 'struct Memcmp')
  const { offset, bytes, encoding } = value as Record<'offset' | 'bytes' | 'encoding', unknown>
  if (offset === undefined) return 'missing field `offset`'
  const problem = wholeNumberProblem(offset, 'usize')
  if (problem !== null) return problem
  if (bytes === undefined) return 'missing field `bytes`'
  const isList = Array.isArray(bytes) && bytes.every(isByte)
  if (typeof bytes !== 'string' && !isList)
    return 'data did not match any variant of untagged enum DataType'
  const known = memcmpEncodings.find((name) => name === encoding) ?? null
  if (known === null && encoding !== undefined && encoding !== null)
    return typeof encoding === 'string'
      ? unknownVariant(encoding, memcmpEncodings)
      : invalidType(encoding, 'string or map')
  return { kind: 'memcmp', offset: Number(offset), bytes, encoding: known }
}

/** Text is base58 unless `encoding` is base64; a list of numbers is the bytes themselves. */
function decoded({ kind, offset, bytes, encoding }: WrittenMemcmp): AccountFilter | string {
  if (typeof bytes === 'string' && bytes.length > TEXT_MAX[encoding === 'base64' ? 64 : 58])
    return 'DataTooLarge'
  const data = typeof bytes === 'string' ? decodedText(bytes, encoding) : bytes
  if (typeof data === 'string') return data
  if (data.length > MEMCMP_BYTES_MAX) return 'DataTooLarge'
  // A plain array: equal filters must serialize to equal texts, however they were written.
  return { kind, offset, bytes: Uint8Array.from(data) }
}

function decodedText(text: string, encoding: WrittenMemcmp['encoding']): Uint8Array | string {
  return encoding === 'base64'
    ? (decodeBase64(text) ?? `Base64DecodeError(${base64Problem(text)})`)
    : (decodeBase58(text) ?? `Base58DecodeError(${base58Problem(text)})`)
}

function isByte(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 256
}

function malformed(problem: string): Outcome<never> {
  return refuse('invalid', 'malformed', `Invalid params: ${problem}.`)
}

function notAllowed(message: string): Outcome<never> {
  return refuse('invalid', 'bad-filter', message)
}
