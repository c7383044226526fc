// RPC methods that submit transactions: sendTransaction, simulateTransaction, requestAirdrop,
// getFeeForMessage. Thread: main of the devnode.
//
//   text -> decode strictly -> simulate (verifies signatures) -> submit -> signature
import { Commitment, commitmentNames } from '../../base/commitment.ts'
import { type Outcome, refuse } from '../../base/errors.ts'
import { jsonText, ReadyJson } from '../../base/json-text.ts'
import { type Answer, encodedText, failure, type RpcError } from '../../base/jsonrpc/build.ts'
import { encodeBase58 } from '../../chain/solana/base58.ts'
import { parsedInstruction } from '../../chain/solana/json-parsed/instructions.ts'
import type { DecodeProblem } from '../../chain/solana/transaction.ts'
import { loadedText, returnDataText, tokenBalanceText } from '../../chain/solana/ui-transaction.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import { accountText } from '../../chain/solana-rpc/methods.ts'
import type { Answering, ParamFields, Params } from '../../chain/solana-rpc/params.ts'
import { answering, inContext, refusalError, viewOf } from '../../chain/solana-rpc/params.ts'
import type { Simulated } from '../simulated.ts'
import { transactionErrorText } from '../transaction-error-text.ts'
import type { RpcNode } from './rpc-node.ts'
import {
  bytesOfText,
  messageName,
  problemError,
  versionOne,
  type WireTransaction,
  wireTransactionOf,
} from './wire-transaction.ts'

const sendEncodings = ['binary', 'base64', 'base58', 'json', 'jsonParsed'] as const

export function submitMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { chain, ledger, shapes } = node
  return {
    sendTransaction: answering({ least: 1, most: 2 }, (params) => {
      const config = params.config(1, 'RpcSendTransactionConfig')
      const wire = readWire(params, config, shapes)
      const isPreflight = config.flag('skipPreflight') !== true
      config.choice('preflightCommitment', commitmentNames)
      config.u64('maxRetries', 'usize')
      // Transactions run on the newest state, whatever the preflight commitment is.
      viewOf(config, ledger, Commitment.processed)
      return () => send(wire!, isPreflight)
    }),
    simulateTransaction: answering({ least: 1, most: 2 }, (params) => {
      const config = params.config(1, 'RpcSimulateTransactionConfig')
      const mustVerify = config.flag('sigVerify') === true
      const isBlockhashReplaced = config.flag('replaceRecentBlockhash') === true
      const hasCalls = config.flag('innerInstructions') === true
      const asked = config.fields('accounts', 'RpcSimulateTransactionAccountsConfig')
      const wire = readWire(params, config, shapes)
      viewOf(config, ledger, Commitment.processed)
      if (mustVerify && isBlockhashReplaced)
        params.fail('sigVerify may not be used with replaceRecentBlockhash')
      const accounts = asked === null ? null : readAccounts(asked, wire?.keyCount ?? 0)
      return () => {
        const outcome = chain.simulate(wire!.bytes, { isBlockhashReplaced, mustVerify })
        if (!outcome.ok) return failure(refusalError(outcome.refusal))
        const simulated = outcome.value
        // A transaction that failed changes nothing that could be shown: its keys are not read.
        const keys = accounts?.addresses.map((text) =>
          simulated.err === null ? params.keyOf(text) : null,
        )
        if (params.problem !== null) return failure(params.problem)
        const after = accounts && { encoding: accounts.encoding, keys: keys! }
        const shown = { keys: wire!.keys, hasCalls, accounts: after }
        return inContext(node, simulated.slot, simulatedText(simulated, shown, shapes))
      }
    }),
    requestAirdrop: answering({ least: 2, most: 3 }, (params) => {
      const to = params.key(0)
      const lamports = params.exactU64(1)
      const config = params.config(2, 'RpcRequestAirdropConfig')
      const blockhash = config.text('recentBlockhash')
      const hash = blockhash === null ? null : params.keyOf(blockhash)
      viewOf(config, ledger)
      return () => {
        const outcome = chain.requestAirdrop(to, BigInt(lamports), hash)
        return outcome.ok
          ? encodedText(`"${encodeBase58(outcome.value)}"`)
          : failure(refusalError(outcome.refusal))
      }
    }),
    getFeeForMessage: answering({ least: 1, most: 2 }, (params) => {
      const message = bytesOfText(params.text(0), 'base64', { name: messageName, shapes })
      if ('code' in message) params.refuse(message)
      const view = viewOf(params.config(1, 'RpcContextConfig'), ledger)
      const fee: Outcome<bigint | null> | null =
        'code' in message
          ? null
          : !shapes.transactionV1 && message[0] === versionOne
            ? refuse('invalid', 'unsupported-version', 'version 1')
            : chain.feeForMessage(message, view.commitment)
      // Reason for the casts: only a message that was decoded has a fee, and the code says why not.
      if (fee?.ok === false)
        params.refuse(
          problemError(fee.refusal.code as DecodeProblem, message as Uint8Array, messageName),
        )
      return () => inContext(node, view.slot, fee?.ok === true ? String(fee.value) : 'null')
    }),
  }

  function send(wire: WireTransaction, isPreflight: boolean): Answer {
    if (isPreflight) {
      const options = { isBlockhashReplaced: false, mustVerify: true }
      const outcome = chain.simulate(wire.bytes, options)
      if (!outcome.ok) return failure(refusalError(outcome.refusal))
      if (outcome.value.err !== null) return failure(preflightFailure(outcome.value))
    }
    const submitted = chain.submit(wire.bytes, { isVerified: isPreflight })
    // A validator forwards and answers before it knows: a rejection is not reported.
    if (!submitted.ok && submitted.refusal.kind !== 'rejected')
      return failure(refusalError(submitted.refusal))
    return encodedText(`"${encodeBase58(wire.signature)}"`)
  }
}

function readWire(params: Params, config: ParamFields, shapes: Shapes): WireTransaction | null {
  const text = params.text(0)
  const encoding = config.choice('encoding', sendEncodings) ?? 'base58'
  if (encoding === 'json' || encoding === 'jsonParsed')
    params.fail(`unsupported encoding: ${encoding}. Supported encodings: base58, base64`)
  if (params.problem !== null) return null
  const wire = wireTransactionOf(text, encoding === 'base64' ? 'base64' : 'base58', shapes)
  if ('bytes' in wire) return wire
  params.refuse(wire)
  return null
}

/** `accounts` of a simulation: which to show afterwards, and how. */
function readAccounts(
  asked: ParamFields,
  most: number,
): { encoding: AskedAccounts['encoding']; addresses: readonly string[] } {
  const { params } = asked
  const options = ['binary', 'base58', 'base64', 'jsonParsed', 'base64+zstd'] as const
  const encoding = asked.choice('encoding', options) ?? 'base64'
  const addresses = asked.list('addresses') ?? []
  for (const text of addresses) if (typeof text !== 'string') params.mismatch(text, 'a string')
  const isBase58 = encoding === 'binary' || encoding === 'base58'
  if (isBase58) params.fail('base58 encoding not supported')
  if (addresses.length > most) params.fail(`Too many accounts provided; max ${most}`)
  return { encoding: isBase58 ? 'base64' : encoding, addresses: addresses.map(String) }
}

// Formats a simulation for simulateTransaction and for a failed preflight. Thread: main of the
// devnode.

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
  shapes: Shapes,
): string {
  const { loadedWritableAddresses, loadedReadonlyAddresses } = simulated
  const keys = [...shown.keys, ...loadedWritableAddresses, ...loadedReadonlyAddresses]
  const { balances } = simulated
  const tokens = (which: 'preTokenBalances' | 'postTokenBalances') =>
    balances &&
    new ReadyJson(`[${balances[which].map((one) => tokenBalanceText(one, sorted)).join(',')}]`)
  return jsonText({
    accounts: shown.accounts === null ? null : accountsAfter(simulated, shown.accounts, shapes),
    err: simulated.err,
    fee: simulated.fee,
    innerInstructions: shown.hasCalls ? calls(simulated, keys, shapes) : null,
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

function calls({ innerInstructions }: Simulated, keys: readonly Uint8Array[], shapes: Shapes) {
  if (innerInstructions === null) return null
  return innerInstructions.map(({ index, instructions }) => ({
    index,
    instructions: instructions.map((instruction) =>
      parsedInstruction(instruction, keys, instruction.stackHeight ?? null, shapes),
    ),
  }))
}

function accountsAfter(
  simulated: Simulated,
  { keys, encoding }: AskedAccounts,
  shapes: Shapes,
): unknown[] {
  return keys.map((key) => {
    const account = key === null ? null : simulated.account(key)
    if (account === null) return null
    const read = (pubkey: Uint8Array) => simulated.account(pubkey)
    const view = { encoding, dataSlice: null }
    return new ReadyJson(accountText(account, view, read, { shapes })!)
  })
}
