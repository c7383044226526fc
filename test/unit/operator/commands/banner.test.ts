import { describe, expect, it } from 'vitest'
import { banner, type Start } from '../../../../src/operator/commands/banner.ts'

const first: Start = {
  demo: { token: 'slu_secret', indexer: null },
  hasDemo: false,
  data: null,
  hasPage: true,
  isMetricsClosed: false,
  ca: null,
  warnings: [],
}
const later: Start = { ...first, demo: null, hasDemo: true }
const endpoint = { host: '127.0.0.1', port: 1, tls: false }

function printed(start: Start, at = endpoint): string {
  const endpoints = { rpc: at, websocket: at, grpc: at, metrics: at, indexer: at, shredstream: at }
  return banner({ endpoints, sources: new Map([['chain.source', 'embedded']]) }, start)
}

describe('the warnings of a start', () => {
  it('are lines of their own', () => {
    const start = { ...later, hasDemo: false, warnings: ['upstreams.a has no grpc'] }
    expect(banner({ endpoints: {}, sources: new Map() }, start)).toBe('upstreams.a has no grpc\n')
  })
})

describe('the calls of the first start', () => {
  it('print the token once, and use it by name in every call', () => {
    const text = printed(first)
    expect(text.split('slu_secret')).toHaveLength(2)
    const calls = text.split('\n').filter((line) => /^(curl|echo) /.test(line))
    expect(calls).toHaveLength(5)
    for (const call of calls) expect(call.includes('$TOKEN')).toBe(!call.includes('/v1/status'))
    expect(printed({ ...first, isMetricsClosed: true })).toContain(
      'curl -sS http://127.0.0.1:1/v1/status -H "x-token: $TOKEN"\n',
    )
    expect(text).toContain('chain.source      embedded')
  })

  it('never let npm fetch a package, and never pass the token as an argument', () => {
    const commands = printed(first).match(/npx .*/g) ?? []
    expect(commands.length).toBeGreaterThan(3)
    for (const command of commands) {
      expect(command).toMatch(/^npx --no -- sluice /)
      expect(command).not.toContain('TOKEN')
    }
  })

  it('use TLS for every endpoint that has it', () => {
    const secure = { ...endpoint, tls: true }
    expect(printed(first, secure)).not.toMatch(/http:|ws:/)
    const calls = printed({ ...first, ca: '/a b.pem' }, secure).match(/^(curl|echo).+$/gm) ?? []
    expect(calls).toHaveLength(5)
    for (const call of calls) expect(call).toMatch(/ --ca(cert)? '\/a b.pem'/)
  })

  it('write an IPv6 address in brackets', () => {
    const text = printed(first, { host: '::1', port: 7, tls: false })
    expect(text).toContain('curl -sS http://[::1]:7')
  })

  it('name the data folder where it is not the default one, as one word of the shell', () => {
    const text = printed({ ...first, data: "/a b/it's" })
    expect(text).toContain(`export SLUICE_DATA='/a b/it'\\''s'\n`)
    expect(printed(first)).not.toContain('SLUICE_DATA')
    const commands = text.match(/npx .*/g) ?? []
    for (const command of commands) expect(command).toContain(` --data '/a b/it'\\''s'`)
  })
})

describe('a later start', () => {
  it('says what became of the credentials of demo and how to get new ones', () => {
    const text = printed(later)
    expect(text).toContain('cannot be shown again')
    expect(text).toContain('npx --no -- sluice token rotate demo\n')
    expect(text).toContain('npx --no -- sluice indexer rotate demo\n')
    expect(printed({ ...later, hasDemo: false })).not.toContain('demo')
  })

  it('links to the pages for a browser', () => {
    for (const start of [first, later]) {
      expect(printed(start)).toContain('http://127.0.0.1:1/live\n')
      expect(printed(start)).toContain('http://127.0.0.1:1/play\n')
      expect(printed({ ...start, hasPage: false })).not.toContain('/live')
    }
  })
})
