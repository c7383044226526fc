// Serves the JSON-RPC methods of the TPU Sender: sendTransaction and a few queries.
// Thread: main. No sockets.
import type { Clock } from '../../base/clock.ts'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { type Answer, encodedText, failure } from '../../jsonrpc/build.ts'
import { Methods } from '../../jsonrpc/methods.ts'
import type { Call } from '../../jsonrpc/parse.ts'
import { type Allowance, type Host, serve } from '../../jsonrpc/serve.ts'
import { type Log, LogThrottle } from '../../telemetry/log.ts'
import { batchItemsMax, decodeText, type Encoding } from './bodies.ts'
import { triesMax } from './forward.ts'
import type { Sender, TpuHandler } from './handle.ts'
import type { TpuMeters } from './meters.ts'
import { noUpstream, rpcErrorOf } from './refusals.ts'
import type { TipAccounts } from './tip-accounts.ts'

/** One request: its sender, and the outcomes of its calls. */
export interface RpcCaller extends Sender {
  calls: number
  /** Calls that were refused by a rate limit, and when to retry. */
  exhausted: number
  retryAfterMs: number
}

export interface MethodDeps {
  readonly handler: TpuHandler
  readonly accounts: TipAccounts
  readonly meters: TpuMeters
  /** The result of getVersion. */
  readonly version: Readonly<Record<string, unknown>>
  isUp(): boolean
  readonly clock: Clock
  readonly log: Log
}

export interface SendRequest {
  readonly bytes: Uint8Array
  readonly maxRetries: number
}

/** Every call is free: a transaction pays by its tip. */
const free: Allowance = { ok: true, reason: 'ok', retryAfterMs: 0 }

export class TpuMethods implements Host<RpcCaller, Allowance> {
  readonly #deps: MethodDeps
  readonly #methods: Methods<RpcCaller>
  readonly #throttle = new LogThrottle()

  constructor(deps: MethodDeps) {
    this.#deps = deps
    const version = encodedText(JSON.stringify(deps.version))
    const healthy = encodedText('"ok"')
    const unhealthy = failure(rpcErrorOf(noUpstream.refusal))
    this.#methods = new Methods<RpcCaller>({
      sendTransaction: (call, caller) => this.#sendTransaction(call, caller),
      getTipAccounts: () => encodedText(deps.accounts.json),
      getHealth: () => (deps.isUp() ? healthy : unhealthy),
      getVersion: () => version,
    })
  }

  serve(body: Buffer, caller: RpcCaller) {
    return serve(body, caller, this)
  }

  batchItemsMax(): number {
    return batchItemsMax
  }

  spend(): Allowance {
    return free
  }

  enter(): boolean {
    return true
  }

  leave(): void {}

  call(call: Call, caller: RpcCaller): Answer | Promise<Answer> {
    caller.calls++
    return this.#methods.call(call, caller)
  }

  failed(_: string, error: unknown): void {
    if (this.#throttle.allows('method', this.#deps.clock.monotonicMs()))
      this.#deps.log.error('method failed', { reason: String(error) })
  }

  #sendTransaction(call: Call, caller: RpcCaller): Answer | Promise<Answer> {
    const request = readSend(call.params)
    if (!request.ok) {
      this.#deps.meters.rejected.count(request.refusal.code)
      return answerOf(request, caller)
    }
    const { bytes, maxRetries } = request.value
    const outcome = this.#deps.handler.submit(bytes, caller, maxRetries)
    if (outcome instanceof Promise) return outcome.then((done) => answerOf(done, caller))
    return answerOf(outcome, caller)
  }
}

/** The params of sendTransaction: `[transaction, {encoding, skipPreflight, maxRetries}]`. */
export function readSend(params: unknown): Outcome<SendRequest> {
  if (!Array.isArray(params) || typeof params[0] !== 'string')
    return badParams('params are [transaction, options]')
  const options: unknown = params[1] ?? {}
  if (typeof options !== 'object' || Array.isArray(options))
    return badParams('options are an object')
  const { encoding, skipPreflight, maxRetries } = options as Readonly<Record<string, unknown>>
  if (encoding !== undefined && encoding !== null && !isEncoding(encoding))
    return badParams('encoding is base58 or base64')
  // Absent means true here: the TPU Sender never simulates.
  if (skipPreflight !== undefined && skipPreflight !== null && skipPreflight !== true)
    return badParams('preflight is not supported: leave skipPreflight out or set it to true')
  if (maxRetries !== undefined && maxRetries !== null && !isCount(maxRetries))
    return badParams('maxRetries is a whole number')
  const decoded = decodeText(params[0], encoding ?? 'base58')
  if (!decoded.ok) return decoded
  return accept({ bytes: decoded.value, maxRetries: maxRetries ?? triesMax - 1 })
}

function answerOf(outcome: Outcome<string>, caller: RpcCaller): Answer {
  if (outcome.ok) return encodedText(`"${outcome.value}"`)
  const { refusal } = outcome
  if (refusal.kind === 'exhausted') {
    caller.exhausted++
    caller.retryAfterMs = Math.max(caller.retryAfterMs, refusal.retryAfterMs ?? 0)
  }
  return failure(rpcErrorOf(refusal))
}

function badParams(message: string): Outcome<never> {
  return refuse('invalid', 'BAD_PARAMS', `Invalid params: ${message}`, {
    data: { reason: 'BAD_PARAMS' },
  })
}

function isEncoding(value: unknown): value is Encoding {
  return value === 'base58' || value === 'base64'
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}
