import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type StreamKind, streamKinds } from '../../../../src/streams/log/encoded.ts'
import { expectShape } from '../../../testkit/golden.ts'
import { type Peer, StreamStage, turn } from '../../../testkit/stream-stage.ts'

let stage: StreamStage

beforeEach(() => {
  stage = new StreamStage()
})

afterEach(() => {
  stage.stop()
})

const connect: StreamStage['connect'] = (options) => stage.connect(options)
const runBlocks = (from: number, to: number) => {
  for (let number = from; number <= to; number++) stage.execution.run(number)
}

describe('a new client', () => {
  test('gets Resume, then the stored newest of each kind and each active block, ascending', () => {
    runBlocks(1, 10)
    const peer = connect()
    expect(peer.frames[0]).toEqual({
      seq: 0,
      Resume: {
        mode: 'snapshot',
        run: 'run-1',
        oldest: stage.log.oldestSeq,
        newest: stage.log.newestSeq,
      },
    })
    expectShape('metrics/frame-resume', peer.frames[0])
    expect(peer.seqs).toEqual([...peer.seqs].sort((a, b) => a - b))
    // Blocks 8, 9 and 10 are not verified yet.
    expect([...peer.kinds].sort()).toEqual(
      [
        'Resume',
        'TPS',
        'TopAccesses',
        'ContentionData',
        'Lifecycle',
        'Lifecycle',
        'Lifecycle',
      ].sort(),
    )
    for (const frame of peer.frames.slice(1))
      expect(frame).toEqual(JSON.parse(stage.log.at(frame.seq)!.json.toString()))
  })

  test('gets only the kinds that it chose, and Gap', () => {
    runBlocks(1, 3)
    const peer = connect({ kinds: ['TPS'] })
    expect(peer.kinds).toEqual(['Resume', 'TPS'])
    runBlocks(4, 5)
    stage.execution.gap(7, 9)
    expect(peer.kinds).toEqual(['Resume', 'TPS', 'TPS', 'TPS', 'Gap'])
    expectShape('metrics/frame-gap', peer.frames.at(-1))
    expectShape('metrics/frame-tps', peer.frames.at(-2))
  })

  test('gets nothing but Resume before the first block, then every frame', () => {
    const peer = connect()
    expect(peer.frames).toMatchObject([{ seq: 0, Resume: { oldest: 0, newest: 0 } }])
    runBlocks(1, 5)
    expect(peer.seqs).toEqual([...stage.log.after(0)].map((frame) => frame.seq))
    expectShape(
      'metrics/frame-lifecycle',
      peer.frames.findLast((frame) => 'Lifecycle' in frame),
    )
    expectShape(
      'metrics/frame-contention',
      peer.frames.find((frame) => 'ContentionData' in frame),
    )
    expectShape(
      'metrics/frame-top-accesses',
      peer.frames.find((frame) => 'TopAccesses' in frame),
    )
  })

  test('gets the same objects in msgpack', () => {
    const json = connect()
    const packed = connect({ encoding: 'msgpack' })
    runBlocks(1, 4)
    // 64-bit integers come as bigint; as numbers they must be equal.
    const plain = (value: unknown) =>
      JSON.parse(JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? Number(v) : v)))
    expect(plain(packed.frames)).toEqual(json.frames)
  })
})

describe('subscribe', () => {
  test('replaces the kinds and confirms it', () => {
    const peer = connect()
    runBlocks(1, 1)
    const before = peer.frames.length
    stage.sockets.setKinds(peer.client, ['ContentionData'])
    expectShape('metrics/frame-subscribed', peer.frames[before])
    expect(peer.frames[before]).toEqual({ seq: 0, Subscribed: { events: ['ContentionData'] } })
    runBlocks(2, 3)
    expect(peer.kinds.slice(before + 1)).toEqual(['ContentionData', 'ContentionData'])
  })
})

describe('resume', () => {
  test('sends every later frame of the chosen kinds, then live, without gap or duplicate', async () => {
    runBlocks(1, 100)
    const cursor = stage.log.oldestSeq + 50
    const peer = connect({ resumeFrom: cursor, run: 'run-1' })
    expect(peer.frames[0]).toMatchObject({ seq: cursor, Resume: { mode: 'resume' } })
    for (let i = 0; i < 5; i++) await turn()
    runBlocks(101, 110)
    for (let i = 0; i < 5; i++) await turn()
    expect(peer.frames.slice(1).map((frame) => frame.seq)).toEqual(
      [...stage.log.after(cursor)].map((frame) => frame.seq),
    )
  })

  test.each([
    ['the newest', () => stage.log.newestSeq, 'resume'],
    ['oldest - 1', () => stage.log.oldestSeq - 1, 'resume'],
    ['oldest - 2', () => stage.log.oldestSeq - 2, 'snapshot'],
    ['newest + 1', () => stage.log.newestSeq + 1, 'snapshot'],
    ['0', () => 0, 'snapshot'],
    ['2^64 - 1', () => 2 ** 64, 'snapshot'],
  ])('from %s', (_, cursor, mode) => {
    runBlocks(1, 20)
    expect(connect({ resumeFrom: cursor() }).frames[0]).toMatchObject({ Resume: { mode } })
  })

  test('from another run is a snapshot', () => {
    runBlocks(1, 20)
    const peer = connect({ resumeFrom: stage.log.newestSeq - 3, run: 'run-0' })
    expect(peer.frames[0]).toMatchObject({ seq: 0, Resume: { mode: 'snapshot' } })
  })

  test('is paced by what the peer reads', async () => {
    runBlocks(1, 400)
    const cursor = stage.log.oldestSeq - 1
    const peer = connect({ resumeFrom: cursor, reads: false })
    for (let i = 0; i < 5; i++) await turn()
    // At most half the bound and one frame are unsent, though far more is due.
    expect(peer.unsentBytes).toBeLessThan(25_000)
    expect(stage.sockets.followers).toBe(1)
    let next = 401
    while (stage.sockets.followers > 0) {
      peer.read(20)
      stage.sockets.drained(peer.client)
      stage.execution.run(next++)
      await turn()
    }
    peer.read()
    expect(peer.frames.slice(1).map((frame) => frame.seq)).toEqual(
      [...stage.log.after(cursor)].map((frame) => frame.seq),
    )
    expect(peer.kinds).not.toContain('Warning')
  })

  test('over a slow connection is not disconnected while the peer reads', () => {
    runBlocks(1, 400)
    const peer = connect({ resumeFrom: stage.log.oldestSeq - 1, reads: false })
    for (let minute = 0; minute < 5; minute++) {
      stage.sockets.sweep()
      peer.read(1)
      stage.clock.advance(29_000)
      stage.sockets.sweep()
    }
    expect(peer.closed).toBeNull()
  })

  test('that makes no progress for 30 s is disconnected with 1013', () => {
    runBlocks(1, 400)
    const peer = connect({ resumeFrom: stage.log.oldestSeq - 1, reads: false })
    stage.clock.advance(30_000)
    stage.sockets.sweep()
    expect(peer.closed).toBeNull()
    stage.clock.advance(1)
    stage.sockets.sweep()
    expect(peer.closed).toBe(1013)
    expect(stage.sockets.count).toBe(0)
  })
})

describe('a slow client', () => {
  async function stall(): Promise<{ peer: Peer; other: Peer; before: number }> {
    const peer = connect()
    const other = connect()
    runBlocks(1, 3)
    await turn()
    peer.reads = false
    const before = peer.frames.length
    for (let number = 4; number <= 100; number++) {
      stage.execution.run(number)
      await turn()
    }
    return { peer, other, before }
  }

  test('leaves the topics at the bound without affecting other clients', async () => {
    const { peer, other } = await stall()
    expect(peer.client.state).toBe('lagging')
    expect(peer.unsentBytes).toBeLessThan(2 * 40_000)
    expect(other.seqs).toEqual([...stage.log.after(0)].map((frame) => frame.seq))
  })

  test('then gets every Lifecycle and Gap, only the newest of the rest, and a Warning', async () => {
    const { peer } = await stall()
    stage.execution.gap(1, 2)
    peer.reads = true
    peer.read()
    stage.sockets.drained(peer.client)
    await turn()
    expect(peer.client.state).toBe('live')
    const seqs = peer.seqs
    expect(seqs).toEqual([...new Set(seqs)].sort((a, b) => a - b))
    const kept = [...stage.log.after(0)].filter(
      ({ kind }) => kind === 'Lifecycle' || kind === 'Gap',
    )
    const got = new Set(seqs)
    expect(kept.every((frame) => got.has(frame.seq))).toBe(true)
    for (const kind of ['TPS', 'TopAccesses', 'ContentionData'] as const)
      expect(got.has(stage.log.latest(kind)!.seq)).toBe(true)
    const warning = peer.frames.at(-1)!
    expectShape('metrics/frame-warning', warning)
    expect(warning).toEqual({
      seq: 0,
      Warning: { code: 'backpressure', dropped: [...stage.log.after(0)].length - seqs.length },
    })
    stage.execution.run(101)
    expect(peer.seqs.at(-1)).toBe(stage.log.newestSeq)
  })

  test('is disconnected with 1013 when it has not caught up for 30 s', async () => {
    const { peer, other } = await stall()
    stage.clock.advance(30_001)
    stage.sockets.sweep()
    expect(peer.closed).toBe(1013)
    expect(other.closed).toBeNull()
    expect(stage.sockets.count).toBe(1)
  })

  test('is disconnected when the buffer has evicted frames that it must get', async () => {
    const { peer } = await stall()
    for (let number = 101; number < 900; number++) stage.execution.run(number)
    await turn()
    stage.sockets.sweep()
    expect(peer.closed).toBe(1013)
  })
})

test('a flood within one turn is published over several, in order, to all clients', async () => {
  const peer = connect()
  const late: Peer[] = []
  for (let number = 1; number <= 40; number++) {
    stage.execution.run(number, { padBytes: 60_000 })
    if (number % 10 === 0) late.push(connect())
  }
  expect(peer.seqs.at(-1)).toBeLessThan(stage.log.newestSeq)
  for (let i = 0; i < 200; i++) await turn()
  stage.execution.run(41)
  expect(peer.seqs).toEqual([...stage.log.after(0)].map((frame) => frame.seq))
  for (const { seqs } of late) {
    expect(seqs).toEqual([...new Set(seqs)].sort((a, b) => a - b))
    expect(seqs.at(-1)).toBe(stage.log.newestSeq)
  }
})

test('random connects, disconnects, stalls and resumes lose and duplicate nothing', async () => {
  let seed = 12345
  const random = (below: number) => {
    seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff
    return seed % below
  }
  interface User {
    peer: Peer | null
    readonly kinds: readonly StreamKind[]
    readonly seqs: number[]
    cursor: number
    first: number
  }
  runBlocks(1, 5)
  const users: User[] = Array.from({ length: 20 }, () => {
    const kinds = streamKinds.filter(() => random(2) === 0)
    return {
      peer: null,
      kinds: kinds.length > 0 ? kinds : streamKinds,
      seqs: [],
      cursor: stage.log.newestSeq,
      first: stage.log.newestSeq,
    }
  })
  for (let number = 6; number <= 300; number++) {
    stage.execution.run(number)
    if (random(3) === 0) await turn()
    for (const user of users) {
      const action = random(40)
      if (user.peer === null) {
        if (action < 20)
          user.peer = connect({
            kinds: user.kinds,
            resumeFrom: user.cursor,
            run: 'run-1',
            encoding: random(2) === 0 ? 'json' : 'msgpack',
          })
      } else if (action === 0) {
        const { peer } = user
        user.seqs.push(...peer.frames.slice(1).map((frame) => frame.seq))
        user.cursor = Math.max(user.cursor, user.seqs.at(-1) ?? 0)
        peer.end(1000)
        user.peer = null
      }
    }
  }
  for (let i = 0; i < 5; i++) await turn()
  for (const user of users) {
    user.peer ??= connect({ kinds: user.kinds, resumeFrom: user.cursor })
    await turn()
    user.seqs.push(...user.peer.frames.slice(1).map((frame) => frame.seq))
    const due = [...stage.log.after(user.first)].filter((frame) =>
      user.kinds.includes(frame.kind as StreamKind),
    )
    expect(user.seqs).toEqual(due.map((frame) => frame.seq))
  }
})
