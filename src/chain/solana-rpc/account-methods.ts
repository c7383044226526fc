// RPC methods that read accounts by their keys: getBalance, getAccountInfo, getMultipleAccounts,
// getTokenAccountBalance.
import { jsonText } from '../../base/json-text.ts'
import { failure } from '../../base/jsonrpc/build.ts'
import type { AccountState } from '../solana/geyser-content.ts'
import { accountParser } from '../solana/json-parsed/accounts.ts'
import type { ReadAccount } from '../solana/json-parsed/parsed.ts'
import { tokenUnit } from '../solana/json-parsed/token-accounts.ts'
import { readTokenAccount } from '../solana/token-account.ts'
import { type TokenUnit, uiTokenAmount } from '../solana/token-amount.ts'
import {
  type AccountEncoding,
  type AccountView,
  accountEncodings,
  base58DataBytesMax,
  sortedAccountText,
} from '../solana/ui-account.ts'
import type { AccountReads, Source } from './chain-reads.ts'
import { rpcFaults } from './errors.ts'
import type { ParamFields, Params } from './params.ts'
import {
  type Answering,
  answering,
  commitmentViewOf,
  inContext,
  type View,
  viewOf,
} from './view.ts'

const multipleAccountsMax = 100

export function accountMethods(source: Source<AccountReads>) {
  const { ledger } = source
  const readerAt = (view: View) => (pubkey: Uint8Array) => ledger.account(pubkey, view.commitment)
  return {
    getBalance: answering({ least: 1, most: 2 }, (params) => {
      const key = params.key(0)
      const view = viewOf(params.config(1, 'RpcContextConfig'), ledger)
      return () =>
        inContext(source, view.slot, String(ledger.account(key, view.commitment)?.lamports ?? 0n))
    }),
    getAccountInfo: answering({ least: 1, most: 2 }, (params) => {
      const key = params.key(0)
      const config = params.config(1, 'RpcAccountInfoConfig')
      const view = viewOf(config, ledger)
      const format = accountViewOf(config, 'binary')
      return () => {
        const account = ledger.account(key, view.commitment)
        if (account === null) return inContext(source, view.slot, 'null')
        const text = accountText(account, format, readerAt(view), source)
        return text === null
          ? failure(rpcFaults.base58TooLarge)
          : inContext(source, view.slot, text)
      }
    }),
    getMultipleAccounts: answering({ least: 1, most: 2 }, (params) => {
      const keys = params.texts(0, multipleAccountsMax).map((text) => params.keyOf(text))
      const config = params.config(1, 'RpcAccountInfoConfig')
      const view = viewOf(config, ledger)
      const format = accountViewOf(config, 'base64')
      return () => {
        const accounts = keys.map((key) => ledger.account(key, view.commitment))
        const texts = accounts.map((account) =>
          account === null ? 'null' : accountText(account, format, readerAt(view), source),
        )
        if (texts.includes(null)) return failure(rpcFaults.base58TooLarge)
        return inContext(source, view.slot, `[${texts.join(',')}]`)
      }
    }),
    getTokenAccountBalance: answering({ least: 1, most: 2 }, (params) => {
      const key = params.key(0)
      const view = commitmentViewOf(params, 1, ledger)
      const account = ledger.account(key, view.commitment)
      const token = account === null ? null : readTokenAccount(account.owner, account.data)
      if (account === null) params.fail('Invalid param: could not find account')
      else if (token === null) params.fail('Invalid param: not a Token account')
      const unit = token === null ? null : unitOf(params, token.mint, readerAt(view))
      return () =>
        inContext(
          source,
          view.slot,
          jsonText(uiTokenAmount(token!.amount, unit!.decimals, unit!.scaled)),
        )
    }),
  } satisfies Readonly<Record<string, Answering>>
}

/** How amounts of a mint are shown; an address that is no mint is refused. */
export function unitOf(params: Params, mint: Uint8Array, read: ReadAccount): TokenUnit | null {
  const unit = tokenUnit(mint, read)
  if (unit === null)
    params.fail(
      read(mint) === null
        ? 'Invalid param: could not find mint'
        : 'Invalid param: Token mint could not be unpacked',
    )
  return unit
}

// Accounts in answers: which form a config selects, and the text.

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
  source: Pick<Source<unknown>, 'shapes'>,
): string | null {
  const { encoding, dataSlice } = view
  if (encoding === 'binary' || encoding === 'base58') {
    const left = Math.max(0, account.data.length - (dataSlice?.offset ?? 0))
    if (Math.min(left, dataSlice?.length ?? left) > base58DataBytesMax) return null
  }
  if (encoding === 'base64' && dataSlice === null && account.data.length <= keptBytesMax)
    return keptText(account, view)
  const parse = encoding === 'jsonParsed' ? accountParser(read, source.shapes) : () => null
  return sortedAccountText(account, view, parse)
}

/** A version of an account never changes, so its text is built once and goes when it goes. */
function keptText(account: AccountState, view: AccountView): string {
  const known = texts.get(account)
  if (known !== undefined) return known
  const text = sortedAccountText(account, view, () => null)
  texts.set(account, text)
  return text
}
