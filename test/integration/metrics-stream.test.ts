// Tests the event stream over a real endpoint, with the unmodified `ws` package.
import { unpack } from 'msgpackr'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { systemClock } from '../../src/base/clock.ts'
import { EventLog } from '../../src/streams/log/log.ts'
import { contentionOf } from '../testkit/fake-execution.ts'
import { expectShape } from '../testkit/golden.ts'
import { Listener, openService, type Service } from '../testkit/metrics-service.ts'
import { checkStorm, StormClient } from '../testkit/resume-storm.ts'
import { hangMs, until } from '../testkit/until.ts'

let service: Service
const listeners: Listener[] = []

beforeAll(async () => {
  service = await openService()
  for (let number = 1; number <= 50; number++) service.execution.run(number)
})

afterEach(async () => {
  for (const { socket } of listeners.splice(0)) socket.terminate()
  await until(async () => {
    const response = await fetch(`${service.origin}/v1/status`)
    return ((await response.json()) as { connected_clients: number }).connected_clients === 0
  }, 'all clients to be gone')
})

afterAll(() => service.running.stop())

function listen(path: string, protocols?: string[]): Listener {
  const listener = new Listener(service.ws + path, protocols)
  listeners.push(listener)
  return listener
}

describe('the stream', () => {
  test.each(['/v1/ws', '/'])(
    'on %s begins with Resume and a snapshot, then continues live',
    async (path) => {
      const listener = listen(path)
      await listener.has(7)
      expectShape('metrics/frame-resume', listener.frames[0])
      expect(listener.frames[0]).toMatchObject({
        seq: 0,
        Resume: { mode: 'snapshot', run: 'run-1' },
      })
      const before = listener.frames.length
      const from = service.events.newestSeq
      service.execution.run(60)
      await until(() => listener.seqs.at(-1) === service.events.newestSeq, 'live frames')
      const live = listener.frames.slice(before)
      expect(live.map((frame) => frame.seq)).toEqual(
        [...service.events.after(from)].map((frame) => frame.seq),
      )
      for (const frame of live) expect(Object.keys(frame)).toHaveLength(2)
    },
  )

  test('sends JSON as text with seq first, msgpack as binary by subprotocol', async () => {
    const texts: string[] = []
    const plain = listen('/v1/ws?events=TPS')
    plain.socket.on('message', (data, isBinary) => {
      if (!isBinary) texts.push(data.toString())
    })
    const packed: unknown[] = []
    const socket = new WebSocket(`${service.ws}/v1/ws?events=TPS`, ['other', 'msgpack'])
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) packed.push(unpack(data))
    })
    await until(() => texts.length === 2 && packed.length === 2, 'both snapshots')
    service.execution.run(61)
    await until(() => texts.length === 3 && packed.length === 3, 'both frames')
    expect(socket.protocol).toBe('msgpack')
    socket.terminate()
    expect(texts[2]).toMatch(/^\{"seq":\d+,"TPS":\d+\}$/)
    expect(texts.map((text) => JSON.parse(text))).toEqual(packed)
  })

  test('changes kinds by message and answers', async () => {
    const listener = listen('/v1/ws?events=TPS')
    await listener.has(2)
    listener.socket.send('{"subscribe":{"events":["ContentionData"]}}')
    await listener.has(3)
    expect(listener.frames[2]).toEqual({ seq: 0, Subscribed: { events: ['ContentionData'] } })
    service.execution.run(62)
    await listener.has(4)
    expect(listener.kinds[3]).toBe('ContentionData')
  })

  test.each([
    ['bad JSON', '{', 'bad_message'],
    ['an empty list', '{"subscribe":[]}', 'empty_subscribe'],
    ['an unknown kind', '{"subscribe":["Nope"]}', 'unknown_kind'],
    ['binary noise', Buffer.from([1, 2, 255]), 'bad_message'],
  ])('answers %s with an Error and keeps the old set', async (_, message, code) => {
    const listener = listen('/v1/ws?events=TPS')
    await listener.has(2)
    listener.socket.send(message)
    await listener.has(3)
    expectShape('metrics/frame-error', listener.frames[2])
    expect(listener.frames[2]).toMatchObject({ seq: 0, Error: { code } })
    service.execution.run(63)
    await listener.has(4)
    expect(listener.kinds.slice(3)).toEqual(['TPS'])
  })

  test.each([16 * 1024 + 1, 64 * 1024 + 1, 300 * 1024])(
    'closes a client that sends %d bytes, more than 16 KiB, with 1009',
    async (bytes) => {
      const listener = listen('/v1/ws')
      await listener.has(1)
      listener.socket.send('x'.repeat(bytes))
      await until(() => listener.closed !== null, 'the close')
      expect(listener.closed).toBe(1009)
    },
  )

  test.each([
    '?resume_from=-1',
    '?resume_from=1e30',
    '?resume_from=18446744073709551616',
    '?resume_from=abc',
    '?resume_from=',
    '?events=',
    '?events=Nope',
    '?events=TPS&events=Lifecycle',
    '?resume_from=1&resume_from=2',
  ])('refuses %s with 400', async (query) => {
    const listener = listen(`/v1/ws${query}`)
    await until(() => listener.refused !== null, 'the refusal')
    expect(listener.refused?.status).toBe(400)
    expectShape('metrics/error', JSON.parse(listener.refused!.body))
  })

  test('rejects the 11th connection of an address with 429', async () => {
    for (let count = 0; count < 10; count++) await listen(count % 2 ? '/' : '/v1/ws').has(1)
    const eleventh = listen('/v1/ws')
    await until(() => eleventh.refused !== null, 'the refusal')
    expect(eleventh.refused?.status).toBe(429)
    expectShape('metrics/error', JSON.parse(eleventh.refused!.body))
    listeners[0]!.socket.close()
    await until(() => listeners[0]!.closed !== null, 'one to leave')
    await listen('/v1/ws').has(1)
  })
})

test('a stop ends the sockets with 1001', async () => {
  const short = await openService()
  const listener = new Listener(`${short.ws}/v1/ws`)
  await listener.has(1)
  await short.running.stop()
  await until(() => listener.closed !== null, 'the close')
  expect(listener.closed).toBe(1001)
})

test('a revoked token closes its socket with 1008', async () => {
  let kill = () => {}
  const locked = await openService({
    section: { auth: 'token' },
    deps: {
      gate: {
        admit: (_, { xToken }) =>
          xToken === 'good' ? ({ subscription: { id: 'a' }, digest: 'd' } as never) : null,
        readmits: () => true,
        isExpired: () => false,
        lease: (_principal, _door, _address, close) => {
          kill = close
          return () => {}
        },
      },
    },
  })
  const without = new Listener(`${locked.ws}/v1/ws`)
  await until(() => without.refused !== null, 'the refusal')
  expect(without.refused).toEqual({ status: 401, body: '{"error":"unauthorized"}' })
  const listener = new Listener(`${locked.ws}/v1/ws`, [], { 'x-token': 'good' })
  await listener.has(1)
  kill()
  await until(() => listener.closed !== null, 'the close')
  expect(listener.closed).toBe(1008)
  await locked.running.stop()
})

test('a stalled client delays no other, follows from the log, and is disconnected after a timeout', async () => {
  const stalled = await openService({
    section: { connectionsPerAddress: 0 },
    deps: { limits: { unsentBytesMax: 1024 * 1024, slowMsMax: 20_000 } },
  })
  const { execution, events } = stalled
  const slow = new Listener(`${stalled.ws}/v1/ws`)
  const stuck = new Listener(`${stalled.ws}/v1/ws`)
  const quick = Array.from({ length: 5 }, () => new Listener(`${stalled.ws}/v1/ws`))
  await Promise.all([slow, stuck, ...quick].map((listener) => listener.has(1)))
  slow.socket.pause()
  stuck.socket.pause()
  let number = 1
  const scrape = async (name: string) => {
    // Not by HTTP: /metrics is shared beyond a few a second.
    const { body } = await stalled.meters.render('text')
    return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(body)?.[1])
  }
  const quickHaveAll = () =>
    until(
      () => quick.every((listener) => listener.seqs.at(-1) === events.newestSeq),
      'the others to have everything',
    )
  // The kernel takes some megabytes before anything is unsent. The others read in between, however
  // slow the machine is.
  const deadlineMs = performance.now() + hangMs
  while ((await scrape('sluice_ws_following_clients')) < 2 && performance.now() < deadlineMs) {
    for (let count = 0; count < 10; count++) execution.run(number++, { padBytes: 60_000 })
    await quickHaveAll()
  }
  expect(await scrape('sluice_ws_following_clients')).toBe(2)
  for (let count = 0; count < 20; count++) execution.run(number++)
  slow.socket.resume()
  await until(() => slow.kinds.includes('Warning'), 'the warning')
  await quickHaveAll()
  const all = [...events.after(0)]
  for (const listener of quick) expect(listener.seqs).toEqual(all.map((frame) => frame.seq))
  const got = new Set(slow.seqs)
  expect(slow.seqs).toEqual([...got].sort((a, b) => a - b))
  for (const { seq, kind } of all) if (kind === 'Lifecycle') expect(got.has(seq)).toBe(true)
  const warning = slow.frames.find((frame) => 'Warning' in frame)
  expectShape('metrics/frame-warning', warning)
  expect(warning).toMatchObject({
    Warning: { code: 'backpressure', dropped: all.length - got.size },
  })
  await until(async () => (await scrape('sluice_ws_slow_cuts_total')) === 1, 'the cut')
  stuck.socket.resume()
  await until(() => stuck.closed !== null, 'the close frame')
  expect(stuck.closed).toBe(1013)
  for (const { socket } of [slow, ...quick]) socket.terminate()
  await stalled.running.stop()
})

test('50 clients that disconnect and resume at random lose and duplicate nothing', async () => {
  const storm = await openService({
    section: { connectionsPerAddress: 0 },
    // All clients come from one address.
    addressLimits: { workMsPerSecond: 0 },
  })
  for (let number = 1; number <= 5; number++) storm.execution.run(number)
  const cursor = storm.events.newestSeq
  const clients = Array.from(
    { length: 50 },
    (_, index) =>
      new StormClient(index, { url: storm.ws, clients: 50, stayMs: 300, cursor, run: 'run-1' }),
  )
  let number = 6
  const feed = setInterval(() => storm.execution.run(number++), 10)
  await until(() => number > 300, '300 blocks')
  clearInterval(feed)
  for (const client of clients) client.settle()
  const due = new Map([...storm.events.after(cursor)].map(({ seq, kind }) => [seq, kind]))
  expect(await checkStorm(clients, due, 20_000)).toBeNull()
  expect(clients.reduce((sum, { resumes }) => sum + resumes, 0)).toBeGreaterThan(100)
  expect(clients.reduce((sum, { snapshots }) => sum + snapshots, 0)).toBe(0)
  for (const client of clients) client.end()
  await storm.running.stop()
})

describe('a log that gateways share', () => {
  test('lets a cursor of a gateway that is further wait for its frame', async () => {
    const eventLog = new EventLog({ reserve: () => null, clock: systemClock, isShared: true })
    let pulls = 0
    eventLog.pull = async () => void pulls++
    eventLog.restart('shared', 10)
    const put = (seq: number) =>
      eventLog.accept(seq, { kind: 'TPS', payload: Buffer.from(`${seq}`), sinceMs: 0, facts: null })
    put(11)
    const shared = await openService({ eventLog })
    const open = (query: string) => new Listener(`${shared.ws}/v1/ws?events=TPS&${query}`)
    try {
      const ahead = open('resume_from=12&run=shared')
      const isOpen = () => ahead.socket.readyState === WebSocket.OPEN
      await until(() => pulls > 0 && isOpen(), 'a read of the shared log')
      ahead.socket.send('{"subscribe":["TPS"]}')
      expect(ahead.frames).toEqual([])
      for (const seq of [12, 13]) put(seq)
      await ahead.has(3)
      expect(ahead.frames[0]).toMatchObject({ seq: 12, Resume: { mode: 'resume', run: 'shared' } })
      expect(ahead.frames.slice(1)).toContainEqual({ seq: 13, TPS: 13 })
      expect(ahead.frames.slice(1)).toContainEqual({ seq: 0, Subscribed: { events: ['TPS'] } })
      // A number that nobody has, and one of another run.
      for (const query of ['resume_from=99', 'resume_from=99&run=other']) {
        const beyond = open(query)
        await beyond.has(1)
        expect(beyond.frames[0]).toMatchObject({ Resume: { mode: 'snapshot', run: 'shared' } })
        beyond.socket.terminate()
      }
      // While the shared log cannot be read, a snapshot would take the client back.
      for (const pull of [() => new Promise<void>(() => {}), () => Promise.reject(new Error())]) {
        eventLog.pull = pull
        const cutOff = open('resume_from=99&run=shared')
        await until(() => cutOff.closed === 1013, 'the end of its socket')
        expect(cutOff.frames).toEqual([])
      }
      eventLog.restart('next', 70_000)
      await until(() => ahead.closed === 1001, 'the end of its socket')
    } finally {
      await shared.running.stop()
    }
  })

  test('lets a cursor before the frames of a start wait for the older ones', async () => {
    const eventLog = new EventLog({ reserve: () => null, clock: systemClock, isShared: true })
    eventLog.restart('shared', 10)
    const frame = (seq: number) =>
      ({ kind: 'TPS', payload: Buffer.from(`${seq}`), sinceMs: 0, facts: null }) as const
    eventLog.accept(11, frame(11))
    eventLog.setFilling(true)
    const shared = await openService({ eventLog })
    const behind = new Listener(`${shared.ws}/v1/ws?events=TPS&resume_from=8&run=shared`)
    try {
      await until(() => behind.socket.readyState === WebSocket.OPEN, 'its socket')
      const cutOff = new Listener(`${shared.ws}/v1/ws?events=TPS&resume_from=7&run=shared`)
      await until(() => cutOff.socket.readyState === WebSocket.OPEN, 'its socket')
      eventLog.accept(12, frame(12))
      const live = new Listener(`${shared.ws}/v1/ws?events=TPS&resume_from=11&run=shared`)
      await live.has(2)
      live.socket.terminate()
      expect(behind.frames).toEqual([])
      for (const seq of [10, 9]) expect(eventLog.prepend(seq, frame(seq))).toBe(true)
      expect(eventLog.prepend(7, frame(7))).toBe(false)
      // The others cannot be read now: a snapshot would take a client back.
      eventLog.setFilling(true)
      await until(() => cutOff.closed === 1013, 'the end of its socket')
      expect(cutOff.frames).toEqual([])
      await behind.has(5)
      expect(behind.frames[0]).toMatchObject({ seq: 8, Resume: { mode: 'resume', oldest: 9 } })
      expect(behind.seqs).toEqual([8, 9, 10, 11, 12])
    } finally {
      behind.socket.terminate()
      await shared.running.stop()
    }
  })

  test('lists blocks once the older ones of a start are here', async () => {
    const eventLog = new EventLog({ reserve: () => null, clock: systemClock, isShared: true })
    eventLog.restart('shared', 2)
    const frames = [1, 2].flatMap((block) => [
      { kind: 'TPS', payload: Buffer.from(`${block}`), sinceMs: 0, facts: null } as const,
      {
        ...({ kind: 'ContentionData', sinceMs: 0, facts: null } as const),
        payload: Buffer.from(JSON.stringify(contentionOf(block))),
      },
    ])
    for (const seq of [3, 4]) eventLog.accept(seq, frames[seq - 1]!)
    eventLog.setFilling(true)
    const shared = await openService({ eventLog })
    const blocks = async (last: number) => {
      const response = await fetch(`${shared.origin}/v1/blocks?last=${last}`)
      const body = (await response.json()) as { blocks: { block_number: number }[] }
      return body.blocks.map(({ block_number }) => block_number)
    }
    try {
      expect(await blocks(1)).toEqual([2])
      const early = blocks(2)
      // What it reads is in the same event loop.
      expect(await blocks(1)).toEqual([2])
      // They cannot be read now.
      eventLog.setFilling(true)
      expect(await early).toEqual([2])
      const both = blocks(2)
      expect(await blocks(1)).toEqual([2])
      for (const seq of [2, 1]) eventLog.prepend(seq, frames[seq - 1]!)
      eventLog.setFilling(false)
      expect(await both).toEqual([1, 2])
    } finally {
      await shared.running.stop()
    }
  })
})
