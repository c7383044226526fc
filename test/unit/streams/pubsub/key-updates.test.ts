// Keys of an open transaction subscription that are added and removed, on sessions without sockets.
import { describe, expect, it } from 'vitest'
import { encodeBase58, keyOf } from '../../../../src/chain/solana/base58.ts'
import { retractionUpdate } from '../../../../src/chain/solana/received-batch.ts'
import type { SolanaUpdate, TransactionUpdate } from '../../../../src/chain/solana/updates.ts'
import type { LooseSession } from '../../../testkit/loose-session.ts'
import {
  chainKeys,
  notifications,
  PubsubGateway,
  slotsOf,
} from '../../../testkit/pubsub-gateway.ts'
import { until } from '../../../testkit/until.ts'

const keys = chainKeys.map((key) => encodeBase58(key))
const levels = ['processed', 'confirmed', 'finalized'] as const
const signatures = { transactionDetails: 'signatures' }
const inMany = { subscriptionsPerConnection: 1_000, distinctSubscriptions: 0 }

function open(
  gateway: PubsubGateway,
  session: LooseSession,
  filter: object,
  config: object,
): number {
  const answer = gateway.ask(session, 'transaction', [filter, { ...signatures, ...config }])
  if (answer.kind !== 'text') throw new Error(JSON.stringify(answer))
  return Number(answer.text)
}

const update = (gateway: PubsubGateway, session: LooseSession, ...params: unknown[]) =>
  gateway.call(session, 'transactionUpdate', params)
const done = { kind: 'text', text: 'true' }

type Told = readonly [slot: number, index: number]
const told = (session: LooseSession): Told[] =>
  notifications(session).map(({ result }) => {
    const { slot, transactionIndex } = result as { slot: number; transactionIndex: number }
    return [slot, transactionIndex]
  })

const transactions = (updates: readonly SolanaUpdate[]) =>
  updates.filter((one): one is TransactionUpdate => one.kind === 'transaction')
const names = (one: TransactionUpdate) => one.keys.map((key) => keys.indexOf(encodeBase58(key)))

describe('transactionUpdate', () => {
  it.each(levels)('counts from the next slot on, also for what is late, at %s', (commitment) => {
    for (const cursor of [{}, { cursor: true }]) {
      const gateway = new PubsubGateway()
      const session = gateway.connect()
      const lists = { accountInclude: [keys[0], keys[1]], accountExclude: [keys[2]] }
      const id = open(gateway, session, lists, { commitment, ...cursor })
      const slots = slotsOf(20)
      const isTaken = (one: TransactionUpdate, isOld: boolean) => {
        const [of, not] = isOld ? [[0, 1], 2] : [[1, 5], 6]
        return of.some((key) => names(one).includes(key)) && !names(one).includes(not)
      }
      // In the middle of a slot whose rest differs by the keys.
      const differs = (updates: readonly SolanaUpdate[]) =>
        transactions(updates)
          .slice(3)
          .some((one) => isTaken(one, true) !== isTaken(one, false))
      const at = slots.findIndex((updates, index) => index >= 8 && differs(updates))
      expect(at).toBeLessThan(14)
      const middle = slots[at]!.indexOf(transactions(slots[at]!)[3]!)
      gateway.publish([...slots.slice(0, at).flat(), ...slots[at]!.slice(0, middle)])
      const before = told(session).length
      const change = {
        add: { accountInclude: [keys[5]], accountExclude: [keys[6]] },
        remove: { accountInclude: [keys[0]], accountExclude: [keys[2]] },
      }
      expect(update(gateway, session, id, change)).toEqual(done)
      expect(told(session)).toHaveLength(before)
      gateway.publish([...slots[at]!.slice(middle), ...slots.slice(at + 1).flat()])
      // What had reached the commitment before the change is of the old keys.
      const back = { processed: 0, confirmed: 2, finalized: 7 }[commitment]
      const lastOfOld = transactions(slots[at - back]!)[0]!.slot
      const expected = slots
        .slice(0, 20 - { processed: 0, confirmed: 1, finalized: 6 }[commitment])
        .flatMap((updates) => transactions(updates))
        .filter((one) => isTaken(one, one.slot <= lastOfOld))
      expect(told(session)).toEqual(expected.map(({ slot, index }) => [slot, index]))
    }
  })

  it('changes what is required, down to nothing, which matches nothing', () => {
    const gateway = new PubsubGateway()
    const session = gateway.connect()
    const id = open(gateway, session, { accountRequired: [keys[0]] }, { commitment: 'processed' })
    const slots = slotsOf(30)
    const required = (slot: number) => (slot < 10 ? [0] : slot < 20 ? [1, 2] : null)
    for (const [at, updates] of slots.entries()) {
      const lists = (...of: number[]) => ({ accountRequired: of.map((key) => keys[key]) })
      if (at === 10) update(gateway, session, id, { add: lists(1, 2), remove: lists(0) })
      if (at === 20) update(gateway, session, id, { remove: lists(1, 2) })
      gateway.publish(updates)
    }
    const expected = slots.flatMap((updates, at) =>
      transactions(updates).filter((one) => required(at)?.every((key) => names(one).includes(key))),
    )
    expect(told(session)).toEqual(expected.map(({ slot, index }) => [slot, index]))
  })

  it('leaves an equal subscription of another connection as it is, under the same id', () => {
    const gateway = new PubsubGateway()
    const [mine, theirs, fresh] = [gateway.connect(), gateway.connect(), gateway.connect()]
    const filter = { accountInclude: [keys[0]] }
    const config = { commitment: 'processed' }
    const ids = [mine, theirs].map((session) => open(gateway, session, filter, config))
    expect(ids[0]).toBe(ids[1])
    const change = { add: { accountInclude: [keys[5]] }, remove: { accountInclude: [keys[0]] } }
    expect(update(gateway, mine, ids[0], change)).toEqual(done)
    open(gateway, fresh, { accountInclude: [keys[5]] }, config)
    gateway.publish(slotsOf(6).flat())
    const matched = (key: number) =>
      slotsOf(6)
        .flatMap((updates) => transactions(updates))
        .filter((one) => names(one).includes(key))
        .map(({ slot, index }) => [slot, index])
    expect(told(mine)).toEqual(matched(5))
    expect(told(theirs)).toEqual(matched(0))
    expect(told(fresh)).toEqual(matched(5))
    // The connection may have the first filter beside it, under another id.
    const again = open(gateway, mine, filter, config)
    expect(again).not.toBe(ids[0])
    for (const id of [ids[0], again])
      expect(gateway.call(mine, 'transactionUnsubscribe', [id])).toEqual(done)
    const count = mine.told.length
    gateway.publish(slotsOf(8).slice(6).flat())
    expect(mine.told).toHaveLength(count)
    expect(theirs.told.length).toBeGreaterThan(matched(0).length)
  })

  it('is still told what is taken back of slots before the change', () => {
    const gateway = new PubsubGateway()
    const [mine, theirs] = [gateway.connect(), gateway.connect()]
    const config = { commitment: 'processed', retractions: true }
    const ids = [mine, theirs].map((session) => open(gateway, session, {}, config))
    const [first] = slotsOf(1)
    gateway.publish(first!)
    const change = { add: { accountExclude: [keys[1]] } }
    expect(update(gateway, mine, ids[0], change)).toEqual(done)
    const { slot } = first![0]!
    const void_ = { bank: 1, reason: 'handover', restated: [] } as const
    gateway.publish([retractionUpdate({ slot, createdAtMs: 0 }, void_)])
    for (const session of [mine, theirs])
      expect(session.told.at(-1)).toContain(`"retracted":{"slot":${slot}`)
  })

  it('takes 100,000 keys in messages of their own, and no more', () => {
    const gateway = new PubsubGateway()
    const session = gateway.connect(inMany)
    const filter = { accountInclude: [keys[3]] }
    const id = open(gateway, session, filter, { commitment: 'processed' })
    const many = Array.from({ length: 100_000 }, (_, at) => {
      const key = Buffer.alloc(32, 7)
      key.writeUInt32BE(at)
      return encodeBase58(key)
    })
    const add = (of: readonly string[]) =>
      update(gateway, session, id, { add: { accountInclude: of } })
    for (let at = 0; at + 80 < 100_000; at += 80) expect(add(many.slice(at, at + 80))).toEqual(done)
    const over = add(many.slice(-80))
    expect(over).toMatchObject({ error: { code: -32602 } })
    expect(JSON.stringify(over)).toContain('accountInclude: at most 100000 keys are allowed')
    expect(add([...many.slice(-80, -2), keys[0]!])).toEqual(done)
    gateway.publish(slotsOf(6).flat())
    const matched = slotsOf(6)
      .flatMap((updates) => transactions(updates))
      .filter((one) => names(one).includes(0) || names(one).includes(3))
    expect(told(session)).toHaveLength(matched.length)
  })

  it('says what is wrong and changes nothing', () => {
    const gateway = new PubsubGateway()
    const session = gateway.connect({ ...inMany, filterKeys: 3 })
    const id = open(gateway, session, { accountInclude: [keys[0]] }, { commitment: 'processed' })
    const logs = gateway.ask(session, 'logs', ['all'])
    const add = (...of: unknown[]) => ({ add: { accountInclude: of } })
    const cases: [unknown[], string][] = [
      [[], 'Invalid params'],
      [[id], 'Invalid params'],
      [['7', add(keys[1])], 'Invalid params'],
      [[id + 99, add(keys[1])], 'Invalid subscription id.'],
      [[Number((logs as { text: string }).text), add(keys[1])], 'is of logsSubscribe'],
      [[id, add(keys[1], 'x')], 'Invalid Request: Invalid pubkey provided'],
      [[id, { add: { include: [keys[1]] } }], 'unknown variant `include`'],
      [[id, { accountInclude: [keys[1]] }], 'unknown variant `accountInclude`, expected one of'],
      [[id, { ...add(keys[1]), accountExclude: [] }], 'unknown variant `accountExclude`'],
      [[id, { add: keys[1] }], 'Invalid params'],
      [[id, { remove: { accountInclude: keys[0] } }], 'Invalid params'],
      [[id, add(keys[1], keys[2], keys[3])], 'at most 3 keys are allowed'],
      [[id, { ...add(keys[1]), ...{ remove: { accountRequired: [keys[0]] } } }], 'no condition'],
    ]
    for (const [params, message] of cases) {
      const answer = update(gateway, session, ...params)
      expect(answer).toMatchObject({ kind: 'error', error: { code: -32602 } })
      expect(JSON.stringify(answer)).toContain(message)
    }
    gateway.publish(slotsOf(6).flat())
    const matched = slotsOf(6)
      .flatMap((updates) => transactions(updates))
      .filter((one) => names(one).includes(0))
    expect(told(session)).toEqual(matched.map(({ slot, index }) => [slot, index]))
    // Beyond the bound within 150 slots, though never more keys than it at once.
    expect(update(gateway, session, id, add(keys[1], keys[2]))).toEqual(done)
    const turned = update(gateway, session, id, { remove: { accountInclude: [keys[1], keys[2]] } })
    expect(JSON.stringify(turned)).toContain('at most 3 keys are changed within 150 slots')
  })

  it('counts as one more distinct subscription of its customer, which a plan may refuse', () => {
    const gateway = new PubsubGateway()
    const session = gateway.connect({ distinctSubscriptions: 1 })
    const filter = { accountInclude: [keys[0]] }
    const id = open(gateway, session, filter, {})
    const second = { ...gateway.connect(), budget: session.budget, onEnd() {} }
    expect(open(gateway, second, filter, {})).toBe(id)
    const change = { add: { accountInclude: [keys[1]] } }
    expect(update(gateway, session, id, change)).toMatchObject({
      error: { code: -32429, data: { reason: 'distinct-subscriptions' } },
    })
    gateway.call(second, 'transactionUnsubscribe', [id])
    // Those of others are none of its own.
    expect(open(gateway, gateway.connect(), filter, {})).toBe(id)
    expect(update(gateway, session, id, change)).toEqual(done)
  })
})

describe('a resumed subscription with more keys than a message has', () => {
  it('waits for the last of them, and then has all of what it missed', async () => {
    const gateway = new PubsubGateway()
    const stayed = gateway.connect()
    const all = { accountInclude: keys.slice(0, 6) }
    const config = { commitment: 'processed', cursor: true }
    open(gateway, stayed, all, config)
    const slots = slotsOf(20)
    gateway.publish(slots.slice(0, 10).flat())
    const resume = notifications(stayed)[4]!.cursor
    const session = gateway.connect()
    const filter = { accountInclude: keys.slice(0, 1) }
    const id = open(gateway, session, filter, { commitment: 'processed', resume, more: true })
    const add = (of: readonly string[], more: object) =>
      update(gateway, session, id, { add: { accountInclude: of }, ...more })
    expect(add(keys.slice(1, 4), { more: true })).toEqual(done)
    gateway.publish(slots.slice(10, 12).flat())
    for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve))
    expect(session.told).toEqual([])
    expect(add(keys.slice(4, 6), {})).toEqual(done)
    await until(() => session.told.length >= stayed.told.length - 5, 'the rest')
    gateway.publish(slots.slice(12).flat())
    await until(() => session.topics.size > 0, 'to be live')
    expect(told(session)).toEqual(told(stayed).slice(5))
    expect(new Set(notifications(session).map(({ cursor }) => cursor)).size).toBe(
      session.told.length,
    )
    expect(keyOf(chainKeys[0]!)).toHaveLength(32)
  })

  it('goes on with those that it has when the last are refused', async () => {
    const gateway = new PubsubGateway()
    const stayed = gateway.connect()
    const filter = { accountInclude: keys.slice(0, 1) }
    open(gateway, stayed, filter, { commitment: 'processed', cursor: true })
    gateway.publish(slotsOf(20).flat())
    const resume = notifications(stayed)[0]!.cursor
    const session = gateway.connect()
    const id = open(gateway, session, filter, { commitment: 'processed', resume, more: true })
    const refused = update(gateway, session, id, { add: { accountRequired: keys.slice(1, 2) } })
    expect(refused).toMatchObject({ error: { code: -32602 } })
    await until(() => session.told.length >= stayed.told.length - 1, 'the rest')
    expect(told(session)).toEqual(told(stayed).slice(1))
  })
})
