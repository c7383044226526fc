// The rpc endpoint: tokens, order of checks, ids, batches, rate headers, limits.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { value } from '../../src/base/jsonrpc/build.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { declareRpcMeters } from '../../src/products/rpc/meters.ts'
import { Bundle, nodeVersion } from '../testkit/bundle.ts'
import { sendRaw } from '../testkit/raw-http.ts'
import { until } from '../testkit/until.ts'

let bundle: Bundle
let url = ''
let port = 0
let token = ''
const waiting: (() => void)[] = []

beforeAll(async () => {
  bundle = new Bundle({
    small: { creditsPerSecond: 1, burst: 5, weights: { dear: 6 }, batchItems: 10 },
    narrow: { creditsPerSecond: 0, callsInFlight: 2 },
  })
  const endpoint = await bundle.openRpc({
    table: {
      later: () => Promise.resolve(value('late')),
      wait: () => new Promise((resolve) => waiting.push(() => resolve(value('waited')))),
      throws: () => {
        throw new Error('a bug')
      },
    },
  })
  port = endpoint.port
  url = `http://127.0.0.1:${port}`
  token = bundle.issue().token
})

afterAll(() => bundle.dispose())

interface Ask {
  readonly body?: string
  readonly headers?: Record<string, string>
  readonly path?: string
  readonly method?: string
}

async function ask({ body, headers = { 'x-token': token }, path = '/', method = 'POST' }: Ask) {
  const answer = await fetch(`${url}${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(method === 'GET' ? {} : { body: body ?? call('getHealth', '1') }),
  })
  const text = await answer.text()
  return {
    status: answer.status,
    headers: answer.headers,
    text,
    json: text === '' ? null : JSON.parse(text),
  }
}

const call = (method: string, id: string) => `{"jsonrpc":"2.0","id":${id},"method":"${method}"}`

describe('the rpc endpoint', () => {
  it('answers getHealth and getVersion in the shape of Solana', async () => {
    expect((await ask({})).text).toBe('{"jsonrpc":"2.0","result":"ok","id":1}\n')
    const version = await ask({ body: call('getVersion', '"v"') })
    expect(version.json).toEqual({ jsonrpc: '2.0', result: nodeVersion, id: 'v' })
    expect(version.headers.get('content-type')).toBe('application/json; charset=utf-8')
  })

  it('answers an unknown method with -32601 Method not found, HTTP 200', async () => {
    const { status, json } = await ask({ body: call('getNothing', '1') })
    expect([status, json.error]).toEqual([200, { code: -32601, message: 'Method not found' }])
  })

  it('takes the token from each header and query parameter that may contain it', async () => {
    for (const headers of [
      { 'x-token': token },
      { authorization: `Bearer ${token}` },
      { authorization: `bearer ${token}` },
      { 'x-api-key': token },
    ] as Record<string, string>[])
      expect((await ask({ headers })).status).toBe(200)
    expect((await ask({ headers: {}, path: `/?api-key=${token}` })).status).toBe(200)
    expect((await ask({ headers: {}, path: `/?x=1&api_key=${token}` })).status).toBe(200)
    expect(
      (await ask({ headers: { 'x-token': '', authorization: 'Basic x', 'x-api-key': token } }))
        .status,
    ).toBe(200)
  })

  it('rejects a request without a valid token with 401, -32401 and id null, all alike', async () => {
    const elsewhere = bundle.issue({ cidrs: ['10.0.0.0/8'] }).token
    const noBundle = bundle.issue({ products: ['shredstream'] }).token
    const suspended = bundle.issue()
    bundle.store.suspend(suspended.subscription.id, { who: 'test' })
    bundle.directory.refresh()
    const texts = new Set<string>()
    for (const bad of [
      'nonsense',
      `${token.slice(0, -1)}!`,
      elsewhere,
      noBundle,
      suspended.token,
    ]) {
      const { status, headers, text, json } = await ask({ headers: { 'x-token': bad } })
      expect([status, headers.get('www-authenticate')]).toEqual([401, 'Bearer'])
      expect(json).toMatchObject({ jsonrpc: '2.0', error: { code: -32401 }, id: null })
      texts.add(text)
    }
    expect([...texts]).toEqual([expect.stringContaining('the token is not valid')])
    const none = await ask({ headers: { 'x-token': '' } })
    expect([none.status, none.json]).toMatchObject([401, { error: { code: -32401 }, id: null }])
    expect(none.text).toContain('send a token in x-token')
    expect((await ask({ headers: { 'x-token': 'bad', 'x-api-key': token } })).status).toBe(401)
  })

  it('rejects a repeated credential header', async () => {
    const body = call('getHealth', '1')
    const twice = `x-token: ${token}\r\nx-token: ${token}\r\n`
    const head = `POST / HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n`
    const { status } = await sendRaw(
      port,
      `${head}${twice}content-length: ${body.length}\r\n\r\n${body}`,
    )
    expect(status).toBe(401)
  })

  it('checks token, path, verb, media type, size and syntax in this order', async () => {
    const large = 'x'.repeat(51_201)
    const text = { 'x-token': token, 'content-type': 'text/plain' }
    const none = { 'content-type': 'text/plain' }
    expect((await ask({ headers: none, path: '/x', method: 'PUT', body: large })).status).toBe(401)
    expect((await ask({ headers: text, path: '/x', method: 'PUT', body: large })).status).toBe(404)
    const verb = await ask({ headers: text, method: 'PUT', body: large })
    expect([verb.status, verb.headers.get('allow')]).toEqual([405, 'POST, OPTIONS'])
    expect((await ask({ headers: text, body: large })).status).toBe(415)
    expect((await ask({ body: large })).status).toBe(413)
    expect((await ask({ body: ' '.repeat(51_200) })).json.error.code).toBe(-32700)
    const charset = { 'x-token': token, 'content-type': 'Application/JSON; charset=UTF-8' }
    expect((await ask({ headers: charset })).status).toBe(200)
    for (const path of ['/x', '/']) {
      const { json, headers } = await ask({ path, method: 'GET' })
      expect(json).toMatchObject({ jsonrpc: '2.0', error: { code: -32600 }, id: null })
      expect(headers.get('ratelimit')).not.toBeNull()
    }
  })

  it('answers GET /health without a token, and no other verb or path', async () => {
    const health = await fetch(`${url}/health`)
    expect([health.status, await health.text()]).toEqual([200, 'ok'])
    expect(health.headers.get('content-type')).toBe('text/plain')
    expect((await fetch(`${url}/health`, { method: 'HEAD' })).status).toBe(200)
    expect((await fetch(`${url}/health`, { method: 'POST' })).status).toBe(401)
    for (const path of ['/health/', '/healthy', '//health', '/%68ealth'])
      expect([path, (await fetch(`${url}${path}`)).status]).toEqual([path, 401])
    // A request in the body of a health check is no request.
    const hidden = `POST / HTTP/1.1\r\nhost: a\r\nx-token: ${token}\r\ncontent-length: 0\r\n\r\n`
    const { text, isClosed } = await sendRaw(
      port,
      `GET /health HTTP/1.1\r\nhost: a\r\ncontent-length: ${hidden.length}\r\n\r\n${hidden}`,
      { answers: 2 },
    )
    expect([text.match(/^HTTP\/1\.1 \d+/gm), isClosed]).toEqual([['HTTP/1.1 200'], true])
  })

  it('answers calls pipelined in one packet in order, where each is answered at once', async () => {
    const post = (id: string) => {
      const body = call('getHealth', id)
      const head = `host: a\r\nx-token: ${token}\r\ncontent-type: application/json`
      return `POST / HTTP/1.1\r\n${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`
    }
    const { text } = await sendRaw(port, ['1', '2', '3'].map(post).join(''), { answers: 3 })
    expect(text.match(/"id":\d/g)).toEqual(['"id":1', '"id":2', '"id":3'])
  })

  it('answers a CORS preflight without a token', async () => {
    const { status, headers } = await ask({ headers: {}, method: 'OPTIONS' })
    expect([status, headers.get('access-control-allow-origin')]).toEqual([204, '*'])
    expect(headers.get('access-control-allow-headers')).toContain('x-token')
  })

  it('sends CORS headers to browsers, which send an origin', async () => {
    const browser = { 'x-token': token, origin: 'https://example.org' }
    const { headers } = await ask({ headers: browser })
    expect(headers.get('access-control-allow-origin')).toBe('*')
    expect(headers.get('access-control-expose-headers')).toContain('retry-after')
    expect((await ask({})).headers.get('access-control-allow-origin')).toBeNull()
    const refused = await ask({ headers: { origin: 'https://example.org' } })
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([401, '*'])
  })

  it('echoes ids byte for byte, alone and in a batch', async () => {
    const ids = ['18446744073709551615', '1.0', '"\\u00e9\\n"', '"☃"', 'null', '-0']
    for (const id of ids)
      expect((await ask({ body: call('getHealth', id) })).text).toBe(
        `{"jsonrpc":"2.0","result":"ok","id":${id}}\n`,
      )
    const batch = await ask({ body: `[${ids.map((id) => call('getHealth', id)).join()}]` })
    expect(batch.text).toBe(
      `[${ids.map((id) => `{"jsonrpc":"2.0","result":"ok","id":${id}}`).join()}]\n`,
    )
  })

  it('answers a lone notification with 200 and an empty body, an empty batch with -32600', async () => {
    const lone = await ask({ body: '{"jsonrpc":"2.0","method":"getHealth"}' })
    expect([lone.status, lone.text]).toEqual([200, ''])
    expect((await ask({ body: '[]' })).json).toMatchObject({ error: { code: -32600 }, id: null })
  })

  it('answers asynchronous methods, and -32603 when one throws', async () => {
    expect((await ask({ body: call('later', '1') })).json.result).toBe('late')
    expect((await ask({ body: call('throws', '1') })).json.error.code).toBe(-32603)
  })

  it('sends the rate with every answer, and 429 with Retry-After when it is used up', async () => {
    const headers = { 'x-token': bundle.issue({ plan: 'small' }).token }
    const first = await ask({ headers })
    expect(first.headers.get('ratelimit-policy')).toBe('"credits";q=5;w=5')
    expect(first.headers.get('ratelimit')).toBe('"credits";r=4;t=1')
    const last = () => ask({ headers, body: call('getHealth', '"kept"') })
    const [startMs, answers] = [performance.now(), [first]]
    while (answers.at(-1)!.status === 200) answers.push(await last())
    const refused = answers.pop()!
    // A slow machine regains a credit a second.
    expect(answers.length).toBeGreaterThanOrEqual(5)
    expect(answers.length).toBeLessThanOrEqual(6 + (performance.now() - startMs) / 1_000)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
    expect(refused.json).toMatchObject({
      error: { code: -32429, data: { reason: 'rate' } },
      id: 'kept',
    })
    expect(refused.headers.get('ratelimit')).toMatch(/^"credits";r=0;t=\d+$/)
    await until(async () => (await ask({ headers })).status === 200, 'the rate to recover')
  })

  it('admits or refuses a batch whole, and answers one that costs more than the burst with -32600', async () => {
    const headers = { 'x-token': bundle.issue({ plan: 'small' }).token }
    const batch = (count: number) =>
      `[${Array.from({ length: count }, (_, index) => call('getHealth', String(index))).join()}]`
    expect((await ask({ headers, body: batch(4) })).json).toHaveLength(4)
    // A credit comes back every second, perhaps in between.
    let refused = await ask({ headers, body: batch(3) })
    while (refused.status === 200) refused = await ask({ headers, body: batch(3) })
    expect(refused.status).toBe(429)
    expect(
      refused.json.map((one: { id: number; error: { code: number } }) => [one.id, one.error.code]),
    ).toEqual([
      [0, -32429],
      [1, -32429],
      [2, -32429],
    ])
    const expensive = await ask({ headers, body: batch(6) })
    expect([expensive.status, expensive.json[0].error.code, expensive.json.length]).toEqual([
      200, -32600, 6,
    ])
    expect((await ask({ headers, body: call('dear', '1') })).json.error.code).toBe(-32600)
    const tooMany = await ask({
      headers: { 'x-token': bundle.issue({ plan: 'small' }).token },
      body: batch(11),
    })
    expect(tooMany.json).toMatchObject({ error: { code: -32600 }, id: null })
  })

  it('limits calls in flight to the plan', async () => {
    const { token: narrow, subscription } = bundle.issue({ plan: 'narrow' })
    const headers = { 'x-token': narrow }
    const held = [
      ask({ headers, body: call('wait', '1') }),
      ask({ headers, body: call('wait', '2') }),
    ]
    await until(() => waiting.length === 2, 'both calls to arrive')
    const third = await ask({ headers, body: call('getHealth', '3') })
    expect([third.status, third.json.error.data.reason]).toEqual([429, 'in-flight'])
    const batch = await ask({ headers, body: `[${call('getHealth', '4')},${call('dear', '5')}]` })
    expect(batch.status).toBe(429)
    for (const release of waiting.splice(0)) release()
    expect((await Promise.all(held)).map(({ json }) => json.result)).toEqual(['waited', 'waited'])
    expect((await ask({ headers })).status).toBe(200)
    // What was refused was not charged.
    expect(bundle.quota.budgetOf(subscription).takePending()).toMatchObject({
      credits: 3,
      calls: 3,
      refused: 2,
    })
  })

  it('reads X-Forwarded-For of trusted proxies only', async () => {
    const meters = declareRpcMeters(new Meters())
    const behind = await bundle.openRpc({ trustedProxies: ['127.0.0.0/8'], meters })
    const headers = {
      'content-type': 'application/json',
      'x-token': bundle.issue({ cidrs: ['10.0.0.0/8'] }).token,
    }
    const from = async (target: number, forwarded: string) => {
      const answer = await fetch(`http://127.0.0.1:${target}`, {
        method: 'POST',
        headers: { ...headers, 'x-forwarded-for': forwarded },
        body: call('getHealth', '1'),
      })
      return answer.status
    }
    expect(await from(behind.port, '10.1.2.3')).toBe(200)
    expect(await from(behind.port, '10.1.2.3, 192.0.2.7')).toBe(401)
    expect(await from(port, '10.1.2.3')).toBe(401)
  })

  it('counts calls by method and outcome, and measures their latency', async () => {
    const { body } = await bundle.meters.render('text')
    expect(body).toMatch(/sluice_rpc_requests_total\{method="getHealth",outcome="ok"\} [1-9]/)
    expect(body).toMatch(/sluice_rpc_requests_total\{method="other",outcome="error"\} [1-9]/)
    expect(body).toMatch(/sluice_quota_refused_total\{door="rpc"\} [1-9]/)
    expect(body).toMatch(/sluice_rpc_seconds_count [1-9]/)
  })
})
