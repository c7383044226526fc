// The profile of a transaction: what it would change and consume, as surfpool shows it.
// Thread: main of the devnode. Nothing is kept.
import { Commitment } from '../../base/commitment.ts'
import { accept, type Outcome } from '../../base/errors.ts'
import { jsonText, ReadyJson } from '../../base/json-text.ts'
import { keyText } from '../../solana/key-text.ts'
import { isSameKey } from '../../solana/keys.ts'
import { TransactionLayout } from '../../solana/transaction.ts'
import type { AccountEncoding } from '../../solana/ui-account.ts'
import { accountText } from '../../solana-rpc/encode-account.ts'
import type { LedgerAccount } from '../ledger/ledger.ts'
import type { Simulated } from '../simulated.ts'
import { transactionErrorText } from '../transaction-error-text.ts'
import type { RpcNode } from './rpc-node.ts'
import type { WireTransaction } from './wire-transaction.ts'

const layout = new TransactionLayout()

/** `key`: the id of the profile. Refused `invalid` for bytes that the chain cannot read. */
export function profileText(
  { chain, ledger }: RpcNode,
  wire: WireTransaction,
  { encoding, key }: { readonly encoding: AccountEncoding; readonly key: string },
): Outcome<string> {
  const options = { isBlockhashReplaced: true, mustVerify: false }
  const outcome = chain.simulate(wire.bytes, options)
  if (!outcome.ok) return outcome
  const simulated = outcome.value
  const before = (pubkey: Uint8Array) => ledger.account(pubkey, Commitment.processed)
  const after = (pubkey: Uint8Array) =>
    simulated.err === null ? simulated.account(pubkey) : before(pubkey)
  const shown = (account: LedgerAccount | null, read: typeof before) => {
    if (account === null) return null
    const view = { encoding, dataSlice: null }
    const text = accountText(account, view, read) ?? accountText(account, base64, read)
    return new ReadyJson(text!)
  }
  const change = (pubkey: Uint8Array) => {
    const [old, fresh] = [before(pubkey), after(pubkey)]
    if (isUnchanged(old, fresh)) return { type: 'unchanged', data: shown(old, before) }
    if (old === null) return { type: 'create', data: shown(fresh, after) }
    if (fresh === null) return { type: 'delete', data: shown(old, before) }
    return { type: 'update', data: [shown(old, before), shown(fresh, after)] }
  }
  const states: Record<string, unknown> = {}
  const readonly: Record<string, unknown> = {}
  layout.decode(wire.bytes)
  const { loadedWritableAddresses: loaded, loadedReadonlyAddresses: fixed } = simulated
  for (const [index, pubkey] of [...wire.keys, ...loaded, ...fixed].entries()) {
    const name = keyText(pubkey)
    if (layout.isWritable(index)) {
      states[name] = { type: 'writable', accountChange: change(pubkey) }
      continue
    }
    states[name] = { type: 'readonly' }
    const account = before(pubkey)
    if (account !== null) readonly[name] = shown(account, before)
  }
  return accept(
    jsonText({
      slot: simulated.slot,
      key,
      transactionProfile: { accountStates: states, ...costOf(simulated) },
      readonlyAccountStates: readonly,
    }),
  )
}

const base64 = { encoding: 'base64', dataSlice: null } as const

function costOf({ err, unitsConsumed, logs }: Simulated) {
  return {
    computeUnitsConsumed: unitsConsumed,
    logMessages: logs,
    errorMessage: err === null ? null : transactionErrorText(err),
  }
}

function isUnchanged(a: LedgerAccount | null, b: LedgerAccount | null): boolean {
  if (a === null || b === null) return a === b
  if (a.lamports !== b.lamports || a.executable !== b.executable) return false
  return isSameKey(a.owner, b.owner) && isSameKey(a.data, b.data)
}
