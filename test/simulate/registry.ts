// World `registry`: gateways that share a registry in PostgreSQL, with operators who change it.
// Real: the pg library, connections, failover between hosts, changes, healing, following. Models:
// the server with its tables and SQL (postgres/), and each gateway's registry on disk, which is
// LMDB and survives its process.
//
// After every step: an acknowledged change is there; one that was refused as not changed is not;
// no registry goes back or lacks a record of its changes; every change is answered within its
// bound; once hosts and network have worked for a while, every connection is up and every gateway
// has every change. In the end: the token that is valid was shown to whoever made the change.
import { initialOf } from '../../src/base/fields.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Cluster } from '../../src/customers/cluster/cluster.ts'
import { clusterSection } from '../../src/customers/cluster/config.ts'
import type { RegistryEntry } from '../../src/customers/cluster/ports.ts'
import { PostgresRegistry } from '../../src/customers/cluster/postgres/registry.ts'
import { RegistryFollower } from '../../src/customers/cluster/shared-registry.ts'
import {
  type AuditEntry,
  type AuditHead,
  emptyHead,
  problemOfEntry,
  recordDigest,
} from '../../src/customers/subscriptions/audit.ts'
import { digestOf } from '../../src/customers/subscriptions/issue.ts'
import { builtInPlans } from '../../src/customers/subscriptions/plans.ts'
import { type Registered, strictRules } from '../../src/customers/subscriptions/subscription.ts'
import { outcomeUnknown } from '../../src/customers/subscriptions/verbs.ts'
import { between, FaultyPostgres, pick } from './postgres/faults.ts'
import { type Network, onNetwork } from './postgres/network.ts'
import { onVirtualTime, type VirtualTime } from './virtual-time.ts'
import type { Counts, Limits, World } from './world.ts'

/** Steps with faults of one seed. */
const stepsUsual = 30
/** Without a fault for this long everything works: a session that is set up and goes silent. */
const recoveredMs = 12_000
/** Of a change: it may wait for a dead session, a connection, and a commit in doubt. */
const answeredMs = 60_000
const known = { plans: Object.keys(builtInPlans), destinationRules: strictRules }

export const registry: World = {
  name: 'registry',
  what: 'changes of a shared registry over PostgreSQL that fails over, restarts and goes silent',
  mustMeet: [
    ...['accepted', 'unchanged', 'inDoubt', 'failovers', 'restarts', 'silences'],
    ...['unlinked', 'resets', 'stalls', 'gatewayKills', 'recoveries'],
  ],
  run: (seed, limits) => onVirtualTime(seed, (time) => new Run(time, limits).play()),
}

/** The registry that a gateway has on its disk. */
class Replica {
  readonly entries: AuditEntry[] = []
  readonly #records = new Map<string, Registered>()

  head(): AuditHead {
    const last = this.entries.at(-1)
    return last === undefined ? emptyHead : { seq: last.seq, hash: last.hash }
  }

  holds({ seq, hash }: AuditHead): boolean {
    return seq === 0 || this.entries[seq - 1]?.hash === hash
  }

  audit({ after = 0 }: { after?: number }): Iterable<AuditEntry> {
    return this.entries.slice(after)
  }

  registered(id: string): Registered | null {
    return this.#records.get(id) ?? null
  }

  follow(news: readonly RegistryEntry[]): string | null {
    const fresh = news.filter(({ entry }) => !this.holds(entry))
    let last = this.head()
    for (const { entry, record } of fresh) {
      const problem = problemOfEntry(last, entry, record)
      if (problem !== null) return problem
      last = entry
    }
    for (const { entry, record } of fresh) {
      this.entries.push(entry)
      if (record !== null) this.#records.set(entry.subject, record)
    }
    return null
  }
}

class Gateway {
  readonly name: string
  readonly replica = new Replica()
  readonly #time: VirtualTime
  cluster!: Cluster
  verbs!: PostgresRegistry
  follower!: RegistryFollower

  constructor(time: VirtualTime, name: string) {
    this.#time = time
    this.name = name
    this.#open()
  }

  /** The process ends without a word to anybody, and another one starts on its disk. */
  kill(isSilent: boolean, network: Network): void {
    // Its sockets are the network's: the timers of a dead process must not answer for it.
    for (const path of network.paths)
      if (path.name.includes(` ${this.name} `)) isSilent ? path.silence() : path.hangUp()
    void this.follower.stop()
    void this.cluster.stop()
    this.#open()
    this.follower.start()
  }

  async stop(): Promise<void> {
    await this.follower.stop()
    await this.cluster.stop()
  }

  #open(): void {
    const { clock } = this.#time
    const section = { ...initialOf(clusterSection.fields), gateway: this.name }
    const url = 'postgres://sluice@a,b/sluice'
    this.cluster = new Cluster({ ...section, url }, { clock, log: silentLog })
    const { reading, writing } = this.cluster
    this.verbs = new PostgresRegistry({
      reading,
      writing,
      replica: this.replica,
      known,
      onChanged: () => this.follower.pull(),
    })
    const { verbs, replica } = this
    this.follower = new RegistryFollower({ news: verbs, store: replica, clock, log: silentLog })
  }
}

type Made = Awaited<ReturnType<PostgresRegistry['run']>>
type Answer = 'waiting' | 'accepted' | 'refused' | 'unchanged' | 'inDoubt' | 'dead'

/** A change of an operator, known by the reason that its audit entry has. */
interface Operation {
  readonly gateway: Gateway
  readonly reason: string
  readonly sentMs: number
  answer: Answer
  /** That it showed. */
  token: string | null
}

class Run {
  readonly #time: VirtualTime
  readonly #limits: Limits
  readonly #postgres: FaultyPostgres
  readonly #gateways: Gateway[] = []
  readonly #operations: Operation[] = []
  readonly #counts = new Map<string, number>()
  readonly #faults: readonly (() => void)[]
  readonly #heads = new Map<Gateway, number>()
  #labels = 0
  #isBroken = false

  constructor(time: VirtualTime, limits: Limits) {
    this.#time = time
    this.#limits = limits
    this.#postgres = new FaultyPostgres(time, (what, ms) => {
      this.#count(what)
      this.#trace(`${what} ${ms}`)
    })
    const faults = [...this.#postgres.faults, () => this.#kill(), () => this.#doubt()]
    // Some of them: what all of them together hide, few of them show.
    this.#faults = faults.filter(() => time.random() < 0.35)
  }

  play(): Promise<Counts> {
    return onNetwork(this.#postgres.network, async () => {
      await this.#open()
      const steps = Math.min(stepsUsual, this.#limits.steps)
      for (let step = 0; step < steps; step++) {
        this.#act()
        // Now and then everything has the time to recover.
        const isPause = this.#time.random() < 0.05
        await this.#time.advance(isPause ? 2 * recoveredMs : between(this.#time.random, 5, 1_500))
        this.#check()
      }
      await this.#calm()
      this.#checkEnd()
      await Promise.all([...this.#gateways.map((one) => one.stop()), this.#time.advance(2_000)])
      return Object.fromEntries(this.#counts)
    })
  }

  async #open(): Promise<void> {
    const count = 2 + Math.floor(this.#time.random() * 2)
    for (let index = 0; index < count; index++)
      this.#gateways.push(new Gateway(this.#time, `g${index}`))
    await this.#time.advance(1_000)
    while (!this.#gateways[0]!.cluster.writing.isUp()) await this.#time.advance(100)
    const seeded = this.#gateways[0]!.verbs.seed([], [], emptyHead, async () => {})
    await this.#time.advance(1_000)
    if (!(await seeded)) throw new Error('the registry was not seeded')
    // A standby that was never given the registry has nothing to go on with.
    const { pair } = this.#postgres
    while (pair.standby.wal.length < pair.primary.wal.length) await this.#time.advance(100)
    for (const gateway of this.#gateways) gateway.follower.start()
    await this.#time.advance(1_000)
    this.#check()
  }

  // What happens.

  #act(): void {
    if (this.#faults.length === 0 || this.#time.random() < 0.7) this.#change()
    else pick(this.#time.random, this.#faults)()
  }

  #change(): void {
    const gateway = pick(this.#time.random, this.#gateways)
    const operation: Operation = {
      gateway,
      reason: `change ${this.#operations.length}`,
      sentMs: this.#time.ms,
      answer: 'waiting',
      token: null,
    }
    this.#operations.push(operation)
    const by = { who: gateway.name, reason: operation.reason }
    const { verbs } = gateway
    const label = `l${Math.floor(this.#time.random() * Math.max(1, this.#labels))}`
    const add = () => verbs.add({ label: `l${this.#labels++}`, products: ['bundle'] }, by)
    const others = [
      add,
      () => verbs.rotate(label, { graceMs: 0 }, by),
      () => verbs.rotate(label, { graceMs: 60_000 }, by),
      () => verbs.suspend(label, by),
      () => verbs.resume(label, by),
      () => verbs.set(label, { cidrs: ['10.0.0.0/8'] }, by),
    ]
    const made = this.#labels < 2 ? add() : pick<() => Promise<Made>>(this.#time.random, others)()
    void made.then((outcome) => {
      if (operation.answer === 'dead') return
      const value = outcome.ok ? outcome.value : outcome.refusal.data
      if (typeof value === 'object' && value !== null && 'token' in value)
        operation.token = String(value.token)
      if (outcome.ok) operation.answer = 'accepted'
      else if (outcome.refusal.code === outcomeUnknown) operation.answer = 'inDoubt'
      else operation.answer = outcome.refusal.kind === 'unavailable' ? 'unchanged' : 'refused'
      this.#count(operation.answer)
      const doubt = outcome.ok ? '' : ` ${outcome.refusal.code}`
      this.#trace(`${gateway.name} ${operation.reason}: ${operation.answer}${doubt}`)
    })
  }

  /** A change whose commit waits; or whose primary restarts, shows it, and is lost thereupon. */
  #doubt(): void {
    this.#postgres.unlink()
    this.#change()
    if (this.#operations.length % 2 === 0) return
    setTimeout(() => this.#postgres.restart(), 300)
    setTimeout(() => this.#postgres.failOver(), between(this.#time.random, 400, 6_000))
  }

  #kill(): void {
    const gateway = pick(this.#time.random, this.#gateways)
    for (const operation of this.#operations)
      if (operation.gateway === gateway && operation.answer === 'waiting') operation.answer = 'dead'
    gateway.kill(this.#time.random() < 0.5, this.#postgres.network)
    this.#postgres.disturbed('gatewayKills')
  }

  /** Everything works from now on. */
  async #calm(): Promise<void> {
    await this.#time.advance(Math.max(0, -this.#postgres.quietMs) + recoveredMs)
    const endMs = this.#time.ms + answeredMs
    while (this.#operations.some(({ answer }) => answer === 'waiting') && this.#time.ms < endMs)
      await this.#time.advance(1_000)
  }

  // What must hold.

  #check(): void {
    for (const { name, problems } of this.#postgres.pair.hosts)
      if (problems.length > 0) throw new Error(`host ${name}: ${problems[0]}`)
    this.#checkChanges()
    this.#checkReplicas()
    this.#checkRecovered()
  }

  #checkChanges(): void {
    const { primary } = this.#postgres.pair
    const stored = new Set(this.#stored().map(({ reason }) => reason))
    // A standby that lacked visible changes was promoted; gateways that have them heal it.
    this.#isBroken ||= this.#postgres.pair.lost > 0
    for (const { reason, answer, sentMs } of this.#operations) {
      if (answer === 'waiting' && this.#time.ms - sentMs > answeredMs)
        throw new Error(`${reason} has had no answer for ${this.#time.ms - sentMs} ms`)
      if (answer === 'unchanged' && stored.has(reason))
        throw new Error(`${reason} was refused as not changed, and is stored`)
      if (answer === 'refused' && stored.has(reason))
        throw new Error(`${reason} was refused, and is stored`)
      if (answer !== 'accepted' || stored.has(reason)) continue
      if (primary.role === 'primary' && !this.#isBroken)
        throw new Error(`${reason} was accepted, and is not stored`)
    }
  }

  /** Registries only grow, and each record is that of its subject's newest change. */
  #checkReplicas(): void {
    for (const gateway of this.#gateways) {
      const { replica } = gateway
      const { seq } = replica.head()
      if (seq < (this.#heads.get(gateway) ?? 0)) throw new Error(`${gateway.name} went back`)
      const newest = new Map(replica.entries.map(({ subject, after }) => [subject, after]))
      for (const [subject, after] of newest)
        if (recordDigest(replica.registered(subject)) !== after)
          throw new Error(`${gateway.name} has an older record of ${subject} at change ${seq}`)
      this.#heads.set(gateway, seq)
    }
  }

  #checkRecovered(): void {
    if (this.#postgres.quietMs < recoveredMs) return
    for (const { name, cluster, follower } of this.#gateways) {
      for (const [which, connection] of cluster.connections)
        if (!connection.isUp())
          throw new Error(`${name} ${which} is not up after ${recoveredMs} ms without a fault`)
      if (follower.state === 'away') throw new Error(`${name} does not follow`)
      if (follower.state === 'forked' && !this.#isBroken) throw new Error(`${name} is forked`)
    }
    this.#count('recoveries')
  }

  #checkEnd(): void {
    this.#check()
    const entries = this.#stored()
    for (const { name, replica, follower } of this.#gateways) {
      this.#count('healed', follower.healed)
      if (follower.state === 'forked') this.#count('forked')
      else if (replica.head().hash !== (entries.at(-1) ?? emptyHead).hash)
        throw new Error(`${name} has other changes`)
    }
    const stored = new Map(entries.map((entry) => [entry.reason, entry]))
    for (const { reason, answer } of this.#operations) {
      if (answer === 'inDoubt' && stored.has(reason)) this.#count('inDoubtStored')
      if (answer === 'accepted' && !stored.has(reason) && this.#postgres.isSynchronous)
        throw new Error(`${reason} was accepted, and is lost`)
    }
    this.#checkTokens(entries)
    this.#trace(entries.map(({ hash }) => hash).join(' '))
  }

  /** The secret that is valid is one that its operator was shown, unless the gateway died. */
  #checkTokens(entries: readonly AuditEntry[]): void {
    const issued = entries.filter(({ what }) => /^(subscription.add|token.rotate)$/.test(what))
    const records = this.#postgres.pair.primary.tables.of('records')
    for (const { subject, reason } of new Map(issued.map((one) => [one.subject, one])).values()) {
      const operation = this.#operations.find((one) => one.reason === reason)!
      if (operation.answer === 'dead') continue
      const { record } = records.get(subject) as { record: Registered }
      if (operation.token === null || digestOf(operation.token) !== record.tokenDigest)
        throw new Error(`the token of ${reason} is valid and was not shown`)
    }
  }

  #stored(): AuditEntry[] {
    const audit = this.#postgres.pair.primary.tables.of('audit') as Map<string, AuditEntry>
    return [...audit.values()]
  }

  // Odds and ends.

  #count(what: string, by = 1): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + by)
  }

  #trace(line: string): void {
    this.#limits.trace?.(`${this.#time.ms} ${line}`)
  }
}
