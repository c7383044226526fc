// RPC methods that read accounts by their keys: getBalance, getAccountInfo, getMultipleAccounts,
// getTokenAccountBalance.
import { jsonText } from '../../base/json-text.ts'
import { failure } from '../../base/jsonrpc/build.ts'
import type { ReadAccount } from '../solana/json-parsed/parsed.ts'
import { tokenUnit } from '../solana/json-parsed/token-accounts.ts'
import { readTokenAccount } from '../solana/token-account.ts'
import { type TokenUnit, uiTokenAmount } from '../solana/token-amount.ts'
import type { AccountReads, Source } from './chain-reads.ts'
import { accountText, accountViewOf } from './encode-account.ts'
import { rpcFaults } from './errors.ts'
import type { Params } from './params.ts'
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
        const text = accountText(account, format, readerAt(view))
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
          account === null ? 'null' : accountText(account, format, readerAt(view)),
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
