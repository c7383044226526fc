// Proxies the JSON-RPC calls of customers to nodes, each to its own set only: stream, cache, single
// flight, then the nodes.
// Nothing here is shared between sets: their nodes may be in different clusters.
//
//   call ─► send                                    ─► one node, or all
//        ├► known from the stream of the set        ─► answer ─► slots seen
//        ├► cache hit                               ─► answer
//        ├► an identical read is in flight          ─► its answer (single flight)
//        └► Read: pick, failover, hedge             ─► answer ─► cache, slots seen
import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import {
  type Answer,
  encodedBytes,
  encodedText,
  failure,
  rpcErrors,
  streamed,
} from '../../base/jsonrpc/build.ts'
import type { Call } from '../../base/jsonrpc/parse.ts'
import { LogThrottle } from '../../base/telemetry/log.ts'
import { bodyOf } from '../call-body.ts'
import { defaultSet } from '../config.ts'
import type { UpstreamNode } from '../node-pool/upstream-node.ts'
import { callNode, type UpstreamSet } from '../node-pool/upstream-set.ts'
import type { Upstreams } from '../node-pool/upstreams.ts'
import type { AnswerSource } from '../ports.ts'
import { AnswerCache } from './answer-cache.ts'
import {
  isLasting,
  type MethodPolicy,
  type ProxyTally,
  policyOf,
  readOptions,
} from './method-policy.ts'
import {
  ProxyRead,
  type ReadDeps,
  type ReadRequest,
  type ReadResult,
  send,
  unhealthy,
} from './proxy-read.ts'
import { apiVersionIn, CustomerSlots, eachShown, heightIn, slotIn } from './shown-slots.ts'

/** A read is hedged no sooner than this, however fast its method usually is. */
const HEDGE_MS_MIN = 100
/** Before the latency of a method is known. */
const HEDGE_MS_INITIAL = 1_000
/** Reads of a method before its percentile is used. */
const HEDGE_READS_MIN = 20
/** Methods whose latency is estimated; their names come from callers. */
const METHODS_MAX = 128
const VERSION_MS = 1_000
const { processed } = Commitment

interface CustomerRead extends ReadRequest {
  /** Identical reads have the same key. */
  readonly key: string
  /** Id of the subscription. */
  readonly customer: string
  /** The answer can never change. */
  readonly isLasting: boolean
  /** Others share the answer. */
  isJoined: boolean
}

/** A read in flight, whose answer others can share. */
interface Flight {
  readonly read: CustomerRead
  readonly answer: Promise<Answer>
}

export interface SetProxyDeps {
  readonly tally: ProxyTally
  readonly clock: Clock
  /** Added to the answer of getVersion. */
  readonly version: string
  /** What the stream of a set answers; null while it has none. */
  answersOf?(set: string): AnswerSource | null
}

export class SetProxy implements ReadDeps {
  readonly set: UpstreamSet
  readonly tally: ProxyTally
  readonly cache: AnswerCache
  readonly #deps: SetProxyDeps
  readonly #flights = new Map<string, Flight>()
  readonly #slots = new CustomerSlots()
  readonly #heights = new CustomerSlots()
  /** Where a transaction may have landed: a node shows that before the stream does. */
  readonly #sent = new CustomerSlots()
  readonly #estimates = new Map<string, SlowEstimate>()
  readonly #comparison: AnswerComparison
  #version: { readonly answer: Answer; readonly untilMs: number } | null = null

  constructor(set: UpstreamSet, deps: SetProxyDeps) {
    this.set = set
    this.tally = deps.tally
    this.cache = new AnswerCache(set.section.cacheBytes)
    this.#comparison = new AnswerComparison(set, deps.tally)
    this.#deps = deps
  }

  /** `customer` is the subscription's id. */
  call(call: Call, customer: string): Answer | Promise<Answer> {
    const { method } = call
    if (method === 'getHealth') return this.set.isServing() ? healthy : unhealthy
    if (method === 'getVersion') return this.#getVersion(call, customer)
    const policy = policyOf(method)
    if (policy.kind === 'send') {
      this.#sent.raise(customer, processed, (this.set.slot(processed) ?? 0) + 1)
      return send(call, this.set, this.tally)
    }
    const streamed = this.#fromStream(call, policy, customer)
    this.tally.answers.count(policy.reads, streamed === null ? 'node' : 'stream')
    if (streamed !== null) return streamed
    const options = readOptions(call)
    // What was read on another chain is not read again.
    const key = `${this.set.restarts} ${method} ${call.paramsText}`
    const lasts = isLasting(policy, call, options, this.set.slot(Commitment.finalized))
    const cached = lasts ? this.#cached(key) : null
    if (cached !== null) return cached
    const minSlot = this.#minSlot({ policy, options, customer })
    const where = { key, customer, isLasting: lasts, isJoined: false }
    return this.#read({ call, policy, options, minSlot, ...where })
  }

  nowMs(): number {
    return this.#deps.clock.monotonicMs()
  }

  /** Null when a node has to answer: the stream does not know, or the customer has seen more. */
  #fromStream(call: Call, policy: MethodPolicy, customer: string): Answer | null {
    const source = this.#deps.answersOf?.(this.set.name) ?? null
    if (source === null || !this.set.serves(call.method)) return null
    const found = source.answer(call)
    if (found === null) return null
    const { answer, commitment, slot } = found
    const height = heightIn(call.method, answer)
    const seen = this.#seen(customer, commitment)
    if (slot < seen) return null
    const sent = this.#sent.get(customer, commitment)
    if (policy.reads === 'accounts' && slot < this.#believed(sent, commitment)) return null
    if (height !== null && height < this.#heights.get(customer, commitment)) return null
    if (slot > seen) this.#slots.raise(customer, commitment, slot)
    if (height !== null) this.#heights.raise(customer, commitment, height)
    eachShown(call, commitment, answer, (shown, reached) =>
      this.#slots.raise(customer, reached, shown),
    )
    return answer
  }

  /** The customer is shown no older slot than it has seen. */
  #minSlot({ policy, options, customer }: Pick<CustomerRead, 'policy' | 'options' | 'customer'>) {
    return policy.tellsSlot ? this.#seen(customer, options.commitment) : 0
  }

  #seen(customer: string, commitment: Commitment): number {
    return this.#believed(this.#slots.get(customer, commitment), commitment)
  }

  /** 0 for a slot that no node of the set is near: a node lied, or the chain began anew. */
  #believed(slot: number, commitment: Commitment): number {
    const best = this.set.slot(commitment) ?? slot
    return slot - best > this.set.lagSlots ? 0 : slot
  }

  #cached(key: string): Answer | null {
    const answer = this.cache.get(key)
    if (answer === null) this.tally.cacheMisses++
    else this.tally.cacheHits++
    return answer
  }

  #read(read: CustomerRead): Answer | Promise<Answer> {
    if (!this.set.serves(read.call.method)) return failure(rpcErrors.unknownMethod)
    const flight = this.#flights.get(read.key)
    if (flight !== undefined && flight.read.minSlot >= read.minSlot) return this.#join(flight, read)
    if (!this.set.isServing()) return unhealthy
    const answer = this.#run(read)
    this.#flights.set(read.key, { read, answer })
    return answer
  }

  async #run(read: CustomerRead): Promise<Answer> {
    const { key, call } = read
    const startMs = this.nowMs()
    const result = await new ProxyRead(read, this, this.#hedgeMs(call.method)).run()
    const { answer, node } = result
    if (this.#flights.get(key)?.read === read) this.#flights.delete(key)
    if (node !== null) {
      this.#observe(call.method, this.nowMs() - startMs)
      const { slot } = result
      this.#raise(read, answer, slot)
      if (slot !== null) node.observeSlot(slot, read.options.commitment)
      node.apiVersion = apiVersionIn(answer) ?? node.apiVersion
      this.#comparison.observe(read, result)
    }
    const isStream = answer.kind === 'stream'
    if (read.isLasting && !isStream) this.cache.put(key, answer)
    if (read.isLasting && isStream) return streamed(this.cache.collect(key, answer.stream))
    // Several have it: none of them may release its buffer.
    if (read.isJoined && answer.kind === 'bytes') return encodedBytes(...answer.pieces)
    return answer
  }

  /** Shares the answer of a read in flight; a stream has one reader, so then each sends its own. */
  async #join(flight: Flight, read: CustomerRead): Promise<Answer> {
    this.tally.joined++
    flight.read.isJoined = true
    const answer = await flight.answer
    if (answer.kind === 'stream')
      return this.#run({ ...read, minSlot: this.#minSlot(read), isLasting: false })
    this.#raise(read, answer, slotIn(read.call.method, answer))
    return answer
  }

  /** The node's version with our own added; cached for a second. */
  #getVersion(call: Call, customer: string): Answer | Promise<Answer> {
    const cached = this.#version
    if (cached !== null && this.nowMs() < cached.untilMs) return cached.answer
    const { method: key } = call
    const read = { call, policy: policyOf(key), options: readOptions(call), minSlot: 0 }
    const answer = this.#read({ ...read, key, customer, isLasting: false, isJoined: false })
    return answer instanceof Promise ? answer.then((given) => this.#addVersion(given)) : answer
  }

  #addVersion(answer: Answer): Answer {
    if (answer.kind !== 'text' || !answer.text.endsWith('}') || answer.text === '{}') return answer
    // A node that is a sluice itself has such a member already.
    const text = answer.text.replace(VERSION_MEMBER, '').slice(0, -1)
    const added = encodedText(`${text},"sluice":${JSON.stringify(this.#deps.version)}}`)
    this.#version = { answer: added, untilMs: this.nowMs() + VERSION_MS }
    return added
  }

  /** The customer has seen these slots now; `slot` is the one at which the answer was read. */
  #raise({ call, options, customer }: CustomerRead, answer: Answer, slot: number | null): void {
    const height = heightIn(call.method, answer)
    if (slot !== null) this.#slots.raise(customer, options.commitment, slot)
    if (height !== null) this.#heights.raise(customer, options.commitment, height)
    eachShown(call, options.commitment, answer, (shown, commitment) =>
      this.#slots.raise(customer, commitment, shown),
    )
  }

  #observe(method: string, ms: number): void {
    if (!this.set.section.hedge) return
    const known = this.#estimates.get(method)
    if (known !== undefined) known.observe(ms)
    else if (this.#estimates.size < METHODS_MAX)
      this.#estimates.set(method, new SlowEstimate(Math.max(ms, 1)))
  }

  #hedgeMs(method: string): number | null {
    if (!this.set.section.hedge) return null
    const estimate = this.#estimates.get(method)
    if (estimate === undefined || estimate.count < HEDGE_READS_MIN) return HEDGE_MS_INITIAL
    return Math.max(HEDGE_MS_MIN, estimate.ms)
  }
}

const VERSION_MEMBER = /,"sluice":"[^"]*"/
const healthy = encodedText('"ok"')

// Estimates the 95th percentile of a method's latency in two numbers.
// Steps up nineteen times as far as down, so it settles where one read in twenty is slower, and
// follows changes within some hundred reads.

const STEP = 0.05
const UP = 0.95
const DOWN = 0.05
const FLOOR_MS = 0.05

export class SlowEstimate {
  ms: number
  count = 0

  constructor(startMs: number) {
    this.ms = startMs
  }

  observe(ms: number): void {
    this.count++
    const step = this.ms * STEP
    this.ms = Math.max(FLOOR_MS, this.ms + (ms > this.ms ? step * UP : -step * DOWN))
  }
}

export interface ProxyCaller {
  readonly subscription: { readonly id: string; readonly upstream: string | null }
}

export interface RpcProxyDeps extends SetProxyDeps {
  readonly upstreams: Upstreams
}

export class RpcProxy {
  readonly #sets: ReadonlyMap<string, SetProxy>

  constructor(deps: RpcProxyDeps) {
    this.#sets = new Map(
      deps.upstreams.sets().map((set) => [set.name, new SetProxy(set, deps)] as const),
    )
    deps.tally.cacheBytes = () => {
      let bytes = 0
      for (const set of this.#sets.values()) bytes += set.cache.bytes
      return bytes
    }
  }

  readonly call = (call: Call, { subscription }: ProxyCaller): Answer | Promise<Answer> => {
    // The devnode's methods that change its state without a transaction are not for customers.
    if (call.method.startsWith('surfnet_')) return failure(rpcErrors.unknownMethod)
    const set = this.#sets.get(subscription.upstream ?? defaultSet)
    return set === undefined ? unhealthy : set.call(call, subscription.id)
  }

  /** The state of the set `default` in a validator's words for GET /health. */
  health(): 'ok' | 'behind' | 'unknown' {
    const set = this.#sets.get(defaultSet)?.set
    if (set?.isServing() === true) return 'ok'
    return set?.nodes.some(({ state }) => state === 'lagging') === true ? 'behind' : 'unknown'
  }
}

/** One read of so many is compared. */
export const sampleEvery = 100
/** Comparisons at once; reads beyond are not compared. */
const comparisonsMax = 4
const answerBytesMax = 262_144

/**
 * Sends a sample of the reads to further nodes (`compare` of a set) and counts results that differ.
 * The customer does not wait for it. Results are compared by value, without their context, where
 * they can be equal: at the same slot, or of what never changes.
 */
class AnswerComparison {
  readonly #set: UpstreamSet
  readonly #tally: ProxyTally
  readonly #throttle = new LogThrottle()
  #reads = 0
  #running = 0

  constructor(set: UpstreamSet, tally: ProxyTally) {
    this.#set = set
    this.#tally = tally
  }

  /** Takes what it needs of the answer before it returns; never throws. */
  observe(read: ReadRequest & { readonly isLasting: boolean }, { answer, node }: ReadResult): void {
    if (this.#set.section.compare < 2 || node === null || ++this.#reads % sampleEvery !== 0) return
    const text = textOf(answer)
    if (text === null || this.#running >= comparisonsMax) return
    this.#running++
    void this.#compare(read, node, text).finally(() => this.#running--)
  }

  async #compare(
    { call, isLasting }: ReadRequest & { readonly isLasting: boolean },
    node: UpstreamNode,
    text: string,
  ): Promise<void> {
    const own = parsedOf(text)
    const nodes = this.#set.all(call.method).filter((other) => other !== node)
    const others = nodes.slice(0, this.#set.section.compare - 1).map(async (other) => {
      const reply = await callNode(other, bodyOf(call))
      const given = reply.ok ? partsOf(reply.value.result) : null
      const isComparable = isLasting ? isFound(own) && isFound(given) : isSameSlot(own, given)
      if (own === null || given === null || !isComparable) return this.#tally.compared.skipped++
      if (isDeepStrictEqual(own.value, given.value)) return this.#tally.compared.equal++
      this.#tally.compared.different++
      this.#report(call.method, node, other)
    })
    await Promise.all(others)
  }

  #report(method: string, { name }: UpstreamNode, other: UpstreamNode): void {
    const { differences } = this.#tally
    const known = differences.has(method) ? method : 'other'
    differences.set(known, (differences.get(known) ?? 0) + 1)
    if (this.#throttle.allows(known, other.nowMs()))
      this.#set.log.warn('nodes answer differently', {
        method: known,
        nodes: `${name} ${other.name}`,
      })
  }
}

interface Parts {
  readonly slot: unknown
  readonly value: unknown
}

function isSameSlot(a: Parts | null, b: Parts | null): boolean {
  return typeof a?.slot === 'number' && a.slot === b?.slot
}

/** One node may not have it yet. */
function isFound(parts: Parts | null): boolean {
  return parts !== null && parts.value !== null
}

function parsedOf(text: string): Parts | null {
  try {
    return partsOf(JSON.parse(text))
  } catch {
    return null
  }
}

/** A result without its context, and the slot in that. */
function partsOf(result: unknown): Parts | null {
  if (result === undefined) return null
  if (typeof result !== 'object' || result === null || !('context' in result))
    return { slot: null, value: result }
  const { context, ...rest } = result
  return { slot: (context as { slot?: unknown } | null)?.slot, value: rest }
}

/** A copy; null for an error, and for what is long. */
function textOf(answer: Answer): string | null {
  if (answer.kind === 'text') return answer.text
  if (answer.kind !== 'bytes') return null
  const bytes = answer.pieces.reduce((sum, { length }) => sum + length, 0)
  return bytes > answerBytesMax ? null : Buffer.concat(answer.pieces).toString()
}
