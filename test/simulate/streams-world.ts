// World `streams`: clients of PubSub and gRPC who move between gateways with their cursors, slots and
// consumers, while gateways are killed, lag and forget.
// Real: what is between the messages of a node and those to clients (streams-gateway.ts). Models:
// the chain with its forks and void banks (streams-chain.ts), one or two nodes of a gateway that send
// it in their own orders, lag, lie and are cut, disks, sockets, the table of consumers.
//
// After every step: at confirmed and finalized a client has the chain from where it began, each
// update once and, with PubSub, in order; at processed, with retractions, it has the same of each
// slot that is final; at processed without them nothing of a slot with one bank is lost or comes
// again. Who is told that what follows is not kept is told the truth, and nobody else begins anew.
// Once nothing is wrong, everybody reaches the end of the chain.
import type { LogBounds } from '../../src/streams/segments/segment-writer.ts'
import { randomOf } from '../testkit/synthetic-solana.ts'
import { onDisk, withPlainSerialization } from './disk.ts'
import { chainOf, type ModelChain } from './streams-chain.ts'
import { type Client, type ClientDeps, PubsubClient } from './streams-clients.ts'
import { type GatewayDeps, ModelTable, StreamsGateway } from './streams-gateway.ts'
import { ConsumerClient, FromSlotClient } from './streams-grpc-clients.ts'
import { onVirtualTime, type VirtualTime } from './virtual-time.ts'
import type { Counts, Limits, World } from './world.ts'

const stepsUsual = 20
/** Of the seeds. */
const lacksVoidShare = 0.25
const ticksPerStep = 5
/** Once nothing is wrong: as long as it takes to read everything. */
const endTicksMax = 600
const stuckTicks = 40
const drainTicks = 12

export const streams: World = {
  name: 'streams',
  what: 'PubSub and gRPC clients move between gateways that are killed, lag and forget',
  mustMeet: [
    ...['notifications', 'updates', 'commits', 'doubtful', 'moves', 'kills', 'tornWrites', 'lags'],
    ...['nodeCuts', 'breaks', 'skips', 'behind', 'toldGaps', 'continued', 'discontinued', 'stops'],
  ],
  rare: ['behind'],
  run(seed, limits) {
    // Before time is virtual: it is made for the first seed that needs it.
    const chain = chainOf(seed)
    return onVirtualTime(seed, (time) => {
      // By chances of their own: other seeds stay as they are.
      const lacksVoidBanks = randomOf(seed + 1_000_003)() < lacksVoidShare
      const random = seed % 5 !== 4 ? randomOf(seed ^ 0x51a9) : () => 0
      const skips = () => Math.max(0, 2 * random() - 1)
      const run = new Run(time, chain, { lacksVoidBanks, skips }, limits)
      const [one, two] = run.gateways
      const play = () => withPlainSerialization(() => run.play())
      return onDisk(one!.disk, () => onDisk(two!.disk, play))
    })
  },
}

type RareFaults = Pick<GatewayDeps, 'lacksVoidBanks' | 'skips'>

class Run {
  readonly gateways: readonly StreamsGateway[]
  readonly #time: VirtualTime
  readonly #limits: Limits
  readonly #chain: ModelChain
  readonly #table: ModelTable
  readonly #clients: Client[] = []
  readonly #counts = new Map<string, number>()
  readonly #faults: readonly (() => void | Promise<void>)[]
  readonly #lacksVoidBanks: boolean
  #head = 60
  #problem: string | null = null

  constructor(time: VirtualTime, chain: ModelChain, rare: RareFaults, limits: Limits) {
    this.#time = time
    this.#limits = limits
    this.#chain = chain
    this.#lacksVoidBanks = rare.lacksVoidBanks
    this.#table = new ModelTable(time)
    const bounds: LogBounds = {
      keepMs: this.#pick([3_000, 8_000, 1e6, 1e6]),
      ...{ bytesMax: 1e9, compress: 'none' },
    }
    const deps = {
      ...{ time, chain, bounds, table: this.#table },
      ...rare,
      count: (what: string) => this.#count(what),
      trace: (line: string) => this.#trace(line),
      problem: (what: string) => {
        this.#problem ??= what
      },
    }
    this.gateways = [0, 1].map((number) => new StreamsGateway(deps, number))
    const faults = [
      () => this.#kill(),
      () => this.#stop(),
      () => this.#dieWriting(),
      () => this.#lag(),
      () => this.#cutNode(),
      () => this.#pick(this.gateways).breakNode(),
      () => this.#slowDown(),
      () => this.#tableAway(),
    ]
    this.#faults = faults.filter(() => time.random() < 0.6)
  }

  async play(): Promise<Counts> {
    for (const gateway of this.gateways) await gateway.start(this.#pick([-1, this.#head]))
    const deps: ClientDeps = {
      ...{ chain: this.#chain, random: this.#time.random },
      count: (what) => this.#count(what),
      trace: (line) => this.#trace(line),
    }
    const commitment = () => this.#pick([0, 1, 2])
    // It matters to consumers at processed.
    const atProcessed = this.#lacksVoidBanks ? new ConsumerClient(deps, 0) : null
    this.#clients.push(new PubsubClient(deps))
    this.#clients.push(atProcessed ?? new ConsumerClient(deps, commitment()))
    this.#clients.push(new FromSlotClient(deps, commitment()))
    const steps = Math.min(stepsUsual, this.#limits.steps)
    for (let step = 0; step < steps; step++) {
      if (this.#faults.length > 0 && this.#time.random() < 0.3) await this.#pick(this.#faults)()
      for (let tick = 0; tick < ticksPerStep; tick++) {
        await this.#grow()
        if (this.#time.random() < 0.1) this.#move(this.#pick(this.#clients))
      }
    }
    await this.#end()
    return Object.fromEntries(this.#counts)
  }

  /** The chain goes on. */
  async #grow(): Promise<void> {
    const { length } = this.#chain.sent
    const most = (2 * length) / (stepsUsual * ticksPerStep)
    this.#head = Math.min(length - 1, this.#head + Math.floor(most * this.#time.random()))
    await this.#tick()
  }

  async #tick(): Promise<void> {
    for (const gateway of this.gateways) {
      if (gateway.disk.isDead) await this.#restart(gateway)
      else gateway.feed(this.#head)
    }
    await this.#time.advance(this.#pick([0, 10, 100, 200]))
    for (const client of this.#clients) {
      if (client.gateway === null && this.#time.random() < 0.5) this.#connect(client)
      client.read()
    }
    if (this.#problem !== null) throw new Error(this.#problem)
    const newest = this.gateways.map(({ server }) => server.hub.newestSlot)
    const kept = this.gateways.map(({ server }) => server.log.oldestSlot)
    this.#trace(`${this.#head} ${newest} from ${kept}`)
  }

  #connect(client: Client): void {
    const gateway = this.#pick(this.gateways)
    if (!gateway.isUp) return
    this.#trace(`${client.name} connects to ${gateway.name}`)
    client.connect(gateway)
  }

  #move(client: Client): void {
    this.#count('moves')
    client.leave()
  }

  // Faults.

  async #kill(): Promise<void> {
    this.#count('kills')
    await this.#restart(this.#pick(this.gateways))
  }

  async #stop(): Promise<void> {
    this.#count('stops')
    const gateway = this.#pick(this.gateways)
    gateway.drain()
    for (let tick = 0; tick < drainTicks; tick++) await this.#grow()
    await this.#restart(gateway)
  }

  async #restart(gateway: StreamsGateway): Promise<void> {
    this.#trace(`${gateway.name} is killed`)
    gateway.kill()
    for (const client of this.#clients) if (client.gateway === gateway) client.leave()
    await this.#time.advance(this.#pick([0, 500, 2_000]))
    await gateway.start(this.#head)
  }

  #dieWriting(): void {
    this.#count('tornWrites')
    this.#pick(this.gateways).disk.diesAfterBytes = Math.floor(this.#time.random() * 3_000)
  }

  #lag(): void {
    this.#count('lags')
    this.#pick(this.gateways).fallBehind(this.#pick([0, 0, 5, 60, 400]), this.#time.random() < 0.5)
  }

  #cutNode(): void {
    this.#pick(this.gateways).cutNode(this.#head, this.#pick([0, 5, 60]))
  }

  #slowDown(): void {
    this.#pick(this.#clients).pace = this.#pick([0, 0.5, 3, 1, 1])
  }

  #tableAway(): void {
    this.#table.awayUntilMs = this.#time.ms + 2_000 * this.#time.random()
  }

  /** Everything works, and everybody reads everything. */
  async #end(): Promise<void> {
    this.#head = this.#chain.sent.length - 1
    for (const gateway of this.gateways) {
      gateway.fallBehind(0)
      gateway.disk.diesAfterBytes = null
    }
    for (const client of this.#clients) client.pace = 1
    for (let tick = 0; tick < endTicksMax; tick++) {
      await this.#tick()
      const late = this.#clients.filter(({ isDone }) => !isDone)
      // Both may have begun after the last slot.
      const isNothing = this.gateways.every(({ server }) => server.hub.newestSlot === null)
      if (late.length === 0 || (isNothing && tick > stuckTicks)) break
      if (tick === endTicksMax - 1)
        throw new Error(late.map(({ name, state }) => `${name} stays at ${state}`).join('; '))
      // Who began after the last slot began has nothing to wait for.
      if (tick % stuckTicks === stuckTicks - 1) for (const client of late) client.leave()
    }
    for (const client of this.#clients) client.leave()
    const stopped = Promise.all(this.gateways.map((gateway) => gateway.stop()))
    await Promise.all([stopped, this.#time.advance(2_000)])
  }

  #count(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1)
  }

  #trace(line: string): void {
    this.#limits.trace?.(`${this.#time.ms} ${line}`)
  }

  #pick<T>(options: readonly T[]): T {
    return options[Math.floor(this.#time.random() * options.length)]!
  }
}
