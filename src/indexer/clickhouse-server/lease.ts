// The writer lease: only one Sluice program writes to a ClickHouse server, a gateway or an indexer;
// the others wait. Thread: writer process; the query program, once at start, only to check.
//
//   claim ──► insert a row ──► does another live claim exist? ──► no: ours   yes: withdraw, refuse
//               ▲                                                  │
//               └───── heartbeat: repeated every beatMs ───────────┘
//
// Two writers would overwrite each other's rows. ClickHouse has no compare-and-set, but a row is
// visible to all once its insert was acknowledged: of two servers that insert first and check
// second, at least one sees the other. Times are taken from the ClickHouse server's clock; our own
// clock only measures how long ago a heartbeat was acknowledged.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Fault } from '../../base/errors.ts'
import { clickhouseString } from '../clickhouse/sql/lexer.ts'
import { heldText } from '../config.ts'
import { ClickhouseClient, leaseTable } from './schema.ts'

/** A claim without a heartbeat for this long expires. ClickHouse counts it in whole seconds. */
const lifetimeMsUsual = 15_000
const beatsPerLifetime = 5
/** ClickHouse rounds the times of a claim and of its end to seconds. */
const marginMs = 2_000
/** Two servers that claim at the same moment both withdraw, and retry after a random delay. */
const jitterMsMax = 500

/** Kind of the fault of a writer that must begin anew. */
export const supersededKind = 'clickhouse-superseded'

interface Claim {
  readonly claim: string
  readonly name: string
  /** Seconds since 1970 by the ClickHouse server's clock. */
  readonly beat: string
}

export class WriterLease {
  readonly #client: ClickhouseClient
  readonly #holder: string
  readonly #lifetimeMs: number
  /** Differs for each claim. */
  claim = ''
  #confirmedMs = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | null = null
  #beating: Promise<void> | null = null

  /** `holder` names this server to an operator, and is the same for all of its own writers. */
  constructor(client: ClickhouseClient, holder: string, lifetimeMs = lifetimeMsUsual) {
    this.#client = client
    this.#holder = holder
    this.#lifetimeMs = lifetimeMs
  }

  /** Resolves when this server has the lease. Rejects with a Fault that names the holder. */
  async acquire(): Promise<void> {
    await this.waitUntilFree()
    const sentMs = performance.now()
    this.claim = randomBytes(8).toString('hex')
    await this.#insert({ isReleased: false })
    const [other] = await this.#others()
    if (other !== undefined) {
      await this.#insert({ isReleased: true })
      await sleep(Math.random() * jitterMsMax)
      throw heldBy(other.name)
    }
    this.#confirmedMs = sentMs
    this.#timer ??= setInterval(() => this.#beat(), this.#beatMs).unref()
  }

  /**
   * Resolves when no other server has the lease: at once, or when a claim without heartbeats has
   * expired. Rejects as soon as a heartbeat of another server is seen.
   */
  async waitUntilFree(): Promise<void> {
    const seen = new Map<string, string>()
    const endMs = performance.now() + 2 * this.#lifetimeMs
    for (;;) {
      const others = await this.#others()
      if (others.length === 0) return
      for (const { claim, name, beat } of others) {
        const isAlive = seen.has(claim) && seen.get(claim) !== beat
        if (isAlive || performance.now() > endMs) throw heldBy(name)
        seen.set(claim, beat)
      }
      await sleep(this.#beatMs / 2)
    }
  }

  /** After `acquire`: runs `repair` when a writer before us died without releasing the lease. */
  async takeOver(repair: () => Promise<void>): Promise<void> {
    const dead = `FROM ${leaseTable} WHERE claim != ${clickhouseString(this.claim)}
      GROUP BY claim HAVING max(released) = 0`
    if ((await this.#client.rows(`SELECT claim ${dead}`)).length === 0) return
    await repair()
    await this.#client.run({
      sql: `INSERT INTO ${leaseTable} (claim, holder, at, released)
        SELECT claim, any(holder), max(at), 1 ${dead}`,
    })
  }

  /**
   * To be called before each write: acquires the lease again when it may have expired. Rejects for
   * good when another program had it meanwhile: what waits to be written here may be there.
   */
  async confirm(): Promise<void> {
    if (performance.now() - this.#confirmedMs <= this.#lifetimeMs / 2) return
    const [claim, holder] = [this.claim, this.#holder].map(clickhouseString)
    const [other] = await this.#client.rows<Pick<Claim, 'name'>>(
      `SELECT any(holder) AS name FROM ${leaseTable} WHERE holder != ${holder}
        AND at >= (SELECT max(at) FROM ${leaseTable} WHERE claim = ${claim}) GROUP BY claim`,
    )
    if (other !== undefined) throw heldBy(other.name, supersededKind)
    await this.acquire()
  }

  /** Throws when another program may have taken the lease, as after a pause of this process. */
  check(): void {
    if (this.#mayHaveEnded())
      throw new Fault('clickhouse-lease', 'the writer lease may have ended', { retryable: true })
  }

  async release(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    await this.#beating
    // If this fails, the claim expires after its lifetime.
    if (this.claim !== '') await this.#insert({ isReleased: true }).catch(() => {})
  }

  get #beatMs(): number {
    return this.#lifetimeMs / beatsPerLifetime
  }

  #mayHaveEnded(): boolean {
    const usableMs = Math.max(this.#lifetimeMs / 2, this.#lifetimeMs - marginMs)
    return performance.now() - this.#confirmedMs > usableMs
  }

  /** Never renews an expired lease: `confirm` looks for claims newer than the last heartbeat. */
  #beat(): void {
    if (this.#beating !== null || this.#mayHaveEnded()) return
    const sentMs = performance.now()
    const beat = async () => {
      await this.#insert({ isReleased: false })
      const isLost = (await this.#others()).length > 0
      this.#confirmedMs = isLost ? Number.NEGATIVE_INFINITY : sentMs
      if (isLost) await this.#insert({ isReleased: true })
    }
    // An unreachable server is retried with the next heartbeat.
    const ended = () => {
      this.#beating = null
    }
    this.#beating = beat().then(ended, ended)
  }

  async #insert({ isReleased }: { readonly isReleased: boolean }): Promise<void> {
    const [claim, holder] = [this.claim, this.#holder].map(clickhouseString)
    await this.#client.run({
      sql: `INSERT INTO ${leaseTable} (claim, holder, at, released)
        SELECT ${claim}, ${holder}, now(), ${isReleased ? 1 : 0}`,
    })
  }

  /** Claims of other servers that had a heartbeat within their lifetime. */
  async #others(): Promise<Claim[]> {
    const seconds = Math.ceil(this.#lifetimeMs / 1000)
    return this.#client.rows<Claim>(
      `SELECT claim, any(holder) AS name, toString(toUInt32(max(at))) AS beat FROM ${leaseTable}
        GROUP BY claim HAVING max(released) = 0 AND max(at) > now() - ${seconds}
          AND name != ${clickhouseString(this.#holder)} ORDER BY beat DESC, claim`,
    )
  }
}

/** Rejects when another server has the lease, and has sent a heartbeat. The tables must exist. */
export async function refuseSecondWriter(
  url: string,
  holder: string,
  lifetimeMs = lifetimeMsUsual,
): Promise<void> {
  const client = new ClickhouseClient(url, { connections: 1 })
  const isFree = new WriterLease(client, holder, lifetimeMs).waitUntilFree()
  try {
    // The claim of a dead one has no heartbeats; the writer waits until it has expired.
    await Promise.race([isFree, sleep((2 * lifetimeMs) / beatsPerLifetime)])
  } finally {
    await client.stop()
  }
}

function heldBy(name: string, kind = 'clickhouse-lease'): Fault {
  const advice = 'Stop it, take another server, or set indexer.write to false'
  return new Fault(kind, `${heldText}: ${name}. ${advice}`, { retryable: true })
}
