// Serves the HTTP paths of the TPU Sender.
//
//   POST /, /fast               JSON-RPC                       200 | 429 (rate)
//   POST /api/v1/transactions   octet-stream, text/plain       200 {"signature"} | {"error"}
//   POST /batch                 octet-stream, framed           200 [{"signature"}|{"error"}]
//   POST /check                 any of the above               200 {"accepted",...}
//   GET  /ping, /tip-accounts, /health
import type { Outcome, Refusal } from '../../base/errors.ts'
import { accept, codesOf, refuse, rpcCodeOf } from '../../base/errors.ts'
import { type Answer, errorMessage, errorTextOf } from '../../base/jsonrpc/build.ts'
import { parseRequest, type RpcRequest } from '../../base/jsonrpc/parse.ts'
import { type Answerer, responseMessage } from '../../base/jsonrpc/serve.ts'
import { whenDone } from '../../base/steps.ts'
import type { CounterChild } from '../../base/telemetry/meters.ts'
import type { HttpRoute } from '../../base/transport/http.ts'
import { Reply, ResponseHead, withRetryAfter } from '../../base/transport/reply.ts'
import type { Request } from '../../base/transport/request.ts'
import { mediaTypeOf } from '../../base/transport/request.ts'
import { registryExpired } from '../../customers/auth/gate.ts'
import type { AddressBudget } from '../../customers/quota/rates.ts'
import type { Checked } from './handle.ts'
import type { TpuMeters } from './meters.ts'
import {
  batchItemsMax,
  type Caller,
  decodeText,
  readSend,
  splitBatch,
  type Target,
} from './methods.ts'
import { rpcErrorOf } from './refusals.ts'
import { minimumTipLamports, type TipAccounts } from './tip.ts'

export interface RouteDeps {
  readonly answerer: Answerer<Caller>
  readonly accounts: TipAccounts
  readonly meters: TpuMeters
  readonly cost: AddressCost
}

/** When the head of the request arrived, the head of its answer, where transactions go. */
export interface Arrival {
  readonly beganMs: number
  readonly head: ResponseHead
  readonly target: Target
}

const json = 'application/json'
const octets = 'application/octet-stream'
const plainText = 'text/plain'
const jsonLine = { 'content-type': json }
const anyOrigin = { 'access-control-allow-origin': '*' }
const plainHead = ResponseHead.of(jsonLine)
const browserHead = ResponseHead.of({ ...jsonLine, ...anyOrigin })
const textHead = ResponseHead.of({ 'content-type': plainText, ...anyOrigin })

export const preflightHead = ResponseHead.of({
  ...anyOrigin,
  'access-control-allow-methods': 'GET, POST, OPTIONS',
  'access-control-allow-headers': 'content-type, solana-client, x-token, authorization',
  'access-control-max-age': '86400',
})

/** Only browsers send an origin, so only they get the CORS header. */
export function headFor(request: Pick<Request, 'origin'> | null): ResponseHead {
  return request === null || request.origin === '' ? plainHead : browserHead
}

// 50 KiB as in rpc; the second fits 16 transactions of version 1 with their lengths; the third is
// large enough that an oversized transaction gets TOO_LARGE instead of a body-limit error.
const rpcBytesMax = 51_200
const batchBytesMax = 65_568
const oneBytesMax = 8_192

export function tpuRoutes(deps: RouteDeps): HttpRoute<Arrival>[] {
  const pong = new Reply(200, textHead, 'pong')
  const post = (
    path: string,
    bodyBytesMax: number,
    types: readonly string[],
    handle: HttpRoute<Arrival>['handle'],
  ): HttpRoute<Arrival> => ({
    verb: 'POST',
    path,
    bodyBytesMax,
    check: (request) =>
      types.includes(mediaTypeOf(request.contentType))
        ? null
        : endpointError(415, `the content type must be ${types.join(' or ')}`, request),
    handle: (request, body, arrival) =>
      deps.cost.body(request, body) ?? handle(request, body, arrival),
  })
  return [
    ...['/', '/fast'].map((path) =>
      post(path, rpcBytesMax, [json], (request, body, arrival) =>
        serveRpc(request, body, arrival, deps),
      ),
    ),
    post('/api/v1/transactions', oneBytesMax, [octets, plainText], (request, body, arrival) =>
      serveOne(request, body, arrival, deps),
    ),
    post('/batch', batchBytesMax, [octets], (request, body, arrival) =>
      serveBatch(request, body, arrival, deps),
    ),
    post('/check', rpcBytesMax, [json, octets, plainText], serveCheck),
    { verb: 'GET', path: '/ping', handle: () => pong },
    {
      verb: 'GET',
      path: '/tip-accounts',
      handle: (_, __, { head }) => new Reply(200, head, `{"tipAccounts":${deps.accounts.json}}`),
    },
    {
      verb: 'GET',
      path: '/health',
      handle: (_, __, { head, target }) =>
        target.isUp()
          ? new Reply(200, head, '{"status":"ok"}')
          : new Reply(503, head, '{"status":"no upstream is healthy"}'),
    },
  ]
}

/** Errors of the listener itself: JSON-RPC on its paths, the same object without id on others. */
export function endpointError(status: number, reason: string, request: Request | null): Reply {
  const isPage = status === 405 && request?.method === 'GET' && request.path === '/'
  const error = { code: rpcCodeOf(status), message: isPage ? aboutEndpoint : reason }
  const head = headFor(request)
  const sent = status === 429 ? withRetryAfter(head, busyRetryMs) : head
  return new Reply(status, sent, errorBody(error, request))
}

/** The answer to a token that is not valid, or that cannot be checked now. */
export function refusedToken(request: Request, { isExpired }: { isExpired: boolean }): Reply {
  const { http, jsonrpc: code } = isExpired ? codesOf.unavailable : codesOf.unauthenticated
  const message = isExpired
    ? registryExpired.message
    : 'Unauthorized: the token is not valid; a transaction with a tip needs none'
  const head = headFor(request)
  const sent = isExpired ? head : head.and('www-authenticate', 'Bearer')
  return new Reply(http, sent, errorBody({ code, message }, request))
}

function errorBody(error: { code: number; message: string }, request: Request | null): string {
  const isRpc = request === null || speaksRpc(request)
  return isRpc ? errorMessage('null', error) : JSON.stringify({ error })
}

/** Clients post: whoever gets this page looks at it in a browser. */
const aboutEndpoint =
  "this is Sluice's TPU Sender: POST sendTransaction with a transaction that tips one of the " +
  'accounts of GET /tip-accounts; docs/api/tpu.md has the paths'

const busyRetryMs = 1_000

function serveRpc(
  { address }: Request,
  body: Buffer,
  { beganMs, head, target }: Arrival,
  { answerer }: RouteDeps,
): Reply | Promise<Reply> {
  const request = parseRequest(body, batchItemsMax)
  const caller = { address, beganMs, target }
  return whenDone(answerer.answer(request, caller), (answers) => rpcReply(request, answers, head))
}

/** 429 when a rate limit refused every call. */
function rpcReply(request: RpcRequest, answers: readonly Answer[], head: ResponseHead): Reply {
  const message = responseMessage(request, answers)
  if (!answers.some(retryAfterMsOf)) return new Reply(200, head, message)
  const calls = answers.filter((_, index) => request.items[index]!.method !== null)
  if (!calls.every(retryAfterMsOf)) return new Reply(200, head, message)
  return new Reply(429, withRetryAfter(head, Math.max(...calls.map(retryAfterMsOf))), message)
}

/** Positive for a call that a rate limit refused, else 0. */
function retryAfterMsOf(answer: Answer): number {
  return answer.kind === 'error' ? (answer.retryAfterMs ?? 0) : 0
}

function serveOne(
  request: Request,
  body: Buffer,
  { beganMs, head, target }: Arrival,
  { meters }: RouteDeps,
): Reply | Promise<Reply> {
  const decoded = decodeBody(request, body)
  if (!decoded.ok) {
    meters.rejected.count(decoded.refusal.code)
    return oneReply(decoded, head)
  }
  const sender = { address: request.address, beganMs }
  return whenDone(target.handler.submit(decoded.value, sender), (done) => oneReply(done, head))
}

function oneReply(outcome: Outcome<string>, head: ResponseHead): Reply {
  if (outcome.ok) return new Reply(200, head, itemOf(outcome))
  const { kind, retryAfterMs } = outcome.refusal
  return new Reply(codesOf[kind].http, withRetryAfter(head, retryAfterMs), itemOf(outcome))
}

async function serveBatch(
  request: Request,
  body: Buffer,
  { beganMs, head, target }: Arrival,
  { meters }: RouteDeps,
): Promise<Reply> {
  const items = splitBatch(body)
  if (items === null) {
    meters.rejected.count(badBatch.refusal.code)
    return new Reply(400, head, itemOf(badBatch))
  }
  const sender = { address: request.address, beganMs }
  const outcomes = await Promise.all(items.map((item) => target.handler.submit(item, sender)))
  return new Reply(200, head, `[${outcomes.map(itemOf).join(',')}]`)
}

const badBatch = refuse(
  'invalid',
  'BAD_ENCODING',
  `a batch is 1 to ${batchItemsMax} transactions, each prefixed by its length in two bytes`,
  { data: { reason: 'BAD_ENCODING' } },
)

function serveCheck(request: Request, body: Buffer, { head, target }: Arrival): Reply {
  const decoded = decodeBody(request, body)
  const checked = decoded.ok ? target.handler.check(decoded.value) : uncheckable(decoded.refusal)
  return new Reply(200, head, JSON.stringify(checked))
}

function uncheckable({ code }: Refusal): Checked {
  return {
    accepted: false,
    reason: code,
    requiredLamports: minimumTipLamports,
    foundLamports: 0,
    signature: null,
  }
}

/** Decodes one transaction according to the media type. */
function decodeBody({ contentType }: Request, body: Buffer): Outcome<Uint8Array> {
  switch (mediaTypeOf(contentType)) {
    case octets:
      return accept(body)
    case plainText:
      return decodeText(body.toString('latin1').trim(), 'base64')
    default: {
      const { isBatch, items } = parseRequest(body, 1)
      const call = items[0]!
      const isSend = !isBatch && call.method === 'sendTransaction'
      const request = readSend(isSend ? call.params : undefined)
      return request.ok ? accept(request.value.bytes) : request
    }
  }
}

function itemOf(outcome: Outcome<string>): string {
  if (outcome.ok) return `{"signature":"${outcome.value}"}`
  return `{"error":${errorTextOf(rpcErrorOf(outcome.refusal))}}`
}

// Charges each request to the TPU Sender to the budget of its client address.
// Charged by size when the head is read, before anything is parsed or decoded. This budget is
// separate from the rate of transactions per address, which only transactions with a good tip use.

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
    const { addressBudget, addressRefused } = this.#deps
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
