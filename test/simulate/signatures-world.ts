// The signatures world: connections subscribe to signatures before, while and after their
// transactions land, over a stream whose blocks may die and look-ups at nodes over a virtual
// network that time out, lag or are gone. Every subscription is notified once, of the block that
// stays where it is at confirmed or finalized.
//
//   chain ─► hub ─► subscriptions ─► connections
//     └────► nodes ─► getSignatureStatuses ─┘
import { systemClock } from '../../src/base/clock.ts'
import { Commitment } from '../../src/base/commitment.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { Subscriptions } from '../../src/products/websocket/handle.ts'
import { declareSubscriptionMeters } from '../../src/streams/pubsub/notifier.ts'
import { Upstreams } from '../../src/upstream/node-pool/upstreams.ts'
import { readSignatureStatus } from '../../src/upstream/set-reads.ts'
import { budgetOn, type LooseSession, looseSession } from '../testkit/loose-session.ts'
import { idleChain } from '../testkit/pubsub-chain.ts'
import { setSection } from '../testkit/upstream-sections.ts'
import { ForkedChain, type ModelTransaction, transactionOf } from './forked-chain.ts'
import { ModelNode } from './model-node.ts'
import { VirtualNetwork } from './virtual-network.ts'
import { runStage, type VirtualTime } from './virtual-time.ts'
import { type Counts, check, type Limits, same, type World } from './world.ts'

const slotMs = 400
const stepMs = 100
const wildSteps = 400
/** Look-ups wait for up to 10 s, and calls for up to 5 s at each of two nodes. */
const calmMs = 45_000
/** Slots whose transactions are remembered are 32, some more without any between them. */
const longSlots = 45
const nodeCount = 2
const sessionCount = 4
const names = ['processed', 'confirmed', 'finalized'] as const

export const signatures: World = {
  name: 'signatures',
  what: 'signatureSubscribe over stream and look-ups under dead blocks, timeouts, lags and deaths',
  mustMeet: [
    'early',
    'late',
    'long',
    'lookups',
    'shared',
    'left',
    'died',
    'received',
    'unavailable',
  ],
  run: (seed, limits) => runStage(seed, (time) => new SignaturesStage(time, limits)),
}

interface Subscribed {
  readonly id: number
  readonly session: LooseSession
  readonly transaction: ModelTransaction
  readonly commitment: Commitment
  readonly sinceMs: number
  hasLeft: boolean
  landed: number
  received: number
}

class SignaturesStage {
  readonly #time: VirtualTime
  readonly #limits: Limits
  readonly #random: () => number
  readonly #network: VirtualNetwork
  readonly #chain: ForkedChain
  readonly #nodes: ModelNode[]
  readonly #upstreams: Upstreams
  readonly #subscriptions: Subscriptions
  readonly #sessions: LooseSession[]
  readonly #all: Subscribed[] = []
  readonly #transactions: ModelTransaction[] = []
  readonly #counts = {
    early: 0,
    late: 0,
    long: 0,
    lookups: 0,
    shared: 0,
    left: 0,
    received: 0,
    unavailable: 0,
  }
  readonly #failures: Error[] = []

  constructor(time: VirtualTime, limits: Limits) {
    this.#time = time
    this.#limits = limits
    const { random, clock } = time
    this.#random = random
    this.#network = new VirtualNetwork(random)
    this.#network.open()
    this.#chain = new ForkedChain(random)
    const { hub } = this.#chain
    this.#nodes = Array.from({ length: nodeCount }, () => new ModelNode(this.#chain.answer, random))
    const sections = this.#nodes.map((node) => ({ rpc: this.#network.listen(node) }))
    this.#upstreams = new Upstreams(
      { main: setSection(sections) },
      { clock, log: silentLog, random },
    )
    this.#subscriptions = new Subscriptions({
      meters: declareSubscriptionMeters(new Meters()),
      clock: systemClock,
      log: silentLog,
    })
    this.#subscriptions.usePublisher((topic, message) => {
      const text = Buffer.from(message).toString()
      for (const session of this.#sessions)
        if (session.topics.has(topic)) this.#guard(() => this.#notified(session, text))
    })
    const engine = this.#subscriptions.engineOf(
      idleChain({
        hub,
        slot: (commitment) => this.#chain.slotAt(commitment),
        signatureStatus: async (signature, withHistory) => {
          this.#counts.lookups++
          const set = this.#upstreams.sets()[0]!
          const newest = hub.newestSlot ?? 0
          const status = await readSignatureStatus(set, signature, newest, withHistory)
          if (status === 'unavailable') this.#counts.unavailable++
          return status
        },
      }),
    )
    const budget = budgetOn({ notificationBytesPerSecond: 0 })
    this.#sessions = Array.from({ length: sessionCount }, () => this.#session(budget, engine))
  }

  async run(): Promise<Counts> {
    const starting = this.#upstreams.start()
    await this.#time.advance(stepMs)
    await starting
    const wild = Math.min(wildSteps, this.#limits.steps)
    for (let step = 0; step < wild; step++) {
      this.#act()
      await this.#step(step)
    }
    for (const node of this.#nodes) node.heal()
    for (let step = 0; step * stepMs < calmMs; step++) await this.#step(step)
    for (const one of this.#all) {
      const { landed, received, hasLeft, commitment } = one
      check(received <= 1, 'a signature was received twice')
      if (!hasLeft) same(landed, 1, `notifications at ${names[commitment]} of a signature`)
    }
    return { ...this.#counts, died: this.#chain.died }
  }

  async stop(): Promise<void> {
    this.#subscriptions.stop()
    await this.#upstreams.stop()
    this.#network.close()
  }

  #session(
    budget: Parameters<typeof looseSession>[0],
    engine: Parameters<typeof looseSession>[1],
  ): LooseSession {
    const session = looseSession(budget, engine)
    const take = (message: string | Uint8Array) =>
      this.#guard(() => this.#notified(session, Buffer.from(message).toString()))
    return Object.assign(session, { notify: take, sendNow: take })
  }

  async #step(step: number): Promise<void> {
    await this.#time.advance(stepMs)
    if ((step * stepMs) % slotMs === 0) {
      // Wallets resend until it is in a block that stays.
      for (const one of this.#transactions)
        if (this.#chain.winnerOf(one.name) === undefined && this.#random() < 0.5)
          this.#chain.put(one)
      this.#chain.next()
    }
    for (const [index, node] of this.#nodes.entries()) node.slots = this.#chain.heads(index)
    const [failure] = this.#failures
    if (failure !== undefined) throw failure
  }

  #act(): void {
    const random = this.#random
    if (random() < 0.4) {
      const one = { tipAccount: new Uint8Array(32).fill(9), lastSlot: 1e6 }
      this.#transactions.push(transactionOf(this.#transactions.length + 1, one))
    }
    if (random() < 0.4) this.#subscribe()
    const one = this.#all[Math.floor(random() * this.#all.length)]
    if (one !== undefined && one.landed === 0 && random() < 0.03) this.#leave(one)
    if (random() < 0.06) this.#break(this.#nodes[Math.floor(random() * nodeCount)]!)
    if (random() < 0.01) for (const node of this.#nodes) node.status = 503
  }

  #break(node: ModelNode): void {
    const chance = this.#random()
    if (chance < 0.4) node.heal()
    else if (chance < 0.6) node.isSilent = true
    else if (chance < 0.7) node.attempt = 'ECONNREFUSED'
    else if (chance < 0.8) node.status = 503
    else if (chance < 0.9) node.latencyMs = 3_000
    else this.#network.cut(node)
  }

  #subscribe(): void {
    const random = this.#random
    // Mostly the newest, which land now, or the oldest, which only nodes know.
    const share = random() < 0.75 ? random() ** 3 : 1 - random() / 4
    const back = Math.floor(share * this.#transactions.length)
    const transaction = this.#transactions[this.#transactions.length - 1 - back]
    if (transaction === undefined) return
    const session = this.#sessions[Math.floor(random() * sessionCount)]!
    const commitment = Math.floor(random() * 3) as Commitment
    const isSame = (one: Subscribed) =>
      one.transaction === transaction && one.commitment === commitment
    if (this.#all.some((one) => isSame(one) && one.session === session)) return
    if (this.#all.some((one) => isSame(one) && one.landed === 0)) this.#counts.shared++
    const config = {
      commitment: names[commitment],
      enableReceivedNotification: random() < 0.3,
    }
    const params = [transaction.name, config]
    const call = { method: '', params, paramsText: '', id: '1' }
    const answer = this.#subscriptions.methods.signatureSubscribe!(call, session)
    check('kind' in answer && answer.kind === 'text', 'signatureSubscribe is refused')
    const winner = this.#chain.winnerOf(transaction.name)
    if (winner === undefined) this.#counts.early++
    else if (this.#chain.slot - winner.slot > longSlots) this.#counts.long++
    else if (winner.slot <= this.#chain.slotAt(commitment)) this.#counts.late++
    const about = { id: Number(answer.text), session, transaction, commitment }
    this.#all.push({ ...about, sinceMs: this.#time.ms, hasLeft: false, landed: 0, received: 0 })
  }

  #leave(one: Subscribed): void {
    one.hasLeft = true
    this.#counts.left++
    const call = { method: '', params: [one.id], paramsText: '', id: '1' }
    this.#subscriptions.methods.signatureUnsubscribe!(call, one.session)
  }

  #notified(session: LooseSession, text: string): void {
    const { result, subscription } = JSON.parse(text).params
    const slot: number = result.context.slot
    this.#limits.trace?.(`${this.#time.ms} ${this.#sessions.indexOf(session)} ${text}`)
    const isOf = (one: Subscribed) => one.session === session && one.id === subscription
    const one = this.#all.findLast(isOf)
    check(one !== undefined, 'a notification of no subscription')
    check(!one.hasLeft, 'a notification after its subscription ended')
    const { name } = one.transaction
    if (result.value === 'receivedSignature') {
      one.received++
      this.#counts.received++
      check(one.landed === 0, 'a signature was received after it landed')
      return
    }
    one.landed++
    check(one.landed === 1, 'a signature was notified twice')
    check(this.#time.ms > one.sinceMs, 'a notification comes with the answer')
    if (one.commitment === Commitment.processed) return
    const winner = this.#chain.winnerOf(name)
    same(slot, winner?.slot, `the slot of a signature at ${names[one.commitment]}`)
    check(slot <= this.#chain.limitAt(one.commitment), 'a signature was notified before its slot')
    same(result.value.err === null, winner?.errors.has(name) === false, 'success of a signature')
  }

  #guard(claim: () => void): void {
    try {
      claim()
    } catch (error) {
      this.#failures.push(error as Error)
    }
  }
}
