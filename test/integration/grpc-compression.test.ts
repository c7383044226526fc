// Compression on the gRPC endpoint: requests of every kind, answers to those who ask, by hand and
// with unmodified clients.
import { createRequire } from 'node:module'
import { deflateSync, gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { compressZstd } from '../../src/base/zstd.ts'
import { codec, GrpcStage } from '../testkit/grpc-stage.ts'
import { followLaserStream } from '../testkit/laserstream.ts'
import { framed, messagesIn, RawStream, rawSession } from '../testkit/raw-grpc.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

const require = createRequire(import.meta.url)
const mebibyte = 1024 * 1024
const ping = Buffer.from(codec.encode('geyser.PingRequest', { count: 9 }))

let stage: GrpcStage
let token: string
beforeEach(async () => {
  // Pings have the time in them.
  stage = await GrpcStage.open({ section: { pingMs: 600_000 } })
  token = stage.provision({ plan: 'unlimited' }).token
})
afterEach(() => stage.close())

describe('requests', () => {
  it('are taken in gzip, deflate and zstd, and refused one by one when they are wrong', async () => {
    const session = rawSession(stage.target)
    async function status(encoding: string, body: Buffer, path = '/geyser.Geyser/Ping') {
      const headers = { 'x-token': token, 'grpc-encoding': encoding }
      const call = new RawStream(session, path, headers)
      call.stream.end(framed(body, 1))
      await until(() => call.status !== null, 'a status')
      return call.status
    }
    const bomb = Buffer.alloc(5 * mebibyte + 1)
    const compressors = { gzip: gzipSync, deflate: deflateSync, zstd: compressZstd }
    for (const [encoding, compress] of Object.entries(compressors)) {
      const whole = compress(ping)
      expect([encoding, await status(encoding, whole)]).toEqual([encoding, 0])
      expect(await status(encoding, compress(bomb))).toBe(8)
      expect(await status(encoding, whole.subarray(0, -1))).toBe(13)
      expect(await status(encoding, ping)).toBe(13)
      expect(await status(encoding, Buffer.alloc(0))).toBe(13)
      // The limit of the health service's messages is its own.
      const long = compress(bomb.subarray(0, 2_000))
      expect(await status(encoding, long, '/grpc.health.v1.Health/Check')).toBe(8)
    }
    expect(await status('br', ping)).toBe(12)
    expect(await status('zstd', Buffer.from('28b52ffde0ffffffffffffffff0100', 'hex'))).toBe(8)
    // All of it on one connection, which is as good as before.
    expect(await status('zstd', compressZstd(ping))).toBe(0)
    session.destroy()
  })
})

describe('answers', () => {
  const slots = codec.encode('geyser.SubscribeRequest', {
    accounts: { all: {} },
    blocks: { b: { includeTransactions: true, includeAccounts: true } },
  })

  function isPong(message: Buffer): boolean {
    return Boolean(codec.decode<{ pong?: object }>('geyser.SubscribeUpdate', message)!.pong)
  }

  /** What subscribers with these headers get of two slots. */
  async function subscribed(...all: Record<string, string>[]) {
    const session = rawSession(stage.target)
    const streams = all.map((headers) => {
      const path = '/geyser.Geyser/Subscribe'
      const call = new RawStream(session, path, { 'x-token': token, ...headers })
      let encoding: unknown
      call.stream.on('response', (head) => {
        encoding = head['grpc-encoding']
      })
      call.stream.write(framed(slots))
      const bytes = () => Buffer.concat(call.chunks)
      return { call, bytes, encoding: () => encoding as 'gzip' | 'zstd' | 'identity' }
    })
    await until(async () => (await stage.meter('sluice_grpc_streams')) === all.length, 'streams')
    await until(() => streams.every(({ call }) => call.isOpen), 'headers')
    const read = () =>
      streams.map(({ bytes, encoding }) => {
        const name = encoding()
        const messages = messagesIn(bytes(), name === 'identity' ? null : name)
        const updates = messages.filter(({ message }) => !isPong(message))
        return { name, messages, updates, bytes: bytes().length }
      })
    const settled = async () => {
      const before = read().map(({ messages }) => messages.length)
      for (const { call } of streams)
        call.stream.write(framed(codec.encode('geyser.SubscribeRequest', { ping: { id: 1 } })))
      await until(
        () =>
          read().every(({ messages }, at) =>
            messages.slice(before[at]).some(({ message }) => isPong(message)),
          ),
        'pongs',
      )
    }
    await settled()
    const chain = new SyntheticSolana({ dataBytes: 1_000, transactionsPerSlot: 40 })
    for (let slot = 0; slot < 2; slot++) stage.publish(chain.next())
    await settled()
    session.destroy()
    return read()
  }

  it('are compressed for those who ask, and hold the same updates', async () => {
    const [plain, gzip, zstd, lists, own] = await subscribed(
      {},
      { 'grpc-accept-encoding': 'gzip,identity' },
      { 'grpc-accept-encoding': 'zstd,gzip,identity' },
      { 'grpc-accept-encoding': 'identity,deflate,gzip' },
      { 'grpc-accept-encoding': 'identity,deflate,gzip', 'grpc-encoding': 'gzip' },
    )
    const names = [plain, gzip, zstd, lists, own].map((seen) => seen!.name)
    expect(names).toEqual(['identity', 'gzip', 'zstd', 'identity', 'gzip'])
    const contents = (seen: typeof plain) =>
      seen!.updates.map(({ message }) => message.toString('latin1'))
    expect(contents(plain).length).toBeGreaterThan(20)
    for (const seen of [gzip, zstd, lists, own]) expect(contents(seen)).toEqual(contents(plain))
    for (const seen of [gzip, zstd, own]) {
      expect(seen!.bytes).toBeLessThan(plain!.bytes * 0.9)
      expect(seen!.messages.some(({ flag }) => flag === 1)).toBe(true)
    }
    for (const seen of [plain, lists])
      expect(seen!.messages.every(({ flag }) => flag === 0)).toBe(true)
  })

  it('are never compressed with grpc.compression []', async () => {
    await stage.close()
    stage = await GrpcStage.open({ section: { compression: [] } })
    token = stage.provision({ plan: 'unlimited' }).token
    const [seen] = await subscribed({ 'grpc-accept-encoding': 'gzip,identity' })
    expect(seen!.name).toBe('identity')
    expect(seen!.messages.every(({ flag }) => flag === 0)).toBe(true)
  })

  it('of unary methods name their compression', async () => {
    const session = rawSession(stage.target)
    const headers = { 'x-token': token, 'grpc-accept-encoding': 'gzip' }
    const call = new RawStream(session, '/geyser.Geyser/GetVersion', headers)
    let head: Record<string, unknown> = {}
    call.stream.on('response', (got) => {
      head = got
    })
    call.stream.end(framed(Buffer.alloc(0)))
    await until(() => call.status !== null, 'a status')
    expect(head).toMatchObject({
      'grpc-encoding': 'gzip',
      'grpc-accept-encoding': 'identity,deflate,gzip,zstd',
    })
    const [answer] = messagesIn(Buffer.concat(call.chunks), 'gzip')
    expect(String(answer!.message)).toContain('"package":"sluice"')
    session.destroy()
  })
})

describe('unmodified clients', () => {
  const nothing = {
    ...{ accounts: {}, slots: {}, transactions: {}, transactionsStatus: {} },
    ...{ blocks: {}, blocksMeta: {}, entry: {}, accountsDataSlice: [] },
  }
  const chain = new SyntheticSolana({ dataBytes: 1_000, transactionsPerSlot: 40 })

  async function bytesSent(): Promise<number> {
    return stage.meter('sluice_grpc_sent_bytes_total')
  }

  it('yellowstone reads gzip when it compresses, and is not sent any when it does not', async () => {
    const { default: Yellowstone } = require('@triton-one/yellowstone-grpc')
    const sent: number[] = []
    for (const options of [{}, { 'grpc.default_compression_algorithm': 2 }]) {
      const client = new Yellowstone(`http://${stage.target}`, token, options)
      expect(await client.ping(3)).toBe(3)
      const stream = await client.subscribe()
      const blocks: { slot: string }[] = []
      stream.on('error', () => {})
      stream.on('data', (update: { block?: { slot: string } }) => {
        if (update.block !== undefined) blocks.push(update.block)
      })
      const filter = { accountInclude: [], includeTransactions: true, includeAccounts: true }
      stream.write({ ...nothing, blocks: { b: filter } })
      stream.write({ ...nothing, ping: { id: 1 } })
      const before = await bytesSent()
      await until(async () => (await bytesSent()) > before, 'a pong')
      const { slot } = chain
      stage.publish(chain.next())
      await until(() => blocks.length === 1, 'the block')
      expect(blocks[0]!.slot).toBe(String(slot))
      sent.push((await bytesSent()) - before)
      stream.cancel()
      await until(async () => (await stage.meter('sluice_grpc_streams')) === 0, 'its end')
    }
    expect(sent[1]).toBeLessThan(sent[0]! * 0.9)
  })

  it.each(['zstd', 'gzip', undefined] as const)(
    'LaserStream follows with %s',
    async (algorithm) => {
      const laser = await followLaserStream(`http://${stage.target}`, token, algorithm)
      await until(async () => (await stage.meter('sluice_grpc_streams')) === 1, 'a stream')
      await until(() => {
        stage.publish(chain.next())
        return laser.updates.filter(({ account }) => account).length > 10
      }, 'updates')
      expect(laser.errors).toEqual([])
      laser.cancel()
    },
  )
})
