// Calls a JSON-RPC method over HTTP for `sluice call`.
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { text as textOf } from 'node:stream/consumers'

/** Of an answer that is not JSON, for an error message. */
const textMax = 200

export async function* callHttp(request: CallRequest): AsyncGenerator<Answer> {
  const { method, params = [] } = request
  const { status, body } = await sendHttp(request, 'POST', {
    jsonrpc: '2.0',
    id: 1,
    method,
    params,
  })
  yield answerOf(body, status)
}

/** The result of a JSON-RPC answer; throws what the server refused with. */
export function answerOf(text: string, status = 200): Answer {
  const message = messageIn(text)
  if (message !== null) throw new CallFailure(message)
  try {
    const whole = JSON.parse(text) as { result?: unknown }
    return { result: whole.result, whole }
  } catch {
    throw new CallFailure(`HTTP ${status}: ${text.slice(0, textMax)}`)
  }
}

/** The error of a JSON answer in one line; null when it has none. */
export function messageIn(text: string): string | null {
  try {
    const { error } = JSON.parse(text) as { error?: unknown }
    if (error === undefined) return null
    if (typeof error !== 'object' || error === null) return String(error)
    const { code, message, data } = error as { code?: number; message?: string; data?: unknown }
    return `${message} (${code})${data === undefined ? '' : ` ${JSON.stringify(data)}`}`
  } catch {
    return null
  }
}

export function sendHttp(
  { url, token, ca, signal }: CallRequest,
  method: 'GET' | 'POST',
  body?: object,
): Promise<{ status: number; body: string }> {
  const request = url.startsWith('https:') ? requestHttps : requestHttp
  const headers = {
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    ...(token === '' ? {} : { 'x-token': token }),
  }
  const options = { method, headers, signal, ...(ca === null ? {} : { ca }) }
  return new Promise((resolve, reject) => {
    const sent = request(url, options, (response) => {
      const status = response.statusCode ?? 0
      textOf(response).then((body) => resolve({ status, body }), reject)
    })
    sent.on('error', reject).end(body === undefined ? undefined : JSON.stringify(body))
  })
}

/** One call, ready to be sent. */
export interface CallRequest {
  /** http or https, host and port. */
  readonly url: string
  /** '' sends none. */
  readonly token: string
  /** PEM of the authority that signed the server's certificate; null for the system's list. */
  readonly ca: string | null
  readonly method: string
  /** Parsed JSON; undefined when none was given. */
  readonly params: unknown
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal
}

/** One answer: what a person wants of it, and the whole of it for a script. */
export interface Answer {
  readonly result: unknown
  readonly whole: unknown
  /** True for a notification of a subscription or a message of a stream. */
  readonly isUpdate?: boolean
}

/** Yields the answer, then the notifications of a subscription. Throws a CallFailure. */
export type Caller = (request: CallRequest) => AsyncIterable<Answer>

/** An error that the endpoint answered with, as opposed to none that was reached. */
export class CallFailure extends Error {}
