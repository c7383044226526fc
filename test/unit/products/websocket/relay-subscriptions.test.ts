// Customers of upstream sets: one subscription for all who want the same, on sessions without
// sockets and a relay without nodes.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { openSolanaHub } from '../../../../src/geyser/hub.ts'
import type { Answer } from '../../../../src/jsonrpc/build.ts'
import type { Session } from '../../../../src/products/websocket/handle.ts'
import { Subscriptions } from '../../../../src/products/websocket/subscriptions.ts'
import { declareSubscriptionMeters } from '../../../../src/pubsub/meters.ts'
import { silentLog } from '../../../../src/telemetry/log.ts'
import { Meters } from '../../../../src/telemetry/meters.ts'
import {
  nodeUnhealthy,
  type PubsubListener,
  type PubsubRelay,
  type PubsubWish,
} from '../../../../src/upstream/ports.ts'
import { budgetOn, type LooseSession, looseSession } from '../../../support/loose-session.ts'

const key = 'So11111111111111111111111111111111111111112'
const signature = '1'.repeat(64)

interface Open {
  readonly wish: PubsubWish
  readonly listener: PubsubListener
  isClosed: boolean
}

class FakeRelay implements PubsubRelay {
  readonly opened: Open[] = []
  serving = new Set(['default', 'own'])

  problem({ set }: { set: string }) {
    return this.serving.has(set) ? null : nodeUnhealthy
  }

  subscribe(wish: PubsubWish, listener: PubsubListener) {
    const open = { wish, listener, isClosed: false }
    this.opened.push(open)
    return {
      close() {
        open.isClosed = true
      },
    }
  }
}

function customer(upstream: string | null = 'default', max = 10): LooseSession {
  return looseSession(budgetOn({ subscriptionsPerConnection: max }), upstream)
}

let relay: FakeRelay
let subscriptions: Subscriptions
let published: { topic: string; text: string }[]
let meters: ReturnType<typeof declareSubscriptionMeters>
beforeEach(() => {
  vi.useFakeTimers()
  relay = new FakeRelay()
  published = []
  meters = declareSubscriptionMeters(new Meters())
  const hub = openSolanaHub({ replaySlots: 0, replayBytesMax: 0 })
  const chain = { signatureStatus: () => null, slot: () => 0 }
  subscriptions = new Subscriptions({
    solana: { hub, chain, readAccount: () => null },
    relayed: { relay, setOf: ({ upstream }) => upstream },
    meters,
    clock: systemClock,
    log: silentLog,
  })
  subscriptions.usePublisher((topic, message) =>
    published.push({ topic, text: Buffer.from(message).toString() }),
  )
})
afterEach(() => {
  subscriptions.stop()
  vi.useRealTimers()
})

const call = (session: Session, method: string, ...params: unknown[]) =>
  subscriptions.methods[method]!({ method, params, paramsText: '', id: '1' }, session)
const idOf = (answer: Answer) => (answer.kind === 'text' ? Number(answer.text) : Number.NaN)
const settled = () => vi.advanceTimersByTimeAsync(20)

describe('a relayed subscription', () => {
  it('is one at the node for a thousand customers, and ends with the last of them', async () => {
    const customers = Array.from({ length: 1000 }, () => customer())
    const waiting = customers.slice(0, 10).map((one) => call(one, 'accountSubscribe', key))
    expect(relay.opened).toHaveLength(1)
    const [open] = relay.opened
    expect(open!.wish).toEqual({
      set: 'default',
      topic: 'account',
      params: `["${key}",{"commitment":"finalized"}]`,
    })
    open!.listener.opened()
    const ids = (await Promise.all(waiting)).map((answer) => idOf(answer))
    for (const one of customers.slice(10))
      ids.push(idOf(call(one, 'accountSubscribe', key, { encoding: 'binary' }) as Answer))
    expect([new Set(ids).size, relay.opened.length]).toEqual([1, 1])
    expect(meters.subscriptions()).toEqual({ count: 1000, distinct: 1 })
    await settled()
    open!.listener.notice('{"context":{"slot":1},"value":{"lamports":18446744073709551615}}', false)
    expect(published).toEqual([
      {
        topic: String(ids[0]),
        text: `{"jsonrpc":"2.0","method":"accountNotification","params":{"result":{"context":{"slot":1},"value":{"lamports":18446744073709551615}},"subscription":${ids[0]}}}`,
      },
    ])
    for (const one of customers.slice(1)) one.end()
    expect(open!.isClosed).toBe(false)
    const gone = call(customers[0]!, 'accountUnsubscribe', ids[0])
    expect([(gone as { text: string }).text, open!.isClosed]).toEqual(['true', true])
    expect(meters.subscriptions()).toEqual({ count: 0, distinct: 0 })
  })

  it('is answered before its first notification, even when both come at once', async () => {
    const one = customer()
    const answer = call(one, 'slotSubscribe')
    const [open] = relay.opened
    open!.listener.opened()
    open!.listener.notice('{"slot":1}', false)
    open!.listener.notice('{"slot":2}', false)
    await answer
    expect(published).toEqual([])
    await settled()
    expect(published.map(({ text }) => JSON.parse(text).params.result.slot)).toEqual([1, 2])
    open!.listener.notice('{"slot":3}', false)
    expect(published).toHaveLength(3)
  })

  it('that the node refuses is refused to all who asked, and takes no place', async () => {
    const [one, two] = [customer('default', 1), customer()]
    const answers = [call(one, 'slotSubscribe'), call(two, 'slotSubscribe')]
    const error = { code: -32601, message: 'Method not found' }
    relay.opened[0]!.listener.refused(error)
    expect(await Promise.all(answers)).toEqual([
      { kind: 'error', error },
      { kind: 'error', error },
    ])
    expect([one.topics.size, meters.subscriptions().count]).toEqual([0, 0])
    expect(call(one, 'slotSubscribe')).toBeInstanceOf(Promise)
  })

  it('counts against the plan while it is asked for', () => {
    const one = customer('default', 1)
    expect(call(one, 'slotSubscribe')).toBeInstanceOf(Promise)
    expect(call(one, 'rootSubscribe')).toMatchObject({ error: { code: -32429 } })
  })

  it('is refused with -32005 when the set has no good node', () => {
    relay.serving.clear()
    const answer = call(customer(), 'slotSubscribe')
    expect(answer).toMatchObject({ error: { code: -32005, data: { numSlotsBehind: null } } })
    expect(relay.opened).toEqual([])
  })

  it('is one at the node, whatever numbers without effect a customer writes', () => {
    const one = customer('default', 1000)
    for (let at = 0; at < 150; at++) {
      void call(one, 'blockSubscribe', 'all', { maxSupportedTransactionVersion: at })
      void call(one, 'accountSubscribe', key, { dataSlice: { offset: 0, length: 2 ** 30 + at } })
    }
    expect(relay.opened.map(({ wish }) => wish.params)).toEqual([
      '["all",{"commitment":"finalized","encoding":"base64","transactionDetails":"full",' +
        '"showRewards":false,"maxSupportedTransactionVersion":0}]',
      `["${key}",{"commitment":"finalized"}]`,
    ])
  })

  it('with bad params never reaches a node', () => {
    const answer = call(customer(), 'accountSubscribe', 'x')
    expect(answer).toMatchObject({
      error: { code: -32602, message: 'Invalid Request: Invalid pubkey provided' },
    })
    expect(relay.opened).toEqual([])
  })

  it('to a signature ends with its outcome for everybody', async () => {
    const [one, two] = [customer(), customer()]
    const params = [signature, { commitment: 'confirmed', enableReceivedNotification: true }]
    const first = call(one, 'signatureSubscribe', ...params)
    const [open] = relay.opened
    open!.listener.opened()
    await first
    await settled()
    open!.listener.notice('{"context":{"slot":1},"value":"receivedSignature"}', false)
    const id = idOf(call(two, 'signatureSubscribe', ...params) as Answer)
    await settled()
    // The second came between the two words, and hears of the first all the same.
    expect(two.told).toHaveLength(1)
    open!.listener.notice('{"context":{"slot":2},"value":{"err":null}}', true)
    expect(published).toHaveLength(2)
    expect([one.topics.size, two.topics.size, open!.isClosed]).toEqual([0, 0, true])
    expect(call(one, 'signatureUnsubscribe', id)).toMatchObject({ error: { code: -32602 } })
  })

  it('of a customer who left while it was asked for is closed', async () => {
    const one = customer()
    const answer = call(one, 'slotSubscribe')
    one.end()
    expect(relay.opened[0]!.isClosed).toBe(true)
    relay.opened[0]!.listener.refused({ code: -32005, message: '' })
    await answer
  })
})

describe('sets and our own chain', () => {
  it('are kept apart: each customer is served by his own, under numbers of one count', async () => {
    const [shared, bound, local] = [customer('default'), customer('own'), customer(null)]
    const answers = [call(shared, 'rootSubscribe'), call(bound, 'rootSubscribe')]
    const own = idOf(call(local, 'rootSubscribe') as Answer)
    expect(relay.opened.map(({ wish }) => wish.set)).toEqual(['default', 'own'])
    for (const { listener } of relay.opened) listener.opened()
    const ids = (await Promise.all(answers)).map(idOf)
    expect(new Set([...ids, own]).size).toBe(3)
    await settled()
    relay.opened[1]!.listener.notice('5', false)
    expect(published.map(({ topic }) => topic)).toEqual([String(ids[1])])
    // Nobody ends what is another's.
    expect(call(shared, 'rootUnsubscribe', ids[1])).toMatchObject({ error: { code: -32602 } })
    expect(call(local, 'rootUnsubscribe', own)).toMatchObject({ text: 'true' })
    expect(meters.subscriptions()).toEqual({ count: 2, distinct: 2 })
  })

  it('of which neither serves offers no subscriptions', () => {
    const nothing = new Subscriptions({
      solana: null,
      relayed: null,
      meters,
      clock: systemClock,
      log: silentLog,
    })
    const asked = { method: '', params: [], paramsText: '', id: '1' }
    const answer = nothing.methods.slotSubscribe!(asked, customer())
    expect(answer).toMatchObject({ error: { code: -32601 } })
    nothing.stop()
  })
})
