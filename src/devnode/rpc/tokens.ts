// RPC methods on tokens: getTokenSupply, getTokenLargestAccounts, getTokenAccountsByOwner,
// getTokenAccountsByDelegate.
import { jsonText } from '../../base/json-text.ts'
import { failure } from '../../base/jsonrpc/build.ts'
import { whenDone } from '../../base/steps.ts'
import { mintUnit } from '../../chain/solana/json-parsed/token-accounts.ts'
import { keyText } from '../../chain/solana/key-text.ts'
import { isSameKey } from '../../chain/solana/keys.ts'
import { isTokenProgram, readMint, readTokenAccount } from '../../chain/solana/token-account.ts'
import {
  type TokenUnit,
  type UiTokenAmount,
  uiTokenAmount,
} from '../../chain/solana/token-amount.ts'
import { accountViewOf, unitOf } from '../../chain/solana-rpc/account-methods.ts'
import { rpcFaults } from '../../chain/solana-rpc/errors.ts'
import {
  type Answering,
  answering,
  commitmentViewOf,
  inContext,
  type View,
  viewOf,
} from '../../chain/solana-rpc/view.ts'
import type { Ledger, LedgerAccount } from '../ledger/ledger.ts'
import { keyedAccountsText } from './accounts.ts'
import type { RpcNode } from './rpc-node.ts'

const largestAccountsCount = 20
const tokenAccountsFilters = { mint: true, programId: true }

export function tokenMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger } = node
  const readerAt = (view: View) => (pubkey: Uint8Array) => ledger.account(pubkey, view.commitment)
  return {
    getTokenSupply: answering({ least: 1, most: 2 }, (params) => {
      const key = params.key(0)
      const view = commitmentViewOf(params, 1, ledger)
      const account = ledger.account(key, view.commitment)
      if (account === null) params.fail('Invalid param: could not find account')
      else if (!isTokenProgram(account.owner)) params.fail('Invalid param: not a Token mint')
      const mint = account === null ? null : readMint(account.owner, account.data)
      if (mint === null) params.fail('Invalid param: mint could not be unpacked')
      const unit = account === null ? null : mintUnit(account, readerAt(view))
      return () => inContext(node, view.slot, jsonText(shown(mint!.supply, unit!)))
    }),
    getTokenLargestAccounts: answering({ least: 1, most: 2 }, (params) => {
      const key = params.key(0)
      const view = commitmentViewOf(params, 1, ledger)
      const unit = unitOf(params, key, readerAt(view))
      return () =>
        inContext(node, view.slot, jsonText(largestOf(ledger, { key, unit: unit! }, view)))
    }),
    getTokenAccountsByOwner: tokenAccountsBy('owner'),
    getTokenAccountsByDelegate: tokenAccountsBy('delegate'),
  }

  function tokenAccountsBy(index: 'owner' | 'delegate'): Answering {
    return answering({ least: 2, most: 3 }, (params) => {
      const holder = params.key(0)
      const filter = params.variant(1, tokenAccountsFilters)
      const config = params.config(2, 'RpcAccountInfoConfig')
      const view = viewOf(config, ledger)
      const format = accountViewOf(config, 'binary')
      const key = params.keyOf(params.textOf(filter?.content))
      const isByMint = filter?.name === 'mint'
      if (isByMint) unitOf(params, key, readerAt(view))
      else if (!isTokenProgram(key)) params.fail('Invalid param: unrecognized Token program id')
      return () => {
        const found: LedgerAccount[] = []
        for (const account of ledger.tokenAccounts(index, holder, view.commitment))
          if (isSameKey(isByMint ? account.data.subarray(0, 32) : account.owner, key))
            found.push(account)
        found.sort((a, b) => Buffer.compare(a.pubkey, b.pubkey))
        const texts = keyedAccountsText(found, format, readerAt(view), node.shapes)
        return whenDone(texts, (list) =>
          list === null ? failure(rpcFaults.base58TooLarge) : inContext(node, view.slot, list),
        )
      }
    })
  }
}

function shown(amount: bigint, { decimals, scaled }: TokenUnit): UiTokenAmount {
  return uiTokenAmount(amount, decimals, scaled)
}

function largestOf(ledger: Ledger, mint: { key: Uint8Array; unit: TokenUnit }, view: View) {
  const held: { pubkey: Uint8Array; amount: bigint }[] = []
  for (const { pubkey, owner, data } of ledger.tokenAccounts('mint', mint.key, view.commitment)) {
    const token = readTokenAccount(owner, data)
    if (token !== null) held.push({ pubkey, amount: token.amount })
  }
  held.sort((a, b) =>
    a.amount === b.amount ? Buffer.compare(b.pubkey, a.pubkey) : a.amount < b.amount ? 1 : -1,
  )
  return held
    .slice(0, largestAccountsCount)
    .map(({ pubkey, amount }) => ({ address: keyText(pubkey), ...shown(amount, mint.unit) }))
}
