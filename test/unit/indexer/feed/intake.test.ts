import { describe, expect, test } from 'vitest'
import { unackedBytesMax } from '../../../../src/indexer/config.ts'
import type { Delivery, Parcel } from '../../../../src/indexer/engine.ts'
import type { UsageFact } from '../../../../src/indexer/feed-items.ts'
import { Intake, type IntakeDeps, type Sending } from '../../../../src/indexer/program.ts'
import type { Taken } from '../../../../src/indexer/writer.ts'
import { HandClock } from '../../../testkit/fake-execution.ts'
import { until } from '../../../testkit/until.ts'

const clock = new HandClock()

function event(seq: number, bytes = 1): Parcel {
  const content = { seq, kind: 'TPS', payload: Buffer.from('400'), facts: null }
  const cursor = { run: 'a', seq }
  return { feed: 'events', content, bytes, sinceMs: clock.monotonicMs(), mark: seq, cursor }
}

function stage(deps: Partial<IntakeDeps> = {}) {
  const calls: string[] = []
  const taken: { delivery: Delivery; settle(outcome: Taken): void }[] = []
  const durable: Sending[] = []
  const lost: [string, number][] = []
  const intake = new Intake({
    writer: {
      take: (delivery) => new Promise((settle) => taken.push({ delivery, settle })),
      flush: async () => {},
    },
    pause: () => void calls.push('pause'),
    resume: () => void calls.push('resume'),
    lost: (feed, count) => void lost.push([feed, count]),
    dropped: (_, reason) => void calls.push(reason),
    durable: (sending) => void durable.push(sending),
    ...{ skip: [], careful: null, trying: async () => {}, marksFacts: true },
    clock,
    ...deps,
  })
  const settle = async (outcome: Taken = { isWritten: true }) => {
    taken.shift()!.settle(outcome)
    await new Promise((resolve) => setImmediate(resolve))
  }
  return { intake, calls, taken, durable, lost, settle }
}

describe('the intake', () => {
  test('gathers parcels, and says how far the feeds are once they are durable', async () => {
    const { intake, taken, durable, settle } = stage()
    for (const seq of [1, 2, 3]) intake.add(event(seq))
    clock.advance(40)
    expect(intake.lagMs()).toBe(40)
    await until(() => taken.length === 1, 'the delivery')
    expect(taken[0]!.delivery.marks).toEqual({ events: 3 })
    expect(durable).toEqual([])
    await settle()
    expect(durable[0]!.cursors).toEqual({ events: { run: 'a', seq: 3 } })
    expect([intake.lagMs(), intake.unackedBytes]).toEqual([0, 0])
  })

  test('marks the facts of each run of a gateway where another program may go on', async () => {
    const fact = (run: string, seq: number): Parcel => ({
      ...{ feed: 'usage', content: {} as UsageFact, bytes: 1, sinceMs: 0, mark: null },
      cursor: { run, seq },
    })
    for (const marksFacts of [true, false]) {
      const { intake, taken, durable, settle } = stage({ marksFacts })
      for (const parcel of [event(1), fact('a', 1), fact('b', 7), fact('a', 2)]) intake.add(parcel)
      await until(() => taken.length === 1, 'the delivery')
      const facts = { 'usage a': 2, 'usage b': 7 }
      expect(taken[0]!.delivery.marks).toEqual({ events: 1, ...(marksFacts && facts) })
      await settle()
      expect(durable[0]!.cursors).toEqual({ events: { run: 'a', seq: 1 }, ...facts })
    }
  })

  test('pauses the feeds while too much is not durable, until half of it is', async () => {
    const { intake, calls, settle } = stage()
    const part = unackedBytesMax / 8
    for (let seq = 1; seq <= 8; seq++) intake.add(event(seq, part))
    expect(calls).toEqual(['pause'])
    for (let left = 3; left > 0; left--) await settle()
    expect(calls).toEqual(['pause'])
    await settle()
    expect(calls).toEqual(['pause', 'resume'])
  })

  test('counts what the writer rejects', async () => {
    const { intake, calls, taken, durable, lost, settle } = stage()
    for (const seq of [1, 2]) intake.add(event(seq))
    await until(() => taken.length === 1, 'the delivery')
    await settle({ rejected: 'a bad row' })
    expect(durable).toEqual([])
    expect(lost).toEqual(Array(2).fill(['events', 1]))
    expect(calls).toEqual(['a bad row'])
  })

  test('tries parcels one at a time after deaths, names each before, and skips what kills', async () => {
    const names: (string | null)[] = []
    const trying = async (name: string | null) => void names.push(name)
    const { intake, taken, calls, lost, settle } = stage({ skip: ['events 2'], careful: 1, trying })
    for (const seq of [1, 2, 3]) intake.add(event(seq))
    expect(intake.isCareful).toBe(true)
    await until(() => taken.length === 1, 'the first')
    expect(names).toEqual(['events 1'])
    await settle()
    await until(() => taken.length === 1, 'the one that kills')
    expect(taken[0]!.delivery).toEqual({ parcels: [], marks: { events: 2 } })
    await settle()
    expect([lost, calls]).toEqual([[['events', 1]], ['writers ended over it']])
    await until(() => taken.length === 1, 'the next')
    expect(names).toEqual(['events 1', null, 'events 3'])
    await settle()
    expect(intake.unackedBytes).toBe(0)
  })

  test('writes groups one at a time after fewer deaths, then as many at once as there are', async () => {
    const names: (string | null)[] = []
    const trying = async (name: string | null) => void names.push(name)
    const { intake, taken, settle } = stage({ careful: 16, trying })
    const groups = 256
    for (let seq = 1; seq <= 16 * groups + 1_000; seq++) intake.add(event(seq))
    // Behind the timer of the intake, which hands over the last ones.
    await new Promise((resolve) => setTimeout(resolve, 10))
    for (let group = 0; group < groups; group++) {
      await until(() => taken.length > 0, 'a group')
      expect([taken.length, taken[0]!.delivery.parcels.length]).toEqual([1, 16])
      await settle()
    }
    await until(() => taken.length > 0, 'those that came meanwhile')
    expect(taken[0]!.delivery.parcels.length).toBe(1_000)
    expect(intake.isCareful).toBe(true)
    await settle()
    await until(() => !intake.isCareful, 'normal operation')
    expect(names).toEqual([])
  })

  test('leaves out what kills in normal operation, too, and counts it', async () => {
    const { intake, taken, durable, lost, settle } = stage({ skip: ['events 2'] })
    for (const seq of [1, 2, 3]) intake.add(event(seq))
    await until(() => taken.length === 1, 'the delivery')
    expect(taken[0]!.delivery.parcels.map(({ mark }) => mark)).toEqual([1, 3])
    await settle()
    expect([durable.length, lost]).toEqual([1, [['events', 1]]])
  })
})
