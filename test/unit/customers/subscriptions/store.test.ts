import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Outcome } from '../../../../src/base/errors.ts'
import { holdsToken } from '../../../../src/customers/subscriptions/issue.ts'
import { openStore, type Store } from '../../../../src/customers/subscriptions/store.ts'

const by = { who: 'olga', reason: 'asked for in chat' }
let folder: string
let store: Store
let nowMs: number

function value<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(outcome.refusal.message)
  return outcome.value
}

function code(outcome: Outcome<unknown>): string {
  return outcome.ok ? 'ok' : outcome.refusal.code
}

function openHere(): Store {
  return openStore(join(folder, 'registry'), {
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    known: {
      plans: ['standard', 'unlimited'],
      upstreams: ['alpha'],
      destinationRules: { allowPrivate: true, own: [], interfaces: [] },
    },
  })
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-store-'))
  nowMs = Date.parse('2026-01-01T00:00:00Z')
  store = openHere()
})

afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true })
})

describe('provisioning', () => {
  it('issues one token and the indexer credentials, and keeps neither', async () => {
    const made = value(store.add({ label: 'acme', products: ['indexer', 'bundle'] }, by))
    expect(holdsToken(made.token)).toBe(true)
    expect(made.subscription).toEqual({
      id: expect.stringMatching(/^sub_[2-9a-z]{8}$/),
      label: 'acme',
      products: ['bundle', 'indexer'],
      plan: 'standard',
      state: 'active',
      cidrs: [],
      tokenLast4: made.token.slice(-4),
      destination: null,
      upstream: null,
      note: '',
      createdAt: '2026-01-01T00:00:00.000Z',
      changedAt: '2026-01-01T00:00:00.000Z',
    })
    expect(made.indexer).toEqual({
      user: made.subscription.id,
      password: expect.stringMatching(/^[0-9A-Za-z]{32}$/),
    })
    await store.close()
    for (const name of readdirSync(join(folder, 'registry'))) {
      const bytes = readFileSync(join(folder, 'registry', name)).toString('latin1')
      expect(bytes.includes(made.token)).toBe(false)
      expect(bytes.includes(made.indexer!.password)).toBe(false)
    }
    store = openHere()
    expect(store.find('acme')).toEqual(made.subscription)
  })

  it.each([
    [{ label: 'a', products: [] }, 'no-product'],
    [{ label: 'a', products: ['shredstream-decoded'] }, 'not-a-product'],
    [{ label: 'a', products: ['tpu'] }, 'not-a-product'],
    [{ label: 'a', products: ['metrics'] }, 'not-a-product'],
    [{ label: 'a', products: ['rpc'] }, 'not-a-product'],
    [{ label: 'a', products: ['bundel'] }, 'unknown-product'],
    [{ label: 'a b', products: ['bundle'] }, 'bad-label'],
    [{ label: 'sub_22222222', products: ['bundle'] }, 'bad-label'],
    [{ label: `slu_${'x'.repeat(38)}`, products: ['bundle'] }, 'holds-secret'],
    [{ label: 'a', products: ['bundle'], plan: 'gold' }, 'unknown-plan'],
    [{ label: 'a', products: ['bundle'], cidrs: ['10.0.0.1/8'] }, 'bad-cidr'],
    [{ label: 'a', products: ['bundle'], destination: '127.0.0.1:9000' }, 'no-shredstream'],
    [{ label: 'a', products: ['bundle'], upstream: 'alpha' }, 'no-dedicated-node'],
    [{ label: 'a', products: ['dedicated-node'] }, 'no-upstream'],
    [{ label: 'a', products: ['dedicated-node'], upstream: 'beta' }, 'unknown-upstream'],
    [{ label: 'a', products: ['shredstream'], destination: 'localhost:9000' }, 'bad-destination'],
  ])('refuses %j with %s and changes nothing', (request, expected) => {
    expect(code(store.add(request, by))).toBe(expected)
    expect(store.version()).toBe(0)
    expect(store.list()).toEqual([])
  })

  it('answers "coming soon" for ShredStream Decoded', () => {
    const refused = store.add({ label: 'a', products: ['shredstream-decoded'] }, by)
    expect(refused).toMatchObject({ refusal: { message: expect.stringContaining('coming soon') } })
  })

  it('keeps labels unique among subscriptions that have not ended', () => {
    const first = value(store.add({ label: 'acme', products: ['bundle'] }, by)).subscription
    expect(code(store.add({ label: 'acme', products: ['bundle'] }, by))).toBe('label-taken')
    value(store.end('acme', by))
    const second = value(store.add({ label: 'acme', products: ['bundle'] }, by)).subscription
    expect(store.find('acme')?.id).toBe(second.id)
    expect(store.find(first.id)?.state).toBe('ended')
    expect(code(store.resume(first.id, by))).toBe('ended')
  })

  it('suspends, resumes and ends, and refuses other transitions', () => {
    value(store.add({ label: 'acme', products: ['bundle'] }, by))
    expect(code(store.resume('acme', by))).toBe('wrong-state')
    expect(value(store.suspend('acme', by)).state).toBe('suspended')
    expect(code(store.suspend('acme', by))).toBe('wrong-state')
    expect(value(store.resume('acme', by)).state).toBe('active')
    expect(value(store.end('acme', by)).state).toBe('ended')
    expect(code(store.suspend('nobody', by))).toBe('no-subscription')
  })

  it('changes the given fields and issues the indexer password once', () => {
    value(store.add({ label: 'acme', products: ['bundle'] }, by))
    nowMs += 5000
    const changed = value(
      store.set('acme', { products: ['bundle', 'indexer'], cidrs: ['10.1.0.0/16'] }, by),
    )
    expect(changed.subscription).toMatchObject({
      products: ['bundle', 'indexer'],
      cidrs: ['10.1.0.0/16'],
      changedAt: '2026-01-01T00:00:05.000Z',
    })
    expect(changed.indexer?.user).toBe(changed.subscription.id)
    expect(value(store.set('acme', { plan: 'unlimited' }, by)).indexer).toBeNull()
    expect(store.credentials('acme')?.hasIndexerPassword).toBe(true)
    value(store.set('acme', { products: ['bundle'] }, by))
    expect(store.credentials('acme')?.hasIndexerPassword).toBe(false)
    expect(code(store.rotateIndexer('acme', by))).toBe('no-indexer')
  })

  it('binds a dedicated node to its upstream set and releases it', () => {
    const request = { label: 'own', products: ['dedicated-node'], upstream: 'alpha' }
    expect(value(store.add(request, by)).subscription.upstream).toBe('alpha')
    expect(value(store.set('own', { products: ['bundle'] }, by)).subscription.upstream).toBeNull()
  })
})

describe('rotation', () => {
  it('keeps the old token for a grace period, which a second rotation ends', () => {
    const { subscription } = value(store.add({ label: 'acme', products: ['bundle'] }, by))
    const first = store.registered(subscription.id)!.tokenDigest
    value(store.rotate('acme', { graceMs: 3_600_000 }, by))
    expect(store.registered(subscription.id)!.retiring).toEqual({
      digest: first,
      untilMs: nowMs + 3_600_000,
    })
    expect(store.credentials('acme')?.graceUntil).toBe('2026-01-01T01:00:00.000Z')
    const { token } = value(store.rotate('acme', { graceMs: 0 }, by))
    expect(store.registered(subscription.id)!.retiring).toBeNull()
    expect(store.find('acme')?.tokenLast4).toBe(token.slice(-4))
    expect(code(store.rotate('acme', { graceMs: 31 * 86_400_000 }, by))).toBe('bad-grace')
  })
})

describe('destinations', () => {
  it('assigns an address to one subscription only, until it is free', () => {
    const a = { label: 'a', products: ['shredstream'], destination: '127.0.0.1:9000' }
    expect(value(store.add(a, by)).subscription.destination).toEqual({
      address: '127.0.0.1:9000',
      state: 'pending',
      standing: null,
    })
    value(store.add({ label: 'b', products: ['shredstream'] }, by))
    expect(code(store.setDestination('b', '127.0.0.1:9000', by))).toBe('destination-taken')
    value(store.confirmDestination('a', by))
    value(store.setDestination('a', '127.0.0.1:9001', by))
    // The current address still receives, so it is still taken.
    expect(code(store.setDestination('b', '127.0.0.1:9000', by))).toBe('destination-taken')
    value(store.confirmDestination('a', by))
    value(store.setDestination('b', '127.0.0.1:9000', by))
    value(store.clearDestination('a', by))
    expect(code(store.pauseDestination('a', by))).toBe('no-destination')
    value(store.setDestination('b', '127.0.0.1:9001', by))
  })
})

describe('a challenge', () => {
  it('decides only on the address that it was sent to', () => {
    const { id } = value(
      store.add({ label: 'a', products: ['shredstream'], destination: '127.0.0.1:9000' }, by),
    ).subscription
    value(store.setDestination('a', '127.0.0.1:9001', by))
    expect(code(store.confirmDestination(id, by, '127.0.0.1:9000'))).toBe('destination-state')
    expect(code(store.failDestination(id, by, '127.0.0.1:9000'))).toBe('destination-state')
    expect(store.find('a')?.destination?.state).toBe('pending')
    value(store.confirmDestination(id, by, '127.0.0.1:9001'))
    expect(store.find('a')?.destination?.state).toBe('active')
  })
})

describe('audit', () => {
  it('contains an entry per change, in a chain that verifies', () => {
    const { subscription } = value(store.add({ label: 'acme', products: ['bundle'] }, by))
    value(store.suspend('acme', { who: 'olga' }))
    value(store.addNote('acme', { kind: 'refund', text: 'half a month' }, { who: 'olga' }))
    const entries = [...store.audit()]
    expect(entries.map(({ what, who, reason }) => [what, who, reason])).toEqual([
      ['subscription.add', 'olga', 'asked for in chat'],
      ['subscription.suspend', 'olga', ''],
      ['note.refund', 'olga', 'half a month'],
    ])
    expect(store.verifyAudit()).toEqual({ ok: true, entries: 3, head: entries[2]!.hash })
    expect(store.find('acme')?.note).toBe('half a month')
    expect([...store.audit({ after: 1, subject: subscription.id })]).toHaveLength(2)
    expect([...store.audit({ subject: 'sub_other' })]).toHaveLength(0)
  })

  it('refuses reasons and notes that contain a secret', () => {
    const { token, indexer } = value(store.add({ label: 'acme', products: ['indexer'] }, by))
    expect(code(store.suspend('acme', { who: 'o', reason: `leaked ${token}` }))).toBe(
      'holds-secret',
    )
    const text = `his password ${indexer!.password}.`
    expect(code(store.addNote('acme', { kind: 'leak', text }, { who: 'o' }))).toBe('holds-secret')
    expect(code(store.suspend('acme', { who: 'o', reason: 'a\u0000b' }))).toBe('bad-text')
    const leaked = { who: 'o', reason: text }
    expect(code(store.rotateIndexer('acme', leaked))).toBe('holds-secret')
    expect(store.version()).toBe(1)
  })
})

describe('usage', () => {
  it('sums the credits of the current 30-day window and resets with the next', async () => {
    const { id } = value(store.add({ label: 'acme', products: ['bundle'] }, by)).subscription
    const delta = { id, window: 0, credits: 7, calls: 3, refused: 1, notifications: 2, bytes: 9 }
    await store.addUsage([delta])
    await store.addUsage([delta])
    nowMs += 86_400_000
    await store.addUsage([delta])
    expect(store.usage('acme')).toEqual({
      id,
      window: { from: '2026-01-01T00:00:00.000Z', to: '2026-01-31T00:00:00.000Z', credits: 21 },
      days: [
        { day: '2026-01-01', credits: 14, calls: 6, refused: 2, notifications: 4, bytes: 18 },
        { day: '2026-01-02', credits: 7, calls: 3, refused: 1, notifications: 2, bytes: 9 },
      ],
    })
    nowMs += 30 * 86_400_000
    expect(store.openWindow(id)).toMatchObject({ window: 1, credits: 0 })
    await store.addUsage([{ ...delta, window: 1 }])
    await store.addUsage([delta])
    expect(store.openWindow(id)).toMatchObject({ window: 1, credits: 7 })
    nowMs += 95 * 86_400_000
    await store.addUsage([{ ...delta, window: 4 }])
    nowMs += 86_400_000
    await store.addUsage([{ ...delta, window: 4 }])
    expect(store.usage('acme')?.days.map(({ day }) => day)).toEqual(['2026-05-07', '2026-05-08'])
  })

  it('keeps its days when the clock jumps far ahead and back, and drops them after 90', async () => {
    const { id } = value(store.add({ label: 'acme', products: ['bundle'] }, by)).subscription
    const delta = { id, window: 0, credits: 7, calls: 3, refused: 1, notifications: 2, bytes: 9 }
    const days = () => store.usage('acme')!.days.map(({ day }) => day)
    await store.addUsage([delta])
    nowMs += 400 * 86_400_000
    await store.addUsage([{ ...delta, window: 13 }])
    await store.addUsage([{ ...delta, window: 13 }])
    nowMs -= 399 * 86_400_000
    await store.addUsage([delta])
    expect(days()).toEqual(['2026-01-01', '2026-01-02', '2027-02-05'])
    nowMs += 90 * 86_400_000
    await store.addUsage([delta])
    expect(days()).toEqual(['2026-01-02', '2026-04-02', '2027-02-05'])
  })

  it.each([30, 75])('keeps counting when the clock jumps %i days and back', async (days) => {
    const { id } = value(store.add({ label: 'acme', products: ['bundle'] }, by)).subscription
    const use = async (credits: number) => {
      const { window } = store.openWindow(id)
      await store.addUsage([
        { id, window, credits, calls: 1, refused: 0, notifications: 0, bytes: 0 },
      ])
    }
    nowMs += 86_400_000
    await use(7)
    nowMs += days * 86_400_000
    await use(5)
    expect(store.openWindow(id).credits).toBe(5)
    nowMs -= days * 86_400_000
    // All of it counts in this window, also what the wrong clock counted.
    expect(store.openWindow(id)).toMatchObject({ window: 0, credits: 12 })
    await use(3)
    await use(1)
    expect(store.openWindow(id)).toMatchObject({ window: 0, credits: 16 })
    nowMs += 30 * 86_400_000
    expect(store.openWindow(id)).toMatchObject({ window: 1, credits: 0 })
  })

  it('never reserves a number twice', async () => {
    expect(store.reserveSeq('metrics', 1000)).toBe(1)
    expect(store.reserveSeq('metrics', 10)).toBe(1001)
    expect(store.reserveSeq('other', 10)).toBe(1)
    await store.close()
    store = openHere()
    expect(store.reserveSeq('metrics', 10)).toBe(1011)
  })

  it('returns which subscriptions changed since a version', () => {
    const a = value(store.add({ label: 'a', products: ['bundle'] }, by)).subscription.id
    const b = value(store.add({ label: 'b', products: ['bundle'] }, by)).subscription.id
    value(store.suspend('a', by))
    expect(store.version()).toBe(3)
    expect(store.changedSince(0, 10)).toEqual(new Set([a, b]))
    expect(store.changedSince(2, 10)).toEqual(new Set([a]))
    expect(store.changedSince(0, 2)).toBeNull()
  })
})
