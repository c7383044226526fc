// One node of a set: its HTTP client, its health, slots, latency and counters.
// Its only name outside is `<set>/<number>`; its addresses and token are for opening connections
// and never appear in results, logs or meters.
import type { Clock } from '../../base/clock.ts'
import type { Commitment } from '../../base/commitment.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'
import { LatencyTally } from '../../base/telemetry/meters.ts'
import type { NodeSection } from '../config.ts'
import { BodyStream } from '../http-client/body-stream.ts'
import { HttpClient } from '../http-client/http-client.ts'
import type {
  HttpFailure,
  HttpRequest,
  HttpResponse,
  RequestOptions,
} from '../http-client/http-request.ts'
import {
  isNodeFault,
  type NodeFault,
  NodeHealth,
  type NodeState,
  unbelieved,
} from './node-health.ts'
import { NodeSecrets } from './node-secrets.ts'

/** A node that responds 429 is avoided for this long, where there is another. */
const rateLimitedMs = 500
/** A failed call counts as one of this latency: failing fast must not look like being fast. */
const failureMs = 1_000
/** Weight of a new latency in the moving average, when it is above or below the average. */
const averageUp = 0.3
const averageDown = 0.1
/** A failed connection attempt says little about a node that responded in this time. */
const freshMs = 1_500
/** Socket errors of this machine: no descriptors, ports, buffers or memory. */
const localErrors: ReadonlySet<string> = new Set([
  'EMFILE',
  'ENFILE',
  'EADDRNOTAVAIL',
  'EAGAIN',
  'ENOBUFS',
  'ENOMEM',
])
/** So many wrong answers within a time are no accident, such as a doubled answer. */
const wrongMax = 3
const wrongMs = 60_000
/** How long a node is out after its last wrong answer. */
export const distrustMs = 60_000
/** Differences below a millisecond are noise. */
const latencyMsMin = 1

/** How a call ended. `limited` is a 429, `left` was given up because its node left the rotation. */
export const callOutcomes = [
  'ok',
  'limited',
  'status',
  'unreached',
  'broken',
  'timeout',
  'busy',
  'left',
  'aborted',
] as const
export type CallOutcome = (typeof callOutcomes)[number]

/**
 * What a node is distrusted for: an answer with another id than asked, one that is not of its
 * method or not JSON-RPC, one with a slot that its set cannot have reached, another block at a
 * confirmed slot than others have, a geyser stream that is silent or of another chain.
 */
export const wrongs = ['id', 'shape', 'slot', 'block', 'stream'] as const
export type Wrong = (typeof wrongs)[number]

/** Endpoints of a node; an empty address is one that it does not have. */
export type NodeEndpoint = 'rpc' | 'ws' | 'grpc'

export interface CallOptions extends RequestOptions {
  /** A scan, whose latency does not show how fast the node is. */
  readonly isHeavy?: boolean
  /** Not given up when the node leaves the rotation: a send, which must not be sent twice. */
  readonly isSend?: boolean
}

export interface NodeDeps {
  readonly clock: Clock
  readonly log: Log
  /** The only node of its set with JSON-RPC, or with geyser where it has that alone. */
  readonly isAlone: boolean
  /** Called after the state changed. */
  readonly onChange: (node: UpstreamNode) => void
}

export class UpstreamNode {
  readonly name: string
  readonly set: string
  /** From 1, in the order of the configuration. */
  readonly number: number
  readonly region: string
  readonly weight: number
  /** Only for opening connections. */
  readonly addresses: Readonly<Record<NodeEndpoint, string>> & { readonly xToken: string }
  readonly secrets: NodeSecrets
  readonly health: NodeHealth
  readonly latency = new LatencyWindow()
  readonly seconds = new LatencyTally()
  readonly outcomes: Record<CallOutcome, number>
  /** How often it was wrong. */
  readonly wrongs: Record<Wrong, number>
  /** For probes: requests to it are neither counted nor watched by the circuit breaker. */
  readonly http: HttpClient | null
  probeFailures = 0
  lagSlots: number | null = null
  /** The last slot whose shreds it received; null when it does not report that. */
  shredSlot: number | null = null
  /** Its genesis hash, as it last reported it; null before, or when it does not report it. */
  genesis: string | null = null
  /** The version in the contexts of its answers; '' before the first. */
  apiVersion = ''
  /** Its first probe has ended, or it is never probed. */
  wasProbed = false
  /** When it last responded to a call or a probe, monotonic; 0 before. */
  respondedMs = 0
  /** What failed last, for the log. */
  failureReason = ''
  /** False for a node that does not report its blocks to probes. */
  reportsBlocks: boolean
  /** What was wrong with its geyser stream, while its JSON-RPC was fine; '' for nothing. */
  streamFault = ''
  /** The highest slot of its last probe, since when it reports it, and how often it moved. */
  probed = { slot: 0, sinceMs: 0, moves: 0 }
  readonly #section: NodeSection
  readonly #deps: NodeDeps
  readonly #waiting = new Map<HttpRequest, CallOptions>()
  #slots: [number | null, number | null, number | null] = [null, null, null]
  readonly #throttle = new LogThrottle()
  #lowProbes = 0
  #wrong = { count: 0, sinceMs: 0 }
  /** Why it is distrusted, drained, or lagging where that is not the distance of its slot. */
  #notes: Partial<Record<NodeState, string>> = {}
  #averageMs = 0
  #rateLimitedUntilMs = 0

  constructor(set: string, number: number, section: NodeSection, deps: NodeDeps) {
    const { rpc, ws, grpc, xToken } = section
    this.set = set
    this.number = number
    this.name = `${set}/${number}`
    this.region = section.region
    this.weight = section.weight
    this.addresses = { rpc, ws, grpc, xToken }
    this.secrets = new NodeSecrets(this.addresses)
    this.outcomes = Object.fromEntries(callOutcomes.map((outcome) => [outcome, 0])) as never
    this.wrongs = Object.fromEntries(wrongs.map((wrong) => [wrong, 0])) as never
    this.health = new NodeHealth(deps.clock, (state, before) => this.#changed(state, before))
    this.http = rpc === '' ? null : new HttpClient(rpc, { xToken, clock: deps.clock })
    this.#section = section
    this.reportsBlocks = this.http !== null && this.serves('getLatestBlockhash')
    this.#deps = deps
    // A node without JSON-RPC cannot be probed: its geyser stream shows its health.
    if (this.http === null) this.health.probeAnswered({ isBehind: false })
  }

  get state(): NodeState {
    return this.health.state
  }

  get isReachable(): boolean {
    return this.state !== 'down'
  }

  /** Calls that wait for a response. */
  get waiting(): number {
    return this.#waiting.size
  }

  /** Estimated cost of a call here, for load balancing: latency times the calls before it. */
  get load(): number {
    const queue = this.#waiting.size / Math.max(this.weight, 0.001)
    return (this.#averageMs + latencyMsMin) * (1 + queue)
  }

  get isRateLimited(): boolean {
    return this.#rateLimitedUntilMs > this.nowMs()
  }

  nowMs(): number {
    return this.#deps.clock.monotonicMs()
  }

  serves(method: string): boolean {
    return servesMethod(this.#section, method)
  }

  has(endpoint: NodeEndpoint): boolean {
    return this.addresses[endpoint] !== ''
  }

  /**
   * The last slot that it is known to have reached at a commitment, or at any: processed may be
   * below the others and stand still. Null when it never reported one.
   */
  slot(commitment?: Commitment): number | null {
    return commitment === undefined ? highest(this.#slots) : this.#slots[commitment]
  }

  /** Why it is in its state; '' where the state says it all. */
  get reason(): string {
    const { state } = this
    if (state === 'down') return this.failureReason
    return this.#notes[state] ?? reasons[state] ?? this.streamFault
  }

  /**
   * It was wrong. It is out for a time once it was so repeatedly, or at once where it is proven
   * (`why`). Only counted in a set of one node.
   */
  distrust(wrong: Wrong, why = ''): void {
    this.wrongs[wrong]++
    const nowMs = this.nowMs()
    if (nowMs - this.#wrong.sinceMs > wrongMs) this.#wrong = { count: 0, sinceMs: nowMs }
    this.#wrong.count++
    const reason = why === '' ? wrongReasons[wrong] : why
    if (this.#throttle.allows(wrong, nowMs))
      this.#deps.log.warn('node is wrong', { node: this.name, reason })
    if (this.#deps.isAlone || (why === '' && this.#wrong.count < wrongMax)) return
    this.#notes.distrusted = reason
    this.health.distrust(distrustMs)
  }

  /** An operator takes it out, `by` and why as one line, or lets it return. */
  setDrained(by: string | null): void {
    this.#notes.drained = by ?? ''
    this.health.setDrained(by !== null)
  }

  /** Why it does not count as near the head, whatever its slots; '' when it does. */
  setStill(why: string): void {
    this.#notes.lagging = why
    this.health.setStill(why !== '')
  }

  /** Sends a JSON-RPC body as it is; only to a node with an rpc endpoint. */
  call(body: string | Uint8Array, options: CallOptions): HttpRequest {
    const request = this.http!.request(body, options)
    this.#waiting.set(request, options)
    void request.response.then((result) => this.#settled(request, result, options))
    return request
  }

  /** A call failed: it had no response, half of one, or one that is not JSON-RPC. */
  failed(fault: NodeFault, code = ''): void {
    this.failureReason = code === '' ? fault : code
    if (localErrors.has(code)) return
    this.#observeAverage(failureMs)
    if (fault !== 'unreached' || !this.#isConnected()) this.health.callFailed(fault)
  }

  /** A probe failed. */
  probeFailed(fault: NodeFault, code: string): void {
    this.failureReason = code === '' ? fault : code
    this.probeFailures++
    if (localErrors.has(code)) return
    this.health.probeFailed(fault === 'unreached' && this.#isConnected() ? 'broken' : fault)
  }

  /** A stream or a response showed that the node reached this slot. */
  observeSlot(slot: number, commitment: Commitment): void {
    const known = this.#slots[commitment]
    if (known === null || slot > known) this.#slots[commitment] = slot
  }

  /**
   * The slots of a probe. It may be older than what a stream showed since: a slot goes back only
   * when two probes report it, as after a restart from a snapshot. Returns false for a slot that
   * went back.
   */
  probedSlots(
    processed: number | null,
    finalized: number | null,
    shred: number | null,
    confirmed: number | null = null,
  ): boolean {
    const slot = highest([processed, confirmed, finalized])
    const isLower = slot !== null && slot < (this.slot() ?? 0)
    this.#lowProbes = isLower ? this.#lowProbes + 1 : 0
    if (!isLower || this.#lowProbes > 1) {
      const [wasProcessed, , wasFinalized] = isLower ? [null, null, null] : this.#slots
      // Without it: no higher than the others.
      const between = confirmed ?? highest([processed ?? wasProcessed, finalized ?? wasFinalized])
      this.#slots = [processed ?? wasProcessed, between, finalized ?? wasFinalized]
    }
    if (slot !== null && slot !== this.probed.slot)
      this.probed = { slot, sinceMs: this.nowMs(), moves: this.probed.moves + 1 }
    this.shredSlot = shred
    return !isLower
  }

  /** Its slots on another chain are not compared with those on this one. */
  observeGenesis(hash: string): void {
    if (this.genesis !== null && this.genesis !== hash) {
      this.#slots = [null, null, null]
      this.#lowProbes = 0
      this.probed = { slot: 0, sinceMs: this.nowMs(), moves: 0 }
    }
    this.genesis = hash
  }

  /** Slots behind the head of its set, negative for a node that is ahead; null when unknown. */
  setLag(lagSlots: number | null, limit: number): void {
    this.health.setLag(lagSlots ?? 0, limit)
    this.lagSlots = lagSlots !== null && this.state !== 'ahead' ? Math.max(0, lagSlots) : lagSlots
  }

  /** Latency of a probe. */
  observeLatency(ms: number): void {
    this.respondedMs = this.nowMs()
    this.#observeAverage(ms)
  }

  /**
   * Gives up the calls without a response, so that they can be sent to another node. While it is
   * only doubtful, scans stay: one may be what keeps the node busy, and would do so to the next.
   */
  abandonCalls(): void {
    const isDoubtful = this.state === 'probing'
    for (const [request, { isSend, isHeavy }] of [...this.#waiting])
      if (request.status === 0 && isSend !== true && !(isDoubtful && isHeavy === true))
        request.abort('left')
  }

  stop(): void {
    this.http?.stop()
  }

  #settled(request: HttpRequest, result: HttpResponse | HttpFailure, options: CallOptions): void {
    this.#waiting.delete(request)
    if (!result.ok) {
      const { fault, code } = result
      this.outcomes[fault]++
      if (isNodeFault(fault)) this.failed(fault, code)
      return
    }
    this.#responded(request, options)
    if (result.body instanceof BodyStream)
      void result.body.closed.then((end) => {
        this.outcomes[end]++
        if (end === 'broken') this.failed('broken')
      })
    else {
      const { status } = result
      this.outcomes[status >= 500 ? 'status' : status === 429 ? 'limited' : 'ok']++
    }
  }

  #responded({ status, startMs, headMs }: HttpRequest, { isHeavy }: CallOptions): void {
    this.respondedMs = headMs
    if (status >= 500) return void this.failed('status', `HTTP ${status}`)
    const ms = headMs - startMs
    if (status === 429) this.#rateLimitedUntilMs = headMs + rateLimitedMs
    if (isHeavy !== true) this.#observeAverage(ms)
    this.latency.observe(ms, headMs)
    this.seconds.observeMs(ms)
    this.health.callAnswered()
  }

  /** It takes no new connection, but responds on those that it has. */
  #isConnected(): boolean {
    return this.http?.isConnected === true && this.nowMs() - this.respondedMs < freshMs
  }

  #observeAverage(ms: number): void {
    const weight = ms > this.#averageMs ? averageUp : averageDown
    this.#averageMs += (ms - this.#averageMs) * weight
  }

  #changed(state: NodeState, before: NodeState): void {
    const fields = { node: this.name, state, before }
    const { reason } = this
    const hasLeft =
      state === 'down' || unbelieved.has(state) || (state === 'lagging' && reason !== '')
    if (this.#throttle.allows(state, this.nowMs()))
      if (hasLeft) this.#deps.log.warn('node left the rotation', { ...fields, reason })
      else this.#deps.log.info('node state changed', fields)
    this.#deps.onChange(this)
  }
}

/** Of states that an operator has to look at. */
const reasons: Partial<Record<NodeState, string>> = {
  foreign: 'its genesis hash is another one than that of its set',
  ahead: 'its slot is far above what its set can have reached',
}

const wrongReasons: Readonly<Record<Wrong, string>> = {
  id: 'its answers have other ids than the calls',
  shape: 'its answers are not those of the methods',
  slot: 'its answers have slots that its set cannot have reached',
  block: 'it has another block at a confirmed slot',
  stream: 'its geyser stream is not that of its set',
}

function highest(slots: readonly (number | null)[]): number | null {
  const known = slots.filter((slot) => slot !== null)
  return known.length === 0 ? null : Math.max(...known)
}

// Which methods a node serves: allow and deny lists whose names may end in *.

export function servesMethod(
  { allow, deny }: Pick<NodeSection, 'allow' | 'deny'>,
  method: string,
): boolean {
  const isAllowed = allow.length === 0 || matchesAny(allow, method)
  return isAllowed && !matchesAny(deny, method)
}

function matchesAny(patterns: readonly string[], method: string): boolean {
  return patterns.some((pattern) =>
    pattern.endsWith('*') ? method.startsWith(pattern.slice(0, -1)) : method === pattern,
  )
}

// Latencies of the last minute in fixed memory, for percentiles. Clock passed in.
// Three buckets per doubling from 50 us to 105 s: a percentile is at most 26 percent too high.
//
//   ring of six slices, ten seconds each:  [buckets | count] [buckets | count] ...
//                                           ^ the current one; the oldest is wiped for the next

const firstMs = 0.05
const perDoubling = 3
const bucketCount = 64
const sliceCount = 6
const sliceMs = 10_000

export class LatencyWindow {
  readonly #counts = new Uint32Array(sliceCount * bucketCount)
  readonly #totals = new Uint32Array(sliceCount)
  /** Number of the current slice since the clock's start. */
  #slice = -1

  observe(ms: number, nowMs: number): void {
    const slot = this.#advance(nowMs)
    this.#counts[slot * bucketCount + bucketOf(ms)]!++
    this.#totals[slot]!++
  }

  /** How many were observed within the window. */
  count(nowMs: number): number {
    this.#advance(nowMs)
    return this.#totals.reduce((sum, total) => sum + total, 0)
  }

  /** The upper edge of the bucket at the percentile `share` (0 to 1); null when empty. */
  percentile(share: number, nowMs: number): number | null {
    const total = this.count(nowMs)
    if (total === 0) return null
    const wanted = Math.max(1, Math.ceil(total * share))
    let seen = 0
    for (let bucket = 0; bucket < bucketCount; bucket++) {
      for (let slice = 0; slice < sliceCount; slice++)
        seen += this.#counts[slice * bucketCount + bucket]!
      if (seen >= wanted) return upperEdgeMs(bucket)
    }
    return upperEdgeMs(bucketCount - 1)
  }

  /** Moves to the current slice, wiping those that were skipped; returns its index. */
  #advance(nowMs: number): number {
    const slice = Math.floor(nowMs / sliceMs)
    if (slice > this.#slice) {
      const from = Math.max(this.#slice + 1, slice - sliceCount + 1)
      for (let each = from; each <= slice; each++) {
        const index = each % sliceCount
        this.#counts.fill(0, index * bucketCount, (index + 1) * bucketCount)
        this.#totals[index] = 0
      }
      this.#slice = slice
    }
    return this.#slice % sliceCount
  }
}

function bucketOf(ms: number): number {
  if (ms <= firstMs) return 0
  const bucket = Math.ceil(Math.log2(ms / firstMs) * perDoubling)
  return Math.min(bucket, bucketCount - 1)
}

function upperEdgeMs(bucket: number): number {
  return firstMs * 2 ** (bucket / perDoubling)
}
