// Records of a later version, beside which this one makes changes: what it does not know is kept.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'lmdb'
import { Packr } from 'msgpackr'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Outcome } from '../../../../src/base/errors.ts'
import { nextEntry, recordDigest } from '../../../../src/customers/subscriptions/audit.ts'
import { openStore, type Store } from '../../../../src/customers/subscriptions/store.ts'
import type { Registered } from '../../../../src/customers/subscriptions/subscription.ts'
import { addToDay } from '../../../../src/customers/subscriptions/usage.ts'
import { HandClock } from '../../../testkit/fake-execution.ts'

const by = { who: 'olga' }
const clock = new HandClock()
const destinationRules = { allowPrivate: true, own: [], interfaces: [] }
const known = { plans: ['standard', 'unlimited'], upstreams: ['alpha'], destinationRules }
let folder: string
let path: string
let store: Store

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-later-'))
  path = join(folder, 'registry')
  store = openStore(path, { clock, known })
})

afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true })
})

function value<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(outcome.refusal.message)
  return outcome.value
}

/** Stores the record of a later version in place of that of a new subscription. */
function later(make: (record: Registered) => object): string {
  const products = ['bundle', 'indexer', 'shredstream']
  const request = { label: 'acme', products, destination: '127.0.0.1:20999' }
  const { id } = value(store.add(request, by)).subscription
  const before = store.registered(id)!
  const record = make(before) as Registered
  const entry = nextEntry(store.head(), {
    at: new Date(clock.nowMs()).toISOString(),
    who: 'later',
    what: 'subscription.colour',
    subject: id,
    before: recordDigest(before),
    after: recordDigest(record),
    reason: '',
  })
  expect(store.follow([{ entry, record }])).toBeNull()
  return id
}

describe('a record of a later version', () => {
  it('keeps members that are new here through every change', () => {
    const extra = { colour: 'green', nested: { depth: [1, { two: 2 }] } }
    const id = later((record) => ({
      ...record,
      ...extra,
      subscription: {
        ...record.subscription,
        ...extra,
        products: [...record.subscription.products, 'decoded'],
        destination: { ...record.subscription.destination, ...extra },
      },
    }))
    const changes: readonly (() => Outcome<unknown>)[] = [
      () => store.set(id, { label: 'acme2' }, by),
      () => store.set(id, { plan: 'unlimited', until: '2030-01-01' }, by),
      () => store.set(id, { cidrs: ['10.0.0.0/8'], until: '' }, by),
      () => store.failDestination(id, by),
      () => store.confirmDestination(id, by),
      () => store.setDestination(id, '127.0.0.1:21000', by),
      () => store.pauseDestination(id, by),
      () => store.resumeDestination(id, by),
      () => store.setDestination(id, '127.0.0.1:20999', by),
      () => store.rotate(id, { graceMs: 1_000 }, by),
      () => store.rotateIndexer(id, by),
      () => store.addNote(id, { kind: 'other', text: 'a note' }, by),
      () => store.suspend(id, by),
      () => store.resume(id, by),
    ]
    for (const change of changes) {
      value(change())
      const record = store.registered(id)!
      expect(record).toMatchObject(extra)
      expect(record.subscription).toMatchObject(extra)
      expect(record.subscription.destination).toMatchObject(extra)
      expect(record.subscription.products).toContain('decoded')
    }
    value(store.end(id, by))
    expect(store.registered(id)).toMatchObject({ ...extra, subscription: extra })
    expect(store.verifyAudit()).toMatchObject({ ok: true })
  })

  it('keeps what a product that is new here uses, and an end that is written otherwise', () => {
    const kept = { products: ['decoded'], upstream: 'alpha', until: 'the end of spring' }
    const id = later((record) => ({
      ...record,
      subscription: { ...record.subscription, ...kept },
    }))
    const { passwordDigest, subscription } = store.registered(id)!
    value(store.set(id, { plan: 'unlimited' }, by))
    const { destination } = subscription
    expect(store.registered(id)).toMatchObject({
      passwordDigest,
      subscription: { ...kept, destination, plan: 'unlimited' },
    })
    // Named products replace all, and with them what they used.
    value(store.set(id, { products: ['bundle'] }, by))
    expect(store.registered(id)).toMatchObject({
      passwordDigest: null,
      subscription: { products: ['bundle'], upstream: null, destination: null },
    })
  })
})

it('counts of a day that are new here are kept', () => {
  const counts = { credits: 1, calls: 1, refused: 0, notifications: 0, bytes: 10 }
  const stored = { ...counts, tips: 7 }
  expect(addToDay(stored, counts)).toEqual({ ...stored, credits: 2, calls: 2, bytes: 20 })
})

it('refuses a registry of a later format in one sentence with both numbers', async () => {
  await store.close()
  const encoder = new Packr({ useRecords: false })
  const root = open({ path, noSubdir: false, maxDbs: 8, ...({ encoder } as object) })
  const marks = root.openDB<number, string>('marks', { encoder } as object)
  expect(marks.get('format')).toBe(1)
  await marks.put('format', 2)
  await root.close()
  expect(() => openStore(path, { clock, known })).toThrow(
    `the registry in ${path} has format 2, written by a later release; this release reads up to ` +
      'format 1: use a release that is at least as new',
  )
})
