// Rate-limits client addresses by cost: charged before the work, and by the bytes sent.
// Costs are fixed figures, not measured times: on a busy machine measured times would
// charge a caller for the work of others.
import type { Clock } from '../../base/clock.ts'
import { codesOf } from '../../base/errors.ts'
import { errorMessage } from '../../base/jsonrpc/build.ts'
import type { CounterChild } from '../../base/telemetry/meters.ts'
import type { ResponseHead } from '../../base/transport/reply.ts'
import { errorReply, Reply, withRetryAfter } from '../../base/transport/reply.ts'
import type { Request } from '../../base/transport/request.ts'
import { type AddressBudget, type Cost, Rates, RefusalDelay } from '../../customers/quota/rates.ts'
import { batchBytesMax, batchItemsMax, callWorkMs } from './rpc.ts'

/** Any request: reading its head, the lookup, a short answer. */
const requestCost: Cost = { workMs: 0.05, bytes: 512 }
/** Parsing a body, and building and sending an answer. */
const workMsPerBodyByte = 0.03 / 1024
const workMsPerByte = 3 / (1024 * 1024)
/** Longest body of POST /; one whose length is not stated counts as that long. */
export const rpcBodyBytesMax = 51_200
/** A longer one takes up to 1 ms to be read. That is done only where any batch could be charged: an
 *  address that retries would spend its budget on bodies that are read and then refused. */
export const shortBodyBytes = 1024
const batchCost: Cost = {
  workMs: batchItemsMax * callWorkMs + batchBytesMax * workMsPerByte,
  bytes: batchBytesMax,
}
/** A handshake with its snapshot; a frame that is resumed; a message. */
const upgradeWorkMs = 0.25
const frameWorkMs = 0.002
const messageCost: Cost = { workMs: 0.05, bytes: 256 }
/** Rate for balancers and scrapers at an address that has used up its budget. */
const probePaths: ReadonlySet<string> = new Set(['/health', '/ready', '/metrics'])
const probeRate = { perSecond: 2, burst: 10 }

const message = 'this address has used up its budget, retry later'

export interface LimitParts {
  readonly budget: AddressBudget
  readonly refused: CounterChild
  readonly clock: Clock
  /** Headers of every JSON answer. */
  readonly head: ResponseHead
}

export type Refused = Reply | Promise<Reply>

export class Limits {
  readonly #parts: LimitParts
  readonly #probes = new Rates(probeRate)
  readonly #delay = new RefusalDelay()

  constructor(parts: LimitParts) {
    this.#parts = parts
  }

  /** Charges a request by its head; null admits it. */
  request(request: Request): Refused | null {
    const { budget, clock } = this.#parts
    const waitMs = budget.admit(request.address, ...costsOf(request))
    if (waitMs === 0) return null
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    const isProbe = isRead && probePaths.has(request.path)
    if (isProbe && this.#probes.take(request.addressKey, clock.monotonicMs()) === 0) return null
    return this.#refuse(request, waitMs)
  }

  /** Charges the calls of a body and their expected answers. */
  calls(request: Request, calls: Cost): Refused | null {
    const workMs = calls.workMs + calls.bytes * workMsPerByte
    return this.#admit(request, { workMs, bytes: calls.bytes })
  }

  /** Charges a handshake and the frames that it resumes. */
  upgrade(
    request: Request,
    resumed: { readonly frames: number; readonly bytes: number },
  ): Refused | null {
    const workMs = upgradeWorkMs + resumed.frames * frameWorkMs
    return this.#admit(request, { workMs, bytes: resumed.bytes })
  }

  /** Charges a message of a client; false when its address may not send any more of them. */
  message(address: string, bytes: number): boolean {
    const workMs = messageCost.workMs + bytes * workMsPerBodyByte
    if (this.#parts.budget.admit(address, { workMs, bytes: messageCost.bytes }) === 0) return true
    this.#parts.refused.inc()
    return false
  }

  /** Charges the bytes sent beyond the estimate. */
  sent(address: string, bytes: number): void {
    if (bytes > 0) this.#parts.budget.charge(address, { workMs: bytes * workMsPerByte, bytes })
  }

  #admit(request: Request, cost: Cost): Refused | null {
    const waitMs = this.#parts.budget.admit(request.address, cost)
    return waitMs === 0 ? null : this.#refuse(request, waitMs)
  }

  #refuse(request: Request, waitMs: number): Refused {
    this.#parts.refused.inc()
    const head = withRetryAfter(this.#parts.head, waitMs)
    const isRpc = request.method === 'POST' && request.path === '/'
    const { body } = isRpc
      ? { body: errorMessage('null', { code: codesOf.exhausted.jsonrpc, message }) }
      : errorReply(429, message)
    const held = this.#delay.delay(request.addressKey, waitMs)
    if (held === null) return new Reply(429, head, body, true)
    return held.then(() => new Reply(429, head, body))
  }
}

/** What a request costs, and what may follow once its body was read. */
function costsOf({ method, path, contentLength }: Request): [Cost, Cost?] {
  if (method !== 'POST') return [requestCost]
  // A longer one is refused without being read.
  const bodyBytes =
    contentLength === -1 ? rpcBodyBytesMax : Math.min(contentLength, rpcBodyBytesMax)
  const cost = { ...requestCost, workMs: requestCost.workMs + bodyBytes * workMsPerBodyByte }
  return path === '/' && bodyBytes > shortBodyBytes ? [cost, batchCost] : [cost]
}
