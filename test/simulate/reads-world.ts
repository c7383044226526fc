// The reads world: calls of customers run through the rpc handler, admission, budgets, the proxy,
// the node pool with its probes and breakers and the HTTP client, to nodes over a virtual network.
// Each call gets its own answer, none is older than one shown before where a node is known to have
// more, what is refused costs nothing, and what a node answers is not given up.
//
//   customers ─► handler: permits, charge ─► proxy ─► stream of the set, or a node ─► answer
import { Commitment } from '../../src/base/commitment.ts'
import { encodedText } from '../../src/base/jsonrpc/build.ts'
import type { Call } from '../../src/base/jsonrpc/parse.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import type { Reply } from '../../src/base/transport/reply.ts'
import { Budget, Plan } from '../../src/customers/quota/budget.ts'
import { standardPlan } from '../../src/customers/subscriptions/plans.ts'
import { baseHead, RpcHandler } from '../../src/products/rpc/handle.ts'
import { declareRpcMeters } from '../../src/products/rpc/meters.ts'
import { Upstreams } from '../../src/upstream/node-pool/upstreams.ts'
import type { StreamAnswer } from '../../src/upstream/ports.ts'
import { declareProxyMeters } from '../../src/upstream/proxy/method-policy.ts'
import { RpcProxy } from '../../src/upstream/proxy/rpc-proxy.ts'
import { setSection } from '../testkit/upstream-sections.ts'
import { commitmentOf, type ModelCall, ModelNode, type Outcome } from './model-node.ts'
import { VirtualNetwork } from './virtual-network.ts'
import { runStage, type VirtualTime } from './virtual-time.ts'
import { type Counts, check, type Limits, same, type World } from './world.ts'

const slotMs = 400
const stepMs = 50
const wildSteps = 300
const calmSteps = 300
/** After it, nodes that were broken are in the rotation again. */
const healMs = 8_000
/** Longer than a call takes. */
const lastMs = 60_000
const customerCount = 3
/** Of a node that takes no new connection: shorter than the time in which two probes fail. */
const refusingSteps = 6
const restSteps = 24
const names = ['processed', 'confirmed', 'finalized'] as const

export const reads: World = {
  name: 'reads',
  what: 'rpc calls, budgets, proxy and node pool under deaths, lags, silence and forged slots',
  mustMeet: [
    ...['answered', 'streamed', 'failed', 'refused', 'inFlight', 'joined', 'forged', 'kept'],
    'refusing',
  ],
  run: (seed, limits) => runStage(seed, (time) => new ReadsStage(time, limits)),
}

interface Customer {
  readonly budget: Budget
  readonly id: string
  /** By commitment: the newest slot that an answer showed it. */
  readonly seen: [number, number, number]
  outstanding: number
  charged: number
}

/** A call as the customer sent it, and what is known at that time. */
interface Asked {
  readonly id: number | string
  readonly call: ModelCall
  readonly commitment: Commitment
  readonly seen: number
  /** A node in the rotation is known to have reached what the customer has seen. */
  readonly isReached: boolean
}

class ReadsStage {
  readonly #time: VirtualTime
  readonly #limits: Limits
  readonly #random: () => number
  readonly #network: VirtualNetwork
  readonly #nodes: ModelNode[]
  readonly #lags: number[]
  readonly #upstreams: Upstreams
  readonly #handler: RpcHandler
  readonly #customers: Customer[]
  /** One node, which only refuses connections for a moment. */
  readonly #isLone: boolean
  readonly #tally
  readonly #counts = {
    ...{ answered: 0, streamed: 0, failed: 0, refused: 0, inFlight: 0, joined: 0, forged: 0 },
    ...{ kept: 0, refusing: 0 },
  }
  readonly #failures: Error[] = []
  /** Accounts that reached the lone node. */
  readonly #taken = new Set<string>()
  #slot = 1_000
  #streamSlot = 1_000
  #calls = 0
  #wellSinceMs = 0
  #refusingSteps = 0

  constructor(time: VirtualTime, limits: Limits) {
    this.#time = time
    this.#limits = limits
    const { random, clock } = time
    this.#random = random
    this.#isLone = random() < 0.35
    this.#network = new VirtualNetwork(random)
    this.#network.open()
    const count = this.#isLone ? 1 : 3
    this.#lags = Array.from({ length: count }, () => Math.floor(random() * 4))
    this.#nodes = this.#lags.map(
      () => new ModelNode((call, node) => this.#answer(call, node), random),
    )
    const sections = this.#nodes.map((node) => ({ rpc: this.#network.listen(node) }))
    const section = setSection(sections, { timeoutMs: 4_000, cacheBytes: 10_000 })
    this.#upstreams = new Upstreams({ default: section }, { clock, log: silentLog, random })
    const meters = new Meters()
    this.#tally = declareProxyMeters(meters)
    const answersOf = () => ({ answer: (call: Call) => this.#fromStream(call) })
    const deps = { upstreams: this.#upstreams, tally: this.#tally, version: '1', clock, answersOf }
    // Reason for the cast: of the meters of quotas only this counter is used.
    const quotaMeters = { refused: { rpc: { inc() {} } } } as never
    this.#handler = new RpcHandler({
      ...{ proxy: new RpcProxy(deps), meters: declareRpcMeters(meters), quotaMeters },
      ...{ clock, log: silentLog },
    })
    this.#customers = Array.from({ length: customerCount }, (_, index) => this.#customer(index))
  }

  async run(): Promise<Counts> {
    this.#advanceChain()
    const starting = this.#upstreams.start()
    await this.#time.advance(stepMs)
    await starting
    const wild = Math.min(wildSteps, this.#limits.steps)
    // Many calls at once need connections of their own.
    const askShare = this.#isLone ? 0.6 : 0.25
    for (let step = 0; step < wild + calmSteps; step++) {
      if (step < wild) this.#break()
      else if (step === wild) this.#heal()
      for (const customer of this.#customers) if (this.#random() < askShare) this.#ask(customer)
      await this.#time.advance(stepMs)
      if ((step * stepMs) % slotMs === 0) this.#advanceChain()
      this.#check()
    }
    await this.#time.advance(lastMs)
    this.#check()
    for (const { budget, outstanding } of this.#customers) {
      same(outstanding, 0, 'calls without an answer')
      same(budget.state().open.calls, 0, 'permits that were not returned')
    }
    return { ...this.#counts, joined: this.#tally.joined }
  }

  async stop(): Promise<void> {
    await this.#upstreams.stop()
    this.#network.close()
  }

  #customer(index: number): Customer {
    const random = this.#random
    const values = {
      ...standardPlan,
      ...{
        creditsPerSecond: 10 + Math.floor(random() * 30),
        burst: 20 + Math.floor(random() * 40),
      },
      creditsPer30Days: random() < 0.3 ? 100 + Math.floor(random() * 200) : 0,
      callsInFlight: 1 + Math.floor(random() * 4),
      ...(this.#isLone ? { creditsPerSecond: 100, burst: 200, callsInFlight: 16 } : {}),
    }
    const window = { window: 0, credits: 0, startsAtMs: 0, endsAtMs: Number.MAX_SAFE_INTEGER }
    const id = `customer-${index}`
    const budget = new Budget(id, new Plan(values), window, this.#time.clock)
    return { budget, id, seen: [0, 0, 0], outstanding: 0, charged: 0 }
  }

  /** Heads of nodes and of the stream go up only, each with its own lag. */
  #advanceChain(): void {
    const random = this.#random
    this.#slot++
    for (const [index, node] of this.#nodes.entries()) {
      if (random() < 0.2) this.#lags[index] = Math.floor(random() * 4)
      const head = Math.max(node.slots[0], this.#slot - this.#lags[index]!)
      node.slots = [head, head - 2, head - 30]
    }
    if (random() < 0.8) this.#streamSlot = this.#slot
    this.#trace(`heads ${this.#nodes.map(({ slots }) => slots[0]).join()} ${this.#streamSlot}`)
  }

  #break(): void {
    const random = this.#random
    if (random() < 0.01) this.#time.stepWallClock((random() - 0.5) * 7_200_000)
    if (this.#isLone) {
      this.#refuse()
      return
    }
    if (random() > 0.03) return
    const node = this.#nodes[Math.floor(random() * this.#nodes.length)]!
    const chance = random()
    if (chance < 0.4) node.heal()
    else if (chance < 0.55) node.attempt = random() < 0.5 ? 'ECONNREFUSED' : 'EMFILE'
    else if (chance < 0.7) node.isSilent = true
    else if (chance < 0.8) node.status = random() < 0.5 ? 503 : 429
    else if (chance < 0.9) node.latencyMs = 1_500
    else {
      node.attempt = 'ECONNREFUSED'
      this.#network.cut(node)
    }
  }

  /** For a moment the node takes no new connection, and answers on those that it has. */
  #refuse(): void {
    const [node] = this.#nodes
    if (this.#refusingSteps > -restSteps) this.#refusingSteps--
    if (this.#refusingSteps === -restSteps && this.#random() < 0.2)
      this.#refusingSteps = refusingSteps
    const isRefusing = this.#refusingSteps > 0
    node!.attempt = isRefusing ? (this.#random() < 0.7 ? 'ECONNREFUSED' : 'EMFILE') : 'accept'
    node!.latencyMs = 5 + this.#random() * 400
    if (isRefusing) this.#counts.refusing++
  }

  #heal(): void {
    this.#wellSinceMs = this.#time.ms
    for (const node of this.#nodes) node.heal()
  }

  /** One call of a customer, or a batch. */
  #ask(customer: Customer): void {
    const random = this.#random
    const isBatch = random() < 0.2
    const asked = Array.from({ length: isBatch ? 1 + Math.floor(random() * 4) : 1 }, () =>
      this.#newCall(customer),
    )
    const requests = asked.map(({ id, call }) => ({ jsonrpc: '2.0', id, ...call }))
    const body = Buffer.from(JSON.stringify(isBatch ? requests : requests[0]))
    const { budget } = customer
    const before = budget.state().window.credits
    // Reason for the cast: of a subscription the proxy reads these two.
    const subscription = { id: customer.id, upstream: null } as never
    customer.outstanding += asked.length
    const given = this.#handler.handle(body, { subscription, budget, head: baseHead(null) })
    this.#charged(customer, asked, budget.state().window.credits - before, given)
    void Promise.resolve(given).then((reply) => {
      customer.outstanding -= asked.length
      this.#guard(() => this.#judge(customer, asked, reply, isBatch))
    })
  }

  #newCall({ seen }: Customer): Asked {
    const random = this.#random
    const commitment = random() < 0.6 ? Commitment.processed : Commitment.confirmed
    const config = { commitment: names[commitment] }
    const number = ++this.#calls
    const chance = random()
    const id = random() < 0.5 ? number : `call ${number}`
    const [set] = this.#upstreams.sets()
    const newest = seen[commitment]
    const isReached = set!.nodes.some(
      (node) => node.state === 'up' && (node.slot(commitment) ?? 0) >= newest,
    )
    const about = { id, commitment, seen: newest, isReached }
    if (chance < 0.5) return { ...about, call: { method: 'getSlot', params: [config] } }
    if (chance < 0.65)
      return { ...about, call: { method: 'getTransaction', params: [`tx${number}`, config] } }
    // The same account of several customers at once is read once.
    const account = this.#isLone || random() < 0.5 ? `own${number}` : `hot${number >> 3}`
    return { ...about, call: { method: 'getBalance', params: [account, config] } }
  }

  /** A request is charged whole when it is admitted, and not at all when it is refused. */
  #charged(
    customer: Customer,
    asked: readonly Asked[],
    credits: number,
    given: Reply | Promise<Reply>,
  ): void {
    const isRefused = !(given instanceof Promise) && given.status === 429
    const cost = asked.reduce((sum, { call }) => sum + costOf(call.method), 0)
    this.#guard(() => same(credits, isRefused ? 0 : cost, 'credits charged'))
    customer.charged += isRefused ? 0 : cost
  }

  #judge(customer: Customer, asked: readonly Asked[], reply: Reply, isBatch: boolean): void {
    const { status } = reply
    const answers = JSON.parse(String(reply.body))
    this.#trace(`reply ${customer.id} ${status} ${String(reply.body).slice(0, 200)}`)
    const list: unknown[] = isBatch ? answers : [answers]
    same(list.length, asked.length, 'answers of a batch')
    for (const [index, one] of asked.entries()) {
      const answer = list[index] as { id: unknown; result?: unknown; error?: RpcError }
      same(answer.id, one.id, 'the id of an answer')
      if (status === 429) this.#refused(answer.error!)
      else if (answer.error !== undefined) this.#failed(one, answer.error)
      else this.#answered(customer, one, answer.result, reply)
    }
  }

  #refused({ data }: RpcError): void {
    this.#counts.refused++
    if (data?.reason === 'in-flight') this.#counts.inFlight++
  }

  #failed({ call }: Asked, { code }: RpcError): void {
    this.#counts.failed++
    same(code, -32005, `the error of ${call.method}`)
    const account = String(call.params[0])
    check(!this.#taken.has(account), 'a read that its only node answers was given up')
  }

  #answered(customer: Customer, one: Asked, result: unknown, reply: Reply): void {
    const { call, commitment, seen } = one
    this.#counts.answered++
    const isStream = reply.head.value.includes('x-sluice-source: stream')
    if (isStream) this.#counts.streamed++
    if (this.#taken.has(String(call.params[0]))) this.#counts.kept++
    const { tag, value, context } = (typeof result === 'object' ? result : {}) as Result
    if (call.method === 'getTransaction') same(tag, call.params[0], 'the transaction of an answer')
    if (call.method === 'getBalance') same(value, call.params[0], 'the account of an answer')
    const slot = call.method === 'getSlot' ? Number(result) : context?.slot
    if (slot === undefined) return
    const isWell = this.#isLone || this.#time.ms - this.#wellSinceMs > healMs
    const isPromised = isStream || (one.isReached && isWell && this.#wellSinceMs > 0)
    if (isPromised) check(slot >= seen, `${call.method} shows slot ${slot} after ${seen}`)
    customer.seen[commitment] = Math.max(customer.seen[commitment], slot)
  }

  #check(): void {
    const [failure] = this.#failures
    if (failure !== undefined) throw failure
    const elapsedSecs = this.#time.ms / 1_000
    for (const { budget, charged, outstanding } of this.#customers) {
      const { creditsPerSecond, burst, creditsPer30Days, callsInFlight } = budget.plan
      check(
        charged <= burst + creditsPerSecond * elapsedSecs + 1,
        'the rate of a plan is overspent',
      )
      check(creditsPer30Days === 0 || charged <= creditsPer30Days, 'credits are overspent')
      const { calls } = budget.state().open
      check(calls <= Math.min(callsInFlight, outstanding), `${calls} calls are in flight`)
    }
    if (this.#isLone)
      check(this.#upstreams.sets()[0]!.isServing(), 'a set whose only node answers is down')
  }

  /** What nodes answer besides their slots. */
  #answer(call: ModelCall, { slots }: ModelNode): Outcome {
    const { method, params } = call
    const slot = slots[commitmentOf(call)]
    if (this.#isLone) this.#taken.add(String(params[0]))
    if (method === 'getBalance') return { result: { context: { slot }, value: params[0] } }
    if (method !== 'getTransaction') return { error: { code: -32601, message: 'no method' } }
    // A vote may carry any slot in its instruction.
    const forged = this.#random() < 0.3 ? 1e15 - 1 : slot + Math.floor(this.#random() * 8)
    this.#counts.forged++
    const instructions = [
      { parsed: { info: { lockouts: [{ confirmationCount: 1, slot: forged }] } } },
    ]
    return { result: { tag: params[0], transaction: { message: { instructions } }, slot } }
  }

  #fromStream({ method, params }: Call): StreamAnswer | null {
    if (method !== 'getSlot') return null
    const commitment = commitmentOf({ method, params: params as unknown[] })
    const slot = this.#streamSlot - 2 * commitment
    return { answer: { ...encodedText(String(slot)), source: 'stream' } as never, commitment, slot }
  }

  #guard(claim: () => void): void {
    try {
      claim()
    } catch (error) {
      this.#failures.push(error as Error)
    }
  }

  #trace(line: string): void {
    this.#limits.trace?.(`${this.#time.ms} ${line}`)
  }
}

interface RpcError {
  readonly code: number
  readonly data?: { readonly reason?: string }
}

interface Result {
  readonly tag?: string
  readonly value?: string
  readonly context?: { readonly slot: number }
}

function costOf(method: string): number {
  return standardPlan.weights[method] ?? 1
}
