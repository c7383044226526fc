// Usage on its way to a billing system that fails, while the gateway ends and starts.
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { webhookProblem } from '../../../../src/base/transport/webhook.ts'
import { checkUsagePush } from '../../../../src/customers/push/config.ts'
import {
  appendLines,
  Push,
  type SentBatch,
  usageQueue,
} from '../../../../src/customers/push/push.ts'
import { openStore, type Store } from '../../../../src/customers/subscriptions/store.ts'
import { HandClock } from '../../../testkit/fake-execution.ts'
import { UsageBill } from '../../../testkit/usage-bill.ts'

let clock: HandClock
let folder: string
let bill: UsageBill
let store: Store
let push: Push
let state: 'up' | 'failing' | 'deaf'
let attempts: number

beforeEach(() => {
  clock = new HandClock()
  folder = mkdtempSync(join(tmpdir(), 'sluice-push-'))
  bill = new UsageBill()
  state = 'up'
  attempts = 0
  start()
})

afterEach(async () => {
  state = 'up'
  await push.stop()
  await store.close()
  rmSync(folder, { recursive: true })
})

async function send({ body }: SentBatch): Promise<void> {
  attempts++
  if (state === 'failing') throw new Error('503')
  bill.take(body)
  // It has the records, and its answer is lost.
  if (state === 'deaf') throw new Error('cut off')
}

function start(pushRowsMax = 100): void {
  store = openStore(join(folder, 'registry'), { clock, pushRowsMax })
  const queue = { what: 'usage', unpushed: usageQueue(store.unpushed) }
  push = new Push({ ...queue, send, to: 'x', everyMs: 5_000, clock, log: silentLog })
}

/** The process ends without a word. */
async function crash(pushRowsMax?: number): Promise<void> {
  await store.close()
  start(pushRowsMax)
}

const use = (id: string, credits: number, window = 0) =>
  store.addUsage([{ id, window, credits, calls: 1, refused: 0, notifications: 2, bytes: 10 }])

describe('usage that is pushed', () => {
  test('is the usage of the registry, to the credit, day by day', async () => {
    const added = store.add({ label: 'acme', products: ['bundle'] }, { who: 'test' })
    const { id } = (added as { value: { subscription: { id: string } } }).value.subscription
    for (let day = 0; day < 3; day++) {
      for (let count = 0; count < 4; count++) {
        await use(id, 10 + count)
        if (count % 2 === 0) await push.push()
      }
      clock.advance(86_400_000)
    }
    await push.push()
    const usage = store.usage(id)!
    expect(bill.days(id)).toEqual(usage.days)
    expect(bill.credits(id, usage.window.from)).toBe(usage.window.credits)
    expect(bill.duplicates).toBe(0)
    expect(push.report()).toMatchObject({ rows: 0, ageMs: 0, problem: null, lostRows: 0 })
  })

  test('in a cluster is what this gateway sent there', async () => {
    const delta = { window: 3, credits: 7, calls: 1, refused: 0, notifications: 0, bytes: 0 }
    await store.unsent.add([{ id: 'a', ...delta }])
    await store.unsent.add([{ id: 'a', ...delta }])
    await push.push()
    expect(bill.credits('a')).toBe(14)
    expect(store.unsent.credits('a', 3)).toBe(14)
  })

  test('while the receiver fails survives crashes and has one id per record', async () => {
    state = 'failing'
    await use('a', 1)
    await push.push()
    await use('a', 2)
    await crash()
    await use('b', 4)
    await push.push()
    await crash()
    state = 'up'
    await push.push()
    expect([bill.credits('a'), bill.credits('b')]).toEqual([3, 4])
    expect(bill.duplicates).toBe(0)
  })

  test('whose answer was lost is sent again with the same ids and bytes', async () => {
    state = 'deaf'
    await use('a', 5)
    await push.push()
    await use('a', 7)
    await crash()
    await push.push()
    state = 'up'
    await push.push()
    expect(bill.credits('a')).toBe(12)
    // Two attempts that were not confirmed, and the third.
    expect(bill.duplicates).toBe(2)
    expect(bill.changed).toBe(0)
  })

  test('waits in one row per subscription, window and day; beyond the bound it is counted', async () => {
    await store.close()
    start(2)
    state = 'failing'
    for (let count = 0; count < 50; count++) await use('a', 1)
    await use('b', 1)
    await use('c', 8)
    await use('c', 8)
    expect(push.report()).toMatchObject({ rows: 2, lostRows: 2, lostCredits: 16 })
    await crash(2)
    await use('a', 1)
    state = 'up'
    await push.push()
    expect([bill.credits('a'), bill.credits('b'), bill.credits('c')]).toEqual([51, 1, 0])
    // The loss stays known, and there is space again.
    await use('c', 3)
    await push.push()
    expect(bill.credits('c')).toBe(3)
    expect(push.report()).toMatchObject({ rows: 0, lostRows: 2 })
  })

  test('goes in requests of at most 1,000 records', async () => {
    await store.close()
    start(5_000)
    const counts = { credits: 1, calls: 1, refused: 0, notifications: 0, bytes: 0 }
    await store.addUsage(
      Array.from({ length: 2_500 }, (_, index) => ({ id: `s${index}`, window: 0, ...counts })),
    )
    await push.push()
    expect(attempts).toBe(3)
    expect(bill.records).toBe(2_500)
  })

  test('leaves a failing receiver alone for longer and longer, a minute at most', async () => {
    state = 'failing'
    await use('a', 1)
    let askedMs = 0
    const pauses: number[] = []
    for (let second = 0; second < 600; second++) {
      const before = attempts
      await push.tick()
      if (attempts > before) {
        pauses.push(second - askedMs)
        askedMs = second
      }
      clock.advance(1_000)
    }
    expect(Math.max(...pauses)).toBeLessThanOrEqual(61)
    expect(attempts).toBeLessThan(30)
    expect(push.report()).toMatchObject({ rows: 1, ageMs: 600_000, problem: '503' })
    expect(push.counts()).toEqual({ confirmed: 0, failures: attempts })
    state = 'up'
    clock.advance(60_000)
    await push.tick()
    expect(push.report()).toMatchObject({ rows: 0, ageMs: 0, problem: null })
  })

  test('is pushed at the end of the process, or stays on disk', async () => {
    await use('a', 1)
    await push.stop()
    expect(bill.credits('a')).toBe(1)
    await crash()
    state = 'failing'
    await use('a', 2)
    await push.stop()
    await crash()
    state = 'up'
    await push.push()
    expect(bill.credits('a')).toBe(3)
  })
})

test('lines are appended to a file of the owner, after what was cut off', async () => {
  const path = join(folder, 'usage.ndjson')
  await appendLines(path, '{"id":"1"}\n')
  await appendLines(path, '{"id":"2"}\n')
  expect(statSync(path).mode & 0o777).toBe(0o600)
  writeFileSync(path, '{"id":"3"', { flag: 'a' })
  await appendLines(path, '{"id":"3"}\n')
  expect(readFileSync(path, 'utf8')).toBe('{"id":"1"}\n{"id":"2"}\n{"id":"3"\n{"id":"3"}\n')
  await expect(appendLines(folder, 'x\n')).rejects.toThrow('EISDIR')
})

test('a receiver is reached by HTTPS unless it is on loopback, and requests are signed', () => {
  const push = { url: '', secret: '', file: '', everyMs: 5_000, rowsMax: 10 }
  expect(webhookProblem('https://billing.example/use?key=1')).toBeUndefined()
  expect(webhookProblem('http://127.0.0.1:8080/')).toBeUndefined()
  expect(webhookProblem('http://[::1]:8080/')).toBeUndefined()
  expect(webhookProblem('http://billing.example/')).toMatch('https')
  expect(webhookProblem('http://127.0.0.1.example/')).toMatch('https')
  expect(webhookProblem('ftp://127.0.0.1/')).toMatch('https')
  expect(webhookProblem('usage')).toMatch('https')
  expect(webhookProblem('https://user:word@billing.example/')).toMatch('password')
  expect(checkUsagePush(push)).toEqual([])
  expect(checkUsagePush({ ...push, url: 'https://a.example/' })).toHaveLength(1)
  expect(checkUsagePush({ ...push, url: 'https://a.example/', secret: 'x' })).toEqual([])
  expect(checkUsagePush({ ...push, url: 'https://a/', secret: 'x', file: 'f' })).toHaveLength(1)
})
