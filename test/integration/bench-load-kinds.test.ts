// The drivers of `sluice bench load` that are not HTTP/1.1: WebSocket and gRPC, and TLS below them.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createHttp2, type Http2Server, type ServerHttp2Stream } from 'node:http2'
import { createServer as createHttps } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { Arrivals } from '../../src/loadtest/arrivals.ts'
import type { DriverTarget } from '../../src/loadtest/driver.ts'
import { LoadGenerator } from '../../src/loadtest/load-generator.ts'
import { LoadTally } from '../../src/loadtest/load-tally.ts'
import { createDriver } from '../../src/loadtest/load-worker.ts'
import { sharedNowMs } from '../../src/loadtest/thread-clock.ts'
import { hasOpenssl, makePair } from '../testkit/certificates.ts'
import { until } from '../testkit/until.ts'

const closing: (() => void)[] = []
afterAll(() => {
  for (const close of closing) close()
})

interface Driven {
  readonly problem: string | null
  readonly tally: LoadTally
  readonly reconnects: number
  readonly notifications: number
}

/** 100 calls within 500 ms; and `lost` connections are opened again, if need be after the last. */
async function drive(
  target: Partial<DriverTarget> & { kind: string; url: string },
  lost = 0,
): Promise<Driven> {
  const plan = { kind: 'constant', rate: 200, seed: 1, durationMs: 500, callCount: 1 } as const
  const tally = new LoadTally(0)
  const generator = new LoadGenerator({
    arrivals: new Arrivals(plan),
    timeoutMs: 20_000,
    emit: (samples, codes) => tally.add(samples, codes),
  })
  const common = { token: null, connections: 3, calls: ['GetSlot'], connectMsMax: 20_000 }
  const driver = createDriver({ ...common, ...target }, generator.events)
  try {
    const problem = (await driver.open()) ?? (await generator.run(driver, sharedNowMs()))
    await until(() => driver.reconnects >= lost, 'the connections that were lost')
    const { reconnects, notifications } = driver
    return { problem, tally, reconnects, notifications }
  } finally {
    driver.close()
  }
}

interface PubsubOptions {
  readonly refuse?: boolean
  /** The socket is closed instead of the n-th answer. */
  readonly closeAt?: number
}

async function startPubsub({ refuse = false, closeAt = 0 }: PubsubOptions = {}) {
  const server = new WebSocketServer({
    port: 0,
    host: '127.0.0.1',
    verifyClient: ({ req }: { req: { headers: Record<string, unknown> } }) =>
      !refuse && req.headers['x-token'] === 'good',
  })
  closing.push(() => server.close())
  const open = new Set<number>()
  let calls = 0
  let unsubscribed = 0
  server.on('connection', (socket) => {
    socket.on('message', (data) => {
      const { id, method, params } = JSON.parse(String(data))
      if (method === 'slotSubscribe') {
        calls += 1
        if (calls === closeAt) return socket.close(1013)
        open.add(calls)
        socket.ping()
        socket.send(JSON.stringify({ jsonrpc: '2.0', method: 'slotNotification', params: {} }))
        socket.send(JSON.stringify({ jsonrpc: '2.0', result: calls, id }))
      } else if (method === 'slotUnsubscribe') {
        if (open.delete(params[0])) unsubscribed += 1
        socket.send(JSON.stringify({ jsonrpc: '2.0', result: true, id }))
      } else socket.send(JSON.stringify({ jsonrpc: '2.0', error: { code: -32601 }, id }))
    })
  })
  await new Promise((resolve) => server.once('listening', resolve))
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, open, counts: () => ({ calls, unsubscribed }) }
}

const subscribe = { kind: 'websocket', token: 'good', calls: ['{"method":"slotSubscribe"}'] }

describe('load over WebSocket', () => {
  test('measures subscribes, ends each again, and counts notifications', async () => {
    const pubsub = await startPubsub()
    const { problem, tally, notifications } = await drive({ ...subscribe, url: pubsub.url })
    expect(problem).toBe(null)
    expect([tally.calls, tally.succeeded]).toEqual([100, 100])
    await until(() => pubsub.open.size === 0, 'every subscription is ended')
    // One more of each outside the count.
    expect(pubsub.counts()).toEqual({ calls: 101, unsubscribed: 101 })
    expect(notifications).toBe(101)
  })

  test('counts errors by code', async () => {
    const { url } = await startPubsub()
    const { tally } = await drive({ ...subscribe, url, calls: ['{"method":"nothing"}'] })
    expect([...tally.errors]).toEqual([['rpc -32601', 100]])
  })

  test('reconnects when the endpoint closes a socket, and counts that call', async () => {
    const { url } = await startPubsub({ closeAt: 20 })
    const { problem, tally, reconnects } = await drive({ ...subscribe, url }, 1)
    expect(problem).toBe(null)
    expect([...tally.errors]).toEqual([['close 1013', 1]])
    expect(tally.succeeded).toBe(99)
    expect(reconnects).toBe(1)
  })

  test('reports a refused token and an endpoint of another protocol', async () => {
    const { url } = await startPubsub()
    const wrong = await drive({ ...subscribe, url, token: 'bad' })
    expect(wrong.problem).toBe('the endpoint refused the token (HTTP 401)')
    const http = createHttp2()
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
    closing.push(() => http.close())
    const other = `ws://127.0.0.1:${(http.address() as AddressInfo).port}`
    expect((await drive({ ...subscribe, url: other })).problem).toMatch(/^the endpoint /)
  })
})

type Serve = (stream: ServerHttp2Stream, headers: Readonly<Record<string, unknown>>) => void

async function startGrpc(serve: Serve): Promise<{ url: string; server: Http2Server }> {
  const server = createHttp2()
  server.on('stream', serve)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server }
}

function answerGrpc(stream: ServerHttp2Stream, status: number): void {
  stream.on('error', () => {})
  stream.resume()
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': String(status) }))
  stream.end(Buffer.from([0, 0, 0, 0, 2, 8, 1]))
}

describe('load over gRPC', () => {
  test('measures unary calls and sends path, token and message', async () => {
    const seen = new Set<string>()
    const { url } = await startGrpc((stream, headers) => {
      stream.on('data', (bytes: Buffer) => {
        seen.add(`${headers[':path']} ${headers['x-token']} ${bytes.toString('hex')}`)
      })
      answerGrpc(stream, 0)
    })
    const calls = ['{"method":"GetSlot","body":"CAE="}']
    const { problem, tally } = await drive({ kind: 'grpc', url, token: 't', calls })
    expect(problem).toBe(null)
    expect([tally.calls, tally.succeeded]).toEqual([100, 100])
    expect([...seen]).toEqual(['/geyser.Geyser/GetSlot t 00000000020801'])
  })

  test('counts statuses, and reports a refused token', async () => {
    let calls = 0
    const { url } = await startGrpc((stream, headers) => {
      calls += 1
      const status = calls % 2 === 0 ? 8 : 0
      answerGrpc(stream, headers['x-token'] === 'bad' ? 7 : status)
    })
    expect([...(await drive({ kind: 'grpc', url })).tally.errors]).toEqual([['grpc 8', 50]])
    const { problem } = await drive({ kind: 'grpc', url, token: 'bad' })
    expect(problem).toBe('the endpoint refused the token (grpc 7)')
  })

  test('reconnects after GOAWAY and finishes what was sent before', async () => {
    let taken = 0
    let leaving: ServerHttp2Stream['session']
    const { url } = await startGrpc((stream) => {
      if (leaving === undefined || stream.session !== leaving) taken += 1
      if (taken === 30 && leaving === undefined) {
        leaving = stream.session
        leaving?.close()
      }
      answerGrpc(stream, 0)
    })
    const { problem, tally, reconnects } = await drive({ kind: 'grpc', url }, 1)
    expect(problem).toBe(null)
    expect(tally.calls).toBe(100)
    // Only a call that crosses the GOAWAY on its way may be refused; after a stall there are many.
    expect(taken).toBeGreaterThan(30)
    // The first that was taken is the driver's own probe.
    expect(tally.succeeded).toBeGreaterThanOrEqual(taken - 1)
    expect(reconnects).toBe(1)
  })
})

describe('load over TLS', () => {
  test.skipIf(!hasOpenssl)('refuses a certificate that nobody vouches for', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-load-tls-'))
    closing.push(() => rmSync(folder, { recursive: true }))
    const { certPath, keyPath } = makePair(folder, 'localhost')
    const server = createHttps({ cert: readFileSync(certPath), key: readFileSync(keyPath) })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    closing.push(() => server.close())
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
    const { problem } = await drive({ kind: 'rpc', url, calls: ['{}'] })
    expect(problem).toMatch(/cannot be reached: .*(SELF_SIGNED|CERT)/)
  })
})
