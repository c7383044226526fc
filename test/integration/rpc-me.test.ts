// GET /v1/me of the rpc endpoint: a customer's plan, usage, open calls and refusals.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { value } from '../../src/base/jsonrpc/build.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { declareRpcMeters } from '../../src/products/rpc/meters.ts'
import { Bundle, noRefill } from '../testkit/bundle.ts'
import { runHere } from '../testkit/run-here.ts'
import { until } from '../testkit/until.ts'

let bundle: Bundle
let url = ''
const waiting: (() => void)[] = []

beforeAll(async () => {
  bundle = new Bundle(
    {
      small: { creditsPerSecond: 1, burst: 5, creditsPer30Days: 1_000, callsInFlight: 1 },
    },
    noRefill,
  )
  const wait = () =>
    new Promise<never>((resolve) => waiting.push(() => resolve(value('') as never)))
  const { port } = await bundle.openRpc({ table: { wait } })
  url = `http://127.0.0.1:${port}`
})

afterAll(() => bundle.dispose())

interface Shown {
  readonly days: readonly object[]
  readonly open: Readonly<Record<string, number>>
  readonly refused: Readonly<Record<string, unknown>>
  readonly error: { readonly message: string }
}

async function me(token: string, headers: Record<string, string> = {}) {
  const answer = await fetch(`${url}/v1/me`, { headers: { 'x-token': token, ...headers } })
  return { status: answer.status, headers: answer.headers, json: (await answer.json()) as Shown }
}

function post(token: string, method: string) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method })
  const headers = { 'x-token': token, 'content-type': 'application/json' }
  return fetch(url, { method: 'POST', headers, body })
}

describe('GET /v1/me', () => {
  it('shows plan, limits, usage and end for one credit, to no cache and no other origin', async () => {
    const { token, subscription } = bundle.issue({ plan: 'small', until: '2099-12-31' })
    await post(token, 'getHealth')
    await bundle.quota.flush()
    const { status, headers, json } = await me(token, { origin: 'https://page.example' })
    expect(status).toBe(200)
    expect(headers.get('cache-control')).toBe('no-store')
    expect(headers.get('access-control-allow-origin')).toBeNull()
    expect(headers.get('ratelimit')).toMatch(/^"credits";r=3;/)
    expect(json).toMatchObject({
      ...{ id: subscription.id, products: ['bundle'], plan: 'small', until: '2099-12-31' },
      tokenLast4: token.slice(-4),
      limits: { creditsPerSecond: 1, creditsPer30Days: 1_000, callsInFlight: 1 },
      window: { from: subscription.createdAt, credits: 2, creditsLeft: 998 },
      last30Days: { credits: 1, calls: 1, refused: 0 },
      open: { calls: 0, connections: 0, streams: 0 },
      refused: { since: expect.stringMatching(/^\d{4}-/) },
    })
    expect(json.days).toHaveLength(1)
    expect(JSON.stringify(json)).not.toContain(token)
  })

  it('has null where there is no limit, and where usage cannot be read', async () => {
    const { token } = bundle.issue({ plan: 'unlimited' })
    const { port } = await bundle.openRpc({
      meters: declareRpcMeters(new Meters()),
      usageOf: () => Promise.reject(new Error('away')),
    })
    const answer = await fetch(`http://127.0.0.1:${port}/v1/me`, { headers: { 'x-token': token } })
    expect(answer.status).toBe(200)
    expect(await answer.json()).toMatchObject({
      limits: { creditsPerSecond: null, creditsPer30Days: null, connections: null },
      ...{ window: { creditsLeft: null }, last30Days: null, days: null },
    })
  })

  it('counts what is open and what was refused, by limit', async () => {
    const { token } = bundle.issue({ plan: 'small' })
    const waited = post(token, 'wait')
    await until(() => waiting.length === 1, 'a call in flight')
    expect((await post(token, 'getHealth')).status).toBe(429)
    const { json } = await me(token)
    expect(json.open.calls).toBe(1)
    expect(json.refused.calls).toBe(1)
    waiting[0]!()
    await waited
  })

  it('is 429 with its reason when the budget is spent, and counts that', async () => {
    const { token } = bundle.issue({ plan: 'small' })
    const answers = await Promise.all(Array.from({ length: 8 }, () => me(token)))
    const refused = answers.filter(({ status }) => status === 429)
    expect(refused.length).toBeGreaterThan(0)
    expect(refused[0]!.headers.get('retry-after')).toMatch(/^\d+$/)
    expect(refused[0]!.json.error.message).toMatch(/credits|rate/i)
  })

  it('is 401 for a dead or absent token, in two texts, and 405 for another verb', async () => {
    const unknown = await me('slu_unknown')
    const none = await fetch(`${url}/v1/me`)
    expect([unknown.status, none.status]).toEqual([401, 401])
    expect(unknown.json.error.message).toContain('not valid')
    expect(await none.text()).toContain('send a token')
    const { token } = bundle.issue()
    const posted = await fetch(`${url}/v1/me`, { method: 'POST', headers: { 'x-token': token } })
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS'])
  })
})

describe('sluice me', () => {
  it('prints it for a person and for a script, and what the endpoint refused', async () => {
    const { token, subscription } = bundle.issue({ plan: 'small' })
    const file = join(bundle.folder, 'token')
    writeFileSync(file, token)
    const shown = await runHere('me', '--url', url, '--token-file', file)
    expect([shown.code, shown.stderr]).toEqual([0, ''])
    expect(shown.stdout).toContain(subscription.id)
    expect(shown.stdout).toMatch(/credits: +1 of 1000\n/)
    expect(shown.stdout).toMatch(/\ncalls +0 +1\n/)
    const json = await runHere('me', '--url', url, '--token-file', file, '--json')
    expect(JSON.parse(json.stdout)).toMatchObject({ id: subscription.id, plan: 'small' })
    writeFileSync(file, 'slu_unknown')
    const refused = await runHere('me', '--url', url, '--token-file', file)
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('not valid')])
  })
})
