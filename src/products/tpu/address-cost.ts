// Charges each request to the TPU Sender to the budget of its client address.
// Charged by size when the head is read, before anything is parsed or decoded. This budget is
// separate from the rate of transactions per address, which only transactions with a good tip use.
import { codesOf } from '../../base/codes.ts'
import { refuse } from '../../base/errors.ts'
import { errorMessage, errorTextOf } from '../../base/jsonrpc/build.ts'
import type { CounterChild } from '../../base/telemetry/meters.ts'
import { Reply, type ResponseHead, withRetryAfter } from '../../base/transport/reply.ts'
import type { Request } from '../../base/transport/request.ts'
import type { AddressBudget } from '../../customers/quota/address-budget.ts'
import { rpcErrorOf } from './refusals.ts'

/** A request without a body: `/ping`, a preflight, an unknown path. */
const requestWorkMs = 0.02
/** The most expensive body is a JSON-RPC batch of the longest base58 texts: 1.5 ms for 27 KB. */
const workMsPerByte = 0.06 / 1_024
/** Head and envelope of an answer; the rest of it is at most as long as the request. */
const answerBytes = 512
/** The largest body limit of any path; a longer body is refused unread. */
const bodyBytesMax = 65_568

export interface AddressCostDeps {
  readonly addressBudget: Pick<AddressBudget, 'admit'>
  /** Counts requests that were refused because of it. */
  readonly addressRefused: CounterChild
  headFor(request: Request): ResponseHead
}

export class AddressCost {
  readonly #deps: AddressCostDeps

  constructor(deps: AddressCostDeps) {
    this.#deps = deps
  }

  /** Charges a request by its head; a refusal when its address is over its budget. */
  head(request: Request): Reply | null {
    const bytes = Math.min(Math.max(0, request.contentLength), bodyBytesMax)
    return this.#charge(request, requestWorkMs, bytes)
  }

  /** Charges a body whose length the head did not state. */
  body(request: Request, { length }: Buffer): Reply | null {
    return request.contentLength >= 0 ? null : this.#charge(request, 0, length)
  }

  #charge(request: Request, workMs: number, bodyBytes: number): Reply | null {
    const { addressBudget, addressRefused, headFor } = this.#deps
    const waitMs = addressBudget.admit(request.address, {
      workMs: workMs + bodyBytes * workMsPerByte,
      bytes: answerBytes + bodyBytes,
    })
    if (waitMs === 0) return null
    addressRefused.inc()
    const body = speaksRpc(request) ? rpcBody : plainBody
    return new Reply(codesOf.exhausted.http, withRetryAfter(headFor(request), waitMs), body)
  }
}

/** Whether errors of that path are JSON-RPC messages; other paths omit the envelope and id. */
export function speaksRpc({ path }: Pick<Request, 'path'>): boolean {
  return path === '/' || path === '/fast'
}

const error = rpcErrorOf(
  refuse('exhausted', 'ADDRESS_BUDGET', 'Too many requests from this address', {
    data: { reason: 'ADDRESS_BUDGET' },
  }).refusal,
)
const rpcBody = errorMessage('null', error)
const plainBody = `{"error":${errorTextOf(error)}}`
