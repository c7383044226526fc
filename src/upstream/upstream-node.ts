// One node of a set: its connections, what it is known to be, what it was asked. Thread: main.
// Made by upstream-set.ts. Everybody calls it `<set>/<number>`; its addresses and its token are for
// those alone who open connections, and are never told, logged or counted by.
import type { Clock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import { type Log, LogThrottle } from '../telemetry/log.ts'
import { LatencyTally } from '../telemetry/tally.ts'
import type { NodeSection } from './config.ts'
import { LatencyWindow } from './latency-window.ts'
import { MethodList } from './method-list.ts'
import type { AnswerListener, CallOptions, NodeCall } from './node-call.ts'
import { type CallOutcome, callOutcomes, NodeExchange } from './node-exchange.ts'
import { type NodeFault, NodeHealth, type NodeState } from './node-health.ts'
import { NodeLink } from './node-link.ts'

/** Calls that may wait for one node's heads; more are told `busy`. */
const waitingMax = 4_096
/** A node that says 429 is left alone for so long, where there is another. */
const limitedMs = 500
/** A failed call counts as one of this time: failing fast must not look like being fast. */
const failureMs = 1_000
const rising = 0.3
const falling = 0.1
/** Differences below a millisecond are noise. */
const floorMs = 1

/** Ways into a node; an empty address is a way that it does not have. */
export type NodeWay = 'rpc' | 'ws' | 'grpc'

export interface NodeDeps {
  readonly clock: Clock
  readonly log: Log
  /** The state changed; told after it did. */
  readonly onChange: (node: UpstreamNode) => void
}

/** A row of the report; no address in it. */
export interface NodeReport {
  readonly name: string
  readonly region: string
  readonly state: NodeState
  readonly ways: readonly NodeWay[]
  readonly slot: number | null
  readonly finalizedSlot: number | null
  readonly lagSlots: number | null
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  readonly requests: number
  readonly errors: number
  /** Part of its set's calls of the last minute, 0 to 1. */
  readonly share: number
  readonly waiting: number
}

export class UpstreamNode {
  readonly name: string
  readonly set: string
  /** From 1, in the order of the configuration. */
  readonly number: number
  readonly region: string
  readonly weight: number
  /** For those who connect, and nobody else. */
  readonly addresses: Readonly<Record<NodeWay, string>> & { readonly xToken: string }
  readonly health: NodeHealth
  readonly latency = new LatencyWindow()
  readonly seconds = new LatencyTally()
  readonly outcomes: Record<CallOutcome, number>
  /** Probes that failed, by what they failed of. */
  probeFailures = 0
  readonly #methods: MethodList
  readonly #deps: NodeDeps
  readonly #link: NodeLink | null
  readonly #waiting = new Set<NodeExchange>()
  readonly #slots: [number | null, number | null, number | null] = [null, null, null]
  readonly #throttle = new LogThrottle()
  #shredSlot: number | null = null
  #lagSlots: number | null = null
  #lowProbes = 0
  #averageMs = 0
  #limitedUntilMs = 0
  #heardMs = 0

  constructor(set: string, number: number, section: NodeSection, deps: NodeDeps) {
    const { rpc, ws, grpc, xToken } = section
    this.set = set
    this.number = number
    this.name = `${set}/${number}`
    this.region = section.region
    this.weight = section.weight
    this.addresses = { rpc, ws, grpc, xToken }
    this.outcomes = Object.fromEntries(callOutcomes.map((outcome) => [outcome, 0])) as never
    this.health = new NodeHealth(deps.clock, (state, before) => this.#changed(state, before))
    this.#methods = new MethodList(section)
    this.#deps = deps
    this.#link = rpc === '' ? null : new NodeLink(rpc, xToken)
    // Nothing can be asked of a node without JSON-RPC: whoever streams from it finds out.
    if (this.#link === null) this.health.probeAnswered({ isBehind: false })
  }

  get state(): NodeState {
    return this.health.state
  }

  /** Calls that wait for their head. */
  get waiting(): number {
    return this.#waiting.size
  }

  /** What a call costs here, as the choice compares it: time, and how many are before it. */
  get load(): number {
    return (this.#averageMs + floorMs) * (1 + this.#waiting.size / Math.max(this.weight, 0.001))
  }

  get isLimited(): boolean {
    return this.#limitedUntilMs > this.#deps.clock.monotonicMs()
  }

  /** When anything was last heard from it, monotonic; 0 before. */
  get heardMs(): number {
    return this.#heardMs
  }

  nowMs(): number {
    return this.#deps.clock.monotonicMs()
  }

  serves(method: string): boolean {
    return this.#methods.has(method)
  }

  has(way: NodeWay): boolean {
    return this.addresses[way] !== ''
  }

  /** The last slot it is known to have reached; null when it never told. */
  slot(commitment: Commitment = Commitment.processed): number | null {
    return this.#slots[commitment]
  }

  /** The last slot whose shreds it took in; null when it does not tell. */
  get shredSlot(): number | null {
    return this.#shredSlot
  }

  get lagSlots(): number | null {
    return this.#lagSlots
  }

  /**
   * Sends a JSON-RPC body as it is and tells the listener. Counted, and watched by the breaker.
   * The listener may be told before this returns (`busy`).
   */
  call(body: string | Uint8Array, options: CallOptions, listener: AnswerListener): NodeCall {
    const exchange = new NodeExchange(this, options, listener, this.#deps.clock.monotonicMs())
    if (this.#link === null || this.#waiting.size >= waitingMax) {
      exchange.onFault('busy', false)
      return exchange
    }
    this.#waiting.add(exchange)
    exchange.begin(this.#link.call(body, options.timeoutMs, exchange))
    return exchange
  }

  /** The link for probes: neither counted nor watched. */
  get link(): NodeLink | null {
    return this.#link
  }

  /** A stream or an answer showed that it is there already. */
  sawSlot(slot: number, commitment: Commitment): void {
    const known = this.#slots[commitment]
    if (known === null || slot > known) this.#slots[commitment] = slot
  }

  /**
   * What a probe told. Its answer may be older than what a stream showed since: a slot goes back
   * only when two probes say so, as after a restart from a snapshot.
   */
  tellSlots(processed: number | null, finalized: number | null, shred: number | null): void {
    const slots = this.#slots
    const isLower = processed !== null && processed < (slots[Commitment.processed] ?? 0)
    this.#lowProbes = isLower ? this.#lowProbes + 1 : 0
    if (!isLower || this.#lowProbes > 1) {
      slots[Commitment.processed] = processed ?? slots[Commitment.processed]
      slots[Commitment.finalized] = finalized ?? slots[Commitment.finalized]
      // Between the two: what is processed bounds it from above.
      slots[Commitment.confirmed] = slots[Commitment.processed]
    }
    this.#shredSlot = shred
  }

  judgeLag(lagSlots: number | null, limit: number): void {
    this.#lagSlots = lagSlots
    this.health.judgeLag(lagSlots ?? 0, limit)
  }

  /** Time that a probe or a call took to its head. */
  tookMs(ms: number): void {
    this.#heardMs = this.#deps.clock.monotonicMs()
    this.#average(ms)
  }

  /** For NodeExchange: the head came. */
  headed(exchange: NodeExchange, status: number, ms: number, isHeavy: boolean): void {
    this.#waiting.delete(exchange)
    const nowMs = this.#deps.clock.monotonicMs()
    this.#heardMs = nowMs
    if (status >= 500) {
      this.#average(failureMs)
      this.health.callFailed('status')
      return
    }
    if (status === 429) this.#limitedUntilMs = nowMs + limitedMs
    if (!isHeavy) this.#average(ms)
    this.latency.observe(ms, nowMs)
    this.seconds.observeMs(ms)
    this.health.callAnswered()
  }

  /** For NodeExchange: it is over, counted once. */
  ended(exchange: NodeExchange, outcome: CallOutcome): void {
    this.#waiting.delete(exchange)
    this.outcomes[outcome]++
  }

  /** For NodeExchange: no answer, or half of one. */
  failed(fault: NodeFault): void {
    if (fault !== 'busy' && fault !== 'left') this.#average(failureMs)
    this.health.callFailed(fault)
  }

  /** Gives up what waits here for a head, so that it can be asked elsewhere. */
  letGo(): void {
    const isOnlyDoubted = this.state === 'probing'
    for (const exchange of [...this.#waiting]) exchange.letGo(isOnlyDoubted)
  }

  report(setCount: number): NodeReport {
    const nowMs = this.#deps.clock.monotonicMs()
    const { ok, limited, aborted, left, ...failed } = this.outcomes
    const errors = Object.values(failed).reduce((sum, count) => sum + count, 0)
    const count = this.latency.count(nowMs)
    return {
      name: this.name,
      region: this.region,
      state: this.state,
      ways: (['rpc', 'ws', 'grpc'] as const).filter((way) => this.has(way)),
      slot: this.slot(Commitment.processed),
      finalizedSlot: this.slot(Commitment.finalized),
      lagSlots: this.#lagSlots,
      p50Ms: rounded(this.latency.percentile(0.5, nowMs)),
      p99Ms: rounded(this.latency.percentile(0.99, nowMs)),
      requests: ok + limited + aborted + left + errors,
      errors: errors + limited,
      share: setCount === 0 ? 0 : Math.round((count / setCount) * 1000) / 1000,
      waiting: this.#waiting.size,
    }
  }

  async stop(): Promise<void> {
    await this.#link?.stop()
  }

  #average(ms: number): void {
    const part = ms > this.#averageMs ? rising : falling
    this.#averageMs += (ms - this.#averageMs) * part
  }

  #changed(state: NodeState, before: NodeState): void {
    const fields = { node: this.name, state, before }
    if (this.#throttle.allows(state, this.nowMs()))
      if (state === 'down') this.#deps.log.warn('a node left the rotation', fields)
      else this.#deps.log.info('a node changed', fields)
    this.#deps.onChange(this)
  }
}

function rounded(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms * 100) / 100
}
