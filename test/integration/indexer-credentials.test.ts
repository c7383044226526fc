// Authentication, Indexer: a query carries user, password and x-token of one active subscription.
// Every other combination is 401 with one text, before the body is read.
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Issued } from '../../src/customers/subscriptions/subscription.ts'
import { IndexerStage } from '../testkit/indexer-stage.ts'

const stage = new IndexerStage()
const by = { who: 'test' }
let mine: Issued
let other: Issued

beforeAll(async () => {
  await stage.open()
  mine = stage.bundle.issue({ products: ['indexer', 'bundle'] })
  other = stage.bundle.issue({ products: ['indexer'] })
})
afterAll(() => stage.bundle.dispose())

type Sent = Readonly<Record<string, string>>

const basic = ({ indexer }: Issued, password = indexer!.password): Sent => ({
  authorization: `Basic ${Buffer.from(`${indexer!.user}:${password}`).toString('base64')}`,
})
const headers = ({ indexer }: Issued): Sent => ({
  'x-clickhouse-user': indexer!.user,
  'x-clickhouse-key': indexer!.password,
})
const token = (issued: Issued): Sent => ({ 'x-token': issued.token })

async function ask(sent: Sent, query = '', at = stage) {
  const answer = await fetch(`${at.url}/${query}`, {
    method: 'POST',
    headers: sent,
    body: 'SELECT 1',
  })
  return { status: answer.status, headers: answer.headers, text: await answer.text() }
}

describe('credentials of the indexer', () => {
  it('are the pair and the token of one subscription, in either form', async () => {
    expect((await ask({ ...basic(mine), ...token(mine) })).status).toBe(200)
    expect((await ask({ ...headers(mine), ...token(mine) })).status).toBe(200)
    const get = await fetch(`${stage.url}/?query=SELECT%201`, {
      headers: { ...basic(mine), ...token(mine) },
    })
    expect(get.status).toBe(200)
  })

  it('are refused in every other combination, with one text', async () => {
    const suspended = stage.bundle.issue({ products: ['indexer'] })
    stage.bundle.store.suspend(suspended.subscription.id, by)
    const rotated = stage.bundle.issue({ products: ['indexer'] })
    stage.bundle.store.rotate(rotated.subscription.id, { graceMs: 0 }, by)
    const changed = stage.bundle.issue({ products: ['indexer'] })
    stage.bundle.store.rotateIndexer(changed.subscription.id, by)
    const bundleOnly = stage.bundle.issue({ products: ['bundle'] })
    const elsewhere = stage.bundle.issue({ products: ['indexer'], cidrs: ['10.0.0.0/8'] })
    stage.bundle.directory.refresh()
    const { user, password } = mine.indexer!
    const inUrl = `?user=${user}&password=${password}`
    const tries: readonly (readonly [Sent, string?])[] = [
      [{}],
      [token(mine)],
      [basic(mine)],
      [headers(mine)],
      [{ ...basic(mine), ...token(other) }],
      [{ ...basic(other), ...token(mine) }],
      [{ ...headers(mine), ...token(other) }],
      [{ ...basic(mine, 'wrong'), ...token(mine) }],
      [{ ...basic(mine, ''), ...token(mine) }],
      [{ ...basic(mine), 'x-token': `${mine.token}x` }],
      [{ ...basic(mine), 'x-token': '' }],
      [{ ...basic(mine), 'x-api-key': mine.token }],
      [{ authorization: `Bearer ${mine.token}` }],
      [{ ...headers(mine), authorization: `Bearer ${mine.token}` }],
      [{ 'x-clickhouse-user': user, ...token(mine) }],
      [{ 'x-clickhouse-key': password, ...token(mine) }],
      [token(mine), inUrl],
      [{ ...basic(mine), ...token(mine) }, inUrl],
      [{ ...basic(mine), ...token(mine) }, '?password='],
      [basic(mine), `?api-key=${mine.token}`],
      [{ ...basic(suspended), ...token(suspended) }],
      [{ ...basic(rotated), ...token(rotated) }],
      [{ ...basic(changed), ...token(changed) }],
      [{ ...basic(elsewhere), ...token(elsewhere) }],
      [{ ...basic(mine), ...token(bundleOnly) }],
    ]
    const before = stage.engine.queries.length
    const texts = new Set<string>()
    for (const [sent, query] of tries) {
      const answer = await ask(sent, query)
      expect([JSON.stringify(Object.keys(sent)), query, answer.status]).toEqual([
        JSON.stringify(Object.keys(sent)),
        query,
        401,
      ])
      expect(answer.headers.get('www-authenticate')).toBe('Basic')
      texts.add(answer.text)
    }
    expect([...texts]).toEqual([
      expect.stringMatching(/^Code: 516\. DB::Exception: .+\. \(AUTHENTICATION_FAILED\)\n$/),
    ])
    expect(stage.engine.queries.length).toBe(before)
  })

  it('are checked before path, verb and body', async () => {
    for (const path of ['/other', '/play/x', '/ping'])
      expect((await fetch(`${stage.url}${path}`, { method: 'POST' })).status).toBe(401)
    const answer = await new Promise<string>((resolve) => {
      const socket = connect(stage.port, '127.0.0.1')
      // The body never comes.
      socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n')
      socket.once('data', (data) => {
        socket.destroy()
        resolve(data.toString())
      })
    })
    expect(answer).toMatch(/^HTTP\/1\.1 401 /)
  })

  it('are wrong when a header is sent twice', async () => {
    const lines = Object.entries({ ...basic(mine), ...token(mine), 'X-Token': mine.token })
    const answer = await new Promise<string>((resolve) => {
      const socket = connect(stage.port, '127.0.0.1')
      const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
      socket.write(`GET /?query=SELECT%201 HTTP/1.1\r\nhost: x\r\n${head}\r\n`)
      socket.once('data', (data) => {
        socket.destroy()
        resolve(data.toString())
      })
    })
    expect(answer).toMatch(/^HTTP\/1\.1 401 /)
  })
})

describe('a password that contains the token (indexer.tokenInPassword)', () => {
  const joining = new IndexerStage()
  let own: Issued
  let second: Issued

  beforeAll(async () => {
    await joining.open([], { tokenInPassword: true })
    own = joining.bundle.issue({ products: ['indexer', 'bundle'] })
    second = joining.bundle.issue({ products: ['indexer'] })
  })
  afterAll(() => joining.bundle.dispose())

  const joined = (issued: Issued, word: string = issued.token): Sent =>
    basic(issued, `${issued.indexer!.password}.${word}`)
  const statusOf = async (sent: Sent, query = '') => (await ask(sent, query, joining)).status

  it('lets a client in that can send Basic alone, in either form of the pair', async () => {
    expect(await statusOf(joined(own))).toBe(200)
    const [user, key] = [own.indexer!.user, `${own.indexer!.password}.${own.token}`]
    expect(await statusOf({ 'x-clickhouse-user': user, 'x-clickhouse-key': key })).toBe(200)
    const get = await fetch(`${joining.url}/?query=SELECT%201`, { headers: joined(own) })
    expect(get.status).toBe(200)
    expect(await statusOf({ ...basic(own), ...token(own) })).toBe(200)
  })

  it('is refused while the key is off', async () => {
    const { status, text } = await ask(joined(mine))
    expect([status, text]).toEqual([401, (await ask({})).text])
    expect((await ask({ ...joined(mine), ...token(mine) })).status).toBe(401)
  })

  it('is refused with a half that is wrong, and beside a token in the header', async () => {
    const { password } = own.indexer!
    const suspended = joining.bundle.issue({ products: ['indexer'] })
    joining.bundle.store.suspend(suspended.subscription.id, by)
    joining.bundle.directory.refresh()
    const before = joining.engine.queries.length
    const tries: readonly (readonly [Sent, string?])[] = [
      [basic(own)],
      [basic(own, own.token)],
      [basic(own, `.${own.token}`)],
      [basic(own, `${own.token}.${password}`)],
      [basic(own, `${password}${own.token}`)],
      [basic(own, `${password}..${own.token}`)],
      [joined(own, '')],
      [joined(own, second.token)],
      [joined(own, `${own.token}.`)],
      [joined(own, `${own.token}.${own.token}`)],
      [joined(own, own.token.replace(/.$/, '.'))],
      [joined(own, `${own.token.slice(0, 9)}.${own.token.slice(9)}`)],
      [basic(second, `${password}.${own.token}`)],
      [joined(suspended)],
      [{ ...joined(own), ...token(own) }],
      [joined(own), `?user=${own.indexer!.user}&password=${password}.${own.token}`],
    ]
    for (const [at, [sent, query]] of tries.entries())
      expect([at, await statusOf(sent, query)]).toEqual([at, 401])
    expect(joining.engine.queries.length).toBe(before)
  })

  it('gives neither half to the program, nor to what is logged', async () => {
    expect(await statusOf(joined(own), `?query_id=${own.indexer!.password}`)).toBe(400)
    const kept = [joining.engine.queries, joining.logged, joining.usage]
    const text = JSON.stringify(kept, (_, one) => (typeof one === 'bigint' ? String(one) : one))
    for (const secret of [own.token, own.indexer!.password]) expect(text).not.toContain(secret)
  })

  it('works on no other endpoint', () => {
    const { user, password } = own.indexer!
    const sent = { basic: { user, password: `${password}.${own.token}` } }
    expect(joining.bundle.gate.admit('rpc', sent, '127.0.0.1')).toBeNull()
    expect(joining.bundle.gate.admit('indexer', sent, '127.0.0.1')).toBeNull()
  })
})
