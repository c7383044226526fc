// One node of a set: its HTTP client, its health, slots, latency and counters.
// Its only name outside is `<set>/<number>`; its addresses and token are for opening connections
// and never appear in results, logs or meters.
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'
import { LatencyTally } from '../../base/telemetry/tally.ts'
import type { NodeSection } from '../config.ts'
import { BodyStream } from '../http-client/body-stream.ts'
import { HttpClient } from '../http-client/http-client.ts'
import type {
  HttpFailure,
  HttpRequest,
  HttpResponse,
  RequestOptions,
} from '../http-client/http-request.ts'
import { isNodeFault, type NodeFault, NodeHealth, type NodeState } from './node-health.ts'
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
  /** For probes: requests to it are neither counted nor watched by the circuit breaker. */
  readonly http: HttpClient | null
  probeFailures = 0
  lagSlots: number | null = null
  /** The last slot whose shreds it received; null when it does not report that. */
  shredSlot: number | null = null
  /** Its genesis hash, as it last reported it; null before, or when it does not report it. */
  genesis: string | null = null
  /** Its first probe has ended, or it is never probed. */
  wasProbed = false
  /** When it last responded to a call or a probe, monotonic; 0 before. */
  respondedMs = 0
  /** What failed last, for the log. */
  failureReason = ''
  readonly #methods: MethodList
  readonly #deps: NodeDeps
  readonly #waiting = new Map<HttpRequest, CallOptions>()
  #slots: [number | null, number | null, number | null] = [null, null, null]
  readonly #throttle = new LogThrottle()
  #lowProbes = 0
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
    this.health = new NodeHealth(deps.clock, (state, before) => this.#changed(state, before))
    this.http = rpc === '' ? null : new HttpClient(rpc, { xToken, clock: deps.clock })
    this.#methods = new MethodList(section)
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
    return this.#methods.has(method)
  }

  has(endpoint: NodeEndpoint): boolean {
    return this.addresses[endpoint] !== ''
  }

  /** The last slot that it is known to have reached; null when it never reported one. */
  slot(commitment: Commitment = Commitment.processed): number | null {
    return this.#slots[commitment]
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
  probedSlots(processed: number | null, finalized: number | null, shred: number | null): boolean {
    const slots = this.#slots
    const isLower = processed !== null && processed < (slots[Commitment.processed] ?? 0)
    this.#lowProbes = isLower ? this.#lowProbes + 1 : 0
    if (!isLower || this.#lowProbes > 1) {
      slots[Commitment.processed] = processed ?? slots[Commitment.processed]
      slots[Commitment.finalized] = finalized ?? slots[Commitment.finalized]
      // Confirmed is between the two: processed is its upper bound.
      slots[Commitment.confirmed] = slots[Commitment.processed]
    }
    this.shredSlot = shred
    return !isLower
  }

  /** Its slots on another chain are not compared with those on this one. */
  observeGenesis(hash: string): void {
    if (this.genesis !== null && this.genesis !== hash) {
      this.#slots = [null, null, null]
      this.#lowProbes = 0
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
    else this.outcomes[outcomeOf(result.status)]++
  }

  #responded({ status, startMs, headMs }: HttpRequest, { isHeavy }: CallOptions): void {
    this.respondedMs = headMs
    if (status >= 500) {
      this.failed('status', `HTTP ${status}`)
      return
    }
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
    const reason = state === 'down' ? this.failureReason : reasons[state]
    if (this.#throttle.allows(state, this.nowMs()))
      if (reason !== undefined) this.#deps.log.warn('node left the rotation', { ...fields, reason })
      else this.#deps.log.info('node state changed', fields)
    this.#deps.onChange(this)
  }
}

/** Of states that an operator has to look at. */
const reasons: Partial<Record<NodeState, string>> = {
  foreign: 'its genesis hash is another one than that of its set',
  ahead: 'its slot is far above what its set can have reached',
}

function outcomeOf(status: number): CallOutcome {
  return status >= 500 ? 'status' : status === 429 ? 'limited' : 'ok'
}

// Which methods a node serves: allow and deny lists whose names may end in *.

export class MethodList {
  readonly #allow: readonly string[]
  readonly #deny: readonly string[]

  constructor({ allow, deny }: { allow: readonly string[]; deny: readonly string[] }) {
    this.#allow = allow
    this.#deny = deny
  }

  has(method: string): boolean {
    const isAllowed = this.#allow.length === 0 || matchesAny(this.#allow, method)
    return isAllowed && !matchesAny(this.#deny, method)
  }
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
      for (let each = from; each <= slice; each++) this.#wipe(each % sliceCount)
      this.#slice = slice
    }
    return this.#slice % sliceCount
  }

  #wipe(index: number): void {
    this.#counts.fill(0, index * bucketCount, (index + 1) * bucketCount)
    this.#totals[index] = 0
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
