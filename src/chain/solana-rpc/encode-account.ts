// Accounts in answers: which form a config selects, and the text.

import type { AccountState } from '../solana/geyser-content.ts'
import { accountParser } from '../solana/json-parsed/account-parser.ts'
import {
  type AccountEncoding,
  type AccountView,
  accountEncodings,
  base58DataBytesMax,
  sortedAccountText,
} from '../solana/ui-account.ts'
import type { ParamFields } from './params.ts'

/** Texts of accounts that were read are cached, up to this many bytes of data each. */
const texts = new WeakMap<AccountState, string>()
const keptBytesMax = 4_096

/** Finds another account at the same moment. */
export type ReadState = (pubkey: Uint8Array) => AccountState | null

/** `encoding` and `dataSlice` of a config. */
export function accountViewOf(fields: ParamFields, fallback: AccountEncoding): AccountView {
  const encoding = fields.choice('encoding', accountEncodings) ?? fallback
  const slice = fields.fields('dataSlice', 'UiDataSliceConfig')
  if (slice === null) return { encoding, dataSlice: null }
  const offset = slice.u64('offset')
  const length = slice.u64('length')
  if (offset === null) fields.params.fail('Invalid params: missing field `offset`.')
  if (length === null) fields.params.fail('Invalid params: missing field `length`.')
  return { encoding, dataSlice: { offset: offset ?? 0, length: length ?? 0 } }
}

/** Null when the data is too long for base58, which a validator refuses. */
export function accountText(
  account: AccountState,
  view: AccountView,
  read: ReadState,
): string | null {
  const { encoding, dataSlice } = view
  if (encoding === 'binary' || encoding === 'base58') {
    const left = Math.max(0, account.data.length - (dataSlice?.offset ?? 0))
    if (Math.min(left, dataSlice?.length ?? left) > base58DataBytesMax) return null
  }
  if (encoding === 'base64' && dataSlice === null && account.data.length <= keptBytesMax)
    return keptText(account, view)
  return sortedAccountText(account, view, accountParser(read))
}

/** A version of an account never changes, so its text is built once and goes when it goes. */
function keptText(account: AccountState, view: AccountView): string {
  const known = texts.get(account)
  if (known !== undefined) return known
  const text = sortedAccountText(account, view, () => null)
  texts.set(account, text)
  return text
}
