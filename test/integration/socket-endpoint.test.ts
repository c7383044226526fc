// WebSocket endpoint with test routes: the behaviour that every streaming product relies on.
import { once } from 'node:events'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { type HttpEndpoint, openHttpEndpoint } from '../../src/base/transport/http-endpoint.ts'
import { errorReply, Reply, ResponseHead } from '../../src/base/transport/reply.ts'
import { offeredProtocols, type Socket } from '../../src/base/transport/websocket.ts'
import { until } from '../testkit/until.ts'

const textHead = ResponseHead.of({ 'content-type': 'text/plain; charset=utf-8' })

interface State {
  drains: number
}

let endpoint: HttpEndpoint<string>
let url = ''
let last: Socket<State> | null = null
const closes: number[] = []
const released: Socket<State>[] = []

beforeAll(async () => {
  endpoint = await openHttpEndpoint<string>({
    product: 'test',
    listen: { host: '127.0.0.1', port: 0 },
    tls: null,
    trustedProxies: [],
    clock: systemClock,
    log: silentLog,
    http: {
      admit: (request) =>
        request.credentials.xToken === 'good' ? 'admitted' : errorReply(401, 'no token'),
      routes: [{ verb: 'GET', path: '/', handle: () => new Reply(200, textHead, 'plain') }],
    },
    sockets: [
      {
        path: '/',
        inboundBytesMax: 100,
        unsentBytesMax: 1_000_000,
        pingMs: 1,
        silenceMsMax: 60_000,
        perAddressMax: 3,
        upgrade: (request, context) => {
          if (request.parameter('refuse') !== null) return errorReply(400, 'as you wish')
          expect(context).toBe('admitted')
          const protocol = offeredProtocols(request).includes('msgpack') ? 'msgpack' : ''
          return { state: { drains: 0 }, protocol }
        },
        open: (socket: Socket<State>) => {
          last = socket
          socket.subscribe('all')
          socket.send('hello')
        },
        message: (socket: Socket<State>, data, isBinary) => {
          if (data.toString() === 'throw') throw new Error('a bug')
          socket.send(data, isBinary)
        },
        drain: (socket: Socket<State>) => {
          socket.state.drains++
        },
        close: (_, code) => {
          closes.push(code)
        },
        release: (socket: Socket<State>) => {
          released.push(socket)
        },
      },
    ],
  })
  url = `ws://127.0.0.1:${endpoint.address.port}`
})

afterAll(() => endpoint.stop())

beforeEach(() => until(() => endpoint.sockets.open.size === 0, 'earlier sockets to close'))

function connect(path = '/', protocols: string[] = []): WebSocket {
  return new WebSocket(`${url}${path}`, protocols, { headers: { 'x-token': 'good' } })
}

/** A socket that has received its greeting. */
async function opened(path = '/', protocols: string[] = []): Promise<WebSocket> {
  const socket = connect(path, protocols)
  await once(socket, 'message')
  return socket
}

async function statusOf(socket: WebSocket): Promise<number> {
  const [, response] = (await once(socket, 'unexpected-response')) as [
    unknown,
    { statusCode: number },
  ]
  socket.on('error', () => {})
  socket.terminate()
  return response.statusCode
}

async function codeOf(socket: WebSocket): Promise<number> {
  const [code] = (await once(socket, 'close')) as [number]
  return code
}

/** A socket whose peer has stopped reading while so much is unsent. */
async function stalled(unsentBytes: number): Promise<{ peer: WebSocket; socket: Socket<State> }> {
  const peer = await opened()
  peer.pause()
  const socket = last!
  let sent = 0
  while (socket.unsentBytes < unsentBytes && sent < 200_000_000)
    sent += socket.send(Buffer.alloc(50_000), true) === 'dropped' ? 0 : 50_000
  expect(socket.unsentBytes).toBeGreaterThanOrEqual(unsentBytes)
  return { peer, socket }
}

describe('the WebSocket endpoint', () => {
  it('upgrades, greets, echoes text and binary', async () => {
    const socket = await opened()
    socket.send('text')
    const [text, isTextBinary] = (await once(socket, 'message')) as [Buffer, boolean]
    expect([text.toString(), isTextBinary]).toEqual(['text', false])
    socket.send(Buffer.from([1, 2, 3]))
    const [bytes, isBinary] = (await once(socket, 'message')) as [Buffer, boolean]
    expect([[...bytes], isBinary]).toEqual([[1, 2, 3], true])
    socket.close()
  })

  it('sends text in UTF-8: to one, to all, and in the reason of a close', async () => {
    const socket = await opened()
    const seen: string[] = []
    socket.on('message', (data) => seen.push(String(data)))
    last!.send('é')
    endpoint.sockets.publish('all', 'ö漢')
    endpoint.sockets.publish('all', 'ü')
    await until(() => seen.length === 3, 'three messages')
    last!.end(4000, 'ä')
    const [code, reason] = (await once(socket, 'close')) as [number, Buffer]
    expect([...seen, code, reason.toString()]).toEqual(['é', 'ö漢', 'ü', 4000, 'ä'])
  })

  it('calls admit first, then the route; other paths and plain requests go to HTTP', async () => {
    expect(await statusOf(new WebSocket(url))).toBe(401)
    expect(await statusOf(connect('/?refuse=1'))).toBe(400)
    expect(await statusOf(connect('/other'))).toBe(404)
    const plain = await fetch(url.replace('ws', 'http'), { headers: { 'x-token': 'good' } })
    expect(await plain.text()).toBe('plain')
  })

  it('chooses exactly one offered subprotocol', async () => {
    const chosen = await opened('/', ['json', 'msgpack'])
    expect(chosen.protocol).toBe('msgpack')
    chosen.close()
  })

  it('publishes to every subscriber, in order', async () => {
    const sockets = await Promise.all([opened(), opened()])
    const heard = sockets.map((socket) => {
      const texts: string[] = []
      socket.on('message', (data) => texts.push(data.toString()))
      return texts
    })
    for (let index = 0; index < 100; index++) endpoint.sockets.publish('all', `n${index}`)
    await until(() => heard.every((texts) => texts.length === 100), 'all messages')
    expect(heard[0]).toEqual(Array.from({ length: 100 }, (_, index) => `n${index}`))
    expect(heard[1]).toEqual(heard[0])
    for (const socket of sockets) socket.close()
  })

  it('pings on its own timer', async () => {
    const socket = await opened()
    await once(socket, 'ping')
    socket.close()
  })

  it('limits the sockets of one address with 429 and releases the permit on close', async () => {
    const sockets = await Promise.all([opened(), opened(), opened()])
    expect(await statusOf(connect())).toBe(429)
    sockets[0]!.close()
    await until(() => endpoint.sockets.open.size === 2, 'one to close')
    const again = await opened()
    for (const socket of [...sockets, again]) socket.close()
  })

  it('closes a too long message with 1009 and a bug with 1011', async () => {
    const long = await opened()
    long.send('x'.repeat(101))
    expect(await codeOf(long)).toBe(1009)
    const broken = await opened()
    broken.send('throw')
    expect(await codeOf(broken)).toBe(1011)
  })

  it('reports unsent bytes of a slow reader and their drain, not after close', async () => {
    const { peer, socket: target } = await stalled(100_000)
    peer.resume()
    await until(() => target.state.drains > 0 && target.unsentBytes === 0, 'the drain')
    peer.terminate()
    await until(() => !target.isOpen, 'the close')
    expect(target.send('late')).toBe('dropped')
    target.end(1000, 'late')
    expect(target.unsentBytes).toBe(0)
  })

  it('counts a socket that was ended until its peer has read what was unsent', async () => {
    const { peer, socket } = await stalled(1_000_000)
    const others = [await opened(), await opened()]
    closes.length = 0
    socket.end(4013, 'too slow')
    socket.end(4014, 'twice')
    expect([closes, socket.isOpen, socket.send('late')]).toEqual([[4013], false, 'dropped'])
    // Neither what is published nor what the peer sends reaches it.
    endpoint.sockets.publish('all', 'late')
    peer.send('throw')
    expect([endpoint.sockets.open.size, released.includes(socket)]).toEqual([3, false])
    expect(await statusOf(connect())).toBe(429)
    const seen: string[] = []
    peer.on('message', (data: Buffer) => seen.push(data.toString('latin1', 0, 4)))
    peer.resume()
    expect(await codeOf(peer)).toBe(4013)
    expect(seen).not.toContain('late')
    await until(() => released.includes(socket), 'the permits')
    expect([endpoint.sockets.open.size, closes]).toEqual([2, [4013]])
    for (const other of others) other.close()
  })

  it('closes a socket that was ended when its peer does not read for 10 s', async () => {
    const { peer, socket } = await stalled(1_000_000)
    socket.end(4013, 'too slow')
    for (let seconds = 0; seconds < 10; seconds++) socket.tick(0)
    expect([endpoint.sockets.open.size, released.includes(socket)]).toEqual([1, false])
    socket.tick(0)
    expect([endpoint.sockets.open.size, released.includes(socket)]).toEqual([0, true])
    peer.resume()
    expect(await codeOf(peer)).toBe(1006)
  })

  it('ends open sockets with 1001 when it stops', async () => {
    const socket = await opened()
    const code = codeOf(socket)
    await endpoint.stop()
    expect(await code).toBe(1001)
    expect(closes).toContain(1001)
  })
})
