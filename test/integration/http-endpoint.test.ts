// HTTP endpoint with test routes: the behaviour that every product relies on.
import { execFileSync } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import { request as undiciRequest } from 'undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { type HttpEndpoint, openHttpEndpoint } from '../../src/base/transport/http-endpoint.ts'
import { jsonHead, Reply, ResponseHead } from '../../src/base/transport/reply.ts'
import { sendRaw } from '../testkit/raw-http.ts'
import { until } from '../testkit/until.ts'

const textHead = ResponseHead.of({ 'content-type': 'text/plain; charset=utf-8' })

/** Characters below 256 alone, and with others: V8 keeps the two in different ways. */
const words = ['é', 'é漢']

let endpoint: HttpEndpoint<null>
let url = ''
let release: (() => void) | null = null
let goneCount = 0

async function* chunks(count: number): AsyncGenerator<Uint8Array> {
  for (let index = 0; index < count; index++) yield Buffer.alloc(65_536, 97)
}

beforeAll(async () => {
  endpoint = await openHttpEndpoint<null>({
    product: 'test',
    listen: { host: '127.0.0.1', port: 0 },
    tls: null,
    trustedProxies: [],
    clock: systemClock,
    log: silentLog,
    http: {
      admit: () => null,
      wants: ['accept'],
      preflight: ResponseHead.of({ 'access-control-allow-origin': '*' }),
      inFlightPerAddressMax: 4,
      routes: [
        {
          verb: 'GET',
          path: '/hello',
          handle: (request) => new Reply(200, textHead, request.header('accept')),
        },
        {
          verb: 'GET',
          path: '/words',
          handle: ({ query }) => {
            const text = words[Number(query)] ?? ''
            return new Reply(200, textHead.and('x-words', text), text)
          },
        },
        {
          verb: 'POST',
          path: '/echo',
          bodyBytesMax: 1000,
          handle: (_, body) => new Reply(200, jsonHead, Buffer.from(body)),
        },
        {
          verb: 'GET',
          path: '/blocks/:number/life',
          handle: (request) => new Reply(200, textHead, request.params.join()),
        },
        {
          verb: 'GET',
          path: '/throws',
          handle: () => {
            throw new Error('a bug')
          },
        },
        {
          verb: 'POST',
          path: '/throws',
          bodyBytesMax: 100,
          handle: () => {
            throw new Error('a bug')
          },
        },
        { verb: 'GET', path: '/rejects', handle: () => Promise.reject(new Error('a bug')) },
        { verb: 'GET', path: '/stream', handle: () => new Reply(200, textHead, chunks(100)) },
        {
          verb: 'GET',
          path: '/large',
          handle: () => new Reply(200, textHead, Buffer.alloc(8_000_000, 98)),
        },
        {
          verb: 'GET',
          path: '/wait',
          handle: () =>
            new Promise((resolve) => {
              release = () => resolve(new Reply(200, textHead, 'late'))
            }),
        },
        {
          verb: 'GET',
          path: '/watch',
          watchesClient: true,
          handle: (request) =>
            new Promise(() =>
              request.onGone(() => {
                goneCount++
              }),
            ),
        },
      ],
    },
  })
  url = `http://127.0.0.1:${endpoint.address.port}`
})

afterAll(() => endpoint.stop())

describe('the HTTP endpoint', () => {
  it('answers a route with the headers it requested', async () => {
    const answer = await fetch(`${url}/hello?x=1`, { headers: { accept: 'text/x' } })
    expect([answer.status, await answer.text()]).toEqual([200, 'text/x'])
  })

  it('passes the segments of a path to its route', async () => {
    expect(await (await fetch(`${url}/blocks/12/life`)).text()).toBe('12')
    expect((await fetch(`${url}/blocks/12/13/life`)).status).toBe(404)
  })

  it('answers an unknown path with 404 and a wrong verb with 405 and Allow, in JSON', async () => {
    const unknown = await fetch(`${url}/nowhere`)
    expect([unknown.status, await unknown.json()]).toEqual([404, { error: 'not found' }])
    const wrong = await fetch(`${url}/hello`, { method: 'DELETE' })
    expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS'])
    expect(await wrong.json()).toEqual({ error: 'method not allowed' })
  })

  it('answers HEAD with the length and no body, OPTIONS with 204', async () => {
    const head = await sendRaw(
      endpoint.address.port,
      'HEAD /hello HTTP/1.1\r\nhost: a\r\naccept: abc\r\n\r\nGET /nowhere HTTP/1.1\r\nhost: a\r\n\r\n',
      { answers: 2 },
    )
    expect(head.text).toMatch(/content-length: 3\r\n/i)
    expect(head.text).toContain('404 Not Found')
    const asked = 'OPTIONS /x HTTP/1.1\r\nhost: a\r\n\r\n'
    const preflight = await sendRaw(endpoint.address.port, asked)
    expect(preflight.text).toMatch(/^HTTP\/1\.1 204 No Content\r\naccess-control-allow-origin: \*/)
    expect(preflight.body).toBe('')
  })

  it('sends text in UTF-8, in the body and in the head', async () => {
    for (const [at, text] of words.entries()) {
      const asked = `GET /words?${at} HTTP/1.1\r\nhost: a\r\n\r\n`
      const answer = await sendRaw(endpoint.address.port, asked)
      const seen = Buffer.from(answer.text, 'latin1').toString()
      expect(seen).toContain(`x-words: ${text}\r\n`)
      expect(seen).toMatch(new RegExp(`\r\n\r\n${text}$`))
    }
  })

  it('reads a head of many kilobytes, whole or in two parts', async () => {
    const line = 'GET /hello HTTP/1.1\r\n'
    const accept = 'a'.repeat(15_000)
    const rest = `host: a\r\naccept: ${accept}\r\n\r\n`
    const whole = await sendRaw(endpoint.address.port, line + rest)
    expect(whole.body).toBe(accept)
    const first = `${line}${rest.slice(0, 5_000)}`
    const later = { parts: [rest.slice(5_000)], everyMs: 10 }
    expect((await sendRaw(endpoint.address.port, first, { later })).body).toBe(accept)
    const query = await sendRaw(
      endpoint.address.port,
      `GET /hello?${'q'.repeat(30_000)} HTTP/1.1\r\nhost: a\r\naccept: b\r\n\r\n`,
    )
    expect(query.body).toBe('b')
  })

  it('reads bodies whole, in chunks and byte by byte', async () => {
    const post = 'POST /echo HTTP/1.1\r\nhost: a\r\n'
    const whole = await sendRaw(endpoint.address.port, `${post}content-length: 5\r\n\r\nhello`)
    expect(whole.body).toBe('hello')
    const chunked = await sendRaw(
      endpoint.address.port,
      `${post}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n`,
    )
    expect(chunked.body).toBe('abcde')
    const slow = await sendRaw(endpoint.address.port, `${post}content-length: 3\r\n\r\n`, {
      later: { parts: ['x', 'y', 'z'], everyMs: 10 },
    })
    expect(slow.body).toBe('xyz')
  })

  it('answers 413 from the Content-Length and by counting', async () => {
    const post = 'POST /echo HTTP/1.1\r\nhost: a\r\n'
    const stated = await sendRaw(endpoint.address.port, `${post}content-length: 1001\r\n\r\n`)
    expect(stated.status).toBe(413)
    const counted = await sendRaw(
      endpoint.address.port,
      `${post}transfer-encoding: chunked\r\n\r\n3e9\r\n${'a'.repeat(1001)}\r\n`,
    )
    expect(counted.status).toBe(413)
  })

  it('answers 500 when a handler throws or rejects, and stays up', async () => {
    for (const [path, method] of [
      ['/throws', 'GET'],
      ['/throws', 'POST'],
      ['/rejects', 'GET'],
    ] as const) {
      const answer = await fetch(`${url}${path}`, method === 'POST' ? { method, body: 'x' } : {})
      expect([answer.status, await answer.json()]).toEqual([500, { error: 'internal error' }])
    }
    expect((await fetch(`${url}/hello`)).status).toBe(200)
  })

  it('streams and sends large bodies with backpressure', async () => {
    expect((await (await fetch(`${url}/stream`)).arrayBuffer()).byteLength).toBe(6_553_600)
    const { body } = await undiciRequest(`${url}/large`)
    let bytes = 0
    for await (const chunk of body) {
      bytes += (chunk as Buffer).length
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(bytes).toBe(8_000_000)
  })

  it('answers two pipelined requests in order while the first waits', async () => {
    const socket = connect(endpoint.address.port, '127.0.0.1')
    let text = ''
    socket.on('data', (data) => {
      text += data
    })
    release = null
    socket.write('GET /wait HTTP/1.1\r\nhost: a\r\n\r\n')
    await until(() => release !== null, 'the first request to arrive')
    await new Promise((resolve) =>
      socket.write('GET /hello HTTP/1.1\r\nhost: a\r\naccept: second\r\n\r\n', resolve),
    )
    release!()
    await until(() => /late.*second$/s.test(text), 'both answers in order')
    socket.destroy()
  })

  it('answers pipelined requests of one segment in order, where each is answered at once', async () => {
    const get = (accept: string) => `GET /hello HTTP/1.1\r\nhost: a\r\naccept: ${accept}\r\n\r\n`
    const post = 'POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\ntwo'
    const { text } = await sendRaw(endpoint.address.port, get('one') + post + get('three'), {
      answers: 3,
    })
    expect(text).toMatch(/\r\none.*\r\ntwo.*\r\nthree$/s)
  })

  it('closes a connection that pipelines after a request which waits, and stays up', async () => {
    // The native server closes it before JavaScript runs: neither can be answered.
    const wait = 'GET /wait HTTP/1.1\r\nhost: a\r\n\r\n'
    const { text, isClosed } = await sendRaw(endpoint.address.port, wait + wait + wait, {
      answers: 3,
    })
    expect([text, isClosed]).toEqual(['', true])
    await until(() => endpoint.http.inFlight === 0, 'the endpoint to notice')
    release!()
    expect((await fetch(`${url}/hello`)).status).toBe(200)
  })

  it('says how long an idle connection stays open, but not where it closes it', async () => {
    const kept = await sendRaw(endpoint.address.port, 'GET /hello HTTP/1.1\r\nhost: a\r\n\r\n')
    expect(kept.text).toMatch(/\r\nkeep-alive: timeout=7\r\n/)
    const long = await sendRaw(
      endpoint.address.port,
      'POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 2000\r\n\r\n',
    )
    expect(long.text).toMatch(/^HTTP\/1\.1 413 .*connection: close/is)
    expect(long.text).not.toMatch(/keep-alive/i)
  })

  it('outlives connections that are reset before it accepts them', async () => {
    const limited = await openHttpEndpoint<null>({
      product: 'test',
      listen: { host: '127.0.0.1', port: 0 },
      tls: null,
      trustedProxies: ['127.0.0.9/32'],
      connectionsPerAddressMax: 100,
      clock: systemClock,
      log: silentLog,
      http: { admit: () => null, routes: [] },
    })
    // While this process waits for the other one it accepts nothing; half the limit is counted.
    const script = `
      const { connect } = require('node:net')
      const request = 'GET / HTTP/1.1\\r\\nhost: a\\r\\n\\r\\n'
      for (let count = 0; count < 90; count++) {
        const socket = connect(Number(process.argv[1]), '127.0.0.1')
        socket.on('connect', () => socket.write(request, () => socket.resetAndDestroy()))
      }`
    execFileSync(process.execPath, ['-e', script, String(limited.address.port)])
    const { status } = await sendRaw(limited.address.port, 'GET / HTTP/1.1\r\nhost: a\r\n\r\n')
    expect(status).toBe(404)
    await limited.stop()
  })

  it('limits the connections of an address, but not of a trusted proxy', async () => {
    const open = (trustedProxies: readonly string[]) =>
      openHttpEndpoint<null>({
        product: 'test',
        listen: { host: '0.0.0.0', port: 0 },
        tls: null,
        trustedProxies,
        connectionsPerAddressMax: 6,
        clock: systemClock,
        log: silentLog,
        http: { admit: () => null, routes: [] },
      })
    const limited = await open([])
    const proxied = await open(['127.0.0.9/32'])
    const held: Socket[] = []
    /** Whether a connection from this address gets an answer. */
    const isServed = async ({ address }: HttpEndpoint<null>, localAddress: string) => {
      const socket = connect({ port: address.port, host: '127.0.0.1', localAddress })
      held.push(socket)
      return await new Promise<boolean>((resolve) => {
        socket.once('data', () => resolve(true))
        socket.once('close', () => resolve(false))
        socket.on('error', () => {})
        socket.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n')
      })
    }
    const served = async (endpoint: HttpEndpoint<null>, from: string, count: number) => {
      let answered = 0
      for (let left = count; left > 0; left--) if (await isServed(endpoint, from)) answered++
      return answered
    }
    expect(await served(limited, '127.0.0.1', 8)).toBe(6)
    expect(await served(limited, '127.0.0.2', 2)).toBe(2)
    expect(await served(proxied, '127.0.0.9', 8)).toBe(8)
    held[0]!.destroy()
    await until(() => isServed(limited, '127.0.0.1'), 'a permit of the closed connection')
    for (const socket of held) socket.destroy()
    await Promise.all([limited.stop(), proxied.stop()])
  })

  it('detects a client that disconnects, when the route watches for it', async () => {
    const leaving = new AbortController()
    const pending = fetch(`${url}/watch`, { signal: leaving.signal }).catch(() => null)
    await until(() => endpoint.http.inFlight === 1, 'the request to arrive')
    leaving.abort()
    await pending
    await until(() => goneCount === 1 && endpoint.http.inFlight === 0, 'the endpoint to notice')
  })

  it('caps the requests in flight of one address with 429', async () => {
    const held = Array.from({ length: 4 }, () => new AbortController())
    const pending = held.map(({ signal }) => fetch(`${url}/watch`, { signal }).catch(() => null))
    await until(() => endpoint.http.inFlight === 4, 'four requests to wait')
    expect((await fetch(`${url}/hello`)).status).toBe(429)
    for (const one of held) one.abort()
    await Promise.all(pending)
    await until(() => endpoint.http.inFlight === 0, 'the endpoint to notice')
    expect((await fetch(`${url}/hello`)).status).toBe(200)
  })

  it('counts an answer as in flight while its reader is slow', async () => {
    const readers = Array.from({ length: 4 }, () => {
      const socket = connect(endpoint.address.port, '127.0.0.1')
      socket.pause()
      socket.write('GET /large HTTP/1.1\r\nhost: a\r\n\r\n')
      return socket
    })
    await until(() => endpoint.http.inFlight === 4, 'four readers to hold their answers up')
    expect((await fetch(`${url}/hello`)).status).toBe(429)
    for (const reader of readers) reader.destroy()
    await until(() => endpoint.http.inFlight === 0, 'the endpoint to notice')
    expect((await fetch(`${url}/hello`)).status).toBe(200)
  })

  it('counts the addresses of an IPv6 /64 as one', async () => {
    let waiting = 0
    const watched = await openHttpEndpoint<null>({
      product: 'test',
      listen: { host: '127.0.0.1', port: 0 },
      tls: null,
      trustedProxies: ['127.0.0.0/8'],
      clock: systemClock,
      log: silentLog,
      http: {
        admit: () => null,
        inFlightPerAddressMax: 2,
        routes: [
          { verb: 'GET', path: '/hello', handle: () => new Reply(200, textHead, 'hello') },
          {
            verb: 'GET',
            path: '/watch',
            watchesClient: true,
            handle: () => {
              waiting++
              return new Promise(() => {})
            },
          },
        ],
      },
    })
    const leaving = new AbortController()
    const get = (path: string, from: string) =>
      fetch(`http://127.0.0.1:${watched.address.port}${path}`, {
        headers: { 'x-forwarded-for': from },
        signal: leaving.signal,
      })
    const held = ['2001:db8:0:1::1', '2001:db8:0:1:ffff::2'].map((from) =>
      get('/watch', from).catch(() => null),
    )
    await until(() => waiting === 2, 'two requests to wait')
    expect((await get('/hello', '2001:db8:0:1:abcd::3')).status).toBe(429)
    expect((await get('/hello', '2001:db8:0:2::3')).status).toBe(200)
    leaving.abort()
    await Promise.all(held)
    await watched.stop()
  })

  it('refuses a port that another server uses, and names it', async () => {
    const options = {
      product: 'rpc',
      listen: { host: '127.0.0.1', port: endpoint.address.port },
      tls: null,
      trustedProxies: [],
      clock: systemClock,
      log: silentLog,
      http: { admit: () => null, routes: [] },
    }
    await expect(openHttpEndpoint(options)).rejects.toThrow(/rpc: 127.0.0.1:\d+ is taken/)
  })

  it('answers what is in flight before it stops, then refuses', async () => {
    const other = await openHttpEndpoint<null>({
      product: 'test',
      listen: { host: '127.0.0.1', port: 0 },
      tls: null,
      trustedProxies: [],
      clock: systemClock,
      log: silentLog,
      http: {
        admit: () => null,
        routes: [
          {
            verb: 'GET',
            path: '/',
            handle: () =>
              new Promise((resolve) => {
                release = () => resolve(new Reply(200, textHead, 'last'))
              }),
          },
        ],
      },
    })
    release = null
    const pending = fetch(`http://127.0.0.1:${other.address.port}/`)
    await until(() => release !== null, 'the request to arrive')
    const stopped = other.stop()
    setTimeout(() => release?.(), 50)
    expect(await (await pending).text()).toBe('last')
    await stopped
    await expect(fetch(`http://127.0.0.1:${other.address.port}/`)).rejects.toThrow()
  })
})
