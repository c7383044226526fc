// RPC methods on accounts: the shared ones, getProgramAccounts, getLargestAccounts, getSupply,
// getMinimumBalanceForRentExemption.

import { jsonText } from '../../base/json-text.ts'
import { type Answer, encodedText, failure, rpcErrors } from '../../base/jsonrpc/build.ts'
import {
  type AccountFilter,
  filtersTake,
  readAccountFilters,
  tokenFilterProblem,
} from '../../chain/solana/account-filter.ts'
import { keyText } from '../../chain/solana/key-text.ts'
import { bytesOf, keyOf } from '../../chain/solana/keys.ts'
import { accountMethods as sharedAccountMethods } from '../../chain/solana-rpc/account-methods.ts'
import { accountViewOf } from '../../chain/solana-rpc/encode-account.ts'
import { rpcFaults } from '../../chain/solana-rpc/errors.ts'
import { whenDone } from '../../chain/solana-rpc/in-turns.ts'
import type { ParamFields } from '../../chain/solana-rpc/params.ts'
import {
  type Answering,
  answering,
  commitmentViewOf,
  inContext,
  type View,
  viewOf,
} from '../../chain/solana-rpc/view.ts'
import type { Ledger, LedgerAccount } from '../ledger/ledger.ts'
import { keyedAccountsText } from './keyed-accounts.ts'
import type { RpcNode } from './rpc-node.ts'
import { nonCirculating } from './supply.ts'

const largestAccountsCount = 20
const accountBytesMax = 10 * 1024 * 1024

export function accountMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger } = node
  return {
    ...sharedAccountMethods(node),
    getProgramAccounts: programAccounts(node),
    getLargestAccounts: answering({ least: 0, most: 1 }, (params) => {
      const config = params.config(0, 'RpcLargestAccountsConfig')
      const view = viewOf(config, ledger)
      const filter = config.choice('filter', ['circulating', 'nonCirculating'])
      return () => inContext(node, view.slot, largestText(ledger, view, filter))
    }),
    getSupply: answering({ least: 0, most: 1 }, (params) => {
      const config = params.config(0, 'RpcSupplyConfig')
      const view = viewOf(config, ledger)
      const isListed = config.flag('excludeNonCirculatingAccountsList') !== true
      return () => {
        const total = ledger.supply(view.commitment)
        const { keys, lamports } = nonCirculating(ledger, view.commitment)
        const supply = {
          circulating: total - lamports,
          nonCirculating: lamports,
          nonCirculatingAccounts: isListed ? [...keys].map((key) => keyText(bytesOf(key))) : [],
          total,
        }
        return inContext(node, view.slot, jsonText(supply))
      }
    }),
    getMinimumBalanceForRentExemption: answering({ least: 1, most: 2 }, (params) => {
      const bytes = params.u64(0, 'usize')
      commitmentViewOf(params, 1, ledger)
      return (): Answer =>
        bytes > accountBytesMax
          ? failure(rpcErrors.invalidRequest)
          : encodedText(String(ledger.rentExemptMinimum(bytes)))
    }),
  }
}

function programAccounts(node: RpcNode): Answering {
  const { ledger } = node
  return answering({ least: 1, most: 2 }, (params) => {
    const program = params.key(0)
    const config = params.config(1, 'RpcProgramAccountsConfig')
    const view = viewOf(config, ledger)
    const format = accountViewOf(config, 'binary')
    const filters = filtersOf(config)
    const problem = tokenFilterProblem(program, filters)
    if (problem !== null) params.fail(problem)
    const hasContext = config.flag('withContext') === true
    const isSorted = config.flag('sortResults') !== false
    return () => {
      const found: LedgerAccount[] = []
      for (const account of ledger.accountsByOwner(program, view.commitment))
        if (filtersTake(filters, account)) found.push(account)
      if (isSorted) found.sort((a, b) => Buffer.compare(a.pubkey, b.pubkey))
      const texts = keyedAccountsText(found, format, (pubkey) =>
        ledger.account(pubkey, view.commitment),
      )
      return whenDone(texts, (list) => {
        if (list === null) return failure(rpcFaults.base58TooLarge)
        return hasContext ? inContext(node, view.slot, list) : encodedText(list)
      })
    }
  })
}

function largestText(
  ledger: Ledger,
  { commitment }: View,
  filter: 'circulating' | 'nonCirculating' | null,
): string {
  const top: LedgerAccount[] = []
  const locked = filter === null ? null : nonCirculating(ledger, commitment).keys
  for (const account of ledger.accounts(commitment)) {
    if (locked !== null && locked.has(keyOf(account.pubkey)) !== (filter === 'nonCirculating'))
      continue
    if (top.length === largestAccountsCount && account.lamports <= top.at(-1)!.lamports) continue
    const place = top.findIndex(({ lamports }) => lamports < account.lamports)
    top.splice(place < 0 ? top.length : place, 0, account)
    top.length = Math.min(top.length, largestAccountsCount)
  }
  return jsonText(top.map(({ pubkey, lamports }) => ({ address: keyText(pubkey), lamports })))
}

function filtersOf(config: ParamFields): readonly AccountFilter[] {
  const filters = readAccountFilters(config.raw('filters'))
  if (filters.ok) return filters.value
  config.params.fail(filters.refusal.message)
  return []
}
