// What the proxy keeps for one set: its cache, its reads in flight, what its customers were told.
// Thread: main. Made by rpc-proxy.ts; nothing here is ever shared between sets.
//
//   call -> send                                          -> one node, or all
//        -> cache hit                                     -> answer
//        -> an identical read is in flight: its answer is shared
//        -> Read: nodes, failover, hedge                  -> answer -> cache, marks
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import {
  type Answer,
  encodedBytes,
  encodedText,
  failure,
  rpcErrors,
  streamed,
} from '../../jsonrpc/build.ts'
import type { Call } from '../../jsonrpc/parse.ts'
import type { UpstreamNode } from '../upstream-node.ts'
import type { UpstreamSet } from '../upstream-set.ts'
import { AnswerCache } from './answer-cache.ts'
import { unhealthy } from './errors.ts'
import type { ProxyTally } from './meters.ts'
import { isLasting, policyOf, readOptions } from './method-policy.ts'
import { Read, type ReadOwner } from './read.ts'
import { send } from './send.ts'
import { SlotMarks, slotIn } from './slot-marks.ts'
import { SlowEstimate } from './slow-estimate.ts'

/** A read is hedged no sooner than this, however fast its method usually is. */
const HEDGE_MS_MIN = 100
/** Reads of a method before its percentile is believed. */
const HEDGE_READS_MIN = 20
/** Methods whose times are told apart; names come from callers. */
const METHODS_MAX = 128
const VERSION_MS = 1_000
const LOOK_MS = 25

interface Flight {
  readonly read: Read
  readonly promise: Promise<Answer>
  readonly mark: number
  isJoined: boolean
}

/** A read and where its answer goes. */
interface Landing {
  readonly key: string
  readonly customer: string
  readonly isLasting: boolean
}

export interface ProxySetDeps {
  readonly tally: ProxyTally
  readonly clock: Clock
  /** Added to the answer of getVersion. */
  readonly version: string
}

export class ProxySet implements ReadOwner {
  readonly set: UpstreamSet
  readonly tally: ProxyTally
  readonly cache: AnswerCache
  readonly #deps: ProxySetDeps
  readonly #flights = new Map<string, Flight>()
  readonly #landings = new Map<Read, Landing>()
  readonly #marks = new SlotMarks()
  readonly #estimates = new Map<string, SlowEstimate>()
  #timer: NodeJS.Timeout | null = null
  #version: { readonly answer: Answer; readonly untilMs: number } | null = null

  constructor(set: UpstreamSet, deps: ProxySetDeps) {
    this.set = set
    this.tally = deps.tally
    this.cache = new AnswerCache(set.section.cacheBytes)
    this.#deps = deps
  }

  /** `customer` is the subscription's id. Never throws. */
  call(call: Call, customer: string): Answer | Promise<Answer> {
    if (call.method === 'getHealth') return this.set.isServing() ? healthy : unhealthy
    if (call.method === 'getVersion') return this.#getVersion(call, customer)
    const policy = policyOf(call.method)
    if (policy.kind === 'send') return send(call, this.set, this.tally)
    const options = readOptions(call)
    const key = `${call.method} ${call.paramsText}`
    const lasts = isLasting(policy, call, options, this.set.slot(Commitment.finalized))
    if (lasts) {
      const kept = this.cache.get(key)
      if (kept !== null) {
        this.tally.cacheHits++
        return kept
      }
      this.tally.cacheMisses++
    }
    const mark = policy.tellsSlot ? this.#marks.get(customer, options.commitment) : 0
    const flight = this.#flights.get(key)
    if (flight !== undefined && flight.mark >= mark) return this.#join(flight, call, customer)
    return this.#read({ call, policy, options, mark }, { key, customer, isLasting: lasts })
  }

  nowMs(): number {
    return this.#deps.clock.monotonicMs()
  }

  done(read: Read, given: Answer, node: UpstreamNode | null): void {
    const landing = this.#landings.get(read)!
    this.#landings.delete(read)
    const { key, customer } = landing
    const flight = this.#flights.get(key)
    const isFlight = flight?.read === read
    if (isFlight) this.#flights.delete(key)
    const isShared = landing.isLasting || (isFlight && flight.isJoined)
    const answer = isShared ? unreleased(given) : given
    if (node !== null) {
      this.#observe(read)
      if (read.policy.tellsSlot) this.#tell(read, answer, node, customer)
    }
    if (!landing.isLasting) {
      read.resolve(answer)
      return
    }
    if (answer.kind === 'stream') {
      read.resolve(streamed(this.cache.collect(key, answer.stream)))
      return
    }
    this.cache.put(key, answer)
    read.resolve(answer)
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }

  #read(
    what: ConstructorParameters<typeof Read>[1],
    landing: Landing,
    isShared = true,
  ): Answer | Promise<Answer> {
    if (!this.set.serves(what.call.method)) return failure(rpcErrors.unknownMethod)
    if (!this.set.isServing()) return unhealthy
    let read: Read | null = null
    const promise = new Promise<Answer>((resolve) => {
      read = new Read(this, what, resolve)
    })
    // Reason for the cast: the executor above has run.
    const made = read as unknown as Read
    this.#landings.set(made, landing)
    if (isShared)
      this.#flights.set(landing.key, {
        read: made,
        promise,
        mark: what.mark,
        isJoined: false,
      })
    this.#timer ??= setInterval(lookLater, LOOK_MS, this).unref()
    made.begin()
    return promise
  }

  /** Shares the answer of a read in flight; a stream has one reader, so then each asks anew. */
  #join(flight: Flight, call: Call, customer: string): Promise<Answer> {
    this.tally.joined++
    flight.isJoined = true
    return flight.promise.then((answer) => {
      if (answer.kind !== 'stream') return answer
      const policy = policyOf(call.method)
      const what = { call, policy, options: readOptions(call), mark: 0 }
      return this.#read(what, { key: '', customer, isLasting: false }, false)
    })
  }

  /** What the node says, with our own version beside it; kept for a second. */
  #getVersion(call: Call, customer: string): Answer | Promise<Answer> {
    const kept = this.#version
    if (kept !== null && this.nowMs() < kept.untilMs) return kept.answer
    const what = { call, policy: policyOf(call.method), options: readOptions(call), mark: 0 }
    const key = call.method
    const flight = this.#flights.get(key)
    if (flight !== undefined) return flight.promise.then((answer) => this.#withOurs(answer))
    const answer = this.#read(what, { key, customer, isLasting: false })
    return answer instanceof Promise ? answer.then((done) => this.#withOurs(done)) : answer
  }

  #withOurs(answer: Answer): Answer {
    if (answer.kind !== 'text' || !answer.text.endsWith('}') || answer.text === '{}') return answer
    const sluice = JSON.stringify(this.#deps.version)
    // A node of our own kind has such a member already.
    const its = answer.text.replace(OUR_MEMBER, '').slice(0, -1)
    const ours = encodedText(`${its},"sluice":${sluice}}`)
    this.#version = { answer: ours, untilMs: this.nowMs() + VERSION_MS }
    return ours
  }

  #tell(read: Read, answer: Answer, node: UpstreamNode, customer: string): void {
    const slot = slotIn(read.call.method, answer)
    if (slot === null) return
    const { commitment } = read.options
    node.sawSlot(slot, commitment)
    this.#marks.raise(customer, commitment, slot)
  }

  #observe(read: Read): void {
    if (!this.set.section.hedge) return
    const { method } = read.call
    const ms = this.nowMs() - read.beganMs
    const known = this.#estimates.get(method)
    if (known !== undefined) known.observe(ms)
    else if (this.#estimates.size < METHODS_MAX)
      this.#estimates.set(method, new SlowEstimate(Math.max(ms, 1)))
  }

  #hedgeMs({ call }: Read): number | null {
    if (!this.set.section.hedge) return null
    const estimate = this.#estimates.get(call.method)
    if (estimate === undefined || estimate.count < HEDGE_READS_MIN) return HEDGE_MS_FIRST
    return Math.max(HEDGE_MS_MIN, estimate.ms)
  }

  /** Time passes for the reads in flight. */
  look(): void {
    if (this.#landings.size === 0) {
      this.stop()
      return
    }
    const nowMs = this.nowMs()
    for (const read of [...this.#landings.keys()]) read.look(nowMs, this.#hedgeMs(read))
  }
}

/** Timers run before what the sockets brought in the same turn: that still counts. */
function lookLater(set: ProxySet): void {
  setImmediate(() => set.look())
}

/** Several have it: nobody may write over it. */
function unreleased(answer: Answer): Answer {
  return answer.kind === 'bytes' ? encodedBytes(...answer.pieces) : answer
}

/** Before a method's own times are known. */
const HEDGE_MS_FIRST = 1_000

const OUR_MEMBER = /,"sluice":"[^"]*"/
const healthy = encodedText('"ok"')
