// One read: sent to a node, to another one when that fails (failover), to a second one beside it
// when it is slow (hedge). One object per read.
//
//   pick ─► try ── answer ─────────────────────────► done
//     ▲      └─ fault, or an error of failoverCodes ─┐
//     └── another node, within the deadline ─────────┘ no node left: the node's error, or -32005
import type { Answer } from '../../base/jsonrpc/build.ts'
import type { Call } from '../../base/jsonrpc/parse.ts'
import { bodyOf, firstGood, newId } from '../call-body.ts'
import type { HttpRequest } from '../http-client/http-request.ts'
import type { UpstreamNode } from '../node-pool/upstream-node.ts'
import type { UpstreamSet } from '../node-pool/upstream-set.ts'
import { answerOf } from './answer.ts'
import type { ProxyTally } from './meters.ts'
import type { MethodPolicy, ReadOptions } from './method-policy.ts'
import { failoverCodes, tooSlow, unhealthy } from './send.ts'
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
        await pause(ROUND_PAUSE_MS)
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
    this.#tried = []
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
    const isLast = this.#tried.length >= this.#deps.set.nodes.length
    const shareMs = isLast ? leftMs : Math.max(TRY_MS_MIN, leftMs * TRY_SHARE)
    const timeoutMs = Math.ceil(Math.max(1, Math.min(leftMs, shareMs)))
    const { isHeavy } = this.#request.policy
    const request = node.call(this.#body, { timeoutMs, isHeavy })
    return { request, result: this.#resultOf(request, node) }
  }

  async #resultOf(request: HttpRequest, node: UpstreamNode): Promise<ReadResult | null> {
    const response = await request.response
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

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
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
