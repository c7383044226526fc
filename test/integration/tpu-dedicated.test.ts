// The TPU Sender called with a token: a dedicated node's transactions go to its own set.
import type { KeyPairSigner } from '@solana/kit'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Principal } from '../../src/customers/auth/token.ts'
import { FakeSender } from '../testkit/fake-senders.ts'
import { newPayer, sign, transfer } from '../testkit/tipped.ts'
import { TpuStage } from '../testkit/tpu-stage.ts'

const shared = new FakeSender()
const own = new FakeSender()
const stage = new TpuStage()
let payer: KeyPairSigner
let serial = 1_000_000n

/** Tokens are the names of sets here; `bundle` is bound to none. */
const principals = new Map(
  ['own', 'gone', 'bundle'].map((name) => {
    const upstream = name === 'bundle' ? null : name
    return [name, { subscription: { id: name, upstream }, digest: name } as unknown as Principal]
  }),
)

beforeAll(async () => {
  const gate = {
    admit: (_: unknown, { xToken = '' }: { readonly xToken?: string }) =>
      principals.get(xToken) ?? null,
    isExpired: () => false,
  }
  await stage.start({}, [shared], { gate, dedicated: { own: [own] } })
  payer = await newPayer()
})
afterAll(() => stage.dispose())

async function send(path: string, headers: Readonly<Record<string, string>>) {
  const to = stage.tpu.tipAccounts()[0]!
  const body = await sign(payer, [transfer({ from: payer, to, lamports: serial++ })])
  const type = 'application/octet-stream'
  const answer = await fetch(`${stage.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': type, ...headers },
    body,
  })
  return { status: answer.status, headers: answer.headers, json: await answer.json() }
}
const path = '/api/v1/transactions'
/** Distinct transactions: what has not landed is resent. */
const sentBy = ({ sent }: FakeSender) =>
  new Set(sent.map((bytes) => Buffer.from(bytes).toString('hex'))).size

it('sends to its own set and to no other', async () => {
  expect(await send(path, { 'x-token': 'own' })).toMatchObject({ status: 200 })
  expect([sentBy(own), sentBy(shared)]).toEqual([1, 0])
})

it('sends without a token, or with one that is bound to no set, as ever', async () => {
  expect(await send(path, {})).toMatchObject({ status: 200 })
  expect(await send(path, { 'x-token': 'bundle' })).toMatchObject({ status: 200 })
  expect([sentBy(own), sentBy(shared)]).toEqual([1, 2])
})

it('refuses a bad token with 401 and sends nothing', async () => {
  const refused = await send(path, { 'x-token': 'wrong' })
  expect(refused).toMatchObject({ status: 401, json: { error: { code: -32401 } } })
  expect(refused.headers.get('www-authenticate')).toBe('Bearer')
  const bearer = await send('/batch', { authorization: 'Bearer wrong' })
  expect(bearer.status).toBe(401)
  expect([sentBy(own), sentBy(shared)]).toEqual([1, 2])
})

it('refuses while its own set is down or gone, and never sends elsewhere', async () => {
  expect(await send(path, { 'x-token': 'gone' })).toMatchObject({ status: 503 })
  own.isHealthy = false
  expect(await send(path, { 'x-token': 'own' })).toMatchObject({ status: 503 })
  expect((await fetch(`${stage.url}/health`)).status).toBe(200)
  const health = await fetch(`${stage.url}/health`, { headers: { 'x-token': 'own' } })
  expect(health.status).toBe(503)
  expect([sentBy(own), sentBy(shared)]).toEqual([1, 2])
})

it('demands the tip of a dedicated customer, too', async () => {
  own.isHealthy = true
  const body = await sign(payer, [])
  const headers = { 'content-type': 'application/octet-stream', 'x-token': 'own' }
  const answer = await fetch(`${stage.url}${path}`, { method: 'POST', headers, body })
  expect(await answer.json()).toMatchObject({ error: { data: { reason: 'TIP_MISSING' } } })
})
