import { expect, test } from 'vitest'
import { checkNodes, checkUsagePush } from '../../../../src/operator/commands/doctor.ts'

test('names the nodes that the server keeps out for what they report', () => {
  const upstreams = [
    { name: 'default/1', state: 'up', genesis: 'ours' },
    { name: 'default/2', state: 'foreign', genesis: 'theirs' },
    { name: 'default/3', state: 'ahead', slot: 4_000_000_000 },
    { name: 'default/4', state: 'distrusted', reason: 'its answers have other ids' },
    { name: 'default/5', state: 'drained', reason: 'by alice' },
    { name: 'default/6', state: 'up', reason: 'its geyser stream is silent' },
    { name: 'default/7', state: 'down', reason: 'ECONNREFUSED' },
  ]
  const checks = checkNodes({ ok: true, value: { upstreams } })
  expect(checks.map(({ name, state }) => [name, state])).toEqual([
    ['node default/2', 'fail'],
    ['node default/3', 'fail'],
    ['node default/4', 'fail'],
    ['node default/5', 'warn'],
    ['node default/6', 'warn'],
  ])
  expect(checks[3]).toMatchObject({
    found: 'is drained by alice',
    next: 'run npx --no -- sluice node resume default 5',
  })
  expect(checks[0]!.found).toContain('theirs')
  expect(checks[1]!.found).toContain('4000000000')
})

test('checks no node of a server that does not run or is an older one', () => {
  expect(checkNodes({ ok: false, reason: 'no-server', message: '' })).toEqual([])
  expect(checkNodes({ ok: true, value: {} })).toEqual([])
})

test('the receiver of usage is checked where the server pushes it', () => {
  const answer = (usagePush: object) => ({ ok: true, value: { usagePush } }) as const
  const push = { to: 'https://a.example', rows: 0, ageMs: 0, problem: null, lostRows: 0 }
  const failing = { ...push, rows: 3, ageMs: 61_000, problem: 'https://a.example answered 503' }
  expect(checkUsagePush({ ok: true, value: {} })).toEqual([])
  expect(checkUsagePush(answer(push))).toMatchObject([{ state: 'ok', found: push.to }])
  expect(checkUsagePush(answer(failing))).toMatchObject([
    {
      state: 'warn',
      found: `${push.to}, 3 rows wait for 1 min 1 s (https://a.example answered 503)`,
    },
  ])
  expect(checkUsagePush(answer({ ...push, lostRows: 2 }))).toMatchObject([{ state: 'fail' }])
})
