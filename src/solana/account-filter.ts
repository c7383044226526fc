// Parses the filters of getProgramAccounts and programSubscribe, and applies them to account data.
// Thread: any (pure).
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { decodeBase58 } from './base58.ts'
import { readTokenAccount } from './token-account.ts'

export type AccountFilter =
  | { readonly kind: 'dataSize'; readonly size: number }
  | { readonly kind: 'memcmp'; readonly offset: number; readonly bytes: Uint8Array }
  | { readonly kind: 'tokenAccountState' }

const accountFiltersMax = 4
const MEMCMP_BYTES_MAX = 128

/** Parses the `filters` member; absent means no filters. Refusals are of kind `invalid`. */
export function readAccountFilters(value: unknown): Outcome<readonly AccountFilter[]> {
  if (value === undefined || value === null) return accept([])
  if (!Array.isArray(value)) return invalid('Invalid params: filters is not a list')
  if (value.length > accountFiltersMax)
    return invalid(`Too many filters provided; max ${accountFiltersMax}`)
  const filters: AccountFilter[] = []
  for (const item of value) {
    const filter = readFilter(item)
    if (typeof filter === 'string') return invalid(filter)
    filters.push(filter)
  }
  return accept(filters)
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

function readFilter(item: unknown): AccountFilter | string {
  if (item === 'tokenAccountState') return { kind: 'tokenAccountState' }
  if (typeof item !== 'object' || item === null) return 'Invalid params: unknown filter'
  const { dataSize, memcmp } = item as { dataSize?: unknown; memcmp?: unknown }
  if (isCount(dataSize)) return { kind: 'dataSize', size: dataSize }
  if (typeof memcmp !== 'object' || memcmp === null) return 'Invalid params: unknown filter'
  return readMemcmp(memcmp)
}

function readMemcmp(memcmp: object): AccountFilter | string {
  const { offset, bytes, encoding } = memcmp as Record<'offset' | 'bytes' | 'encoding', unknown>
  if (!isCount(offset)) return 'Invalid params: memcmp needs an offset'
  const decoded = decodeBytes(bytes, encoding ?? null)
  if (typeof decoded === 'string') return decoded
  if (decoded.length > MEMCMP_BYTES_MAX)
    return 'Invalid param: encoded binary data should be less than 129 bytes'
  return { kind: 'memcmp', offset, bytes: decoded }
}

/** Text is base58 unless `encoding` is given; a list of numbers is the bytes themselves. */
function decodeBytes(bytes: unknown, encoding: unknown): Uint8Array | string {
  if (Array.isArray(bytes)) {
    const isBytes = bytes.every((byte) => isCount(byte) && byte < 256)
    return isBytes ? Uint8Array.from(bytes as number[]) : 'Invalid params: memcmp bytes'
  }
  if (typeof bytes !== 'string') return 'Invalid params: memcmp needs bytes'
  if (encoding === 'base64') {
    const decoded = Buffer.from(bytes, 'base64')
    const isWhole = decoded.toString('base64') === bytes
    // A plain array: equal filters must serialize to equal texts, however they were written.
    return isWhole ? Uint8Array.from(decoded) : 'Invalid param: base64 decode error'
  }
  if (encoding !== null && encoding !== 'base58' && encoding !== 'binary')
    return 'Invalid params: unknown memcmp encoding'
  return decodeBase58(bytes) ?? 'Invalid param: bs58 decode error'
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function invalid(message: string): Outcome<never> {
  return refuse('invalid', 'bad-filter', message)
}
