// One read: sent to a node, to another one when that fails (failover), to a second one beside it
// when it is slow (hedge). One object per read.
//
//   pick ─► try ── answer ─────────────────────────► done
//     ▲      └─ fault, or an error of failoverCodes ─┐
//     └── another node, within the deadline ─────────┘ no node left: the node's error, or -32005
import { type Answer, encodedText, failure, rpcErrors, streamed } from '../../base/jsonrpc/build.ts'
import {
  CLOSING_BYTES,
  closingOf,
  isPair,
  openingOf,
  type Split,
  splitAnswer,
  USUAL,
} from '../../base/jsonrpc/envelope.ts'
import type { Call } from '../../base/jsonrpc/parse.ts'
import { bodyOf, firstGood, newId } from '../call-body.ts'
import { BodyStream, type PooledBuffer } from '../http-client/body-stream.ts'
import { type HttpRequest, type HttpResponse, readText } from '../http-client/http-request.ts'
import type { UpstreamNode } from '../node-pool/upstream-node.ts'
import type { UpstreamSet } from '../node-pool/upstream-set.ts'
import type { MethodPolicy, ProxyTally, ReadOptions } from './method-policy.ts'
import { heightIn, isResultOf, slotIn } from './shown-slots.ts'

/** A read may try all nodes twice: a connection can break although its node is well. */
const ROUNDS_MAX = 2
const ROUND_PAUSE_MS = 30
/** Share of the remaining time for one try while there are other nodes. */
const TRY_SHARE = 0.5
const TRY_MS_MIN = 250
const HEAVY_FACTOR = 3

export interface ReadRequest {
  readonly call: Call
  readonly policy: MethodPolicy
  readonly options: ReadOptions
  /** Nodes at or above it are preferred; 0 for any. */
  readonly minSlot: number
}

export interface ReadDeps {
  readonly set: UpstreamSet
  readonly tally: ProxyTally
  nowMs(): number
}

/** The node is null when the answer is our own. */
export interface ReadResult {
  readonly answer: Answer
  readonly node: UpstreamNode | null
  /** Where the answer was read; null when it does not show it. */
  readonly slot: number | null
}

interface Try {
  readonly request: HttpRequest
  /** Null when it failed. */
  readonly result: Promise<ReadResult | null>
}

export class ProxyRead {
  readonly #request: ReadRequest
  readonly #deps: ReadDeps
  readonly #id = newId()
  readonly #body: string
  readonly #startMs: number
  readonly #deadlineMs: number
  /** Null when it may not be hedged, or is already. */
  #hedgeMs: number | null
  #tried: UpstreamNode[] = []
  /** No later round tries them: each would take its share of the time again. */
  readonly #timedOut: UpstreamNode[] = []
  #tries = 0
  #rounds = 1
  /** A node's error that another node might not have; returned when all fail. */
  #refusal: Answer | null = null

  /** After `hedgeMs` the read is sent to a second node, too; null for never. */
  constructor(request: ReadRequest, deps: ReadDeps, hedgeMs: number | null) {
    this.#request = request
    this.#deps = deps
    this.#hedgeMs = hedgeMs
    this.#body = bodyOf(request.call, this.#id)
    this.#startMs = deps.nowMs()
    const { timeoutMs } = deps.set.section
    this.#deadlineMs = this.#startMs + timeoutMs * (request.policy.isHeavy ? HEAVY_FACTOR : 1)
  }

  async run(): Promise<ReadResult> {
    for (;;) {
      const node = this.#pick()
      if (node === null) {
        if (!this.#hasNextRound()) return ownAnswer(this.#refusal ?? unhealthy)
        await new Promise((resolve) => setTimeout(resolve, ROUND_PAUSE_MS))
        continue
      }
      if (this.#tries > 0) this.#deps.tally.failovers++
      const hedgeMs = this.#hedgeMs
      const result = await (hedgeMs === null ? this.#try(node).result : this.#hedge(node, hedgeMs))
      if (result !== null) return result
      if (this.#leftMs() <= 0) return ownAnswer(this.#refusal ?? tooSlow)
    }
  }

  #pick(): UpstreamNode | null {
    const { call, options, minSlot } = this.#request
    const { minContextSlot = 0, commitment } = options
    const slot = Math.max(minContextSlot, minSlot)
    const exclude = this.#tried
    return this.#deps.set.pick(
      call.method,
      slot === 0 ? { exclude } : { exclude, minContextSlot: slot, commitment },
    )
  }

  #hasNextRound(): boolean {
    if (this.#rounds === ROUNDS_MAX || this.#tried.length === 0 || this.#refusal !== null)
      return false
    this.#rounds++
    this.#tried = [...this.#timedOut]
    return this.#deps.set.isServing()
  }

  /** Sends to a node, and to a second one when it is slow; the slower one is aborted. */
  async #hedge(node: UpstreamNode, hedgeMs: number): Promise<ReadResult | null> {
    const first = this.#try(node)
    const waitMs = this.#startMs + hedgeMs - this.#deps.nowMs()
    const other = (await isSlower(first.result, waitMs)) ? this.#pick() : null
    if (other === null) return first.result
    this.#hedgeMs = null
    this.#deps.tally.hedges++
    const second = this.#try(other)
    const winner = await firstGood([first.result, second.result], (result) => result !== null)
    const loser = winner?.node === other ? first : second
    loser.request.abort()
    void loser.result.then((result) => {
      if (result?.answer.kind === 'stream' && result !== winner) result.answer.stream.cancel()
    })
    return winner
  }

  #try(node: UpstreamNode): Try {
    this.#tries++
    this.#tried.push(node)
    const leftMs = this.#leftMs()
    // Others of the set may be down, or not have the method.
    const isLast = this.#pick() === null
    const shareMs = isLast ? leftMs : Math.max(TRY_MS_MIN, leftMs * TRY_SHARE)
    const timeoutMs = Math.ceil(Math.max(1, Math.min(leftMs, shareMs)))
    const { isHeavy } = this.#request.policy
    const request = node.call(this.#body, { timeoutMs, isHeavy })
    return { request, result: this.#resultOf(request, node) }
  }

  async #resultOf(request: HttpRequest, node: UpstreamNode): Promise<ReadResult | null> {
    const response = await request.response
    if (!response.ok && response.fault === 'timeout') this.#timedOut.push(node)
    if (!response.ok) return null
    const given = answerOf(response, this.#id, node, this.#deps.tally)
    const answer = given instanceof Promise ? await given : given
    if (typeof answer === 'string') return null
    if (answer.kind !== 'error') return this.#checked(answer, node)
    if (!failoverCodes.has(answer.error.code)) return { answer, node, slot: null }
    this.#refusal = answer
    return null
  }

  /** Null for a result that cannot be one: another node is asked. */
  #checked(answer: Answer, node: UpstreamNode): ReadResult | null {
    const { call, policy } = this.#request
    const slot = slotIn(call.method, answer)
    // A block height is at most its slot.
    const isFar = (slot ?? heightIn(call.method, answer) ?? 0) > this.#deps.set.slotLimit()
    const isSure = policy.reads !== 'slots' || slot !== null
    if (!isFar && (isSure || isResultOf(call.method, answer))) return { answer, node, slot }
    node.distrust(isFar ? 'slot' : 'shape')
    if (answer.kind === 'bytes') answer.release?.()
    if (answer.kind === 'stream') answer.stream.cancel()
    return null
  }

  #leftMs(): number {
    return this.#deadlineMs - this.#deps.nowMs()
  }
}

function ownAnswer(answer: Answer): ReadResult {
  return { answer, node: null, slot: null }
}

/** True when the promise is pending after so many milliseconds. */
function isSlower(promise: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    // Timers run before what the sockets brought in the same turn of the event loop.
    const timer = setTimeout(() => setImmediate(resolve, true), Math.max(0, ms))
    void promise.then(() => {
      clearTimeout(timer)
      resolve(false)
    })
  })
}

// Turns a node's HTTP response into the answer to a call.
// Results are forwarded as they came, without parsing them; long ones are streamed. Errors are
// parsed, and withheld when they contain the node's address or keys.

/** `status`: an HTTP status without an answer. `garbage`: a body that is not JSON-RPC. */
type NoAnswer = 'status' | 'garbage'

/** The value of a long response begins within these first bytes. */
const OPENING_BYTES = 4_096
const ERROR_BYTES_MAX = 4_194_304
const ID_MEMBER = /"id"\s*:/

/** `id` is that of the call; a response with any other id is garbage. At once, except for errors
 *  that are too long to buffer. */
function answerOf(
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

// A call that changes something: sent to one node once, or to every node once with `broadcast`;
// never retried, hedged or shared.

/** Only this is broadcast: a cluster executes a transaction once, an airdrop each time. */
const BROADCAST = 'sendTransaction'

export async function send(call: Call, set: UpstreamSet, tally: ProxyTally): Promise<Answer> {
  const { method } = call
  const nodes = nodesFor(method, set)
  if (nodes.length === 0) return set.serves(method) ? unhealthy : failure(rpcErrors.unknownMethod)
  const id = newId()
  const body = bodyOf(call, id)
  const { timeoutMs } = set.section
  const sends = nodes.map(async (node): Promise<Answer> => {
    const response = await node.call(body, { timeoutMs, isSend: true }).response
    if (!response.ok) return response.isSent ? sendUnknown : unhealthy
    const answer = await answerOf(response, id, node, tally)
    if (answer === 'status') return unhealthy
    return answer === 'garbage' ? sendUnknown : answer
  })
  const accepted = await firstGood(sends, ({ kind }) => kind !== 'error')
  if (accepted !== null) return accepted
  // A node's own error is worth more than ours.
  const answers = await Promise.all(sends)
  const refusal = answers.find((answer) => answer !== unhealthy && answer !== sendUnknown)
  return refusal ?? (answers.includes(sendUnknown) ? sendUnknown : unhealthy)
}

function nodesFor(method: string, set: UpstreamSet): readonly UpstreamNode[] {
  if (set.section.broadcast && method === BROADCAST) return set.all(method)
  const node = set.pick(method, { isSend: true })
  return node === null ? [] : [node]
}

// Errors for calls that no node answered. The texts are ours: those of
// sockets contain addresses.

const { nodeUnhealthy } = rpcErrors

/** No node of the set is up, or none of those that were tried answered. */
export const unhealthy: Answer = failure(nodeUnhealthy)

/** The time for a read, all tries together, is over. */
const tooSlow: Answer = failure({
  ...nodeUnhealthy,
  message: 'Node is unhealthy: no answer in time',
})

/** The only try of a send broke off; what the node did with it is unknown. */
const sendUnknown: Answer = failure({
  ...nodeUnhealthy,
  message: 'Node is unhealthy: it gave no answer, the transaction may have been taken',
})

/** Error codes of a node after which a read fails over to another one. */
const failoverCodes: ReadonlySet<number> = new Set([
  -32004, // block not available
  -32005, // node unhealthy
  -32014, // block status not yet available
  -32016, // minimum context slot not reached
])
