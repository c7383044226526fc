// Connections that read too slowly: subscriptions with cursors leave the live ones, continue from
// what is kept when there is room, and have everything once. On sessions without sockets.
import { describe, expect, it, vi } from 'vitest'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import type { SolanaUpdate } from '../../../../src/chain/solana/updates.ts'
import { budgetOn, type LooseSession } from '../../../testkit/loose-session.ts'
import {
  chainKeys,
  PubsubGateway,
  paramsOf,
  resumable,
  roomy,
  slotsOf,
} from '../../../testkit/pubsub-gateway.ts'
import { until } from '../../../testkit/until.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))
const messages = ({ told }: LooseSession) => told.map((text) => JSON.parse(text))
const results = (session: LooseSession) =>
  messages(session)
    .filter(({ method }) => method !== 'behindNotification')
    .map(({ params }) => params.result)
const notices = (session: LooseSession) =>
  messages(session)
    .filter(({ method }) => method === 'behindNotification')
    .map(({ params }) => params.result)
/** Roots in slot notifications are those of the moment. */
const withoutRoot = (result: unknown) =>
  typeof result === 'object' ? { ...result, root: undefined } : result

describe.each(resumable)('%sSubscribe at %s', (topic, commitment) => {
  it('has everything once after it has fallen behind, wherever that was', async () => {
    const slots = slotsOf(24).flat()
    const gateway = new PubsubGateway()
    const [stayed, slow] = [gateway.connect(), gateway.connect()]
    let isStalled = false
    slow.hasRoom = () => !isStalled
    for (const session of [stayed, slow])
      expect(gateway.ask(session, topic, paramsOf(topic, { commitment, cursor: true })).kind).toBe(
        'text',
      )
    const step = Math.ceil(slots.length / 17)
    for (const [at, update] of slots.entries()) {
      gateway.publish([update])
      if (at % step !== step - 1) continue
      isStalled = !isStalled
      const before = slow.told.length
      if (isStalled) slow.engine.fallBehind(slow)
      else await until(() => slow.told.length > before || slow.topics.size > 0, 'some room')
      await turn()
    }
    isStalled = false
    await until(() => results(slow).length >= results(stayed).length, 'the rest')
    await turn()
    expect(results(slow).map(withoutRoot)).toEqual(results(stayed).map(withoutRoot))
    const told = notices(slow)
    expect(told.length).toBeGreaterThan(1)
    expect(told[0]).toMatchObject({ isBehind: true, slot: expect.any(Number), subscriptions: [1] })
    expect(told.filter(({ isBehind }) => !isBehind).length).toBeGreaterThan(0)
    expect(notices(stayed)).toEqual([])
  })
})

describe('a connection that reads too slowly', () => {
  const params = { commitment: 'processed', cursor: true }

  it('has nothing to continue without a cursor', () => {
    const gateway = new PubsubGateway()
    const session = gateway.connect()
    gateway.ask(session, 'logs', ['all', { commitment: 'processed' }])
    gateway.publish(slotsOf(3).flat())
    expect(session.engine.canFallBehind(session)).toBe(false)
    expect(session.engine.fallBehind(session)).toBe(false)
    expect(notices(session)).toEqual([])
  })

  it('is not searched for cursors among subscriptions that have none, or are behind', () => {
    const gateway = new PubsubGateway()
    const session = gateway.connect()
    session.hasRoom = () => false
    const ask = (at: number, config: object) => {
      const slice = { dataSlice: { offset: 0, length: 1 + at } }
      gateway.ask(session, 'program', paramsOf('program', { ...config, ...slice }))
    }
    for (let at = 0; at < 50; at++) ask(at, { commitment: 'processed' })
    ask(0, params)
    gateway.publish(slotsOf(1).flat())
    expect(session.engine.fallBehind(session)).toBe(true)
    const looks = vi.spyOn(Map.prototype, 'get')
    const isBehind = session.engine.fallBehind(session)
    const count = looks.mock.calls.length
    looks.mockRestore()
    expect([isBehind, count < 10]).toEqual([false, true])
  })

  it('continues from what is not finalized, whatever was never finalized before', async () => {
    const gateway = new PubsubGateway()
    const [stayed, slow] = [gateway.connect(), gateway.connect()]
    let isStalled = false
    slow.hasRoom = () => !isStalled
    const asked = paramsOf('program', params)
    for (const session of [stayed, slow]) gateway.ask(session, 'program', asked)
    const slots = slotsOf(20)
    const [before, after] = [slots.slice(0, 4), slots.slice(4)]
    const isAsked = (one: SolanaUpdate) =>
      one.kind === 'account' && encodeBase58(one.owner) === asked[0]
    const write = before.flat().find(isAsked)!
    gateway.publish(before.flat())
    // Of a fork: the slot is skipped by those that follow.
    const fork = { ...write, slot: 1_005 }
    expect(slots.flat().some(({ slot }) => slot === fork.slot)).toBe(false)
    gateway.publish([fork, ...after.slice(0, 12).flat()])
    const replay = vi.spyOn(gateway.hub, 'replay')
    isStalled = true
    expect(slow.engine.fallBehind(slow)).toBe(true)
    const eras = replay.mock.calls.map(([, , at]) => at?.era)
    expect(eras).toEqual([expect.any(Number)])
    expect(eras[0]).toBeGreaterThan(fork.slot)
    gateway.publish(after.slice(12).flat())
    isStalled = false
    await until(() => results(slow).length >= results(stayed).length, 'the rest')
    expect(results(slow)).toEqual(results(stayed))
  })

  it('is asked once whether it has room, however many of its subscriptions wait', () => {
    const gateway = new PubsubGateway()
    const session = gateway.connect()
    const hasRoom = vi.fn(() => false)
    session.hasRoom = hasRoom
    for (let at = 0; at < 50; at++) {
      const slice = { dataSlice: { offset: 0, length: 1 + at } }
      gateway.ask(session, 'program', paramsOf('program', { ...params, ...slice }))
    }
    gateway.publish(slotsOf(1).flat())
    expect(session.engine.fallBehind(session)).toBe(true)
    expect(hasRoom).toHaveBeenCalledTimes(1)
  })

  it('costs nothing while it does not read, two hundred of them', async () => {
    const gateway = new PubsubGateway()
    const sessions = Array.from({ length: 200 }, () => gateway.connect())
    let isStalled = true
    const [first, ...rest] = slotsOf(16)
    for (const [at, session] of sessions.entries()) {
      session.hasRoom = () => !isStalled
      // Distinct ones: each would be encoded by itself.
      const slice = { dataSlice: { offset: 0, length: 1 + at } }
      gateway.ask(session, 'program', paramsOf('program', { ...params, ...slice }))
      gateway.ask(session, 'logs', ['allWithVotes', params])
    }
    const stayed = gateway.connect()
    gateway.ask(stayed, 'logs', ['allWithVotes', params])
    gateway.publish(first!)
    for (const session of sessions) expect(session.engine.fallBehind(session)).toBe(true)
    const bytes = () =>
      sessions.reduce((sum, { told }) => sum + told.reduce((all, one) => all + one.length, 0), 0)
    const [given, examined] = [bytes(), gateway.meters.examined]
    gateway.publish(rest.flat())
    for (let turns = 0; turns < 5; turns++) await turn()
    const seen = rest.flat().filter(({ kind }: SolanaUpdate) => kind === 'transaction').length
    expect(bytes()).toBe(given)
    // The one that reads, and nobody else.
    expect(gateway.meters.examined - examined).toBe(seen)
    isStalled = false
    const logs = ({ told }: LooseSession) => told.filter((text) => text.includes('logsNotif'))
    await until(
      () => sessions.every(({ told }) => told.at(-1)!.includes('"isBehind":false')),
      'all of them',
    )
    for (const session of sessions) expect(logs(session)).toEqual(logs(stayed))
  })

  it('does not keep others of its customer from continuing', async () => {
    const gateway = new PubsubGateway()
    const made = Array.from({ length: 40 }, () => gateway.connect())
    const { budget } = made[0]!
    const others = made.map((session) => ({ ...session, budget }))
    const filter = (at: number) => ({ accountInclude: [encodeBase58(chainKeys[at % 12]!)] })
    const ends = new Map<LooseSession, number>()
    for (const [at, session] of others.entries()) {
      // All but the last stop in the middle of what they missed.
      session.hasRoom = () => session.told.length < (ends.get(session) ?? Number.POSITIVE_INFINITY)
      gateway.ask(session, 'transaction', [filter(at), { ...params, transactionDetails: 'none' }])
    }
    const [first, ...rest] = slotsOf(30)
    gateway.publish(first!)
    for (const session of others) {
      session.engine.fallBehind(session)
      if (session !== others.at(-1)) ends.set(session, session.told.length + 2)
    }
    gateway.publish(rest.flat())
    const last = others.at(-1)!
    await until(() => notices(last).length === 2, 'the last one')
  })

  it('waits for room and for a permit of its customer where the log answers late, too', async () => {
    const gateway = new PubsubGateway()
    const { hub } = gateway
    const replayed = hub.replay.bind(hub)
    let found = 0
    const reading = new Set<object>()
    vi.spyOn(hub, 'replay').mockImplementation((...given) => {
      const replay = replayed(...given)!
      if (given[2] === undefined) return replay
      setImmediate(() => {
        found++
        replay.onLoaded()
      })
      // Reason for the cast: the replays of a log load.
      replay.next = () => {
        reading.add(replay)
        return 'loading' as never
      }
      return replay
    })
    const budget = budgetOn(roomy)
    const sessions = Array.from({ length: 40 }, () => gateway.connect(budget))
    let isStalled = true
    for (const session of sessions) {
      session.hasRoom = () => !isStalled
      gateway.ask(session, 'logs', ['allWithVotes', params])
    }
    gateway.publish(slotsOf(3).flat())
    for (const session of sessions) session.engine.fallBehind(session)
    await until(() => found === sessions.length, 'the log')
    for (let turns = 0; turns < 3; turns++) await turn()
    expect(reading.size).toBe(0)
    isStalled = false
    await until(() => reading.size > 0, 'the first')
    for (let turns = 0; turns < 3; turns++) await turn()
    expect(reading.size).toBe(16)
  })

  it('is sent and metered nothing more once it has ended within an update', async () => {
    const gateway = new PubsubGateway()
    const [stayed, other] = [gateway.connect(), gateway.connect()]
    const asked = paramsOf('program of every write', params)
    gateway.ask(stayed, 'program', asked)
    gateway.publish(slotsOf(12).flat())
    const sent = messages(stayed).map((one) => one.params)
    const slotAt = (at: number) => sent[at]?.result.context.slot
    const last = sent.findIndex(
      (_, at) => slotAt(at) !== slotAt(at + 1) && slotAt(at + 1) === slotAt(at + 2),
    )
    const { cursor: resume } = sent[last]
    const meter = vi.spyOn(other.budget, 'chargeNotification')
    let metered = 0
    other.notify = (message) => {
      // Turns that found nothing for it were metered before.
      metered = meter.mock.calls.length
      other.told.push(String(message))
      other.end()
    }
    gateway.ask(other, 'program', paramsOf('program of every write', { ...params, resume }))
    await until(() => other.told.length > 0, 'the first')
    for (let turns = 0; turns < 3; turns++) await turn()
    expect(other.told).toHaveLength(1)
    expect(meter.mock.calls.length - metered).toBeLessThanOrEqual(2)
  })

  it('counts as notified only those that were sent it', () => {
    const gateway = new PubsubGateway()
    const [stayed, slow] = [gateway.connect(), gateway.connect()]
    slow.hasRoom = () => false
    for (const session of [stayed, slow]) gateway.ask(session, 'logs', ['allWithVotes', params])
    const notified = vi.spyOn(gateway.meters, 'notified')
    const [one, two] = slotsOf(2)
    gateway.publish(one!)
    expect(new Set(notified.mock.calls.map(([, count]) => count))).toEqual(new Set([2]))
    notified.mockClear()
    slow.engine.fallBehind(slow)
    gateway.publish(two!)
    expect(new Set(notified.mock.calls.map(([, count]) => count))).toEqual(new Set([1]))
  })

  it('keeps the keys that were changed, before and while it was behind', async () => {
    const gateway = new PubsubGateway()
    const [stayed, slow] = [gateway.connect(), gateway.connect()]
    let isStalled = false
    slow.hasRoom = () => !isStalled
    const key = (at: number) => encodeBase58(chainKeys[at]!)
    const config = { ...params, transactionDetails: 'signatures' }
    for (const session of [stayed, slow])
      gateway.ask(session, 'transaction', [{ accountInclude: [key(0)] }, config])
    const slots = slotsOf(30)
    const change = (at: number) => {
      for (const session of [stayed, slow]) {
        const keys = { accountInclude: [key(at)] }
        const answer = gateway.call(session, 'transactionUpdate', [1, { add: keys }])
        expect(answer).toMatchObject({ text: 'true' })
      }
    }
    gateway.publish(slots.slice(0, 5).flat())
    change(1)
    gateway.publish(slots.slice(5, 10).flat())
    isStalled = true
    slow.engine.fallBehind(slow)
    // Where both are at the same slot.
    change(2)
    gateway.publish(slots.slice(10, 20).flat())
    isStalled = false
    await until(() => slow.topics.size > 0, 'to be live')
    change(3)
    gateway.publish(slots.slice(20).flat())
    expect(results(slow)).toEqual(results(stayed))
  })
})
