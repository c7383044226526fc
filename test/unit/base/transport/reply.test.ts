import { describe, expect, it } from 'vitest'
import { codesOf } from '../../../../src/base/errors.ts'
import {
  errorReply,
  jsonHead,
  ResponseHead,
  statusLine,
  withRetryAfter,
} from '../../../../src/base/transport/reply.ts'

describe('reply', () => {
  it('answers a missing token with 401 on HTTP and PermissionDenied on gRPC', () => {
    expect(codesOf.unauthenticated).toEqual({ http: 401, grpc: 7, jsonrpc: -32401, close: 1008 })
  })

  it('has codes of its own for every kind of refusal', () => {
    for (const { http, grpc, jsonrpc, close } of Object.values(codesOf)) {
      expect(http).toBeGreaterThanOrEqual(400)
      expect(grpc).toBeGreaterThan(0)
      expect(jsonrpc).toBeLessThan(0)
      expect(close).toBeGreaterThanOrEqual(1007)
    }
  })

  it('joins header lines and refuses a value that would begin another', () => {
    const head = ResponseHead.of({ 'content-type': 'text/plain', a: 'b' }).and('c', 'd')
    const lines = ['text/plain', 'keep-alive: timeout=7', 'a: b', 'c: d']
    expect([head.name, head.value]).toEqual(['content-type', lines.join('\r\n')])
    expect(head.lastValue).toBe('text/plain\r\na: b\r\nc: d')
    expect(() => head.and('x', 'y\r\nset-cookie: z')).toThrow(/one line/)
    expect(() => ResponseHead.of({ a: 'b\nc' })).toThrow(/one line/)
  })

  it('rounds Retry-After up to whole seconds, never 0', () => {
    expect(withRetryAfter(jsonHead, 1).value).toContain('retry-after: 1')
    expect(withRetryAfter(jsonHead, 1001).value).toContain('retry-after: 2')
    expect(withRetryAfter(jsonHead, undefined)).toBe(jsonHead)
  })

  it('formats errors as JSON', () => {
    expect(errorReply(404, 'not "found"').body).toBe('{"error":"not \\"found\\""}')
    expect([statusLine(408), statusLine(299)]).toEqual(['408 Request Timeout', '299 Unknown'])
  })
})
