import { EventEmitter } from 'node:events'
import type { ServerHttp2Stream } from 'node:http2'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  type GrpcStatus,
  limitRequests,
  messageDeadlineMs,
  RefusedStreams,
  type RequestLimits,
} from '../../../../src/base/transport/grpc-stream.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const unlimited = { messageBytesMax: 1_000, messagesMax: Number.POSITIVE_INFINITY }

/** A stream with a gathering library, the limits between them, and what came of it. */
function limited(limits: Partial<RequestLimits>) {
  const gathered: Buffer[] = []
  const statuses: GrpcStatus[] = []
  const stream = Object.assign(new EventEmitter(), { resume() {} })
  stream.on('data', (chunk: Buffer) => gathered.push(chunk))
  limitRequests(
    // Reason for the cast: the limits use nothing else of a stream.
    stream as unknown as ServerHttp2Stream,
    { ...unlimited, firstMessageMs: null, ...limits },
    (status) => statuses.push(status),
  )
  const send = (...chunks: Uint8Array[]) => {
    for (const chunk of chunks) stream.emit('data', Buffer.from(chunk))
  }
  return { stream, send, statuses, gathered: () => Buffer.concat(gathered) }
}

function message(size: number): Buffer {
  const bytes = Buffer.alloc(5 + size, 7)
  bytes[0] = 0
  bytes.writeUInt32BE(size, 1)
  return bytes
}

describe('limits of request messages', () => {
  it('pass messages on unchanged, however they are split into chunks', () => {
    const all = Buffer.concat([message(0), message(1_000), message(3), message(0)])
    for (let size = 1; size < 40; size++) {
      const { send, statuses, gathered } = limited({ messagesMax: 4 })
      for (let at = 0; at < all.length; at += size) send(all.subarray(at, at + size))
      expect(statuses).toEqual([])
      expect(gathered().equals(all)).toBe(true)
    }
  })

  it('refuse a message at its prefix, and pass nothing more to the library', () => {
    const { send, statuses, gathered } = limited({ messageBytesMax: 10 })
    send(message(10))
    const over = message(11)
    for (const byte of over) send(Buffer.from([byte]))
    expect(statuses).toEqual([{ code: 8, details: 'Received message larger than max (11 vs 10)' }])
    // The four bytes before the length was known.
    expect(gathered()).toHaveLength(15 + 4)
  })

  it('refuse one message too many, wherever it begins', () => {
    const joined = limited({ messagesMax: 1 })
    joined.send(Buffer.concat([message(2), message(0)]))
    expect(joined.statuses.map(({ code }) => code)).toEqual([3])
    expect(joined.gathered()).toHaveLength(0)
    const apart = limited({ messagesMax: 1 })
    apart.send(message(2), Buffer.from([0]), message(0))
    expect(apart.statuses.map(({ code }) => code)).toEqual([3])
    expect(apart.gathered()).toHaveLength(7)
  })

  it('apply a timeout to the first message where the method has one', () => {
    const late = limited({ firstMessageMs: 10_000 })
    late.send(message(4).subarray(0, 8))
    vi.advanceTimersByTime(9_999)
    expect(late.statuses).toEqual([])
    vi.advanceTimersByTime(1)
    expect(late.statuses.map(({ code }) => code)).toEqual([4])
    const inTime = limited({ firstMessageMs: 10_000 })
    inTime.send(message(4))
    const patient = limited({})
    vi.advanceTimersByTime(3_600_000)
    expect([inTime.statuses, patient.statuses]).toEqual([[], []])
  })

  it('apply a timeout to every message from its first byte on', () => {
    const { send, statuses } = limited({})
    for (let count = 0; count < 3; count++) {
      vi.advanceTimersByTime(3_600_000)
      send(message(4).subarray(0, 2))
      vi.advanceTimersByTime(messageDeadlineMs - 1)
      // The end of one and the beginning of the next in one chunk.
      send(Buffer.concat([message(4).subarray(2), message(4).subarray(0, 3)]))
      vi.advanceTimersByTime(messageDeadlineMs - 1)
      send(message(4).subarray(3))
    }
    expect(statuses).toEqual([])
    send(message(4).subarray(0, 1))
    for (let second = 0; second < messageDeadlineMs / 1_000; second++) {
      vi.advanceTimersByTime(1_000)
      // A byte now and then does not extend it.
      if (second % 10 === 5) send(Buffer.from([0]))
    }
    expect(statuses.map(({ code }) => code)).toEqual([4])
  })

  it('leave no timer after the stream', () => {
    const { stream, send, statuses } = limited({ firstMessageMs: 10_000 })
    send(message(4).subarray(0, 3))
    stream.emit('close')
    expect(vi.getTimerCount()).toBe(0)
    expect(statuses).toEqual([])
  })
})

describe('refused streams', () => {
  it('are closed after a grace period, and at once when a connection has many of them', () => {
    const refused = new RefusedStreams()
    const session = {}
    const closed: number[] = []
    const add = (index: number) => {
      const stream = Object.assign(new EventEmitter(), {
        session,
        closed: false,
        close() {
          closed.push(index)
          stream.closed = true
          stream.emit('close')
        },
      })
      // Reason for the cast: nothing else of a stream is used.
      refused.add(stream as unknown as ServerHttp2Stream, 1_000)
    }
    for (let index = 0; index < 20; index++) add(index)
    vi.advanceTimersByTime(0)
    expect(closed).toEqual([16, 17, 18, 19])
    vi.advanceTimersByTime(1_000)
    expect(closed).toHaveLength(20)
    add(20)
    vi.advanceTimersByTime(0)
    expect(closed).toHaveLength(20)
  })
})
