// A registry that follows a cluster whose rows anybody may have written.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import type { RegistryEntry } from '../../../../src/customers/cluster/ports.ts'
import { RegistryFollower } from '../../../../src/customers/cluster/shared-registry.ts'
import {
  type AuditHead,
  nextEntry,
  recordDigest,
} from '../../../../src/customers/subscriptions/audit.ts'
import { openStore, type Store } from '../../../../src/customers/subscriptions/store.ts'
import type { Registered } from '../../../../src/customers/subscriptions/subscription.ts'
import { planChange } from '../../../../src/customers/subscriptions/verbs.ts'
import { HandClock } from '../../../testkit/fake-execution.ts'

const clock = new HandClock()
const by = { who: 'test' }
let folder: string
let cluster: Store
let replica: Store
let follower: RegistryFollower
let entries: RegistryEntry[]
let head: AuditHead | null
/** Numbers of changes at which others were told. */
const told: number[] = []

const lines: string[] = []
const log = { ...silentLog, error: (text: string) => void lines.push(text) }

beforeEach(() => {
  lines.length = 0
  entries = []
  head = null
  folder = mkdtempSync(join(tmpdir(), 'sluice-follower-'))
  cluster = openStore(join(folder, 'cluster'), { clock })
  replica = openStore(join(folder, 'replica'), { clock })
  const news = {
    head: async () => head ?? entries.at(-1)?.entry ?? replica.head(),
    after: async (seq: number, max: number) => entries.slice(seq, seq + max),
    onNews: () => () => {},
    heal: async () => 0,
  }
  told.length = 0
  follower = new RegistryFollower({
    ...{ news, store: replica, clock, log: { ...log, area: () => log } },
    onFollowed: () => told.push(replica.head().seq),
  })
})

afterEach(async () => {
  await follower.stop()
  await Promise.all([cluster.close(), replica.close()])
  rmSync(folder, { recursive: true })
})

/** A subscription that the replica has. */
async function added(): Promise<Registered> {
  const outcome = cluster.add({ label: 'one', products: ['bundle'] }, by)
  if (!outcome.ok) throw new Error(outcome.refusal.message)
  const record = cluster.registered(outcome.value.subscription.id)!
  entries = [...cluster.audit()].map((entry) => ({ entry, record }))
  await follower.pull()
  expect(replica.find('one')?.state).toBe('active')
  return record
}

/** A rightly hashed change to any record. */
function put(subject: string, before: unknown, record: unknown): void {
  const last = entries.at(-1)!.entry
  const entry = nextEntry(last, {
    at: new Date(clock.nowMs()).toISOString(),
    who: 'test',
    what: 'subscription.set',
    subject,
    before: recordDigest(before),
    after: recordDigest(record),
    reason: '',
  })
  entries.push({ entry, record: record as Registered })
}

test('tells of a change that a command has stored in the same folder', async () => {
  await added()
  expect(told).toEqual([1])
  const good = entries.at(-1)!.record!
  put(good.subscription.id, good, edited(good, { note: 'by a command' }))
  expect(replica.follow(entries.slice(1))).toBeNull()
  await follower.pull()
  await follower.pull()
  expect(told).toEqual([1, 2])
})

test('a pull is over after one that began since, however many follow', async () => {
  const pulls: (() => void)[] = []
  let isHeld = true
  const news = {
    head: async () => {
      if (isHeld) await new Promise<void>((resolve) => pulls.push(resolve))
      return replica.head()
    },
    after: async () => [],
    onNews: () => () => {},
    heal: async () => 0,
  }
  const slow = new RegistryFollower({
    news,
    store: replica,
    clock,
    log: { ...log, area: () => log },
  })
  const ended: string[] = []
  const pull = (name: string) => slow.pull().then(() => void ended.push(name))
  const turn = () => new Promise(setImmediate)
  void pull('first')
  await turn()
  void pull('asked while the first runs')
  await turn()
  // As the poll does while PostgreSQL is slow: each pull is asked for before the last one ends.
  pulls[0]!()
  await turn()
  expect(ended).toEqual(['first'])
  void pull('asked while the second runs')
  pulls[1]!()
  await turn()
  expect(ended).toEqual(['first', 'asked while the first runs'])
  expect(pulls).toHaveLength(3)
  isHeld = false
  pulls[2]!()
  await slow.stop()
})

describe('a record that is none', () => {
  test.each<[string, (good: Registered) => unknown]>([
    ['empty', () => ({})],
    ['a subscription without a state', ({ subscription: { id } }) => ({ subscription: { id } })],
    ['a text', () => 'x'],
    ['a list', () => []],
    ['a digest that is none', (good) => ({ ...good, tokenDigest: 'x' })],
    ['a password that is none', (good) => ({ ...good, passwordDigest: 'ab' })],
    ['an end of grace that is none', (good) => ({ ...good, retiring: { digest: 1 } })],
    ['networks that are no list', (good) => edited(good, { cidrs: '10.0.0.0/8' })],
    ['no state', (good) => edited(good, { state: undefined })],
    ['a state that is empty', (good) => edited(good, { state: '' })],
    ['a time that is none', (good) => edited(good, { createdAt: 'yesterday' })],
    ["another subscription's", (good) => edited(good, { id: 'sub_other' })],
    ['a destination that is none', (good) => edited(good, { destination: { address: 1 } })],
  ])('is left out, counted and reported: %s', async (_, spoil) => {
    const good = await added()
    const { id } = good.subscription
    const bad = spoil(good)
    put(id, good, bad)
    await follower.pull()
    // The chain goes on, the subject keeps what was right, and the operator can find it.
    expect(follower.state).toBe('following')
    expect(replica.head().seq).toBe(2)
    expect(replica.registered(id)).toEqual(good)
    expect(follower.invalidRecords).toBe(1)
    expect(lines).toEqual(['a record of the cluster is invalid and left out'])
    expect(replica.verifyAudit()).toMatchObject({ ok: false })
    // The next right record is taken.
    const next = edited(good, { state: 'suspended' }) as Registered
    put(id, bad, next)
    await follower.pull()
    expect(replica.find('one')?.state).toBe('suspended')
    expect(follower.invalidRecords).toBe(1)
  })

  test('is refused as the basis of a change', () => {
    const change = {
      ref: 'one',
      what: 'subscription.suspend',
      by,
      step: () => {
        throw new Error('not asked')
      },
      finish: (subscription: unknown) => subscription,
    }
    for (const before of [{}, { subscription: { id: 'sub_1' } }]) {
      const found = { before: before as Registered, freshId: 'x', head: replica.head(), nowMs: 0 }
      expect(planChange(change, found)).toMatchObject({
        ok: false,
        refusal: { code: 'invalid-record' },
      })
    }
  })
})

describe('a record of a later version', () => {
  test('is taken: fields, products and states that are new here give no access', async () => {
    const good = await added()
    const later = { ...edited(good, { state: 'expired', until: '2027-01-01' }), more: 1 }
    put(good.subscription.id, good, later)
    await follower.pull()
    expect(replica.registered(good.subscription.id)).toEqual(later)
    expect(follower.invalidRecords).toBe(0)
  })
})

describe('an audit entry that is none', () => {
  test.each([null, 1, {}, { seq: 2 }])('is not followed: %j', async (entry) => {
    await added()
    head = { seq: 2, hash: 'f'.repeat(64) }
    entries.push({ entry: entry as never, record: null })
    await follower.pull()
    expect(follower.state).toBe('forked')
    expect(replica.head().seq).toBe(1)
  })
})

function edited(record: Registered, fields: object): object {
  return { ...record, subscription: { ...record.subscription, ...fields } }
}
