// The client for a node's JSON-RPC on raw connections: what servers do to it, and what it must not
// do to them.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createHttps } from 'node:https'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { bufferAnswer } from '../../src/upstream/buffered-answer.ts'
import { NodeLink } from '../../src/upstream/node-link.ts'
import { hasOpenssl, makePair } from '../support/certificates.ts'
import { until } from '../support/until.ts'

let server: Server
let link: NodeLink
let sockets: Socket[] = []
/** Requests in the order in which they came, by connection. */
let requests: { on: number; text: string }[] = []

afterEach(async () => {
  await link.stop()
  for (const socket of sockets) socket.destroy()
  await new Promise((resolve) => server.close(resolve))
  sockets = []
  requests = []
})

/** A server that answers whole requests as told; requests here come in one piece. */
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
  link = new NodeLink(`http://127.0.0.1:${(server.address() as AddressInfo).port}/a?b=c`, 'tok')
}

const ok = (body: string) => `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`
const call = (body: string | Uint8Array = '{}') =>
  bufferAnswer((listener) => link.call(body, 20_000, listener))
const bodyOf = async (body?: string | Uint8Array) => {
  const answer = await call(body)
  return answer.ok ? answer.body.toString() : answer.fault
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

  it('waits for a connection when there are too many, and none is forgotten', async () => {
    const held: Socket[] = []
    await serve((socket, count) => {
      if (count <= 256) held.push(socket)
      else socket.write(ok('later'))
    })
    const all = Array.from({ length: 300 }, () => bodyOf())
    const given = link.call('{}', 20_000, {
      onHead: () => void requests.push({ on: 0, text: 'given up' }),
      onData() {},
      onEnd() {},
      onFault() {},
    })
    await until(() => held.length === 256, 'all connections')
    given.abort()
    for (const socket of held) socket.write(ok('first'))
    const bodies = await Promise.all(all)
    expect(bodies.filter((body) => body === 'first')).toHaveLength(256)
    expect(bodies.filter((body) => body === 'later')).toHaveLength(44)
    expect(sockets).toHaveLength(256)
    expect(requests).toHaveLength(300)
  })

  it('goes once, whatever becomes of its connection', async () => {
    await serve((socket, count) => {
      if (count === 1) socket.write(ok('1'))
      else socket.destroy()
    })
    expect(await bodyOf()).toBe('1')
    expect(await call()).toEqual({ ok: false, fault: 'broken', isSent: true })
    expect(await call()).toEqual({ ok: false, fault: 'broken', isSent: true })
    expect(requests).toHaveLength(3)
  })
})

describe('an answer', () => {
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

  it('that is no HTTP is broken, and its connection is not used again', async () => {
    await serve((socket, count) => socket.write(count === 1 ? 'nonsense\r\n\r\n' : ok('1')))
    expect(await bodyOf()).toBe('broken')
    expect(await bodyOf()).toBe('1')
    expect(sockets).toHaveLength(2)
  })

  it('with more behind it than it said gives the connection up', async () => {
    await serve((socket) => socket.write(`${ok('1')}HTTP/1.1 200 OK\r\n`))
    expect(await bodyOf()).toBe('1')
    expect(await bodyOf()).toBe('1')
    expect(sockets).toHaveLength(2)
  })

  it('that comes unasked gives the connection up', async () => {
    await serve((socket) => socket.write(ok('1')))
    expect(await bodyOf()).toBe('1')
    sockets[0]!.write(ok('2'))
    await until(() => sockets[0]!.destroyed || sockets[0]!.readableEnded, 'it to be given up')
    expect(await bodyOf()).toBe('1')
    expect(sockets).toHaveLength(2)
  })

  it('that was paused with its last bytes leaves a connection that works', async () => {
    await serve((socket) => socket.write(ok('last')))
    for (let time = 0; time < 3; time++)
      await new Promise<void>((resolve, reject) => {
        const handle = link.call('{}', 20_000, {
          onHead() {},
          onData: () => handle.pause(),
          onEnd: resolve,
          onFault: reject,
        })
      })
    expect(await bodyOf()).toBe('last')
    expect(sockets).toHaveLength(1)
  })

  it('that is given up in the middle ends its connection', async () => {
    await serve((socket, count) => {
      if (count === 1) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n1')
      else socket.write(ok('2'))
    })
    const handle = link.call('{}', 20_000, {
      onHead() {},
      onData: () => handle.abort(),
      onEnd: () => void requests.push({ on: 0, text: 'end' }),
      onFault: () => void requests.push({ on: 0, text: 'fault' }),
    })
    await until(() => sockets[0]?.destroyed === true, 'the connection to end')
    expect(await bodyOf()).toBe('2')
    expect(requests.every(({ on }) => on > 0)).toBe(true)
  })
})

it('a stop tells everybody who waits', async () => {
  await serve(() => {})
  const waiting = bodyOf()
  await until(() => requests.length === 1, 'the request')
  await link.stop()
  expect(await waiting).toBe('broken')
  expect(await bodyOf()).toBe('unreached')
})

describe.runIf(hasOpenssl)('with TLS', () => {
  it('a certificate that nobody signed is not spoken to', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-link-'))
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
    const address = `https://127.0.0.1:${(server.address() as AddressInfo).port}/`
    link = new NodeLink(address, '')
    expect(await call()).toEqual({ ok: false, fault: 'unreached', isSent: false })
    expect(requests).toEqual([])
    await link.stop()
    link = new NodeLink(address, '', { ca: pair.cert })
    expect(await bodyOf()).toBe('1')
    expect(await bodyOf()).toBe('1')
    expect(sockets).toHaveLength(2)
  })
})

describe('a body that hardly moves', () => {
  afterEach(() => void vi.useRealTimers())

  /** Looks at the link once a piece, for more than half a minute of its time. */
  async function heard(piece: string): Promise<string> {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    await serve((socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 900000\r\n\r\n'))
    let bytes = 0
    let fault = ''
    link.call('{}', 20_000, {
      onHead: () => {},
      onData: (chunk) => {
        bytes += chunk.length
      },
      onEnd: () => {},
      onFault: (what) => {
        fault = what
      },
    })
    await until(() => sockets.length === 1 && requests.length === 1, 'the request came')
    for (let time = 1; time <= 40 && fault === ''; time++) {
      sockets[0]!.write(piece)
      await until(() => bytes === time * piece.length, 'the piece came')
      vi.advanceTimersByTime(1000)
    }
    return fault
  }

  it('is given up', async () => {
    expect(await heard('x')).toBe('broken')
  })

  it('may be slow', async () => {
    expect(await heard('x'.repeat(2000))).toBe('')
  })
})
