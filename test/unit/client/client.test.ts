import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  efficiencyBand,
  efficiencyMeanings,
  type Frame,
  MetricsClient,
  ServiceError,
  type SocketLike,
} from '../../../src/client/client.ts'

class FakeSocket implements SocketLike {
  onopen: ((event: never) => void) | null = null
  onmessage: ((event: never) => void) | null = null
  onclose: ((event: never) => void) | null = null
  onerror: ((event: never) => void) | null = null
  readonly url: URL
  readonly sent: string[] = []
  isClosed = false

  constructor(url: string) {
    this.url = new URL(url)
  }
  send(text: string): void {
    this.sent.push(text)
  }
  close(): void {
    this.isClosed = true
  }
  open(): void {
    this.onopen?.({} as never)
  }
  say(message: unknown): void {
    this.onmessage?.({ data: JSON.stringify(message) } as never)
  }
  drop(code = 1006): void {
    this.onclose?.({ code } as never)
  }
  get query(): Record<string, string> {
    return Object.fromEntries(this.url.searchParams)
  }
}

let sockets: FakeSocket[]
const open = (url: string) => {
  const socket = new FakeSocket(url)
  sockets.push(socket)
  return socket
}
const resume = { seq: 0, Resume: { mode: 'snapshot', run: 'r1', oldest: 1, newest: 5 } }

beforeEach(() => {
  sockets = []
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

describe('MetricsClient', () => {
  test('requests its kinds and passes payloads to listeners', () => {
    const client = new MetricsClient({ url: 'https://host:8443/', events: ['TPS'], open }).connect()
    const seen: unknown[] = []
    client.on('TPS', (tps, seq) => seen.push([tps, seq]))
    client.on('Resume', ({ mode }) => seen.push(mode))
    expect(sockets[0]?.url.href).toBe('wss://host:8443/v1/ws?events=TPS')
    sockets[0]?.say(resume)
    sockets[0]?.say({ seq: 7, TPS: 455 })
    expect(seen).toEqual(['snapshot', [455, 7]])
    expect([client.cursor, client.run]).toEqual([7, 'r1'])
  })

  test('reconnects and resumes after its cursor, with its run', () => {
    const client = new MetricsClient({ url: 'ws://host:8443/v1/ws', open }).connect()
    sockets[0]?.say(resume)
    sockets[0]?.say({ seq: 9, TPS: 1 })
    sockets[0]?.say({ seq: 0, Warning: { code: 'backpressure', dropped: 2 } })
    sockets[0]?.drop()
    vi.advanceTimersByTime(250)
    expect(sockets[1]?.url.pathname).toBe('/v1/ws')
    expect(sockets[1]?.query).toMatchObject({ resume_from: '9', run: 'r1' })
    // The cursor echoed by Resume does not count as a frame, nor does it move anything back.
    sockets[1]?.say({ seq: 9, Resume: { ...resume.Resume, mode: 'resume' } })
    expect(client.cursor).toBe(9)
  })

  test('counts from the start in another run, whose numbers are lower', () => {
    const client = new MetricsClient({ url: 'http://h', open }).connect()
    sockets[0]?.say(resume)
    sockets[0]?.say({ seq: 1000, TPS: 1 })
    sockets[0]?.drop()
    vi.advanceTimersByTime(250)
    expect(sockets[1]?.query).toMatchObject({ resume_from: '1000', run: 'r1' })
    sockets[1]?.say({ seq: 0, Resume: { ...resume.Resume, run: 'r2' } })
    sockets[1]?.say({ seq: 10, TPS: 1 })
    sockets[1]?.say({ seq: 11, TPS: 1 })
    sockets[1]?.drop()
    vi.advanceTimersByTime(250)
    expect(sockets[2]?.query).toMatchObject({ resume_from: '11', run: 'r2' })
    client.close()
  })

  test('keeps a cursor whose run was not given when the server resumes it', () => {
    const client = new MetricsClient({ url: 'http://h', open, resumeFrom: 42 }).connect()
    sockets[0]?.say({ seq: 42, Resume: { ...resume.Resume, mode: 'resume' } })
    expect([client.cursor, client.run]).toEqual([42, 'r1'])
    client.close()
  })

  test('resumes from a cursor of an earlier process', () => {
    new MetricsClient({ url: 'http://h', open, resumeFrom: 42, run: 'x y' }).connect()
    expect(sockets[0]?.query).toMatchObject({ resume_from: '42', run: 'x y' })
  })

  test('retries with exponential back-off up to the maximum, and resets it after a frame', () => {
    const waits: number[] = []
    const client = new MetricsClient({
      url: 'http://h',
      open,
      backoffMs: { first: 100, most: 1000 },
    }).connect()
    client.on('closed', ({ retryMs }) => waits.push(retryMs ?? -1))
    for (let count = 0; count < 8; count++) {
      sockets.at(-1)?.drop()
      vi.advanceTimersByTime(1000)
    }
    expect(sockets).toHaveLength(9)
    waits.forEach((wait, index) => {
      const full = Math.min(1000, 100 * 2 ** index)
      expect(wait).toBeGreaterThanOrEqual(full / 2)
      expect(wait).toBeLessThanOrEqual(full)
    })
    sockets.at(-1)?.say({ seq: 1, TPS: 1 })
    sockets.at(-1)?.drop()
    expect(waits.at(-1)).toBeLessThanOrEqual(100)
    client.close()
  })

  test('reconnects after the silence timeout', () => {
    const client = new MetricsClient({ url: 'http://h', open, silenceMs: 5000 }).connect()
    sockets[0]?.say({ seq: 1, TPS: 1 })
    vi.advanceTimersByTime(4999)
    sockets[0]?.say({ seq: 2, TPS: 1 })
    vi.advanceTimersByTime(4999)
    expect(sockets).toHaveLength(1)
    vi.advanceTimersByTime(300)
    expect(sockets[0]?.isClosed).toBe(true)
    expect(sockets[1]?.query.resume_from).toBe('2')
    // Messages of the abandoned connection are ignored.
    sockets[0]?.say({ seq: 3, TPS: 1 })
    expect(client.cursor).toBe(2)
    client.close()
  })

  test('does not reconnect after close', () => {
    const client = new MetricsClient({ url: 'http://h', open }).connect()
    client.close()
    sockets[0]?.drop()
    vi.advanceTimersByTime(100_000)
    expect(sockets).toHaveLength(1)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('changes kinds now and for later connections', () => {
    const client = new MetricsClient({ url: 'http://h', open }).connect()
    sockets[0]?.open()
    expect(sockets[0]?.sent).toEqual([])
    client.subscribe(['Lifecycle'])
    expect(sockets[0]?.sent).toEqual(['{"subscribe":["Lifecycle"]}'])
    sockets[0]?.drop()
    vi.advanceTimersByTime(250)
    expect(sockets[1]?.query.events).toBe('Lifecycle')
    sockets[1]?.open()
    expect(sockets[1]?.sent).toEqual([])
    client.close()
  })

  test('sends a change of kinds that was made while it connects once it is open', () => {
    const client = new MetricsClient({ url: 'http://h', open }).connect()
    client.subscribe(['Lifecycle'])
    client.subscribe(['TPS'])
    expect(sockets[0]?.sent).toEqual([])
    sockets[0]?.open()
    expect(sockets[0]?.sent).toEqual(['{"subscribe":["TPS"]}'])
    // The same on a later connection, after one that was open.
    sockets[0]?.drop()
    vi.advanceTimersByTime(250)
    client.subscribe(['Lifecycle'])
    expect(sockets[1]?.sent).toEqual([])
    sockets[1]?.open()
    expect(sockets[1]?.sent).toEqual(['{"subscribe":["Lifecycle"]}'])
    client.close()
  })

  test('throws a helpful error where the platform has no WebSocket', () => {
    vi.stubGlobal('WebSocket', undefined)
    expect(() => new MetricsClient({ url: 'http://h' }).connect()).toThrow('has no WebSocket')
    vi.unstubAllGlobals()
  })
})

describe('the iterator', () => {
  test('yields every frame in order and ends with close', async () => {
    const client = new MetricsClient({ url: 'http://h', open })
    const seen: Frame[] = []
    const loop = (async () => {
      for await (const frame of client) {
        seen.push(frame)
        if (frame.kind === 'Gap') client.close()
      }
    })()
    await vi.advanceTimersByTimeAsync(0)
    sockets[0]?.say(resume)
    sockets[0]?.say({ seq: 1, TPS: 5 })
    sockets[0]?.say({ seq: 2, Gap: { from: 1, to: 2 } })
    await loop
    expect(seen).toEqual([
      { seq: 1, kind: 'TPS', payload: 5 },
      { seq: 2, kind: 'Gap', payload: { from: 1, to: 2 } },
    ])
  })

  test('that is slow disconnects and resumes without loss', async () => {
    // Each connection sends all twenty frames after its cursor at once.
    const flood = (url: string) => {
      const socket = open(url)
      const from = Number(socket.query.resume_from ?? 0)
      queueMicrotask(() => {
        for (let seq = from + 1; seq <= 20; seq++) socket.say({ seq, TPS: seq })
      })
      return socket
    }
    const client = new MetricsClient({ url: 'http://h', open: flood, waitingMax: 3 })
    const seqs: number[] = []
    for await (const { seq } of client) {
      seqs.push(seq)
      if (seq === 20) break
    }
    expect(seqs).toEqual(Array.from({ length: 20 }, (_, index) => index + 1))
    expect(sockets.length).toBeGreaterThan(5)
    expect(sockets.every((socket) => socket.isClosed)).toBe(true)
  })

  test('that is left closes the client, and a later one resumes after the last consumed frame', async () => {
    const client = new MetricsClient({ url: 'http://h', open })
    const frames = client[Symbol.asyncIterator]()
    const first = frames.next()
    await vi.advanceTimersByTimeAsync(0)
    for (let seq = 1; seq <= 5; seq++) sockets[0]?.say({ seq, TPS: seq })
    await first
    await frames.return()
    expect(sockets[0]?.isClosed).toBe(true)
    expect(client.cursor).toBe(1)
    client.connect()
    expect(sockets[1]?.query.resume_from).toBe('1')
    client.close()
  })

  test('that is left amid frames of another run resumes in the run that it has read', async () => {
    const client = new MetricsClient({ url: 'http://h', open })
    const frames = client[Symbol.asyncIterator]()
    const first = frames.next()
    await vi.advanceTimersByTimeAsync(0)
    sockets[0]?.say(resume)
    for (let seq = 6; seq <= 8; seq++) sockets[0]?.say({ seq, TPS: seq })
    sockets[0]?.say({ seq: 0, Resume: { ...resume.Resume, run: 'r2' } })
    for (let seq = 1; seq <= 9; seq++) sockets[0]?.say({ seq, TPS: seq })
    await first
    await frames.return()
    client.connect()
    expect(sockets[1]?.query).toMatchObject({ resume_from: '6', run: 'r1' })
    client.close()
  })
})

describe('REST', () => {
  const answering = (status: number, body: unknown) => {
    const calls: { url: string; init: { headers: Record<string, string>; body?: string } }[] = []
    const fetch = async (url: string, init: { headers: Record<string, string>; body?: string }) => {
      calls.push({ url, init })
      return { status, text: async () => JSON.stringify(body) }
    }
    return { client: new MetricsClient({ url: 'wss://h:1/', token: 't', fetch, open }), calls }
  }

  test('calls the same address over HTTP, with the token', async () => {
    const { client, calls } = answering(200, { tps: 7 })
    expect(await client.tps()).toBe(7)
    expect(calls[0]?.url).toBe('https://h:1/v1/tps')
    expect(calls[0]?.init.headers['x-token']).toBe('t')
  })

  test('returns null for not found, and throws other errors', async () => {
    expect(
      await answering(404, { error: 'block not found' }).client.lifecycle(2n ** 60n),
    ).toBeNull()
    expect(await answering(404, { error: 'no contention data yet' }).client.contention()).toBeNull()
    await expect(answering(401, { error: 'unauthorized' }).client.status()).rejects.toThrow(
      new ServiceError(401, 'unauthorized'),
    )
  })

  test('returns the health of an unhealthy service', async () => {
    const { client } = answering(503, { jsonrpc: '2.0', result: { healthy: false, number: 3 } })
    expect(await client.health()).toEqual({ healthy: false, number: 3 })
  })

  test('calls JSON-RPC methods', async () => {
    const { client, calls } = answering(200, { jsonrpc: '2.0', result: '0x1', id: 1 })
    expect(await client.call('eth_blockNumber')).toBe('0x1')
    expect(JSON.parse(calls[0]?.init.body ?? '')).toMatchObject({ method: 'eth_blockNumber' })
    const broken = answering(200, { error: { code: -32601, message: 'Method not found' }, id: 1 })
    await expect(broken.client.call('x')).rejects.toMatchObject({ code: -32601 })
  })
})

test.each([
  [100, 'excellent'],
  [90, 'excellent'],
  [89.99, 'bottlenecks'],
  [70, 'bottlenecks'],
  [69.99, 'sequential'],
  [0, 'sequential'],
] as const)('an efficiency of %d is %s', (percent, band) => {
  expect(efficiencyBand(percent)).toBe(band)
  expect(efficiencyMeanings[band]).not.toBe('')
})
