// Notices of quotas and ends: to a receiver that fails, redirects and loses its answers, and over
// restarts; what is due is sent at least once, under one id, and not again.
import { createHmac } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { dueNotices, Notices } from '../../src/customers/push/push.ts'
import { openStore, type Store } from '../../src/customers/subscriptions/store.ts'
import { FakeClock } from '../testkit/fake-senders.ts'

const secret = 'a secret for the test'
const dayMs = 86_400_000
const window = { window: 0, startsAtMs: 0, endsAtMs: 30 * dayMs }

interface Received {
  readonly id: string
  readonly type: string
  readonly [fact: string]: unknown
}

let folder: string
let server: Server
let received: Received[]
let badRequests = 0
let answer: (response: ServerResponse) => void
let store: Store
let clock: FakeClock
let notices: Notices
let credits: number
let limit: number
let limitReached: number

const well = (response: ServerResponse) => void response.writeHead(204).end()

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-notices-'))
  received = []
  badRequests = 0
  answer = well
  credits = 0
  limit = 1_000
  limitReached = 0
  server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += String(chunk)
    const notice = JSON.parse(body) as Received
    const { headers } = request
    const mac = createHmac('sha256', secret).update(`${headers['sluice-timestamp']}.${body}`)
    const isSigned = headers['sluice-signature'] === `sha256=${mac.digest('hex')}`
    if (!isSigned || headers['idempotency-key'] !== notice.id) badRequests++
    received.push(notice)
    answer(response)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  clock = new FakeClock()
  start()
})

afterEach(async () => {
  await stop()
  server.closeAllConnections()
  await new Promise((done) => server.close(done))
  rmSync(folder, { recursive: true, force: true })
})

function start(): void {
  store = openStore(folder, { clock })
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}/hook?key=hidden`
  notices = new Notices({
    section: { url, secret, quotaPercent: 80, endDays: 7 },
    table: store.notices,
    subscriptions: () => store.list(),
    useOf: () => ({ ...window, credits, limit, limitReached }),
    ...{ clock, log: silentLog },
  })
}

async function stop(): Promise<void> {
  await notices.stop()
  await store.close()
}

async function look(): Promise<string[]> {
  const before = received.length
  await notices.look()
  await notices.push.push()
  return received.slice(before).map(({ type, percent = '' }) => `${type}${String(percent)}`)
}

describe('notices', () => {
  it('are sent once for each reason, also over a restart', async () => {
    expect(store.add({ label: 'acme', products: ['bundle'] }, { who: 'test' }).ok).toBe(true)
    expect(await look()).toEqual([])
    credits = 799
    expect(await look()).toEqual([])
    credits = 800
    expect(await look()).toEqual(['quota80'])
    await stop()
    start()
    expect(await look()).toEqual([])
    credits = 1_001
    expect(await look()).toEqual(['quota100'])
    expect(await look()).toEqual([])
    const { id } = store.find('acme')!
    expect(received.at(-1)).toMatchObject({ subscription: id, label: 'acme', credits: 1_001 })
    expect(badRequests).toBe(0)
  })

  it('are sent again for another limit within the same 30 days', async () => {
    expect(store.add({ label: 'acme', products: ['bundle'] }, { who: 'test' }).ok).toBe(true)
    credits = 1_000
    expect(await look()).toEqual(['quota80', 'quota100'])
    limit = 2_000
    expect(await look()).toEqual([])
    credits = 2_000
    expect(await look()).toEqual(['quota80', 'quota100'])
    expect(new Set(received.map(({ id }) => id)).size).toBe(4)
    limit = 1_000
    expect(await look()).toEqual([])
  })

  it('are due once a call was refused, also with some credits left', async () => {
    expect(store.add({ label: 'acme', products: ['bundle'] }, { who: 'test' }).ok).toBe(true)
    credits = 998
    expect(await look()).toEqual(['quota80'])
    limitReached = 1_000
    expect(await look()).toEqual(['quota100'])
    expect(received.at(-1)).toMatchObject({ percent: 100, credits: 998, limit: 1_000 })
    // A larger plan has refused nothing.
    limit = 1_200
    expect(await look()).toEqual(['quota80'])
  })

  it('tell that a subscription ends soon, and that it has ended', async () => {
    // The last day: it ends with it.
    const until = new Date(clock.nowMs() + 9 * dayMs).toISOString().slice(0, 10)
    const added = store.add({ label: 'trial', products: ['bundle'], until }, { who: 'test' })
    expect(added.ok).toBe(true)
    expect(await look()).toEqual([])
    clock.ms += 4 * dayMs
    expect(await look()).toEqual(['ends-soon'])
    clock.ms += 3 * dayMs
    expect(await look()).toEqual([])
    clock.ms += 4 * dayMs
    expect(await look()).toEqual(['ended'])
    clock.ms += 200 * dayMs
    expect(await look()).toEqual([])
  })

  it('wait on disk for a receiver that fails, redirects or loses its answer', async () => {
    expect(store.add({ label: 'acme', products: ['bundle'] }, { who: 'test' }).ok).toBe(true)
    credits = 900
    const trials: [(response: ServerResponse) => void, RegExp][] = [
      [(response) => void response.writeHead(503).end(), /answered 503$/],
      [(response) => void response.writeHead(302, { location: '/' }).end(), /302: redirects/],
      [(response) => void response.destroy(), /ECONNRESET|SOCKET|other side closed/i],
    ]
    for (const [trial, problem] of trials) {
      answer = trial
      await look()
      expect(notices.push.report()).toMatchObject({ rows: 1 })
      expect(notices.push.report().problem).toMatch(problem)
      expect(notices.push.report().problem).not.toContain('hidden')
      await stop()
      start()
    }
    answer = well
    await look()
    expect(new Set(received.map(({ id }) => id)).size).toBe(1)
    expect(received.length).toBeGreaterThan(trials.length)
    expect(new Set(received.map((notice) => JSON.stringify(notice))).size).toBe(1)
    expect(notices.push.report()).toMatchObject({ rows: 0, problem: null })
  })

  it('are bounded: those that do not fit are due again', async () => {
    const due = Array.from({ length: 1_500 }, (_, number) => ({
      ...{ id: `n${number}`, type: 'quota' as const, subscription: 's', label: 'l' },
    }))
    await store.notices.add(due)
    expect(store.notices.count()).toBe(1_000)
    for (let next = store.notices.next(); next !== null; next = store.notices.next()) {
      await store.notices.sent(next.notice.id)
      if (store.notices.count() < 900) break
    }
    await store.notices.add(due)
    expect(store.notices.count()).toBe(1_000)
  })

  it('have no quota where there is no limit, and none of an end long ago', () => {
    const subscription = {
      ...{ id: 's', label: 'l', plan: 'p', until: '2026-01-01' },
    }
    const use = { ...window, credits: 10 ** 9, limit: 0, limitReached: 0 }
    const found = dueNotices(
      // Reason for the cast: what is read of it.
      subscription as Parameters<typeof dueNotices>[0],
      use,
      { quotaPercent: 80, endDays: 7 },
      Date.parse('2026-02-01'),
    )
    expect(found).toEqual([])
  })
})
