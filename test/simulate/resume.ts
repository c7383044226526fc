// World `resume`: gateways that share the log of events in PostgreSQL, and clients of the event
// stream who move between them with their cursor.
// Real: connections, leases, numbering and take-over, following, the log with its buffer, the
// decisions of a handshake, streams. Models: the server with its SQL (postgres/), sockets, and the
// source of each gateway, which has the same blocks a little earlier or later.
//
// A number has one content at every gateway. A client sees each number once, in order, wherever it
// goes; it begins anew only where PostgreSQL lost what it had shown. The numbers have every block
// once, or a Gap in its place. At most one gateway numbers. Once nothing is wrong, frames flow.
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { PostgresConnection } from '../../src/customers/cluster/postgres/client.ts'
import { prepareSchema } from '../../src/customers/cluster/postgres/schema.ts'
import { PostgresEventLog, PostgresLeases } from '../../src/customers/cluster/postgres/tables.ts'
import { ActiveBlocks } from '../../src/products/metrics/block-rows.ts'
import { declareMetricsMeters } from '../../src/products/metrics/meters.ts'
import { type SessionParts, socketRoute } from '../../src/products/metrics/session.ts'
import { StreamSockets } from '../../src/products/metrics/stream-sockets.ts'
import { streamKinds } from '../../src/streams/log/encoded.ts'
import { EventLog } from '../../src/streams/log/log.ts'
import { SharedEvents } from '../../src/streams/log/shared-events.ts'
import { between, FaultyPostgres, pick } from './postgres/faults.ts'
import { onNetwork } from './postgres/network.ts'
import { onVirtualTime, type VirtualTime } from './virtual-time.ts'
import type { Counts, Limits, World } from './world.ts'

const stepsUsual = 25
const blockMs = 400
/** Without a fault for this long clients have frames again. */
const recoveredMs = 15_000
/** A client that has none for so long tries another gateway. */
const patienceMs = 1_500
/** A gateway that takes over appends what only its source had, if it is about as new. */
const lateBlocks = 16

export const resume: World = {
  name: 'resume',
  what: 'clients of events move between gateways that number them in one log in PostgreSQL',
  mustMeet: ['frames', 'resumed', 'takeOvers', 'failovers', 'silences', 'gatewayKills', 'moves'],
  run: (seed, limits) => onVirtualTime(seed, (time) => new Run(time, limits).play()),
}

type Route = ReturnType<typeof socketRoute>
type RouteSocket = Parameters<Route['open']>[0]

/** A client's connection to one gateway; what is sent arrives at once. */
class SimulatedSocket {
  readonly address = '127.0.0.1'
  readonly unsentBytes = 0
  readonly topics = new Set<string>()
  readonly state: unknown
  readonly #onFrame: (text: string) => void
  readonly #onEnd: () => void
  isOpen = true

  constructor(state: unknown, onFrame: (text: string) => void, onEnd: () => void) {
    this.state = state
    this.#onFrame = onFrame
    this.#onEnd = onEnd
  }

  send(bytes: Uint8Array): void {
    if (this.isOpen) this.#onFrame(Buffer.from(bytes).toString())
  }

  batch(work: () => void): void {
    work()
  }

  subscribe(topic: string): void {
    this.topics.add(topic)
  }

  unsubscribe(topic: string): void {
    this.topics.delete(topic)
  }

  end(): void {
    this.#onEnd()
  }
}

class Gateway {
  readonly name: string
  /** Behind the chain. */
  readonly lagMs: number
  readonly events: EventLog
  readonly shared: SharedEvents
  readonly sockets = new Set<SimulatedSocket>()
  readonly #connection: PostgresConnection
  readonly #streams: StreamSockets
  readonly #route: Route

  constructor(time: VirtualTime, name: string) {
    this.name = name
    this.lagMs = Math.round(1_000 * time.random() ** 2)
    const { clock } = time
    this.#connection = new PostgresConnection({
      ...{ url: 'postgres://sluice@a,b/sluice', name: `${name} events`, clock, log: silentLog },
      onConnect: prepareSchema,
    }).start()
    // A term of its own for each start.
    const holder = `${name}/${Math.floor(time.random() * 1e9)}`
    this.events = new EventLog({ reserve: () => null, clock, isShared: true })
    this.shared = new SharedEvents(this.events, {
      shared: new PostgresEventLog(this.#connection, holder),
      leases: new PostgresLeases(this.#connection, { holder, info: name, clock }),
      ...{ clock, log: silentLog },
    })
    const stream = {
      log: this.events,
      active: new ActiveBlocks({ finalized: () => {} }),
      meters: declareMetricsMeters(new Meters()),
      limits: { unsentBytesMax: 1e6, slowMsMax: 30_000 },
      run: 'none',
    }
    this.#streams = new StreamSockets(stream, clock)
    this.#streams.publish = (topic, bytes) => {
      for (const socket of [...this.sockets]) if (socket.topics.has(topic)) socket.send(bytes)
    }
    // Reason for the cast: budgets and tokens of addresses are not asked for after the handshake.
    const parts = { stream, sockets: this.#streams, clock } as unknown as SessionParts
    this.#route = socketRoute('/v1/ws', parts)
  }

  /** The source has a block. */
  produce(block: number): void {
    const facts = { blockNumber: block, atNs: BigInt(block), key: `b${block}` }
    this.shared.append('TPS', Buffer.from(String(block)), 0, facts)
  }

  open(socket: SimulatedSocket): void {
    this.sockets.add(socket)
    this.#route.open(socket as unknown as RouteSocket)
  }

  close(socket: SimulatedSocket): void {
    if (!this.sockets.delete(socket)) return
    socket.isOpen = false
    this.#route.close(socket as unknown as RouteSocket, 1000)
  }

  /** Everything ends with the process. */
  async stop(): Promise<void> {
    for (const socket of [...this.sockets]) socket.end()
    this.#streams.stop()
    await Promise.all([this.shared.stop(), this.#connection.stop()])
  }
}

interface RoamerDeps {
  readonly time: VirtualTime
  readonly gateways: () => readonly Gateway[]
  /** Content by number, as anybody saw it. */
  readonly contents: Map<number, string>
  readonly count: (what: string) => void
}

/** A client that remembers its cursor. */
class Roamer {
  readonly #deps: RoamerDeps
  readonly problems: string[] = []
  /** Times that it had to begin anew. */
  snapshots = 0
  frameMs: number
  #cursor = 0
  #run: string | null = null
  #newest = 0
  #isSnapshot = false
  #at: { readonly gateway: Gateway; readonly socket: SimulatedSocket } | null = null
  #timer: NodeJS.Timeout | undefined
  #isOver = false

  constructor(deps: RoamerDeps) {
    this.#deps = deps
    this.frameMs = deps.time.ms
    this.#connect()
  }

  move(): void {
    this.#deps.count('moves')
    this.#leave()
  }

  stop(): void {
    this.#isOver = true
    this.#leave()
  }

  #connect(): void {
    const { time, gateways } = this.#deps
    const gateway = pick(time.random, gateways())
    const resumeFrom = this.#cursor === 0 ? null : this.#cursor
    const connect = { kinds: streamKinds, resumeFrom, run: this.#run }
    const session = { connect, encoding: 'json', caller: null, client: null, early: [] }
    const socket: SimulatedSocket = new SimulatedSocket(
      { ...session, isClosed: false, release: null },
      (text) => {
        if (this.#at?.socket === socket) this.#take(text)
      },
      () => {
        gateway.close(socket)
        if (this.#at?.socket === socket) this.#leave()
      },
    )
    this.#at = { gateway, socket }
    this.#wait()
    gateway.open(socket)
  }

  #wait(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#leave(), patienceMs)
  }

  #leave(): void {
    clearTimeout(this.#timer)
    const at = this.#at
    this.#at = null
    at?.gateway.close(at.socket)
    if (!this.#isOver)
      this.#timer = setTimeout(() => this.#connect(), 1 + 100 * this.#deps.time.random())
  }

  #take(text: string): void {
    const { seq, Resume: greeting } = JSON.parse(text)
    if (greeting !== undefined) this.#greeted(greeting)
    if (greeting !== undefined || !(seq > 0)) return
    const known = this.#deps.contents.get(seq)
    if (known === undefined) this.#deps.contents.set(seq, text)
    else if (known !== text) this.problems.push(`number ${seq} is ${known} and ${text}`)
    if (this.#isSnapshot && seq <= this.#newest) return
    this.#isSnapshot = false
    if (this.#cursor !== 0 && seq !== this.#cursor + 1)
      this.problems.push(`${seq} follows ${this.#cursor}`)
    this.#cursor = seq
    this.#deps.count('frames')
    this.frameMs = this.#deps.time.ms
    this.#wait()
  }

  #greeted({ mode, run, newest }: { mode: string; run: string; newest: number }): void {
    if (mode === 'resume') {
      this.#deps.count('resumed')
      if (run !== this.#run) this.problems.push('resumed in another run')
      return
    }
    if (this.#cursor !== 0) this.snapshots++
    this.#isSnapshot = true
    this.#newest = newest
    this.#cursor = newest
    this.#run = run
  }
}

class Run {
  readonly #time: VirtualTime
  readonly #limits: Limits
  readonly #postgres: FaultyPostgres
  readonly #faults: readonly (() => void)[]
  readonly #gateways: Gateway[] = []
  readonly #roamers: Roamer[] = []
  readonly #contents = new Map<number, string>()
  readonly #counts = new Map<string, number>()
  readonly #numberers = new Set<string>()
  #block = 0
  #chain: NodeJS.Timeout | undefined

  constructor(time: VirtualTime, limits: Limits) {
    this.#time = time
    this.#limits = limits
    this.#postgres = new FaultyPostgres(time, (what, ms) => {
      this.#count(what)
      this.#trace(`${what} ${ms}`)
    })
    const faults = [...this.#postgres.faults, () => this.#kill()]
    this.#faults = faults.filter(() => time.random() < 0.35)
    for (const host of this.#postgres.pair.hosts) host.skewMs = Math.round(80 * time.random()) - 40
  }

  play(): Promise<Counts> {
    return onNetwork(this.#postgres.network, async () => {
      await this.#open()
      const steps = Math.min(stepsUsual, this.#limits.steps)
      for (let step = 0; step < steps; step++) {
        const { random } = this.#time
        if (this.#faults.length > 0 && random() < 0.25) pick(random, this.#faults)()
        else pick(random, this.#roamers).move()
        await this.#time.advance(between(random, 20, 2_000))
        this.#check()
      }
      await this.#time.advance(Math.max(0, -this.#postgres.quietMs) + recoveredMs + 1)
      this.#check()
      this.#checkBlocks()
      clearInterval(this.#chain)
      for (const roamer of this.#roamers) roamer.stop()
      const stopped = Promise.all(this.#gateways.map((gateway) => gateway.stop()))
      await Promise.all([stopped, this.#time.advance(10_000)])
      this.#count('takeOvers', this.#numberers.size - 1)
      return Object.fromEntries(this.#counts)
    })
  }

  async #open(): Promise<void> {
    for (const name of ['g0', 'g1', 'g2'].slice(0, 2 + Math.floor(2 * this.#time.random())))
      this.#gateways.push(new Gateway(this.#time, name))
    await this.#time.advance(1_000)
    this.#chain = setInterval(() => this.#produce(), blockMs)
    const deps = {
      time: this.#time,
      gateways: () => this.#gateways,
      contents: this.#contents,
      count: (what: string) => this.#count(what),
    }
    for (let index = 0; index < 3; index++) this.#roamers.push(new Roamer(deps))
    await this.#time.advance(2_000)
    this.#check()
  }

  #produce(): void {
    const block = ++this.#block
    for (const gateway of this.#gateways) setTimeout(() => gateway.produce(block), gateway.lagMs)
  }

  #kill(): void {
    const index = Math.floor(this.#time.random() * this.#gateways.length)
    const gateway = this.#gateways[index]!
    this.#postgres.disturbed('gatewayKills')
    for (const path of this.#postgres.network.paths)
      if (path.name.includes(` ${gateway.name} `)) path.silence()
    this.#gateways[index] = new Gateway(this.#time, gateway.name)
    void gateway.stop()
  }

  #check(): void {
    for (const { problems } of this.#postgres.pair.hosts)
      if (problems.length > 0) throw new Error(problems[0])
    const isLost = this.#mayLose
    for (const { problems, snapshots, frameMs } of this.#roamers) {
      if (problems.length > 0) throw new Error(problems[0])
      if (snapshots > 0 && !isLost) throw new Error('a client began anew, and nothing was lost')
      const silentMs = this.#time.ms - frameMs
      if (this.#postgres.quietMs > recoveredMs && silentMs > 3 * patienceMs)
        throw new Error(`a client has no frames for ${silentMs} ms`)
    }
    const numberers = this.#gateways.filter(({ shared }) => shared.isNumberer)
    for (const { name } of numberers) this.#numberers.add(name)
    if (numberers.length > 1 && !isLost)
      throw new Error(`${numberers.map(({ name }) => name)} number at once`)
    this.#trace(`${numberers.map(({ name }) => name)} ${this.#contents.size}`)
  }

  /** A promoted standby of which nobody knows what it lacks begins another run of numbers. */
  get #mayLose(): boolean {
    const { pair, isSynchronous } = this.#postgres
    return pair.lost > 0 || (!isSynchronous && pair.primary.timeline > 1)
  }

  /** What the log has: every block once or in a Gap, and none that is late by much. */
  #checkBlocks(): void {
    if (this.#mayLose) return
    const seen = new Set<number>()
    const excused = new Set<number>()
    let newest = 0
    for (const [seq, text] of [...this.#contents].toSorted(([a], [b]) => a - b)) {
      const { TPS: block, Gap: gap } = JSON.parse(text)
      if (gap !== undefined) {
        this.#count('gaps')
        for (let one = gap.from_block; one <= gap.to_block; one++) excused.add(one)
        continue
      }
      if (seen.has(block)) throw new Error(`number ${seq} has block ${block} once more`)
      if (block <= newest - lateBlocks) throw new Error(`${block} is late: after ${newest}`)
      seen.add(block)
      newest = Math.max(newest, block)
    }
    for (let block = Math.min(...seen); block < newest; block++)
      if (!seen.has(block) && !excused.has(block)) throw new Error(`block ${block} has no number`)
  }

  #count(what: string, by = 1): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + by)
  }

  #trace(line: string): void {
    this.#limits.trace?.(`${this.#time.ms} ${line}`)
  }
}
