import { EventEmitter } from 'node:events'
import { describe, expect, it } from 'vitest'
import { innermostCall, retryDetails } from '../../../../src/base/transport/grpc-stream.ts'

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

describe('a status with a retry delay', () => {
  it('carries google.rpc.RetryInfo', () => {
    const details = retryDetails({ code: 8, details: 'x' }, 1_500)
    const info = '\x0a\x28type.googleapis.com/google.rpc.RetryInfo'
    const delay = '\x12\x0a\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01'
    expect(details.toString('latin1')).toBe(`\x08\x08\x12\x01x\x1a\x36${info}${delay}`)
  })
})
