// Tests `metrics.auth: token`: which paths want the token, and one-time tickets for browsers.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { ticketsPerSubscriptionMax } from '../../src/products/metrics/handshake-tickets.ts'
import { expectDescribed } from '../testkit/api-schemas.ts'
import { expectShape } from '../testkit/golden.ts'
import { Listener, openService, type Service } from '../testkit/metrics-service.ts'
import { until } from '../testkit/until.ts'

describe('metrics.auth: token', () => {
  test('requires a token everywhere but for health, meters and the documents', async () => {
    const admitted = { subscription: { id: 'a' }, digest: 'd' } as never
    const locked = await openService({
      section: { auth: 'token' },
      deps: {
        gate: {
          admit: (_, { xToken }) => (xToken === 'good' ? admitted : null),
          readmits: () => true,
          isExpired: () => false,
          lease: () => () => {},
        },
      },
    })
    const ask = (path: string, init?: RequestInit) => fetch(locked.origin + path, init)
    try {
      for (const path of ['/v1/tps', '/v1/status', '/v1/nothing']) {
        const response = await ask(path)
        const body = await response.json()
        expect([response.status, body]).toEqual([401, { error: 'unauthorized' }])
        expectDescribed('get', '/v1/tps', { status: 401, body })
      }
      expect((await ask('/', { method: 'POST', body: '{}' })).status).toBe(401)
      expect((await ask('/v1/tps', { headers: { 'x-token': 'good' } })).status).toBe(200)
      for (const path of ['/health', '/ready', '/metrics', '/openapi.json', '/asyncapi.json'])
        expect([path, (await ask(path)).status]).toEqual([path, 200])
    } finally {
      await locked.running.stop()
    }
  })
})

describe('a ticket', () => {
  const principal = (id: string) => ({ subscription: { id }, digest: id }) as never
  const lines: string[] = []
  const leases: string[] = []
  let locked: Service
  let isRevoked = false

  beforeAll(async () => {
    const write = (line: string, fields?: object) => lines.push(line + JSON.stringify(fields))
    locked = await openService({
      section: { auth: 'token' },
      deps: {
        log: { ...silentLog, debug: write, info: write, warn: write, error: write },
        trustedProxies: ['127.0.0.0/8'],
        gate: {
          admit: (_, { xToken }) => (xToken?.startsWith('good') ? principal(xToken) : null),
          readmits: () => !isRevoked,
          isExpired: () => false,
          lease: ({ subscription }) => {
            leases.push(subscription.id)
            return () => {}
          },
        },
      },
    })
    locked.execution.run(1)
  })
  afterAll(() => locked.running.stop())

  const ask = (token: string, headers: Record<string, string> = {}) =>
    fetch(`${locked.origin}/v1/ticket`, {
      method: 'POST',
      headers: { 'x-token': token, ...headers },
    })
  const read = async (response: Response) => JSON.parse(await response.text())
  const ticketOf = async (token: string, headers?: Record<string, string>): Promise<string> =>
    (await read(await ask(token, headers))).ticket
  const connect = async (query: string, headers: Record<string, string> = {}) => {
    const listener = new Listener(`${locked.ws}/v1/ws${query}`, [], headers)
    await until(() => listener.frames.length > 0 || listener.refused !== null, 'an answer')
    return listener
  }

  test('needs the token, has a shape and is not cached', async () => {
    expect((await ask('bad')).status).toBe(401)
    const response = await ask('good')
    expect([response.status, response.headers.get('cache-control')]).toEqual([200, 'no-store'])
    const body = await read(response)
    expectDescribed('post', '/v1/ticket', { status: 200, body })
    expectShape('metrics/ticket', body)
    expect(body.expires_in_secs).toBe(30)
    const wrongVerb = await fetch(`${locked.origin}/v1/ticket`, { headers: { 'x-token': 'good' } })
    expect(wrongVerb.status).toBe(405)
  })

  test('opens one WebSocket without a header, which holds a lease of its token', async () => {
    const ticket = await ticketOf('good-1')
    const first = await connect(`?ticket=${ticket}&events=TPS`)
    expect(first.kinds).toEqual(['Resume', 'TPS'])
    expect(leases).toContain('good-1')
    const second = await connect(`?ticket=${ticket}`)
    expect(second.refused).toMatchObject({
      status: 401,
      body: '{"error":"the ticket is unknown, used, expired or of another address"}',
    })
    first.socket.close()
  })

  test('is not taken from another address', async () => {
    const ticket = await ticketOf('good', { 'x-forwarded-for': '10.1.1.1' })
    expect((await connect(`?ticket=${ticket}`)).refused?.status).toBe(401)
    const other = await connect(`?ticket=${ticket}`, { 'x-forwarded-for': '10.1.1.1' })
    expect(other.refused).toBeNull()
    other.socket.close()
  })

  test('of a subscription that was suspended since is refused with 401', async () => {
    const ticket = await ticketOf('good-suspended')
    isRevoked = true
    const late = await connect(`?ticket=${ticket}`)
    isRevoked = false
    expect(late.refused?.status).toBe(401)
    expect(late.frames).toEqual([])
  })

  test('is no credential of REST or of a plain request', async () => {
    const ticket = await ticketOf('good')
    for (const path of ['/v1/tps', '/v1/ws', '/'])
      expect((await fetch(`${locked.origin}${path}?ticket=${ticket}`)).status).toBe(401)
    const ticketByTicket = await fetch(`${locked.origin}/v1/ticket?ticket=${ticket}`, {
      method: 'POST',
    })
    expect(ticketByTicket.status).toBe(401)
  })

  test('is refused with 429 and Retry-After while too many are unused', async () => {
    for (let count = 0; count < ticketsPerSubscriptionMax; count++)
      expect((await ask('good-many')).status).toBe(200)
    const refused = await ask('good-many')
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '30'])
    expect((await read(refused)).error).toContain('too many unused tickets')
    expect((await ask('good-other')).status).toBe(200)
  })

  test('is not needed while metrics.auth is open', async () => {
    const open = await openService()
    try {
      const response = await fetch(`${open.origin}/v1/ticket`, { method: 'POST' })
      expect([response.status, await response.json()]).toEqual([
        404,
        { error: 'no ticket is needed: metrics.auth is open' },
      ])
    } finally {
      await open.running.stop()
    }
  })

  test('is in no log line', async () => {
    const ticket = await ticketOf('good')
    await connect(`?ticket=${ticket}&events=nothing`)
    await connect(`?ticket=${ticket}`)
    expect(lines.join('\n')).not.toContain(ticket)
  })
})
