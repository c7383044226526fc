import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import { Directory } from '../../../../src/customers/auth/directory.ts'
import { declareAuthMeters, Gate } from '../../../../src/customers/auth/gate.ts'
import { type Endpoint, endpoints } from '../../../../src/customers/auth/token.ts'
import { issueToken } from '../../../../src/customers/subscriptions/issue.ts'
import { openStore, type Store } from '../../../../src/customers/subscriptions/store.ts'
import type { AddRequest, Issued } from '../../../../src/customers/subscriptions/subscription.ts'

const by = { who: 'test' }
const here = '127.0.0.1'
let folder: string
let store: Store
let directory: Directory
let gate: Gate
let nowMs: number

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-gate-'))
  nowMs = Date.parse('2026-01-01T00:00:00Z')
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  store = openStore(folder, { clock })
  directory = new Directory(store, { clock, log: silentLog })
  gate = new Gate(directory, { clock })
})

afterEach(async () => {
  directory.stop()
  await store.close()
  rmSync(folder, { recursive: true })
})

function provision(request: Partial<AddRequest> = {}): Issued {
  const added = store.add({ label: 'acme', products: ['bundle'], ...request }, by)
  if (!added.ok) throw new Error(added.refusal.message)
  directory.refresh()
  return added.value
}

function opens(token: string, endpoint: Endpoint = 'rpc', address = here): boolean {
  return gate.admit(endpoint, { xToken: token }, address) !== null
}

describe('admission', () => {
  it('accepts one token on all three interfaces and returns its subscription', () => {
    const { token, subscription } = provision()
    for (const endpoint of ['rpc', 'websocket', 'grpc'] as const)
      expect(gate.admit(endpoint, { xToken: token }, here)?.subscription).toEqual(subscription)
  })

  it('admits nobody while the registry is too old, and counts no wrong credential', () => {
    const { token } = provision()
    let isExpired = true
    const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
    gate = new Gate(directory, { clock, isExpired: () => isExpired })
    expect(opens(token)).toBe(false)
    expect(gate.refused.rpc).toBe(0)
    isExpired = false
    expect(opens(token)).toBe(true)
  })

  it('refuses a missing, malformed or unknown token, and counts it by endpoint', async () => {
    const { token } = provision()
    expect(gate.admit('rpc', {}, here)).toBeNull()
    expect(opens('x')).toBe(false)
    expect(opens(`${token} `)).toBe(false)
    expect(opens(`${token}, ${token}`)).toBe(false)
    expect(opens(issueToken(), 'grpc')).toBe(false)
    expect(gate.refused).toEqual({
      rpc: 4,
      websocket: 0,
      grpc: 1,
      indexer: 0,
      tpu: 0,
      feeds: 0,
      metrics: 0,
    })
    const meters = new Meters()
    declareAuthMeters(meters, gate, directory)
    const { body } = await meters.render('text')
    expect(body).toContain('sluice_auth_refused_total{door="rpc"} 4')
    expect(body).not.toContain(token)
  })

  it.each<[AddRequest['products'], readonly Endpoint[]]>([
    [['bundle'], ['rpc', 'websocket', 'grpc', 'tpu', 'metrics']],
    [['shredstream'], ['tpu', 'metrics']],
    [['dedicated-node'], ['rpc', 'websocket', 'grpc', 'tpu', 'metrics']],
  ])('a subscription of %j opens %j and nothing else', (products, opened) => {
    const upstream = products.includes('dedicated-node') ? { upstream: 'own' } : {}
    const { token } = provision({ products, ...upstream })
    expect(endpoints.filter((endpoint) => opens(token, endpoint))).toEqual(opened)
  })

  it('accepts a token only from its networks', () => {
    const { token } = provision({ cidrs: ['10.0.0.0/8', '2001:db8::/32'] })
    expect(opens(token, 'rpc', '10.1.2.3')).toBe(true)
    expect(opens(token, 'rpc', '::ffff:10.1.2.3')).toBe(true)
    expect(opens(token, 'rpc', '2001:0db8:0000:0000:0000:0000:0000:0001')).toBe(true)
    expect(opens(token, 'rpc', here)).toBe(false)
    expect(opens(token, 'rpc', 'no address')).toBe(false)
  })

  it('refuses a suspended or ended subscription and accepts a resumed one', () => {
    const { token } = provision()
    store.suspend('acme', by)
    directory.refresh()
    expect(opens(token)).toBe(false)
    store.resume('acme', by)
    directory.refresh()
    expect(opens(token)).toBe(true)
    store.end('acme', by)
    directory.refresh()
    expect(opens(token)).toBe(false)
  })

  it('refuses the old token as soon as it is rotated, although it was in use', () => {
    const { token } = provision()
    expect(opens(token)).toBe(true)
    const rotated = store.rotate('acme', { graceMs: 0 }, by)
    directory.refresh()
    expect(opens(token)).toBe(false)
    expect(rotated.ok && opens(rotated.value.token)).toBe(true)
  })

  it('accepts the old token beside the new one until the grace period ends', () => {
    const { token, subscription } = provision()
    store.rotate('acme', { graceMs: 60_000 }, by)
    directory.refresh()
    expect(gate.admit('rpc', { xToken: token }, here)?.subscription.id).toBe(subscription.id)
    nowMs += 59_999
    expect(opens(token)).toBe(true)
    nowMs += 1
    expect(opens(token)).toBe(false)
  })

  it('ends the grace period at a second rotation', () => {
    const { token } = provision()
    const second = store.rotate('acme', { graceMs: 60_000 }, by)
    const third = store.rotate('acme', { graceMs: 60_000 }, by)
    directory.refresh()
    expect(opens(token)).toBe(false)
    expect(second.ok && opens(second.value.token)).toBe(true)
    expect(third.ok && opens(third.value.token)).toBe(true)
  })

  it('requires both the token and the credentials of one subscription on the indexer', () => {
    const a = provision({ products: ['indexer'] })
    const b = provision({ label: 'b', products: ['indexer'] })
    const asks = (xToken: string | undefined, basic: typeof a.indexer) =>
      gate.admit('indexer', { ...(xToken === undefined ? {} : { xToken }), basic }, here) !== null
    expect(asks(a.token, a.indexer)).toBe(true)
    expect(asks(a.token, b.indexer)).toBe(false)
    expect(asks(a.token, { user: a.indexer!.user, password: b.indexer!.password })).toBe(false)
    expect(asks(a.token, null)).toBe(false)
    expect(asks(undefined, a.indexer)).toBe(false)
    expect(opens(a.token, 'rpc')).toBe(false)
    const rotated = store.rotateIndexer('acme', by)
    directory.refresh()
    expect(asks(a.token, a.indexer)).toBe(false)
    expect(rotated.ok && asks(a.token, rotated.value.indexer)).toBe(true)
  })

  it('refuses an empty password for a subscription without one', () => {
    const { token, subscription } = provision()
    const basic = { user: subscription.id, password: '' }
    expect(gate.admit('indexer', { xToken: token, basic }, here)).toBeNull()
  })

  it('follows a thousand changes at once', () => {
    provision()
    for (let count = 0; count < 1001; count++)
      store.addNote('acme', { kind: 'other', text: String(count) }, by)
    const rotated = store.rotate('acme', { graceMs: 0 }, by)
    directory.refresh()
    expect(rotated.ok && opens(rotated.value.token)).toBe(true)
    expect(directory.version()).toBe(store.version())
  })
})

describe('a lease', () => {
  function leased(issued: Issued, endpoint: Endpoint = 'websocket', address = here) {
    const principal = gate.admit(endpoint, { xToken: issued.token }, address)!
    const state = { closed: 0 }
    const release = gate.lease(principal, endpoint, address, () => state.closed++)
    return { state, release }
  }

  it.each<[string, () => unknown]>([
    ['suspended', () => store.suspend('acme', by)],
    ['ended', () => store.end('acme', by)],
    ['rotated', () => store.rotate('acme', { graceMs: 0 }, by)],
    ['without the product', () => store.set('acme', { products: ['shredstream'] }, by)],
    ['outside its networks', () => store.set('acme', { cidrs: ['10.0.0.0/8'] }, by)],
    [
      'bound to another upstream set',
      () => store.set('acme', { products: ['bundle', 'dedicated-node'], upstream: 'own' }, by),
    ],
  ])('closes its connection once when the subscription is %s', (_name, change) => {
    const { state } = leased(provision())
    change()
    directory.refresh()
    directory.refresh()
    expect(state.closed).toBe(1)
    expect(gate.leaseCount()).toBe(0)
  })

  it('survives changes after which the token is still permitted', () => {
    const { state } = leased(provision())
    store.set('acme', { plan: 'unlimited', cidrs: ['127.0.0.0/8'] }, by)
    store.rotate('acme', { graceMs: 1000 }, by)
    directory.refresh()
    expect(state.closed).toBe(0)
    nowMs += 1000
    directory.refresh()
    expect(state.closed).toBe(1)
  })

  it('does not close a connection that released it', () => {
    const { state, release } = leased(provision())
    release()
    release()
    expect(gate.leaseCount()).toBe(0)
    store.suspend('acme', by)
    directory.refresh()
    expect(state.closed).toBe(0)
  })

  it('closes at once when the token was revoked between admission and lease', async () => {
    const issued = provision()
    const principal = gate.admit('grpc', { xToken: issued.token }, here)!
    store.suspend('acme', by)
    directory.refresh()
    await new Promise<void>((resolve) => gate.lease(principal, 'grpc', here, resolve))
    expect(gate.leaseCount()).toBe(0)
  })

  it('closes its connection although closing another one throws', () => {
    const issued = provision()
    const principal = gate.admit('grpc', { xToken: issued.token }, here)!
    gate.lease(principal, 'grpc', here, () => {
      throw new Error('broken')
    })
    const { state } = leased(issued)
    store.suspend('acme', by)
    directory.refresh()
    expect(state.closed).toBe(1)
  })
})
