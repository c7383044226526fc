// What a slot brings to confirmed and finalized is sent in slices: slots are not behind it, the
// order stays, and whoever resumes or falls behind between two slices has everything once.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Commitment } from '../../../../src/base/commitment.ts'
import { slotUpdate } from '../../../../src/chain/solana/received-batch.ts'
import { type SolanaUpdate, slotStatus } from '../../../../src/chain/solana/updates.ts'
import type { Budget } from '../../../../src/customers/quota/budget.ts'
import { SlicedUpdates } from '../../../../src/streams/pubsub/engine.ts'
import type { LooseSession } from '../../../testkit/loose-session.ts'
import { PubsubGateway, paramsOf, resumable } from '../../../testkit/pubsub-gateway.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'
import { until } from '../../../testkit/until.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))
const options = { seed: 7, accounts: 12, transactionsPerSlot: 30, finalizedAfter: 3 }
const chain = new SyntheticSolana(options)
const slots = Array.from({ length: 9 }, () => chain.next())

const sent = ({ told }: LooseSession) =>
  told
    .map((text) => JSON.parse(text))
    .filter(({ method }) => method !== 'behindNotification')
    .map(({ params }) => params)
/** Roots in slot notifications are those of the moment. */
const results = (session: LooseSession) =>
  sent(session).map(({ result }) =>
    typeof result === 'object' ? { ...result, root: undefined } : result,
  )

beforeEach(() => {
  // A slice ends after a few updates, on every machine.
  let nowMs = performance.now()
  vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 0.05))
})
afterEach(() => {
  vi.restoreAllMocks()
})

describe('a slot with many transactions', () => {
  it('is sent in its order over many turns, and later slots are notified in between', async () => {
    const gateway = new PubsubGateway()
    const [reader, other] = [gateway.connect(), gateway.connect()]
    const config = { commitment: 'confirmed' }
    gateway.ask(reader, 'transaction', paramsOf('transaction', config))
    gateway.ask(other, 'slot', [])
    gateway.publish([...slots[0]!, ...slots[1]!])
    const told = other.told.length
    expect(reader.told.length).toBeGreaterThan(0)
    expect(reader.told.length).toBeLessThan(options.transactionsPerSlot)
    await turn()
    const moment = { slot: 5_000, createdAtMs: 0 }
    gateway.publish([slotUpdate(moment, { parent: 4_999, status: slotStatus.createdBank })])
    expect(other.told.length).toBe(told + 1)
    expect(reader.told.length).toBeLessThan(options.transactionsPerSlot)
    await until(() => reader.told.length === options.transactionsPerSlot, 'all of them')
    const indexes = results(reader).map(({ transactionIndex }) => transactionIndex)
    expect(indexes).toEqual(indexes.map((_, at) => at))
  })

  it('has its block time although a finalized slot is not kept any more', async () => {
    const gateway = new PubsubGateway()
    const reader = gateway.connect()
    gateway.ask(reader, 'transaction', paramsOf('transaction', { commitment: 'finalized' }))
    gateway.publish(slots.flat())
    const isFinalized = (one: SolanaUpdate) =>
      one.kind === 'slot' && one.status === slotStatus.finalized
    const count = slots.flat().filter(isFinalized).length * options.transactionsPerSlot
    await until(() => reader.told.length === count, 'all of them')
    for (const { blockTime } of results(reader)) expect(blockTime).toEqual(expect.any(Number))
  })

  it('is sent before the chain begins anew', async () => {
    const gateway = new PubsubGateway()
    const reader = gateway.connect()
    gateway.ask(reader, 'transaction', paramsOf('transaction', { commitment: 'confirmed' }))
    gateway.publish([...slots[0]!, ...slots[1]!])
    gateway.hub.restart()
    expect(reader.told.length).toBe(options.transactionsPerSlot)
    gateway.publish([...slots[0]!, ...slots[1]!])
    await until(() => reader.told.length === 2 * options.transactionsPerSlot, 'both')
  })
})

describe.each(resumable)('%sSubscribe at %s', (topic, commitment) => {
  it('has everything once after a cursor, or behind, between two slices', async () => {
    const gateway = new PubsubGateway()
    const [stayed, slow] = [gateway.connect(), gateway.connect()]
    const oracle = new PubsubGateway()
    const told = oracle.connect()
    let isStalled = false
    slow.hasRoom = () => !isStalled
    const asked = paramsOf(topic, { commitment, cursor: true })
    for (const session of [stayed, slow]) gateway.ask(session, topic, asked)
    oracle.ask(told, topic, asked)
    oracle.publish(slots.flat())
    // Takes what waits, at once.
    oracle.hub.restart()
    const all = results(told)
    expect(all.length).toBeGreaterThan(5)
    const resumed: { session: LooseSession; after: number }[] = []
    for (const [at, slot] of slots.entries()) {
      gateway.publish(slot)
      for (let turns = 0; turns < at % 4; turns++) await turn()
      isStalled = at % 3 === 0
      if (isStalled) slow.engine.fallBehind(slow)
      const resume = sent(stayed).at(-1)?.cursor
      if (resume === undefined || at % 2 === 0) continue
      const session = gateway.connect()
      gateway.ask(session, topic, paramsOf(topic, { commitment, resume }))
      resumed.push({ session, after: stayed.told.length })
      await turn()
    }
    isStalled = false
    await until(() => slow.topics.size > 0, 'the slow one to be live')
    await until(() => resumed.every(({ session }) => session.topics.size > 0), 'all to be live')
    const readers = [{ session: stayed, after: 0 }, { session: slow, after: 0 }, ...resumed]
    const hasAll = ({ session, after }: (typeof readers)[number]) =>
      sent(session).length >= all.length - after
    await until(() => readers.every(hasAll), 'all of it')
    for (const { session, after } of readers) expect(results(session)).toEqual(all.slice(after))
  })
})

it('falls behind after any update of a slot, and has everything once', async () => {
  let nowMs = performance.now()
  // Each slice is of one update.
  vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 1))
  const gateway = new PubsubGateway()
  const asked = paramsOf('transaction', { commitment: 'confirmed', cursor: true })
  const sessions = Array.from({ length: 300 }, () => gateway.connect())
  let isStalled = true
  for (const session of sessions) {
    session.hasRoom = () => !isStalled
    gateway.ask(session, 'transaction', asked)
  }
  gateway.publish(slots.slice(0, 4).flat())
  for (const session of sessions) {
    session.engine.fallBehind(session)
    await turn()
  }
  isStalled = false
  const count = 3 * options.transactionsPerSlot
  await until(() => sessions.every((one) => sent(one).length >= count), 'all of it')
  const indexes = Array.from({ length: count }, (_, at) => at % options.transactionsPerSlot)
  for (const session of sessions)
    expect(results(session).map(({ transactionIndex }) => transactionIndex)).toEqual(indexes)
})

it('ends with its feed when what waited is too much for its customer', async () => {
  const gateway = new PubsubGateway()
  const asked = (more: object) => paramsOf('transaction', { commitment: 'confirmed', ...more })
  const first = gateway.connect()
  gateway.ask(first, 'transaction', asked({ cursor: true }))
  gateway.publish(slots.slice(0, 3).flat())
  await until(() => sent(first).length > 0, 'a cursor')
  const second = gateway.connect(first.budget as Budget)
  gateway.ask(second, 'transaction', asked({ resume: sent(first)[0].cursor }))
  const { engine } = second
  const catchUp = engine.catchUp.bind(engine)
  vi.spyOn(engine, 'catchUp').mockImplementation(() => {
    // From here on it is over its rate.
    vi.spyOn(first.budget, 'chargeNotification').mockReturnValue(false)
    gateway.publish(slots[3]!)
    catchUp()
  })
  await until(() => first.told.some((text) => text.includes('has ended')), 'its end')
  for (let turns = 0; turns < 5; turns++) await turn()
  expect(second.topics.size).toBe(0)
  expect(engine.unsubscribe(second, 1)).toBe(false)
})

describe('updates that wait', () => {
  const update = (slot: number) =>
    slotUpdate({ slot, createdAtMs: 0 }, { parent: 0, status: slotStatus.processed })

  it('are bounded: the oldest are taken at once, in their order', () => {
    const taken: unknown[] = []
    const sliced = new SlicedUpdates((_, one) => taken.push(one))
    const added = Array.from({ length: 70_000 }, () => update(1))
    for (const one of added) sliced.add(Commitment.confirmed, one, 9)
    expect(taken.length).toBe(70_000 - 65_536)
    expect(sliced.oldestEra).toBe(9)
    sliced.finish()
    expect(taken.length).toBe(added.length)
    expect(taken.every((one, at) => one === added[at])).toBe(true)
    expect(sliced.oldestEra).toBeNull()
  })

  it('are taken once when taking one of them finishes the rest', () => {
    const taken: unknown[] = []
    const sliced: SlicedUpdates = new SlicedUpdates((_, one) => {
      taken.push(one)
      sliced.finish()
    })
    const added = Array.from({ length: 200 }, () => update(1))
    for (const one of added) sliced.add(Commitment.confirmed, one, 0)
    sliced.finish()
    expect(taken).toEqual(added)
  })
})
