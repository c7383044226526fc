// Whether a node may be sent to: its probes, its breaker, its lag. Thread: main. Clock passed in;
// no sockets, so a test walks it through every turn. Owned by upstream-node.ts.
//
//   probing ──probe answered──► up ◄──lag <= half──┐
//      ▲  ▲                    │ │ └──lag > limit─► lagging
//      │  └──probe overdue─────┘ └─────────────┐
//      └──probe answered, rest over── down ◄───┴─ refused, silent, errors in a row
//
// Down by probes or a refused connection: the next probe that is answered brings it back. Down by
// errors of calls while probes are fine: it rests, then a few trial calls or probes decide.
import type { Clock } from '../base/clock.ts'
import type { CallFault } from './node-call.ts'

export type NodeState = 'probing' | 'up' | 'lagging' | 'down'

/** What calls and probes can fail by; `status` is a 5xx of the node or a proxy before it. */
export type NodeFault = CallFault | 'status'

/** Calls that fail one after another, with none answered between, open the breaker. */
const callFailuresMax = 5
const probeFailuresMax = 2
const restMsMin = 1_000
const restMsMax = 15_000
/** Calls or probes that must be answered before a rested node is trusted again. */
const trials = 3
/** After a return its share grows from a tenth to the whole. */
const slowStartMs = 3_000
const slowStartShare = 0.1

export class NodeHealth {
  /** Kept ready, since every choice of a node reads it. */
  state: NodeState = 'probing'
  readonly #clock: Clock
  readonly #onChange: (state: NodeState, before: NodeState) => void
  #isKnown = false
  #isOverdue = false
  #isBehind = false
  #isLagging = false
  #breaker: 'closed' | 'open' | 'half-open' = 'closed'
  #openedBy: 'probes' | 'calls' = 'probes'
  #restMs = restMsMin
  #restUntilMs = 0
  #trialsLeft = 0
  #callFailures = 0
  #probeFailures = 0
  #backAtMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock, onChange: (state: NodeState, before: NodeState) => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  /** True while a rested node is on trial: one call at a time. */
  get isOnTrial(): boolean {
    return this.#breaker === 'half-open'
  }

  /** Share of its weight, from a tenth just after a return to 1. */
  ramp(): number {
    const part = (this.#clock.monotonicMs() - this.#backAtMs) / slowStartMs
    return part >= 1 ? 1 : Math.max(slowStartShare, part)
  }

  /** `isBehind` is the node's own word that it is not healthy. */
  probeAnswered({ isBehind }: { readonly isBehind: boolean }): void {
    this.#isKnown = true
    this.#isOverdue = false
    this.#isBehind = isBehind
    this.#probeFailures = 0
    if (this.#breaker === 'half-open') this.#trialPassed()
    else if (this.#breaker === 'open') {
      if (this.#openedBy === 'probes') this.#close()
      else if (this.#clock.monotonicMs() >= this.#restUntilMs) {
        this.#breaker = 'half-open'
        this.#trialsLeft = trials
      }
    }
    this.#settle()
  }

  probeFailed(fault: NodeFault): void {
    this.#probeFailures++
    this.#isOverdue = true
    if (fault === 'unreached' || this.#probeFailures >= probeFailuresMax) this.#open('probes')
    // It is gone altogether: what it did to calls before says nothing about its return.
    if (fault === 'unreached') this.#openedBy = 'probes'
    this.#settle()
  }

  /** A probe has no answer although its time is over, and nothing else was heard meanwhile. */
  probeOverdue(): void {
    this.#isOverdue = true
    this.#settle()
  }

  /** Nothing was heard for so long that waiting makes no sense. */
  probeSilent(): void {
    this.#open('probes')
    this.#settle()
  }

  /** It answers calls: then it is not silent, whatever became of the probe. */
  callAnswered(): void {
    this.#callFailures = 0
    if (this.#isOverdue && this.#breaker !== 'open') {
      this.#isOverdue = false
      this.#settle()
    }
    if (this.#breaker !== 'half-open') return
    if (this.#trialPassed()) this.#restMs = restMsMin
    this.#settle()
  }

  /** Probes count as well, or a node without traffic would be on trial for ever. */
  #trialPassed(): boolean {
    this.#trialsLeft--
    if (this.#trialsLeft > 0) return false
    this.#close()
    return true
  }

  callFailed(fault: NodeFault): void {
    if (fault === 'left' || fault === 'busy') return
    this.#callFailures++
    if (fault === 'unreached') this.#open('probes')
    else if (this.#breaker === 'half-open') {
      this.#restMs = Math.min(this.#restMs * 2, restMsMax)
      this.#open('calls')
    } else if (this.#callFailures >= callFailuresMax) this.#open('calls')
    this.#settle()
  }

  /** Leaves above the limit, returns at half of it: a node at the edge does not flap. */
  judgeLag(lagSlots: number, limit: number): void {
    this.#isLagging = lagSlots > (this.#isLagging ? Math.floor(limit / 2) : limit)
    this.#settle()
  }

  #open(by: 'probes' | 'calls'): void {
    // What fails after the opening was sent before it: no reason to rest longer.
    if (this.#breaker === 'open') return
    this.#breaker = 'open'
    this.#openedBy = by
    this.#restUntilMs = this.#clock.monotonicMs() + this.#restMs
  }

  #close(): void {
    this.#breaker = 'closed'
    this.#callFailures = 0
    this.#backAtMs = this.#clock.monotonicMs()
  }

  #settle(): void {
    const before = this.state
    this.state = this.#judge()
    if (this.state !== before) this.#onChange(this.state, before)
  }

  #judge(): NodeState {
    if (this.#breaker === 'open') return 'down'
    if (!this.#isKnown || this.#isOverdue || this.#breaker === 'half-open') return 'probing'
    return this.#isBehind || this.#isLagging ? 'lagging' : 'up'
  }
}
