// The PubSub client on sockets without a network: what it sends on each connection, and what it
// makes of refusals.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { PubsubClient, type SocketLike } from '../../../src/client/client.ts'

class FakeSocket implements SocketLike {
  onopen: SocketLike['onopen'] = null
  onmessage: SocketLike['onmessage'] = null
  onclose: SocketLike['onclose'] = null
  onerror: SocketLike['onerror'] = null
  readonly url: string
  readonly calls: { id: number; method: string; params: unknown[] }[] = []
  longest = 0
  isClosed = false

  constructor(url: string) {
    this.url = url
  }

  send(text: string): void {
    this.longest = Math.max(this.longest, text.length)
    const call = JSON.parse(text)
    if (call.method !== 'getVersion') this.calls.push(call)
  }

  close(): void {
    this.isClosed = true
  }

  open(): void {
    this.onopen?.({} as never)
  }

  say(message: object): void {
    this.onmessage?.({ data: JSON.stringify(message) } as never)
  }

  notify(subscription: number, result: unknown, cursor?: string): void {
    this.say({ jsonrpc: '2.0', method: 'x', params: { result, subscription, cursor } })
  }
}

let sockets: FakeSocket[]
let client: PubsubClient
const last = () => sockets.at(-1)!
const open = (url: string) => {
  sockets.push(new FakeSocket(url))
  return last()
}

beforeEach(() => {
  vi.useFakeTimers()
  sockets = []
  client = new PubsubClient({ url: ['ws://a', 'ws://b'], open })
})

afterEach(() => {
  client.close()
  vi.useRealTimers()
})

async function cut(): Promise<void> {
  last().onclose?.({} as never)
  await vi.advanceTimersByTimeAsync(250)
  last().open()
}

it('asks for cursors first and resumes after the last one, at the next url', async () => {
  const got: unknown[] = []
  last().open()
  const take = (...given: unknown[]) => void got.push(given)
  const logs = client.subscribe('logs', ['all', { commitment: 'confirmed' }], take)
  client.subscribe('root', [], take)
  const [asked, root] = last().calls
  expect(asked!.params).toEqual(['all', { commitment: 'confirmed', cursor: true }])
  expect(root!.params).toEqual([{ cursor: true }])
  last().say({ id: asked!.id, result: 7 })
  last().notify(7, 'one', 'c1')
  last().notify(7, 'two', 'c2')
  expect([got, logs.cursor]).toEqual([
    [
      ['one', 'c1'],
      ['two', 'c2'],
    ],
    'c2',
  ])
  await cut()
  expect(sockets.map(({ url }) => url)).toEqual(['ws://a', 'ws://b'])
  expect(last().calls.map(({ params }) => params)).toEqual([
    ['all', { commitment: 'confirmed', resume: 'c2' }],
    [{ cursor: true }],
  ])
  // An id of the connection before means nothing on this one.
  last().notify(7, 'stranger', 'c9')
  expect(got).toHaveLength(2)
})

it('reports a gap and begins anew where the server does not have what follows', () => {
  const gaps: unknown[] = []
  last().open()
  const options = { resume: 'c1', onGap: (error: unknown) => void gaps.push(error) }
  client.subscribe('slot', [], () => {}, options)
  expect(last().calls[0]!.params).toEqual([{ resume: 'c1' }])
  const error = { code: -32001, message: 'gone', data: { reason: 'cursor-too-old' } }
  last().say({ id: last().calls[0]!.id, error })
  expect(gaps).toEqual([error])
  expect(last().calls[1]!.params).toEqual([{ cursor: true }])
})

it('resumes a subscription that the server has ended for its rate', async () => {
  last().open()
  client.subscribe('logs', ['all'], () => {})
  last().say({ id: last().calls[0]!.id, result: 3 })
  last().notify(3, 'one', 'c1')
  const data = { reason: 'notification-bytes', retryAfterMs: 800, subscription: 3 }
  last().say({ id: null, error: { code: -32429, message: 'too much', data } })
  await vi.advanceTimersByTimeAsync(799)
  expect(last().calls).toHaveLength(1)
  await vi.advanceTimersByTimeAsync(1)
  expect(last().calls[1]!.params).toEqual(['all', { resume: 'c1' }])
})

it('asks again after an hour where the quota is used up for weeks', async () => {
  client.close()
  client = new PubsubClient({ url: 'ws://a', open, heartbeatMs: 86_400_000 })
  last().open()
  client.subscribe('slot', [], () => {})
  const data = { reason: 'credits', retryAfterMs: 30 * 86_400_000 }
  last().say({ id: last().calls[0]!.id, error: { code: -32429, message: 'used up', data } })
  await vi.advanceTimersByTimeAsync(3_599_999)
  expect(last().calls).toHaveLength(1)
  await vi.advanceTimersByTimeAsync(1)
  expect(last().calls).toHaveLength(2)
  last().say({ id: last().calls[1]!.id, error: { code: -32429, message: 'used up', data } })
  client.close()
  // Node would not end before the last of them.
  expect(vi.getTimerCount()).toBe(0)
})

it('waits no longer after each cut where a quiet subscription was confirmed', async () => {
  client.subscribe('account', ['k'], () => {})
  last().open()
  for (let cuts = 1; cuts <= 8; cuts++) {
    last().say({ id: last().calls[0]!.id, result: cuts })
    await cut()
    expect(sockets).toHaveLength(cuts + 1)
  }
})

it('gives up what is invalid, forgets a signature that was notified, unsubscribes', () => {
  const errors: number[] = []
  last().open()
  const onError = ({ code }: { readonly code: number }) => void errors.push(code)
  const wrong = client.subscribe('account', ['?'], () => {}, { onError })
  const signature = client.subscribe('signature', ['s'], () => {})
  const slot = client.subscribe('slot', [], () => {})
  const [first, second, third] = last().calls
  last().say({ id: first!.id, error: { code: -32602, message: 'Invalid' } })
  last().say({ id: second!.id, result: 4 })
  last().say({ id: third!.id, result: 5 })
  last().notify(4, { value: 'receivedSignature' })
  expect([wrong.isOpen, signature.isOpen, errors]).toEqual([false, true, [-32602]])
  last().notify(4, { value: { err: null } })
  expect(signature.isOpen).toBe(false)
  slot.unsubscribe()
  expect(last().calls.at(-1)).toMatchObject({ method: 'slotUnsubscribe', params: [5] })
})

it('leaves a connection that answers nothing', async () => {
  last().open()
  expect(client.isConnected).toBe(true)
  await vi.advanceTimersByTimeAsync(15_000)
  expect(client.isConnected).toBe(false)
  await vi.advanceTimersByTimeAsync(250)
  expect(sockets).toHaveLength(2)
})

it('leaves a connection that does not open for the next url', async () => {
  await vi.advanceTimersByTimeAsync(14_999)
  expect([sockets.length, last().isClosed]).toEqual([1, false])
  await vi.advanceTimersByTimeAsync(1)
  expect(last().isClosed).toBe(true)
  await vi.advanceTimersByTimeAsync(250)
  expect(sockets.map(({ url }) => url)).toEqual(['ws://a', 'ws://b'])
  // The wait of the one that opens late begins anew with its first call.
  await vi.advanceTimersByTimeAsync(14_000)
  last().open()
  await vi.advanceTimersByTimeAsync(14_000)
  expect(client.isConnected).toBe(true)
})

it('changes keys, and sends those that it has now with the next connection', async () => {
  const errors: unknown[] = []
  const onBehind = (notice: unknown) => void errors.push(notice)
  client.close()
  client = new PubsubClient({ url: 'ws://a', open, onBehind })
  last().open()
  const onError = ({ message }: { message: string }) => void errors.push(message)
  const filter = { vote: false, accountInclude: ['a', 'b'] }
  const config = { commitment: 'confirmed' }
  const swaps = client.subscribe('transaction', [filter, config], () => {}, { onError })
  // Before the answer: what differs follows it.
  swaps.update({ add: { accountInclude: ['c'] }, remove: { accountInclude: ['a'] } })
  const [asked] = last().calls.splice(0)
  expect(asked!.params).toEqual([filter, { ...config, cursor: true }])
  last().say({ id: asked!.id, result: 7 })
  const updates = () =>
    last()
      .calls.splice(0)
      .map(({ method, params }) => [method, ...params])
  expect(updates()).toEqual([
    ['transactionUpdate', 7, { add: { accountInclude: ['c'] }, more: true }],
    ['transactionUpdate', 7, { remove: { accountInclude: ['a'] } }],
  ])
  const many = Array.from({ length: 100 }, (_, at) => `k${at}`)
  swaps.update({ add: { accountInclude: [...many, 'b'], accountExclude: ['x'] } })
  const calls = last().calls.splice(0)
  expect(calls.map(({ params }) => params)).toEqual([
    [7, { add: { accountInclude: many.slice(0, 72) } }],
    [7, { add: { accountInclude: many.slice(72) } }],
    [7, { add: { accountExclude: ['x'] } }],
  ])
  last().say({ id: calls[1]!.id, error: { code: -32602, message: 'too many' } })
  last().notify(7, 'one', 'c1')
  last().say({ method: 'behindNotification', params: { result: { isBehind: true, slot: 9 } } })
  expect(errors).toEqual(['too many', { isBehind: true, slot: 9 }])
  await cut()
  const [again] = last().calls.splice(0)
  expect(again!.params).toEqual([
    {
      vote: false,
      accountInclude: ['b', 'c', ...many.slice(0, 6)],
      accountExclude: ['x'],
    },
    { ...config, more: true, resume: 'c1' },
  ])
  last().say({ id: again!.id, result: 8 })
  expect(updates()).toEqual([
    ['transactionUpdate', 8, { add: { accountInclude: many.slice(6, 72) } }],
  ])
  swaps.update({ remove: { accountInclude: ['b', 'c', ...many] } })
  // The wait before the next connection is short again after a notification.
  last().notify(8, 'two', 'c2')
  await cut()
  const [empty] = last().calls.splice(0)
  expect(empty!.params[0]).toMatchObject({ accountInclude: ['a'] })
  last().say({ id: empty!.id, result: 9 })
  expect(updates()).toEqual([['transactionUpdate', 9, { remove: { accountInclude: ['a'] } }]])
  expect(() => client.subscribe('logs', ['all'], () => {}).update({})).toThrow('transaction')
})

it('ends a subscription whose keys the server refuses while the connection begins', async () => {
  last().open()
  const errors: string[] = []
  const onError = ({ message }: { message: string }) => void errors.push(message)
  const filter = { accountInclude: ['a'] }
  const swaps = client.subscribe('transaction', [filter], () => {}, { onError })
  swaps.update({ add: { accountInclude: ['b'], accountExclude: ['c'] } })
  const [asked] = last().calls.splice(0)
  last().say({ id: asked!.id, result: 7 })
  for (const { id } of last().calls.splice(0))
    last().say({ id, error: { code: -32602, message: 'too many' } })
  expect(errors).toEqual(['too many'])
  expect(swaps.isOpen).toBe(false)
  expect(last().calls.map(({ method, params }) => [method, ...params])).toEqual([
    ['transactionUnsubscribe', 7],
  ])
})

it('sends no message that is too long for the server, with every list full and a long cursor', async () => {
  last().open()
  const keys = (list: string) => Array.from({ length: 100 }, (_, at) => `${list}${at}`.padEnd(44))
  const filter = { accountInclude: ['a'], accountExclude: ['b'], accountRequired: ['c'] }
  const swaps = client.subscribe('transaction', [filter, { commitment: 'confirmed' }], () => {})
  last().say({ id: last().calls[0]!.id, result: 7 })
  const [accountInclude, accountExclude, accountRequired] = ['i', 'e', 'r'].map(keys)
  swaps.update({ add: { accountInclude, accountExclude, accountRequired } } as never)
  last().notify(7, 'one', 'c'.repeat(1_600))
  await cut()
  last().say({ id: last().calls[0]!.id, result: 8 })
  expect(last().calls.length).toBeGreaterThan(3)
  for (const { longest } of sockets) expect(longest).toBeLessThanOrEqual(4_096)
})

it('leaves no timer when it is closed, also by who hears of a refusal', () => {
  const onError = () => client.close()
  client.subscribe('logs', ['all'], () => {}, { onError })
  last().open()
  const { id } = last().calls[0]!
  last().say({ id, error: { code: -32429, message: 'spent', data: { retryAfterMs: 1e9 } } })
  expect(vi.getTimerCount()).toBe(0)
})
