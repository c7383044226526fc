import { expect, test } from 'vitest'
import { checkNodes } from '../../../../src/operator/commands/doctor.ts'

test('names the nodes that the server keeps out for what they report', () => {
  const upstreams = [
    { name: 'default/1', state: 'up', genesis: 'ours' },
    { name: 'default/2', state: 'foreign', genesis: 'theirs' },
    { name: 'default/3', state: 'ahead', slot: 4_000_000_000 },
  ]
  const checks = checkNodes({ ok: true, value: { upstreams } })
  expect(checks.map(({ name, state }) => [name, state])).toEqual([
    ['node default/2', 'fail'],
    ['node default/3', 'fail'],
  ])
  expect(checks[0]!.found).toContain('theirs')
  expect(checks[1]!.found).toContain('4000000000')
})

test('checks no node of a server that does not run or is an older one', () => {
  expect(checkNodes({ ok: false, reason: 'no-server', message: '' })).toEqual([])
  expect(checkNodes({ ok: true, value: {} })).toEqual([])
})
