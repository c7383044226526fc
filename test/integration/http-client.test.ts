// The HTTP client against raw sockets: what servers do to it, and what it must not do to them.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createHttps } from 'node:https'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { systemClock as clock } from '../../src/base/clock.ts'
import { BodyStream } from '../../src/upstream/http-client/body-stream.ts'
import { HttpClient } from '../../src/upstream/http-client/http-client.ts'
import { readText } from '../../src/upstream/http-client/http-request.ts'
import { hasOpenssl, makePair } from '../testkit/certificates.ts'
import { until } from '../testkit/until.ts'

let server: Server
let client: HttpClient
let sockets: Socket[] = []
/** Requests in the order in which they came, by connection. */
let requests: { on: number; text: string }[] = []

afterEach(async () => {
  client.stop()
  for (const socket of sockets) socket.destroy()
  await new Promise((resolve) => server.close(resolve))
  sockets = []
  requests = []
})

/** A server that calls `answer` for each request; requests here come in one piece. */
async function serve(answer: (socket: Socket, count: number, text: string) => void) {
  server = createServer((socket) => {
    const on = sockets.push(socket)
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      const text = bytes.toString()
      requests.push({ on, text })
      answer(socket, requests.length, text)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  client = new HttpClient(`http://127.0.0.1:${port()}/a?b=c`, { clock, xToken: 'tok' })
}

const ok = (body: string) => `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`
const port = () => (server.address() as AddressInfo).port
const options = { timeoutMs: 20_000 }
const call = (body: string | Uint8Array = '{}') => client.request(body, options).response
const bodyOf = async (body?: string | Uint8Array) => {
  const response = await call(body)
  return response.ok ? await readText(response) : response.fault
}

describe('a request', () => {
  it('is one POST with its length and token, text or bytes', async () => {
    await serve((socket) => socket.write(ok('1')))
    expect(await bodyOf('{"é":1}')).toBe('1')
    expect(await bodyOf(Buffer.from('{"é":1}'))).toBe('1')
    const [first, second] = requests
    expect(first).toEqual(second)
    expect(first?.text).toMatch(/^POST \/a\?b=c HTTP\/1\.1\r\nhost: 127\.0\.0\.1:\d+\r\n/)
    expect(first?.text).toMatch(/\r\nx-token: tok\r\ncontent-length: 8\r\n\r\n\{"é":1\}$/)
  })

  it('shares no connection with another that is on its way', async () => {
    await serve((socket, count) => {
      if (count === 2) for (const each of sockets) each.write(ok('x'))
      if (count > 2) socket.write(ok('y'))
    })
    expect(await Promise.all([bodyOf(), bodyOf()])).toEqual(['x', 'x'])
    expect(await bodyOf()).toBe('y')
    expect(sockets).toHaveLength(2)
  })

  it('waits for a connection when there are too many, and loses no request', async () => {
    const held: Socket[] = []
    await serve((socket, count) => {
      if (count <= 256) held.push(socket)
      else socket.write(ok('later'))
    })
    const all = Array.from({ length: 300 }, () => bodyOf())
    const given = client.request('{}', options)
    await until(() => held.length === 256, 'all connections')
    given.abort()
    expect(await given.response).toMatchObject({ fault: 'aborted', isSent: false })
    for (const socket of held) socket.write(ok('first'))
    const bodies = await Promise.all(all)
    expect(bodies.filter((body) => body === 'first')).toHaveLength(256)
    expect(bodies.filter((body) => body === 'later')).toHaveLength(44)
    expect(sockets).toHaveLength(256)
    expect(requests).toHaveLength(300)
  })

  it('carries the user and password of the address, percent-encoded or not', async () => {
    await serve((socket) => socket.write(ok('1')))
    for (const [written, sent] of [
      ['me:p%2Fw', 'me:p/w'],
      ['me%:100%', 'me%:100%'],
    ] as const) {
      client.stop()
      client = new HttpClient(`http://${written}@127.0.0.1:${port()}/`, { clock })
      expect(await bodyOf()).toBe('1')
      const basic = Buffer.from(sent).toString('base64')
      expect(requests.at(-1)?.text).toContain(`\r\nauthorization: Basic ${basic}\r\n`)
    }
  })

  it('is refused as busy while the queue is full of requests that still wait', async () => {
    await serve(() => {})
    const waiting = Array.from({ length: 256 + 3_840 }, () => client.request('{}', options))
    expect(await client.request('{}', options).response).toMatchObject({ fault: 'busy' })
    waiting.at(-2)?.abort()
    const last = client.request('{}', options)
    expect(last.isOver).toBe(false)
    expect(await client.request('{}', options).response).toMatchObject({ fault: 'busy' })
    for (const request of [...waiting, last]) request.abort()
  })

  it('is sent once, whatever happens to its connection', async () => {
    await serve((socket, count) => {
      if (count === 1) socket.write(ok('1'))
      else socket.destroy()
    })
    expect(await bodyOf()).toBe('1')
    expect(await call()).toMatchObject({ ok: false, fault: 'broken', isSent: true })
    expect(await call()).toMatchObject({ ok: false, fault: 'broken', isSent: true })
    expect(requests).toHaveLength(3)
  })
})

describe('a response', () => {
  it('in chunks, until the end, and closed after it are all read', async () => {
    const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n'
    await serve((socket, count) => {
      if (count === 1) socket.write(chunked)
      else if (count === 2) socket.end(`HTTP/1.1 200 OK\r\n\r\nabc`)
      else socket.end(`HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc`)
    })
    for (let time = 0; time < 3; time++) expect(await bodyOf()).toBe('abc')
    expect(sockets).toHaveLength(2)
  })

  it('that is not HTTP is broken, and its connection is not reused', async () => {
    await serve((socket, count) => socket.write(count === 1 ? 'nonsense\r\n\r\n' : ok('1')))
    expect(await bodyOf()).toBe('broken')
    expect(await bodyOf()).toBe('1')
    expect(sockets).toHaveLength(2)
  })

  it('with more bytes than it stated closes the connection', async () => {
    await serve((socket) => socket.write(`${ok('1')}HTTP/1.1 200 OK\r\n`))
    expect(await bodyOf()).toBe('1')
    expect(await bodyOf()).toBe('1')
    expect(sockets).toHaveLength(2)
  })

  it('without a request closes the connection', async () => {
    await serve((socket) => socket.write(ok('1')))
    expect(await bodyOf()).toBe('1')
    sockets[0]!.write(ok('2'))
    await until(() => sockets[0]!.destroyed || sockets[0]!.readableEnded, 'it to be closed')
    expect(await bodyOf()).toBe('1')
    expect(sockets).toHaveLength(2)
  })

  it('that was paused with its last bytes leaves a connection that can be reused', async () => {
    await serve((socket) => socket.write(ok('last')))
    for (let time = 0; time < 3; time++) {
      const request = client.request('{}', options)
      const data = request.data.bind(request)
      request.data = (chunk) => {
        data(chunk)
        request.pause()
      }
      expect(await request.response).toMatchObject({ ok: true, body: 'last' })
    }
    expect(await bodyOf()).toBe('last')
    expect(sockets).toHaveLength(1)
  })

  it('that is aborted in the middle closes its connection', async () => {
    await serve((socket, count) => {
      if (count === 1) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n1')
      else socket.write(ok('2'))
    })
    const request = client.request('{}', options)
    await until(() => request.status === 200, 'the head')
    request.abort()
    expect(await request.response).toMatchObject({ ok: false, fault: 'aborted', isSent: true })
    await until(() => sockets[0]?.destroyed === true, 'the connection to end')
    expect(await bodyOf()).toBe('2')
  })

  it('of 5xx or 429 has no body, and keeps its connection when that is short', async () => {
    await serve((socket, count) => {
      if (count === 1) socket.write(`HTTP/1.1 503 No\r\ncontent-length: 4\r\n\r\noh`)
      else if (count === 2) socket.write(`HTTP/1.1 429 No\r\n\r\n${'x'.repeat(100_000)}`)
      else socket.write(ok('2'))
    })
    expect(await call()).toEqual({ ok: true, status: 503, body: '' })
    sockets[0]!.write('no')
    await new Promise((resolve) => setImmediate(resolve))
    expect(await call()).toEqual({ ok: true, status: 429, body: '' })
    await until(() => sockets.some(({ destroyed }) => destroyed), 'the long one to be closed')
    expect(await bodyOf()).toBe('2')
  })

  it('that is long is streamed, with or without a length', async () => {
    const long = 'x'.repeat(1_000_000)
    const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'
    await serve((socket, count) => {
      if (count === 1) socket.write(ok(long))
      else socket.write(`${head}${long.length.toString(16)}\r\n${long}\r\n0\r\n\r\n`)
    })
    for (let time = 0; time < 2; time++) {
      const response = await call()
      expect(response.ok && response.body).toBeInstanceOf(BodyStream)
      expect(response.ok && (await readText(response)) === long).toBe(true)
    }
    expect(sockets).toHaveLength(1)
    const response = await call()
    expect(response.ok && (await readText(response, 300_000))).toBe(null)
    await until(() => sockets[0]!.destroyed, 'the connection of a body that is too long')
  })
})

it('a stop fails every request that waits', async () => {
  await serve(() => {})
  const waiting = bodyOf()
  await until(() => requests.length === 1, 'the request')
  client.stop()
  expect(await waiting).toBe('broken')
  expect(await bodyOf()).toBe('unreached')
})

describe.runIf(hasOpenssl)('with TLS', () => {
  it('nothing is sent to a server whose certificate is not trusted', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-http-client-'))
    const { certPath, keyPath } = makePair(folder, 'node')
    const pair = { cert: readFileSync(certPath), key: readFileSync(keyPath) }
    rmSync(folder, { recursive: true })
    const https = createHttps(pair, (_request, response) => {
      requests.push({ on: 1, text: 'seen' })
      response.end('1')
    })
    https.on('connection', (socket: Socket) => sockets.push(socket))
    server = https
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = `https://127.0.0.1:${port()}/`
    client = new HttpClient(address, { clock })
    expect(await call()).toMatchObject({
      ok: false,
      fault: 'unreached',
      isSent: false,
      code: 'DEPTH_ZERO_SELF_SIGNED_CERT',
    })
    expect(requests).toEqual([])
    client.stop()
    client = new HttpClient(address, { clock, ca: pair.cert })
    expect(await bodyOf()).toBe('1')
    expect(await bodyOf()).toBe('1')
    expect(sockets).toHaveLength(2)
  })
})

describe('a body that makes hardly any progress', () => {
  afterEach(() => void vi.useRealTimers())

  /** The fault after more than half a minute of the client's checks, one piece each. */
  async function faultOf(piece: string): Promise<string> {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    await serve((socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 900000\r\n\r\n'))
    let bytes = 0
    let fault = ''
    const request = client.request('{}', options)
    const data = request.data.bind(request)
    request.data = (chunk) => {
      bytes += chunk.length
      data(chunk)
    }
    void request.response.then((response) => {
      if (!response.ok) fault = response.fault
    })
    await until(() => sockets.length === 1 && requests.length === 1, 'the request came')
    for (let time = 1; time <= 40 && fault === ''; time++) {
      sockets[0]!.write(piece)
      await until(() => bytes === time * piece.length, 'the piece came')
      vi.advanceTimersByTime(1000)
      await Promise.resolve()
    }
    return fault
  }

  it('fails', async () => {
    expect(await faultOf('x')).toBe('broken')
  })

  it('may be slow', async () => {
    expect(await faultOf('x'.repeat(2000))).toBe('')
  })
})
