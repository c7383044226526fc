// Shares of a budget: all gateways together stay within the plan, and one of them can use it all.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Fault } from '../../../../src/base/errors.ts'
import type { SettledRow } from '../../../../src/customers/cluster/ports.ts'
import { type Share, Shares } from '../../../../src/customers/cluster/shares.ts'
import { LedgerModel } from '../../../testkit/ledger-model.ts'

const stepMs = 5

interface Plan {
  readonly perSecond: number
  readonly burst: number
}

/** Gateways around one ledger, on a clock that the test moves. */
class Simulation {
  readonly ledger = new LedgerModel()
  readonly shares: Shares[]
  readonly buckets: Share[]
  nowMs = 1_000
  admitted = 0
  isCut = (_gateway: number) => false
  #answers: { readonly dueMs: number; answer(): void }[] = []

  constructor(plan: Plan, count: number, latencyMs: () => number) {
    this.shares = Array.from({ length: count }, (_, gateway) => {
      const settle = (number: number, rows: Parameters<LedgerModel['settle']>[2]) =>
        new Promise<SettledRow[]>((resolve, reject) => {
          const after = (ms: number, answer: () => void) =>
            this.#answers.push({ dueMs: this.nowMs + ms, answer })
          const fail = () => reject(new Fault('cluster', 'cut', { retryable: true }))
          if (this.isCut(gateway)) return after(500, fail)
          const [there, back] = [latencyMs(), latencyMs()]
          after(there, () => {
            const settled = this.ledger.settle(`g${gateway}`, number, rows, this.nowMs)
            after(back, () => (this.isCut(gateway) ? fail() : resolve(settled)))
          })
        })
      const clock = { nowMs: () => this.nowMs, monotonicMs: () => this.nowMs }
      return new Shares({ ledger: { settle }, clock })
    })
    this.buckets = this.shares.map((shares) => shares.bucketOf('s', plan))
  }

  /** All gateways run idle until each knows the others. */
  async settleIn(): Promise<void> {
    await this.run(1_000, () => {})
  }

  async run(ms: number, step: (elapsedMs: number) => void): Promise<void> {
    const startMs = this.nowMs
    for (const endMs = startMs + ms; this.nowMs < endMs; ) {
      this.nowMs += stepMs
      for (const answer of this.#answers.splice(0)) {
        if (answer.dueMs <= this.nowMs) answer.answer()
        else this.#answers.push(answer)
      }
      await new Promise((resolve) => setImmediate(resolve))
      if (this.nowMs % 100 === 0) for (const shares of this.shares) void shares.tick()
      step(this.nowMs - startMs)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  /** Spends as much as one gateway admits now, up to `most`; returns it. */
  spend(gateway: number, most: number, cost = 1): number {
    const bucket = this.buckets[gateway]!
    let spent = 0
    while (spent + cost <= most && bucket.waitMs(cost, this.nowMs) === 0) {
      bucket.take(cost, this.nowMs)
      spent += cost
    }
    this.admitted += spent
    return spent
  }
}

const randomOf = (seed: number) => {
  let state = seed | 1
  return () => {
    state = Math.imul(state ^ (state << 13), 1)
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}

test('all gateways together admit at most the plan and 5 % of its burst, however callers move', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        gateways: fc.integer({ min: 1, max: 4 }),
        perSecond: fc.constantFrom(10, 100, 1_000),
        seconds: fc.constantFrom(1, 2, 5),
        seed: fc.integer(),
        // Which gateways are asked in each tenth of a second, and how hard.
        load: fc.array(fc.record({ mask: fc.nat(15), most: fc.constantFrom(1, 20, 5_000) }), {
          minLength: 5,
          maxLength: 60,
        }),
      }),
      async ({ gateways, perSecond, seconds, seed, load }) => {
        const burst = perSecond * seconds
        const random = randomOf(seed)
        const simulation = new Simulation({ perSecond, burst }, gateways, () => random() * 20)
        await simulation.settleIn()
        await simulation.run(load.length * 100, (elapsedMs) => {
          const { mask, most } = load[Math.min(load.length - 1, Math.floor(elapsedMs / 100))]!
          for (let gateway = 0; gateway < gateways; gateway++)
            if ((mask >> gateway) & 1) simulation.spend(gateway, most)
          const bound = burst * 1.05 + (perSecond * elapsedMs) / 1000
          expect(simulation.admitted).toBeLessThanOrEqual(bound + 1)
        })
      },
    ),
    { numRuns: process.env.SLUICE_CLUSTER_FULL === '1' ? 1_000 : 60, seed: 7 },
  )
})

test('one gateway of three uses at least 97 % of the plan, and three together as well', async () => {
  for (const asked of [[0], [0, 1, 2]]) {
    const simulation = new Simulation({ perSecond: 100, burst: 200 }, 3, () => 5)
    await simulation.settleIn()
    await simulation.run(6_000, () => {
      for (const gateway of asked) simulation.spend(gateway, 5_000)
    })
    expect(simulation.admitted).toBeGreaterThanOrEqual(800 * 0.97)
    expect(simulation.admitted).toBeLessThanOrEqual(810)
  }
})

test('a client that hops between gateways uses at least 90 % of the plan', async () => {
  const simulation = new Simulation({ perSecond: 100, burst: 200 }, 3, () => 5)
  await simulation.settleIn()
  await simulation.run(6_000, (elapsedMs) => {
    simulation.spend(Math.floor(elapsedMs / 500) % 3, 5_000)
  })
  expect(simulation.admitted).toBeGreaterThanOrEqual(800 * 0.9)
  expect(simulation.admitted).toBeLessThanOrEqual(810)
})

test('admits a third of the burst at once before the first exchange, the rest soon after', async () => {
  const simulation = new Simulation({ perSecond: 100, burst: 300 }, 3, () => 5)
  await simulation.settleIn()
  expect(simulation.spend(0, 5_000)).toBe(100)
  await simulation.run(600, () => simulation.spend(0, 5_000))
  expect(simulation.admitted).toBeGreaterThanOrEqual(300)
})

test('without PostgreSQL its last share goes on, and others have at most the whole plan', async () => {
  const simulation = new Simulation({ perSecond: 100, burst: 200 }, 2, () => 5)
  await simulation.settleIn()
  await simulation.run(3_000, () => {
    for (const gateway of [0, 1]) simulation.spend(gateway, 5_000)
  })
  simulation.isCut = () => true
  const before = simulation.admitted
  await simulation.run(10_000, () => {
    for (const gateway of [0, 1]) simulation.spend(gateway, 5_000)
  })
  const meanwhile = simulation.admitted - before
  // Each has half of the rate: together the plan, as before.
  expect(meanwhile).toBeGreaterThanOrEqual(900)
  expect(meanwhile).toBeLessThanOrEqual(1_010)
  // A subscription that was never exchanged has its whole plan on each gateway.
  const fresh = simulation.shares.map((shares) => shares.bucketOf('t', { perSecond: 1, burst: 50 }))
  expect(fresh.map((share) => share.available(simulation.nowMs))).toEqual([50, 50])
  simulation.isCut = () => false
  await simulation.run(2_000, () => {})
  const back = simulation.admitted
  await simulation.run(10_000, () => simulation.spend(0, 5_000))
  const rate = (simulation.admitted - back) / 10
  expect(rate).toBeGreaterThan(95)
  expect(rate).toBeLessThan(125)
})

test('after an outage nobody is refused who stayed below the plan, and a burst still counts', async () => {
  for (const asked of [[0], [0, 1]]) {
    const simulation = new Simulation({ perSecond: 50, burst: 200 }, 2, () => 5)
    await simulation.settleIn()
    const each = () => {
      for (const gateway of asked)
        if (simulation.nowMs % (100 * asked.length) === 0)
          expect(simulation.spend(gateway, 2), `at ${simulation.nowMs}`).toBe(2)
    }
    await simulation.run(3_000, each)
    simulation.isCut = () => true
    await simulation.run(20_000, each)
    simulation.isCut = () => false
    await simulation.run(5_000, each)
    // What was refilled is there, and no more than that.
    await simulation.run(500, () => {})
    const before = simulation.admitted
    await simulation.run(2_000, () => {
      for (const gateway of asked) simulation.spend(gateway, 5_000)
    })
    expect(simulation.admitted - before).toBeGreaterThanOrEqual((200 + 100) * 0.9)
    expect(simulation.admitted - before).toBeLessThanOrEqual(200 * 1.05 + 100 + 1)
  }
})

test('a burst during an outage is not forgiven after it', async () => {
  const simulation = new Simulation({ perSecond: 10, burst: 200 }, 1, () => 5)
  await simulation.settleIn()
  simulation.spend(0, 2)
  await simulation.run(3_000, () => {})
  simulation.isCut = () => true
  await simulation.run(20_000, () => {})
  expect(simulation.spend(0, 5_000)).toBe(200)
  simulation.isCut = () => false
  const before = simulation.admitted
  await simulation.run(3_000, () => simulation.spend(0, 5_000))
  expect(simulation.admitted - before).toBeLessThanOrEqual(30 + 200 * 0.05 + 1)
})

test('a repeated exchange counts once', () => {
  const ledger = new LedgerModel()
  const row = { id: 's', perSecond: 1, burst: 100, spent: 30, left: 0, wanted: 0 }
  const [, first] = ledger.settle('a', 1, [row], 1_000)
  const [, again] = ledger.settle('a', 1, [row], 1_000)
  expect([first?.debt, again?.debt]).toEqual([30, 30])
})

test('a gateway that is asked again after a second has no more than the ledger knows of', async () => {
  const simulation = new Simulation({ perSecond: 100, burst: 100 }, 2, () => 5)
  await simulation.settleIn()
  let elapsedMs = 0
  const bound = () => 105 + elapsedMs / 10
  await simulation.run(4_000, (ms) => {
    elapsedMs = ms
    simulation.spend(0, 5_000)
    // Both at first; the second one pauses, so that its share is not exchanged any more.
    if (ms < 1_000 || ms > 2_900) simulation.spend(1, 5_000)
    expect(simulation.admitted).toBeLessThanOrEqual(bound() + 1)
  })
  expect(simulation.admitted).toBeGreaterThanOrEqual(450)
})
