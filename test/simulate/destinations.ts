// World `destinations`: gateways that share the leases of shred destinations over PostgreSQL.
// Real: connections, leases, the keeper with its fair shares and deadlines. Models: the server with
// its SQL (postgres/), and the sender, which sends while a lease is held and its deadline is ahead.
//
// At every moment at most one gateway sends to a destination: through deaths, partitions, failovers
// and steps of the gateways' clocks. Once nothing is wrong, each destination has its sender, and no
// gateway has more than its share.
import { initialOf } from '../../src/base/fields.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Cluster } from '../../src/customers/cluster/cluster.ts'
import { clusterSection } from '../../src/customers/cluster/config.ts'
import { LeaseKeeper } from '../../src/customers/cluster/lease-keeper.ts'
import { between, FaultyPostgres, pick } from './postgres/faults.ts'
import { onNetwork } from './postgres/network.ts'
import { onVirtualTime, type VirtualTime } from './virtual-time.ts'
import type { Counts, Limits, World } from './world.ts'

const stepsUsual = 25
/** Connections are up, leases of the dead are over, and shares are even. */
const recoveredMs = 20_000
/** How often senders send. */
const sendMs = 40
const destinations = ['d0', 'd1', 'd2', 'd3', 'd4']

export const destinationWorld: World = {
  name: 'destinations',
  what: 'leases of shred destinations, under deaths, partitions, failovers and steps of clocks',
  mustMeet: [
    'sent',
    'changed',
    'clockSteps',
    'gatewayKills',
    'failovers',
    'silences',
    'partitions',
  ],
  run: (seed, limits) => onVirtualTime(seed, (time) => new Run(time, limits).play()),
}

class Gateway {
  readonly name: string
  readonly keeper: LeaseKeeper
  readonly #cluster: Cluster
  readonly #time: VirtualTime
  /** Destinations that the sender sends to, until the deadline. */
  readonly #sends = new Set<string>()
  #untilMs = 0
  isDead = false

  constructor(time: VirtualTime, name: string, onChanged: () => void) {
    this.name = name
    this.#time = time
    const { clock } = time
    const section = { ...initialOf(clusterSection.fields), gateway: name }
    const url = 'postgres://sluice@a,b/sluice'
    this.#cluster = new Cluster({ ...section, url }, { clock, log: silentLog })
    const { leasing, session } = this.#cluster
    const leases = this.#cluster.leasesOn(leasing)
    this.keeper = new LeaseKeeper({ leases, clock, kind: 'shreds', session })
    this.keeper.start({
      wanted: () => destinations,
      onChanged: (destination) => {
        onChanged()
        if (this.keeper.isHeld(destination)) this.#sends.add(destination)
        else this.#sends.delete(destination)
      },
      onDeadline: (leftMs) => {
        this.#untilMs = time.ms + leftMs
      },
    })
  }

  sendsTo(destination: string): boolean {
    return !this.isDead && this.#sends.has(destination) && this.#time.ms < this.#untilMs
  }

  async stop(): Promise<void> {
    await this.keeper.stop()
    await this.#cluster.stop()
  }

  /** It is gone without giving anything back. */
  kill(): void {
    this.isDead = true
    void this.#cluster.stop()
    void this.keeper.stop()
  }
}

class Run {
  readonly #time: VirtualTime
  readonly #limits: Limits
  readonly #postgres: FaultyPostgres
  readonly #faults: readonly (() => void)[]
  readonly #counts = new Map<string, number>()
  readonly #gateways: Gateway[] = []
  #problem: string | null = null

  constructor(time: VirtualTime, limits: Limits) {
    this.#time = time
    this.#limits = limits
    this.#postgres = new FaultyPostgres(time, (what, ms) => {
      this.#count(what)
      this.#trace(`${what} ${ms}`)
    })
    const faults = [...this.#postgres.faults, () => this.#kill(), () => this.#stepClock()]
    this.#faults = faults.filter(() => time.random() < 0.4)
    for (const host of this.#postgres.pair.hosts) host.skewMs = Math.round(80 * time.random()) - 40
  }

  play(): Promise<Counts> {
    return onNetwork(this.#postgres.network, async () => {
      const { random } = this.#time
      for (const name of ['g0', 'g1', 'g2']) this.#gateways.push(this.#open(name))
      const sending = setInterval(() => this.#send(), sendMs)
      await this.#time.advance(5_000)
      const steps = Math.min(stepsUsual, this.#limits.steps)
      for (let step = 0; step < steps; step++) {
        if (this.#faults.length > 0 && random() < 0.5) pick(random, this.#faults)()
        await this.#time.advance(between(random, 20, 3_000))
        this.#check()
      }
      await this.#time.advance(Math.max(0, -this.#postgres.quietMs) + recoveredMs)
      this.#check()
      this.#checkEnd()
      clearInterval(sending)
      const stopped = Promise.all(this.#gateways.map((gateway) => gateway.stop()))
      await Promise.all([stopped, this.#time.advance(5_000)])
      return Object.fromEntries(this.#counts)
    })
  }

  #open(name: string): Gateway {
    return new Gateway(this.#time, name, () => this.#count('changed'))
  }

  #kill(): void {
    const index = Math.floor(this.#time.random() * this.#gateways.length)
    const gateway = this.#gateways[index]!
    this.#postgres.disturbed('gatewayKills')
    for (const path of this.#postgres.network.paths)
      if (path.name.includes(` ${gateway.name} `)) path.silence()
    gateway.kill()
    this.#gateways[index] = this.#open(gateway.name)
  }

  /** Of the gateways: NTP sets it, or an operator. */
  #stepClock(): void {
    this.#time.stepWallClock(Math.round((this.#time.random() - 0.5) * 7_200_000))
    this.#postgres.disturbed('clockSteps')
  }

  #send(): void {
    for (const destination of destinations) {
      const senders = this.#gateways.filter((gateway) => gateway.sendsTo(destination))
      this.#count('sent', senders.length)
      const names = senders.map(({ name }) => name)
      // A standby that lacked the newest leases gives them to others.
      if (names.length > 1 && !this.#mayLose)
        this.#problem ??= `${names.join(' and ')} send to ${destination} at ${this.#time.ms} ms`
    }
  }

  get #mayLose(): boolean {
    const { pair, isSynchronous } = this.#postgres
    return pair.lost > 0 || (!isSynchronous && pair.primary.timeline > 1)
  }

  #check(): void {
    for (const { problems } of this.#postgres.pair.hosts)
      if (problems.length > 0) throw new Error(problems[0])
    if (this.#problem !== null) throw new Error(this.#problem)
    this.#trace(this.#gateways.map(({ keeper }) => keeper.size).join(' '))
  }

  #checkEnd(): void {
    const most = Math.ceil(destinations.length / this.#gateways.length)
    for (const { name, keeper } of this.#gateways)
      if (keeper.size > most) throw new Error(`${name} has ${keeper.size} leases`)
    for (const destination of destinations)
      if (!this.#gateways.some((gateway) => gateway.sendsTo(destination)))
        throw new Error(`nobody sends to ${destination}`)
  }

  #count(what: string, by = 1): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + by)
  }

  #trace(line: string): void {
    this.#limits.trace?.(`${this.#time.ms} ${line}`)
  }
}
