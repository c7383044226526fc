// World `segments`: the log of streams on a disk that tears, fills, fails and loses power, under a
// server that is killed and started again while nodes go on.
// Real: tracker, hub, log, the thread's code, writer, reader, replays. Models: the disk (disk.ts),
// and the thread, which runs in this process, late.
//
// What is read is what was published: in its order, nothing left out, nothing twice. A process that
// dies loses no era that it reported as written, a power cut none that was written back. Files stay
// within their bounds. A log that is down is up again soon after its disk works.
import { Commitment } from '../../src/base/commitment.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { SolanaUpstream } from '../../src/streams/flows/solana-upstream.ts'
import { openSolanaHub, type SolanaHub } from '../../src/streams/geyser/hub.ts'
import {
  type EraPlace,
  type LogBounds,
  type LogReport,
  type LogRequest,
  LogThread,
} from '../../src/streams/segments/segment-writer.ts'
import { StreamLog, type ThreadEvents } from '../../src/streams/segments/stream-log.ts'
import { batchFrom, messageOf } from '../testkit/geyser-messages.ts'
import { chainOf, from, inBatches, read, rememberAll } from '../testkit/replayed-updates.ts'
import { onDisk, SimulatedDisk, withPlainSerialization } from './disk.ts'
import { onVirtualTime, type VirtualTime } from './virtual-time.ts'
import type { Counts, Limits, World } from './world.ts'

const stepsUsual = 30
const slotMs = 400
const folder = '/simulated/streams/default'
const firstSlot = 1_000
const slots = 90
/** Slots up to so many before the newest are complete at every commitment. */
const depth = 12
/** Once its disk works: two tries of the log, and what it writes then. */
const recoveredMs = 25_000
const commitments = [Commitment.processed, Commitment.confirmed, Commitment.finalized] as const

export const segments: World = {
  name: 'segments',
  what: 'the log of streams on a disk that tears, fills, fails and loses power',
  mustMeet: [
    ...['kills', 'tornWrites', 'powerCuts', 'fullDisks', 'diskErrors', 'removals', 'replays'],
    ...['fromFiles', 'lost', 'continued', 'begunAnew', 'comebacks'],
  ],
  run(seed, limits) {
    // Before time is virtual: it is made for the first seed that needs it.
    const chain = chainFor(seed)
    return onVirtualTime(seed, (time) => {
      const disk = new SimulatedDisk('/simulated', time.random)
      const play = () => new Run(time, disk, chain, limits).play()
      return onDisk(disk, () => withPlainSerialization(play))
    })
  },
}

interface ServerOptions {
  readonly folder: string
  readonly bounds: LogBounds
  /** Of the hub. */
  readonly memorySlots?: number
  onReport?(report: LogReport): void
  onRequest?(request: LogRequest): void
}

/** A process: everything that ends with it. */
export class Server {
  readonly log: StreamLog
  readonly sink: SolanaUpstream
  readonly hub: SolanaHub
  readonly #time: VirtualTime
  readonly #writer: LogThread
  readonly #requests: LogRequest[] = []
  readonly #onRequest: ((request: LogRequest) => void) | undefined
  #events: ThreadEvents | null = null
  #isRunning = false
  isDead = false

  constructor(time: VirtualTime, options: ServerOptions) {
    const { folder, bounds, memorySlots = 4, onReport } = options
    this.#time = time
    this.#onRequest = options.onRequest
    this.hub = openSolanaHub({ replaySlots: memorySlots, replayBytesMax: 1e9 })
    this.#writer = new LogThread(folder, bounds, (report) => {
      // What a dead process reports nobody reads.
      if (this.isDead) return
      onReport?.(report)
      this.#events!.report(report)
    })
    this.log = new StreamLog(this.hub, {
      ...{ folder, bounds, log: silentLog },
      startThread: async (events) => {
        this.#events = events
        return { post: (request) => this.#post(request), stop: async () => {} }
      },
    })
    const deps = { bankSalt: 'salt', log: silentLog, earlier: this.log }
    this.sink = new SolanaUpstream(this.hub, deps)
  }

  #post(request: LogRequest): boolean {
    if (this.isDead) return false
    this.#onRequest?.(request)
    this.#requests.push(request)
    this.#run()
    return true
  }

  #run(): void {
    if (this.#isRunning || this.#requests.length === 0) return
    this.#isRunning = true
    const ms = this.#time.random() < 0.02 ? 2_000 : 20
    setTimeout(() => {
      this.#isRunning = false
      if (this.isDead) return
      this.#writer.take(this.#requests.shift()!)
      this.#run()
    }, ms * this.#time.random())
  }
}

class Run {
  readonly #time: VirtualTime
  readonly #disk: SimulatedDisk
  readonly #limits: Limits
  readonly #bounds: LogBounds
  readonly #chain: Chain
  readonly #faults: readonly (() => void | Promise<void>)[]
  readonly #counts = new Map<string, number>()
  #server!: Server
  #batches: SolanaUpdate[][] = []
  /** The first slot that this server and those that it continues have whole. */
  #wholeFrom = firstSlot
  /** Eras that were reported as written, with when; from the oldest that is kept. */
  #written: { readonly place: EraPlace; readonly atMs: number }[] = []
  #isDamaged = false
  /** The log was told to drop what it cannot read, and has not said what is left. */
  #mayDrop = false
  #faultUntilMs = 0
  /** Found in a report: whoever reports must not catch it. */
  #problem: string | null = null
  #eraBytesMax = 0

  constructor(time: VirtualTime, disk: SimulatedDisk, chain: Chain, limits: Limits) {
    this.#time = time
    this.#disk = disk
    this.#chain = chain
    this.#limits = limits
    const keepMs = this.#pick([10_000, 40_000, 100_000])
    const bytesMax = this.#pick([100_000, 1e9, 1e9])
    this.#bounds = { keepMs, bytesMax, compress: time.random() < 0.2 ? 'zstd' : 'none' }
    const faults = [
      () => this.#kill('kills'),
      () => this.#dieWriting(),
      () => this.#kill('powerCuts'),
      () => this.#fill(),
      () => this.#break(),
    ]
    this.#faults = faults.filter(() => time.random() < 0.5)
  }

  async play(): Promise<Counts> {
    await this.#open()
    const steps = Math.min(stepsUsual, this.#limits.steps)
    for (let step = 0; step < steps; step++) {
      if (this.#faults.length > 0 && this.#time.random() < 0.12) await this.#pick(this.#faults)()
      await this.#feed(1 + Math.floor(this.#time.random() * 8))
      if (this.#disk.isDead) await this.#restart()
      if (this.#time.random() < 0.1) this.#disk.sync()
      if (this.#time.random() < 0.3) await this.#readSome()
      this.#check()
    }
    await this.#end()
    return Object.fromEntries(this.#counts)
  }

  // What happens.

  async #open(): Promise<void> {
    this.#server = new Server(this.#time, {
      ...{ folder, bounds: this.#bounds },
      onReport: (report) => this.#reported(report),
      onRequest: (request) => {
        this.#mayDrop ||= request.kind === 'resume' && request.mayDrop
      },
    })
    let isReady = false
    void this.#server.log.ready.then(() => {
      isReady = true
    })
    while (!isReady) await this.#time.advance(10)
    const { log, sink } = this.#server
    const low = log.resumeSlot
    // Now and then no node goes back as far.
    const isContinued = low !== null && this.#time.random() < 0.9
    if (isContinued) this.#count('continued')
    const next = this.#batches[0]?.[0]?.slot ?? firstSlot
    const start = isContinued ? low : next
    if (!isContinued) this.#wholeFrom = next === firstSlot ? next : next + 2
    sink.opened(isContinued ? low : null)
    if (!isContinued) this.#written = []
    this.#batches = inBatches(
      this.#chain.updates.filter(({ slot }) => slot >= start),
      1 + Math.floor(this.#time.random() * 1e6),
    )
  }

  async #feed(count: number): Promise<void> {
    for (const batch of this.#batches.splice(0, count)) {
      this.#server.sink.batch(batchFrom(batch.map((update) => messageOf(update))))
      await this.#time.advance(Math.round(slotMs * this.#time.random()))
      if (this.#disk.isDead) return
    }
  }

  /** The process ends wherever it is; with the power of its machine, or without. */
  async #kill(how: 'kills' | 'powerCuts'): Promise<void> {
    this.#server.isDead = true
    if (how === 'powerCuts') {
      const newest = this.#disk.names.at(-1)
      const { dirty, hasFolderChanges } = this.#disk
      // Older files that are damaged are found when they are read: what was before them is lost.
      if (hasFolderChanges || dirty.some((name) => name !== newest)) this.#written = []
      else if (dirty.length > 0)
        this.#written = this.#written.filter(({ place }) => segmentName(place) !== newest)
      this.#isDamaged ||= dirty.length > 0 || hasFolderChanges
      this.#disk.cutPower()
    }
    this.#count(how)
    await this.#restart()
  }

  #dieWriting(): void {
    this.#disk.diesAfterBytes = Math.floor(this.#time.random() * 3_000)
    this.#count('tornWrites')
  }

  #fill(): void {
    this.#disk.capacity = this.#disk.bytes + Math.floor(this.#time.random() * 2_000)
    this.#faulty('fullDisks', () => {
      this.#disk.capacity = Number.POSITIVE_INFINITY
    })
  }

  #break(): void {
    this.#disk.errorChance = this.#pick([0.02, 0.3, 1])
    this.#faulty('diskErrors', () => {
      this.#disk.errorChance = 0
    })
  }

  #faulty(what: string, end: () => void): void {
    const ms = 500 + Math.round(20_000 * this.#time.random())
    this.#count(what)
    this.#faultUntilMs = Math.max(this.#faultUntilMs, this.#time.ms + ms)
    setTimeout(end, ms)
  }

  async #restart(): Promise<void> {
    this.#server.isDead = true
    await this.#time.advance(Math.round(3_000 * this.#time.random()))
    this.#disk.revive()
    // It would begin anew where its disk does not work: that is another property.
    this.#disk.capacity = Number.POSITIVE_INFINITY
    this.#disk.errorChance = 0
    await this.#open()
  }

  // What must hold.

  #reported(report: LogReport): void {
    this.#trace(JSON.stringify(report, (key, value) => (key === 'chunk' ? undefined : value)))
    if (report.kind === 'opened') this.#checkOpened(report.eras)
    if (report.kind === 'resumed') {
      this.#mayDrop = false
      this.#count('comebacks')
      const [first] = report.eras
      this.#written = this.#written.filter(({ place }) => first && !isBefore(place, first))
    }
    if (report.kind !== 'wrote') return
    const { place, removed } = report
    this.#eraBytesMax = Math.max(this.#eraBytesMax, place.bytes)
    this.#written.push({ place, atMs: Date.now() })
    if (removed === null) return
    this.#count('removals')
    this.#written = this.#written.filter((one) => one.place.segment > removed)
  }

  /** A log that is opened has every era that was written, but for those that are too old. */
  #checkOpened(eras: readonly EraPlace[]): void {
    const found = new Set(eras.map(({ segment, at }) => `${segment} ${at}`))
    if (eras.length === 0) this.#count('begunAnew')
    const newest = new Map(this.#written.map(({ place, atMs }) => [place.segment, atMs]))
    for (const { place } of this.#written) {
      const isOld = Date.now() - newest.get(place.segment)! > this.#bounds.keepMs
      const isGone = !isOld && !found.has(`${place.segment} ${place.at}`)
      if (isGone && !this.#mayDrop && this.#generation === 0)
        this.#problem ??= `era ${place.slot} of file ${place.segment} was written and is gone`
    }
    this.#mayDrop = false
    this.#written = this.#written.filter(({ place }) => found.has(`${place.segment} ${place.at}`))
  }

  /** Resets of the server that runs. */
  get #generation(): number {
    return this.#server?.isDead === false ? this.#server.log.counts().resets : 0
  }

  #check(): void {
    if (this.#problem !== null) throw new Error(this.#problem)
    const { isUp, bytes, resets } = this.#server.log.counts()
    const quietMs = this.#time.ms - this.#faultUntilMs
    if (!isUp && quietMs > recoveredMs) throw new Error(`the log is down after ${quietMs} ms`)
    if (isUp && bytes > this.#bounds.bytesMax + 2 ** 20 + this.#eraBytesMax)
      throw new Error(`${bytes} bytes are kept of ${this.#bounds.bytesMax}`)
    this.#trace(`${isUp} ${bytes} ${resets} ${this.#server.log.oldestSlot}`)
  }

  async #readSome(): Promise<void> {
    const { hub, log } = this.#server
    const newest = hub.newestSlot
    const oldest = log.oldestSlot
    if (newest === null || oldest === null) return
    const commitment = this.#pick(commitments)
    const back = Math.floor((newest - oldest + 3) * this.#time.random())
    await this.#readFrom(Math.max(firstSlot, newest - back), commitment)
  }

  async #readFrom(slot: number, commitment: Commitment): Promise<void> {
    const { log, hub } = this.#server
    const [oldest, newest] = [log.oldestSlot, hub.newestSlot!]
    const replay = log.replay(from(slot, commitment))
    if (replay === null) {
      if (oldest !== null && slot >= oldest) throw new Error(`no replay from ${slot} of ${oldest}`)
      return
    }
    this.#count('replays')
    if (slot < (hub.oldestSlot ?? 0)) this.#count('fromFiles')
    const before = { ...log.counts() }
    let texts: string[] | null = null
    let isLost = false
    read(replay).then(
      (found) => {
        texts = found
      },
      () => {
        isLost = true
      },
    )
    for (let ms = 0; texts === null && !isLost; ms++) {
      await this.#time.advance(1)
      if (ms > 10_000) throw new Error(`a replay from ${slot} does not end`)
    }
    if (this.#disk.isDead) return
    if (texts !== null) return this.#compare(texts, { slot, commitment, newest })
    this.#count('lost')
    const after = log.counts()
    const isRemoved = after.resets !== before.resets || (after.oldestSlot ?? slot + 1) > slot
    const isFaulty = this.#time.ms <= this.#faultUntilMs
    if (!isRemoved && !isFaulty && !this.#isDamaged)
      throw new Error(`the replay from ${slot} was lost, and ${after.oldestSlot} is kept`)
  }

  #compare(
    texts: readonly string[],
    { slot: first, commitment, newest }: { slot: number; commitment: Commitment; newest: number },
  ): void {
    const replayed = bySlot(texts)
    const all = this.#chain.expected.get(commitment)!
    for (let slot = Math.max(first, this.#wholeFrom); slot <= newest; slot++) {
      const found = replayed.get(slot) ?? []
      const wanted = all.get(slot) ?? []
      const isComplete = slot <= newest - depth
      if (isComplete && found.length < wanted.length)
        throw new Error(`${wanted.length - found.length} updates of slot ${slot} are missing`)
      for (const [index, text] of found.entries())
        if (text !== wanted[index])
          throw new Error(`slot ${slot}, commitment ${commitment}: ${text}, not ${wanted[index]}`)
    }
    this.#trace(`read ${texts.length} from ${first}`)
  }

  /** Everything works, and is read once more. */
  async #end(): Promise<void> {
    if (this.#disk.isDead) await this.#restart()
    this.#disk.diesAfterBytes = null
    await this.#time.advance(Math.max(0, this.#faultUntilMs - this.#time.ms) + recoveredMs + 1)
    this.#check()
    const { log } = this.#server
    const { oldestSlot } = log
    if (oldestSlot !== null && this.#server.hub.newestSlot !== null)
      for (const commitment of commitments)
        await this.#readFrom(Math.max(oldestSlot, this.#wholeFrom), commitment)
    await log.stop()
  }

  // Odds and ends.

  #count(what: string): void {
    this.#trace(what)
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1)
  }

  #trace(line: string): void {
    this.#limits.trace?.(`${this.#time.ms} ${line}`)
  }

  #pick<T>(options: readonly T[]): T {
    return options[Math.floor(this.#time.random() * options.length)]!
  }
}

const segmentName = ({ segment }: EraPlace) => `${String(segment).padStart(8, '0')}.log`

function isBefore(a: EraPlace, b: EraPlace): boolean {
  return a.segment < b.segment || (a.segment === b.segment && a.at < b.at)
}

function bySlot(texts: readonly string[]): Map<number, string[]> {
  const found = new Map<number, string[]>()
  for (const text of texts) {
    const slot = Number.parseInt(text, 10)
    const known = found.get(slot)
    if (known === undefined) found.set(slot, [text])
    else known.push(text)
  }
  return found
}

interface Chain {
  readonly updates: readonly SolanaUpdate[]
  /** By commitment and slot: what a hub that forgets nothing publishes. */
  readonly expected: ReadonlyMap<Commitment, ReadonlyMap<number, readonly string[]>>
}

const chains = new Map<number, Chain>()

/** One of few: nothing changes them. */
function chainFor(seed: number): Chain {
  const number = 1 + (seed % 2)
  const known = chains.get(number)
  if (known !== undefined) return known
  const options = { accounts: 5, transactionsPerSlot: 1, dataBytes: 60, seed: number }
  const updates = chainOf(slots, options)
  const all = rememberAll(updates)
  const expected = new Map(commitments.map((one) => [one, bySlot(all(one, firstSlot))]))
  const chain = { updates, expected }
  chains.set(number, chain)
  return chain
}
