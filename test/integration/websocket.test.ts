// The websocket endpoint as the spec and its silent places describe it.
import { once } from 'node:events'
import { WebSocket as BrowserSocket } from 'undici'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { value } from '../../src/base/jsonrpc/build.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import type { Session } from '../../src/products/websocket/handle.ts'
import { declareWebsocketMeters } from '../../src/products/websocket/meters.ts'
import { Bundle, nodeVersion } from '../testkit/bundle.ts'
import { until } from '../testkit/until.ts'

let bundle: Bundle
let port = 0
let token = ''
let last: Session | null = null
let ended = 0
const opened = new Set<WebSocket>()

beforeAll(async () => {
  bundle = new Bundle({
    small: { creditsPerSecond: 1, burst: 3 },
    two: { creditsPerSecond: 0, connections: 2 },
  })
  const endpoint = await bundle.openWebsocket({
    section: { pingMs: 1000, connectionsPerAddress: 20, unsentBytes: 65_536 },
    table: {
      later: () => Promise.resolve(value('late')),
      keep: (_, session) => {
        last = session
        session.onEnd(() => {
          ended++
        })
        return value(true)
      },
    },
  })
  port = endpoint.port
  token = bundle.issue().token
})

afterAll(() => bundle.dispose())

afterEach(() => {
  for (const socket of opened) socket.terminate()
  opened.clear()
})

function connect(headers: Record<string, string> = { 'x-token': token }, path = '/'): WebSocket {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, { headers })
  socket.on('error', () => {})
  opened.add(socket)
  return socket
}

async function open(headers?: Record<string, string>): Promise<WebSocket> {
  const socket = connect(headers)
  await once(socket, 'open')
  return socket
}

async function refusal(headers: Record<string, string>, path = '/') {
  const socket = connect(headers, path)
  const [, response] = (await once(socket, 'unexpected-response')) as [
    unknown,
    import('node:http').IncomingMessage,
  ]
  let body = ''
  for await (const chunk of response) body += chunk
  return { status: response.statusCode, headers: response.headers, json: JSON.parse(body) }
}

async function ask(socket: WebSocket, message: string) {
  socket.send(message)
  const [data] = (await once(socket, 'message')) as [Buffer]
  return JSON.parse(data.toString())
}

async function codeOf(socket: WebSocket): Promise<number> {
  const [code] = (await once(socket, 'close')) as [number]
  return code
}

const call = (method: string, id: string) => `{"jsonrpc":"2.0","id":${id},"method":"${method}"}`

describe('the websocket endpoint', () => {
  it('takes the token from x-token and Bearer in the handshake', async () => {
    const first = await open({ 'x-token': token })
    expect(await ask(first, call('getVersion', '7'))).toEqual({
      jsonrpc: '2.0',
      result: nodeVersion,
      id: 7,
    })
    await open({ authorization: `Bearer ${token}` })
  })

  it('rejects a token in any other location and every bad token with 401', async () => {
    const places: [Record<string, string>, string][] = [
      [{}, '/'],
      [{ 'x-token': 'bad' }, '/'],
      [{ 'x-api-key': token }, '/'],
      [{}, `/?api-key=${token}`],
      [{}, `/?api_key=${token}`],
      [{ 'x-token': '' }, '/'],
      [{ 'sec-websocket-protocol': `x-token.${token}` }, '/'],
    ]
    for (const [headers, path] of places) {
      const refused = await refusal(headers, path)
      expect([refused.status, refused.headers['www-authenticate']]).toEqual([401, 'Bearer'])
      expect(refused.json).toMatchObject({ jsonrpc: '2.0', error: { code: -32401 }, id: null })
    }
  })

  describe('with queryToken', () => {
    const own = new Bundle()
    const { token } = own.issue()
    let tokenless: (query: string, protocols?: string[]) => BrowserSocket
    afterAll(() => own.dispose())
    beforeAll(async () => {
      const endpoint = await own.openWebsocket({ section: { queryToken: true } })
      tokenless = (query, protocols) =>
        new BrowserSocket(`ws://127.0.0.1:${endpoint.port}/${query}`, protocols)
    })

    /** The subprotocol of a socket that opened and answers; null for a refused one. */
    async function protocolOf(socket: BrowserSocket): Promise<string | null> {
      const type = await new Promise((resolve) => {
        for (const type of ['open', 'error'] as const)
          socket.addEventListener(type, () => resolve(type))
      })
      if (type === 'error') return null
      const answer = new Promise<string>((resolve) => {
        socket.onmessage = ({ data }) => resolve(String(data))
      })
      socket.send(call('getVersion', '7'))
      expect(JSON.parse(await answer)).toMatchObject({ result: nodeVersion, id: 7 })
      socket.close()
      return socket.protocol
    }

    it('takes the token of a browser from either query parameter', async () => {
      expect(await protocolOf(tokenless(`?api-key=${token}`))).toBe('')
      expect(await protocolOf(tokenless(`?api_key=${token}`))).toBe('')
    })

    it('takes it from a subprotocol, and answers with another one where offered', async () => {
      const secret = `x-token.${token}`
      expect(await protocolOf(tokenless('', [secret]))).toBe(secret)
      expect(await protocolOf(tokenless('', [secret, 'sluice']))).toBe('sluice')
      expect(await protocolOf(tokenless('', ['sluice', secret]))).toBe('sluice')
    })

    it('refuses a wrong or missing token, and one of x-api-key', async () => {
      expect(await protocolOf(tokenless(''))).toBeNull()
      expect(await protocolOf(tokenless('?api-key=bad'))).toBeNull()
      expect(await protocolOf(tokenless(`?token=${token}`))).toBeNull()
      expect(await protocolOf(tokenless('', ['x-token.bad']))).toBeNull()
      expect(await protocolOf(tokenless('', ['x-token.']))).toBeNull()
      // The first position with a token decides.
      expect(await protocolOf(tokenless('?api-key=bad', [`x-token.${token}`]))).toBeNull()
    })
  })

  it('upgrades on / only, and answers a plain request with 426', async () => {
    expect((await refusal({ 'x-token': token }, '/other')).status).toBe(404)
    const plain = await fetch(`http://127.0.0.1:${port}/`, { headers: { 'x-token': token } })
    expect([plain.status, plain.headers.get('upgrade')]).toEqual([426, 'websocket'])
    expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(401)
  })

  it('answers -32601 to an unknown method, -32700 to noise, and ignores the JSON ping', async () => {
    const socket = await open()
    socket.send('{"jsonrpc":"2.0","method":"ping"}')
    expect((await ask(socket, call('nothing', '"x"'))).error).toEqual({
      code: -32601,
      message: 'Method not found',
    })
    expect(await ask(socket, '{')).toMatchObject({ error: { code: -32700 }, id: null })
    expect(await ask(socket, '[]')).toMatchObject({ error: { code: -32600 }, id: null })
    expect(await ask(socket, `[${call('later', '1')},${call('getVersion', '2')}]`)).toMatchObject([
      { id: 1 },
      { id: 2 },
    ])
  })

  it('charges a credit for ten pings, in JSON or of the protocol', async () => {
    const { token: own, subscription } = bundle.issue()
    const socket = await open({ 'x-token': own })
    const budget = bundle.quota.budgetOf(subscription)
    budget.takePending()
    for (let count = 0; count < 25; count++) socket.send('{"jsonrpc":"2.0","method":"ping"}')
    for (let count = 0; count < 25; count++) socket.ping()
    expect(await ask(socket, call('getVersion', '1'))).toMatchObject({ id: 1 })
    expect(budget.takePending()).toMatchObject({ credits: 5 + 1 })
  })

  it('keeps a connection that pings without a credit left', async () => {
    const socket = await open({ 'x-token': bundle.issue({ plan: 'small' }).token })
    for (let count = 0; count < 100; count++) socket.ping()
    const answer = await ask(socket, call('getVersion', '1'))
    expect(answer).toMatchObject({ error: { code: -32429, data: { reason: 'rate' } }, id: 1 })
    expect(socket.readyState).toBe(WebSocket.OPEN)
  })

  it('sends protocol pings', async () => {
    await once(await open(), 'ping')
  })

  it('closes a message over 4,096 bytes with 1009 and takes one of 4,096', async () => {
    const socket = await open()
    const exact = call('getVersion', `"${'x'.repeat(4096 - call('getVersion', '""').length)}"`)
    expect(exact.length).toBe(4096)
    expect((await ask(socket, exact)).result).toEqual(nodeVersion)
    socket.send(`${exact} `)
    expect(await codeOf(socket)).toBe(1009)
  })

  it('answers -32429 in band when the rate is used up, and refuses upgrades with 429', async () => {
    const headers = { 'x-token': bundle.issue({ plan: 'small' }).token }
    const socket = await open(headers)
    // With the upgrade three credits; a slow machine regains one a second.
    for (const id of [1, 2])
      expect(await ask(socket, call('getVersion', String(id)))).toHaveProperty('result')
    let last = await ask(socket, call('getVersion', '3'))
    while ('result' in last) last = await ask(socket, call('getVersion', '3'))
    expect(last).toMatchObject({ error: { code: -32429 }, id: 3 })
    const refused = await refusal(headers)
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '1'])
    expect(refused.json).toMatchObject({ error: { code: -32429 }, id: null })
    expect(socket.readyState).toBe(WebSocket.OPEN)
    await until(
      async () => 'result' in (await ask(socket, call('getVersion', '4'))),
      'the rate to recover',
    )
  })

  it('limits connections per plan, and frees the permit at the close', async () => {
    const headers = { 'x-token': bundle.issue({ plan: 'two' }).token }
    const first = await open(headers)
    await open(headers)
    expect((await refusal(headers)).status).toBe(429)
    first.close()
    await until(async () => {
      const again = connect(headers)
      const [event] = await Promise.race([
        once(again, 'open').then(() => ['open']),
        once(again, 'unexpected-response').then(() => ['refused']),
      ])
      return event === 'open'
    }, 'a place to be free')
  })

  it('limits connections per address', async () => {
    const sockets = await Promise.all(Array.from({ length: 20 - opened.size }, () => open()))
    expect((await refusal({ 'x-token': token })).status).toBe(429)
    for (const socket of sockets) socket.terminate()
  })

  it.each(['suspend', 'end', 'rotate'] as const)(
    'closes with 1008 within a second when the token dies by %s',
    async (verb) => {
      const { token: doomed, subscription } = bundle.issue()
      const socket = await open({ 'x-token': doomed })
      await ask(socket, call('keep', '1'))
      const code = codeOf(socket)
      const before = ended
      if (verb === 'rotate') bundle.store.rotate(subscription.id, { graceMs: 0 }, { who: 'test' })
      else bundle.store[verb](subscription.id, { who: 'test' })
      expect(await code).toBe(1008)
      await until(() => ended === before + 1, 'what the session held to be released')
    },
  )

  it('closes a client that reads too slowly with 1013, and ends its session', async () => {
    const socket = await open()
    await ask(socket, call('keep', '1'))
    const session = last!
    const before = ended
    socket.pause()
    const code = codeOf(socket)
    const message = JSON.stringify('x'.repeat(60_000))
    for (let sent = 0; ended === before && sent < 2000; sent++) session.notify(message)
    expect(ended).toBe(before + 1)
    session.notify('after the end')
    const permits = session.budget.state().open.connections
    socket.resume()
    expect(await code).toBe(1013)
    // Its permit was taken for as long as it had something to read.
    await until(() => session.budget.state().open.connections === permits - 1, 'the permit')
  })

  it('counts calls, closings and open sockets', async () => {
    await open()
    const { body } = await bundle.meters.render('text')
    expect(body).toMatch(
      /sluice_websocket_requests_total\{method="getVersion",outcome="ok"\} [1-9]/,
    )
    expect(body).toMatch(/sluice_websocket_closed_total\{by="token"\} [1-9]/)
    expect(body).toMatch(/sluice_websocket_closed_total\{by="too-slow"\} 1/)
    expect(body).toMatch(/sluice_websocket_connections [1-9]/)
  })

  it('closes with 1001 when the endpoint stops', async () => {
    const meters = declareWebsocketMeters(new Meters())
    const endpoint = await bundle.openWebsocket({ meters })
    const socket = new WebSocket(`ws://127.0.0.1:${endpoint.port}`, {
      headers: { 'x-token': token },
    })
    await once(socket, 'open')
    const code = codeOf(socket)
    await endpoint.stop()
    expect(await code).toBe(1001)
  })
})
