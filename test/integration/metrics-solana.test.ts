// Tests GET /v1/solana and the Solana page over a real endpoint: who may read them, how often the
// document is made, and that the page keeps the bounds of the first one.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Solana } from '../../src/client/frames.ts'
import { HandClock } from '../testkit/fake-execution.ts'
import { expectShape } from '../testkit/golden.ts'
import { openService, type Service } from '../testkit/metrics-service.ts'
import { rawGet } from '../testkit/raw-get.ts'
import { HandSolana } from '../testkit/solana-view.ts'
import { until } from '../testkit/until.ts'

const view = new HandSolana()
const clock = new HandClock()
let reads = 0
let service: Service
const solana = {
  sets: () => {
    reads++
    return view.sets()
  },
}

beforeAll(async () => {
  service = await openService({ clock, deps: { solana } })
})
afterAll(() => service.running.stop())

const get = (headers: Record<string, string> = {}) => rawGet(`${service.origin}/v1/solana`, headers)

describe('GET /v1/solana', () => {
  test('is made at most once a second, for all readers', async () => {
    clock.advance(5_000)
    const before = reads
    const [first, ...others] = await Promise.all(Array.from({ length: 20 }, () => get()))
    expect(reads - before).toBe(1)
    for (const other of others) expect(other.body.equals(first!.body)).toBe(true)
    clock.advance(900)
    expect((await get()).body.equals(first!.body)).toBe(true)
    clock.advance(100)
    view.add()
    const next = JSON.parse((await get()).body.toString()) as Solana
    expect(next.sets[0]?.stream?.confirmed).toBe(view.newest)
    expect(reads - before).toBe(2)
  })

  test('has its shape, no CORS, and a compressed form', async () => {
    const plain = await get()
    expectShape('metrics/solana', JSON.parse(plain.body.toString()))
    expect(plain.headers['content-type']).toBe('application/json')
    expect(plain.headers['cache-control']).toBe('no-store')
    expect(plain.headers['access-control-allow-origin']).toBeUndefined()
    const zipped = await get({ 'accept-encoding': 'gzip' })
    expect(zipped.headers['content-encoding']).toBe('gzip')
    expect(zipped.body.length).toBeLessThan(plain.body.length)
  })

  test('wants the token where REST does', async () => {
    const locked = await openService({ section: { auth: 'token' } })
    expect((await rawGet(`${locked.origin}/v1/solana`)).status).toBe(401)
    expect((await rawGet(`${locked.origin}/live/solana`)).status).toBe(200)
    await locked.running.stop()
  })

  test('stays open while execution events are missing', async () => {
    const { status } = await rawGet(`${service.origin}/v1/status`)
    expect(status).toBe(200)
    clock.advance(31_000)
    await until(async () => {
      clock.advance(500)
      return (await rawGet(`${service.origin}/v1/status`)).status === 503
    }, 'REST to close')
    expect((await get()).status).toBe(200)
  })

  test.each(['stream', 'off'] as const)('shows the chain alone with page: %s', async (page) => {
    const customers = await openService({ section: { page }, deps: { solana } })
    const { body } = await rawGet(`${customers.origin}/v1/solana`)
    expect(Object.keys(JSON.parse(body.toString()))).toEqual(['at_ms', 'sets'])
    expect(body.toString()).not.toContain('default/')
    const html = await rawGet(`${customers.origin}/live/solana`)
    expect(html.status).toBe(page === 'off' ? 404 : 200)
    await customers.running.stop()
  })
})

describe('GET /live/solana', () => {
  test('is a page of three files, at most 45 kB in brotli, with the policy of the first', async () => {
    const page = await rawGet(`${service.origin}/live/solana`)
    const paths = [...page.body.toString().matchAll(/"(\/live\/app-\w+\.(?:js|css))"/g)]
    const files = ['/live/solana', ...paths.map(([, path]) => path!)]
    expect(files).toHaveLength(3)
    const coding = { 'accept-encoding': 'br' }
    const answers = await Promise.all(files.map((path) => rawGet(service.origin + path, coding)))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    const bytes = answers.reduce((sum, { body }) => sum + body.length, 0)
    expect(bytes).toBeLessThanOrEqual(45_000)
    const first = await rawGet(`${service.origin}/live`)
    const policy = 'content-security-policy'
    expect(page.headers[policy]).toBe(first.headers[policy])
  })

  test('and the first page link to each other, and say which is open', async () => {
    for (const [path, open] of [
      ['/live', 'Execution'],
      ['/live/solana', 'Solana'],
    ] as const) {
      const text = (await rawGet(service.origin + path)).body.toString()
      expect(text).toContain('href="/live/solana"')
      expect(text).toContain('href="/live"')
      expect(/aria-current="page">(\w+)</.exec(text)?.[1]).toBe(open)
    }
  })
})
