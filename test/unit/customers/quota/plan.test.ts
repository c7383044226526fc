import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { Plan } from '../../../../src/customers/quota/budget.ts'
import { standardPlan } from '../../../../src/customers/subscriptions/plans.ts'

describe('the rules of a plan', () => {
  it('match the exact name first, then the longest prefix', () => {
    const weights = { 'get*': 3, 'getToken*': 4, getTokenSupply: 5 }
    const plan = new Plan({
      ...standardPlan,
      weights,
      methodCallsPerSecond: { 'getToken*': 7, getSlot: 8 },
    })
    const rateOf = (method: string) => plan.caps[plan.rule(method).cap]
    expect(plan.rule('getTokenSupply').weight).toBe(5)
    expect(rateOf('getTokenSupply')).toBe(7)
    expect(plan.rule('getTokenAccounts').weight).toBe(4)
    expect(plan.rule('getSlot').weight).toBe(3)
    expect(rateOf('getSlot')).toBe(8)
    expect(plan.rule('sendTransaction')).toEqual({ weight: 1, cap: -1 })
  })

  it('do not store method names from requests', () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const plan = new Plan(standardPlan)
    const heapBytes = () => {
      collect()
      return process.memoryUsage().heapUsed
    }
    const before = heapBytes()
    // A short name sliced from a long request would keep the whole request in memory as well.
    for (let at = 0; at < 500; at++) {
      const body = Buffer.alloc(50_000, `${at} noSuchMethod `).toString('latin1')
      plan.rule(body)
      plan.rule(body.slice(10_000, 10_020))
    }
    expect(heapBytes() - before).toBeLessThan(5_000_000)
    expect(plan.rule('getProgramAccounts').weight).toBe(25)
  })
})
