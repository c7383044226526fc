// Formats a simulation for simulateTransaction and for a failed preflight. Thread: main of the
// devnode.
import { jsonText, ReadyJson } from '../../base/json-text.ts'
import type { RpcError } from '../../jsonrpc/build.ts'
import { parsedInstruction } from '../../solana/json-parsed/instructions.ts'
import { loadedText, returnDataText, tokenBalanceText } from '../../solana/ui-meta.ts'
import type { Simulated } from '../simulated.ts'
import { transactionErrorText } from '../transaction-error-text.ts'
import { accountText } from './encode-account.ts'

/** Accounts to show as they would be afterwards. */
export interface AskedAccounts {
  readonly encoding: 'base64' | 'base64+zstd' | 'jsonParsed'
  readonly keys: readonly Uint8Array[]
}

const preflightFailed = -32002

export function preflightFailure(simulated: Simulated): RpcError {
  const { err } = simulated
  return {
    code: preflightFailed,
    message: `Transaction simulation failed: ${transactionErrorText(err!)}`,
    data: {
      accounts: null,
      err,
      fee: null,
      innerInstructions: null,
      loadedAccountsDataSize: simulated.loadedAccountsDataSize,
      loadedAddresses: null,
      logs: simulated.logs,
      postBalances: null,
      postTokenBalances: null,
      preBalances: null,
      preTokenBalances: null,
      replacementBlockhash: null,
      returnData: JSON.parse(returnDataText(simulated.returnData)),
      // Far below 2^53.
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
  const tokens = (balances: Simulated['preTokenBalances']) =>
    new ReadyJson(`[${balances.map(tokenBalanceText).join(',')}]`)
  return jsonText({
    accounts: shown.accounts === null ? null : accountsAfter(simulated, shown.accounts),
    err: simulated.err,
    fee: simulated.fee,
    innerInstructions: shown.hasCalls ? calls(simulated, keys) : null,
    loadedAccountsDataSize: simulated.loadedAccountsDataSize,
    loadedAddresses: new ReadyJson(loadedText(simulated)),
    logs: simulated.logs,
    postBalances: simulated.postBalances,
    postTokenBalances: tokens(simulated.postTokenBalances),
    preBalances: simulated.preBalances,
    preTokenBalances: tokens(simulated.preTokenBalances),
    replacementBlockhash: simulated.replacementBlockhash,
    returnData: new ReadyJson(returnDataText(simulated.returnData)),
    unitsConsumed: simulated.unitsConsumed,
  })
}

function calls({ innerInstructions }: Simulated, keys: readonly Uint8Array[]) {
  return innerInstructions.map(({ index, instructions }) => ({
    index,
    instructions: instructions.map((instruction) =>
      parsedInstruction(instruction, keys, instruction.stackHeight ?? null),
    ),
  }))
}

/** A transaction that failed changes nothing that could be shown. */
function accountsAfter(simulated: Simulated, { keys, encoding }: AskedAccounts): unknown[] {
  return keys.map((key) => {
    const account = simulated.err === null ? simulated.account(key) : null
    if (account === null) return null
    const read = (pubkey: Uint8Array) => simulated.account(pubkey)
    return new ReadyJson(accountText(account, { encoding, dataSlice: null }, read)!)
  })
}
