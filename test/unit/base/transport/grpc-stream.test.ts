import { EventEmitter } from 'node:events'
import { describe, expect, it } from 'vitest'
import { retryDetails } from '../../../../src/base/transport/grpc-status.ts'
import { innermostCall, PlainStream } from '../../../../src/base/transport/grpc-stream.ts'

const stream = Object.assign(new EventEmitter(), { write() {}, respond() {} })

const streamOf = (call: unknown) => innermostCall(call)?.stream ?? null

describe('innermostCall', () => {
  it('finds the http2 stream through interceptors, or returns null', () => {
    expect(streamOf({ stream })).toBe(stream)
    expect(streamOf({ nextCall: { nextCall: { stream } } })).toBe(stream)
    expect(streamOf({ call: { stream } })).toBe(stream)
    expect(streamOf({ nextCall: {} })).toBeNull()
    expect(streamOf({ stream: {} })).toBeNull()
    expect(streamOf(null)).toBeNull()
    const round: { nextCall?: object } = {}
    round.nextCall = round
    expect(streamOf(round)).toBeNull()
  })
})

describe('sending without the http2 stream', () => {
  it('splits frames into messages', () => {
    const sent: string[] = []
    const plain = new PlainStream({
      write: (message) => sent.push(message.toString()) < 2,
      writableLength: 1,
      finish: ({ code }) => void sent.push(`status ${code}`),
    })
    const frames = Buffer.from('\0\0\0\0\x02ab\0\0\0\0\0\0\0\0\0\x01c', 'latin1')
    expect(plain.write(frames)).toBe(false)
    plain.end({ code: 15, details: '' })
    plain.end({ code: 0, details: '' })
    expect(plain.write(frames)).toBe(true)
    expect(sent).toEqual(['ab', '', 'c', 'status 15'])
  })
})

describe('frames in several buffers', () => {
  it('are put together when they are sent message by message', () => {
    const sent: string[] = []
    const sink = { writableLength: 0, finish() {} }
    const plain = new PlainStream({ ...sink, write: (message) => sent.push(String(message)) > 0 })
    const frames = Buffer.from('\0\0\0\0\x02ab\0\0\0\0\0\0\0\0\0\x01c', 'latin1')
    for (const byte of frames) plain.write(Buffer.of(byte))
    expect(sent).toEqual(['ab', '', 'c'])
  })
})

describe('a status with a retry delay', () => {
  it('carries google.rpc.RetryInfo', () => {
    const details = retryDetails({ code: 8, details: 'x' }, 1_500)
    const info = '\x0a\x28type.googleapis.com/google.rpc.RetryInfo'
    const delay = '\x12\x0a\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01'
    expect(details.toString('latin1')).toBe(`\x08\x08\x12\x01x\x1a\x36${info}${delay}`)
  })
})
