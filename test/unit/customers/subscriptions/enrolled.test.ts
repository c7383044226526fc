// Credentials of indexers: records of the registry that open the feeds of the index alone.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Directory } from '../../../../src/customers/auth/directory.ts'
import { Gate } from '../../../../src/customers/auth/gate.ts'
import { endpoints } from '../../../../src/customers/auth/token.ts'
import { digestOf } from '../../../../src/customers/subscriptions/issue.ts'
import { openStore, type Store } from '../../../../src/customers/subscriptions/store.ts'

const by = { who: 'test' }
let folder: string
let store: Store

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-enrolled-'))
  store = openStore(join(folder, 'registry'), { clock: systemClock })
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true })
})

function enroll(name: string, cidrs: string[] = []): { id: string; token: string } {
  const issued = store.enroll(name, cidrs, by)
  if (!issued.ok) throw new Error(issued.refusal.message)
  return { id: issued.value.subscription.id, token: issued.value.token }
}

function gateOf(): { gate: Gate; directory: Directory } {
  const directory = new Directory(store, { clock: systemClock, log: silentLog })
  return { gate: new Gate(directory, { clock: systemClock }), directory }
}

describe('the credential of an indexer', () => {
  it('opens the feeds and no other endpoint, from its networks', () => {
    const { token } = enroll('north', ['10.0.0.0/8'])
    const { gate } = gateOf()
    const opened = endpoints.filter((one) => gate.admit(one, { xToken: token }, '10.1.2.3'))
    expect(opened).toEqual(['feeds'])
    expect(gate.admit('feeds', { xToken: token }, '192.0.2.1')).toBeNull()
  })

  it('is the only one that opens the feeds', () => {
    const products = ['bundle', 'indexer', 'shredstream']
    const issued = store.add({ label: 'acme', products }, by)
    if (!issued.ok) throw new Error(issued.refusal.message)
    const { gate } = gateOf()
    expect(gate.admit('feeds', { xToken: issued.value.token }, '127.0.0.1')).toBeNull()
    expect(gate.refused.feeds).toBe(1)
  })

  it('is stored as a digest, audited, and in no list of customers', () => {
    const { id, token } = enroll('north')
    expect(store.registered(id)).toMatchObject({ tokenDigest: digestOf(token) })
    expect(JSON.stringify(store.registered(id))).not.toContain(token)
    expect(store.revoke('north', { who: 'eve', reason: 'leak' })).toMatchObject({ ok: true })
    expect([...store.audit()].map(({ what, subject }) => [what, subject])).toEqual([
      ['indexer.enroll', id],
      ['indexer.revoke', id],
    ])
    expect(store.verifyAudit()).toMatchObject({ ok: true, entries: 2 })
    expect(store.list()).toEqual([])
    expect(store.enrolled()).toMatchObject([{ id, label: 'north', state: 'ended' }])
  })

  it('ends what it opened when it is revoked, and frees its name', () => {
    const { token } = enroll('north')
    const { gate, directory } = gateOf()
    let ended = 0
    const principal = gate.admit('feeds', { xToken: token }, '127.0.0.1')!
    gate.lease(principal, 'feeds', '127.0.0.1', () => void ended++)
    store.revoke('north', by)
    directory.refresh()
    expect(ended).toBe(1)
    expect(gate.admit('feeds', { xToken: token }, '127.0.0.1')).toBeNull()
    expect(enroll('north').token).not.toBe(token)
  })

  it('cannot become a subscription, nor a subscription one', () => {
    enroll('north')
    const set = store.set('north', { products: ['bundle'] }, by)
    expect(set).toMatchObject({ ok: false, refusal: { code: 'enrolled' } })
    expect(store.set('north', { plan: 'unlimited' }, by).ok).toBe(false)
    expect(store.set('north', { cidrs: ['10.0.0.0/8'] }, by).ok).toBe(true)
    const sold = store.add({ label: 'acme', products: ['index-feeds'] }, by)
    expect(sold).toMatchObject({ ok: false, refusal: { code: 'unknown-product' } })
    store.add({ label: 'acme', products: ['bundle'] }, by)
    expect(store.revoke('acme', by)).toMatchObject({ refusal: { code: 'not-enrolled' } })
    expect(store.enroll('acme', [], by)).toMatchObject({ refusal: { code: 'label-taken' } })
    expect(store.enroll('no name', [], by)).toMatchObject({ refusal: { code: 'bad-label' } })
    expect(store.enroll('south', ['x'], by)).toMatchObject({ refusal: { code: 'bad-cidr' } })
  })
})
