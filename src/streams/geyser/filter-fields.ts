// Reads single fields of a filter: keys, signatures, conditions on an account's state.
import { decodeBase58, decodeKey } from '../../chain/solana/base58.ts'
import { keyOf } from '../../chain/solana/keys.ts'
import { bigintOf, numberOf, type StateFilterRequest } from './codec.ts'
import type { KeyText, StateFilter } from './filter-set.ts'

/** An invalid field; filter-compile.ts turns it into a refusal. */
export class Problem extends Error {}

const statesMax = 4
const memcmpBytesMax = 128
const memcmpBase58Max = 175
const memcmpBase64Max = 172
const signatureBytes = 64
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
