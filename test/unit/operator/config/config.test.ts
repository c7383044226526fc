import { describe, expect, test } from 'vitest'
import { isLoopback } from '../../../../src/base/cidr.ts'
import { initialOf } from '../../../../src/base/fields.ts'
import {
  type Config,
  checkConfig,
  configFields,
  enabledEndpoints,
  isAllEmbedded,
  knownOf,
  needsDevnode,
  sourcesOf,
  takesQueryToken,
  tpuUpstreamsOf,
} from '../../../../src/operator/config/config.ts'
import { pageOf } from '../../../../src/products/metrics/config.ts'

/** A configuration with these sections, and defaults for the others, which open no endpoint. */
function config(sections: Readonly<Record<string, unknown>>): Config {
  const entries = Object.entries(initialOf(configFields)).map(([name, initial]) => {
    const given = sections[name]
    if (typeof initial !== 'object' || Array.isArray(initial)) return [name, given ?? initial]
    const off = 'enabled' in initial ? { ...initial, enabled: false } : initial
    return [name, name === 'plans' ? {} : { ...off, ...(given as object | undefined) }]
  })
  return Object.fromEntries(entries)
}

const checked = (sections: Readonly<Record<string, unknown>>) =>
  checkConfig(config(sections), () => true)

const endpoint = (host: string, port: number, enabled = true) => ({ enabled, host, port })

describe('endpoints', () => {
  test('listening beyond loopback without TLS is refused unless allowPlaintext', () => {
    const open = { rpc: endpoint('0.0.0.0', 1) }
    expect(checked(open)).toEqual([expect.stringMatching('rpc.host 0.0.0.0 is not')])
    expect(checked({ ...open, allowPlaintext: true })).toEqual([])
    expect(checked({ ...open, tls: { cert: 'a', key: 'b' } })).toEqual([])
    expect(checked({ rpc: endpoint('0.0.0.0', 1, false) })).toEqual([])
    expect(checked({ shredstream: endpoint('0.0.0.0', 1) })).toEqual([])
    const operator = { operator: endpoint('0.0.0.0', 1), allowPlaintext: true }
    expect(checked(operator)).toEqual([expect.stringMatching(/^operator.host .* and tls.key$/)])
    expect(checked({ ...operator, tls: { cert: 'a', key: 'b' } })).toEqual([])
  })

  test('two endpoints cannot have one address, but any number may take a free port', () => {
    const clash = { rpc: endpoint('127.0.0.1', 9), grpc: endpoint('127.0.0.1', 9) }
    expect(checked(clash)).toEqual(['grpc.port 9 is taken by rpc: set another port'])
    const free = { rpc: endpoint('127.0.0.1', 0), grpc: endpoint('127.0.0.1', 0) }
    expect(checked(free)).toEqual([])
    expect(enabledEndpoints(config(free)).map(({ name }) => name)).toEqual(['rpc', 'grpc'])
    const udp = { rpc: endpoint('127.0.0.1', 9), shredstream: endpoint('127.0.0.1', 9) }
    expect(checked(udp)).toEqual([])
  })

  test('loopback is 127/8, ::1 and localhost', () => {
    for (const host of ['127.0.0.1', '127.9.9.9', '::1', 'localhost'])
      expect(isLoopback(host)).toBe(true)
    for (const host of ['0.0.0.0', '::', '10.0.0.1', '127.example.org', ''])
      expect(isLoopback(host)).toBe(false)
  })

  test('a token in the URL of a WebSocket is taken while nothing real can be reached', () => {
    const local = { rpc: endpoint('127.0.0.1', 1), websocket: { queryToken: 'auto' } }
    const takes = (sections: Readonly<Record<string, unknown>>) =>
      takesQueryToken(config({ ...local, trustedProxies: [], ...sections }))
    expect(takes({})).toBe(true)
    expect(takes({ rpc: endpoint('0.0.0.0', 1) })).toBe(false)
    expect(takes({ grpc: endpoint('10.0.0.1', 2, false) })).toBe(true)
    expect(takes({ trustedProxies: ['127.0.0.1/32'] })).toBe(false)
    expect(takes({ chain: { source: 'upstream' } })).toBe(false)
    expect(takes({ metrics: { source: 'ring' } })).toBe(false)
    expect(takes({ upstreams: { spare: {} } })).toBe(false)
    expect(takes({ websocket: { queryToken: false } })).toBe(false)
    expect(takes({ rpc: endpoint('0.0.0.0', 1), websocket: { queryToken: true } })).toBe(true)
  })

  test('the live page is full on loopback and a stream beyond, unless it is set', () => {
    expect(pageOf({ host: '127.0.0.1', page: 'auto' })).toBe('full')
    expect(pageOf({ host: '0.0.0.0', page: 'auto' })).toBe('stream')
    for (const page of ['full', 'stream', 'off'] as const)
      for (const host of ['127.0.0.1', '0.0.0.0']) expect(pageOf({ host, page })).toBe(page)
  })
})

describe('sources', () => {
  test('a recorded or live source of the metrics needs its file', () => {
    const metrics = { enabled: true, source: 'snapshot', path: '' }
    expect(checked({ metrics })).toEqual([
      'metrics.source is snapshot: set metrics.path to its file',
    ])
    expect(checked({ metrics: { ...metrics, path: 'x' } })).toEqual([])
  })

  test('an upstream of the TPU Sender is a real source and needs real tip accounts', () => {
    const tpu = { enabled: true, upstreams: ['http://127.0.0.1:1'], tipAccounts: [] }
    expect(isAllEmbedded(config({ tpu }))).toBe(false)
    expect(checked({ tpu })).toEqual([expect.stringContaining('set tpu.tipAccounts')])
    expect(checked({ tpu: { ...tpu, tipAccounts: ['x'] } })).toEqual([])
    const rpc = endpoint('127.0.0.1', 1)
    const mixed = config({
      tpu: { ...tpu, ...endpoint('127.0.0.1', 2), tipAccounts: ['x'] },
      rpc,
      chain: { source: 'embedded' },
      metrics: { source: 'embedded', ...endpoint('127.0.0.1', 3) },
    })
    expect(checkConfig(mixed, () => false)).toEqual([
      'tpu.upstreams is a real source and chain.source is not set: set chain.source, or rpc.enabled: false',
      'tpu.upstreams is a real source and metrics.source is not set: set metrics.source, or metrics.enabled: false',
    ])
    expect(checkConfig(mixed, () => true)).toEqual([])
  })

  test('are named, and one real source is enough not to be embedded', () => {
    const mixed = config({ metrics: { source: 'ring' }, chain: { source: 'embedded' } })
    expect([...sourcesOf(mixed)]).toEqual([
      ['chain.source', 'embedded'],
      ['metrics.source', 'ring'],
      ['shredstream.feed', 'embedded'],
    ])
    expect(isAllEmbedded(mixed)).toBe(false)
    expect(isAllEmbedded(config({ chain: { source: 'embedded' } }))).toBe(true)
    const known = (given: object) => knownOf({ ...initialOf(configFields), ...given })
    expect(known(mixed).destinationRules.allowPrivate).toBe(false)
    const told = config({ metrics: { source: 'ring' }, shredstream: { allowPrivate: true } })
    expect(known(told).destinationRules.allowPrivate).toBe(true)
    const sets = known({ plans: { a: {} }, upstreams: { main: {} } })
    expect(sets).toMatchObject({ plans: ['a'], upstreams: ['main'] })
  })
})

describe('upstreams', () => {
  const node = { rpc: 'http://127.0.0.1:1', ws: '', grpc: '' }
  const chain = { source: 'upstream' }

  test('chain.source upstream needs a default set with a node that has rpc', () => {
    const problem = expect.stringContaining('give upstreams.default.nodes at least one node')
    expect(checked({ chain })).toEqual([problem])
    expect(checked({ chain, upstreams: { default: { nodes: [] } } })).toEqual([problem])
    const streaming = { ...node, rpc: '', ws: 'ws://127.0.0.1:1' }
    expect(checked({ chain, upstreams: { default: { nodes: [streaming] } } })).toEqual([problem])
    expect(checked({ chain, upstreams: { default: { nodes: [node] } } })).toEqual([])
  })

  test('a set has a plain name, nodes, and nodes have addresses', () => {
    const nowhere = { rpc: '', ws: '', grpc: '' }
    const upstreams = { own: { nodes: [] }, 'a b': { nodes: [node] }, x: { nodes: [nowhere] } }
    expect(checked({ upstreams })).toEqual([
      'upstreams.own has no nodes: name one, or leave the set out',
      "upstreams.a b: a set's name is letters, digits, - and _, 32 at most",
      'upstreams.x.nodes.0 has no address: set rpc or grpc',
    ])
  })

  test('what the TPU Sender names is an address or a set, and is not repeated', () => {
    const tpu = { enabled: true, upstreams: ['http://127.0.0.1:1', 'own'], tipAccounts: ['x'] }
    expect(checked({ tpu })).toEqual([
      'tpu.upstreams.1 is neither an address nor a set of upstreams',
    ])
    expect(checked({ tpu, upstreams: { own: { nodes: [node] } } })).toEqual([])
  })

  test('the TPU Sender follows chain.source, and then needs real tip accounts', () => {
    const upstreams = { default: { nodes: [node] } }
    const tpu = { enabled: true, upstreams: [], tipAccounts: [] }
    expect(tpuUpstreamsOf(config({ chain, tpu }))).toEqual(['default'])
    expect(tpuUpstreamsOf(config({ tpu }))).toEqual(['default'])
    expect(checked({ chain, upstreams, tpu })).toEqual([
      'chain.source is upstream: set tpu.tipAccounts, or real tips are lost',
    ])
    expect(checked({ chain, upstreams, tpu: { ...tpu, tipAccounts: ['x'] } })).toEqual([])
  })

  test('beside them no embedded chain runs, and no shreds can be made of it', () => {
    const upstreams = { default: { nodes: [node] } }
    const shredstream = { ...endpoint('127.0.0.1', 1), feed: 'embedded' }
    const real = config({ chain, upstreams, shredstream, rpc: endpoint('127.0.0.1', 2) })
    expect(needsDevnode(real)).toBe(false)
    expect(needsDevnode(config({ chain: { source: 'embedded' }, rpc: endpoint('x', 1) }))).toBe(
      true,
    )
    expect(checkConfig(real, () => true)).toEqual([
      'shredstream.feed is embedded and chain.source is upstream: set it to udp',
    ])
    expect(checkConfig(real, () => false)).toEqual([
      'chain.source is a real source and shredstream.feed is not set: set shredstream.feed, or shredstream.enabled: false',
    ])
  })

  test('a dedicated set is a real source: chain.source must then be set', () => {
    const mixed = config({ chain: { source: 'embedded' }, upstreams: { own: { nodes: [node] } } })
    expect(isAllEmbedded(mixed)).toBe(false)
    const serving = config({
      chain: { source: 'embedded' },
      upstreams: { own: { nodes: [node] } },
      rpc: endpoint('127.0.0.1', 1),
    })
    expect(checkConfig(serving, () => false)).toEqual([
      'upstreams.own is a real source and chain.source is not set: set chain.source, or rpc.enabled: false',
    ])
    expect(checkConfig(serving, (key) => key === 'chain.source')).toEqual([])
  })

  test('the set default cannot be both the devnode and configured nodes', () => {
    const upstreams = { default: { nodes: [node] } }
    expect(checked({ chain: { source: 'embedded' }, upstreams })).toEqual([
      'upstreams.default is configured and chain.source is embedded: set chain.source: upstream, or give the set another name',
    ])
  })
})
