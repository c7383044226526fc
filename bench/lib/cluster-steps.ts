// The single steps of a cluster on a real PostgreSQL, each timed alone: a change of the registry, a
// settlement of budgets, an append to the event log. Thread: main of the bench process, in which
// both gateways run.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock as clock } from '../../src/base/clock.ts'
import { eventsLease } from '../../src/base/shared-log.ts'
import { silentLog as log } from '../../src/base/telemetry/log.ts'
import { PostgresConnection } from '../../src/customers/cluster/postgres/client.ts'
import { prepareSchema } from '../../src/customers/cluster/postgres/schema.ts'
import {
  PostgresEventLog,
  PostgresLeases,
  PostgresLedger,
} from '../../src/customers/cluster/postgres/tables.ts'
import { Latencies } from '../../src/loadtest/latencies.ts'
import { by, type Gateway, openGateway } from '../../test/cluster/gateway-stage.ts'
import { latencyUsOf, type Measurement } from './bench.ts'

export const readyMs = 20_000
const stepsMin = 20
const seenMsMax = 10_000
const leaseMs = 600_000
/** 20 kB: a block of an execution chain. */
const frames = Array.from({ length: 4 }, () => Buffer.alloc(5_000, '{"kind":"TPS"}\n'))

export async function connectTo(url: string, name: string): Promise<PostgresConnection> {
  const options = { url, name, clock, log, onConnect: prepareSchema }
  const connection = new PostgresConnection(options).start()
  if (!(await connection.ready(readyMs))) throw new Error(connection.problem)
  return connection
}

/** One step after another. A step returns the time at which its effect was there. */
async function timed(seconds: number, step: () => Promise<number>): Promise<Measurement> {
  const histogram = new Latencies()
  const startMs = performance.now()
  const endMs = startMs + seconds * 1000
  while (performance.now() < endMs || histogram.count < stepsMin) {
    const beganMs = performance.now()
    const doneMs = await step()
    histogram.record(doneMs - beganMs)
  }
  return measured(histogram, performance.now() - startMs)
}

export function measured(histogram: Latencies, elapsedMs: number): Measurement {
  return {
    opsPerSecond: (histogram.count * 1000) / elapsedMs,
    latencyUs: latencyUsOf(histogram),
    evidence: { steps: histogram.count },
  }
}

/** Two gateways that follow one registry, and the connections of ledger and event log. */
export class ClusterSteps {
  readonly #folder: string
  readonly #changing: Gateway
  readonly #following: Gateway
  readonly #connections: readonly PostgresConnection[]
  #exchanges = 0
  #changes = 0

  private constructor(
    folder: string,
    gateways: readonly [Gateway, Gateway],
    connections: readonly PostgresConnection[],
  ) {
    this.#folder = folder
    this.#changing = gateways[0]
    this.#following = gateways[1]
    this.#connections = connections
  }

  /** On a database with a registry. */
  static async start(url: string): Promise<ClusterSteps> {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-steps-'))
    const one = openGateway(url, 'one', { folder: join(folder, 'one') })
    const other = openGateway(url, 'other', { folder: join(folder, 'other') })
    await Promise.all([one.start(), other.start()])
    await accepted(one.shared.verbs.add({ label: 'changed', products: ['bundle'] }, by))
    const connections = await Promise.all([connectTo(url, 'work'), connectTo(url, 'reads')])
    return new ClusterSteps(folder, [one, other], connections)
  }

  async stop(): Promise<void> {
    await Promise.all(this.#connections.map((connection) => connection.stop()))
    await Promise.all([this.#changing.stop(), this.#following.stop()])
    rmSync(this.#folder, { recursive: true, force: true })
  }

  /** Until it is acknowledged. */
  change(seconds: number): Promise<Measurement> {
    return timed(seconds, async () => {
      await accepted(this.#note())
      return performance.now()
    })
  }

  /** Until another gateway has stored it. */
  follow(seconds: number): Promise<Measurement> {
    const { shared, store } = this.#following
    return timed(seconds, async () => {
      const text = `note ${this.#changes + 1}`
      const seen = happens((done) => {
        shared.onFollowed = () => {
          if (store.find('changed')?.note === text) done()
        }
      })
      await accepted(this.#note())
      return seen
    })
  }

  settle(seconds: number, count: number): Promise<Measurement> {
    const [work] = this.#connections
    const ledger = new PostgresLedger(work!, 'bench')
    const plan = { perSecond: 100, burst: 200, spent: 5, left: 20, wanted: 0 }
    const rows = Array.from({ length: count }, (_, index) => ({ id: `${count}/${index}`, ...plan }))
    return timed(seconds, async () => {
      this.#exchanges += 1
      const settled = await ledger.settle(this.#exchanges, rows)
      if (settled.filter(({ kind }) => kind === 'mine').length !== count)
        throw new Error(`${settled.length} rows settled instead of ${count}`)
      return performance.now()
    })
  }

  /** Until it is committed; `isFollowed`: until another connection has read it. */
  async append(seconds: number, isFollowed: boolean): Promise<Measurement> {
    const [work, reads] = this.#connections as [PostgresConnection, PostgresConnection]
    const events = new PostgresEventLog(work, 'bench')
    const leases = new PostgresLeases(work, { holder: 'bench', info: 'bench', clock })
    const [lease] = await leases.hold([eventsLease], leaseMs, 1)
    const follower = isFollowed ? new LogFollower(new PostgresEventLog(reads, 'bench')) : null
    await follower?.ready()
    let { next } = await events.head()
    const measurement = await timed(seconds, async () => {
      const last = next + frames.length - 1
      const read = follower?.read(last)
      if (!(await events.append(lease!, next, frames))) throw new Error('append refused')
      next = last + 1
      return read ?? performance.now()
    })
    follower?.stop()
    return measurement
  }

  #note() {
    this.#changes += 1
    const note = { kind: 'other', text: `note ${this.#changes}` } as const
    return this.#changing.shared.verbs.addNote('changed', note, by)
  }
}

/** Reads what was appended at each notification, as a gateway does that follows. */
class LogFollower {
  readonly stop: () => void
  readonly #events: PostgresEventLog
  #last = 0
  #done = () => {}

  constructor(events: PostgresEventLog) {
    this.#events = events
    this.stop = events.onNews(async () => {
      const last = this.#last
      const found = await events.after(last - frames.length, frames.length)
      if (found.at(-1)?.seq === last && last === this.#last) this.#done()
    })
  }

  /** Answered after LISTEN on the same connection: no notification from then on is missed. */
  async ready(): Promise<void> {
    await this.#events.head()
  }

  /** When the frame of that number was read. */
  read(last: number): Promise<number> {
    this.#last = last
    return happens((done) => {
      this.#done = done
    })
  }
}

/** When `done` was called. */
function happens(start: (done: () => void) => void): Promise<number> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('never seen')), seenMsMax)
    start(() => {
      clearTimeout(timer)
      resolve(performance.now())
    })
  })
}

type Answered = Promise<{ ok: true } | { ok: false; refusal: { message: string } }>

async function accepted(change: Answered): Promise<void> {
  const outcome = await change
  if (!outcome.ok) throw new Error(outcome.refusal.message)
}
