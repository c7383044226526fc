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

  constructor(url: string) {
    this.url = url
  }

  send(text: string): void {
    const call = JSON.parse(text)
    if (call.method !== 'getVersion') this.calls.push(call)
  }

  close(): void {}

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

beforeEach(() => {
  vi.useFakeTimers()
  sockets = []
  const open = (url: string) => {
    sockets.push(new FakeSocket(url))
    return last()
  }
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
