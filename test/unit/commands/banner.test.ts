import { describe, expect, it } from 'vitest'
import { banner } from '../../../src/commands/banner.ts'

const demo = { token: 'slu_secret', indexer: null }

function printed(door: { host: string; port: number; tls: boolean }): string {
  const doors = { rpc: door, websocket: door, grpc: door, metrics: door }
  return banner({ endpoints: doors, sources: new Map([['chain.source', 'embedded']]) }, demo)
}

describe('the warnings of a start', () => {
  it('are lines of their own', () => {
    const text = banner({ endpoints: {}, sources: new Map() }, null, ['upstreams.a has no grpc'])
    expect(text).toBe('upstreams.a has no grpc\n')
  })
})

describe('the calls of the first start', () => {
  it('print the token once, and use it by name in every call', () => {
    const text = printed({ host: '127.0.0.1', port: 1, tls: false })
    expect(text.split('slu_secret')).toHaveLength(2)
    const calls = text.split('\n').filter((line) => /^(curl|node) /.test(line))
    expect(calls).toHaveLength(4)
    for (const call of calls) expect(call).toContain('$TOKEN')
    expect(text).toContain('chain.source      embedded')
  })

  it('use TLS for every endpoint that has it', () => {
    const text = printed({ host: '127.0.0.1', port: 1, tls: true })
    expect(text).toContain('createSsl()')
    expect(text).not.toMatch(/createInsecure|http:|ws:/)
  })

  it('write an IPv6 address in brackets', () => {
    const text = printed({ host: '::1', port: 7, tls: false })
    expect(text).toContain('g.Client("[::1]:7"')
    expect(text).toContain('curl -s http://[::1]:7')
  })
})
