import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Log, silentLog } from '../../../../src/base/telemetry/log.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import { Directory } from '../../../../src/customers/auth/directory.ts'
import { declareAuthMeters, Gate } from '../../../../src/customers/auth/gate.ts'
import type { AuditHead } from '../../../../src/customers/subscriptions/audit.ts'
import { openStore, type Store } from '../../../../src/customers/subscriptions/store.ts'
import type { Issued } from '../../../../src/customers/subscriptions/subscription.ts'

const by = { who: 'test' }
const hourMs = 3_600_000
let folder: string
let stores: Store[]
/** The registry that the directory finds in its folder. */
let store: Store
let wallMs: number
let monotonicMs: number
let errors: string[]
const clock = { nowMs: () => wallMs, monotonicMs: () => monotonicMs }

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-directory-'))
  wallMs = Date.parse('2026-01-01T00:00:00Z')
  monotonicMs = 5000
  stores = []
  errors = []
  store = openIn('registry')
})

afterEach(async () => {
  for (const each of stores) await each.close()
  rmSync(folder, { recursive: true })
})

function openIn(name: string): Store {
  const opened = openStore(join(folder, name), { clock })
  stores.push(opened)
  return opened
}

function follow(onHead: (head: AuditHead) => void = () => {}) {
  const log: Log = { ...silentLog, error: (msg) => errors.push(msg), area: () => log }
  const registry = {
    head: () => store.head(),
    holds: (head: AuditHead) => store.holds(head),
    changedSince: (version: number, max: number) => store.changedSince(version, max),
    registered: (id: string) => store.registered(id),
    allRegistered: () => store.allRegistered(),
  }
  const directory = new Directory(registry, { clock, log, onHead })
  const gate = new Gate(directory, { clock })
  const opens = (token: string) => gate.admit('rpc', { xToken: token }, '127.0.0.1') !== null
  return { directory, gate, opens }
}

function provision(label = 'acme'): Issued {
  const added = store.add({ label, products: ['bundle'] }, by)
  if (!added.ok) throw new Error(added.refusal.message)
  return added.value
}

function pass(ms: number): void {
  wallMs += ms
  monotonicMs += ms
}

describe('a registry restored from an older copy while the server runs', () => {
  it('does not revive a revoked token, whatever is changed in it afterwards', async () => {
    const { token } = provision()
    cpSync(join(folder, 'registry'), join(folder, 'older'), { recursive: true })
    const rotated = store.rotate('acme', { graceMs: 0 }, by)
    const { directory, gate, opens } = follow()
    expect(opens(token)).toBe(false)
    const newer = store
    store = openIn('older')
    directory.refresh()
    expect(opens(token)).toBe(false)
    expect(rotated.ok && opens(rotated.value.token)).toBe(true)
    // As many changes, and then more, than the registry in effect has.
    for (const label of ['b', 'c', 'd']) {
      provision(label)
      directory.refresh()
      expect(opens(token)).toBe(false)
    }
    expect(directory.isRolledBack).toBe(true)
    expect(errors).toEqual(['registry was replaced by an older copy and is not read'])
    const meters = new Meters()
    declareAuthMeters(meters, gate, directory)
    expect((await meters.render('text')).body).toContain('sluice_auth_registry_rolled_back 1')
    // The newer copy is restored, with a change made meanwhile.
    store = newer
    const { token: added } = provision('later')
    directory.refresh()
    expect(directory.isRolledBack).toBe(false)
    expect(opens(added)).toBe(true)
    expect(opens(token)).toBe(false)
  })

  it('is detected by the newest change that was in effect', () => {
    const heads: number[] = []
    provision()
    const { directory } = follow(({ seq }) => heads.push(seq))
    provision('b')
    directory.refresh()
    directory.refresh()
    expect(heads).toEqual([1, 2])
  })
})

describe('a grace period when the clock is set', () => {
  function inGrace() {
    const { token } = provision()
    store.rotate('acme', { graceMs: hourMs }, by)
    return token
  }

  it('is not longer when the clock is set back', () => {
    const token = inGrace()
    const { opens } = follow()
    pass(hourMs / 2)
    wallMs -= 24 * hourMs
    expect(opens(token)).toBe(true)
    pass(hourMs / 2)
    expect(opens(token)).toBe(false)
  })

  it('is not longer when the subscription changes after the clock was set back', () => {
    const token = inGrace()
    const { directory, opens } = follow()
    pass(hourMs / 2)
    wallMs -= 24 * hourMs
    store.suspend('acme', by)
    directory.refresh()
    store.resume('acme', by)
    directory.refresh()
    expect(opens(token)).toBe(true)
    pass(hourMs / 2)
    expect(opens(token)).toBe(false)
  })

  it('is not longer than it was at its beginning when the server starts after that', () => {
    const token = inGrace()
    wallMs -= 24 * hourMs
    const { opens } = follow()
    pass(hourMs - 1)
    expect(opens(token)).toBe(true)
    pass(1)
    expect(opens(token)).toBe(false)
  })

  it('ends when the machine slept through it, which the monotonic clock does not count', () => {
    const token = inGrace()
    const { opens } = follow()
    wallMs += hourMs
    expect(opens(token)).toBe(false)
  })
})

describe('a subscription with a last day', () => {
  const added = () => {
    const done = store.add({ label: 'rent', products: ['bundle'], until: '2026-01-02' }, by)
    if (!done.ok) throw new Error(done.refusal.message)
    return done.value
  }

  it('is refused from the end of that day on, and what it opened is closed', () => {
    const { subscription, token } = added()
    const { directory, gate, opens } = follow()
    let closed = 0
    const states: string[] = []
    directory.watch(({ state }) => states.push(state))
    const principal = gate.admit('rpc', { xToken: token }, '127.0.0.1')!
    gate.lease(principal, 'websocket', '127.0.0.1', () => closed++)
    pass(48 * hourMs - 1)
    directory.refresh()
    expect([opens(token), closed]).toEqual([true, 0])
    pass(1)
    // Refused at once, before the next poll.
    expect(opens(token)).toBe(false)
    directory.refresh()
    expect([opens(token), closed, states]).toEqual([false, 1, ['expired']])
    expect([...directory.subscriptions()].map(({ state }) => state)).toEqual(['expired'])
    expect(store.find(subscription.id)?.state).toBe('active')
  })

  it('works again once a clock that was ahead is set back, and not before its day is', () => {
    const { subscription, token } = added()
    const { directory, opens } = follow()
    const states: string[] = []
    directory.watch(({ state }) => states.push(state))
    pass(100 * hourMs)
    directory.refresh()
    wallMs -= 10 * hourMs
    directory.refresh()
    expect(opens(token)).toBe(false)
    wallMs -= 60 * hourMs
    directory.refresh()
    expect(opens(token)).toBe(true)
    expect(states).toEqual(['expired', 'expired', 'active'])
    // Of a subscription that changed meanwhile the newest state counts.
    pass(60 * hourMs)
    directory.refresh()
    store.suspend(subscription.id, by)
    directory.refresh()
    wallMs -= 60 * hourMs
    directory.refresh()
    expect(opens(token)).toBe(false)
    expect(states.at(-1)).toBe('suspended')
  })

  it('is refused by a server that starts afterwards, and works again with a later day', () => {
    const { subscription, token } = added()
    pass(48 * hourMs)
    const { directory, opens } = follow()
    expect(opens(token)).toBe(false)
    store.set(subscription.id, { until: '2026-01-03' }, by)
    directory.refresh()
    expect(opens(token)).toBe(true)
    store.set(subscription.id, { until: '' }, by)
    pass(100_000 * hourMs)
    directory.refresh()
    expect(opens(token)).toBe(true)
    expect(store.find(subscription.id)).not.toHaveProperty('until')
  })

  it('needs a day that exists', () => {
    for (const until of ['tomorrow', '2026-02-30', '2026-13-01', '2026-1-1', '2026-01-01T00:00Z'])
      expect(store.add({ label: 'bad', products: ['bundle'], until }, by)).toMatchObject({
        ok: false,
        refusal: { code: 'bad-until' },
      })
  })
})

it('a credential of the operator API opens no endpoint, and is no subscription', () => {
  const { directory, gate } = follow()
  const issued = store.addOperator('ci', by)
  const { token: customer } = provision()
  directory.refresh()
  const admits = (token: string) =>
    (['rpc', 'tpu', 'metrics'] as const).map(
      (endpoint) => gate.admit(endpoint, { xToken: token }, '127.0.0.1') !== null,
    )
  expect(issued.ok && admits(issued.value.token)).toEqual([false, false, false])
  expect(admits(customer)).toEqual([true, true, true])
  expect([...directory.subscriptions()].map(({ label }) => label)).toEqual(['acme'])
  expect(store.list().map(({ label }) => label)).toEqual(['acme'])
  expect(store.operators().map(({ id, label }) => [id.slice(0, 3), label])).toEqual([['op_', 'ci']])
})
