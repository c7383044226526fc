// World `budgets`: gateways that share the budgets of subscriptions over PostgreSQL.
// Real: connections, exchanges, shares. Models: the server with its ledger (ledger-model.ts), whose
// table is unlogged: a crash empties it, and a standby has none of it.
//
// All gateways together admit at most the plan, a few percent of its burst, and its rate for as long
// as an exchange takes. A fault adds what is documented: a gateway that PostgreSQL does not answer goes on with its share, at most the plan,
// and a ledger that was emptied grants each burst once more. Once nothing is wrong, one gateway
// alone has nearly the whole plan.
import { initialOf } from '../../src/base/fields.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Cluster } from '../../src/customers/cluster/cluster.ts'
import { clusterSection } from '../../src/customers/cluster/config.ts'
import { PostgresLedger } from '../../src/customers/cluster/postgres/tables.ts'
import { type Share, Shares } from '../../src/customers/cluster/shares.ts'
import { between, FaultyPostgres, pick } from './postgres/faults.ts'
import { onNetwork } from './postgres/network.ts'
import { onVirtualTime, type VirtualTime } from './virtual-time.ts'
import type { Counts, Limits, World } from './world.ts'

const stepsUsual = 20
/** How often callers come. */
const callMs = 25
/** Part of the burst that is admitted beyond the plan. */
const beyond = 0.05
/** An exchange whose messages are late takes so long; shares go on meanwhile. */
const lateMs = 600
/** After a fault shares may be those of before it for this long. */
const recoveredMs = 12_000
/** Times of 5 s in which what was overspent is paid. */
const payingMax = 6
const subscriptions = ['s0', 's1']

export const budgets: World = {
  name: 'budgets',
  what: 'shares of budgets that gateways exchange over PostgreSQL that fails',
  mustMeet: ['admitted', 'refused', 'exchanges', 'undisturbed', 'failovers', 'silences'],
  run: (seed, limits) => onVirtualTime(seed, (time) => new Run(time, limits).play()),
}

interface Plan {
  readonly perSecond: number
  readonly burst: number
}

class Gateway {
  readonly name: string
  readonly shares: Shares
  readonly #cluster: Cluster
  readonly #buckets: ReadonlyMap<string, Share>

  constructor({ clock }: VirtualTime, name: string, plan: Plan) {
    this.name = name
    const section = { ...initialOf(clusterSection.fields), gateway: name }
    const url = 'postgres://sluice@a,b/sluice'
    this.#cluster = new Cluster({ ...section, url }, { clock, log: silentLog })
    const ledger = new PostgresLedger(this.#cluster.exchanging, this.#cluster.session)
    this.shares = new Shares({ ledger, clock })
    void this.shares.start()
    this.#buckets = new Map(subscriptions.map((id) => [id, this.shares.bucketOf(id, plan)]))
  }

  /** Admits as many calls as it may, up to `most`. */
  spend(id: string, most: number, nowMs: number): number {
    const bucket = this.#buckets.get(id)!
    let spent = 0
    while (spent < most && bucket.waitMs(1, nowMs) === 0) {
      bucket.take(1, nowMs)
      spent++
    }
    return spent
  }

  async stop(): Promise<void> {
    await this.shares.stop()
    await this.#cluster.stop()
  }
}

class Run {
  readonly #time: VirtualTime
  readonly #limits: Limits
  readonly #postgres: FaultyPostgres
  readonly #faults: readonly (() => void)[]
  readonly #plan: Plan
  readonly #counts = new Map<string, number>()
  readonly #gateways: Gateway[] = []
  /** What each caller asks of each gateway at a time. */
  #load = new Map<string, number>()
  readonly #admitted = new Map<string, number>(subscriptions.map((id) => [id, 0]))
  #sinceMs = 0
  /** What faults add to what may be admitted. */
  #added = 0
  #addedUntilMs = 0
  #problem: string | null = null

  constructor(time: VirtualTime, limits: Limits) {
    this.#time = time
    this.#limits = limits
    const perSecond = pick(time.random, [20, 100, 400])
    this.#plan = { perSecond, burst: perSecond * pick(time.random, [1, 2, 5]) }
    this.#postgres = new FaultyPostgres(time, (what, ms) => {
      this.#count(what)
      this.#trace(`${what} ${ms}`)
      this.#disturb(ms)
    })
    this.#faults = this.#postgres.faults.filter(() => time.random() < 0.3)
  }

  play(): Promise<Counts> {
    return onNetwork(this.#postgres.network, async () => {
      const { random } = this.#time
      for (const name of ['g0', 'g1', 'g2'])
        this.#gateways.push(new Gateway(this.#time, name, this.#plan))
      // Each knows the others.
      await this.#time.advance(3_000)
      this.#sinceMs = this.#time.ms
      const calling = setInterval(() => this.#call(), callMs)
      const steps = Math.min(stepsUsual, this.#limits.steps)
      for (let step = 0; step < steps; step++) {
        if (this.#faults.length > 0 && random() < 0.2) pick(random, this.#faults)()
        this.#move()
        await this.#time.advance(between(random, 50, 2_000))
        this.#check()
      }
      await this.#time.advance(Math.max(0, -this.#postgres.quietMs) + recoveredMs)
      await this.#checkEnd()
      clearInterval(calling)
      const stopped = Promise.all(this.#gateways.map((gateway) => gateway.stop()))
      await Promise.all([stopped, this.#time.advance(5_000)])
      return Object.fromEntries(this.#counts)
    })
  }

  /** Callers go elsewhere, or ask for more or less. */
  #move(): void {
    for (const id of subscriptions)
      for (const { name } of this.#gateways)
        if (this.#time.random() < 0.5)
          this.#load.set(`${name} ${id}`, pick(this.#time.random, [0, 0, 1, 20, 5_000]))
  }

  #call(): void {
    const nowMs = this.#time.clock.monotonicMs()
    for (const id of subscriptions) {
      for (const gateway of this.#gateways) {
        const most = this.#load.get(`${gateway.name} ${id}`) ?? 0
        const spent = gateway.spend(id, most, nowMs)
        this.#admitted.set(id, this.#admitted.get(id)! + spent)
        this.#count('admitted', spent)
        if (spent < most) this.#count('refused')
      }
      const { perSecond, burst } = this.#plan
      const refilled = (perSecond * (this.#time.ms - this.#sinceMs)) / 1_000
      const bound = burst * (1 + beyond) + refilled + (perSecond * lateMs) / 1_000 + this.#added
      const admitted = this.#admitted.get(id)!
      if (admitted > bound + 1)
        this.#problem ??= `${id}: ${admitted} were admitted of ${bound} at ${this.#time.ms} ms`
    }
  }

  /** Each gateway may go on with the plan while it lasts, and with a burst once. */
  #disturb(lastsMs: number): void {
    const { perSecond, burst } = this.#plan
    const untilMs = this.#time.ms + lastsMs + recoveredMs
    const newMs = Math.max(0, untilMs - Math.max(this.#addedUntilMs, this.#time.ms))
    this.#addedUntilMs = Math.max(this.#addedUntilMs, untilMs)
    const others = this.#gateways.length - 1
    this.#added += (perSecond * newMs * others) / 1_000 + burst * this.#gateways.length
  }

  #check(): void {
    for (const { problems } of this.#postgres.pair.hosts)
      if (problems.length > 0) throw new Error(problems[0])
    if (this.#problem !== null) throw new Error(this.#problem)
    if (this.#added === 0) this.#count('undisturbed')
    this.#trace([...this.#admitted.values()].join(' '))
  }

  async #checkEnd(): Promise<void> {
    this.#check()
    this.#load = new Map([['g0 s0', 5_000]])
    // Shares of the others are void, and what is owed is refilled.
    await this.#time.advance(8_000)
    let used = 0
    // A debt above the burst is paid from what an exchange finds unused: about a fifth of the rate.
    for (let waited = 0; used < 0.9; waited++) {
      if (waited === payingMax) throw new Error(`one gateway alone has ${used} of the plan`)
      const before = this.#admitted.get('s0')!
      await this.#time.advance(5_000)
      used = (this.#admitted.get('s0')! - before) / (5 * this.#plan.perSecond)
    }
    this.#check()
    const rows = this.#gateways.reduce((sum, { shares }) => sum + shares.stats().rows, 0)
    this.#count('exchanges', rows)
  }

  #count(what: string, by = 1): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + by)
  }

  #trace(line: string): void {
    this.#limits.trace?.(`${this.#time.ms} ${line}`)
  }
}
