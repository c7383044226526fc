// The TPU Sender and the budget of client addresses: every request is charged before decoding.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { FakeClock, FakeSender } from '../testkit/fake-senders.ts'
import { expectShape } from '../testkit/golden.ts'
import { newPayer, sign, transfer } from '../testkit/tipped.ts'
import { TpuStage } from '../testkit/tpu-stage.ts'

const limits = {
  workMsPerSecond: 1,
  workMsBurst: 4,
  bytesPerSecond: 1_000_000,
  bytesBurst: 10_000_000,
}
const clock = new FakeClock()
const upstream = new FakeSender()
const stage = new TpuStage()
beforeAll(() => stage.start({}, [upstream], { limits, clock, trustedProxies: ['127.0.0.1/32'] }))
afterAll(() => stage.dispose())
beforeEach(() => {
  // Every budget has refilled.
  clock.ms += 100_000
})

interface Sent extends RequestInit {
  readonly from?: string
  readonly duplex?: 'half'
}

async function ask(path: string, { from = '192.0.2.1', headers, ...init }: Sent = {}) {
  const answer = await fetch(`${stage.url}${path}`, {
    ...init,
    headers: { ...headers, 'x-forwarded-for': from },
  } as RequestInit)
  return { status: answer.status, headers: answer.headers, text: await answer.text() }
}

const json = { 'content-type': 'application/json' }
const post = (path: string, body: Buffer | string, type = 'application/json', from?: string) =>
  ask(path, {
    method: 'POST',
    body,
    headers: { 'content-type': type },
    ...(from === undefined ? {} : { from }),
  })

/** Sends that many in parallel; returns the statuses. */
const statusesOf = async (way: () => Promise<{ status: number }>, count: number) =>
  (await Promise.all(Array.from({ length: count }, way))).map(({ status }) => status)

/** Sends until one is refused; fails when that never happens. */
async function refusedAfter(send: () => Promise<{ status: number }>, most = 20) {
  for (let count = 0; count < most; count++) if ((await send()).status === 429) return count
  throw new Error(`${most} requests were served`)
}

const call = (method: string, params: unknown[]) => ({ jsonrpc: '2.0', id: 7, method, params })
const longest = 'z'.repeat(1_683)
const mostExpensive = JSON.stringify(Array(16).fill(call('sendTransaction', [longest])))
const rejected = () => stage.meters.rejected.read().reduce((sum, [, count]) => sum + count, 0)

describe('the budget of an address', () => {
  it('is charged for a batch of base58 texts before any of them is decoded', async () => {
    const before = rejected()
    const served = await refusedAfter(() => post('/', mostExpensive))
    // Out of 4 ms; each is estimated at 1.6.
    expect(served).toBe(2)
    expect(rejected() - before).toBe(served * 16)
    const refusal = await post('/', mostExpensive)
    expect(refusal.status).toBe(429)
    expect(Number(refusal.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(JSON.parse(refusal.text)).toMatchObject({
      jsonrpc: '2.0',
      id: null,
      error: { code: -32429, data: { reason: 'ADDRESS_BUDGET' } },
    })
    expectShape('tpu/address-budget', JSON.parse(refusal.text))
    const plain = await post('/check', mostExpensive)
    expect([plain.status, JSON.parse(plain.text).error.code]).toEqual([429, -32429])
    expect(rejected() - before).toBe(served * 16)
    clock.ms += 10_000
    expect((await post('/', mostExpensive)).status).toBe(200)
  })

  it('is charged for every path, verb, preflight and error', async () => {
    const ways: [string, () => Promise<{ status: number }>][] = [
      ['ping', () => ask('/ping')],
      ['tip accounts', () => ask('/tip-accounts')],
      ['health', () => ask('/health')],
      ['unknown path', () => ask('/nowhere')],
      ['wrong verb', () => ask('/batch')],
      ['preflight', () => ask('/', { method: 'OPTIONS' })],
      ['media type', () => post('/', '{}', 'text/html')],
      ['too long a body', () => post('/api/v1/transactions', 'x'.repeat(5_000), 'text/plain')],
      ['check', () => post('/check', 'AAAA', 'text/plain')],
      ['raw', () => post('/api/v1/transactions', 'AAAA', 'text/plain')],
      ['batch', () => post('/batch', Buffer.alloc(30_000), 'application/octet-stream')],
      ['method', () => post('/', JSON.stringify(call('getHealth', [])))],
    ]
    for (const [name, way] of ways) {
      clock.ms += 100_000
      const before = stage.addressRefused
      // Out of 4 ms; the cheapest are estimated at 0.02.
      const statuses = await statusesOf(way, 210)
      const refused = statuses.filter((status) => status === 429).length
      expect(refused, name).toBeGreaterThanOrEqual(10)
      expect(refused, name).toBeLessThan(210)
      expect(stage.addressRefused - before, name).toBe(refused)
    }
  })

  it('is charged for a body of unknown length when that is read', async () => {
    const send = () =>
      ask('/', {
        method: 'POST',
        headers: json,
        body: new Blob([mostExpensive]).stream(),
        duplex: 'half',
      })
    expect(await refusedAfter(send)).toBe(2)
  })

  it('is one for a whole IPv6 /64, and each IPv4 address has its own', async () => {
    let host = 0
    const sibling = () =>
      post('/', mostExpensive, 'application/json', `2001:db8:0:1::${(++host).toString(16)}`)
    expect(await refusedAfter(sibling)).toBe(2)
    expect((await ask('/ping', { from: '2001:db8:0:2::1' })).status).toBe(200)
    await refusedAfter(() => post('/', mostExpensive))
    expect((await post('/', mostExpensive, 'application/json', '192.0.2.2')).status).toBe(200)
  })

  it('does not change the answer to a text that is too long for a transaction', async () => {
    for (const encoding of ['base58', 'base64']) {
      const text = 'z'.repeat(encoding === 'base58' ? 1_684 : 5_468)
      const { status, text: answer } = await post(
        '/',
        JSON.stringify(call('sendTransaction', [text, { encoding }])),
      )
      expect(status).toBe(200)
      expect(JSON.parse(answer).error).toMatchObject({
        code: -32602,
        data: { reason: 'TOO_LARGE' },
      })
    }
  })

  it('is separate from the rate of transactions: a duplicate uses none of that rate', async () => {
    const payer = await newPayer()
    const to = stage.tpu.tipAccounts()[0]!
    const bytes = await sign(payer, [transfer({ from: payer, to, lamports: 1_000_000n })])
    const frame = Buffer.from([bytes.length >> 8, bytes.length & 255, ...bytes])
    const batch = Buffer.concat(Array(16).fill(frame))
    // 160 in one moment, over the burst of 100.
    for (let count = 0; count < 10; count++) {
      const { status, text } = await post('/batch', batch, 'application/octet-stream')
      expect([status, text.match(/"signature"/g)]).toEqual([200, Array(16).fill('"signature"')])
    }
    expect(upstream.sent).toHaveLength(1)
  })
})
