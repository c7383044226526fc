// Turns a node's HTTP response into the answer to a call.
// Results are forwarded as they came, without parsing them; long ones are streamed. Errors are
// parsed, and withheld when they contain the node's address or keys.
import { type Answer, encodedText, failure, streamed } from '../../base/jsonrpc/build.ts'
import {
  CLOSING_BYTES,
  closingOf,
  isPair,
  openingOf,
  type Split,
  splitAnswer,
  USUAL,
} from '../../base/jsonrpc/envelope.ts'
import { BodyStream, type PooledBuffer } from '../http-client/body-stream.ts'
import type { HttpResponse } from '../http-client/http-request.ts'
import { readText } from '../http-client/http-request.ts'
import type { UpstreamNode } from '../node-pool/upstream-node.ts'
import type { ProxyTally } from './meters.ts'

/** `status`: an HTTP status without an answer. `garbage`: a body that is not JSON-RPC. */
export type NoAnswer = 'status' | 'garbage'

/** The value of a long response begins within these first bytes. */
const OPENING_BYTES = 4_096
const ERROR_BYTES_MAX = 4_194_304
const ID_MEMBER = /"id"\s*:/

/** `id` is that of the call; a response with any other id is garbage. At once, except for errors
 *  that are too long to buffer. */
export function answerOf(
  response: HttpResponse,
  id: string,
  node: UpstreamNode,
  tally: ProxyTally,
): Answer | NoAnswer | Promise<Answer | NoAnswer> {
  const { status, body } = response
  if (isNoAnswer(status)) {
    if (body instanceof BodyStream) body.cancel()
    else if (typeof body !== 'string') body.release()
    return 'status'
  }
  const answer =
    typeof body === 'string'
      ? textAnswer(body, id, node)
      : body instanceof BodyStream
        ? streamAnswer(body, id, node, tally)
        : bufferAnswer(body, id, node)
  return answer === 'long error' ? longError(response, id, node) : answer
}

/** Errors are read whole, since their code decides about a failover. */
async function longError(
  response: HttpResponse,
  id: string,
  node: UpstreamNode,
): Promise<Answer | NoAnswer> {
  const text = await readText(response, ERROR_BYTES_MAX)
  return text === null ? garbageOf(node, '') : textAnswer(text, id, node)
}

function garbageOf(node: UpstreamNode, text: string): 'garbage' {
  node.distrust(ID_MEMBER.test(text) ? 'id' : 'shape')
  return 'garbage'
}

function textAnswer(text: string, id: string, node: UpstreamNode): Answer | 'garbage' {
  const split = splitAnswer(text, id)
  if (split === null) return garbageOf(node, text)
  const value = text.slice(split.start, split.end)
  return split.isError ? errorAnswer(value, node) : encodedText(value)
}

function bufferAnswer(buffer: PooledBuffer, id: string, node: UpstreamNode): Answer | 'garbage' {
  const { bytes } = buffer
  const split = splitBytes(bytes, id)
  if (split !== null && !split.isError) {
    const { start, end } = split
    const isUsual = start === USUAL.length && bytes.toString('latin1', 0, start) === USUAL
    return {
      kind: 'bytes',
      pieces: [bytes.subarray(start, end)],
      // One piece is one write less than value and end apart.
      endWith: (text) => (isUsual ? buffer.endAt(end, text) : null),
      release: () => buffer.release(),
    }
  }
  const text = bytes.toString('utf8', split?.start, split?.end)
  buffer.release()
  return split === null ? garbageOf(node, text) : errorAnswer(text, node)
}

function streamAnswer(body: BodyStream, id: string, node: UpstreamNode, tally: ProxyTally) {
  const head = body.peek(OPENING_BYTES)
  const opening = openingOf(head, id)
  if (opening === null) {
    body.cancel()
    return garbageOf(node, head)
  }
  const { start, isError } = opening
  if (isError) return 'long error'
  const first = head.charCodeAt(start)
  body.trim(start, CLOSING_BYTES, (tail) => {
    const end = closingOf(tail, id)
    return end > 0 && isPair(first, tail.charCodeAt(end - 1)) ? end : -1
  })
  tally.streams++
  body.onBytes = (count) => {
    tally.streamedBytes += count
  }
  void body.closed.then((end) => {
    if (end === 'broken') tally.streamsBroken++
  })
  return streamed(body)
}

function errorAnswer(text: string, node: UpstreamNode): Answer | 'garbage' {
  try {
    const error: unknown = JSON.parse(text)
    const { code, message } = (error ?? {}) as Record<string, unknown>
    if (typeof code !== 'number') return garbageOf(node, '')
    const plain = { code, message: typeof message === 'string' ? message : '', text }
    return failure(node.secrets.redactError(plain))
  } catch {
    return garbageOf(node, '')
  }
}

/** Looks at both ends first: a walk over all members of a long response is expensive. */
function splitBytes(bytes: Buffer, id: string): Split | null {
  const opening = openingOf(bytes.toString('latin1', 0, CLOSING_BYTES), id)
  if (opening !== null && !opening.isError) {
    const { start } = opening
    const from = Math.max(0, bytes.length - CLOSING_BYTES)
    const closing = closingOf(bytes.toString('latin1', from), id)
    const end = from + closing
    if (closing > 0 && end > start && isPair(bytes[start]!, bytes[end - 1]!))
      return { isError: false, start, end }
  }
  return splitAnswer(bytes.toString('latin1'), id)
}

/** HTTP statuses whose body is not a JSON-RPC response. */
function isNoAnswer(status: number): boolean {
  if (status === 200) return false
  return status >= 500 || status < 200 || NO_ANSWER.has(status)
}

const NO_ANSWER: ReadonlySet<number> = new Set([
  204, 301, 302, 303, 304, 307, 308, 401, 403, 404, 405, 407, 408, 411, 415, 429,
])
