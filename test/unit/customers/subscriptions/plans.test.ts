import { describe, expect, it } from 'vitest'
import {
  plansSection,
  standardPlan,
  unlimitedPlan,
} from '../../../../src/customers/subscriptions/plans.ts'

describe('built-in plans', () => {
  it('standard has the published quotas', () => {
    expect(standardPlan).toEqual({
      creditsPerSecond: 100,
      burst: 200,
      creditsPer30Days: 50_000_000,
      weights: {
        getMultipleAccounts: 2,
        'getTokenAccounts*': 2,
        getTransaction: 5,
        getSignaturesForAddress: 5,
        getBlock: 5,
        simulateTransaction: 5,
        sendTransaction: 5,
        getProgramAccounts: 25,
      },
      methodCallsPerSecond: { sendTransaction: 20, getProgramAccounts: 5 },
      connections: 100,
      subscriptionsPerConnection: 200,
      distinctSubscriptions: 2000,
      notificationBytesPerSecond: 64_000_000,
      streams: 20,
      filterKeys: 100_000,
      callsInFlight: 100,
      batchItems: 100,
      indexer: {
        timeMs: 10_000,
        rows: 100_000,
        resultBytes: 64_000_000,
        memoryBytes: 512_000_000,
        queries: 2,
        queued: 16,
        queueMs: 2_000,
      },
    })
  })

  it('unlimited has no limit on use', () => {
    expect(unlimitedPlan).toMatchObject({ creditsPerSecond: 0, creditsPer30Days: 0, streams: 0 })
  })

  it('both exist without being configured, within the bounds of their fields', () => {
    expect(Object.keys(plansSection.initial)).toEqual(['standard', 'unlimited'])
    const { indexer, ...fields } = plansSection.of.fields
    for (const plan of Object.values(plansSection.initial)) {
      for (const [key, field] of Object.entries(fields))
        expect(field.parse(plan[key as keyof typeof fields])).toMatchObject({ ok: true })
      for (const [key, field] of Object.entries(indexer.fields))
        expect(field.parse(plan.indexer[key as keyof typeof indexer.fields])).toMatchObject({
          ok: true,
        })
    }
  })
})
