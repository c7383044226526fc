// The operator API in process: every verb once, what its document says about each, who may call it,
// and what it makes of bad input. The live state of a server comes from a stand-in.
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { connect as connectLocal } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import type { Running } from '../../src/base/running.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { CertificatePair } from '../../src/base/transport/tls.ts'
import { startOperatorSocket } from '../../src/base/transport/unix-socket.ts'
import { openStore, type Store } from '../../src/customers/subscriptions/store.ts'
import { Access, Repeats } from '../../src/operator/api/access.ts'
import { loadRoutes, type Route } from '../../src/operator/api/routes.ts'
import { startApi } from '../../src/operator/api/server.ts'
import { loadConfig } from '../../src/operator/config/load.ts'
import { copyPair, hasOpenssl, makePair } from '../testkit/certificates.ts'
import { type ApiCall, apiSocket, callApi, writeAndEnd } from '../testkit/operator-api.ts'
import { runHere } from '../testkit/run-here.ts'

const data = mkdtempSync(join(tmpdir(), 'sluice-api-'))
const by = { who: 'test' }
const address = '127.0.0.1:20010'
let store: Store
let socket: Running
let api: Running
let routes: ReadonlyMap<string, Route>
let document: Record<string, unknown>
let credential = ''
let isRegistryCurrent = true

const shreds = () => ({
  ...{ io: 'node', core: null, feed: 'embedded', at: performance.now(), kernelDrops: 0 },
  ...{ totals: { received: 1, accepted: 1, sent: 1, sentBytes: 1 }, sources: [] },
  ...{ destinations: [], slots: [] },
})
/** What a server answers on operator.sock. */
const live = {
  status: () => ({ version: '1', pid: 1, uptimeSecs: 1, doors: {} }),
  shreds,
  tips: () => ({ accepted: 0, landed: 0, rejected: {}, last: [] }),
  'tip-accounts': () => ({ tipAccounts: ['T1'] }),
  drain: ({ params }: { params: unknown }) => ({
    ...(params as object),
    state: 'drained',
    waiting: 0,
  }),
  cluster: () => ({
    registry: { seq: 1, hash: 'h' },
    gateways: [{ session: 's', name: 'g1', ageMs: 1, info: {} }],
  }),
  apply: () => ({ version: store.version() }),
  registry: () => ({ isCurrent: isRegistryCurrent }),
  customers: ({ params }: { params: Record<string, unknown> }) => ({
    contentType: 'text/plain; version=0.0.4',
    body: `# ${params.format}\nsluice_subscription_calls_total{subscription="other"} 1\n`,
  }),
}

interface Opening {
  readonly certificates?: CertificatePair
  readonly requestMsMax?: number
}

async function open({ certificates, ...rest }: Opening = {}): Promise<Running> {
  const flags = [
    ['data', data],
    ['operator.enabled', 'true'],
    ['operator.port', '0'],
    ['operator.names', 'ops.example'],
  ].map(([key = '', value = '']) => ({ key, value }))
  const loaded = await loadConfig({ env: {}, flags })
  if (!loaded.ok) throw new Error(loaded.problems.join())
  const hosts = loaded.config.operator.names
  return startApi(data, {
    config: loaded.config,
    access: new Access(store, { clock: systemClock, user: 'olga', hosts }),
    repeats: new Repeats(store.answers),
    certificates: certificates ?? null,
    ...rest,
    version: '1',
    log: silentLog,
  })
}

beforeAll(async () => {
  store = openStore(join(data, 'registry'), { clock: systemClock })
  socket = await startOperatorSocket(data, live, silentLog)
  api = await open()
  routes = await loadRoutes()
  document = (await callApi(apiSocket(data), '/openapi.json')).json()
  const issued = store.addOperator('ci', by)
  if (issued.ok) credential = issued.value.token
})
afterAll(async () => {
  await api.stop()
  await socket.stop()
  await store.close()
  rmSync(data, { recursive: true, force: true })
})

const local = (path: string, call?: ApiCall) => callApi(apiSocket(data), path, call)
const post = (path: string, body: unknown, headers = {}) => local(path, { body, headers })
const remote = (path: string, headers: Record<string, string> = {}, call: ApiCall = {}) =>
  callApi({ port: api.address!.port }, path, { ...call, headers })
const bearer = (token = credential) => ({ authorization: `Bearer ${token}` })

describe('the document', () => {
  test('is valid OpenAPI, resolves, and has a described path for every verb of the API', async () => {
    const { valid, errors } = await new Validator().validate(structuredClone(document))
    expect([valid, errors]).toEqual([true, undefined])
    const text = JSON.stringify(document)
    const { schemas } = document.components as { schemas: Record<string, unknown> }
    const used = new Set([...text.matchAll(/#\/components\/schemas\/(\w+)/g)].map(([, to]) => to!))
    expect([...used].sort()).toEqual(Object.keys(schemas).sort())
    const paths = document.paths as Record<string, Record<string, unknown>>
    expect(Object.keys(paths).sort()).toEqual(
      [...routes.keys(), '/metrics', '/openapi.json'].sort(),
    )
    for (const { path, method } of routes.values()) {
      const { properties } = schemaOf(path, method) as { properties: object }
      expect([path, Object.keys(properties).length > 1 || method === 'GET']).toEqual([path, true])
      expect(Object.keys(properties)).not.toEqual([])
    }
  })

  test('has every verb that changes the registry or asks the server', () => {
    const names = [...routes.values()].map(({ verb }) => verb.words.join(' ')).sort()
    expect(names).toEqual(
      [
        ...['add', 'end', 'list', 'resume', 'set', 'show', 'suspend'].map(
          (w) => `subscription ${w}`,
        ),
        ...['clear', 'confirm', 'pause', 'resume', 'set', 'show'].map((w) => `destination ${w}`),
        ...['audit show', 'audit verify', 'cluster status', 'consumer list', 'consumer reset'],
        ...['indexer rotate', 'node drain', 'node resume', 'note add', 'products', 'shreds'],
        ...['status', 'tip-accounts', 'tips', 'token rotate', 'usage'],
      ].sort(),
    )
  })
})

function schemaOf(path: string, method: string): object {
  const paths = document.paths as Record<string, Record<string, unknown>>
  const operation = paths[path]![method.toLowerCase()] as {
    responses: Record<string, { content: Record<string, { schema: object }> }>
  }
  return operation.responses['200']!.content['application/json']!.schema
}

const ajv = new Ajv2020({ strict: false })

/** Calls a verb and compares its answer with the document. */
async function verb(name: string, input: Record<string, string> | object = {}): Promise<object> {
  const path = `/v1/${name.replaceAll(' ', '/')}`
  const { method } = routes.get(path)!
  const query = new URLSearchParams(input as Record<string, string>)
  const answer = method === 'GET' ? await local(`${path}?${query}`) : await post(path, input)
  expect([name, answer.status, answer.text]).toEqual([name, 200, answer.text])
  const { components } = document
  const check = ajv.compile({ ...schemaOf(path, method), components })
  expect([name, check(answer.json()), check.errors]).toEqual([name, true, null])
  called.add(path)
  return answer.json()
}
const called = new Set<string>()

test('every verb is called over HTTP and answers as described', async () => {
  const acme = { subscription: 'acme' }
  const product = ['bundle', 'shredstream', 'indexer']
  const added = await verb('subscription add', { label: 'acme', product, destination: address })
  expect(added).toMatchObject({ token: expect.any(String), indexer: { user: expect.any(String) } })
  const set = await verb('subscription set', {
    ...acme,
    cidr: ['198.51.100.0/24'],
    reason: 'moved',
  })
  expect(set).toMatchObject({ subscription: { cidrs: ['198.51.100.0/24'] } })
  const freed = await verb('subscription set', { ...acme, cidr: [] })
  expect(freed).toMatchObject({ subscription: { cidrs: [] } })
  expect(await verb('subscription list', { state: 'active' })).toMatchObject({
    subscriptions: [{ label: 'acme' }],
  })
  await verb('subscription show', acme)
  await verb('destination show', acme)
  await verb('destination confirm', acme)
  await verb('destination pause', acme)
  await verb('destination resume', acme)
  await verb('destination clear', acme)
  await verb('destination set', { ...acme, address })
  await verb('token rotate', { ...acme, grace: '1h' })
  await verb('indexer rotate', acme)
  await verb('note add', { ...acme, text: 'refund agreed', kind: 'refund' })
  await verb('consumer list', acme)
  await verb('consumer reset', acme)
  await verb('usage', {})
  await verb('usage', acme)
  await verb('subscription suspend', acme)
  await verb('subscription resume', acme)
  await verb('status')
  await verb('products')
  await verb('tip-accounts')
  await verb('tips', { last: '5' })
  await verb('shreds')
  const drained = await verb('node drain', { set: 'default', node: 1, reason: 'upgrade' })
  expect(drained).toMatchObject({ who: 'olga (operator API)', reason: 'upgrade' })
  await verb('node resume', { set: 'default', node: '1' })
  await verb('cluster status')
  await verb('subscription end', acme)
  expect(await verb('audit verify')).toMatchObject({ ok: true })
  const { entries } = (await verb('audit show', { limit: '1000' })) as { entries: object[] }
  expect(entries.at(-1)).toMatchObject({ what: 'subscription.end', who: 'olga (operator API)' })
  expect([...routes.keys()].filter((path) => !called.has(path))).toEqual([])
})

describe('who may call it', () => {
  test('the socket is of its owner alone; a credential that is sent there must be valid', async () => {
    expect(statSync(apiSocket(data).socketPath).mode & 0o777).toBe(0o600)
    expect((await local('/v1/status')).status).toBe(200)
    expect((await local('/v1/status', { headers: bearer('wrong') })).code).toBe('bad-credential')
    const named = await local('/v1/subscription/add', {
      body: { label: 'by-ci', product: ['bundle'] },
      headers: bearer(),
    })
    expect(named.status).toBe(200)
    expect([...store.audit()].at(-1)!.who).toBe('ci (operator API)')
  })

  test('a credential is refused while the registry is too old to say whether it was revoked', async () => {
    isRegistryCurrent = false
    const refused = await remote('/v1/subscription/list', bearer())
    expect([refused.status, refused.code]).toEqual([503, 'registry-expired'])
    expect((await local('/v1/status', { headers: bearer() })).status).toBe(503)
    expect((await local('/v1/status')).status).toBe(200)
    isRegistryCurrent = true
    expect((await remote('/v1/status', bearer())).status).toBe(200)
  })

  test('a foreign Host or any Origin is refused, with a credential too; no answer has CORS', async () => {
    const before = store.version()
    const body = { label: 'page', product: ['bundle'] }
    const path = '/v1/subscription/add'
    const origin = await remote(path, { ...bearer(), origin: 'https://evil.example' }, { body })
    expect([origin.status, origin.code]).toEqual([403, 'foreign-origin'])
    const own = await remote(path, { ...bearer(), origin: 'http://localhost' }, { body })
    expect(own.status).toBe(403)
    const rebound = await remote(path, { ...bearer(), host: 'evil.example' }, { body })
    expect([rebound.status, rebound.code]).toEqual([421, 'foreign-host'])
    const none = await remote('/v1/status', { ...bearer(), host: 'localhost.evil.example' })
    expect(none.status).toBe(421)
    expect((await remote('/v1/status', { ...bearer(), host: 'OPS.example:443' })).status).toBe(200)
    const asked = await remote('/v1/status', bearer(), { method: 'OPTIONS' })
    expect([asked.status, asked.headers.allow]).toEqual([405, 'GET'])
    for (const answer of [origin, rebound, asked])
      expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-'))).toEqual([])
    expect(store.version()).toBe(before)
  })

  test('five failures a minute lock an address out of the port, valid credential or not', async () => {
    expect((await remote('/v1/status', bearer())).status).toBe(200)
    const none = await remote('/v1/status')
    expect([none.status, none.code]).toEqual([401, 'no-credential'])
    expect(none.headers['www-authenticate']).toBe('Bearer')
    for (let left = 4; left > 0; left--)
      expect((await remote('/metrics', bearer('wrong'))).code).toBe('bad-credential')
    const sixth = await remote('/v1/status', bearer('wrong'))
    expect([sixth.status, sixth.code]).toEqual([429, 'too-many-failures'])
    expect(Number(sixth.headers['retry-after'])).toBeGreaterThan(50)
    expect((await remote('/v1/status', bearer())).status).toBe(429)
    // The socket has no address to lock out.
    expect((await local('/v1/status')).status).toBe(200)
  })
})

test('credentials of indexers are not for the API: for it they are no subscriptions', async () => {
  expect(store.enroll('north', [], by).ok).toBe(true)
  const before = store.version()
  const calls = [
    ['/v1/token/rotate', {}],
    ['/v1/subscription/set', { cidr: ['10.0.0.0/8'] }],
    ['/v1/subscription/end', {}],
    ['/v1/note/add', { text: 'x' }],
  ] as const
  for (const [path, input] of calls) {
    const answer = await post(path, { subscription: 'north', ...input })
    expect([path, answer.status]).toEqual([path, 404])
    expect(answer.json()).toMatchObject({ error: { code: 'no-subscription' } })
  }
  expect(store.version()).toBe(before)
})

describe('bad input', () => {
  test('gets its own status and changes nothing', async () => {
    const before = store.version()
    const path = '/v1/subscription/add'
    const add = (raw: string, headers = {}) => local(path, { raw, headers })
    const answers = [
      await local('/v1/subscription/remove'),
      await local('/v1/serve'),
      await local('/v1/operator/add', { body: { name: 'x' } }),
      await local(path),
      await add('{"label":"x","product":["bu'),
      await add('[]'),
      await add('{"label":"x","product":["bundle"]}', { 'content-type': 'text/plain' }),
      await add('x'.repeat(64 * 1024 + 1)),
      await post(path, { label: 'x', products: ['bundle'] }),
      await post(path, { product: ['bundle'] }),
      await post(path, { label: { $ne: 1 }, product: ['bundle'] }),
      await post(path, { label: 'x', product: ['bundle'], data: '/tmp' }),
      await post(path, { label: '--yes', product: ['bundle'] }),
      await post(path, { label: 'x' }),
      await post(path, { label: 'x', product: ['tpu'] }),
      await post('/v1/subscription/end', { subscription: 'nobody' }),
      await post('/v1/subscription/end', { subscription: 'n'.repeat(6_000) }),
      await local('/v1/tips?last=9999'),
      await local('/v1/tips?last=1&last=2'),
    ]
    expect(answers.map(({ status, code }) => `${status} ${code}`)).toEqual([
      '404 unknown-verb',
      '404 unknown-verb',
      '404 unknown-verb',
      '405 wrong-method',
      '400 bad-body',
      '400 bad-body',
      '400 not-json',
      '413 long-body',
      '400 unknown-input',
      '400 missing-input',
      '400 bad-input',
      '400 unknown-input',
      '400 bad-label',
      '400 usage',
      '400 not-a-product',
      '404 no-subscription',
      '404 no-subscription',
      '400 usage',
      '400 bad-input',
    ])
    expect(store.version()).toBe(before)
  })

  test('half a body, or none that is HTTP, is answered and changes nothing', async () => {
    const before = store.version()
    const { socketPath } = apiSocket(data)
    const body = '{"label":"half","product":["bundle"]}'
    const head = `POST /v1/subscription/add HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json`
    const half = `${head}\r\ncontent-length: ${body.length + 9}\r\n\r\n${body}`
    expect(await writeAndEnd(socketPath, half)).toMatch(/^HTTP\/1.1 400 [\s\S]*broken-request/)
    expect(await writeAndEnd(socketPath, 'hello\r\n\r\n')).toMatch(/^HTTP\/1.1 400 /)
    const odd = 'GET //[ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n'
    expect(await writeAndEnd(socketPath, odd)).toMatch(/^HTTP\/1.1 404 /)
    const long = `GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`
    expect(await writeAndEnd(socketPath, long)).toMatch(/^HTTP\/1.1 431 /)
    expect(store.version()).toBe(before)
    expect(store.find('half')).toBeNull()
  })
})

test('a body that does not end in time is answered with 408 and changes nothing', async () => {
  const before = store.version()
  await api.stop()
  api = await open({ requestMsMax: 200 })
  const socket = connectLocal(apiSocket(data).socketPath)
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  socket.write(
    'POST /v1/subscription/add HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{',
  )
  await once(socket, 'close')
  expect(text).toMatch(/^HTTP\/1.1 408 [\s\S]*too-slow/)
  expect(store.version()).toBe(before)
  await api.stop()
  api = await open()
})

describe('an idempotency key', () => {
  const path = '/v1/subscription/add'
  const body = (label: string) => ({ label, product: ['bundle', 'indexer'] })
  const key = (name: string) => ({ 'idempotency-key': name })

  test('makes a change once, at the same time and after a restart, and keeps no secret', async () => {
    const before = store.version()
    const same = await Promise.all(
      [1, 2, 3].map(() => post(path, body('twice'), key('8c1e8f1e-a'))),
    )
    expect(same.map(({ status }) => status)).toEqual([200, 200, 200])
    const answers = same.map((answer) => answer.json())
    const first = answers.find(({ repeated }) => repeated === undefined)!
    expect(answers.filter(({ repeated }) => repeated === true)).toHaveLength(2)
    expect(first).toMatchObject({ token: expect.any(String) })
    expect(store.version()).toBe(before + 1)
    await api.stop()
    api = await open()
    const later = await post(path, body('twice'), key('8c1e8f1e-a'))
    const { subscription, indexer } = first as { subscription: object; indexer: { user: string } }
    expect(later.json()).toEqual({ subscription, indexer: { user: indexer.user }, repeated: true })
    const other = await post(path, body('other'), key('8c1e8f1e-a'))
    expect([other.status, other.code]).toEqual([422, 'key-reused'])
    expect(store.version()).toBe(before + 1)
  })

  test('of a refused change may be used again; a rotation is repeated without its token', async () => {
    expect((await post(path, body('twice'), key('again'))).code).toBe('label-taken')
    expect((await post(path, body('thrice'), key('again'))).status).toBe(200)
    const rotate = () => post('/v1/token/rotate', { subscription: 'thrice' }, key('turn'))
    expect((await rotate()).json()).toHaveProperty('token')
    const digest = store.registered(store.find('thrice')!.id)!.tokenDigest
    expect((await rotate()).json()).toEqual({
      subscription: expect.anything(),
      graceUntil: null,
      repeated: true,
    })
    expect(store.registered(store.find('thrice')!.id)!.tokenDigest).toBe(digest)
  })

  test('is one of its caller, and has a form', async () => {
    const named = await post('/v1/note/add', note('a'), { ...key('mine'), ...bearer() })
    expect(named.status).toBe(200)
    expect((await post('/v1/note/add', note('b'), key('mine'))).status).toBe(200)
    expect((await post('/v1/note/add', note('c'), key('x'.repeat(129)))).code).toBe(
      'bad-idempotency-key',
    )
  })
  const note = (text: string) => ({ subscription: 'thrice', text })

  test('of a change that was cut off is refused until it was looked at', async () => {
    const request = body('cut')
    store.answers.begin('socket', 'cut', `${path} ${JSON.stringify(request)}`)
    const answer = await post(path, request, key('cut'))
    expect([answer.status, answer.code]).toEqual([409, 'outcome-unknown'])
    expect(store.find('cut')).toBeNull()
  })
})

test.skipIf(!hasOpenssl)('on a port with TLS it takes a renewed certificate', async () => {
  const pair = makePair(join(data, 'tls'), 'first')
  const files = { certPath: join(data, 'tls', 'c'), keyPath: join(data, 'tls', 'k') }
  copyPair(pair, files)
  const certificates = new CertificatePair(files, silentLog)
  rmSync(apiSocket(data).socketPath)
  const secure = await open({ certificates })
  const subject = () =>
    new Promise<string>((done, fail) => {
      const socket = connect(
        { port: secure.address!.port, host: '127.0.0.1', rejectUnauthorized: false },
        () => {
          done(String(socket.getPeerCertificate().subject.CN))
          socket.destroy()
        },
      )
      socket.on('error', fail)
    })
  expect([secure.address!.tls, await subject()]).toEqual([true, 'first'])
  copyPair(makePair(join(data, 'tls'), 'second'), files)
  certificates.check()
  expect(await subject()).toBe('second')
  certificates.stop()
  await secure.stop()
  await api.stop()
  api = await open()
})

test('/metrics passes on what the server has, in the format of the scraper', async () => {
  const text = await local('/metrics')
  expect([text.status, text.headers['content-type']]).toEqual([200, 'text/plain; version=0.0.4'])
  expect(text.text).toContain('# text\n')
  const open = await local('/metrics', { headers: { accept: 'application/openmetrics-text' } })
  expect(open.text).toContain('# openmetrics\n')
})

test('the command issues, lists and revokes credentials; no customer endpoint takes one', async () => {
  const run = (...words: string[]) => runHere(...words, '--data', data, '--json')
  const added = (await run('operator', 'add', 'nightly')).json() as { token: string }
  const headers = bearer(added.token)
  expect((await local('/v1/status', { headers })).status).toBe(200)
  const list = (await run('operator', 'list')).json() as { operators: object[] }
  expect(list.operators).toMatchObject([
    { name: 'ci', state: 'active' },
    { name: 'nightly', state: 'active', tokenLast4: added.token.slice(-4) },
  ])
  expect(JSON.stringify(list)).not.toContain(added.token)
  expect((await run('subscription', 'show', 'nightly')).code).toBe(3)
  expect((await run('subscription', 'set', 'nightly', '--product', 'bundle')).code).toBe(1)
  expect((await run('operator', 'revoke', 'nightly')).code).toBe(1)
  expect((await run('operator', 'revoke', 'nightly', '--yes', '--reason', 'leak')).code).toBe(0)
  expect((await local('/v1/status', { headers })).code).toBe('bad-credential')
  expect((await run('operator', 'revoke', 'nightly', '--yes')).code).toBe(3)
  expect([...store.audit()].slice(-2)).toMatchObject([
    { what: 'operator.add' },
    { what: 'operator.revoke', reason: 'leak' },
  ])
  expect(store.verifyAudit().ok).toBe(true)
})
