// Serves the JSON-RPC methods of the TPU Sender: sendTransaction and a few queries.
// No sockets.
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { type Answer, encodedText, failure } from '../../base/jsonrpc/build.ts'
import type { Call } from '../../base/jsonrpc/parse.ts'
import { Methods } from '../../base/jsonrpc/serve.ts'
import { whenDone } from '../../base/steps.ts'
import { base58TextMax, decodeBase58 } from '../../chain/solana/base58.ts'
import type { Sender, TpuHandler } from './handle.ts'
import type { TpuMeters } from './meters.ts'
import { badEncoding, noUpstream, rpcErrorOf, tooLarge } from './refusals.ts'
import type { TipAccounts } from './tip.ts'

/** The upstreams that a caller's transactions go to. */
export interface Target {
  readonly handler: TpuHandler
  isUp(): boolean
}

export interface Caller extends Sender {
  readonly target: Target
}

export interface MethodDeps {
  readonly accounts: TipAccounts
  readonly meters: TpuMeters
  /** The result of getVersion. */
  readonly version: Readonly<Record<string, unknown>>
}

export interface SendRequest {
  readonly bytes: Uint8Array
  readonly maxRetries: number
}

export function tpuMethods(deps: MethodDeps): Methods<Caller> {
  const version = encodedText(JSON.stringify(deps.version))
  const healthy = encodedText('"ok"')
  const unhealthy = failure(rpcErrorOf(noUpstream.refusal))
  return new Methods<Caller>({
    sendTransaction: (call, caller) => sendTransaction(call, caller, deps),
    getTipAccounts: () => encodedText(deps.accounts.json),
    getHealth: (_, { target }) => (target.isUp() ? healthy : unhealthy),
    getVersion: () => version,
  })
}

function sendTransaction(
  { params }: Call,
  caller: Caller,
  { meters }: MethodDeps,
): Answer | Promise<Answer> {
  const request = readSend(params)
  if (!request.ok) {
    meters.rejected.count(request.refusal.code)
    return answerOf(request)
  }
  const { bytes, maxRetries } = request.value
  return whenDone(caller.target.handler.submit(bytes, caller, maxRetries), answerOf)
}

/** The params of sendTransaction: `[transaction, {encoding, skipPreflight, maxRetries}]`. */
export function readSend(params: unknown): Outcome<SendRequest> {
  if (!Array.isArray(params) || typeof params[0] !== 'string')
    return badParams('params are [transaction, options]')
  const options: unknown = params[1] ?? {}
  if (typeof options !== 'object' || Array.isArray(options))
    return badParams('options are an object')
  const { encoding, skipPreflight, maxRetries } = options as Readonly<Record<string, unknown>>
  const packing = encoding ?? 'base58'
  if (packing !== 'base58' && packing !== 'base64') return badParams('encoding is base58 or base64')
  // Absent means true here: the TPU Sender never simulates.
  if (skipPreflight !== undefined && skipPreflight !== null && skipPreflight !== true)
    return badParams('preflight is not supported: leave skipPreflight out or set it to true')
  if (maxRetries !== undefined && maxRetries !== null && !isCount(maxRetries))
    return badParams('maxRetries is a whole number')
  const decoded = decodeText(params[0], packing)
  if (!decoded.ok) return decoded
  return accept({ bytes: decoded.value, maxRetries: maxRetries ?? Number.POSITIVE_INFINITY })
}

function answerOf(outcome: Outcome<string>): Answer {
  if (outcome.ok) return encodedText(`"${outcome.value}"`)
  const { refusal } = outcome
  const error = rpcErrorOf(refusal)
  if (refusal.kind !== 'exhausted') return failure(error)
  return { kind: 'error', error, retryAfterMs: refusal.retryAfterMs ?? 0 }
}

function badParams(message: string): Outcome<never> {
  return refuse('invalid', 'BAD_PARAMS', `Invalid params: ${message}`, {
    data: { reason: 'BAD_PARAMS' },
  })
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

// Decodes request bodies: one transaction as text or bytes, or several in one body.
// Pure. Never throws.

export type Encoding = 'base58' | 'base64'

/** 4,096 bytes in base64: version 1; the decoder knows the limit of each version. */
const base64TextMax = 5_464

/** Where the spec is silent: payload of a batch. */
export const batchItemsMax = 16

export function decodeText(text: string, encoding: Encoding): Outcome<Uint8Array> {
  if (text.length > (encoding === 'base64' ? base64TextMax : base58TextMax)) return tooLarge
  const bytes = encoding === 'base64' ? decodeBase64(text) : decodeBase58(text)
  return bytes === null ? badEncoding : accept(bytes)
}

/**
 * Strict, as if the bytes were encoded again and compared: Node skips characters outside of the
 * alphabet, so that there are fewer bytes, takes base64url, too, and ignores bits after the last
 * byte.
 */
function decodeBase64(text: string): Uint8Array | null {
  const bytes = Buffer.from(text, 'base64')
  if (Math.ceil(bytes.length / 3) * 4 !== text.length) return null
  if (text.includes('-') || text.includes('_')) return null
  const rest = bytes.length % 3
  if (rest > 0 && bytes.toString('base64', bytes.length - rest) !== text.slice(-4)) return null
  return bytes
}

/**
 * Splits a batch: each transaction is prefixed by its length in two bytes, big-endian. Null when
 * the lengths do not add up to the body, or when it has no transactions or too many.
 */
export function splitBatch(body: Buffer): Buffer[] | null {
  const items: Buffer[] = []
  let at = 0
  while (at < body.length) {
    if (at + 2 > body.length || items.length === batchItemsMax) return null
    const end = at + 2 + body.readUInt16BE(at)
    if (end > body.length) return null
    items.push(body.subarray(at + 2, end))
    at = end
  }
  return items.length === 0 ? null : items
}
