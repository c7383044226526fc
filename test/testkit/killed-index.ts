// A chain, a gateway and the program that builds the index, all in this process, of which any can
// be killed at any point: the gateway forgets what its stream log had not written, the program what
// its sink had not, and the node its last slots, in whose place it makes others.
//
//   node ─► SolanaUpstream ─► hub, stream log ─► index.sock ─► IndexProgram ─► rows in memory
//
// What happens next is drawn from the seed whenever one of them asks another one something.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/base/clock.ts'
import { Fault } from '../../src/base/errors.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { slotUpdate } from '../../src/chain/solana/received-batch.ts'
import { type SolanaUpdate, slotStatus } from '../../src/chain/solana/updates.ts'
import type { RowSink } from '../../src/indexer/engine.ts'
import { SlotSource } from '../../src/indexer/feed/slot-source.ts'
import { IndexProgram } from '../../src/indexer/program.ts'
import { addSlotRows, RowBatches } from '../../src/indexer/rows/delivery-rows.ts'
import { type IndexFeeds, openIndexFeeds } from '../../src/products/indexer/feeds.ts'
import { SolanaUpstream } from '../../src/streams/flows/solana-upstream.ts'
import type { GrpcChain } from '../../src/streams/geyser/fan-out.ts'
import { openSolanaHub } from '../../src/streams/geyser/hub.ts'
import { EventLog } from '../../src/streams/log/log.ts'
import { type LogRequest, LogThread } from '../../src/streams/segments/segment-writer.ts'
import { StreamLog, type ThreadEvents } from '../../src/streams/segments/stream-log.ts'
import { handOutSeqs } from './fake-execution.ts'
import { batchFrom, messageOf } from './geyser-messages.ts'
import { chainOf } from './ingest-stage.ts'
import { MemorySink } from './memory-sink.ts'
import { inBatches } from './replayed-updates.ts'
import { randomOf, SyntheticSolana } from './synthetic-solana.ts'
import { until } from './until.ts'

/** Slots that are confirmed and not finalized; a node that is killed forgets some of them. */
const finalizedAfter = 4
/** As upstreams replay for a gateway that has nothing. */
const warmSlots = 40
const bounds = { keepMs: 3_600_000, bytesMax: 1e9, compress: 'none' } as const

interface Slot {
  readonly slot: number
  readonly parent: number
  readonly content: readonly SolanaUpdate[]
}

/** The chain, of which the last slots may be others after a restart. */
class KilledNode {
  readonly #random: () => number
  readonly #slots: Slot[] = []
  #source: SyntheticSolana

  constructor(random: () => number) {
    this.#random = random
    this.#source = this.#from(100)
    this.next()
  }

  /** Makes another slot; returns what it sends with it. */
  next(): SolanaUpdate[] {
    const updates = this.#source.next().filter((one) => one.kind !== 'block' && !isLater(one))
    const { slot } = updates[0]!
    const parent = this.#slots.at(-1)?.slot ?? slot - 1
    this.#slots.push({ slot, parent, content: updates })
    return this.#sentWith(this.#slots.length - 1)
  }

  get newest(): number {
    return this.#slots.at(-1)!.slot
  }

  /** Of the newest confirmed slot. */
  get blockhash(): string | null {
    const meta = this.#slots.at(-2)?.content.find((one) => one.kind === 'blockMeta')
    return meta?.kind === 'blockMeta' ? meta.blockhash : null
  }

  /** All that it sends to whoever reads from this slot on. */
  sent(fromSlot = 0): SolanaUpdate[] {
    return this.#slots.flatMap((_, at) => this.#sentWith(at)).filter(({ slot }) => slot >= fromSlot)
  }

  /** It is killed before it has written its last slots. */
  forget(count: number): void {
    if (this.#slots.length <= finalizedAfter) return
    this.#slots.splice(this.#slots.length - count)
    this.#source = this.#from(this.newest + 1)
  }

  #from(firstSlot: number): SyntheticSolana {
    const seed = Math.floor(this.#random() * 1e9)
    const isSkipped = (slot: number) => slot % 7 === 3 && slot > firstSlot
    return new SyntheticSolana({ seed, firstSlot, isSkipped, transactionsPerSlot: 3 })
  }

  #sentWith(at: number): SolanaUpdate[] {
    const later = [
      { one: this.#slots[at - 1], status: slotStatus.confirmed },
      { one: this.#slots[at - finalizedAfter], status: slotStatus.finalized },
    ]
    const statuses = later.flatMap(({ one, status }) => {
      if (one === undefined) return []
      const { slot, parent } = one
      return [slotUpdate({ slot, createdAtMs: 1_700_000_000_000 }, { parent, status })]
    })
    return [...this.#slots[at]!.content, ...statuses]
  }
}

function isLater(update: SolanaUpdate): boolean {
  const later: readonly number[] = [slotStatus.confirmed, slotStatus.finalized]
  return update.kind === 'slot' && later.includes(update.status)
}

/** A gateway until it is killed; `act` is called whenever its reader asks it something. */
class KilledGateway {
  readonly feeds: IndexFeeds
  readonly #log: StreamLog
  readonly #upstream: SolanaUpstream
  readonly #thread: KilledThread
  readonly #served: GrpcChain
  readonly #watchers = new Set<() => void>()
  #isConnected = false
  #isUp = true

  private constructor(
    feeds: IndexFeeds,
    thread: KilledThread,
    { log, act }: { log: StreamLog; act: () => void },
  ) {
    const { hub } = log
    this.feeds = feeds
    this.#thread = thread
    this.#log = log
    this.#upstream = new SolanaUpstream(hub, { bankSalt: 's', log: silentLog, earlier: log })
    const chain = chainOf(hub)
    this.#served = {
      ...chain,
      heads: {
        at: (commitment) => {
          const head = chain.heads.at(commitment)
          act()
          return head
        },
        isBlockhashValid: () => null,
      },
      streamLog: {
        get oldestSlot() {
          const oldest = log.oldestSlot
          act()
          return oldest
        },
        replay: (options) => {
          const replay = log.replay(options)
          act()
          return replay
        },
      },
      isUp: () => this.#isUp,
      watch: (listener) => {
        this.#watchers.add(listener)
        return () => this.#watchers.delete(listener)
      },
    }
  }

  static async start(folder: string, act: () => void): Promise<KilledGateway> {
    const shared = { clock: systemClock, log: silentLog }
    const events = new EventLog({ reserve: handOutSeqs(0), clock: systemClock })
    const feeds = await openIndexFeeds(join(folder, 'index.sock'), {
      ...{ events, version: '0' },
      ...shared,
    })
    const hub = openSolanaHub({ replaySlots: 4, replayBytesMax: 1e9 })
    const thread = new KilledThread(join(folder, 'streams'))
    const log = new StreamLog(hub, {
      ...{ folder: join(folder, 'streams'), bounds, log: silentLog },
      startThread: async (events) => thread.start(events),
    })
    await new Promise((resolve) => setImmediate(resolve))
    thread.run()
    await log.ready
    return new KilledGateway(feeds, thread, { log, act })
  }

  serve(): void {
    this.feeds.serve(this.#served)
  }

  /** As GeyserFeed does. */
  connect(node: KilledNode): void {
    const resumeSlot = this.#upstream.resumeFrom()
    const { newest } = node
    this.#isConnected = true
    const warm = Math.max(0, newest - warmSlots)
    const from = resumeSlot === null || resumeSlot > newest ? warm : resumeSlot
    this.#upstream.opened(from)
    this.take(node.sent(from))
  }

  take(updates: readonly SolanaUpdate[]): void {
    if (!this.#isConnected) return
    for (const batch of inBatches(updates, updates.length))
      this.#upstream.batch(batchFrom(batch.map((update) => messageOf(update))))
  }

  /** The log reaches the disk. */
  write(): void {
    this.#thread.run()
  }

  /** Streams of readers end. */
  cut(): void {
    for (const isUp of [false, true]) {
      this.#isUp = isUp
      for (const watcher of this.#watchers) watcher()
    }
  }

  async kill(): Promise<void> {
    this.#thread.kill()
    await this.feeds.stop()
    await this.#log.stop()
  }
}

/** Stands in for the thread of the stream log: requests wait until they are run. */
class KilledThread {
  readonly #folder: string
  readonly #requests: LogRequest[] = []
  #writer: LogThread | null = null

  constructor(folder: string) {
    this.#folder = folder
  }

  start({ report }: ThreadEvents) {
    this.#writer = new LogThread(this.#folder, bounds, report)
    return { post: (request: LogRequest) => this.#requests.push(request) > 0, async stop() {} }
  }

  run(): void {
    for (const request of this.#requests.splice(0)) this.#writer?.take(request)
  }

  kill(): void {
    this.#writer?.stop()
    this.#writer = null
  }
}

const dead = new Fault('sink', 'killed')

/** The sink of one program: nothing is written after its death. */
class KilledSink implements RowSink {
  readonly #rows: MemorySink
  readonly #act: () => void
  isDead = false

  constructor(rows: MemorySink, act: () => void) {
    this.#rows = rows
    this.#act = act
  }

  marks = () => this.#do(() => this.#rows.marks())
  write = (...args: Parameters<RowSink['write']>) => this.#do(() => this.#rows.write(...args))
  cut = (...args: Parameters<RowSink['cut']>) => this.#do(() => this.#rows.cut(...args))
  blockhashes = (...args: Parameters<RowSink['blockhashes']>) =>
    this.#do(() => this.#rows.blockhashes(...args))
  stop = async () => {}

  /** It may die before, and after what it did, before it says so. */
  async #do<T>(work: () => Promise<T>): Promise<T> {
    this.#act()
    if (this.isDead) throw dead
    const done = await work()
    this.#act()
    if (this.isDead) throw dead
    return done
  }
}

const deaths = ['program', 'everything', 'everything and slots', 'streams'] as const

export class KilledIndex {
  readonly rows = new MemorySink()
  lost = 0
  readonly #folder = mkdtempSync(join(tmpdir(), 'sluice-killed-'))
  readonly #random: () => number
  readonly #node: KilledNode
  #gateway: KilledGateway | null = null
  #program: { readonly program: IndexProgram; readonly sink: KilledSink } | null = null
  /** What happens next, one thing at a time. */
  #plan: (() => void)[] = []

  constructor(seed: number) {
    this.#random = randomOf(seed)
    this.#node = new KilledNode(this.#random)
  }

  async start(): Promise<void> {
    this.#gateway = await KilledGateway.start(this.#folder, () => this.#act())
    this.#startProgram()
    this.#plan = [() => this.#gateway?.serve(), () => this.#gateway?.connect(this.#node)]
    if (this.#below(2) === 0) this.#plan.reverse()
  }

  /** Some slots, with the death at any point between. */
  async round(): Promise<void> {
    const death = deaths[this.#below(deaths.length)]!
    let dies: Promise<void> | null = null
    for (let left = this.#below(8); left >= 0; left--)
      this.#plan.push(this.#below(3) === 0 ? () => this.#gateway?.write() : () => this.#slots())
    this.#plan.push(() => {
      dies = this.#die(death)
    })
    while (dies === null) await this.#turn()
    await dies
    if (this.#gateway === null) await this.start()
    else if (this.#program === null) this.#startProgram()
  }

  /** Waits until the rows are those of the chain. */
  async settled(): Promise<void> {
    while (this.#plan.length > 0) await this.#turn()
    this.#slots()
    const { blockhash } = this.#node
    const isThere = () => this.rows.rows('blocks').some((row) => row.blockhash === blockhash)
    await until(isThere, 'the last slot')
  }

  /** Rows of the chain as one program makes them that never dies. */
  async expected(): Promise<MemorySink> {
    const source = new SlotSource(undefined, { lost() {}, clock: systemClock })
    for (const update of this.#node.sent()) source.take(update)
    const rows = new RowBatches()
    for (let parcel = source.next(); parcel !== null; parcel = source.next())
      if (parcel.feed === 'slots') addSlotRows(parcel.content, rows)
    const sink = new MemorySink()
    await sink.write(rows.take(), {})
    return sink
  }

  async dispose(): Promise<void> {
    await this.#die('everything')
    rmSync(this.#folder, { recursive: true })
  }

  #startProgram(): void {
    const sink = new KilledSink(this.rows, () => this.#act())
    const program = new IndexProgram(async () => sink, {
      report: ({ lost }) => {
        this.lost += lost.slots ?? 0
      },
      ...{ wrote() {}, failed() {}, parts() {}, async trying() {}, dropped() {}, gateway() {} },
    })
    this.#program = { program, sink }
    const clickhouse = { insertMs: this.#below(10), insertRows: 1 + this.#below(300) }
    const retention = { retentionDays: 1, retentionBytes: 1 }
    program
      .open({
        sink: { engine: 'clickhouse', url: '', folder: '', holder: '', clickhouse, ...retention },
        gateways: this.#gateway!.feeds.gateways,
        ...{ cursors: {}, skip: [], careful: null },
      })
      .catch(() => {})
  }

  async #die(death: (typeof deaths)[number]): Promise<void> {
    const [program, gateway] = [this.#program, this.#gateway]
    if (death === 'streams') {
      gateway?.cut()
      return
    }
    this.#program = null
    if (death !== 'program') this.#gateway = null
    if (death === 'everything and slots') this.#node.forget(1 + this.#below(2))
    if (program !== null) program.sink.isDead = true
    await program?.program.stop()
    if (death !== 'program') await gateway?.kill()
  }

  #act(): void {
    if (this.#below(2) === 0) this.#plan.shift()?.()
  }

  #slots(): void {
    for (let left = this.#below(3); left >= 0; left--) {
      const updates = this.#node.next()
      this.#gateway?.take(updates)
    }
  }

  async #turn(): Promise<void> {
    for (let left = this.#below(20); left >= 0; left--)
      await new Promise((resolve) => setImmediate(resolve))
    this.#act()
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit)
  }
}
