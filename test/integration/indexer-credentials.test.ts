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

async function ask(sent: Sent, query = '') {
  const answer = await fetch(`${stage.url}/${query}`, {
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
