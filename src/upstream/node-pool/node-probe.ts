// Probes a node for its health and its slots, every 400 ms. Clock passed in.
// At most one probe is in flight. A late one makes the node doubtful, and down where another node
// can take its calls: without one, calls wait for their own timeouts rather than being refused. It
// counts when it is answered after all, so that a node that is only slow returns. Any other
// response of the node ends the silence, too.
import type { Clock } from '../../base/clock.ts'
import { bodyOf } from '../call-body.ts'
import { readText } from '../http-client/http-request.ts'
import { isNodeFault, type NodeFault } from './node-health.ts'
import type { UpstreamNode } from './upstream-node.ts'

/** A time whatever the slots take: how old the known slot of a node may be. */
export const probeEveryMs = 400
/** Silence after a probe that makes a node doubtful: others are preferred. */
export const overdueMs = 600
/** Silence after a probe that makes a node down, where there is another one. */
export const silentMs = 1_500
const probeMsMax = 3_000
/** Also asked at the start, while the node is not up and when its slot went back. */
const genesisEveryMs = 10_000
/** JSON-RPC: method not found. */
const notFound = -32601

const isSlot = (result: unknown) => numberOf(result) !== null
const isHash = (result: unknown) => typeof result === 'string' && /^\w{1,44}$/.test(result)

/** Their ids are 1 to 6, in the order of `asked`. */
const questions = (
  [
    ['getHealth', '[]', (result) => result === 'ok'],
    ['getSlot', '[{"commitment":"processed"}]', isSlot],
    ['getLatestBlockhash', '[{"commitment":"confirmed"}]', (result) => blockIn(result) !== null],
    ['getSlot', '[{"commitment":"finalized"}]', isSlot],
    ['getMaxShredInsertSlot', '[]', isSlot],
    ['getGenesisHash', '[]', isHash],
  ] as const satisfies readonly [string, string, (result: unknown) => boolean][]
).map(([method, paramsText, isResult], index) => {
  const id = index + 1
  return { id, method, isResult, body: bodyOf({ method, paramsText }, String(id)) }
})
const asked = { health: 1, processed: 2, block: 3, finalized: 4, shred: 5, genesis: 6 }

interface Reply {
  readonly id?: unknown
  readonly result?: unknown
  /** Some nodes answer null beside a result. */
  readonly error?: { code?: unknown; data?: { numSlotsBehind?: unknown } | null } | null
}

/** The set of a node. */
interface ProbedSet {
  /** The node has reported something. */
  compare(): void
  /** The node reports this block as confirmed. */
  observeBlock(node: UpstreamNode, slot: number, blockhash: string): void
  /** Whether another node can take its calls. */
  hasOther(node: UpstreamNode): boolean
}

export class NodeProbe {
  readonly #node: UpstreamNode
  readonly #clock: Clock
  readonly #set: ProbedSet
  #questions: typeof questions
  #isBatch = true
  #sentMs = Number.NEGATIVE_INFINITY
  #genesisMs = Number.NEGATIVE_INFINITY
  #isAsking = false
  #isSilent = false
  /** HTTP status or socket error of the last response, for the log. */
  #code = ''

  constructor(node: UpstreamNode, clock: Clock, set: ProbedSet) {
    this.#node = node
    this.#clock = clock
    this.#set = set
    this.#questions = questions.filter(({ method }) => node.serves(method))
    // A node that only takes sends cannot be probed: its calls show its health.
    if (this.#questions.length === 0) node.health.probeAnswered({ isBehind: false })
    node.wasProbed = this.#questions.length === 0 || node.http === null
  }

  /** Sends a probe when it is due, or checks how long the last one is unanswered. */
  tick(): void {
    const nowMs = this.#clock.monotonicMs()
    if (this.#isAsking) this.#watch(nowMs)
    else if (nowMs - this.#sentMs >= probeEveryMs) void this.probe()
  }

  /** One probe, to its end. Never rejects. */
  async probe(): Promise<void> {
    if (this.#isAsking || this.#questions.length === 0 || this.#node.http === null) return
    this.#isAsking = true
    this.#isSilent = false
    this.#sentMs = this.#clock.monotonicMs()
    const result = await this.#ask()
    this.#isAsking = false
    this.#node.wasProbed = true
    this.#judge(result)
    this.#set.compare()
  }

  #watch(nowMs: number): void {
    const silenceMs = nowMs - Math.max(this.#sentMs, this.#node.respondedMs)
    if (silenceMs >= silentMs && !this.#isSilent && this.#set.hasOther(this.#node)) {
      this.#isSilent = true
      this.#node.probeFailures++
      this.#node.failureReason = 'no response to probes'
      this.#node.health.probeSilent()
    } else if (silenceMs >= overdueMs) this.#node.health.probeOverdue()
  }

  /** In one batch, or one by one to a node that supports none. */
  async #ask(): Promise<ProbeResult> {
    const isDue = this.#sentMs - this.#genesisMs >= genesisEveryMs || this.#node.state !== 'up'
    const bodies = this.#questions
      .filter(({ id }) => id !== asked.genesis || isDue)
      .map(({ body }) => body)
    const replies: Reply[] = []
    for (const body of this.#isBatch ? [`[${bodies.join(',')}]`] : bodies) {
      const result = await this.#exchange(body)
      if (typeof result === 'string') return result
      replies.push(...result)
    }
    return replies
  }

  async #exchange(body: string): Promise<ProbeResult> {
    const startMs = this.#clock.monotonicMs()
    // Reason for the assertion: `probe` checked.
    const response = await this.#node.http!.request(body, { timeoutMs: probeMsMax }).response
    if (!response.ok) {
      this.#code = response.code
      return isNodeFault(response.fault) ? response.fault : 'broken'
    }
    this.#node.observeLatency(this.#clock.monotonicMs() - startMs)
    const { status } = response
    this.#code = status === 200 ? '' : `HTTP ${status}`
    const text = await readText(response)
    if (status === 429) return 'limited'
    if (status >= 500 || status === 401 || status === 403) return 'status'
    return text === null ? 'broken' : this.#parsed(text)
  }

  #parsed(text: string): ProbeResult {
    try {
      const parsed: unknown = JSON.parse(text)
      if (Array.isArray(parsed)) return parsed.slice(0, questions.length).filter(Boolean)
      if (typeof parsed !== 'object' || parsed === null) return 'broken'
      if (!this.#isBatch) return [parsed as Reply]
      // One response to a batch: it supports none, so the questions are sent one by one now.
      this.#isBatch = false
      return 'limited'
    } catch {
      return 'broken'
    }
  }

  #judge(result: ProbeResult): void {
    const { health } = this.#node
    if (typeof result === 'string' && result !== 'limited') {
      // It answers calls: the probe is late, the node is not gone.
      if (result === 'timeout' && this.#node.respondedMs > this.#sentMs) return
      this.#genesisMs = Number.NEGATIVE_INFINITY
      return void this.#node.probeFailed(result, this.#code)
    }
    // Rate-limited: it is alive, and there is nothing new.
    if (result === 'limited') return void health.probeAnswered({ isBehind: false })
    const replies = new Map(result.map((reply) => [reply.id, reply]))
    // Methods that the node does not have are not probed again.
    const left = this.#questions.filter(({ id }) => replies.get(id)?.error?.code !== notFound)
    if (left.length > 0) this.#questions = left
    this.#node.reportsBlocks = left.some(({ id }) => id === asked.block)
    const results = this.#resultsOf(result)
    const genesis = results.get(asked.genesis)
    if (typeof genesis === 'string') {
      this.#genesisMs = this.#sentMs
      this.#node.observeGenesis(genesis)
    }
    const slotOf = (id: number) => numberOf(results.get(id))
    const block = blockIn(results.get(asked.block))
    const { processed, finalized, shred } = asked
    const isBack = !this.#node.probedSlots(
      slotOf(processed),
      slotOf(finalized),
      slotOf(shred),
      block?.slot,
    )
    if (isBack) this.#genesisMs = Number.NEGATIVE_INFINITY
    // Before it may return: one that lags far must not be up for a moment.
    this.#set.compare()
    if (block !== null) this.#set.observeBlock(this.#node, block.slot, block.blockhash)
    const error = replies.get(asked.health)?.error ?? null
    const isBehind = error !== null && error.code !== notFound
    const isUnknown = isBehind && typeof error.data?.numSlotsBehind !== 'number'
    health.probeAnswered({ isBehind, isUnknown })
  }

  /** Results by their ids. One of another question or method is none, and counts against it. */
  #resultsOf(replies: readonly Reply[]): ReadonlyMap<unknown, unknown> {
    const results = new Map<unknown, unknown>()
    for (const { id, result } of replies) {
      if (result === undefined) continue
      const question = questions.find((each) => each.id === id)
      if (question?.isResult(result) === true) results.set(id, result)
      else this.#node.distrust(question === undefined ? 'id' : 'shape')
    }
    return results
  }
}

type ProbeResult = readonly Reply[] | 'limited' | NodeFault

function numberOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null
}

/** The block of an answer to getLatestBlockhash: that of the slot in its context. */
function blockIn(result: unknown): { readonly slot: number; readonly blockhash: string } | null {
  const { context, value } = (result ?? {}) as {
    context?: { slot?: unknown } | null
    value?: { blockhash?: unknown } | null
  }
  const slot = numberOf(context?.slot)
  const blockhash = value?.blockhash
  return slot === null || !isHash(blockhash) ? null : { slot, blockhash: String(blockhash) }
}
