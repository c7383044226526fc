// Health of a node: its probes, its circuit breaker, its lag. Clock passed in; no
// sockets, so a test can run it through every transition.
//
//   probing ──probe answered──► up ◄──lag <= half──┐
//      ▲  ▲                    │ │ └──lag > limit─► lagging
//      │  └──probe overdue─────┘ └────────────────┐
//      └──probe answered, back-off over── down ◄──┴─ refused, silent, failures in a row
//
// Instead of up it is `foreign` while its genesis hash is another one than the set's, `ahead` while
// its slot is far above what the set believes, `distrusted` for a time after it was wrong, and
// `drained` while an operator keeps it out.
//
// Down because of probes or a refused connection: the next answered probe brings it back. Down
// because of failed calls while probes succeed: after a back-off the breaker is half-open, and a
// few trial calls or probes decide.
import { backoffMs, type Clock } from '../../base/clock.ts'
import type { HttpFault } from '../http-client/http-request.ts'

export const nodeStates = [
  'probing',
  'up',
  'lagging',
  'ahead',
  'foreign',
  'distrusted',
  'drained',
  'down',
] as const
export type NodeState = (typeof nodeStates)[number]

/** States whose nodes are not believed: nothing that they send reaches a customer. */
export const unbelieved: ReadonlySet<NodeState> = new Set(['ahead', 'foreign', 'distrusted'])

/** Failures of the node; `status` is a 5xx of it or of a proxy before it. */
export type NodeFault = 'unreached' | 'broken' | 'timeout' | 'status'

/** Consecutive failed calls that open the breaker. */
const callFailuresMax = 5
const probeFailuresMax = 2
const backoff = { firstMs: 1_000, lastMs: 15_000 }
/** Calls or probes that must succeed before a half-open breaker closes. */
const trials = 3
/** After a return its share grows from a tenth to the whole. */
const slowStartMs = 3_000
const slowStartShare = 0.1

/** False for a fault that does not show that the node is bad. */
export function isNodeFault(fault: HttpFault): fault is HttpFault & NodeFault {
  return fault === 'unreached' || fault === 'broken' || fault === 'timeout'
}

export class NodeHealth {
  /** A field, because every pick of a node reads it. */
  state: NodeState = 'probing'
  readonly #clock: Clock
  readonly #onChange: (state: NodeState, before: NodeState) => void
  #isProbed = false
  #isOverdue = false
  #isBehind = false
  #distance: 'near' | 'lagging' | 'ahead' = 'near'
  #isForeign = false
  #isStill = false
  #isUnknown = false
  #isDrained = false
  #distrustedUntilMs = Number.NEGATIVE_INFINITY
  #breaker: 'closed' | 'open' | 'half-open' = 'closed'
  #openedBy: 'probes' | 'calls' = 'probes'
  #openUntilMs = 0
  #trialsLeft = 0
  #failedTrials = 0
  #callFailures = 0
  #probeFailures = 0
  #closedMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock, onChange: (state: NodeState, before: NodeState) => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  /** True while trial calls decide, one at a time. */
  get isHalfOpen(): boolean {
    return this.#breaker === 'half-open'
  }

  /** It is lagging at most for the reason that it does not know whether it is behind. */
  get isHealthUnknown(): boolean {
    return this.#isUnknown && !this.#isStill && this.#distance === 'near'
  }

  /** Share of its weight (slow start): from a tenth just after a return to 1. */
  slowStart(): number {
    const share = (this.#clock.monotonicMs() - this.#closedMs) / slowStartMs
    return share >= 1 ? 1 : Math.max(slowStartShare, share)
  }

  /**
   * `isBehind`: the node itself reports that it is not healthy; `isUnknown`: only because it does
   * not know, as right after the chain's consensus has changed.
   */
  probeAnswered(report: { readonly isBehind: boolean; readonly isUnknown?: boolean }): void {
    this.#isProbed = true
    this.#isOverdue = false
    this.#isBehind = report.isBehind
    this.#isUnknown = report.isUnknown === true
    this.#probeFailures = 0
    if (this.#breaker === 'half-open') this.#trialPassed()
    else if (this.#breaker === 'open') {
      if (this.#openedBy === 'probes') this.#close()
      else if (this.#clock.monotonicMs() >= this.#openUntilMs) {
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
    // The process is gone: earlier failures of calls do not matter when it returns.
    if (fault === 'unreached') this.#openedBy = 'probes'
    this.#settle()
  }

  /** A probe is unanswered after its time, and there was no other response meanwhile. */
  probeOverdue(): void {
    this.#isOverdue = true
    this.#settle()
  }

  /** There was no response for so long that the node counts as down. */
  probeSilent(): void {
    this.#open('probes')
    this.#settle()
  }

  /** It answers calls, so it is not silent, whatever happened to the probe. */
  callAnswered(): void {
    this.#callFailures = 0
    if (this.#isOverdue && this.#breaker !== 'open') {
      this.#isOverdue = false
      this.#settle()
    }
    if (this.#breaker !== 'half-open') return
    if (this.#trialPassed()) this.#failedTrials = 0
    this.#settle()
  }

  /** Probes count as well, or a node without traffic would stay half-open forever. */
  #trialPassed(): boolean {
    this.#trialsLeft--
    if (this.#trialsLeft > 0) return false
    this.#close()
    return true
  }

  callFailed(fault: NodeFault): void {
    this.#callFailures++
    if (fault === 'unreached') this.#open('probes')
    else if (this.#breaker === 'half-open') {
      this.#failedTrials++
      this.#open('calls')
    } else if (this.#callFailures >= callFailuresMax) this.#open('calls')
    this.#settle()
  }

  /**
   * Leaves above the limit, returns at half of it: a node at the edge does not flap. A negative lag
   * is how far the node is ahead.
   */
  setLag(lagSlots: number, limit: number): void {
    const isNear = this.#distance === 'near'
    const isFar = Math.abs(lagSlots) > (isNear ? limit : Math.floor(limit / 2))
    this.#distance = isFar ? (lagSlots > 0 ? 'lagging' : 'ahead') : 'near'
    this.#settle()
  }

  /** Its slot is unknown or does not move, while its set has a head that does. */
  setStill(isStill: boolean): void {
    this.#isStill = isStill
    this.#settle()
  }

  /** Its answers were wrong: it is out for so long. */
  distrust(ms: number): void {
    this.#distrustedUntilMs = this.#clock.monotonicMs() + ms
    this.#settle()
  }

  /** An operator takes it out, or lets it return. */
  setDrained(isDrained: boolean): void {
    this.#isDrained = isDrained
    this.#settle()
  }

  /** Its genesis hash is another one than the set's. */
  setForeign(isForeign: boolean): void {
    this.#isForeign = isForeign
    this.#settle()
  }

  #open(by: 'probes' | 'calls'): void {
    // What fails while it is open was sent before: no reason for a longer back-off.
    if (this.#breaker === 'open') return
    this.#breaker = 'open'
    this.#openedBy = by
    this.#openUntilMs = this.#clock.monotonicMs() + backoffMs(1 + this.#failedTrials, backoff)
  }

  #close(): void {
    this.#breaker = 'closed'
    this.#callFailures = 0
    this.#closedMs = this.#clock.monotonicMs()
  }

  #settle(): void {
    const before = this.state
    this.state = this.#stateNow()
    if (this.state !== before) this.#onChange(this.state, before)
  }

  #stateNow(): NodeState {
    if (this.#isDrained) return 'drained'
    if (this.#breaker === 'open') return 'down'
    // Before the doubts: neither chain nor slot of it is used for anything.
    if (this.#isForeign) return 'foreign'
    if (this.#clock.monotonicMs() < this.#distrustedUntilMs) return 'distrusted'
    if (this.#distance === 'ahead') return 'ahead'
    if (!this.#isProbed || this.#isOverdue || this.#breaker === 'half-open') return 'probing'
    if (this.#isBehind || this.#isStill) return 'lagging'
    return this.#distance === 'lagging' ? 'lagging' : 'up'
  }
}
