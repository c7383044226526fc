// Formats a simulation for simulateTransaction and for a failed preflight. Thread: main of the
// devnode.
import { jsonText, ReadyJson } from '../../base/json-text.ts'
import type { RpcError } from '../../base/jsonrpc/build.ts'
import { parsedInstruction } from '../../chain/solana/json-parsed/instructions.ts'
import { loadedText, returnDataText, tokenBalanceText } from '../../chain/solana/ui-meta.ts'
import { accountText } from '../../chain/solana-rpc/encode-account.ts'
import type { Simulated } from '../simulated.ts'
import { transactionErrorText } from '../transaction-error-text.ts'

/** Accounts to show as they would be afterwards; null keys for none. */
export interface AskedAccounts {
  readonly encoding: 'base64' | 'base64+zstd' | 'jsonParsed'
  readonly keys: readonly (Uint8Array | null)[]
}

const preflightFailed = -32002
/** As all answers. */
const sorted = { isSorted: true }

export function preflightFailure(simulated: Simulated): RpcError {
  const { err } = simulated
  return {
    code: preflightFailed,
    message: `Transaction simulation failed: ${transactionErrorText(err!)}`,
    data: {
      accounts: null,
      err,
      // Far below 2^53, as the units.
      fee: simulated.fee === null ? null : Number(simulated.fee),
      innerInstructions: null,
      loadedAccountsDataSize: simulated.loadedAccountsDataSize,
      loadedAddresses: null,
      logs: simulated.logs,
      postBalances: null,
      postTokenBalances: null,
      preBalances: null,
      preTokenBalances: null,
      replacementBlockhash: null,
      returnData: JSON.parse(returnDataText(simulated.returnData, sorted)),
      unitsConsumed: Number(simulated.unitsConsumed),
    },
  }
}

/** `keys` are the static ones of the transaction. */
export function simulatedText(
  simulated: Simulated,
  shown: {
    readonly keys: readonly Uint8Array[]
    readonly hasCalls: boolean
    readonly accounts: AskedAccounts | null
  },
): string {
  const { loadedWritableAddresses, loadedReadonlyAddresses } = simulated
  const keys = [...shown.keys, ...loadedWritableAddresses, ...loadedReadonlyAddresses]
  const { balances } = simulated
  const tokens = (which: 'preTokenBalances' | 'postTokenBalances') =>
    balances &&
    new ReadyJson(`[${balances[which].map((one) => tokenBalanceText(one, sorted)).join(',')}]`)
  return jsonText({
    accounts: shown.accounts === null ? null : accountsAfter(simulated, shown.accounts),
    err: simulated.err,
    fee: simulated.fee,
    innerInstructions: shown.hasCalls ? calls(simulated, keys) : null,
    loadedAccountsDataSize: simulated.loadedAccountsDataSize,
    loadedAddresses: new ReadyJson(loadedText(simulated, sorted)),
    logs: simulated.logs,
    postBalances: balances?.postBalances ?? null,
    postTokenBalances: tokens('postTokenBalances'),
    preBalances: balances?.preBalances ?? null,
    preTokenBalances: tokens('preTokenBalances'),
    replacementBlockhash: simulated.replacementBlockhash,
    returnData: new ReadyJson(returnDataText(simulated.returnData, sorted)),
    unitsConsumed: simulated.unitsConsumed,
  })
}

function calls({ innerInstructions }: Simulated, keys: readonly Uint8Array[]) {
  if (innerInstructions === null) return null
  return innerInstructions.map(({ index, instructions }) => ({
    index,
    instructions: instructions.map((instruction) =>
      parsedInstruction(instruction, keys, instruction.stackHeight ?? null),
    ),
  }))
}

function accountsAfter(simulated: Simulated, { keys, encoding }: AskedAccounts): unknown[] {
  return keys.map((key) => {
    const account = key === null ? null : simulated.account(key)
    if (account === null) return null
    const read = (pubkey: Uint8Array) => simulated.account(pubkey)
    return new ReadyJson(accountText(account, { encoding, dataSlice: null }, read)!)
  })
}
