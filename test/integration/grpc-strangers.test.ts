// What callers without a token may cost the gRPC endpoint: bytes, streams, connections and time.
import type { ClientHttp2Session } from 'node:http2'
import { connect as tcpConnect } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { codec, GrpcStage } from '../testkit/grpc-stage.ts'
import { framed, RawStream, rawCall, rawSession } from '../testkit/raw-grpc.ts'
import { until } from '../testkit/until.ts'

let stage: GrpcStage
const sessions: ClientHttp2Session[] = []

afterEach(async () => {
  for (const session of sessions.splice(0)) session.destroy()
  await stage.close()
})

const watch = '/grpc.health.v1.Health/Watch'
const check = '/grpc.health.v1.Health/Check'
const subscribe = '/geyser.Geyser/Subscribe'
const mebibytes = 1024 * 1024

function session(...options: Parameters<typeof rawSession> extends [string, ...infer R] ? R : []) {
  const opened = rawSession(stage.target, ...options)
  sessions.push(opened)
  return opened
}

/** A message of 4 MiB without its last byte. */
function unfinished(): Buffer {
  const bytes = framed(Buffer.alloc(4 * mebibytes))
  return bytes.subarray(0, bytes.length - 1)
}

const rssBytes = () => process.memoryUsage().rss
const refusedMeter = 'sluice_address_refused_total{door="grpc"}'

describe('bytes of a caller without a token', () => {
  for (const [name, path, headers, statuses] of [
    ['Health/Watch', watch, {}, [8]],
    ['Health/Check', check, {}, [8]],
    // Within the budget of the address, then over it.
    ['a wrong token', subscribe, { 'x-token': 'wrong' }, [7, 8]],
    ['an unknown method', '/geyser.Geyser/Nothing', {}, [12]],
  ] as const)
    it(`are not kept: 256 unfinished messages of 4 MiB on each of 4 connections, ${name}`, async () => {
      stage = await GrpcStage.open()
      const body = unfinished()
      const before = rssBytes()
      const streams: RawStream[] = []
      for (let connection = 0; connection < 4; connection++) {
        const opened = session()
        for (let count = 0; count < 256; count++) {
          const stream = new RawStream(opened, path, headers)
          stream.stream.write(body)
          streams.push(stream)
        }
      }
      let most = 0
      await until(() => {
        most = Math.max(most, rssBytes())
        return streams.every(({ isClosed }) => isClosed)
      }, 'all streams to be closed')
      // Streams and frames on their way cost something; the messages alone would be 4 GiB.
      expect((most - before) / mebibytes).toBeLessThan(200)
      expect([...new Set(streams.map(({ status }) => status))].sort()).toEqual(statuses)
      expect((await rawCall(stage.target, { ':path': check })).trailers['grpc-status']).toBe('0')
    })

  it('are at most 1 KiB on the health service', async () => {
    stage = await GrpcStage.open()
    const opened = session()
    for (const path of [check, watch]) {
      const stream = new RawStream(opened, path)
      stream.stream.write(unfinished())
      await until(() => stream.isClosed, 'the end of the stream')
      expect(stream).toMatchObject({
        status: 8,
        details: 'Received message larger than max (4194304 vs 1024)',
      })
    }
    const service = 's'.repeat(1_000)
    const large = codec.encode('grpc.health.v1.HealthCheckRequest', { service })
    const answer = await rawCall(stage.target, { ':path': check }, framed(large))
    expect(answer.headers['grpc-status']).toBe('5')
  })
})

describe('a watch', () => {
  it('takes one request, and ends with INVALID_ARGUMENT at the second', async () => {
    stage = await GrpcStage.open()
    const stream = new RawStream(session(), watch)
    stream.stream.write(framed(Buffer.alloc(0)))
    await until(() => stream.chunks.length > 0, 'the first status')
    stream.stream.write(framed(Buffer.alloc(0)))
    await until(() => stream.isClosed, 'the end of the stream')
    expect(stream.status).toBe(3)
    const garbage = new RawStream(session(), watch)
    garbage.stream.write(framed(Buffer.from([0xff])))
    await until(() => garbage.status !== null, 'the status of the other')
    expect(garbage.status).toBe(3)
  })

  it('may have a deadline in months', async () => {
    stage = await GrpcStage.open()
    for (const timeout of ['2592000S', '99999999M', '8760H']) {
      const stream = new RawStream(session(), watch, { 'grpc-timeout': timeout })
      stream.stream.write(framed(Buffer.alloc(0)))
      await until(() => stream.chunks.length > 0 || stream.isClosed, 'the first status')
      await new Promise((resolve) => setTimeout(resolve, 50))
      expect(stream.status).toBeNull()
    }
  })

  it('is ended when it floods requests and reads nothing, and memory stays flat', async () => {
    stage = await GrpcStage.open()
    const stream = new RawStream(session('127.0.0.1', { initialWindowSize: 0 }), watch)
    const empty = Buffer.alloc(5 * 10_000)
    const before = process.memoryUsage().heapUsed
    let sent = 0
    const push = () => {
      while (sent < 40 && !stream.stream.destroyed) {
        sent++
        if (!stream.stream.write(empty)) {
          stream.stream.once('drain', push)
          return
        }
      }
    }
    push()
    await until(() => stream.isClosed, 'the end of the stream')
    // 400,000 messages were to be sent; unbounded, each kept some 345 bytes.
    expect((process.memoryUsage().heapUsed - before) / mebibytes).toBeLessThan(50)
    expect((await rawCall(stage.target, { ':path': check })).trailers['grpc-status']).toBe('0')
  })
})

describe('the health service', () => {
  it('stays open to other addresses when one address takes all it may', async () => {
    stage = await GrpcStage.open()
    const greedy = session()
    const streams = Array.from({ length: 100 }, () => {
      const stream = new RawStream(greedy, watch)
      stream.stream.write(framed(Buffer.alloc(0)))
      return stream
    })
    await until(() => streams.filter(({ isClosed }) => isClosed).length === 84, 'refusals')
    expect(streams.filter(({ status }) => status === 8)).toHaveLength(84)
    expect(streams[99]!.details).toBe('too many health calls are open')
    const balancer = new RawStream(session('127.0.0.2'), watch)
    balancer.stream.write(framed(Buffer.alloc(0)))
    await until(() => balancer.chunks.length > 0, 'the status of the balancer')
    expect(balancer.status).toBeNull()
    // Permits that the first address returns are available.
    for (const stream of streams) stream.stream.close()
    const again = () => rawCall(stage.target, { ':path': check })
    await until(async () => (await again()).trailers['grpc-status'] === '0', 'a free permit')
  })

  it('counts a watch from its first byte on, and all addresses together', async () => {
    stage = await GrpcStage.open({
      section: { health: { callsPerAddressMax: 2, callsMax: 3 } },
    })
    const silent = ['127.0.0.1', '127.0.0.1', '127.0.0.2'].map(
      (address) => new RawStream(session(address), watch),
    )
    await until(() => silent.every(({ isOpen }) => isOpen), 'three open watches')
    const refused = (address: string) => {
      const stream = new RawStream(session(address), watch)
      return until(() => stream.status === 8, `the refusal of ${address}`)
    }
    await refused('127.0.0.1')
    await refused('127.0.0.3')
    expect(await stage.meter(refusedMeter)).toBe(2)
  })

  it('answers RESOURCE_EXHAUSTED to an address over its budget, and to no other', async () => {
    stage = await GrpcStage.open({ addressLimits: { workMsPerSecond: 1, workMsBurst: 2 } })
    const opened = session()
    const ask = async (from: ClientHttp2Session) => {
      const stream = new RawStream(from, check)
      stream.stream.end(framed(Buffer.alloc(0)))
      await until(() => stream.isClosed, 'an answer')
      return stream
    }
    const answers: RawStream[] = []
    while (answers.at(-1)?.status !== 8) answers.push(await ask(opened))
    const refused = answers.filter(({ status }) => status === 8)
    expect(answers[0]!.status).toBe(0)
    expect(refused[0]!.details).toBe('this address has used up its budget')
    expect(await stage.meter(refusedMeter)).toBe(refused.length)
    expect((await ask(session('127.0.0.2'))).status).toBe(0)
  })
})

describe('connections', () => {
  const connectFrom = async (localAddress: string) => {
    const socket = tcpConnect({
      port: stage.running.address!.port,
      host: '127.0.0.1',
      localAddress,
    })
    const seen = { socket, isOpen: false, isClosed: false }
    // The server's settings are the first thing that an accepted connection gets.
    socket.on('data', () => {
      seen.isOpen = true
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      seen.isClosed = true
    })
    await until(() => seen.isOpen || seen.isClosed, 'settings or the end')
    return seen
  }

  it('are limited per address, and a closed one frees its permit', async () => {
    stage = await GrpcStage.open({ section: { connectionsPerAddressMax: 3 } })
    const open = []
    for (let count = 0; count < 3; count++) open.push(await connectFrom('127.0.0.1'))
    expect(open.every(({ isOpen }) => isOpen)).toBe(true)
    expect((await connectFrom('127.0.0.1')).isOpen).toBe(false)
    const other = await connectFrom('127.0.0.2')
    expect(other.isOpen).toBe(true)
    open[0]!.socket.destroy()
    await until(async () => {
      const next = await connectFrom('127.0.0.1')
      next.socket.destroy()
      return next.isOpen
    }, 'room for another one')
    for (const { socket } of [...open, other]) socket.destroy()
  })

  it('of trusted proxies are not limited', async () => {
    stage = await GrpcStage.open({
      section: { connectionsPerAddressMax: 1 },
      trustedProxies: ['127.0.0.1/32'],
    })
    const open = [await connectFrom('127.0.0.1'), await connectFrom('127.0.0.1')]
    expect(open.every(({ isOpen }) => isOpen)).toBe(true)
    for (const { socket } of open) socket.destroy()
  })

  it('without a call are closed with GOAWAY after the idle time, others are not', async () => {
    stage = await GrpcStage.open({ section: { connectionIdleMs: 2_000 } })
    const busy = session()
    const stream = new RawStream(busy, watch)
    stream.stream.write(framed(Buffer.alloc(0)))
    await until(() => stream.chunks.length > 0, 'the status')
    const idle = session()
    let hasGoaway = false
    idle.on('goaway', () => {
      hasGoaway = true
    })
    await until(() => idle.closed || idle.destroyed, 'the end of the idle connection')
    expect(hasGoaway).toBe(true)
    expect([busy.destroyed, stream.isClosed]).toEqual([false, false])
  })
})
