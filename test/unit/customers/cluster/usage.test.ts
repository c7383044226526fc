// The usage of a gateway on its way to a cluster that is away, while the gateway ends and starts.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Fault } from '../../../../src/base/errors.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { SharedUsage } from '../../../../src/customers/cluster/usage.ts'
import { openStore, type Store } from '../../../../src/customers/subscriptions/store.ts'
import type { UsageBatch, WindowTotal } from '../../../../src/customers/subscriptions/usage.ts'
import { HandClock } from '../../../testkit/fake-execution.ts'
import { until } from '../../../testkit/until.ts'

/** As `use_credits`: a number counts once per session. */
class Cluster {
  state: 'here' | 'away' | 'silent' | 'deaf' = 'here'
  readonly numbers = new Map<string, number>()
  readonly sums = new Map<string, number>()
  calls = 0

  async use({ session, number, rows }: UsageBatch): Promise<WindowTotal[]> {
    if (this.state === 'away') throw new Fault('cluster', 'away', { retryable: true })
    if (this.state === 'silent') return new Promise(() => {})
    if (number > (this.numbers.get(session) ?? 0)) {
      this.numbers.set(session, number)
      for (const { id, window, credits, calls } of rows) {
        this.calls += calls
        this.sums.set(`${id} ${window}`, (this.sums.get(`${id} ${window}`) ?? 0) + credits)
      }
    }
    // It has counted, and its answer is lost.
    if (this.state === 'deaf') return new Promise(() => {})
    return rows.map(({ id, window }) => ({
      id,
      window,
      credits: this.sums.get(`${id} ${window}`)!,
    }))
  }
}

const clock = new HandClock()
let folder: string
let cluster: Cluster
let store: Store
let usage: SharedUsage
let starts = 0

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-usage-'))
  cluster = new Cluster()
  start()
})

afterEach(async () => {
  await usage.stop()
  await store.close()
  rmSync(folder, { recursive: true })
})

function start(): void {
  store = openStore(join(folder, 'registry'), { clock })
  usage = new SharedUsage({
    usage: cluster,
    store,
    session: `g/${++starts}`,
    clock,
    log: silentLog,
  })
}

/** The process ends without a word; the cluster has not answered it. */
async function crash(): Promise<void> {
  await store.close()
  start()
}

const use = (id: string, credits: number, window = 0) =>
  usage.addUsage([{ id, window, credits, calls: 1, refused: 0, notifications: 0, bytes: 10 }])
const confirmed = () => until(() => usage.unconfirmed() === 0, 'the usage')

test('usage while PostgreSQL is away survives crashes and is counted once', async () => {
  cluster.state = 'silent'
  for (const credits of [1, 2, 3]) await use('a', credits)
  await use('b', 10)
  await crash()
  await use('a', 4)
  await crash()
  // It counts here, too: a customer does not get its credits back by our restart.
  expect(usage.openWindow('a').credits).toBe(10)
  expect(usage.openWindow('b').credits).toBe(10)
  cluster.state = 'here'
  await usage.stop()
  await crash()
  await confirmed()
  expect([...cluster.sums]).toEqual(
    expect.arrayContaining([
      ['a 0', 10],
      ['b 0', 10],
    ]),
  )
  expect(cluster.calls).toBe(5)
  expect(usage.openWindow('a').credits).toBe(10)
})

test('a batch whose answer was lost with its process counts once', async () => {
  cluster.state = 'deaf'
  await use('a', 5)
  await until(() => cluster.calls === 1, 'the batch')
  await use('a', 7)
  await crash()
  cluster.state = 'here'
  await use('a', 1)
  await confirmed()
  expect(cluster.sums.get('a 0')).toBe(13)
})

test('an orderly restart while PostgreSQL is away keeps it', async () => {
  cluster.state = 'away'
  await use('a', 5)
  await usage.stop()
  await store.close()
  start()
  expect(usage.unconfirmed()).toBe(1)
  cluster.state = 'here'
  await confirmed()
  expect(cluster.sums.get('a 0')).toBe(5)
})

test('totals include what is not sent yet, by window; one that is no number is not learned', async () => {
  const learned: WindowTotal[] = []
  usage.onTotals = (totals) => learned.push(...totals)
  cluster.sums.set('a 0', 100)
  await use('a', 1)
  await confirmed()
  await until(() => learned.length === 1, 'the total')
  expect(learned).toEqual([{ id: 'a', window: 0, credits: 101 }])
  cluster.sums.set('a 0', Number.POSITIVE_INFINITY)
  cluster.sums.set('b 0', Number.NaN)
  await use('a', 1)
  await use('b', 1)
  await confirmed()
  expect(learned).toHaveLength(1)
  expect(usage.openWindow('a').credits).toBe(101)
})

test('totals of two windows leave the newer one, and the one before, in any order', async () => {
  const added = store.add({ label: 'a', products: ['bundle'] }, { who: 'test' })
  if (!added.ok) throw new Error(added.refusal.message)
  const { id } = added.value.subscription
  const windowMs = 30 * 86_400_000
  const [earlier, later] = [3, 5].map((credits, window) => ({ id, window, credits }))
  for (const totals of [
    [later!, earlier!],
    [earlier!, later!],
  ]) {
    clock.advance(windowMs)
    await store.unsent.confirm(totals)
    expect(usage.openWindow(id)).toMatchObject({ window: 1, credits: 5 })
    // The clock is set back: what it entered too early counts in the window before.
    clock.advance(-windowMs)
    expect(usage.openWindow(id)).toMatchObject({ window: 0, credits: 8 })
  }
})

test('more rows than a batch has are all sent', async () => {
  const deltas = Array.from({ length: 2_500 }, (_, index) => ({
    id: `s${index}`,
    window: 0,
    credits: 1,
    calls: 1,
    refused: 0,
    notifications: 0,
    bytes: 0,
  }))
  await usage.addUsage(deltas)
  await confirmed()
  expect(cluster.calls).toBe(2_500)
})
