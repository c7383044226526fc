// Two hosts with PostgreSQL, a primary and its standby, with replication, failover and return.
// Synchronous: a commit is visible and answered when the standby has it. Otherwise the standby
// follows, and a failover loses what it had not received.
import { Host } from './host.ts'
import type { Network } from './network.ts'

export interface PairOptions {
  readonly network: Network
  readonly random: () => number
  readonly isSynchronous: boolean
}

export class PostgresPair {
  readonly hosts: readonly [Host, Host]
  readonly #options: PairOptions
  #isLinked = true
  #primary: Host
  /** Commits that were visible once and are not on the promoted host. */
  lost = 0

  constructor(options: PairOptions) {
    this.#options = options
    const { isSynchronous } = options
    this.hosts = [new Host('a', 'primary', isSynchronous), new Host('b', 'standby', isSynchronous)]
    this.#primary = this.hosts[0]
    for (const host of this.hosts) {
      options.network.listen(host.name, (path) => host.accept(path))
      host.onFlushed = () => this.#flushed()
    }
  }

  /** The host that is, or was last, the primary. */
  get primary(): Host {
    return this.#primary
  }

  get standby(): Host {
    return this.hosts[0] === this.#primary ? this.hosts[1] : this.hosts[0]
  }

  get isLinked(): boolean {
    return this.#isLinked
  }

  /** Whether the primary and its standby reach each other. */
  link(isLinked: boolean): void {
    this.#isLinked = isLinked
    if (isLinked) this.#replicate()
  }

  /** The primary crashes and is started again on its disk. */
  restart(afterMs: number): void {
    const host = this.#primary
    if (host.role !== 'primary') return
    host.crash()
    setTimeout(() => {
      // Unless the other one was promoted meanwhile.
      if (host !== this.#primary || host.role !== 'down') return
      host.recover('primary')
      this.#replicate()
    }, afterMs)
  }

  /** The primary is lost, its standby is promoted, and the old one returns as a standby. */
  failOver(promotedAfterMs: number, returnedAfterMs: number): void {
    const [old, next] = [this.#primary, this.standby]
    if (next.role !== 'standby') return
    if (old.role !== 'down') old.crash()
    this.#primary = next
    // Not readable as a primary yet, and connections to it are those of a standby.
    setTimeout(() => {
      this.lost += Math.max(0, old.visible - next.wal.length)
      // Sessions of a standby end, as clients that look for a primary would leave them.
      const { wal } = next
      next.crash()
      next.recover('primary', wal)
      next.timeline = old.timeline + 1
      setTimeout(() => {
        old.recover('standby', this.#primary.wal)
        old.timeline = next.timeline
        this.#replicate()
      }, returnedAfterMs)
    }, promotedAfterMs)
  }

  #flushed(): void {
    if (!this.#options.isSynchronous) this.#primary.acknowledge(this.#primary.wal.length)
    this.#replicate()
  }

  #replicate(): void {
    const [primary, standby] = [this.#primary, this.standby]
    const works = () =>
      this.#isLinked &&
      this.#primary === primary &&
      primary.role === 'primary' &&
      standby.role === 'standby'
    const { isSynchronous, random } = this.#options
    setTimeout(
      () => {
        if (!works()) return
        standby.receive(primary.wal.slice(standby.wal.length))
        const lsn = standby.wal.length
        setTimeout(
          () => {
            if (works()) primary.acknowledge(lsn)
          },
          1 + 3 * random(),
        )
      },
      1 + (isSynchronous ? 3 : 4_000) * random(),
    )
  }
}
