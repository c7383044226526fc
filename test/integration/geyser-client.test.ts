// The geyser client on HTTP/2 of our own, against the HTTP/2 server of Node.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import {
  constants,
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type ServerHttp2Stream,
} from 'node:http2'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { GeyserClient, type GeyserEnd } from '../../src/upstream/geyser/geyser-client.ts'
import {
  frameMessage,
  frameOf,
  frameType,
  numberFrame,
  setting,
  settingsFrame,
} from '../../src/upstream/geyser/http2-reader.ts'
import { hasOpenssl, makePair } from '../testkit/certificates.ts'
import { until } from '../testkit/until.ts'

const none = new Uint8Array(0)
const closes: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closes.splice(0).reverse()) await close()
})

type Serve = (stream: ServerHttp2Stream, path: string) => void

async function open(
  server: Http2Server | Http2SecureServer,
  serve: Serve,
  scheme = 'http',
): Promise<GeyserClient> {
  const sockets = new Set<{ destroy(): void }>()
  server.on('connection', (socket) => void sockets.add(socket))
  server.on('session', (session) => void session.on('error', () => {}))
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {})
    serve(stream, `${headers[':path']}`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const client = new GeyserClient(
    { address: `${scheme}://127.0.0.1:${port}`, xToken: 'secret' },
    systemClock,
  )
  closes.push(() => {
    client.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return client
}

function follow(client: GeyserClient, request: Uint8Array = none) {
  const seen = { messages: [] as string[], ends: [] as GeyserEnd[], isOpened: false, arrived: 0 }
  const stream = client.subscribe(request, {
    opened: () => {
      seen.isOpened = true
    },
    arrived: (bytes) => {
      seen.arrived += bytes
    },
    messages: (bytes, offsets) => {
      for (let at = 0; at < offsets.length; at += 2)
        seen.messages.push(bytes.toString('hex', offsets[at], offsets[at + 1]))
    },
    ended: (end) => void seen.ends.push(end),
  })
  return { seen, stream }
}

const respond = (stream: ServerHttp2Stream, trailers: Record<string, string>) => {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers(trailers))
}

it('reads messages of all sizes beside calls on one connection, then the status', async () => {
  const sent = Array.from({ length: 300 }, (_, index) =>
    Buffer.alloc(index % 50 === 7 ? 400_000 : (index * 37) % 3_000, index),
  )
  const paddingStrategy = constants.PADDING_STRATEGY_MAX
  const client = await open(createServer({ paddingStrategy }), (stream, path) => {
    stream.resume()
    const text = 'nothing left: 100% (ü)'
    respond(stream, { 'grpc-status': '5', 'grpc-message': encodeURIComponent(text) })
    if (path.endsWith('/GetSlot')) {
      stream.removeAllListeners('wantTrailers')
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
      stream.end(frameMessage(Buffer.from('slot')))
    } else for (const message of sent) stream.write(frameMessage(message))
    stream.end()
  })
  const { seen } = follow(client)
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => client.call('GetSlot', none, 20_000)),
  )
  expect(answers.every((one) => one.ok && Buffer.from(one.value).toString() === 'slot')).toBe(true)
  await until(() => seen.ends.length > 0, 'the end')
  expect(seen.messages).toEqual(sent.map((one) => one.toString('hex')))
  expect(seen.arrived).toBe(sent.reduce((sum, one) => sum + one.length + 5, 0))
  expect(seen.isOpened).toBe(true)
  expect(seen.ends).toEqual([{ kind: 'status', code: 5, details: 'nothing left: 100% (ü)' }])
})

it('sends a request that is longer than the windows of the peer', async () => {
  const request = Buffer.alloc(300_000, 7)
  let received = 0
  const client = await open(createServer(), (stream) => {
    respond(stream, { 'grpc-status': '0' })
    stream.on('data', (chunk: Buffer) => {
      received += chunk.length
    })
  })
  const { stream } = follow(client, request)
  stream.send(Buffer.alloc(10))
  await until(() => received === request.length + 5 + 15, 'the whole request')
})

it('keeps to the settings of the peer: no header table, small windows that change', async () => {
  const settings = { headerTableSize: 0, initialWindowSize: 1_000, maxFrameSize: 16_384 }
  const client = await open(createServer({ settings }), (stream) => {
    let received = 0
    stream.on('data', (chunk: Buffer) => {
      // Only what comes later is held to it: the window of this stream becomes negative.
      if (received === 0) stream.session?.settings({ ...settings, initialWindowSize: 100 })
      received += chunk.length
    })
    stream.on('end', () => {
      stream.additionalHeaders({ ':status': 103 })
      respond(stream, { 'grpc-status': '0' })
      stream.end(frameMessage(Buffer.from(`${received}`)))
    })
  })
  const request = Buffer.alloc(9_000, 7)
  for (let call = 0; call < 3; call++) {
    const answer = await client.call('GetSlot', request, 20_000)
    expect(answer.ok && Buffer.from(answer.value).toString()).toBe('9005')
  }
})

it('reads headers and trailers that continue in several frames', async () => {
  const long = 'x'.repeat(40_000)
  const client = await open(createServer({ maxSendHeaderBlockLength: 1e6 }), (stream) => {
    stream.resume()
    stream.respond({ ':status': 200, 'x-long': long }, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'x-long': long, 'grpc-status': '3' }))
    stream.end(frameMessage(Buffer.from('one')))
  })
  const { seen } = follow(client)
  await until(() => seen.ends.length > 0, 'the end')
  expect(seen.messages).toEqual([Buffer.from('one').toString('hex')])
  expect(seen.ends).toMatchObject([{ kind: 'status', code: 3 }])
})

it('reports how a stream ended: refused, reset, gone away, cut, not HTTP/2', async () => {
  const endOf = async (client: GeyserClient) => {
    const { seen } = follow(client)
    await until(() => seen.ends.length > 0, 'the end')
    return seen.ends
  }
  const lost = { kind: 'connection', code: 2, details: '' }
  const ends = async (serve: Serve) => endOf(await open(createServer(), serve))
  const trailersOnly = { ':status': 200, 'grpc-status': '7', 'grpc-message': 'no' }
  expect(await ends((stream) => stream.respond(trailersOnly, { endStream: true }))).toEqual([
    { kind: 'status', code: 7, details: 'no' },
  ])
  expect(await ends((stream) => stream.respond({ ':status': 404 }))).toEqual([
    { ...lost, details: 'HTTP 404' },
  ])
  expect(await ends((stream) => stream.close(constants.NGHTTP2_CANCEL))).toEqual([lost])
  expect(await ends((stream) => stream.close(constants.NGHTTP2_INTERNAL_ERROR))).toEqual([
    { ...lost, details: 'reset with code 2' },
  ])
  expect(await ends((stream) => stream.session!.goaway(0))).toEqual([
    { ...lost, details: 'GOAWAY' },
  ])
  expect(await ends((stream) => stream.session!.destroy())).toHaveLength(1)
  const other = createTcpServer((socket) =>
    socket.on('error', () => {}).write('HTTP/1.1 400\r\n\r\n'),
  )
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  closes.push(() => other.close())
  const address = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
  expect(await endOf(new GeyserClient({ address, xToken: '' }, systemClock))).toEqual([
    { ...lost, details: 'malformed HTTP/2' },
  ])
  const closed = new GeyserClient({ address: 'http://127.0.0.1:1', xToken: '' }, systemClock)
  expect(await endOf(closed)).toEqual([{ ...lost, details: 'ECONNREFUSED' }])
})

it('pauses, resumes and measures round trips', async () => {
  let isOver = false
  const client = await open(createServer(), (stream) => {
    respond(stream, { 'grpc-status': '0' })
    const push = () => {
      while (!isOver && stream.write(frameMessage(Buffer.alloc(10_000))));
      if (!isOver) stream.once('drain', push)
    }
    push()
  })
  const { seen, stream } = follow(client)
  await until(() => seen.messages.length > 0, 'messages')
  stream.pause()
  const paused = seen.messages.length
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(seen.messages.length).toBe(paused)
  stream.resume()
  await until(() => seen.messages.length > paused + 100, 'more messages')
  isOver = true
  const trips: number[] = []
  client.ping((ms) => void trips.push(ms))
  await until(() => trips.length === 1, 'the round trip')
  expect(trips[0]).toBeGreaterThan(0)
})

it.skipIf(!hasOpenssl)('reads over TLS', async () => {
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  closes.push(() => void delete process.env.NODE_TLS_REJECT_UNAUTHORIZED)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-tls-'))
  closes.push(() => rmSync(folder, { recursive: true, force: true }))
  const { certPath, keyPath } = makePair(folder, 'node')
  const pair = { cert: readFileSync(certPath), key: readFileSync(keyPath) }
  const sent = Array.from({ length: 50 }, (_, index) => Buffer.alloc(index * 4_000, index))
  const client = await open(
    createSecureServer(pair),
    (stream) => {
      stream.resume()
      respond(stream, { 'grpc-status': '0' })
      for (const message of sent) stream.write(frameMessage(message))
      stream.end()
    },
    'https',
  )
  const { seen } = follow(client)
  await until(() => seen.ends.length > 0, 'the end')
  expect(seen.messages).toEqual(sent.map((one) => one.toString('hex')))
  expect(seen.ends).toEqual([{ kind: 'status', code: 0, details: '' }])
})

/** A peer that speaks bare frames, and reads nothing after the start. */
async function openPeer(speak: (socket: Socket) => void): Promise<GeyserClient> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {})
    socket.pause()
    socket.write(settingsFrame([]))
    speak(socket)
    closes.push(() => socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const client = new GeyserClient({ address: `http://127.0.0.1:${port}`, xToken: '' }, systemClock)
  closes.push(() => {
    client.close()
    server.close()
  })
  return client
}

const pingFrame = frameOf({ type: frameType.ping, flags: 0, stream: 0 }, Buffer.alloc(8))

it.each([
  ['PING', pingFrame],
  ['SETTINGS', settingsFrame([])],
])('leaves a node that floods %s', async (_, frame) => {
  const client = await openPeer(
    (socket) => void socket.write(Buffer.concat(Array(200).fill(frame))),
  )
  const { seen } = follow(client)
  await until(() => seen.ends.length > 0, 'the end')
  expect(seen.ends).toMatchObject([{ details: 'flood of PING or SETTINGS' }])
})

it('answers what an honest node asks', async () => {
  let received = 0
  const client = await openPeer((socket) => {
    socket.on('data', (bytes) => {
      received += bytes.length
    })
    socket.resume()
    socket.write(Buffer.concat(Array(99).fill(pingFrame)))
  })
  const { seen } = follow(client)
  await until(() => received >= 99 * pingFrame.length, 'its answers')
  expect(seen.ends).toEqual([])
})

it('leaves a node that asks and does not read the answers', async () => {
  const client = await openPeer((socket) => {
    socket.write(settingsFrame([[setting.initialWindowSize, 2 ** 30]]))
    socket.write(numberFrame(frameType.windowUpdate, 0, 2 ** 30))
    socket.write(pingFrame)
  })
  // More than the kernel takes.
  const { seen } = follow(client, new Uint8Array(32 * 1024 * 1024))
  await until(() => seen.ends.length > 0, 'the end')
  expect(seen.ends).toMatchObject([{ details: 'answers are not read' }])
})
