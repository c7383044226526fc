// The deadline of leases, by a clock that the test moves.
import { describe, expect, it } from 'vitest'
import { LeaseKeeper } from '../../../../src/customers/cluster/lease-keeper.ts'
import { FakeClock } from '../../../testkit/fake-senders.ts'
import { until } from '../../../testkit/until.ts'

const ttlMs = 2_000

async function open({ wanted = ['one'], live = 1, giveBack = async () => {} } = {}) {
  const clock = new FakeClock()
  let answer = Promise.resolve()
  let asked: readonly string[] = []
  const keeper = new LeaseKeeper({
    leases: {
      async hold(names) {
        const untilMs = clock.monotonicMs() + ttlMs
        asked = names
        await answer
        return names.map((name) => ({ name, term: 7, untilMs }))
      },
      giveBack,
      rankOf: async () => ({ live, before: 0 }),
    },
    clock,
    kind: 'shred',
    session: 'here',
    ttlMs,
  })
  const changes: boolean[] = []
  keeper.start({
    wanted: () => wanted,
    onChanged: (name) => changes.push(keeper.isHeld(name)),
    onDeadline: () => {},
  })
  await keeper.tick()
  return {
    clock,
    keeper,
    changes,
    asked: () => asked,
    wait(until: Promise<void>) {
      answer = until
    },
  }
}

describe('a lease', () => {
  it('is not held from its deadline on, before anything ticks', async () => {
    const { clock, keeper, changes } = await open()
    expect([keeper.termOf('one'), keeper.size]).toEqual([7, 1])
    clock.ms += ttlMs
    expect([keeper.termOf('one'), keeper.isHeld('one'), keeper.size]).toEqual([null, false, 0])
    await keeper.stop()
    expect(changes).toEqual([true, false])
  })

  it('is reported as lost and held again when it is renewed after its deadline', async () => {
    const { clock, keeper, changes, wait } = await open()
    let answerNow = () => {}
    wait(
      new Promise((resolve) => {
        answerNow = resolve
      }),
    )
    clock.ms += ttlMs - 1
    const renewing = keeper.tick()
    clock.ms += 1
    expect(keeper.isHeld('one')).toBe(false)
    answerNow()
    await renewing
    expect(keeper.isHeld('one')).toBe(true)
    expect(changes).toEqual([true, false, true])
    await keeper.stop()
  })

  it('whose return has no answer is not renewed or used until its term is over', async () => {
    let sentMs = Number.POSITIVE_INFINITY
    const giveBack = () => {
      sentMs = performance.now()
      return Promise.reject(new Error('no answer'))
    }
    const { keeper, asked } = await open({ wanted: ['one', 'two'], live: 2, giveBack })
    await until(async () => {
      await keeper.tick()
      if (!keeper.isHeld('two')) expect(asked()).toEqual(['shred/one'])
      return keeper.isHeld('two')
    }, 'the lease')
    expect(performance.now() - sentMs).toBeGreaterThan(ttlMs - 10)
    await keeper.stop()
  })
})
