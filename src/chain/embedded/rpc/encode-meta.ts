// What became of a transaction, as JSON text. Thread: main.
// Used by encode-transaction.ts; the token balances and calls also by submit.ts.
import { jsonText } from '../../../base/json-text.ts'
import { encodeBase58 } from '../../../solana/base58.ts'
import type { MetaContent, TokenBalanceContent } from '../../../solana/geyser-content.ts'
import { parsedInstruction } from '../../../solana/json-parsed/instructions.ts'
import { keyText } from '../../../solana/key-text.ts'
import { uiTokenAmount } from '../../../solana/token-amount.ts'
import type { LedgerTransaction } from '../ledger/ledger.ts'
import { base64 } from './encode-account.ts'

export interface MetaFormat {
  readonly isParsed: boolean
  readonly hasRewards: boolean
  /** `accounts` leaves out everything but the outcome and the balances. */
  readonly details: 'full' | 'accounts'
}

type Calls = NonNullable<MetaContent['innerInstructions']>

export function metaText(transaction: LedgerTransaction, format: MetaFormat): string {
  const { err, meta, keys } = transaction
  const outcome = {
    err,
    fee: meta.fee,
    postBalances: meta.postBalances,
    postTokenBalances: meta.postTokenBalances.map(tokenBalance),
    preBalances: meta.preBalances,
    preTokenBalances: meta.preTokenBalances.map(tokenBalance),
    status: err === null ? { Ok: null } : { Err: err },
  }
  if (format.details === 'accounts') return jsonText(outcome)
  const { computeUnitsConsumed, innerInstructions, logMessages } = meta
  const calls = innerInstructions ?? []
  return jsonText({
    computeUnitsConsumed: computeUnitsConsumed ?? undefined,
    err: outcome.err,
    fee: outcome.fee,
    innerInstructions: format.isParsed ? parsedCalls(calls, keys) : plainCalls(calls),
    loadedAddresses: format.isParsed ? undefined : loadedAddresses(meta),
    logMessages,
    postBalances: outcome.postBalances,
    postTokenBalances: outcome.postTokenBalances,
    preBalances: outcome.preBalances,
    preTokenBalances: outcome.preTokenBalances,
    returnData: returnDataOf(meta.returnData) ?? undefined,
    rewards: format.hasRewards ? [] : null,
    status: outcome.status,
  })
}

export function tokenBalance(balance: TokenBalanceContent) {
  return {
    accountIndex: balance.accountIndex,
    mint: balance.mint,
    owner: balance.owner,
    programId: balance.programId,
    uiTokenAmount: uiTokenAmount(BigInt(balance.amount), balance.decimals),
  }
}

export function loadedAddresses(meta: {
  readonly loadedReadonlyAddresses: readonly Uint8Array[]
  readonly loadedWritableAddresses: readonly Uint8Array[]
}) {
  return {
    readonly: meta.loadedReadonlyAddresses.map(keyText),
    writable: meta.loadedWritableAddresses.map(keyText),
  }
}

export function returnDataOf(returned: MetaContent['returnData']) {
  if (returned === null) return null
  return { data: [base64(returned.data), 'base64'], programId: keyText(returned.programId) }
}

export function parsedCalls(calls: Calls, keys: readonly Uint8Array[]) {
  return calls.map(({ index, instructions }) => ({
    index,
    instructions: instructions.map((instruction) =>
      parsedInstruction(instruction, keys, instruction.stackHeight ?? null),
    ),
  }))
}

function plainCalls(calls: Calls) {
  return calls.map(({ index, instructions }) => ({
    index,
    instructions: instructions.map(({ accounts, data, programIdIndex, stackHeight }) => ({
      accounts: [...accounts],
      data: encodeBase58(data),
      programIdIndex,
      stackHeight: stackHeight ?? null,
    })),
  }))
}
