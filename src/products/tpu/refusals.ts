// Builds every refusal of a submission: its code and its error text.
// The code of a refusal is its machine-readable reason; it is also the label of the meter.
import { codesOf, type Outcome, type Refusal, refuse } from '../../base/errors.ts'
import { errorTextOf, type RpcError } from '../../base/jsonrpc/build.ts'
import type { DecodeProblem } from '../../chain/solana/transaction.ts'
import { minimumTipLamports, type TipReason, tipReasons } from './tip.ts'

export const rejectReasons = [
  ...tipReasons,
  'BAD_PARAMS',
  'BAD_ENCODING',
  'TOO_LARGE',
  'MALFORMED',
  'SIGNATURE_COUNT',
  'UNSUPPORTED_VERSION',
  'BAD_SIGNATURE',
  'ADDRESS_RATE',
  'FEE_PAYER_RATE',
  'NO_UPSTREAM',
  'BUSY',
  'CHAIN_REJECTED',
] as const
export type RejectReason = (typeof rejectReasons)[number]

/** JSON-RPC codes that Solana defines; all others follow from the kind (base/errors.ts). */
const solanaCodes: Partial<Readonly<Record<string, number>>> = {
  CHAIN_REJECTED: -32002,
  BAD_SIGNATURE: -32003,
  SIGNATURE_COUNT: -32013,
  UNSUPPORTED_VERSION: -32015,
}

const tipMessages: Readonly<Record<TipReason, string>> = {
  TIP_MISSING: 'no top-level System Program transfer to a tip account',
  TIP_VIA_LOOKUP_TABLE: 'the tip account must be a static key, not one of a lookup table',
  TIP_ACCOUNT_NOT_WRITABLE: 'the tip account must be writable',
  TIP_SOURCE_NOT_SIGNER: 'the source of the tip must be a signer',
  TIP_TOO_LOW: `the tip is below ${minimumTipLamports} lamports`,
}

/** Refusal of a bad tip. A missing tip is the most common one, so that refusal is built once. */
export function tipRefusal(reason: TipReason, foundLamports: number): Refused {
  return reason === 'TIP_MISSING' ? tipMissing : newTipRefusal(reason, foundLamports)
}

function newTipRefusal(reason: TipReason, foundLamports: number): Refused {
  const data = { reason, requiredLamports: minimumTipLamports, foundLamports }
  return refuse('rejected', reason, `Transaction rejected: ${tipMessages[reason]}`, { data })
}

const tipMissing = newTipRefusal('TIP_MISSING', 0)

/** A refusal whose data is its reason alone. */
function plain(kind: Refusal['kind'], reason: RejectReason, message: string): Refused {
  return refuse(kind, reason, message, { data: { reason } })
}

export const badEncoding = plain('invalid', 'BAD_ENCODING', 'the transaction cannot be decoded')
export const tooLarge = plain(
  'invalid',
  'TOO_LARGE',
  'a transaction has at most 1232 bytes, one of version 1 4096',
)
export const badSignature = plain(
  'invalid',
  'BAD_SIGNATURE',
  'Transaction signature verification failure',
)
export const noUpstream = plain('unavailable', 'NO_UPSTREAM', 'no upstream is healthy')
export const busy = plain('unavailable', 'BUSY', 'too many submissions at once')

const signatureCount = plain('invalid', 'SIGNATURE_COUNT', 'Transaction signature length mismatch')
const unsupportedVersion = plain(
  'invalid',
  'UNSUPPORTED_VERSION',
  'Transaction version is not supported: use legacy, 0 or 1',
)

export function decodeRefusal(problem: DecodeProblem): Refused {
  switch (problem) {
    case 'too-large':
      return tooLarge
    case 'signature-count':
      return signatureCount
    case 'unsupported-version':
      return unsupportedVersion
    default:
      return refuse('invalid', 'MALFORMED', `the transaction cannot be read: ${problem}`, {
        data: { reason: 'MALFORMED', problem },
      })
  }
}

export function rateRefusal(
  reason: 'ADDRESS_RATE' | 'FEE_PAYER_RATE',
  retryAfterMs: number,
): Refused {
  const who = reason === 'ADDRESS_RATE' ? 'this address' : 'this fee payer'
  return refuse('exhausted', reason, `Too many transactions from ${who}`, {
    retryAfterMs,
    data: { reason },
  })
}

/** Refusal of a transaction that the chain rejected; only with `tpu.wait`. */
export function chainRefusal(refusal: Refusal): Refused {
  const { err } = (refusal.data ?? {}) as { err?: unknown }
  return refuse('rejected', 'CHAIN_REJECTED', `the chain refuses it: ${refusal.message}`, {
    data: { reason: 'CHAIN_REJECTED', ...(err === undefined ? {} : { err }) },
  })
}

export function rpcErrorOf(refusal: Refusal): RpcError {
  return refusal === tipMissing.refusal ? tipMissingError : newRpcError(refusal)
}

function newRpcError({ kind, code, message, data }: Refusal): RpcError {
  return { code: solanaCodes[code] ?? codesOf[kind].jsonrpc, message, data }
}

const tipError = newRpcError(tipMissing.refusal)
const tipMissingError: RpcError = { ...tipError, text: errorTextOf(tipError) }

export type Refused = Extract<Outcome<never>, { ok: false }>
