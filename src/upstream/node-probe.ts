// Asks a node for its health and its slots, one slot apart. Thread: main. Clock passed in.
// Turned by upstreams.ts ten times a second. One probe is on its way at most; one that is late
// makes the node doubtful and then down, but is still heard when it comes after all, so that a
// node that is only slow does not stay out. Whatever else is heard of the node breaks the silence.

import type { Clock } from '../base/clock.ts'
import { bufferAnswer } from './buffered-answer.ts'
import { bodyOf } from './call-body.ts'
import type { UpstreamNode } from './upstream-node.ts'

/** One slot. */
export const probeEveryMs = 400
/** Silence after a probe that makes a node doubtful: others are asked instead. */
export const overdueMs = 600
/** Silence after a probe that ends the waiting. */
export const silentMs = 1_500
const probeMsMax = 3_000
const notFound = -32601

interface Question {
  readonly id: number
  readonly method: string
  readonly params: string
}

const questions: readonly Question[] = [
  { id: 1, method: 'getHealth', params: '[]' },
  { id: 2, method: 'getSlot', params: '[{"commitment":"processed"}]' },
  { id: 3, method: 'getSlot', params: '[{"commitment":"finalized"}]' },
  { id: 4, method: 'getMaxShredInsertSlot', params: '[]' },
]

interface Reply {
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { readonly code?: unknown }
}

export class NodeProbe {
  readonly #node: UpstreamNode
  readonly #clock: Clock
  readonly #onAnswer: () => void
  #questions: readonly Question[]
  #isBatch = true
  #sentMs = Number.NEGATIVE_INFINITY
  #isAsking = false
  #isSilent = false

  constructor(node: UpstreamNode, clock: Clock, onAnswer: () => void) {
    this.#node = node
    this.#clock = clock
    this.#onAnswer = onAnswer
    this.#questions = questions.filter(({ method }) => node.serves(method))
    // A node for sends alone may not be asked anything: its calls have to show how it is.
    if (this.#questions.length === 0) node.health.probeAnswered({ isBehind: false })
  }

  /** Sends a probe when it is time, or looks how long the last one has been waited for. */
  turn(): void {
    const nowMs = this.#clock.monotonicMs()
    if (this.#isAsking) this.#watch(nowMs)
    else if (nowMs - this.#sentMs >= probeEveryMs) void this.ask()
  }

  /** One probe, to its end. Never rejects. */
  async ask(): Promise<void> {
    if (this.#isAsking || this.#questions.length === 0 || this.#node.link === null) return
    this.#isAsking = true
    this.#isSilent = false
    this.#sentMs = this.#clock.monotonicMs()
    const heard = this.#isBatch
      ? await this.#exchange(`[${this.#questions.map(textOf).join(',')}]`)
      : await this.#oneByOne()
    this.#isAsking = false
    this.#judge(heard)
    this.#onAnswer()
  }

  #watch(nowMs: number): void {
    const silenceMs = nowMs - Math.max(this.#sentMs, this.#node.heardMs)
    if (silenceMs >= silentMs && !this.#isSilent) {
      this.#isSilent = true
      this.#node.probeFailures++
      this.#node.health.probeSilent()
    } else if (silenceMs >= overdueMs) this.#node.health.probeOverdue()
  }

  async #oneByOne(): Promise<Heard> {
    const all: Reply[] = []
    for (const question of this.#questions) {
      const heard = await this.#exchange(textOf(question))
      if (!Array.isArray(heard)) return heard
      all.push(...heard)
    }
    return all
  }

  async #exchange(body: string): Promise<Heard> {
    const startMs = this.#clock.monotonicMs()
    const answer = await bufferAnswer((listener) =>
      // Reason for the cast: `ask` looked.
      this.#node.link!.call(body, probeMsMax, listener),
    )
    if (!answer.ok) return answer.fault === 'unreached' ? 'unreached' : 'broken'
    this.#node.tookMs(this.#clock.monotonicMs() - startMs)
    if (answer.status === 429) return 'limited'
    if (answer.status >= 500 || answer.status === 401 || answer.status === 403) return 'status'
    return this.#parsed(answer.body.toString('utf8'))
  }

  #parsed(text: string): Heard {
    try {
      const parsed: unknown = JSON.parse(text)
      if (Array.isArray(parsed)) return parsed.filter((one) => typeof one === 'object' && one)
      if (typeof parsed !== 'object' || parsed === null) return 'broken'
      if (!this.#isBatch) return [parsed as Reply]
      // One answer to many questions: it takes no batches, so they go one by one from now on.
      this.#isBatch = false
      return 'limited'
    } catch {
      return 'broken'
    }
  }

  #judge(heard: Heard): void {
    const { health } = this.#node
    if (typeof heard === 'string' && heard !== 'limited') {
      this.#node.probeFailures++
      health.probeFailed(heard)
      return
    }
    // It is there and has no time for us: alive, and nothing new.
    if (heard === 'limited') {
      health.probeAnswered({ isBehind: false })
      return
    }
    const replies = new Map(heard.map((reply) => [reply.id, reply]))
    this.#forget(replies)
    const slotOf = (id: number) => numberOf(replies.get(id)?.result)
    this.#node.tellSlots(slotOf(2), slotOf(3), slotOf(4))
    // Before it may return: one that is far behind must not be up for a moment.
    this.#onAnswer()
    const { error } = replies.get(1) ?? {}
    health.probeAnswered({ isBehind: error !== undefined && error.code !== notFound })
  }

  /** What it does not serve is not asked again. */
  #forget(replies: ReadonlyMap<unknown, Reply>): void {
    const left = this.#questions.filter(({ id }) => replies.get(id)?.error?.code !== notFound)
    if (left.length > 0) this.#questions = left
  }
}

type Heard = readonly Reply[] | 'limited' | 'unreached' | 'broken' | 'status'

function textOf({ id, method, params }: Question): string {
  return bodyOf({ method, paramsText: params }, String(id))
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null
}
