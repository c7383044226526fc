// Formats an account as the JSON text of JSON-RPC and its notifications.
// Lamports and rent epoch are u64 and written as plain digits: they exceed the
// safe integers.
import { compressZstd } from '../../base/zstd.ts'
import { encodeBase58, keyText } from './base58.ts'
import type { AccountState } from './geyser-decode.ts'

/** `binary` is the old form: base58 as a bare string. */
export const accountEncodings = ['binary', 'base58', 'base64', 'jsonParsed', 'base64+zstd'] as const
export type AccountEncoding = (typeof accountEncodings)[number]

export interface DataSlice {
  readonly offset: number
  readonly length: number
}

export interface AccountView {
  readonly encoding: AccountEncoding
  readonly dataSlice: DataSlice | null
}

/** The JSON of parsed data (`{"program":…,"parsed":…,"space":…}`); null when no parser knows it. */
export type AccountParser = (account: AccountState) => string | null

/** Longer data has no base58 form. */
export const base58DataBytesMax = 128
const TOO_LARGE = '"error: data too large for bs58 encoding"'

/** The UiAccount as in notifications. Unknown data is shown as base64 under `jsonParsed`. */
export function uiAccountText(
  account: AccountState,
  view: AccountView,
  parse: AccountParser,
): string {
  const data = dataText(account, view, parse)
  const owner = keyText(account.owner)
  return (
    `{"lamports":${account.lamports},"data":${data},"owner":"${owner}",` +
    `"executable":${account.executable},"rentEpoch":${account.rentEpoch},` +
    `"space":${account.data.length}}`
  )
}

/** The same as in answers, where a validator sorts all members by name. */
export function sortedAccountText(
  account: AccountState,
  view: AccountView,
  parse: AccountParser,
): string {
  const data = dataText(account, view, parse)
  const owner = keyText(account.owner)
  return (
    `{"data":${data},"executable":${account.executable},"lamports":${account.lamports},` +
    `"owner":"${owner}","rentEpoch":${account.rentEpoch},"space":${account.data.length}}`
  )
}

function dataText(account: AccountState, view: AccountView, parse: AccountParser): string {
  const { encoding, dataSlice } = view
  if (encoding === 'jsonParsed') {
    const parsed = parse(account)
    if (parsed !== null) return parsed
  }
  const data = sliced(account.data, dataSlice)
  switch (encoding) {
    case 'binary':
      return base58Text(data)
    case 'base58':
      return `[${base58Text(data)},"base58"]`
    case 'base64+zstd':
      return `["${compressZstd(data).toString('base64')}","base64+zstd"]`
    default:
      return `["${bufferOf(data).toString('base64')}","base64"]`
  }
}

function base58Text(data: Uint8Array): string {
  return data.length > base58DataBytesMax ? TOO_LARGE : `"${encodeBase58(data)}"`
}

/** A slice that begins after the end of the data is empty. */
function sliced(data: Uint8Array, slice: DataSlice | null): Uint8Array {
  if (slice === null) return data
  const start = Math.min(slice.offset, data.length)
  return data.subarray(start, Math.min(start + slice.length, data.length))
}

function bufferOf(data: Uint8Array): Buffer {
  return Buffer.from(data.buffer, data.byteOffset, data.length)
}
