// Every position of a token, on every endpoint, with every kind of token: the contract's response.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { provision, type Server, sluiceHere, startServer } from '../testkit/server.ts'
import {
  type EndpointName,
  type Sent,
  type Tried,
  tryEndpoint,
  tryRpc,
} from '../testkit/try-endpoint.ts'
import { until } from '../testkit/until.ts'

type Place = (token: string) => Sent

const endpoints: readonly EndpointName[] = ['rpc', 'websocket', 'grpc']
const places: Readonly<Record<string, Place>> = {
  'x-token': (token) => ({ headers: [['x-token', token]] }),
  'Authorization: Bearer': (token) => ({ headers: [['authorization', `Bearer ${token}`]] }),
  'authorization: bearer': (token) => ({ headers: [['authorization', `bearer ${token}`]] }),
  'x-api-key': (token) => ({ headers: [['x-api-key', token]] }),
  '?api-key=': (token) => ({ query: `?api-key=${token}` }),
  '?api_key=': (token) => ({ query: `?api_key=${token}` }),
}
/** Authentication 3 and 4: two headers everywhere, the other positions on rpc alone. */
const everywhere = ['x-token', 'Authorization: Bearer', 'authorization: bearer']
const accepted: Readonly<Record<EndpointName, number>> = { rpc: 200, websocket: 101, grpc: 0 }

describe('a token', () => {
  let server: Server
  const tokens: Record<string, string> = {}

  beforeAll(async () => {
    // As in front of real nodes: on a default start websocket takes the query, too.
    const flags = ['--metrics.enabled=false', '--chain.traffic=0', '--websocket.queryToken=false']
    server = await startServer({ flags })
    const add = (label: string, ...flags: string[]) => provision(server.data, label, ...flags)
    const bundle = '--product=bundle'
    tokens.valid = (await add('good', bundle, '--plan=unlimited')).token
    tokens['of another address'] = (await add('far', bundle, '--cidr=203.0.113.0/24')).token
    tokens['of another product'] = (await add('idx', '--product=indexer')).token
    tokens.suspended = (await add('sus', bundle)).token
    tokens.ended = (await add('end', bundle)).token
    tokens.rotated = (await add('rot', bundle)).token
    expect((await sluiceHere(server.data, 'subscription', 'suspend', 'sus', '--yes')).code).toBe(0)
    expect((await sluiceHere(server.data, 'subscription', 'end', 'end', '--yes')).code).toBe(0)
    expect((await sluiceHere(server.data, 'token', 'rotate', 'rot', '--yes')).code).toBe(0)
    tokens.malformed = 'slu_short'
    tokens.unknown = `slu_${'0'.repeat(38)}`
    tokens.empty = ''
    // The last change is in force within a second.
    await until(
      async () => (await tryRpc(server, places['x-token']!(tokens.rotated!))).status === 401,
      'the rotation to be in force',
    )
  })
  afterAll(() => server.dispose())

  for (const endpoint of endpoints)
    for (const [name, place] of Object.entries(places)) {
      const isRead = endpoint === 'rpc' || everywhere.includes(name)
      test(`in ${name} on ${endpoint} is ${isRead ? 'taken' : 'no credential'}`, async () => {
        const good = await tryEndpoint(server, endpoint, place(tokens.valid!))
        if (isRead) expect(good.status).toBe(accepted[endpoint])
        else expectRefused(endpoint, good, name, name.startsWith('?'))
        // On gRPC a query belongs to the method's name, and no such method exists.
        for (const [kind, token] of Object.entries(tokens))
          if (kind !== 'valid') {
            const tried = await tryEndpoint(server, endpoint, place(token))
            expectRefused(endpoint, tried, kind, name.startsWith('?'))
          }
      })
    }

  for (const endpoint of endpoints) {
    test(`missing on ${endpoint} is refused`, async () => {
      expectRefused(endpoint, await tryEndpoint(server, endpoint, {}), 'missing')
    })

    test(`with another scheme on ${endpoint} counts as absent`, async () => {
      const basic = await tryEndpoint(server, endpoint, {
        headers: [['authorization', `Basic ${tokens.valid}`]],
      })
      expectRefused(endpoint, basic, 'Basic')
    })

    test(`in a repeated header on ${endpoint} is invalid`, async () => {
      for (const headers of [
        ['x-token', tokens.valid!, 'x-token', tokens.valid!],
        ['x-token', tokens.valid!, 'x-token', tokens.unknown!],
        ['authorization', `Bearer ${tokens.valid}`, 'authorization', `Bearer ${tokens.valid}`],
      ]) {
        const pairs = [headers.slice(0, 2), headers.slice(2)] as [string, string][]
        expectRefused(
          endpoint,
          await tryEndpoint(server, endpoint, { headers: pairs }),
          headers.join(' '),
        )
      }
    })

    test(`on ${endpoint} is judged by the first header that has one`, async () => {
      const first = await tryEndpoint(server, endpoint, {
        headers: [
          ['x-token', tokens.unknown!],
          ['authorization', `Bearer ${tokens.valid}`],
        ],
      })
      expectRefused(endpoint, first, 'bad x-token before a good Bearer')
      const second = await tryEndpoint(server, endpoint, {
        headers: [
          ['x-token', ''],
          ['authorization', `Bearer ${tokens.valid}`],
        ],
      })
      expect(second.status).toBe(accepted[endpoint])
    })
  }

  test('rotated with grace works beside the new one until a second rotation', async () => {
    const first = (await provision(server.data, 'grace', '--product=bundle')).token
    const rotate = async (...flags: string[]) => {
      const result = await sluiceHere(
        server.data,
        ...['token', 'rotate', 'grace', '--yes', '--output=json', ...flags],
      )
      return (JSON.parse(result.stdout) as { token: string }).token
    }
    const works = async (token: string) =>
      (await tryRpc(server, places['x-token']!(token))).status === 200
    const second = await rotate('--grace=1h')
    await until(() => works(second), 'the new token to work')
    expect(await works(first)).toBe(true)
    const third = await rotate()
    await until(() => works(third), 'the third token to work')
    expect([await works(first), await works(second)]).toEqual([false, false])
  })
})

function expectRefused(endpoint: EndpointName, tried: Tried, kind: string, isQuery = false): void {
  if (endpoint === 'grpc') {
    expect(isQuery ? [7, 12] : [7], kind).toContain(tried.status)
    return
  }
  expect(tried.status, kind).toBe(401)
  expect(tried.headers['www-authenticate'], kind).toBe('Bearer')
  expect(JSON.parse(tried.body), kind).toMatchObject({
    jsonrpc: '2.0',
    id: null,
    error: { code: -32401 },
  })
}
