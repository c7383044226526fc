// Usage records over HTTP: to a receiver that fails, lies, hangs and restarts, and from a process
// that is killed between counting, sending and the confirmation.
import { createHmac } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Push, receiverOf, usageQueue } from '../../src/customers/push/push.ts'
import { Quota } from '../../src/customers/quota/quota.ts'
import { unlimitedPlan } from '../../src/customers/subscriptions/plans.ts'
import { openStore, type Store } from '../../src/customers/subscriptions/store.ts'
import type { Subscription } from '../../src/customers/subscriptions/subscription.ts'
import type { UsageDay } from '../../src/customers/subscriptions/usage.ts'
import { acknowledged, killParts, runPart } from '../testkit/registry-parts.ts'
import { until } from '../testkit/until.ts'
import { UsageBill } from '../testkit/usage-bill.ts'

const secret = 'a secret for the test'
type Answer = (response: ServerResponse) => void
const well: Answer = (response) => void response.writeHead(204).end()

/** Takes records before it answers, so that an answer may be lost. */
class Receiver {
  readonly bill = new UsageBill()
  answer: Answer = well
  requests = 0
  badSignatures = 0
  paths = new Set<string>()
  port = 0
  #server: Server | null = null

  async listen(): Promise<void> {
    const server = createServer((request, response) => void this.#take(request, response))
    await new Promise<void>((done) => server.listen(this.port, '127.0.0.1', done))
    this.port = (server.address() as AddressInfo).port
    this.#server = server
  }

  async close(): Promise<void> {
    const closed = new Promise((done) => this.#server?.close(done))
    this.#server?.closeAllConnections()
    await closed
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = ''
    for await (const chunk of request) body += String(chunk)
    this.requests++
    this.paths.add(request.url ?? '')
    const signed = `${request.headers['sluice-timestamp']}.${body}`
    const mac = createHmac('sha256', secret).update(signed).digest('hex')
    if (request.headers['sluice-signature'] !== `sha256=${mac}`) this.badSignatures++
    if (request.headers['content-type'] !== 'application/x-ndjson') this.badSignatures++
    this.bill.take(body)
    this.answer(response)
  }
}

let folder: string
let receiver: Receiver
let store: Store
let acme: Subscription

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-push-'))
  receiver = new Receiver()
  await receiver.listen()
  open()
  expect(store.add({ label: 'acme', products: ['bundle'] }, { who: 'test' }).ok).toBe(true)
  acme = store.find('acme')!
})

afterEach(async () => {
  killParts()
  await store.close()
  await receiver.close()
  rmSync(folder, { recursive: true, force: true })
})

function open(): void {
  store = openStore(folder, { clock: systemClock, pushRowsMax: 1_000 })
}

const callsOf = (days: readonly UsageDay[]) => days.reduce((sum, { calls }) => sum + calls, 0)
const url = () => `http://127.0.0.1:${receiver.port}/use?key=hidden`

describe('usage pushed to a receiver', () => {
  it('agrees with the registry to the credit, whatever the receiver does meanwhile', async () => {
    const clock = systemClock
    const plans = { standard: unlimitedPlan }
    const quota = new Quota({ plans, ledger: store, clock, log: silentLog })
    const section = { url: url(), secret, file: '', everyMs: 100, rowsMax: 1_000 }
    const queue = { what: 'usage', unpushed: usageQueue(store.unpushed) }
    const deps = { ...queue, ...receiverOf(section, clock), everyMs: 100, clock, log: silentLog }
    const push = new Push(deps)
    const use = async (calls: number) => {
      for (let count = 0; count < calls; count++) quota.budgetOf(acme).spend('getBlock')
      await quota.flush()
      await push.push()
    }
    const elsewhere = new Receiver()
    await elsewhere.listen()
    const status =
      (code: number, headers = {}) =>
      (response: ServerResponse) =>
        void response.writeHead(code, headers).end('no '.repeat(100_000))
    const trials: [Answer, RegExp | null][] = [
      [well, null],
      [status(503), /^http:\/\/127\.0\.0\.1:\d+ answered 503$/],
      [status(404), /answered 404/],
      [status(308, { location: `http://127.0.0.1:${elsewhere.port}/` }), /308: redirects/],
      [(response) => void response.destroy(), /ECONNRESET|SOCKET|other side closed/i],
      [well, null],
    ]
    for (const [answer, problem] of trials) {
      receiver.answer = answer
      await use(3)
      if (problem === null) expect(push.report().problem).toBeNull()
      else expect(push.report().problem).toMatch(problem)
      expect(push.report().problem ?? '').not.toContain('hidden')
    }
    await receiver.close()
    await use(5)
    expect(push.report().problem).toMatch('ECONNREFUSED')
    await receiver.listen()
    await use(5)
    // One that never answers delays the end of the process by its bound, and nothing is lost.
    receiver.answer = () => {}
    void use(7)
    const { requests } = receiver
    await until(() => receiver.requests > requests, 'the request')
    await push.stop()
    receiver.answer = well
    const next = new Push(deps)
    await next.push()
    const usage = store.usage('acme')!
    expect(receiver.bill.days(acme.id)).toEqual(usage.days)
    expect(callsOf(usage.days)).toBe(3 * trials.length + 5 + 5 + 7)
    expect(receiver.bill.credits(acme.id, usage.window.from)).toBe(usage.window.credits)
    expect(receiver.badSignatures).toBe(0)
    expect(receiver.bill.changed).toBe(0)
    expect([...receiver.paths]).toEqual(['/use?key=hidden'])
    expect(elsewhere.requests).toBe(0)
    await next.stop()
    await elsewhere.close()
  })

  it('is billed exactly once over kill -9 at any moment', async () => {
    await store.close()
    let counted = 0
    for (let round = 0; round < 4; round++) {
      const part = runPart('push', folder, 'acme', url())
      const killAfter = 20 + Math.floor(Math.random() * 200)
      // Some answers are lost, and what they confirm is sent again.
      receiver.answer = (response) =>
        Math.random() < 0.2 ? void response.destroy() : well(response)
      await until(() => acknowledged(part) >= killAfter || part.exited(), `${killAfter} deltas`)
      part.child.kill('SIGKILL')
      await until(() => part.exited(), 'the end of the process')
      expect(part.errors()).toBe('')
      counted += acknowledged(part)
    }
    receiver.answer = well
    open()
    const queue = { what: 'usage', unpushed: usageQueue(store.unpushed) }
    const section = { url: url(), secret, file: '', everyMs: 100, rowsMax: 1_000 }
    const receiving = receiverOf(section, systemClock)
    const common = { everyMs: 100, clock: systemClock, log: silentLog }
    const push = new Push({ ...queue, ...receiving, ...common })
    await push.push()
    await push.stop()
    const { days } = store.usage('acme')!
    // A delta is counted before it is acknowledged: each kill may leave one more.
    expect(callsOf(days)).toBeGreaterThanOrEqual(counted)
    expect(callsOf(days)).toBeLessThanOrEqual(counted + 4)
    expect(receiver.bill.days(acme.id)).toEqual(days)
    expect(receiver.bill.changed).toBe(0)
  })
})
