// The nodes of a cluster under virtual time, as their geyser streams show them: each seed gives a
// chain, the faults of every node, and when their streams are cut, down or silent.
// The nodes are those of `sluice devnode --nodes`, around a chain that executes nothing.
//
//   synthetic chain ─► ChainCluster: script, delay, view of each node ─► its stream, its answers
import type { Clock } from '../../src/base/clock.ts'
import { Commitment, isCommitment } from '../../src/base/commitment.ts'
import { accept, type Outcome } from '../../src/base/errors.ts'
import { BackWriter, ProtoReader } from '../../src/base/protobuf.ts'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import type { BlockMetaUpdate, SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { ChainCluster, type LedgerView, type NodeView } from '../../src/devnode/cluster/cluster.ts'
import { type ClusterOptions, type FaultName, usualFaults } from '../../src/devnode/cluster/plan.ts'
import type { LedgerState } from '../../src/devnode/ledger/state.ts'
import { lost, notAnswered } from '../../src/upstream/geyser/geyser-client.ts'
import type { BatchListener, GeyserConnection } from '../../src/upstream/geyser/ingest.ts'
import { batchFrom, messageOf } from './geyser-messages.ts'
import { randomOf, SyntheticSolana } from './synthetic-solana.ts'

export const slotMs = 400
/** A slot is sent in so many parts. */
const slotParts = 4
export const stepMs = slotMs / slotParts
/** The first slot of the vote-only phase of a migration, and those that are used again. */
export const migrationSlots = { from: 96, to: 103 } as const
/** Slots that are on the nodes before a gateway comes, with faults, and without after that. */
const slotsOf = { before: 8, wild: 16, calm: 12 } as const
/** Slots before where nodes evict what they can replay, and how many of them they have. */
const evicting = { before: 28, window: 20 } as const
/** A gateway whose slot was evicted starts so much later. */
const laterSlots = 8

/** What a seed decides besides the plan of the cluster. */
export interface SeededScript extends ClusterOptions {
  /** How many streams a gateway merges. */
  readonly merge: number
  readonly firstSlot: number
  readonly finalizedAfter: number
  readonly transactionsPerSlot: number
  /** Nodes evict the oldest slot of a replay after each answer that names it, until one is read. */
  readonly isEvicting: boolean
  /** Threads of nodes that send transactions and entries pause up to so long. */
  readonly pauseMsMax: number
}

const lies = ['lie-slot', 'lie-genesis', 'lie-blockhash'] as const

export function scriptOf(seed: number): SeededScript {
  const random = randomOf(seed)
  const isIn = (share: number) => random() < share
  const isMigration = isIn(0.3)
  const faults: FaultName[] = usualFaults.filter(() => isIn(0.7))
  if (isMigration) faults.push('migration')
  const liar = Math.floor(random() * 6)
  if (lies[liar] !== undefined) faults.push(lies[liar])
  const isAlpenglow = !isMigration && isIn(0.4)
  return {
    seed,
    faults,
    isAlpenglow,
    nodes: 3 + Math.floor(random() * 2),
    merge: isIn(0.5) ? 1 : 2,
    firstSlot: isMigration ? 80 + Math.floor(random() * 8) : 1_000,
    finalizedAfter: isAlpenglow ? 1 : 3 + Math.floor(random() * 4),
    transactionsPerSlot: 1 + Math.floor(random() * 3),
    isEvicting: !isMigration && isIn(0.3),
    pauseMsMax: isIn(0.5) ? 1_600 : 0,
  }
}

/** What nodes can replay. */
class ReplayWindow {
  /** The oldest slot. */
  oldest = 0
  refusals = 0
  /** All of the chain from here on reaches a gateway. */
  promised = 0
  #isMoving: boolean

  constructor(isMoving: boolean) {
    this.#isMoving = isMoving
  }

  /** A node says which slot is its oldest, and has evicted it before it is asked for it. */
  show(): number {
    return this.#isMoving ? this.oldest++ : this.oldest
  }

  /** Whether a stream may begin there; null is now. */
  take(from: number | null): boolean {
    if (from !== null && from < this.oldest) {
      this.refusals++
      return false
    }
    if (this.#isMoving) this.promised = this.oldest + laterSlots
    this.#isMoving = false
    return true
  }
}

export class SeededCluster {
  readonly script: SeededScript
  readonly clock: Clock
  readonly nodes: readonly SeededNode[]
  /** The winning block of every slot, in order, as the chain sent it. */
  readonly chain: SolanaUpdate[] = []
  readonly metas = new Map<number, BlockMetaUpdate>()
  readonly random: () => number
  readonly window: ReplayWindow
  readonly #cluster: ChainCluster
  readonly #solana: SyntheticSolana
  #open: SolanaUpdate[] = []
  #parts = 0
  #slots = 0
  /** Those with faults. */
  readonly #wildSlots: number
  readonly #before: number
  /** Nodes lag up to eight slots. */
  #restMs = 10 * slotMs

  /** Streams break in no more than `steps` steps. */
  constructor(script: SeededScript, clock: Clock, steps = Number.POSITIVE_INFINITY) {
    const { seed, firstSlot, finalizedAfter, transactionsPerSlot } = script
    this.script = script
    this.clock = clock
    this.#wildSlots = Math.min(slotsOf.wild, Math.floor(steps / slotParts))
    this.random = randomOf(seed ^ 0x5eed)
    const keys = new Uint8Array(32).fill(seed & 0xff)
    this.#cluster = new ChainCluster(script, { seed: keys, slotMs, clock })
    this.#solana = new SyntheticSolana({
      ...{ seed, firstSlot, finalizedAfter, transactionsPerSlot },
      ...{ accounts: 8, owners: 3, dataBytes: 0 },
      isSkipped: (slot) => this.#cluster.plan.isSkipped(slot),
    })
    this.window = new ReplayWindow(script.isEvicting)
    this.#before = script.isEvicting ? evicting.before : slotsOf.before
    while (this.#slots < this.#before) this.#send(this.#next().length)
    if (script.isEvicting) this.window.oldest = Math.max(...this.metas.keys()) - evicting.window
    const views = this.#cluster.start(this.#ledger())
    this.nodes = this.#cluster.nodes.map(
      ({ view }, index) => new SeededNode(view, views[index]!, this),
    )
  }

  /** The chain has ended, and every node has shown all of it. */
  get isDone(): boolean {
    return this.#isEnded && this.#restMs <= 0
  }

  get #isEnded(): boolean {
    return this.#slots >= this.#before + this.#wildSlots + slotsOf.calm && this.#open.length === 0
  }

  /** Streams may break: at the end they do not, so that every status arrives somewhere. */
  get isWild(): boolean {
    return this.#slots < this.#before + this.#wildSlots
  }

  /** One part of a slot's time has passed. */
  step(): void {
    if (this.#isEnded) {
      this.#restMs -= stepMs
      return
    }
    if (this.#open.length === 0) this.#next()
    this.#parts++
    const isEnd = this.#parts % slotParts === 0
    if (!isEnd) this.#send(Math.min(2 + Math.floor(this.random() * 8), this.#itemsLeft()))
    else if (this.#cluster.isDue()) this.#send(this.#open.length)
    if (this.isWild && isEnd) this.#break()
  }

  /** What was delivered since is sent. */
  flush(): void {
    const from = Math.floor(this.random() * this.nodes.length)
    for (const at of this.nodes.keys())
      this.nodes[(from + at) % this.nodes.length]!.flush(this.clock.monotonicMs())
  }

  stop(): void {
    for (const node of this.nodes) node.stop()
    this.#cluster.stop()
  }

  #next(): readonly SolanaUpdate[] {
    this.#open = this.#solana.next()
    this.#slots++
    this.#parts = 0
    return this.#open
  }

  /** Not the end of the block, nor what follows it. */
  #itemsLeft(): number {
    return this.#open.findIndex((one) => one.kind === 'block') - 1
  }

  #send(count: number): void {
    for (const update of this.#open.splice(0, Math.max(0, count))) {
      this.chain.push(update)
      if (update.kind === 'blockMeta') this.metas.set(update.slot, update)
      this.#cluster.take(update)
    }
  }

  /** Streams are cut, nodes go down, and proxies hold streams back. */
  #break(): void {
    const { random } = this
    if (random() > 0.35) return
    const node = this.nodes[Math.floor(random() * this.nodes.length)]!
    const chance = random()
    const untilMs = this.clock.monotonicMs() + 400 + random() * 4_000
    if (chance < 0.5) node.cut()
    else if (chance < 0.75) node.goDown(untilMs)
    else node.freeze(untilMs)
  }

  /** As much of a ledger as the views of nodes need here. */
  #ledger(): LedgerState {
    const { metas } = this
    const genesisHash = encodeBase58(new Uint8Array(32).fill(7))
    const newest = { slot: Math.max(...metas.keys()) }
    const block = (slot: number) => metas.get(slot) ?? { blockhash: '', blockHeight: 0 }
    // Reason for the cast: nothing else of it is read.
    const history = { block }
    return { newest, history, genesisHash, faucet: '', identity: '' } as unknown as LedgerState
  }
}

const messages = new WeakMap<SolanaUpdate, Buffer>()

/** Nodes send the same updates. */
function sentOf(update: SolanaUpdate): Buffer {
  const known = messages.get(update) ?? messageOf(update)
  messages.set(update, known)
  return known
}

interface OpenStream {
  readonly listener: BatchListener
  readonly queue: Buffer[]
  /** What threads send that pause. */
  readonly late: Record<LateKind, Buffer[]>
}

/** Kinds that a thread of a node sends, apart from those of its replay. */
const lateKinds = ['transaction', 'entry'] as const
type LateKind = (typeof lateKinds)[number]
const isLateKind = (kind: string): kind is LateKind => lateKinds.some((one) => one === kind)
/** One in so many slots. */
const pauseShare = 0.1

/** The geyser endpoint of a node, and what its JSON-RPC says to probes. */
export class SeededNode {
  readonly ledger: LedgerView
  readonly #view: NodeView
  readonly #random: () => number
  readonly #window: ReplayWindow
  readonly #streams = new Set<OpenStream>()
  readonly #ignore: () => void
  readonly #pausedUntilMs: Record<LateKind, number> = { transaction: 0, entry: 0 }
  #downUntilMs = 0
  #frozenUntilMs = 0

  constructor(view: NodeView, ledger: LedgerView, cluster: SeededCluster) {
    this.#window = cluster.window
    this.#view = view
    this.ledger = ledger
    this.#random = cluster.random
    this.#ignore = view.hub.listen((commitment, update) => {
      if (commitment !== Commitment.processed || update.kind === 'block') return
      const { kind } = update
      if (kind === 'blockMeta') this.#pause(cluster)
      const isPaused = isLateKind(kind) && cluster.clock.monotonicMs() < this.#pausedUntilMs[kind]
      for (const { queue, late } of this.#streams) {
        const isLate = isLateKind(kind) && (isPaused || late[kind].length > 0)
        const thread = isLate ? late[kind] : queue
        thread.push(sentOf(update))
      }
    })
  }

  isDown(nowMs: number): boolean {
    return nowMs < this.#downUntilMs
  }

  cut(): void {
    for (const stream of [...this.#streams]) {
      this.#streams.delete(stream)
      stream.listener.ended(lost)
    }
  }

  goDown(untilMs: number): void {
    this.#downUntilMs = untilMs
    this.cut()
  }

  freeze(untilMs: number): void {
    this.#frozenUntilMs = untilMs
  }

  stop(): void {
    this.#ignore()
    this.#streams.clear()
  }

  connect(clock: Clock): GeyserConnection {
    const opened: OpenStream[] = []
    return {
      call: async (method) =>
        this.isDown(clock.monotonicMs()) ? notAnswered(lost) : this.#answer(method),
      subscribe: (request, listener) => {
        const stream: OpenStream = { listener, queue: [], late: { transaction: [], entry: [] } }
        const from = fromSlotIn(request)
        if (this.isDown(clock.monotonicMs())) listener.ended(lost)
        else if (!this.#window.take(from) || (from !== null && !this.#replay(stream, from)))
          listener.ended({ kind: 'status', code: 11, details: '' })
        else {
          opened.push(stream)
          this.#streams.add(stream)
          listener.opened()
        }
        return { send() {}, cancel: () => void this.#streams.delete(stream) }
      },
      close: () => {
        for (const stream of opened) this.#streams.delete(stream)
      },
    }
  }

  /** In one batch or two; nothing while a proxy holds it back. */
  flush(nowMs: number): void {
    for (const { queue, late } of this.#streams)
      for (const kind of lateKinds)
        if (nowMs >= this.#pausedUntilMs[kind]) queue.push(...late[kind].splice(0))
    if (nowMs < this.#frozenUntilMs) return
    for (const stream of [...this.#streams]) {
      const { queue, listener } = stream
      const cut = Math.floor(this.#random() * queue.length)
      for (const batch of [queue.splice(0, cut), queue.splice(0)])
        if (batch.length > 0 && this.#streams.has(stream)) listener.batch(batchFrom(batch))
    }
  }

  /** A thread is busy with something else: what it sends of the next slots follows their metas. */
  #pause({ random, script, clock, isWild }: SeededCluster): void {
    if (script.pauseMsMax === 0 || !isWild || random() > pauseShare) return
    const kind = lateKinds[random() < 0.7 ? 0 : 1]!
    const untilMs = clock.monotonicMs() + random() * script.pauseMsMax
    // One after another would keep content back for longer than confirmations wait for it.
    const isBusy = clock.monotonicMs() < this.#pausedUntilMs[kind]
    const isLate = [...this.#streams].some(({ late }) => late[kind].length > 0)
    if (!isBusy && !isLate) this.#pausedUntilMs[kind] = untilMs
  }

  /** Of each slot the content, and the statuses of a commitment: its life cycle is only live. */
  #replay({ queue }: OpenStream, from: number): boolean {
    const replay = this.#view.hub.replay(Commitment.processed, from)
    if (replay === null) return false
    for (let update = replay.next(); update !== null; update = replay.next())
      if (update.kind === 'slot' ? isCommitment(update.status) : update.kind !== 'block')
        queue.push(sentOf(update))
    return true
  }

  #answer(method: string): Outcome<Uint8Array> {
    const writer = new BackWriter()
    if (method === 'GetSlot') writer.numberAlways(1, this.ledger.slot(Commitment.processed))
    else if (method === 'SubscribeReplayInfo')
      writer.numberAlways(1, Math.max(this.#view.hub.oldestSlot!, this.#window.show()))
    else if (method === 'GetLatestBlockhash') {
      const { slot, blockhash } = this.ledger.latestBlockhash(Commitment.finalized)
      writer.string(2, blockhash)
      writer.numberAlways(1, slot)
    } else return notAnswered({ kind: 'status', code: 12, details: '' })
    return accept(writer.take())
  }
}

function fromSlotIn(request: Uint8Array): number | null {
  const reader = new ProtoReader(request)
  while (reader.next()) if (reader.field === 11) return reader.number
  return null
}
