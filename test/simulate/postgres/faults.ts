// A pair of hosts with PostgreSQL and the network to it, with what goes wrong with them.
import type { VirtualTime } from '../virtual-time.ts'
import { Network } from './network.ts'
import { PostgresPair } from './pair.ts'

/** Takes the name of a fault, and how long it lasts. */
export type OnFault = (what: string, lastsMs: number) => void

export class FaultyPostgres {
  readonly network: Network
  readonly pair: PostgresPair
  readonly isSynchronous: boolean
  /** Each makes one happen. */
  readonly faults: readonly (() => void)[] = [
    () => this.#silence(),
    () => this.#reset(),
    () => this.unlink(),
    () => this.restart(),
    () => this.failOver(),
    () => this.#partition(),
    () => this.#storm(),
    () => this.#stall(),
  ]
  readonly #time: VirtualTime
  readonly #onFault: OnFault
  #untilMs = 0

  constructor(time: VirtualTime, onFault: OnFault) {
    this.#time = time
    this.#onFault = onFault
    const { random } = time
    this.isSynchronous = random() < 0.8
    const { isSynchronous } = this
    this.network = new Network({ random, onFault: (what) => this.disturbed(what) })
    this.pair = new PostgresPair({ network: this.network, random, isSynchronous })
  }

  /** Since the last fault was over; below 0 while one lasts. */
  get quietMs(): number {
    return this.#time.ms - this.#untilMs
  }

  /** A fault, also one that is made elsewhere. */
  disturbed(what: string, lastsMs = 0): void {
    this.#untilMs = Math.max(this.#untilMs, this.#time.ms + lastsMs)
    this.#onFault(what, lastsMs)
  }

  #silence(): void {
    const path = pick(this.#time.random, [...this.network.paths])
    if (path === undefined) return
    path.silence()
    this.disturbed('silences')
    if (this.#time.random() < 0.7) return
    // The one that is opened in its place ends, too.
    const ms = between(this.#time.random, 400, 900)
    this.disturbed('resets', ms)
    setTimeout(() => [...this.network.paths].at(-1)?.cut(), ms)
  }

  #reset(): void {
    pick(this.#time.random, [...this.network.paths])?.cut()
    this.disturbed('resets')
  }

  /** The standby is not reached for a while: commits wait. */
  unlink(): void {
    if (!this.pair.isLinked) return
    this.pair.link(false)
    const ms = between(this.#time.random, 500, 40_000)
    this.disturbed('unlinked', ms)
    setTimeout(() => this.pair.link(true), ms)
  }

  restart(): void {
    if (this.pair.primary.role !== 'primary') return
    const ms = between(this.#time.random, 100, 3_000)
    this.disturbed('restarts', ms)
    this.pair.restart(ms)
  }

  failOver(): void {
    if (this.pair.standby.role !== 'standby') return
    const [promotedMs, returnedMs] = [
      between(this.#time.random, 200, 4_000),
      between(this.#time.random, 200, 6_000),
    ]
    if (this.#time.random() < 0.5) this.#cutOff(this.pair.primary.name, promotedMs + returnedMs)
    this.disturbed('failovers', promotedMs + returnedMs)
    this.pair.failOver(promotedMs, returnedMs)
  }

  #partition(): void {
    const ms = between(this.#time.random, 200, 6_000)
    this.#cutOff(pick(this.#time.random, this.pair.hosts).name, ms)
    this.disturbed('partitions', ms)
  }

  #cutOff(host: string, ms: number): void {
    this.network.partition(host)
    setTimeout(() => this.network.join(host), ms)
  }

  /** Any message may be the last one of its connection, those that set it up too. */
  #storm(): void {
    this.network.silenceChance = pick(this.#time.random, [0.01, 0.05, 0.2])
    const ms = between(this.#time.random, 500, 5_000)
    this.disturbed('storms', ms)
    setTimeout(() => {
      this.network.silenceChance = 0
    }, ms)
  }

  #stall(): void {
    const ms = between(this.#time.random, 100, 3_000)
    for (const host of this.pair.hosts) host.stalledUntilMs = this.#time.ms + ms
    this.disturbed('stalls', ms)
  }
}

/** More often short than long. */
export function between(random: () => number, leastMs: number, mostMs: number): number {
  return Math.round(leastMs * (mostMs / leastMs) ** random())
}

export function pick<T>(random: () => number, from: readonly T[]): T {
  return from[Math.floor(random() * from.length)]!
}
