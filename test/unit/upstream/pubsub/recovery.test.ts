// After a change of node: account values once, confirmations never lost.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { silentLog } from '../../../../src/telemetry/log.ts'
import { SetRelay } from '../../../../src/upstream/pubsub/set-relay.ts'
import { FakeSet, Told } from '../../../support/fake-pubsub.ts'

let set: FakeSet
let relay: SetRelay
beforeEach(() => {
  vi.useFakeTimers()
  set = new FakeSet(1)
  relay = new SetRelay(set, { connect: set.connect, clock: systemClock, log: silentLog })
})
afterEach(() => {
  relay.stop()
  vi.useRealTimers()
})

async function add(topic: string, params: unknown) {
  const told = new Told()
  const held = relay.add({ set: 'default', topic, params: JSON.stringify(params) }, told)
  await vi.advanceTimersByTimeAsync(0)
  return { told, held }
}

/** The node goes away and comes back. */
async function reconnect() {
  set.nodes[0]!.socket.lose()
  await vi.advanceTimersByTimeAsync(1_000)
}

const config = { commitment: 'processed', encoding: 'base64' }
const value = '{"lamports":18446744073709551615,"data":["","base64"],"space":0}'
const account = (slot: number, shown = value) =>
  `{"jsonrpc":"2.0","result":{"context":{"apiVersion":"4.0.0","slot":${slot}},"value":${shown}},"id":1}`
const result = (slot: number, shown = value) => `{"context":{"slot":${slot}},"value":${shown}}`

describe('the value of an account', () => {
  it('is read with the same view and told once, byte for byte', async () => {
    const [node] = set.nodes
    node!.rpc = () => account(70)
    const { told } = await add('account', ['key', config])
    node!.socket.notify(1000, result(60))
    await reconnect()
    expect(told.results).toEqual([result(60), result(70)])
    expect(node!.calls).toEqual([
      { method: 'getAccountInfo', params: ['key', { ...config, minContextSlot: 60 }] },
    ])
    expect(relay.tally.resent).toBe(1)
    await reconnect()
    expect(told.results).toHaveLength(3)
  })

  it('is left to the node when it told the same or later by itself', async () => {
    const [node] = set.nodes
    const { told } = await add('account', ['key', config])
    node!.rpc = () => {
      node!.socket.notify(1100, result(71))
      return account(70)
    }
    await reconnect()
    expect(told.results).toEqual([result(71)])
    // An earlier word of the node does not stand for the current value.
    node!.rpc = () => {
      node!.socket.notify(1200, result(72))
      return account(73)
    }
    await reconnect()
    expect(told.results).toEqual([result(71), result(72), result(73)])
  })

  it('is asked for again until a node has it, not for ever from that slot', async () => {
    const [node] = set.nodes
    const { told } = await add('account', ['key', config])
    node!.socket.notify(1000, result(60))
    node!.rpc = (_, params) => {
      const { minContextSlot } = params[1] as { minContextSlot?: number }
      if (minContextSlot === undefined) return account(50)
      return '{"error":{"code":-32016,"message":"Minimum context slot has not been reached"}}'
    }
    await reconnect()
    expect(told.results).toEqual([result(60)])
    await vi.advanceTimersByTimeAsync(60_000)
    expect(told.results).toEqual([result(60), result(50)])
    node!.rpc = () => null
    await reconnect()
    await vi.advanceTimersByTimeAsync(600_000)
    expect(node!.calls.length).toBeLessThan(40)
  })

  it('of an account that is gone is told as a validator tells it', async () => {
    set.nodes[0]!.rpc = () => account(70, 'null')
    const parsed = await add('account', ['one', { ...config, encoding: 'jsonParsed' }])
    const plain = await add('account', ['two', { commitment: 'processed' }])
    await reconnect()
    expect(JSON.parse(parsed.told.results[0]!).value).toEqual({
      lamports: 0,
      data: ['', 'base64'],
      owner: '1'.repeat(32),
      executable: false,
      rentEpoch: 0,
      space: 0,
    })
    expect(JSON.parse(plain.told.results[0]!).value.data).toBe('')
  })

  it('is told to nobody who left meanwhile', async () => {
    const { told, held } = await add('account', ['key', config])
    set.nodes[0]!.rpc = () => {
      relay.close(held)
      return account(70)
    }
    await reconnect()
    expect(told.results).toEqual([])
  })
})

describe('a pending signature', () => {
  const statuses = (...value: unknown[]) => JSON.stringify({ result: { value } })
  const params = (name: string, commitment = 'confirmed', enableReceivedNotification = false) => [
    name,
    { commitment, enableReceivedNotification },
  ]
  const status = (confirmationStatus: string, err: unknown = null) => ({
    slot: 9,
    confirmations: 1,
    err,
    confirmationStatus,
  })

  it('that was confirmed in between is told, all of them by one call', async () => {
    const [node] = set.nodes
    const wishes = [
      await add('signature', params('a')),
      await add('signature', params('b', 'finalized')),
      await add('signature', params('c')),
      await add('signature', params('d', 'processed', true)),
    ]
    const err = { InstructionError: [0, { Custom: 1 }] }
    node!.rpc = () =>
      statuses(status('finalized'), status('confirmed'), null, status('confirmed', err))
    await reconnect()
    const [a, b, c, d] = wishes.map(({ told }) => told)
    expect(a!.lasts).toEqual(['{"context":{"slot":9},"value":{"err":null}}'])
    expect([b!.results, c!.results]).toEqual([[], []])
    expect(d!.results).toEqual([
      '{"context":{"slot":9},"value":"receivedSignature"}',
      `{"context":{"slot":9},"value":{"err":${JSON.stringify(err)}}}`,
    ])
    expect(node!.calls).toEqual([
      {
        method: 'getSignatureStatuses',
        params: [['a', 'b', 'c', 'd'], { searchTransactionHistory: true }],
      },
    ])
    expect(node!.socket.texts().slice(-2)).toEqual([
      'signatureUnsubscribe [1100]',
      'signatureUnsubscribe [1103]',
    ])
    expect(relay.count).toBe(2)
  })

  it('is told once, whoever says it first', async () => {
    const { told } = await add('signature', params('a', 'processed', true))
    const [node] = set.nodes
    node!.socket.notify(1000, '{"context":{"slot":9},"value":"receivedSignature"}')
    node!.rpc = () => {
      node!.socket.notify(1100, '{"context":{"slot":9},"value":"receivedSignature"}')
      node!.socket.notify(1100, '{"context":{"slot":9},"value":{"err":null}}')
      return statuses(status('processed'))
    }
    await reconnect()
    expect([told.results.length, told.lasts.length]).toEqual([2, 1])
    expect(relay.count).toBe(0)
  })

  it('is asked for until somebody answers, and again after the next loss', async () => {
    const { told } = await add('signature', params('a'))
    const [node] = set.nodes
    await reconnect()
    await vi.advanceTimersByTimeAsync(100_000)
    expect(told.lasts).toEqual([])
    node!.rpc = () => statuses(status('confirmed'))
    await vi.advanceTimersByTimeAsync(5_000)
    expect(told.lasts).toHaveLength(1)
  })
})
