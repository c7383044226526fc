// Errors of Solana's RPC with a validator's own codes and messages.
// Client libraries match on both. Codes of our own (401, 429) never fall among these.
import type { Refusal } from '../../base/errors.ts'
import { type RpcError, rpcErrors } from '../../base/jsonrpc/build.ts'

export function invalidParams(message: string): RpcError {
  return { code: rpcErrors.invalidParams.code, message }
}

export const rpcFaults = {
  blockCleanedUp: (slot: number, first: number): RpcError => ({
    code: -32001,
    message: `Block ${slot} cleaned up, does not exist on node. First available block: ${first}`,
  }),
  blockNotAvailable: (slot: number | bigint): RpcError => ({
    code: -32004,
    message: `Block not available for slot ${slot}`,
  }),
  slotSkipped: (slot: number): RpcError => ({
    code: -32007,
    message: `Slot ${slot} was skipped, or missing due to ledger jump to recent snapshot`,
  }),
  noSnapshot: { code: -32008, message: 'No snapshot' },
  unsupportedVersion: (version: number): RpcError => ({
    code: -32015,
    message:
      `Transaction version (${version}) is not supported by the requesting client. ` +
      'Please try the request again with the following configuration parameter: ' +
      `"maxSupportedTransactionVersion": ${version}`,
  }),
  minContextSlot: (contextSlot: number): RpcError => ({
    code: -32016,
    message: 'Minimum context slot has not been reached',
    data: { contextSlot },
  }),
  transactionNotFound: (signature: string): RpcError => ({
    code: -32020,
    message: `Transaction ${signature} not found`,
  }),
  base58TooLarge: {
    code: -32600,
    message:
      'Encoded binary (base 58) data should be less than 128 bytes, please use Base64 encoding.',
  },
} as const

/** The error of a refusal, where the method has no error of its own for it. */
export function refusalError(refusal: Refusal): RpcError {
  if (refusal.kind === 'unavailable') return rpcErrors.nodeUnhealthy
  if (refusal.kind === 'invalid') return invalidParams(refusal.message)
  return { code: rpcErrors.internal.code, message: refusal.message }
}
