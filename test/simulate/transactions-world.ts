// The transactions world: submissions of customers run through the handler and the forwarder of the
// TPU Sender to sets of nodes over a virtual network, and land in blocks of which some die. Every
// submission ends once, and as the chain has it; until then it is resent.
//
//   customers ─► handler ─► forwarder ─► senders ─► nodes ─► blocks ─► hub ─► forwarder
import { accept, type Outcome as Result } from '../../src/base/errors.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { Forwarder, TipLog, type TipRow } from '../../src/products/tpu/forward.ts'
import { TpuHandler } from '../../src/products/tpu/handle.ts'
import { declareTpuMeters } from '../../src/products/tpu/meters.ts'
import { TipAccounts } from '../../src/products/tpu/tip.ts'
import { Upstreams } from '../../src/upstream/node-pool/upstreams.ts'
import { SetSender } from '../../src/upstream/transaction-senders.ts'
import { setSection } from '../testkit/upstream-sections.ts'
import { ForkedChain, type ModelTransaction, signatureOf, transactionOf } from './forked-chain.ts'
import { ModelNode } from './model-node.ts'
import { VirtualNetwork } from './virtual-network.ts'
import { runStage, type VirtualTime } from './virtual-time.ts'
import { type Counts, check, type Limits, same, type World } from './world.ts'

const slotMs = 400
const stepMs = 100
const wildSteps = 240
/** Longer than a submission lives whose blockhash is unknown: then every one has ended. */
const calmSlots = 320
const nodeCount = 3
/** A resend is due every 2 s; a review waits for a status call, which may take 5 s. */
const resendMsMax = 4_000
const reviewMsMax = 8_000

export const transactions: World = {
  name: 'transactions',
  what: 'the TPU Sender and its nodes under blocks that die, lost sends, silence and restarts',
  mustMeet: [
    ...[
      'landed',
      'expired',
      'failed',
      'died',
      'resent',
      'duplicates',
      'forged',
      'queued',
      'refused',
    ],
  ],
  run: (seed, limits) => runStage(seed, (time) => new TransactionsStage(time, limits)),
}

/** A submission of a customer, as the world knows it. */
interface Known {
  readonly transaction: ModelTransaction
  isAccepted: boolean
  /** How it ended last; one that failed may be sent once more. */
  row: TipRow | null
  submits: number
  ends: number
}

const unsent = { isAccepted: false, row: null, submits: 0, ends: 0 }

class TransactionsStage {
  readonly #time: VirtualTime
  readonly #limits: Limits
  readonly #random: () => number
  readonly #network: VirtualNetwork
  readonly #chain: ForkedChain
  readonly #nodes: ModelNode[]
  readonly #upstreams: Upstreams
  readonly #forwarder: Forwarder
  readonly #handler: TpuHandler
  readonly #known = new Map<string, Known>()
  readonly #tipAccount = new Uint8Array(32).fill(9)
  readonly #counts = { duplicates: 0, forged: 0, queued: 0, refused: 0, resent: 0 }
  readonly #endings = { landed: 0, expired: 0, failed: 0 }
  readonly #failures: Error[] = []
  /** Since when all nodes are well. */
  #calmSinceMs: number | null = null
  #made = 0

  constructor(time: VirtualTime, limits: Limits) {
    this.#time = time
    this.#limits = limits
    const { random, clock } = time
    this.#random = random
    this.#network = new VirtualNetwork(random)
    this.#network.open()
    this.#chain = new ForkedChain(random)
    this.#nodes = Array.from({ length: nodeCount }, () => new ModelNode(this.#chain.answer, random))
    const sections = this.#nodes.map((node) => ({ rpc: this.#network.listen(node) }))
    // A set that sends to one node, and one that broadcasts.
    const sets = {
      one: setSection(sections.slice(0, 1)),
      all: setSection(sections.slice(1), { broadcast: true }),
    }
    this.#upstreams = new Upstreams(sets, { clock, log: silentLog, random })
    const meters = declareTpuMeters(new Meters())
    const tips = new TipLog()
    tips.listen((row) => this.#ended(row))
    this.#forwarder = new Forwarder({
      senders: this.#upstreams.sets().map((set) => new SetSender(set)),
      hub: this.#chain.hub,
      slot: () => this.#chain.slot,
      isBlockhashValid: (blockhash) => this.#chain.isBlockhashValid(blockhash),
      whenDown: random() < 0.5 ? 'refuse' : 'queue',
      wait: random() < 0.3,
      meters,
      tips,
      clock,
    })
    this.#handler = new TpuHandler({
      accounts: new TipAccounts([encodeBase58(this.#tipAccount)]),
      verifier: { verify: (bytes) => this.#verify(bytes) },
      forwarder: this.#forwarder,
      meters,
      tips,
      clock,
    })
  }

  async run(): Promise<Counts> {
    const starting = this.#upstreams.start()
    await this.#time.advance(stepMs)
    await starting
    this.#forwarder.start()
    const wild = Math.min(wildSteps, this.#limits.steps)
    for (let step = 0; step < wild; step++) {
      this.#act()
      await this.#step(stepMs, (step * stepMs) % slotMs === 0)
    }
    for (let slot = 0; slot < calmSlots; slot++) {
      this.#heal()
      await this.#step(slotMs, true)
    }
    same(
      this.#forwarder.inFlight() + this.#forwarder.queued(),
      0,
      'submissions in flight at the end',
    )
    for (const { isAccepted, row } of this.#known.values())
      check(!isAccepted || row !== null, 'an accepted submission has no end')
    return { ...this.#counts, ...this.#endings, died: this.#chain.died }
  }

  async stop(): Promise<void> {
    await this.#forwarder.stop()
    await this.#upstreams.stop()
    this.#network.close()
  }

  async #step(ms: number, isSlot: boolean): Promise<void> {
    await this.#time.advance(ms)
    if (isSlot) this.#chain.next()
    for (const [index, node] of this.#nodes.entries()) node.slots = this.#chain.heads(index)
    this.#check()
  }

  /** What customers and the world do in a step. */
  #act(): void {
    const random = this.#random
    if (random() < 0.4) void this.#submit(this.#newTransaction())
    const [...all] = this.#known.values()
    const earlier = all[Math.floor(random() * all.length)]
    if (earlier !== undefined && random() < 0.1) void this.#submit(earlier.transaction)
    if (earlier !== undefined && random() < 0.05) void this.#forge(earlier.transaction)
    if (random() < 0.06) this.#break(this.#nodes[Math.floor(random() * nodeCount)]!)
    if (random() < 0.01) for (const node of this.#nodes) node.attempt = 'ECONNREFUSED'
  }

  #break(node: ModelNode): void {
    const chance = this.#random()
    this.#trace(`break ${this.#nodes.indexOf(node)} ${chance.toFixed(2)}`)
    if (chance < 0.5) node.heal()
    else if (chance < 0.6) node.attempt = 'ECONNREFUSED'
    else if (chance < 0.7) node.isSilent = true
    else if (chance < 0.8) node.status = 503
    else if (chance < 0.9) node.latencyMs = 2_000
    else this.#network.cut(node)
  }

  #heal(): void {
    this.#calmSinceMs ??= this.#time.ms
    for (const node of this.#nodes) node.heal()
  }

  #newTransaction(): ModelTransaction {
    const number = ++this.#made
    const lives = 12 + Math.floor(this.#random() * 40)
    return transactionOf(number, {
      tipAccount: this.#tipAccount,
      lastSlot: this.#chain.slot + lives,
    })
  }

  async #submit(transaction: ModelTransaction): Promise<void> {
    const { name, bytes } = transaction
    const known: Known = this.#known.get(name) ?? { ...unsent, transaction }
    if (this.#known.has(name)) this.#counts.duplicates++
    this.#known.set(name, known)
    known.submits++
    const address = `10.0.${this.#made % 200}.1`
    const answer = await this.#handler.submit(bytes, { address, beganMs: this.#time.ms })
    this.#trace(`answer ${name} ${answer.ok ? answer.value : answer.refusal.code}`)
    this.#guard(() => {
      if (answer.ok) same(answer.value, name, 'the answer to a submission')
    })
    if (answer.ok) known.isAccepted = true
    else this.#counts.refused++
  }

  /** Somebody sends a transaction of another with a byte changed. */
  async #forge({ bytes, name }: ModelTransaction): Promise<void> {
    this.#counts.forged++
    const forged = Uint8Array.from(bytes)
    forged[forged.length - 1]! ^= 1
    const answer = await this.#handler.submit(forged, {
      address: '10.9.9.9',
      beganMs: this.#time.ms,
    })
    this.#guard(() => check(!answer.ok, `a forged copy of ${name} was accepted`))
  }

  async #verify(bytes: Uint8Array): Promise<Result<boolean>> {
    const known = this.#known.get(signatureOf(bytes))
    return accept(known !== undefined && Buffer.compare(known.transaction.bytes, bytes) === 0)
  }

  #ended(row: TipRow): void {
    const { signature, outcome, reason, landedSlot } = row
    this.#trace(`end ${signature} ${outcome} ${reason} ${landedSlot}`)
    if (outcome === 'rejected') return
    this.#endings[outcome]++
    const known = this.#known.get(signature)!
    this.#guard(() => {
      const { ends, submits } = known
      check(ends === 0 || known.row?.outcome === 'failed', `submission ${signature} ended twice`)
      check(ends < submits, `submission ${signature} ended more often than it was sent`)
      const block = this.#chain.confirmedBlockOf(signature)
      if (outcome === 'landed') same(landedSlot, block?.slot, 'the confirmed slot of a landed one')
      if (outcome === 'expired') same(block, undefined, 'the block of an expired submission')
      if (reason === 'ON_CHAIN_ERROR')
        check(block?.errors.has(signature) === true, 'a transaction did not fail on chain')
    })
    known.row = row
    known.ends++
  }

  /** Until a submission ends it is resent, and the queue holds what it may. */
  #check(): void {
    const [failure] = this.#failures
    if (failure !== undefined) throw failure
    const nowMs = this.#time.ms
    const queued = this.#forwarder.queued()
    this.#counts.queued += queued
    check(queued <= this.#forwarder.inFlight(), 'the queue holds what is not in flight')
    this.#counts.resent = this.#chain.resent
    if (this.#calmSinceMs === null || nowMs - this.#calmSinceMs < reviewMsMax) return
    for (const { transaction, isAccepted, row } of this.#known.values()) {
      if (!isAccepted || row !== null) continue
      const lastMs = this.#chain.arrivals.get(transaction.name) ?? 0
      check(nowMs - lastMs <= resendMsMax, `submission ${transaction.name} is not resent`)
    }
  }

  /** Failures in callbacks of the server, which would only be logged there. */
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
