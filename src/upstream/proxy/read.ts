// One read on its way: tried at a node, at another when that fails, at a second one beside it when
// it is slow. Thread: main. Made by proxy-set.ts, which looks at it now and then.
//
//   begin -> choose -> Attempt ── answer ──────────────► done
//                 ▲        └─ fault, -32004/5/14/16 ─┐
//                 └── another node, within the time ─┘ none left: the node's error, or -32005
import type { Answer } from '../../jsonrpc/build.ts'
import type { Call } from '../../jsonrpc/parse.ts'
import { bodyOf, newId } from '../call-body.ts'
import type { UpstreamNode } from '../upstream-node.ts'
import type { UpstreamSet } from '../upstream-set.ts'
import { Attempt, type TryFault, type TryOwner } from './attempt.ts'
import { elsewhere, tooSlow, unhealthy } from './errors.ts'
import type { ProxyTally } from './meters.ts'
import type { MethodPolicy, ReadOptions } from './method-policy.ts'

/** A read may go through all nodes twice: a connection can break under a node that is well. */
const ROUNDS_MAX = 2
const ROUND_PAUSE_MS = 30
/** Part of the time that is left which one try may take while there are others to ask. */
const TRY_PART = 0.5
const TRY_MS_MIN = 250
/** What a short answer may take behind its head, besides. */
const BODY_MS = 100
const HEAVY_FACTOR = 3

export interface ReadOwner {
  readonly set: UpstreamSet
  readonly tally: ProxyTally
  nowMs(): number
  /** The answer, and the node that gave it; null when it is ours. */
  done(read: Read, answer: Answer, node: UpstreamNode | null): void
}

export class Read implements TryOwner {
  readonly call: Call
  readonly policy: MethodPolicy
  readonly options: ReadOptions
  readonly beganMs: number
  /** The slot that this customer was told already; 0 when that does not matter. */
  readonly mark: number
  readonly resolve: (answer: Answer) => void
  readonly #owner: ReadOwner
  readonly #deadlineMs: number
  readonly #id = newId()
  #body = ''
  #asked: UpstreamNode[] = []
  #attempts: Attempt[] = []
  #rounds = 1
  #isHedged = false
  #isOver = false
  /** What a node said that was no good answer; passed on when nobody has a better one. */
  #honest: Answer | null = null

  constructor(
    owner: ReadOwner,
    what: { call: Call; policy: MethodPolicy; options: ReadOptions; mark: number },
    resolve: (answer: Answer) => void,
  ) {
    this.#owner = owner
    this.call = what.call
    this.policy = what.policy
    this.options = what.options
    this.mark = what.mark
    this.resolve = resolve
    this.beganMs = owner.nowMs()
    const { timeoutMs } = owner.set.section
    this.#deadlineMs = this.beganMs + timeoutMs * (what.policy.isHeavy ? HEAVY_FACTOR : 1)
  }

  begin(): void {
    this.#body = bodyOf(this.call, this.#id)
    this.#try()
  }

  answered(attempt: Attempt, answer: Answer): void {
    if (this.#isOver) {
      discard(answer)
      return
    }
    if (answer.kind === 'error' && elsewhere.has(answer.error.code)) {
      this.#honest = answer
      this.#failed(attempt)
      return
    }
    this.#finish(answer, attempt)
  }

  failed(attempt: Attempt, _fault: TryFault, _isSent: boolean): void {
    if (!this.#isOver) this.#failed(attempt)
  }

  /** Looks whether its time is over, or long enough to ask a second node (`hedgeMs`). */
  look(nowMs: number, hedgeMs: number | null): void {
    for (const attempt of this.#attempts) if (nowMs >= attempt.untilMs) this.#giveUp(attempt)
    if (this.#isOver) return
    if (nowMs >= this.#deadlineMs) {
      this.#finish(this.#honest ?? tooSlow, null)
      return
    }
    if (hedgeMs === null || this.#isHedged || this.#attempts.length !== 1) return
    if (nowMs - this.beganMs < hedgeMs) return
    const node = this.#choose()
    if (node === null) return
    this.#isHedged = true
    this.#owner.tally.hedges++
    this.#ask(node)
  }

  /** Its head came in time, the rest does not: the node stands still. */
  #giveUp(attempt: Attempt): void {
    attempt.abort()
    attempt.node.failed('timeout')
    this.#failed(attempt)
  }

  #failed(attempt: Attempt): void {
    this.#attempts = this.#attempts.filter((each) => each !== attempt)
    // A hedge is still on its way.
    if (this.#attempts.length > 0) return
    this.#owner.tally.failovers++
    this.#try()
  }

  #try(): void {
    const node = this.#choose()
    if (node !== null) {
      this.#ask(node)
      return
    }
    const mayGoOn = this.#rounds < ROUNDS_MAX && this.#asked.length > 0 && this.#honest === null
    if (!mayGoOn || !this.#owner.set.isServing()) {
      this.#finish(this.#last(), null)
      return
    }
    this.#rounds++
    this.#asked = []
    setTimeout(() => this.#tryAgain(), ROUND_PAUSE_MS)
  }

  #tryAgain(): void {
    if (!this.#isOver) this.#try()
  }

  #choose(): UpstreamNode | null {
    const { minContextSlot = 0, commitment } = this.options
    const slot = Math.max(minContextSlot, this.mark)
    const not = this.#asked
    return this.#owner.set.choose(
      this.call.method,
      slot === 0 ? { not } : { not, minContextSlot: slot, commitment },
    )
  }

  #ask(node: UpstreamNode): void {
    this.#asked.push(node)
    const leftMs = this.#deadlineMs - this.#owner.nowMs()
    const isLast = this.#asked.length >= this.#owner.set.nodes.length
    const timeoutMs = Math.max(TRY_MS_MIN, isLast ? leftMs : leftMs * TRY_PART)
    const attempt = new Attempt(node, this, this.#owner.tally, this.#id)
    attempt.untilMs = this.#owner.nowMs() + timeoutMs + BODY_MS
    this.#attempts.push(attempt)
    attempt.begin(this.#body, { timeoutMs, isHeavy: this.policy.isHeavy })
  }

  #last(): Answer {
    return this.#honest ?? unhealthy
  }

  #finish(answer: Answer, winner: Attempt | null): void {
    if (this.#isOver) return
    this.#isOver = true
    for (const attempt of this.#attempts) if (attempt !== winner) attempt.abort()
    this.#attempts = []
    this.#owner.done(this, answer, winner?.node ?? null)
  }
}

function discard(answer: Answer): void {
  if (answer.kind === 'stream') answer.stream.cancel()
}
