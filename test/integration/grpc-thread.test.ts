// A gRPC endpoint whose connections are those of a thread.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import {
  type ClientHttp2Session,
  connect as connectHttp2,
  type IncomingHttpHeaders,
} from 'node:http2'
import { type AddressInfo, createServer, Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js'
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import type { Running } from '../../src/base/running.ts'
import { type Log, silentLog } from '../../src/base/telemetry/log.ts'
import type { GaugeChild } from '../../src/base/telemetry/meters.ts'
import { descriptorReserve } from '../../src/base/transport/descriptors.ts'
import { type Admission, type GrpcPeer, openGrpcEndpoint } from '../../src/base/transport/grpc.ts'
import type { GrpcCertificates } from '../../src/base/transport/grpc-bind.ts'
import {
  framed,
  framePrefixBytes,
  type GrpcStatus,
  type GrpcStream,
  type StreamEvents,
} from '../../src/base/transport/grpc-stream.ts'
import { type GrpcThreadOptions, openGrpcThread } from '../../src/base/transport/grpc-thread.ts'
import { hasOpenssl, makePair } from '../testkit/certificates.ts'
import { until } from '../testkit/until.ts'

const path = '/test.Test/Open'
const plain = (bytes: Buffer) => bytes
const entry = new URL('../testkit/workers/grpc.mjs', import.meta.url)
const settings = {
  host: '127.0.0.1',
  port: 0,
  certificates: null,
  messageBytesMax: 1024,
  keepaliveMs: 30_000,
  keepaliveTimeoutMs: 10_000,
  connectionIdleMs: 60_000,
  connectionsPerAddressMax: 100,
  compression: [],
  log: silentLog,
}
const deps = { clock: systemClock, onDown: () => {} }
const running: Running[] = []
const clients: Client[] = []
const sessions: ClientHttp2Session[] = []

afterEach(async () => {
  for (const client of clients.splice(0)) client.close()
  for (const session of sessions.splice(0)) session.destroy()
  for (const one of running.splice(0)) await one.stop()
})

/** What the handler of the one method has seen. */
class Seen {
  readonly streams: GrpcStream[] = []
  closed = 0
  left = 0

  readonly options: Pick<GrpcThreadOptions<null>, 'admit' | 'methods' | 'headers'> = {
    headers: ['x-name'],
    admit: () => ({ ok: true, caller: null, leave: () => void this.left++ }),
    methods: [{ kind: 'stream', path, open: (stream) => this.#open(stream) }],
  }

  #open(stream: GrpcStream): StreamEvents {
    this.streams.push(stream)
    return { message() {}, halfClosed() {}, drained() {}, closed: () => void this.closed++ }
  }
}

async function openThread(
  seen: Seen,
  own: Partial<GrpcThreadOptions<null>> = {},
  more: { readonly up?: GaugeChild } = {},
) {
  const options = { ...settings, trustedProxies: [], ...seen.options, ...own }
  const endpoint = await openGrpcThread<null>(options, { ...deps, ...more, entry })
  running.push(endpoint)
  return endpoint.address!.port
}

function callOf(port: number, headers: Record<string, string> = {}) {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
  })
  clients.push(client)
  const metadata = new Metadata()
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
  const call = client.makeBidiStreamRequest(path, plain, plain, metadata)
  const got = { messages: [] as Buffer[], status: null as GrpcStatus | null, call }
  call.on('data', (message: Buffer) => got.messages.push(message))
  call.on('error', (error: ServiceError) => {
    got.status = { code: error.code, details: error.details }
  })
  return got
}

describe('a thread that dies', () => {
  it('ends its calls and returns their permits, and the endpoint is back on its port', async () => {
    const seen = new Seen()
    const port = await openThread(seen)
    const open = callOf(port)
    await until(() => seen.streams.length === 1, 'the stream')
    callOf(port, { 'x-token': 'crash' })
    await until(() => open.status !== null && seen.closed === 1, 'its end')
    expect(seen.left).toBe(1)
    expect(seen.streams[0]!.write(framed(Buffer.from('late')))).toBe(true)
    const isBack = async () => {
      const again = callOf(port, { 'x-name': 'again' })
      await until(() => again.status !== null || seen.streams.length === 2, 'an outcome')
      return seen.streams.length === 2
    }
    await until(isBack, 'the endpoint')
    expect(seen.streams[1]!.header('x-name')).toBe('again')
  })
})

describe('a thread that starts', () => {
  it('again without free descriptors does not probe its library by a connection', async () => {
    const seen = new Seen()
    const { scarcity } = descriptorReserve(silentLog)
    const states: number[] = []
    const up = {
      set(value: number) {
        if (states.push(value) === 2) Atomics.store(scarcity, 0, 1)
      },
    }
    const port = await openThread(seen, {}, { up: up as GaugeChild })
    callOf(port, { 'x-token': 'crash' })
    await until(() => String(states) === '1,0,1', 'the next one')
    Atomics.store(scarcity, 0, 0)
    callOf(port)
    await until(() => seen.streams.length === 1, 'a stream')
  })

  it.skipIf(!hasOpenssl)('has a certificate that was renewed meanwhile', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'grpc-thread-'))
    const pairOf = (name: string) => {
      const { certPath, keyPath } = makePair(folder, name)
      return { cert: readFileSync(certPath), key: readFileSync(keyPath) }
    }
    let pair = pairOf('first')
    const listeners: (() => void)[] = []
    const certificates: GrpcCertificates = {
      get cert() {
        return pair.cert
      },
      get key() {
        return pair.key
      },
      onChange: (listener) => {
        listeners.push(listener)
        return () => {}
      },
    }
    const opening = openThread(new Seen(), { certificates })
    pair = pairOf('second')
    for (const listener of listeners) listener()
    const port = await opening
    const presented = async () => {
      const socket = connect({ port, rejectUnauthorized: false, ALPNProtocols: ['h2'] })
      await once(socket, 'secureConnect')
      const { CN } = socket.getPeerCertificate().subject
      socket.destroy()
      return CN
    }
    await until(async () => (await presented()) === 'second', 'the renewed one')
    rmSync(folder, { recursive: true })
  })
})

describe('a listener', () => {
  it('of a shared port survives connections that it cannot accept', async () => {
    const endpoint = await openGrpcEndpoint<null>({
      ...settings,
      ...new Seen().options,
      isShared: true,
      clientAddress: (peer) => peer,
      isProxy: () => false,
    })
    running.push(endpoint)
    const { _getActiveHandles } = process as unknown as { _getActiveHandles(): object[] }
    const isOurs = (handle: object): handle is Server =>
      handle instanceof Server &&
      (handle.address() as AddressInfo | null)?.port === endpoint.address!.port
    const listeners = _getActiveHandles().filter(isOurs)
    expect(listeners).toHaveLength(1)
    for (let failed = 0; failed < 3; failed++) listeners[0]!.emit('error', new Error('EMFILE'))
  })
})

describe('a stream', () => {
  it('gets its frames in order, also shared ones whose memory is used again', async () => {
    const seen = new Seen()
    const port = await openThread(seen)
    const calls = Array.from({ length: 4 }, (_, at) => callOf(port, { 'x-name': String(at) }))
    await until(() => seen.streams.length === calls.length, 'the streams')
    seen.streams.sort((a, b) => Number(a.header('x-name')) - Number(b.header('x-name')))
    const expected = seen.streams.map(() => [] as string[])
    let freed = 0
    for (let turn = 0; turn < 200; turn++) {
      const message = randomBytes(turn % 50 === 0 ? 200_000 : 100)
      const frames = framed(message)
      // Some share the run, and one of them gets it twice.
      const takers = seen.streams.flatMap((_, at) => ((turn + at) % 3 === 0 ? [at] : []))
      if (turn % 7 === 0) takers.push(takers[0]!)
      let left = takers.length
      for (const at of takers) {
        expected[at]!.push(message.toString('hex'))
        seen.streams[at]!.write(frames, () => {
          freed++
          if (--left === 0) frames.fill(0xff)
        })
      }
      if (turn % 10 === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    for (const stream of seen.streams) stream.end({ code: 5, details: 'over' })
    await until(() => calls.every(({ status }) => status !== null), 'the ends')
    const got = calls.map(({ messages }) => messages.map((bytes) => bytes.toString('hex')))
    expect(got).toEqual(expected)
    expect(freed).toBe(expected.flat().length)
    expect(calls.map(({ status }) => status!.code)).toEqual([5, 5, 5, 5])
    await until(() => seen.left === 4, 'the permits')
  })
})

describe('a call that is cancelled before it is admitted', () => {
  it('returns its permit once it is, and never reaches its handler', async () => {
    const seen = new Seen()
    const asked: ((admission: Admission<null>) => void)[] = []
    const endpoint = await openGrpcEndpoint<null>({
      ...settings,
      ...seen.options,
      clientAddress: (peer) => peer,
      isProxy: () => false,
      admit: (_: GrpcPeer) => new Promise((resolve) => asked.push(resolve)),
    })
    running.push(endpoint)
    const { call } = callOf(endpoint.address!.port)
    await until(() => asked.length === 1, 'the call')
    call.cancel()
    // On the same connection: what it follows has arrived.
    const after = clients[0]!.makeBidiStreamRequest(path, plain, plain)
    after.on('error', () => {})
    await until(() => asked.length === 2, 'the next call')
    asked[0]!({ ok: true, caller: null, leave: () => void seen.left++ })
    await until(() => seen.left === 1 || seen.streams.length > 0, 'the permit')
    expect(seen.streams).toHaveLength(0)
    after.cancel()
  })
})

describe('a unary call', () => {
  const unary = '/test.Test/Ask'
  const open = async () => {
    const passed: string[] = []
    const handled: string[] = []
    const log: Log = { ...silentLog, info: (msg) => passed.push(msg) }
    const port = await openThread(new Seen(), {
      log,
      admit: ({ xToken }) =>
        xToken === 'good'
          ? { ok: true, caller: null, leave() {} }
          : { ok: false, status: { code: 7, details: 'no token' } },
      methods: [
        {
          kind: 'unary',
          path: unary,
          answer(request) {
            handled.push(String(request))
            return { ok: true, bytes: Buffer.from(`to ${request}`) }
          },
        },
      ],
    })
    const session = connectHttp2(`http://127.0.0.1:${port}`)
    sessions.push(session)
    const ask = async (token: string, parts: readonly Buffer[]) => {
      const head = { ':method': 'POST', ':path': unary, 'x-token': token }
      const own = { 'content-type': 'application/grpc', te: 'trailers' }
      const stream = session.request({ ...head, ...own })
      const got = { status: '', body: '' }
      const look = (headers: IncomingHttpHeaders) => {
        got.status = String(headers['grpc-status'] ?? got.status)
      }
      stream.on('response', look).on('trailers', look)
      stream.on('data', (bytes: Buffer) => {
        got.body += bytes.subarray(framePrefixBytes)
      })
      for (const [index, part] of parts.entries()) {
        if (index > 0) await new Promise((resolve) => setTimeout(resolve, 20))
        stream.write(part)
      }
      stream.end()
      await once(stream, 'close')
      return got
    }
    return { passed, handled, ask }
  }

  it('is answered at once where its message came with its headers', async () => {
    const { passed, handled, ask } = await open()
    for (let call = 0; call < 20; call++)
      expect(await ask('good', [framed(Buffer.from(`${call}`))])).toEqual({
        status: '0',
        body: `to ${call}`,
      })
    expect(handled).toHaveLength(20)
    // The system may cut one in two.
    expect(passed.length).toBeLessThan(10)
  })

  it('is answered where its message comes later, in parts', async () => {
    const { handled, ask } = await open()
    const frame = framed(Buffer.from('later'))
    for (const cut of [0, 3, 5, 7]) {
      const parts = [frame.subarray(0, cut), frame.subarray(cut)]
      expect(await ask('good', parts)).toEqual({ status: '0', body: 'to later' })
    }
    expect(handled).toHaveLength(4)
  })

  it('is not handled where it is refused, or its message too long', async () => {
    const { handled, ask } = await open()
    expect(await ask('bad', [framed(Buffer.from('a'))])).toEqual({ status: '7', body: '' })
    expect(await ask('bad', [framed(Buffer.alloc(2_000))])).toEqual({ status: '7', body: '' })
    expect(await ask('good', [framed(Buffer.alloc(2_000))])).toEqual({ status: '8', body: '' })
    expect(handled).toEqual([])
  })
})

describe('a port that is taken', () => {
  it('is named when the endpoint starts', async () => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    const { port } = other.address() as { port: number }
    const opening = openThread(new Seen(), { port })
    await expect(opening).rejects.toMatchObject({ kind: 'port-taken' })
    await expect(opening).rejects.toThrow(`127.0.0.1:${port} is taken by another process`)
    other.close()
  })
})

describe('a message', () => {
  it('waits until the one before it was taken', async () => {
    const seen = new Seen()
    const got: string[] = []
    let take = () => {}
    const open = () => ({
      message: (bytes: Buffer) => {
        got.push(String(bytes))
        return new Promise<void>((resolve) => {
          take = resolve
        })
      },
      ...{ halfClosed() {}, drained() {}, closed() {} },
    })
    const endpoint = await openGrpcEndpoint<null>({
      ...settings,
      ...seen.options,
      clientAddress: (peer) => peer,
      isProxy: () => false,
      methods: [{ kind: 'stream', path, open }],
    })
    running.push(endpoint)
    const { call } = callOf(endpoint.address!.port)
    for (const text of ['a', 'b', 'c']) call.write(Buffer.from(text))
    await until(() => got.length === 1, 'the first message')
    // Another call on the connection is answered after what came before it.
    const after = clients[0]!.makeBidiStreamRequest(path, plain, plain)
    after.on('error', () => {})
    after.write(Buffer.from('x'))
    const first = take
    await until(() => got.length === 2, 'that of another call')
    expect(got).toEqual(['a', 'x'])
    first()
    await until(() => got.length === 3, 'the next message')
    expect(got[2]).toBe('b')
    call.cancel()
    after.cancel()
  })
})
