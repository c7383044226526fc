import { expect, test } from 'vitest'
import { Access, Repeats } from '../../../../src/operator/api/access.ts'

function gate() {
  const time = { ms: 1_000 }
  const clock = { nowMs: () => 0, monotonicMs: () => time.ms }
  const store = {
    version: () => 0,
    changedSince: () => null,
    registered: () => null,
    allRegistered: () => [],
    find: () => null,
  }
  const access = new Access(store, { clock, user: 'olga', hosts: [] })
  const failFrom = (address: string) => {
    const answer = access.check({ headers: { host: 'localhost:1' }, address })
    return 'status' in answer ? answer.status : 200
  }
  return { time, failFrom }
}

test('five failures of an address are counted for a minute from the first', () => {
  const { time, failFrom } = gate()
  for (let failures = 0; failures < 5; failures++) {
    expect(failFrom('192.0.2.1')).toBe(401)
    time.ms += 10_000
  }
  expect(failFrom('192.0.2.1')).toBe(429)
  expect(failFrom('192.0.2.2')).toBe(401)
  time.ms += 10_000
  expect(failFrom('192.0.2.1')).toBe(401)
})

test('an IPv6 client has one count for its /64', () => {
  const { failFrom } = gate()
  for (let host = 1; host <= 5; host++) expect(failFrom(`2001:db8::${host}`)).toBe(401)
  expect(failFrom('2001:db8::6')).toBe(429)
  expect(failFrom('2001:db8:0:1::6')).toBe(401)
})

test('the addresses that are counted are bounded: the quietest one is forgotten', () => {
  const { failFrom } = gate()
  for (let tries = 0; tries < 5; tries++) failFrom('192.0.2.1')
  for (let host = 0; host < 10_000; host++) failFrom(`10.0.${host >> 8}.${host & 255}`)
  expect(failFrom('192.0.2.1')).toBe(401)
})

test('what was made under a key is told, also where the answer cannot be stored', async () => {
  const full = () => {
    throw new Error('MDB_MAP_FULL')
  }
  const repeats = new Repeats({ begin: () => 'begun', end: full } as never)
  const made = { status: 200, body: '{"token":"secret"}' }
  const keyed = { caller: 'ci', key: 'one', request: '/v1/subscription/add {}' }
  expect(await repeats.once(keyed, async () => made)).toEqual(made)
})
